//! Who has an address: decides whose word counts where several pods name the same one.

use std::net::IpAddr;

use super::kinds::{Key, KindKey, Kinds};
use super::peers::Policies;
use super::pool::Pool;
use crate::policy::blocks;

/// By what a pod has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    /// The API server says that it is its own.
    Own,
    /// This node gave it to it, and to nobody else.
    Given,
    /// This node delivers it there, and perhaps to others, whatever anybody says.
    Here,
    /// It says so itself.
    Claim,
}

/// One pod that has it. Pods of a kind are not told apart: it counts how often a kind is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) kind: u32,
    pub(super) rank: Rank,
}

/// Nearly all addresses have one holder, or the two that a pod of this node is.
#[derive(Debug, Default)]
pub(super) enum Holders {
    #[default]
    Nobody,
    One(Holder),
    More(Vec<Holder>),
}

impl Holders {
    pub(super) fn all(&self) -> &[Holder] {
        match self {
            Self::Nobody => &[],
            Self::One(holder) => std::slice::from_ref(holder),
            Self::More(holders) => holders,
        }
    }

    pub(super) fn add(&mut self, holder: Holder) {
        match self {
            Self::Nobody => *self = Self::One(holder),
            Self::One(first) => *self = Self::More(vec![*first, holder]),
            Self::More(holders) => holders.push(holder),
        }
    }

    /// One that is such.
    pub(super) fn remove(&mut self, holder: Holder) {
        match self {
            Self::One(one) if *one == holder => *self = Self::Nobody,
            Self::More(holders) => {
                if let Some(place) = holders.iter().position(|known| *known == holder) {
                    holders.swap_remove(place);
                }
                match holders.as_slice() {
                    [] => *self = Self::Nobody,
                    [one] => *self = Self::One(*one),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Whether a claim counts: not where the API server, or this node, calls the address somebody's own.
    pub(super) fn counting(&self) -> impl Fn(Rank) -> bool {
        let owns = |holder: &Holder| matches!(holder.rank, Rank::Own | Rank::Given);
        let owned = self.all().iter().any(owns);
        move |rank| !(owned && rank == Rank::Claim)
    }

    /// Whether one of a kind is among them.
    pub(super) fn has(&self, kind: u32) -> bool {
        self.all().iter().any(|holder| holder.kind == kind)
    }

    /// How many there are whose word counts.
    pub(super) fn in_effect(&self) -> usize {
        let counts = self.counting();
        self.all().iter().filter(|holder| counts(holder.rank)).count()
    }

    /// Whether it is an address of a pod of this node.
    pub(super) fn is_here(&self) -> bool {
        self.all().iter().any(|holder| matches!(holder.rank, Rank::Given | Rank::Here))
    }
}

/// An address of a pod.
#[derive(Debug, Default)]
pub(super) struct Address {
    pub(super) holders: Holders,
    /// Its class; `None`: no selector and no named port concerns it.
    pub(super) class: Option<u32>,
}

/// What a pod contributes to an address.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) address: IpAddr,
    pub(super) kind: KindKey,
    pub(super) rank: Rank,
}

/// What an address counts as: what all of its holders do, and whatever lies in its place.
pub(super) fn counts_as(
    address: IpAddr,
    holders: &Holders,
    kinds: &Kinds,
    policies: &Policies,
    classes: &Pool<Key>,
) -> Option<std::sync::Arc<Key>> {
    let counts = holders.counting();
    let counting = holders.all().iter().filter(|holder| counts(holder.rank));
    let mut keys = counting.filter_map(|holder| kinds.counts_as(holder.kind));
    let first = keys.next()?;
    let mut common = None;
    for other in keys.filter(|other| *other != first) {
        common = Some(common.as_ref().unwrap_or(&**first).and(other));
    }
    if common.as_ref().unwrap_or(first).is_empty() {
        return None;
    }
    if let Some(piece) = blocks::find(&policies.pieces, address) {
        common = Some(common.as_ref().unwrap_or(&**first).with(&piece.blocks));
    }
    Some(common.map_or_else(|| first.clone(), |key| classes.share(key)))
}
