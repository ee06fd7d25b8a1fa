//! The two address families that flock speaks, as a value ([`Family`]) and as types ([`Net`]), so
//! that code that runs once per prefix is compiled for each family and has no branch on it.
//!
//! RFC 4760 §2; AFI and SAFI numbers of IANA.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// An address family with SAFI unicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// AFI 1, SAFI 1.
    Ipv4,
    /// AFI 2, SAFI 1.
    Ipv6,
}

impl Family {
    /// Both, in the order in which they are announced.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// The family of an (AFI, SAFI) pair, where it is one of ours.
    pub const fn from_wire(afi: u16, safi: u8) -> Option<Self> {
        match (afi, safi) {
            (1, 1) => Some(Self::Ipv4),
            (2, 1) => Some(Self::Ipv6),
            _ => None,
        }
    }

    /// Address family identifier.
    pub const fn afi(self) -> u16 {
        match self {
            Self::Ipv4 => 1,
            Self::Ipv6 => 2,
        }
    }

    /// Subsequent address family identifier.
    pub const fn safi(self) -> u8 {
        1
    }

    /// 0 for IPv4, 1 for IPv6: where it is in an array of both.
    pub const fn index(self) -> usize {
        match self {
            Self::Ipv4 => 0,
            Self::Ipv6 => 1,
        }
    }

    /// As operators write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4-unicast",
            Self::Ipv6 => "ipv6-unicast",
        }
    }
}

impl Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A prefix of one family: `Ipv4Net` or `Ipv6Net`, always masked where this crate made it.
#[allow(clippy::len_without_is_empty, reason = "the length of a prefix, not of a collection")]
pub trait Net: Copy + Eq + Ord + Hash + Debug + Display + Into<IpNet> + Send + 'static {
    /// Which family.
    const FAMILY: Family;
    /// The longest prefix.
    const MAX_LEN: u8;
    /// The prefix whose first `len` bits are those of `bits`, a left-aligned 128-bit number; the
    /// rest is cut off. `len` above [`Net::MAX_LEN`] counts as that.
    fn from_bits(bits: u128, len: u8) -> Self;
    /// The same where the rest is cut off already; bits beyond the family's are lost.
    fn from_masked(bits: u128, len: u8) -> Self;
    /// The address, left-aligned in 128 bits.
    fn bits(self) -> u128;
    /// Prefix length.
    fn len(self) -> u8;
    /// The prefix, where it is of this family.
    fn from_ip_net(net: IpNet) -> Option<Self>;
}

/// The first `len` of 128 bits.
#[inline]
pub(crate) fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128_u32.saturating_sub(len.into())).unwrap_or(0)
}

impl Net for Ipv4Net {
    const FAMILY: Family = Family::Ipv4;
    const MAX_LEN: u8 = 32;

    #[inline]
    fn from_bits(bits: u128, len: u8) -> Self {
        let len = len.min(32);
        Self::from_masked(bits & mask(len), len)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the upper 32 of 128 bits")]
    fn from_masked(bits: u128, len: u8) -> Self {
        Self::new(((bits >> 96) as u32).into(), len).unwrap_or_default()
    }

    #[inline]
    fn bits(self) -> u128 {
        u128::from(u32::from(self.addr())) << 96
    }

    #[inline]
    fn len(self) -> u8 {
        self.prefix_len()
    }

    fn from_ip_net(net: IpNet) -> Option<Self> {
        match net {
            IpNet::V4(net) => Some(net),
            IpNet::V6(_) => None,
        }
    }
}

impl Net for Ipv6Net {
    const FAMILY: Family = Family::Ipv6;
    const MAX_LEN: u8 = 128;

    #[inline]
    fn from_bits(bits: u128, len: u8) -> Self {
        let len = len.min(128);
        Self::from_masked(bits & mask(len), len)
    }

    #[inline]
    fn from_masked(bits: u128, len: u8) -> Self {
        Self::new(bits.into(), len).unwrap_or_default()
    }

    #[inline]
    fn bits(self) -> u128 {
        u128::from(self.addr())
    }

    #[inline]
    fn len(self) -> u8 {
        self.prefix_len()
    }

    fn from_ip_net(net: IpNet) -> Option<Self> {
        match net {
            IpNet::V6(net) => Some(net),
            IpNet::V4(_) => None,
        }
    }
}

/// The family of an address.
impl From<Ipv4Addr> for Family {
    fn from(_: Ipv4Addr) -> Self {
        Self::Ipv4
    }
}

impl From<Ipv6Addr> for Family {
    fn from(_: Ipv6Addr) -> Self {
        Self::Ipv6
    }
}
