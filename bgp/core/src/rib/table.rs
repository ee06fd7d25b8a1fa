//! One family: paths in, and listeners told that something changed. Decides when the decision is
//! made anew and who has to hear of its outcome; counts.

use bytes::BytesMut;
use flock_bgp_wire::Net;
use flock_bgp_wire::encode::Form;
use ipnet::IpNet;

use super::Counts;
use super::kernel::Kernel;
use super::outlet::{Outlet, content};
use super::path::{Path, Who};
use super::prefixes::Prefixes;
use super::shared::Shared;
use super::told::Common;
use super::transmit::{Scratch, Transmit};
use crate::event::{PeerKey, RouteChange};
use crate::policy::Withheld;
use crate::policy::export::Exporter;
use crate::policy::import::Kept;

/// With fewer peers than this it is not worth the copies to keep once what they were told. (The tests
/// have few, and hold what is shared against a model.)
const WORTH_SHARING: usize = if cfg!(test) { 2 } else { 4 };

/// One family.
#[derive(Debug)]
pub(super) struct Table<N> {
    pub(super) prefixes: Prefixes<N>,
    /// By peer.
    outlets: Vec<Outlet>,
    /// What most of them were told, kept once.
    common: Common,
    kernel: Option<Kernel>,
    /// By `PeerKey`; `advertised` and `pending` are the outlet's to know.
    counts: Vec<Counts>,
    /// Prefixes that we originate.
    originated: u32,
    /// Prefixes with a path that a peer told and that policy let in.
    pub(super) learned: u32,
    /// Those of them that were said in this generation.
    of_generation: u32,
    /// Which generation of `originate_all` this is.
    odd: bool,
    scratch: Scratch<N>,
}

impl<N: Net> Table<N> {
    pub(super) fn new(seed: u64, install: bool) -> Self {
        Self {
            prefixes: Prefixes::new(seed),
            outlets: Vec::new(),
            common: Common::default(),
            kernel: install.then(|| Kernel::new(seed)),
            counts: Vec::new(),
            originated: 0,
            learned: 0,
            of_generation: 0,
            odd: false,
            scratch: Scratch::new(),
        }
    }

    // --- one path -------------------------------------------------------------------------------

    #[inline]
    pub(super) fn learn(&mut self, shared: &mut Shared, net: N, path: Path) {
        let slot = self.prefixes.find_or_add(net);
        self.put(shared, slot, path);
        self.contest(shared, slot, &path);
    }

    /// Learns a path that was refused, `keep` of a peer at most.
    pub(super) fn refuse(
        &mut self,
        shared: &mut Shared,
        net: N,
        path: Path,
        why: Withheld,
        keep: u32,
    ) {
        if !self.has_room(&path, why, keep) {
            let Some(slot) = self.prefixes.find(net) else { return };
            // There are no more beside our own than we originate, and people look for them.
            if !self.prefixes.is_ours(slot) {
                // It replaces what the peer said before, all the same.
                return self.remove(shared, slot, path.who());
            }
        }
        self.learn(shared, net, path);
    }

    /// Whether one more refused path of a peer is kept.
    fn has_room(&mut self, path: &Path, why: Withheld, keep: u32) -> bool {
        let keep = if why.overlaps() { keep.saturating_mul(2) } else { keep };
        let Some(counts) = path.peer().and_then(|peer| self.counts_of(peer)) else { return true };
        let full = counts.received - counts.accepted >= keep;
        counts.overflowed |= full;
        !full
    }

    /// A peer told this path, perhaps of a prefix that we originate.
    #[inline]
    fn contest(&self, shared: &mut Shared, slot: u32, path: &Path) {
        if self.originated > 0
            && self.prefixes.is_ours(slot)
            && let (Some(peer), Some(net)) = (path.peer(), self.prefixes.net(slot))
        {
            shared.contest(peer, net.into());
        }
    }

    /// Puts a path where its teller's old one was.
    fn put(&mut self, shared: &mut Shared, slot: u32, path: Path) {
        let best = self.prefixes.best(slot);
        match self.prefixes.put(slot, path) {
            Ok(old) => {
                if let Some(id) = path.attributes() {
                    shared.sets.retain(id, 1);
                }
                self.settle(shared, slot, best, old, Some(path));
            }
            // One that is not kept changes nothing, not even what the peer said before.
            Err(_) => self.prefixes.tidy(slot),
        }
    }

    pub(super) fn remove_net(&mut self, shared: &mut Shared, net: N, who: Who) {
        if let Some(slot) = self.prefixes.find(net) {
            self.remove(shared, slot, who);
        }
    }

    fn remove(&mut self, shared: &mut Shared, slot: u32, who: Who) {
        let best = self.prefixes.best(slot);
        if let Some(old) = self.prefixes.take(slot, who) {
            self.settle(shared, slot, best, Some(old), None);
            self.prefixes.tidy(slot);
        }
    }

