//! Communities as numbers: RFC 1997 (four octets), RFC 8092 (twelve), RFC 4360 (eight, kept and
//! passed on, not understood).

use std::fmt;

/// RFC 1997: AS number and value, two octets each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Community(pub u32);

impl Community {
    /// RFC 8326 §2: routes through here are about to go.
    pub const GRACEFUL_SHUTDOWN: Self = Self(0xFFFF_0000);
    /// RFC 1997: not beyond the AS.
    pub const NO_EXPORT: Self = Self(0xFFFF_FF01);
    /// RFC 1997: not to any peer.
    pub const NO_ADVERTISE: Self = Self(0xFFFF_FF02);
    /// RFC 1997: not to external peers at all.
    pub const NO_EXPORT_SUBCONFED: Self = Self(0xFFFF_FF03);
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0 >> 16, self.0 & 0xFFFF)
    }
}

/// RFC 8092: three numbers of four octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LargeCommunity(pub u32, pub u32, pub u32);

impl fmt::Display for LargeCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.0, self.1, self.2)
    }
}

/// RFC 4360: eight octets, kept as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtendedCommunity(pub [u8; 8]);
