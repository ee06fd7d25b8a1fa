//! UPDATE (RFC 4271 §4.3, RFC 4760) as it was read, and what was survived on the way (RFC 7606).

use ipnet::{Ipv4Net, Ipv6Net};

use crate::attributes::{Attributes, NextHop};
use crate::family::Family;
use crate::nlri::Nlri;

/// An UPDATE: routes that go, and routes that come with the attributes that they share.
///
/// The prefixes were checked and are read lazily. Where `faults` holds a
/// [`Disposition::TreatAsWithdraw`], `attributes` is `None` although there may be prefixes: all of
/// them count as withdrawn (RFC 7606 §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update<'a> {
    /// WITHDRAWN ROUTES.
    pub withdrawn: Nlri<'a, Ipv4Net>,
    /// MP_UNREACH_NLRI.
    pub mp_unreach: Option<MpUnreach<'a>>,
    /// NLRI.
    pub announced: Nlri<'a, Ipv4Net>,
    /// MP_REACH_NLRI.
    pub mp_reach: Option<MpReach<'a>>,
    /// What the routes of `announced` and `mp_reach` share, but the next hop: `next_hop` is NEXT_HOP
    /// where there is NLRI in `announced`, otherwise that of MP_REACH_NLRI (RFC 4760 §3). `None`: nothing is announced, or all is treated as withdrawn.
    pub attributes: Option<Attributes>,
    /// What was wrong and survived, in the order of the wire; at most one per attribute code.
    pub faults: Vec<Fault>,
    /// An End-of-RIB marker (RFC 4724 §2) of this family and nothing else.
    pub end_of_rib: Option<Family>,
}

/// MP_REACH_NLRI (RFC 4760 §3): prefixes with their next hop. Families that are not ours are
/// ignored as a whole and noted as a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MpReach<'a> {
    /// IPv4 by MP-BGP, perhaps with an IPv6 next hop (RFC 8950).
    V4(NextHop, Nlri<'a, Ipv4Net>),
    /// IPv6.
    V6(NextHop, Nlri<'a, Ipv6Net>),
}

impl MpReach<'_> {
    /// Whether there is no prefix in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::V4(_, nlri) => nlri.is_empty(),
            Self::V6(_, nlri) => nlri.is_empty(),
        }
    }
}

/// MP_UNREACH_NLRI (RFC 4760 §4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MpUnreach<'a> {
    /// IPv4.
    V4(Nlri<'a, Ipv4Net>),
    /// IPv6.
    V6(Nlri<'a, Ipv6Net>),
}

/// Something wrong with an attribute that does not end the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Attribute type code.
    pub attribute: u8,
    /// What follows from it.
    pub disposition: Disposition,
    /// What was wrong, for people.
    pub what: &'static str,
}

/// RFC 7606 §2, from mild to grave. Session reset is [`crate::Reset`], not one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disposition {
    /// The attribute is left out, the routes stand.
    Discard,
    /// The routes of the message are treated as withdrawn.
    TreatAsWithdraw,
}