    /// A path came, went or was replaced: counts, decides and tells.
    fn settle(
        &mut self,
        shared: &mut Shared,
        slot: u32,
        best: Option<Path>,
        old: Option<Path>,
        new: Option<Path>,
    ) {
        if let Some(path) = &old {
            self.count(path, -1);
        }
        if let Some(path) = &new {
            self.count(path, 1);
        }
        self.count_learned(slot, old.as_ref(), new.as_ref());
        let used = |path: &Path| path.attributes().is_some();
        let (before, after) = (old.filter(used), new.filter(used));
        let same = match (&before, &after) {
            (Some(before), Some(after)) => {
                before.same_route(after) && before.stale() == after.stale()
            }
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.decide(shared, slot, best);
        }
        if let Some(id) = old.and_then(|path| path.attributes()) {
            shared.sets.release(id);
        }
    }

    /// The paths of a prefix changed; `before` was the best.
    fn decide(&mut self, shared: &mut Shared, slot: u32, before: Option<Path>) {
        let paths = self.prefixes.paths(slot);
        if paths.len() > 1 {
            let (_, field) = shared.decide(paths);
            if let Some(best) = field.iter().find(|candidate| candidate.lost.is_none()) {
                self.prefixes.promote(slot, best.at);
            }
            shared.give_back(field);
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.changed(slot);
        }
        let best = self.prefixes.best(slot);
        let same = match (&before, &best) {
            (Some(before), Some(best)) => before.same_route(best),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.tell(shared, slot, best);
        }
    }

    /// The best path of a prefix is another.
    fn tell(&mut self, shared: &mut Shared, slot: u32, best: Option<Path>) {
        let best = best.and_then(|path| Some((path, content(&path, shared)?)));
        for outlet in &mut self.outlets {
            outlet.changed(slot, best.as_ref(), shared);
        }
    }

    fn count(&mut self, path: &Path, by: i32) {
        let Some(peer) = path.peer() else {
            self.originated = self.originated.saturating_add_signed(by);
            if path.odd() == self.odd {
                self.of_generation = self.of_generation.saturating_add_signed(by);
            }
            return;
        };
        if let Some(counts) = self.counts_of(peer) {
            counts.received = counts.received.saturating_add_signed(by);
            if path.attributes().is_some() {
                counts.accepted = counts.accepted.saturating_add_signed(by);
            }
        }
    }

    /// The first path that counts makes its prefix count, and with the last it does not any more.
    fn count_learned(&mut self, slot: u32, old: Option<&Path>, new: Option<&Path>) {
        let counts = |path: &Path| !path.ours() && path.attributes().is_some();
        let (before, after) = (old.is_some_and(counts), new.is_some_and(counts));
        if before == after {
            return;
        }
        let all = self.prefixes.paths(slot);
        let others = all.iter().filter(|path| counts(path)).nth(usize::from(after)).is_some();
        if !others {
            self.learned = self.learned.saturating_add_signed(if after { 1 } else { -1 });
        }
    }

