//! A path of a prefix as it is kept: twelve bytes. Who told it and what it says are numbers.

use flock_bgp_wire::Attributes;

use super::interner::{Interner, NOTHING};
use crate::event::PeerKey;
use crate::policy::Withheld;

/// Ours, by origination.
const OURS: u8 = 1;
/// Kept from a peer that restarts (RFC 4724 §4.2).
const STALE: u8 = 1 << 1;
/// Said in an odd generation of `originate_all`.
const ODD: u8 = 1 << 2;

/// A path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    /// `NOTHING` where it was refused.
    attributes: u32,
    pub(super) path_id: u32,
    /// 0 where it is ours.
    peer: u16,
    flags: u8,
    pub(super) withheld: Option<Withheld>,
}

/// Which path of a prefix is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Ourselves,
    Peer(PeerKey, u32),
}

impl Path {
    pub(super) fn learned(peer: PeerKey, path_id: u32, route: Result<u32, Withheld>) -> Self {
        Self {
            attributes: route.unwrap_or(NOTHING),
            path_id,
            peer: peer.0,
            flags: 0,
            withheld: route.err(),
        }
    }

    pub(super) fn originated(attributes: u32, odd: bool) -> Self {
        let flags = if odd { OURS | ODD } else { OURS };
        Self { attributes, path_id: 0, peer: 0, flags, withheld: None }
    }

    pub(super) fn who(&self) -> Who {
        match self.peer() {
            Some(peer) => Who::Peer(peer, self.path_id),
            None => Who::Ourselves,
        }
    }

    /// `None`: ours.
    pub(super) fn peer(&self) -> Option<PeerKey> {
        (!self.ours()).then_some(PeerKey(self.peer))
    }

    pub(super) fn ours(&self) -> bool {
        self.flags & OURS != 0
    }

    pub(super) fn stale(&self) -> bool {
        self.flags & STALE != 0
    }

    pub(super) fn odd(&self) -> bool {
        self.flags & ODD != 0
    }

    /// The set, where it has one.
    pub(super) fn attributes(&self) -> Option<u32> {
        (self.attributes != NOTHING).then_some(self.attributes)
    }

    pub(super) fn into_stale(self) -> Self {
        Self { flags: self.flags | STALE, ..self }
    }

    /// As it stands when policy does not want it any more.
    pub(super) fn into_refused(self, why: Withheld) -> Self {
        Self { attributes: NOTHING, withheld: Some(why), ..self }
    }

    /// The same route from the same teller, as far as listeners can tell.
    pub(super) fn same_route(&self, other: &Self) -> bool {
        self.attributes == other.attributes && self.who() == other.who()
    }
}

/// An attribute set with what the decision would have to gather from several places.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) attributes: Attributes,
    /// RFC 4271 §9.1.2.2 a.
    pub(super) hops: usize,
    /// RFC 4271 §9.1.2.2 c; `None`: our own AS.
    pub(super) neighbour: Option<u32>,
}

impl Set {
    pub(super) fn new(attributes: Attributes) -> Self {
        Self { hops: attributes.as_path.hops(), neighbour: attributes.as_path.first(), attributes }
    }
}

// The rest follows from the attributes.
impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.attributes == other.attributes
    }
}

impl Eq for Set {}

impl std::hash::Hash for Set {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.attributes.hash(state);
    }
}

/// Every attribute set of both families.
pub(super) type Sets = Interner<Set>;
