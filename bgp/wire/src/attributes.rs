//! Path attributes as values: what a set of routes has in common. Decides nothing about them;
//! `decode` says which bytes become a value, policy and decision say what a value means.
//!
//! Everything in here is comparable and hashable as a whole, because the RIB keeps each distinct
//! set once.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::community::{Community, ExtendedCommunity, LargeCommunity};

/// Stands for a number that does not fit into two octets (RFC 6793 §9).
pub const AS_TRANS: u32 = 23_456;

/// Attribute type codes (IANA).
pub mod code {
    /// RFC 4271 §5.1.1.
    pub const ORIGIN: u8 = 1;
    /// RFC 4271 §5.1.2.
    pub const AS_PATH: u8 = 2;
    /// RFC 4271 §5.1.3.
    pub const NEXT_HOP: u8 = 3;
    /// MULTI_EXIT_DISC, RFC 4271 §5.1.4.
    pub const MED: u8 = 4;
    /// RFC 4271 §5.1.5.
    pub const LOCAL_PREF: u8 = 5;
    /// RFC 4271 §5.1.6.
    pub const ATOMIC_AGGREGATE: u8 = 6;
    /// RFC 4271 §5.1.7.
    pub const AGGREGATOR: u8 = 7;
    /// RFC 1997.
    pub const COMMUNITIES: u8 = 8;
    /// RFC 4456 §8.
    pub const ORIGINATOR_ID: u8 = 9;
    /// RFC 4456 §8.
    pub const CLUSTER_LIST: u8 = 10;
    /// RFC 4760 §3.
    pub const MP_REACH: u8 = 14;
    /// RFC 4760 §4.
    pub const MP_UNREACH: u8 = 15;
    /// RFC 4360.
    pub const EXTENDED_COMMUNITIES: u8 = 16;
    /// RFC 6793 §3.
    pub const AS4_PATH: u8 = 17;
    /// RFC 6793 §3.
    pub const AS4_AGGREGATOR: u8 = 18;
    /// RFC 8092.
    pub const LARGE_COMMUNITIES: u8 = 32;
    /// RFC 9234 §5.
    pub const ONLY_TO_CUSTOMER: u8 = 35;
}

/// Attribute flags (RFC 4271 §4.3).
pub(crate) mod flag {
    use super::code;

    pub(crate) const OPTIONAL: u8 = 0x80;
    pub(crate) const TRANSITIVE: u8 = 0x40;
    pub(crate) const PARTIAL: u8 = 0x20;
    pub(crate) const EXTENDED_LENGTH: u8 = 0x10;

    /// Those that an attribute must have; `None` where we do not know the attribute.
    pub(crate) fn of(kind: u8) -> Option<u8> {
        match kind {
            code::ORIGIN
            | code::AS_PATH
            | code::NEXT_HOP
            | code::LOCAL_PREF
            | code::ATOMIC_AGGREGATE => Some(TRANSITIVE),
            code::MED
            | code::ORIGINATOR_ID
            | code::CLUSTER_LIST
            | code::MP_REACH
            | code::MP_UNREACH => Some(OPTIONAL),
            code::AGGREGATOR
            | code::COMMUNITIES
            | code::EXTENDED_COMMUNITIES
            | code::AS4_PATH
            | code::AS4_AGGREGATOR
            | code::LARGE_COMMUNITIES
            | code::ONLY_TO_CUSTOMER => Some(OPTIONAL | TRANSITIVE),
            _ => None,
        }
    }
}

/// One set of path attributes (RFC 4271 §5), the next hop included, prefixes not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// RFC 4271 §5.1.1.
    pub origin: Origin,
    /// RFC 4271 §5.1.2; four-octet numbers always (RFC 6793), AS4_PATH already merged.
    pub as_path: AsPath,
    /// RFC 4271 §5.1.3, or the one of MP_REACH_NLRI (RFC 4760 §3).
    pub next_hop: NextHop,
    /// RFC 4271 §5.1.4.
    pub med: Option<u32>,
    /// RFC 4271 §5.1.5.
    pub local_pref: Option<u32>,
    /// RFC 4271 §5.1.6.
    pub atomic_aggregate: bool,
    /// RFC 4271 §5.1.7.
    pub aggregator: Option<Aggregator>,
    /// RFC 1997, in the order received.
    pub communities: Vec<Community>,
    /// RFC 4360.
    pub extended_communities: Vec<ExtendedCommunity>,
    /// RFC 8092, in the order received, each once (§2: nor may one be sent twice).
    pub large_communities: Vec<LargeCommunity>,
    /// RFC 4456 §8.
    pub originator_id: Option<Ipv4Addr>,
    /// RFC 4456 §8.
    pub cluster_list: Vec<Ipv4Addr>,
    /// Only To Customer (RFC 9234 §5).
    pub only_to_customer: Option<u32>,
    /// Optional transitive ones that we do not know, passed on with Partial set (RFC 4271 §9).
    pub unknown: Vec<Unknown>,
}

