//! One peer's Adj-RIB-Out of one family: what it was told, and which slots it may have to be told.
//! Decides what is queued; `transmit` decides, when the socket has room, what is said.
//!
//! Queues hold slots, not routes, and each slot at most once: a prefix that flaps while a socket is
//! full is told as it then is, or not at all if the peer already knows it so. A peer that is new, or
//! is to be told everything again, has no queue but a place in the table up to which it was told:
//! however often it comes and goes, that costs nothing until it listens.

use std::collections::VecDeque;

use flock_bgp_wire::Net;

use super::diary::Diary;
use super::path::Path;
use super::prefixes::Prefixes;
use super::shared::Shared;
use super::told::{Content, Mark, Told};
use crate::event::{Now, PeerKey};
use crate::policy::export::Exporter;

/// An emptied queue that was longer than this gives its memory back.
pub(super) const WORTH_SHRINKING: usize = 1 << 12;

/// One peer's Adj-RIB-Out of one family.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) peer: PeerKey,
    pub(super) exporter: Exporter,
    pub(super) told: Told,
    /// Prefixes that it was told.
    pub(super) advertised: u32,
    /// Those of them that are not outdated.
    current: u32,
    pub(super) withdraw: VecDeque<u32>,
    announce: VecDeque<u32>,
    /// Slots from here on are still to be looked at.
    sweep: Option<u32>,
    pub(super) batch: Batch,
    pub(super) diary: Diary,
}

/// Slots that were taken out of the queue together and put in the order of what is told of them.
/// Each is looked at again when its turn comes.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Content and slot in one number, sorted.
    pub(super) entries: Vec<u64>,
    /// Those before were told.
    pub(super) next: usize,
}

impl Batch {
    pub(super) fn push(&mut self, content: Content, slot: u32) {
        self.entries.push(u64::from(content.to_bits()) << 32 | u64::from(slot));
    }

    #[allow(clippy::cast_possible_truncation, reason = "taken apart into two halves")]
    pub(super) fn get(&self, at: usize) -> Option<(Content, u32)> {
        let entry = *self.entries.get(at)?;
        Some((Content::from_bits((entry >> 32) as u32), entry as u32))
    }
}

/// What a path is told as. The kind is all that `Exporter` may look at beside the attributes, but
/// for the peer that the route came from, which is never told it.
pub(super) fn content(path: &Path, shared: &Shared) -> Option<Content> {
    let kind = match path.peer() {
        None => 0,
        Some(peer) if shared.source(peer).internal => 2,
        Some(_) => 1,
    };
    Some(Content::new(path.attributes()?, kind))
}

impl Outlet {
    /// Everything is pending.
    pub(super) fn new(peer: PeerKey, exporter: Exporter, now: Now) -> Self {
        Self {
            peer,
            exporter,
            told: Told::default(),
            advertised: 0,
            current: 0,
            withdraw: VecDeque::new(),
            announce: VecDeque::new(),
            sweep: Some(0),
            batch: Batch::default(),
            diary: Diary::new(now),
        }
    }

    /// Everything is pending again. What was told stays told until it is replaced or withdrawn.
    pub(super) fn retell(&mut self, exporter: Exporter, shared: &mut Shared) {
        self.exporter = exporter;
        self.sweep = Some(0);
        self.batch = Batch::default();
        self.diary.begin(shared.now);
        // A peer that asks again and again without reading costs nothing.
        if self.current > 0 {
            self.current = 0;
            self.told.outdate(|content| {
                if let Some(number) = content.number() {
                    shared.sets.release(number);
                }
            });
        }
        shared.wake(self.peer);
    }

    /// The peer knows nothing any more.
    pub(super) fn close<N: Net>(self, prefixes: &mut Prefixes<N>, shared: &mut Shared) {
        let mut from = 0;
        while let Some((slot, content)) = self.told.next(from) {
            if let Some(number) = content.number() {
                shared.sets.release(number);
            }
            prefixes.let_go(slot);
            from = slot + 1;
        }
    }

