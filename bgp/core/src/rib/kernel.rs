//! What the kernel is to know of learned routes: one more listener, with a queue in which each slot
//! is at most once. Decides whether a change is worth telling; how a route gets into the kernel is
//! the driver's.
//!
//! What was told is kept exactly, as the number of a set of next hops: there are as many sets as
//! ways out of the node, so this costs four bytes a prefix, and a route whose other attributes
//! change, or which goes and comes back before anybody looks, is not told again.

use std::collections::VecDeque;

use flock_bgp_wire::{Net, NextHop};

use super::decision::Candidate;
use super::interner::Interner;
use super::path::Path;
use super::prefixes::Prefixes;
use super::shared::Shared;
use super::told::{Content, Mark, Told};
use crate::event::RouteChange;

/// The widest route. Linux takes more; nothing on a node has more ways out.
const WIDEST: usize = 64;

/// The kernel as a listener.
#[derive(Debug)]
pub(super) struct Kernel {
    told: Told,
    pending: VecDeque<u32>,
    sets: Interner<Vec<NextHop>>,
}

impl Kernel {
    pub(super) fn new(seed: u64) -> Self {
        Self { told: Told::default(), pending: VecDeque::new(), sets: Interner::new(seed) }
    }

    /// Something about the paths of this prefix changed.
    pub(super) fn changed(&mut self, slot: u32) {
        if self.told.mark(slot, Mark::Announce) {
            self.pending.push_back(slot);
        }
    }

    /// The next difference between what the kernel knows and what it should.
    pub(super) fn poll<N: Net>(
        &mut self,
        prefixes: &mut Prefixes<N>,
        shared: &mut Shared,
    ) -> Option<RouteChange> {
        while let Some(slot) = self.pending.pop_front() {
            self.told.unmark(slot, Mark::Announce);
            let told = self.told.get(slot).content();
            let Some(net) = prefixes.net(slot) else { continue };
            let hops = hops(prefixes.paths(slot), shared);
            if told.is_none() && hops.is_empty() {
                continue;
            }
            let change = RouteChange { net: net.into(), next_hops: hops.clone() };
            let wanted = (!hops.is_empty()).then(|| Content::new(self.sets.intern(hops), 0));
            let same = told == wanted;
            self.tell(slot, wanted, prefixes);
            if !same {
                return Some(change);
            }
        }
        if self.pending.capacity() > super::outlet::WORTH_SHRINKING {
            self.pending = VecDeque::new();
        }
        None
    }

    /// Whether nothing waits to be looked at.
    pub(super) fn offered(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes over the reference of `wanted`.
    fn tell<N: Net>(&mut self, slot: u32, wanted: Option<Content>, prefixes: &mut Prefixes<N>) {
        let before = self.told.set(slot, wanted);
        if let Some(number) = before.and_then(Content::number) {
            self.sets.release(number);
        }
        match (before, wanted) {
            (None, Some(_)) => prefixes.hold(slot),
            (Some(_), None) => prefixes.let_go(slot),
            _ => {}
        }
    }

    #[cfg(test)]
    pub(super) fn sets(&self) -> usize {
        self.sets.len()
    }
}

/// The next hops of the best path and its equals; none where the route is ours, or there is none.
fn hops(paths: &[Path], shared: &mut Shared) -> Vec<NextHop> {
    let mut hops = Vec::new();
    if paths.first().is_none_or(Path::ours) {
        return hops;
    }
    let (_, field) = shared.decide(paths);
    for candidate in field.iter().filter(|candidate| Candidate::equal(candidate)) {
        let Some(path) = paths.get(candidate.at) else { continue };
        if let Some(set) = path.attributes().and_then(|id| shared.sets.get(id)) {
            hops.push(set.attributes.next_hop);
        }
    }
    hops.sort_unstable();
    hops.dedup();
    hops.truncate(WIDEST);
    shared.give_back(field);
    hops
}
