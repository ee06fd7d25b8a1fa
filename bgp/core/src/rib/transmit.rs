//! From slots to UPDATEs, when a socket has room: withdrawals first, then what is new, packed by
//! attribute set (RFC 4271 §9.2). Decides what is said in which message; what a peer is told of a
//! route is `policy::export`'s, bytes are the encoder's.
//!
//! Announcements are taken in batches and sorted by what is told, so that prefixes with the same
//! attributes leave in the same message although they did not become pending together. A slot is
//! looked at when it enters the batch and again when its turn comes, so nothing outdated is sent,
//! and a batch that outlasts the room is simply gone on with.

use bytes::BytesMut;
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::{Attributes, Net};

use super::outlet::{Batch, Outlet, WORTH_SHRINKING, content};
use super::path::Path;
use super::prefixes::Prefixes;
use super::shared::Shared;
use super::told::{Content, Mark};
use crate::policy::Withheld;

/// Slots looked at for one batch.
const WINDOW: usize = 1 << 14;

/// How many prefixes may fit into this many bytes. There are but 511 that take less than three.
fn may_fit(bytes: usize) -> usize {
    bytes / 3 + 511
}

/// Room used again from one message to the next.
#[derive(Debug)]
pub(super) struct Scratch<N> {
    nets: Vec<N>,
    slots: Vec<u32>,
}

impl<N> Scratch<N> {
    pub(super) fn new() -> Self {
        Self { nets: Vec::new(), slots: Vec::new() }
    }

    fn clear(&mut self) {
        self.nets.clear();
        self.slots.clear();
    }
}

/// One call of `transmit`.
pub(super) struct Transmit<'a, N> {
    pub(super) outlet: &'a mut Outlet,
    pub(super) prefixes: &'a mut Prefixes<N>,
    pub(super) shared: &'a mut Shared,
    pub(super) scratch: &'a mut Scratch<N>,
    pub(super) form: Form,
    pub(super) room: usize,
    pub(super) out: &'a mut BytesMut,
}