    /// Whether the exporter need be asked at all: the two answers that it gives most often. Never
    /// `false` where it would tell the route.
    pub(super) fn may_tell(&self, path: &Path) -> bool {
        path.peer().is_none_or(|peer| self.exporter.transit && peer != self.peer)
    }

    /// The best path of a prefix changed.
    pub(super) fn changed(
        &mut self,
        slot: u32,
        best: Option<&(Path, Content)>,
        shared: &mut Shared,
    ) {
        let entry = self.told.get(slot);
        if entry.has(Mark::Forced) {
            self.told.unmark(slot, Mark::Forced); // that was about another route
        }
        match best {
            Some((path, content)) if self.may_tell(path) => {
                if entry.content() == Some(*content) || self.sweep.is_some_and(|at| slot >= at) {
                    return;
                }
                if self.told.mark(slot, Mark::Announce) {
                    self.announce.push_back(slot);
                }
            }
            _ if entry.content().is_some() => self.withdraw(slot),
            _ => return,
        }
        shared.wake(self.peer);
    }

    pub(super) fn withdraw(&mut self, slot: u32) {
        if self.told.mark(slot, Mark::Withdraw) {
            self.withdraw.push_back(slot);
        }
    }

    /// What was told of this prefix must go, although there is a route.
    pub(super) fn deny(&mut self, slot: u32) {
        if self.told.get(slot).content().is_some() {
            self.told.mark(slot, Mark::Forced);
            self.withdraw(slot);
        }
    }

    /// Whether there is nothing to be told, or looked at for it.
    pub(super) fn settled(&self) -> bool {
        self.withdraw.is_empty()
            && self.announce.is_empty()
            && self.sweep.is_none()
            && self.batch.next >= self.batch.entries.len()
    }

    /// How many slots are still to be looked at, of a table that ends there.
    pub(super) fn pending(&self, end: u32) -> u32 {
        let batch = self.batch.entries.len().saturating_sub(self.batch.next);
        let queued = self.withdraw.len() + self.announce.len() + batch;
        let swept = self.sweep.map_or(0, |at| end.saturating_sub(at));
        u32::try_from(queued).unwrap_or(u32::MAX).saturating_add(swept)
    }

    /// Whether a slot is still to be looked at.
    pub(super) fn is_queued(&self, slot: u32) -> bool {
        let entry = self.told.get(slot);
        let mut batch = (self.batch.next..).map_while(|at| self.batch.get(at));
        entry.has(Mark::Announce)
            || entry.has(Mark::Withdraw)
            || self.sweep.is_some_and(|at| slot >= at)
            || batch.any(|(_, other)| other == slot)
    }

    /// The next slot to look at.
    pub(super) fn next(&mut self, end: u32) -> Option<u32> {
        if let Some(slot) = self.announce.pop_front() {
            self.told.unmark(slot, Mark::Announce);
            return Some(slot);
        }
        if self.announce.capacity() > WORTH_SHRINKING {
            self.announce = VecDeque::new();
        }
        let slot = self.sweep?;
        self.sweep = (slot < end).then_some(slot + 1);
        (slot < end).then_some(slot)
    }

    /// The peer was told this.
    pub(super) fn tell<N: Net>(
        &mut self,
        slot: u32,
        content: Content,
        prefixes: &mut Prefixes<N>,
        shared: &mut Shared,
    ) {
        match self.told.set(slot, Some(content)) {
            Some(before) => match before.number() {
                Some(number) => shared.sets.release(number),
                None => self.current += 1,
            },
            None => {
                prefixes.hold(slot);
                self.advertised += 1;
                self.current += 1;
            }
        }
    }

    /// The peer was told that there is nothing.
    pub(super) fn untell<N: Net>(
        &mut self,
        slot: u32,
        prefixes: &mut Prefixes<N>,
        shared: &mut Shared,
    ) {
        let Some(before) = self.told.set(slot, None) else { return };
        self.advertised = self.advertised.saturating_sub(1);
        if let Some(number) = before.number() {
            self.current = self.current.saturating_sub(1);
            shared.sets.release(number);
        }
        prefixes.let_go(slot);
    }
}
