//! OPEN (RFC 4271 §4.2) with its capabilities (RFC 5492), the extended form of its optional
//! parameters included (RFC 9072).
//!
//! What is checked here needs no configuration: version, hold time 1 and 2, identifier zero
//! (RFC 6286 §2.1), AS 0 (RFC 7607). Whether the AS is the right one is the session's business.

use std::net::Ipv4Addr;

use crate::capability::Capability;

/// The version of BGP (RFC 4271 §4.2).
pub(crate) const VERSION: u8 = 4;
/// The optional parameter that holds capabilities (RFC 5492 §4).
pub(crate) const CAPABILITIES: u8 = 2;
/// The type, and the short length, that announce the extended form (RFC 9072 §2).
pub(crate) const EXTENDED: u8 = 255;

/// An OPEN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// "My Autonomous System" as on the wire: AS_TRANS for a larger one (RFC 6793 §9).
    pub wire_asn: u16,
    /// Seconds; 0 or at least 3.
    pub hold_time: u16,
    /// Not zero.
    pub id: Ipv4Addr,
    /// In the order of the wire, duplicates included.
    pub capabilities: Vec<Capability>,
}

impl Open {
    /// The sender's AS number: that of the four-octet capability where present (RFC 6793 §4.1).
    pub fn asn(&self) -> u32 {
        self.capabilities
            .iter()
            .find_map(|capability| match capability {
                Capability::FourOctetAs(asn) => Some(*asn),
                _ => None,
            })
            .unwrap_or(u32::from(self.wire_asn))
    }
}