impl<N: Net> Transmit<'_, N> {
    /// Returns whether nothing is pending any more.
    pub(super) fn run(mut self) -> bool {
        loop {
            if !self.withdraw() {
                return false;
            }
            if self.outlet.batch.next < self.outlet.batch.entries.len() {
                if self.full() {
                    return false;
                }
                self.announce();
            } else if !self.fill() {
                self.outlet.diary.end(self.shared.now);
                return true;
            }
        }
    }

    fn full(&self) -> bool {
        self.out.len() >= self.room
    }

    /// How many prefixes are worth collecting for what room is left.
    fn limit(&self) -> usize {
        may_fit(self.room.saturating_sub(self.out.len()).max(self.form.max))
    }

    /// Empties the queue of withdrawals. Returns whether there was room enough.
    fn withdraw(&mut self) -> bool {
        while !self.outlet.withdraw.is_empty() {
            if self.full() {
                return false;
            }
            self.collect_withdrawn();
            let mut done = 0;
            while let Some(rest) = self.scratch.nets.get(done..).filter(|rest| !rest.is_empty()) {
                if self.out.len() >= self.room {
                    break;
                }
                // One always fits; counting it even if not keeps this loop finite.
                done += encode::withdraw(rest, self.form, self.out).max(1);
            }
            let slots = std::mem::take(&mut self.scratch.slots);
            for (at, &slot) in slots.iter().enumerate().rev() {
                if at < done {
                    self.outlet.told.unmark(slot, Mark::Withdraw);
                    self.outlet.told.unmark(slot, Mark::Forced);
                    self.outlet.untell(slot, self.prefixes, self.shared);
                    if let Some(net) = self.scratch.nets.get(at) {
                        let prefix = self.prefixes.fingerprint(*net);
                        self.outlet.diary.withdrew(prefix, self.shared.now);
                    }
                } else {
                    self.outlet.withdraw.push_front(slot);
                }
            }
            self.scratch.slots = slots;
        }
        if self.outlet.withdraw.capacity() > WORTH_SHRINKING {
            self.outlet.withdraw.shrink_to(0);
        }
        true
    }

    /// Takes slots out of the queue of withdrawals, leaving out those that have a route again.
    fn collect_withdrawn(&mut self) {
        self.scratch.clear();
        let limit = self.limit();
        while self.scratch.slots.len() < limit
            && let Some(slot) = self.outlet.withdraw.pop_front()
        {
            match self.prefixes.net(slot) {
                Some(net) if self.is_to_go(slot) => {
                    self.scratch.nets.push(net);
                    self.scratch.slots.push(slot);
                }
                _ => self.outlet.told.unmark(slot, Mark::Withdraw),
            }
        }
    }

    /// Whether the peer knows a route that is not there any more, or that it may not be told.
    fn is_to_go(&self, slot: u32) -> bool {
        let entry = self.outlet.told.get(slot);
        let there = || self.prefixes.best(slot).is_some_and(|path| self.outlet.may_tell(&path));
        entry.content().is_some() && (entry.has(Mark::Forced) || !there())
    }

    /// Makes a batch of what is queued. Returns whether anything was.
    fn fill(&mut self) -> bool {
        self.outlet.batch.entries.clear();
        self.outlet.batch.next = 0;
        let end = self.prefixes.end();
        let mut looked_at = 0;
        while looked_at < WINDOW
            && let Some(slot) = self.outlet.next(end)
        {
            looked_at += 1;
            if let Some((_, _, content)) = self.wanted(slot) {
                self.outlet.batch.push(content, slot);
            } else if self.is_to_go(slot) {
                self.outlet.withdraw(slot);
            }
        }
        if looked_at == 0 {
            self.outlet.batch = Batch::default();
            return false;
        }
        self.outlet.batch.entries.sort_unstable();
        self.deny();
        true
    }

    /// The route of a slot, if the peer may be told it and was not told it so.
    fn wanted(&self, slot: u32) -> Option<(N, Path, Content)> {
        let (net, path) = self.prefixes.route(slot)?;
        let content = content(&path, self.shared)?;
        let news = self.outlet.told.get(slot).content() != Some(content);
        (news && self.outlet.may_tell(&path)).then_some((net, path, content))
    }

    /// Withdrawals go before announcements, so what the peer was told before and may not be told
    /// any more is found before the first of the batch is sent.
    fn deny(&mut self) {
        let mut at = 0;
        let mut judged = None;
        while let Some((content, slot)) = self.outlet.batch.get(at) {
            at += 1;
            if self.outlet.told.get(slot).content().is_none() {
                continue;
            }
            let denied = match judged {
                Some((known, denied)) if known == content => denied,
                _ => {
                    let Some((_, path, _)) = self.wanted(slot) else { continue };
                    let denied = self.export(content, &path).is_err();
                    judged = Some((content, denied));
                    denied
                }
            };
            if denied {
                self.outlet.deny(slot);
            }
        }
    }

    fn export(&self, content: Content, path: &Path) -> Result<Attributes, Withheld> {
        let from = self.shared.from(path);
        let set = content.number().and_then(|number| self.shared.sets.get(number));
        let set = set.ok_or(Withheld::NotOriginated)?;
        self.outlet.exporter.attributes(N::FAMILY, &set.attributes, from)
    }

    /// Sends the prefixes at the head of the batch that are told the same, as far as there is room.
    fn announce(&mut self) {
        let first = self.outlet.batch.next;
        let Some((content, _)) = self.outlet.batch.get(first) else { return };
        let (source, mut next) = self.collect_announced(content);
        let Some(source) = source else {
            self.outlet.batch.next = next;
            return;
        };
        let Ok(attributes) = self.export(content, &source) else {
            // What the peer was told before, if anything, `deny` has seen to.
            self.outlet.batch.next = next;
            return;
        };
        let mut done = 0;
        while let Some(rest) = self.scratch.nets.get(done..).filter(|rest| !rest.is_empty()) {
            if self.out.len() >= self.room {
                break;
            }
            let sent = encode::announce(&attributes, rest, self.form, self.out);
            self.sent(content, done, sent);
            done += if sent > 0 { sent } else { self.too_long(done) };
        }
        if let Some(&unsent) = self.scratch.slots.get(done) {
            next = (first..next)
                .find(|&at| self.outlet.batch.get(at).is_some_and(|(_, slot)| slot == unsent))
                .unwrap_or(next);
        }
        self.outlet.batch.next = next;
    }

    /// The attributes do not fit beside this prefix (`Withheld::TooLong`), nor beside those after it
    /// that are no shorter: they are not even tried. Returns how many these are.
    fn too_long(&mut self, done: usize) -> usize {
        let mut rest = self.scratch.nets.iter().skip(done).map(|net| net.len());
        let Some(shortest) = rest.next() else { return 0 };
        let count = 1 + rest.take_while(|len| *len >= shortest).count();
        for &slot in self.scratch.slots.iter().skip(done).take(count) {
            self.outlet.deny(slot);
        }
        count
    }

    /// Collects prefixes from the head of the batch that are still to be told `content`. Returns
    /// the path of one of them, and where it stopped.
    fn collect_announced(&mut self, content: Content) -> (Option<Path>, usize) {
        self.scratch.clear();
        let limit = self.limit();
        let mut source = None;
        let mut next = self.outlet.batch.next;
        while self.scratch.slots.len() < limit
            && let Some((same, slot)) = self.outlet.batch.get(next)
            && same == content
        {
            next += 1;
            if let Some((net, path, now)) = self.wanted(slot)
                && now == content
            {
                source = Some(path);
                self.scratch.nets.push(net);
                self.scratch.slots.push(slot);
            }
        }
        (source, next)
    }

    /// `count` of the collected prefixes, from `done` on, were told `content`.
    fn sent(&mut self, content: Content, done: usize, count: usize) {
        if let (Some(number), Ok(count)) = (content.number(), u32::try_from(count)) {
            self.shared.sets.retain(number, count);
        }
        for &slot in self.scratch.slots.iter().skip(done).take(count) {
            self.outlet.tell(slot, content, self.prefixes, self.shared);
        }
        let nets = self.scratch.nets.get(done..done.saturating_add(count)).unwrap_or_default();
        let prefixes = nets.iter().map(|net| self.prefixes.fingerprint(*net));
        self.outlet.diary.told(prefixes, self.shared.now);
    }
}
