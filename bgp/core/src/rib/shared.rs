//! What both families have in common: attribute sets, the peers as the decision sees them, and who
//! has been given something to say.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::Source;
use super::decision::{self, Candidate, Reason};
use super::interner::Interner;
use super::path::{Path, Sets};
use crate::event::{Now, PeerKey};
use crate::policy::export::From;
use crate::tally::Tally;

/// A peer of which nobody has said what it is. Not an error worth a name: its paths count least.
const UNKNOWN: Source =
    Source { internal: true, id: Ipv4Addr::BROADCAST, address: IpAddr::V4(Ipv4Addr::BROADCAST) };

/// What both families have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sets: Sets,
    /// By `PeerKey`.
    sources: Vec<Option<Source>>,
    /// Peers for which something became pending, each once.
    woken: VecDeque<PeerKey>,
    /// By `PeerKey`: is in `woken`.
    is_woken: Vec<bool>,
    /// Peers that tell of prefixes that we originate, since somebody last asked.
    contested: Vec<(PeerKey, Tally<IpNet>)>,
    /// Room for a decision, used again.
    field: Vec<Candidate>,
    /// The moment, for those who note it.
    pub(super) now: Now,
}

impl Shared {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            sets: Interner::new(seed),
            sources: Vec::new(),
            woken: VecDeque::new(),
            is_woken: Vec::new(),
            contested: Vec::new(),
            field: Vec::new(),
            now: Now::default(),
        }
    }

    pub(super) fn source(&self, peer: PeerKey) -> Source {
        self.sources.get(usize::from(peer.0)).copied().flatten().unwrap_or(UNKNOWN)
    }

    /// Where a path came from, as far as telling it on is concerned.
    pub(super) fn from(&self, path: &Path) -> From {
        match path.peer() {
            None => From::Ourselves,
            Some(key) => From::Peer { key, internal: self.source(key).internal },
        }
    }

    /// Returns whether this is something new.
    pub(super) fn set_source(&mut self, peer: PeerKey, source: Source) -> bool {
        let at = usize::from(peer.0);
        if at >= self.sources.len() {
            self.sources.resize(at + 1, None);
        }
        let new = self.source(peer) != source;
        if let Some(known) = self.sources.get_mut(at) {
            *known = Some(source);
        }
        new
    }

    /// Something became pending for `peer`.
    pub(super) fn wake(&mut self, peer: PeerKey) {
        let at = usize::from(peer.0);
        if at >= self.is_woken.len() {
            self.is_woken.resize(at + 1, false);
        }
        if let Some(woken) = self.is_woken.get_mut(at)
            && !*woken
        {
            *woken = true;
            self.woken.push_back(peer);
        }
    }

    pub(super) fn take_woken(&mut self) -> Option<PeerKey> {
        let peer = self.woken.pop_front()?;
        if let Some(woken) = self.is_woken.get_mut(usize::from(peer.0)) {
            *woken = false;
        }
        Some(peer)
    }

    /// `peer` tells of a prefix that we originate.
    #[cold]
    pub(super) fn contest(&mut self, peer: PeerKey, net: IpNet) {
        let at = self.contested.iter().position(|(of, _)| *of == peer);
        let at = at.unwrap_or_else(|| {
            self.contested.push((peer, Tally::default()));
            self.contested.len() - 1
        });
        if let Some((_, tally)) = self.contested.get_mut(at) {
            tally.add(net);
        }
    }

    pub(super) fn take_contested(&mut self) -> Option<(PeerKey, Tally<IpNet>)> {
        self.contested.pop()
    }

    /// The paths that policy let in, each with the step that excluded it, and the step that
    /// decided. The room is to be given back.
    pub(super) fn decide(&mut self, paths: &[Path]) -> (Reason, Vec<Candidate>) {
        let mut field = std::mem::take(&mut self.field);
        self.candidates(paths, &mut field);
        (decision::decide(&mut field), field)
    }

    pub(super) fn give_back(&mut self, field: Vec<Candidate>) {
        self.field = field;
    }

    /// The paths that policy let in, with all that is compared.
    pub(super) fn candidates(&self, paths: &[Path], field: &mut Vec<Candidate>) {
        field.clear();
        field.extend(paths.iter().enumerate().filter_map(|(at, path)| {
            let set = self.sets.get(path.attributes()?)?;
            let source = path.peer().map_or(UNKNOWN, |peer| self.source(peer));
            Some(Candidate::new(at, path, set, source))
        }));
    }
}