    /// Always some; made where there were none.
    fn counts_of(&mut self, peer: PeerKey) -> Option<&mut Counts> {
        let at = usize::from(peer.0);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, Counts::default());
        }
        self.counts.get_mut(at)
    }

    // --- all paths of a peer --------------------------------------------------------------------

    /// Calls `act` for each path of `peer`, once, as it was when its slot was reached.
    fn for_each(&mut self, peer: PeerKey, mut act: impl FnMut(&mut Self, u32, Path)) {
        if self.counts(peer).received == 0 {
            return; // a session that comes and goes does not cost a walk through the table
        }
        let mut found = Vec::new();
        for slot in 0..self.prefixes.end() {
            let paths = self.prefixes.paths(slot);
            found.extend(paths.iter().filter(|path| path.peer() == Some(peer)).copied());
            for path in found.drain(..) {
                act(self, slot, path);
            }
        }
    }

    pub(super) fn mark_stale(&mut self, shared: &mut Shared, peer: PeerKey) {
        self.for_each(peer, |table, slot, path| table.put(shared, slot, path.into_stale()));
    }

    pub(super) fn sweep_stale(&mut self, shared: &mut Shared, peer: PeerKey) {
        self.for_each(peer, |table, slot, path| {
            if path.stale() {
                table.remove(shared, slot, path.who());
            }
        });
    }

    pub(super) fn forget(&mut self, shared: &mut Shared, peer: PeerKey) {
        self.for_each(peer, |table, slot, path| table.remove(shared, slot, path.who()));
        if let Some(counts) = self.counts.get_mut(usize::from(peer.0)) {
            counts.overflowed = false;
        }
    }

    pub(super) fn rejudge(
        &mut self,
        shared: &mut Shared,
        peer: PeerKey,
        judge: &mut dyn FnMut(IpNet, Kept<'_>) -> Result<(), Withheld>,
    ) {
        self.for_each(peer, |table, slot, path| {
            let set = path.attributes().and_then(|id| shared.sets.get(id));
            let kept = match (path.withheld, set) {
                (Some(why), _) => Err(why),
                (None, Some(set)) => Ok(&set.attributes),
                (None, None) => return,
            };
            if let Some(net) = table.prefixes.net(slot)
                && let Err(why) = judge(net.into(), kept)
                && path.withheld != Some(why)
            {
                table.put(shared, slot, path.into_refused(why));
            }
        });
    }

    /// The peer is another than it was: what is compared of its paths changed.
    pub(super) fn source_changed(&mut self, shared: &mut Shared, peer: PeerKey) {
        self.for_each(peer, |table, slot, _| {
            let before = table.prefixes.best(slot);
            table.decide(shared, slot, before);
            // The same path may be told otherwise.
            table.tell(shared, slot, table.prefixes.best(slot));
        });
    }

    // --- our own --------------------------------------------------------------------------------

    /// Takes over the reference to `set`.
    pub(super) fn originate(&mut self, shared: &mut Shared, net: N, set: Option<u32>) {
        let Some(id) = set else {
            return self.remove_net(shared, net, Who::Ourselves);
        };
        let (slot, before) = (self.prefixes.find_or_add(net), self.originated);
        self.put(shared, slot, Path::originated(id, self.odd));
        shared.sets.release(id);
        if self.originated > before {
            for peer in self.prefixes.paths(slot).iter().filter_map(Path::peer) {
                shared.contest(peer, net.into());
            }
        }
    }

    /// What is originated from now on is of a new generation.
    pub(super) fn begin_generation(&mut self) {
        self.odd = !self.odd;
        self.of_generation = 0;
    }

    /// What was not originated in this generation goes.
    pub(super) fn end_generation(&mut self, shared: &mut Shared) {
        if self.originated == self.of_generation {
            return;
        }
        for slot in 0..self.prefixes.end() {
            let old = |path: &Path| path.ours() && path.odd() != self.odd;
            if self.prefixes.paths(slot).iter().any(old) {
                self.remove(shared, slot, Who::Ourselves);
            }
        }
    }

    // --- listeners ------------------------------------------------------------------------------

    pub(super) fn counts(&self, peer: PeerKey) -> Counts {
        let mut counts = self.counts.get(usize::from(peer.0)).copied().unwrap_or_default();
        if let Some(outlet) = self.outlet(peer) {
            counts.advertised = outlet.advertised;
            counts.pending = outlet.pending(self.prefixes.end());
        }
        counts
    }

    pub(super) fn outlet(&self, peer: PeerKey) -> Option<&Outlet> {
        let at = self.outlets.binary_search_by_key(&peer, |outlet| outlet.peer).ok()?;
        self.outlets.get(at)
    }

    fn outlet_mut(&mut self, peer: PeerKey) -> Option<&mut Outlet> {
        let at = self.outlets.binary_search_by_key(&peer, |outlet| outlet.peer).ok()?;
        self.outlets.get_mut(at)
    }

    pub(super) fn open_outlet(&mut self, shared: &mut Shared, peer: PeerKey, exporter: Exporter) {
        self.close_outlet(shared, peer);
        let at = self.outlets.partition_point(|other| other.peer < peer);
        self.outlets.insert(at, Outlet::new(peer, exporter, shared.now));
        shared.wake(peer);
    }

    pub(super) fn close_outlet(&mut self, shared: &mut Shared, peer: PeerKey) {
        if let Ok(at) = self.outlets.binary_search_by_key(&peer, |outlet| outlet.peer) {
            self.outlets.remove(at).close(&mut self.prefixes, shared);
            self.common.tidy();
        }
    }

    pub(super) fn retell(&mut self, shared: &mut Shared, peer: PeerKey, exporter: Exporter) {
        if let Some(outlet) = self.outlet_mut(peer) {
            outlet.retell(exporter, shared);
        }
    }

    pub(super) fn settled(&self) -> bool {
        self.outlets.iter().all(Outlet::settled)
    }

    pub(super) fn transmit(
        &mut self,
        shared: &mut Shared,
        peer: PeerKey,
        form: Form,
        room: usize,
        out: &mut BytesMut,
    ) -> bool {
        let Self { prefixes, outlets, common, scratch, .. } = self;
        let many = outlets.len() >= WORTH_SHARING;
        let Ok(at) = outlets.binary_search_by_key(&peer, |outlet| outlet.peer) else { return true };
        let Some(outlet) = outlets.get_mut(at) else { return true };
        let settled =
            Transmit { outlet: &mut *outlet, prefixes, shared, scratch, form, room, out }.run();
        if settled && many {
            outlet.told.share(common);
        }
        settled
    }

    pub(super) fn poll_route(&mut self, shared: &mut Shared) -> Option<RouteChange> {
        self.kernel.as_mut()?.poll(&mut self.prefixes, shared)
    }

    pub(super) fn offered(&self) -> bool {
        self.kernel.as_ref().is_none_or(Kernel::offered)
    }

    #[cfg(test)]
    pub(super) fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }
}