impl Attributes {
    /// The least that a route needs.
    pub fn new(origin: Origin, next_hop: NextHop) -> Self {
        Self {
            origin,
            as_path: AsPath::default(),
            next_hop,
            med: None,
            local_pref: None,
            atomic_aggregate: false,
            aggregator: None,
            communities: Vec::new(),
            extended_communities: Vec::new(),
            large_communities: Vec::new(),
            originator_id: None,
            cluster_list: Vec::new(),
            only_to_customer: None,
            unknown: Vec::new(),
        }
    }
}

/// Where the originating AS had the route from; smaller is better (RFC 4271 §9.1.2.2 b).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// Interior to the originating AS.
    Igp,
    /// By EGP.
    Egp,
    /// By other means.
    Incomplete,
}

/// Where packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NextHop {
    /// An IPv4 router.
    V4(Ipv4Addr),
    /// An IPv6 router, for IPv6 (RFC 2545) or IPv4 (RFC 8950) routes.
    V6 {
        /// Where it is known by all; unspecified where a peer sent a link-local address alone.
        global: Ipv6Addr,
        /// On the shared link (RFC 2545 §3).
        link_local: Option<Ipv6Addr>,
    },
}

/// RFC 4271 §4.3 b: segments, the nearest AS first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AsPath {
    /// In the order of the wire; none is empty.
    pub segments: Vec<Segment>,
}

/// A piece of an AS_PATH.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment {
    /// Ordered or not.
    pub kind: SegmentKind,
    /// At least one, at most 255 as received.
    pub asns: Vec<u32>,
}

/// RFC 4271 §4.3 b, RFC 5065 §3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    /// AS_SET.
    Set,
    /// AS_SEQUENCE.
    Sequence,
    /// AS_CONFED_SEQUENCE.
    ConfedSequence,
    /// AS_CONFED_SET.
    ConfedSet,
}

impl SegmentKind {
    /// Whether it says something inside a confederation only (RFC 5065 §3).
    pub fn is_confederation(self) -> bool {
        matches!(self, Self::ConfedSequence | Self::ConfedSet)
    }
}

impl AsPath {
    /// The path of a route that we originate, as told with our own number in front.
    pub fn sequence(asns: impl IntoIterator<Item = u32>) -> Self {
        let asns: Vec<u32> = asns.into_iter().collect();
        if asns.is_empty() {
            return Self::default();
        }
        Self { segments: vec![Segment { kind: SegmentKind::Sequence, asns }] }
    }

    /// Hops for the decision: a set counts as one, confederation segments as none
    /// (RFC 4271 §9.1.2.2 a, RFC 5065 §5.3).
    pub fn hops(&self) -> usize {
        self.segments
            .iter()
            .map(|segment| match segment.kind {
                SegmentKind::Sequence => segment.asns.len(),
                SegmentKind::Set => 1,
                SegmentKind::ConfedSequence | SegmentKind::ConfedSet => 0,
            })
            .sum()
    }

    /// The AS that told us, where the path begins with a sequence.
    pub fn first(&self) -> Option<u32> {
        let segment = self.segments.first()?;
        (segment.kind == SegmentKind::Sequence).then(|| segment.asns.first().copied()).flatten()
    }

    /// Whether an AS number is anywhere in it.
    pub fn contains(&self, asn: u32) -> bool {
        self.segments.iter().any(|segment| segment.asns.contains(&asn))
    }

    /// Every number, in order, sets flattened.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments.iter().flat_map(|segment| segment.asns.iter().copied())
    }

    /// Puts `asn` in front `times` over (RFC 4271 §5.1.2 b), starting a segment where the first is
    /// no sequence or would grow over 255.
    pub fn prepend(&mut self, asn: u32, times: usize) {
        for _ in 0..times {
            match self.segments.first_mut() {
                Some(Segment { kind: SegmentKind::Sequence, asns }) if asns.len() < 255 => {
                    asns.insert(0, asn);
                }
                _ => self
                    .segments
                    .insert(0, Segment { kind: SegmentKind::Sequence, asns: vec![asn] }),
            }
        }
    }
}

/// RFC 4271 §5.1.7, four-octet form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Aggregator {
    /// Whose speaker formed the aggregate.
    pub asn: u32,
    /// Which one.
    pub id: Ipv4Addr,
}

/// An attribute that we do not know, optional and transitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unknown {
    /// Attribute type code.
    pub kind: u8,
    /// Optional, Transitive and Partial as they came; Partial is set when passed on.
    pub flags: u8,
    /// As it came.
    pub value: Box<[u8]>,
}
