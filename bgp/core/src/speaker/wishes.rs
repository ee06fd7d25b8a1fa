//! What the speaker is asked to be: peers as a desired set, originations, farewell.
//!
//! A change of a peer costs as much as `difference` says, and no more; a peer that did not change
//! is not touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flock_bgp_wire::notification::{cease, code};
use flock_bgp_wire::{Family, Notification};

use super::Speaker;
use crate::config::{PeerAsn, PeerConfig};
use crate::difference::{Difference, Field, difference};
use crate::event::{Action, DownReason, Farewell, PeerKey, Wishes};
use crate::fsm::{Idle, Input, State};
use crate::negotiate;
use crate::peer::{Lane, Peer, Stage};
use crate::restart::Loss;
use crate::timer::Clock;

impl Speaker {
    pub(super) fn wish_peers(&mut self, mut wished: Vec<PeerConfig>) {
        for peer in &mut wished {
            // ::ffff:192.0.2.1 is 192.0.2.1: its packets are IPv4, and so are their options.
            peer.address = peer.address.to_canonical();
            peer.local_address = peer.local_address.map(|address| address.to_canonical());
        }
        let known: BTreeMap<_, _> =
            self.peers.iter().map(|(key, peer)| (peer.config.name.clone(), key)).collect();
        let names: BTreeSet<_> = wished.iter().map(|config| config.name.clone()).collect();
        for (name, key) in &known {
            if !names.contains(name) {
                self.remove(*key);
            }
        }
        let mut starting = Vec::new();
        let mut seen = BTreeSet::new();
        for config in wished {
            // Names are unique; of two that are not, the first has it.
            if !seen.insert(config.name.clone()) {
                continue;
            }
            let starts = match known.get(&config.name) {
                Some(key) => self.change(*key, config).then_some(*key),
                None => self.add(config),
            };
            starting.extend(starts);
        }
        // First who may come, then whom we call: the listener's key must be there before the peer
        // answers.
        self.admit();
        for key in starting {
            if !self.farewell && self.peers.get(key).is_some_and(Peer::is_wanted) {
                self.step(key, Lane::Main, Input::Start);
            }
        }
    }

    fn add(&mut self, config: PeerConfig) -> Option<PeerKey> {
        let mut peer = Peer::new(config, self.now);
        peer.last_error = withheld(&peer.config).map(|why| (self.now, why));
        self.peers.insert(peer)
    }

    fn remove(&mut self, key: PeerKey) {
        self.stop(key, &Notification::new(code::CEASE, cease::DECONFIGURED), "not wished for");
        self.forsake(key);
        self.timers.forget(key);
        self.peers.remove(key);
    }

    /// Ends whatever a peer has, for good.
    fn stop(&mut self, key: PeerKey, notification: &Notification, why: &str) {
        for lane in [Lane::Rival, Lane::Main] {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.words = Some(why.into());
                self.step(key, lane, Input::Stop(notification.clone()));
            }
        }
        if let Some(peer) = self.peers.get_mut(key) {
            peer.words = None;
        }
    }

    /// Ends whatever a peer has without a word, so that it keeps our routes (RFC 4724).
    fn vanish(&mut self, key: PeerKey, why: &str) {
        for lane in [Lane::Rival, Lane::Main] {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.words = Some(why.into());
                self.step(key, lane, Input::Vanish);
            }
        }
        if let Some(peer) = self.peers.get_mut(key) {
            peer.words = None;
        }
    }

    /// A peer's routes are not kept for it any more.
    fn forsake(&mut self, key: PeerKey) {
        let now = self.now;
        if let Some(peer) = self.peers.get_mut(key) {
            let fates = peer.stale.lost(now, Loss::Unwanted, None, &Family::ALL);
            self.decide(key, fates);
        }
    }

    /// Applies a wish to a known peer. Returns whether it is to be started.
    fn change(&mut self, key: PeerKey, config: PeerConfig) -> bool {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else { return false };
        let found = difference(&peer.config, &config);
        if found.is_none() {
            peer.config = config;
            return false;
        }
        let was_wanted = peer.is_wanted();
        // Another router: the old one is told under its old wishes, and its routes go.
        let another = found.reset.0.iter().any(|field| match field {
            Field::Address | Field::Scope => true,
            Field::Asn => !self.is_still(key, config.asn),
            _ => false,
        });
        if was_wanted && another {
            let notification = Notification::new(code::CEASE, cease::DECONFIGURED);
            self.stop(key, &notification, &changed(&found));
            self.forsake(key);
        }
        let Some(peer) = self.peers.get_mut(key) else { return false };
        peer.config = config;
        if let Some(why) = withheld(&peer.config) {
            peer.last_error = Some((now, why));
        }
        match (was_wanted, peer.is_wanted()) {
            (_, false) => {
                self.unwant(key);
                false
            }
            (false, true) => true,
            (true, true) => self.adapt(key, &found) || another,
        }
    }

    /// The peer of the session at hand is one that is now wished for.
    fn is_still(&self, key: PeerKey, asn: PeerAsn) -> bool {
        let session = self.peers.get(key).and_then(|peer| peer.session.as_ref());
        session.is_some_and(|session| match asn {
            PeerAsn::Number(asn) => session.negotiated.peer_asn == asn,
            PeerAsn::External => !session.negotiated.internal,
            PeerAsn::Internal => session.negotiated.internal,
        })
    }

    /// The peer is shut down or withheld from now on.
    fn unwant(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else { return };
        let (notification, why) = match (&peer.config.shutdown, &peer.config.withheld) {
            (Some(text), _) => (
                Notification::cease_with_text(cease::SHUTDOWN, text),
                "administratively down".into(),
            ),
            // A hard one (RFC 8538 §3): we stay down, and the peer must not keep our routes.
            (None, Some(why)) => (Notification::new(code::CEASE, cease::DECONFIGURED), why.clone()),
            (None, None) => return,
        };
        self.stop(key, &notification, &why);
        self.forsake(key);
        let now = self.now;
        if let Some(peer) = self.peers.get_mut(key)
            && let Some(why) = withheld(&peer.config)
        {
            peer.last_error = Some((now, why));
        }
    }

    /// Applies a difference to a peer that is to go on. Returns whether it is to be started.
    fn adapt(&mut self, key: PeerKey, found: &Difference) -> bool {
        let can_refresh = self.can_refresh(key);
        let Some(peer) = self.peers.get(key) else { return false };
        let established = peer.main.state.is_established();
        let resting = matches!(peer.main.state, State::Idle(Idle::Resting));
        if !found.reset.is_empty() || (found.refresh && !can_refresh) {
            return self.begin_anew(key, found);
        }
        if !established {
            if found.rejudge {
                self.rejudge(key);
            }
            let limit = found.live.0.contains(&Field::MaxPrefixes);
            if found.redial && !resting {
                self.vanish(key, "the way to the peer changed");
                return true;
            }
            return resting && limit;
        }
        if let Some(peer) = self.peers.get_mut(key)
            && !found.next_session.is_empty()
        {
            peer.pending = found.next_session.clone();
        }
        if found.live.0.contains(&Field::Keepalive) {
            self.change_keepalive(key);
        }
        if found.retell {
            self.retell(key);
        }
        if found.rejudge || found.refresh {
            self.rejudge(key);
        }
        if found.refresh {
            self.ask_refresh(key);
        }
        self.check_limits(key);
        false
    }

    /// What OPEN or TCP has fixed changed: a new session, of this peer alone.
    fn begin_anew(&mut self, key: PeerKey, found: &Difference) -> bool {
        self.anew(key, &changed(found))
    }

    /// A new session, of this peer alone. Returns whether it is to be started.
    pub(super) fn anew(&mut self, key: PeerKey, why: &str) -> bool {
        let Some(peer) = self.peers.get(key) else { return false };
        let session = peer.session.as_ref();
        // A NOTIFICATION would make the peer drop our routes; a lost connection does not
        // (RFC 4724 §4.2).
        let graceful = session.is_none_or(|s| s.negotiated.agreed(&peer.config).is_some());
        if graceful {
            self.vanish(key, why);
            return true;
        }
        self.step(key, Lane::Rival, Input::CollisionDump);
        let notification = Notification::new(code::CEASE, cease::CONFIGURATION);
        self.step(key, Lane::Main, Input::Interrupt(notification));
        false
    }

    /// How often we say that we live is ours to choose (RFC 4271 §4.4).
    fn change_keepalive(&mut self, key: PeerKey) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else { return };
        let asked = peer.config.keepalive;
        let State::Established { negotiated, .. } = &mut peer.main.state else { return };
        let Some(hold) = negotiated.hold else { return };
        let span = negotiate::keepalive(hold, asked);
        Arc::make_mut(negotiated).keepalive = Some(span);
        let negotiated = Arc::clone(negotiated);
        if let Some(session) = &mut peer.session {
            session.negotiated = negotiated;
        }
        let span = self.dice.jitter(span);
        self.timers.arm(key, Clock::Keepalive, now.after(span));
    }

    /// Who may connect, as a difference to what was said before.
    fn admit(&mut self) {
        self.by_address.clear();
        let mut wanted = Vec::new();
        for key in self.peers.keys() {
            let Some(peer) = self.peers.get(key).filter(|peer| peer.is_wanted()) else { continue };
            let (address, transport) = (peer.config.address, peer.config.transport.clone());
            // Addresses are unique; of two that are not, the first has it.
            if self.by_address.contains_key(&address) {
                continue;
            }
            self.by_address.insert(address, key);
            wanted.push((address, transport));
        }
        let gone: Vec<_> = self
            .admitted
            .keys()
            .filter(|address| !self.by_address.contains_key(*address))
            .copied()
            .collect();
        for remote in gone {
            self.admitted.remove(&remote);
            self.actions.push_back(Action::Expel { remote });
        }
        for (remote, transport) in wanted {
            if self.admitted.get(&remote) != Some(&transport) {
                self.admitted.insert(remote, transport.clone());
                self.actions.push_back(Action::Admit { remote, transport });
            }
        }
    }

    pub(super) fn originate(&mut self, wishes: Wishes) {
        match wishes {
            Wishes::All(all) => self.rib.originate_all(&all),
            Wishes::Some(some) => {
                for (net, wish) in &some {
                    self.rib.originate(*net, wish.as_ref());
                }
            }
        }
    }

    pub(super) fn originations_complete(&mut self) {
        self.originations_complete = true;
        for key in self.peers.keys() {
            let Some(session) = self.peers.get(key).and_then(|p| p.session.as_ref()) else {
                continue;
            };
            if session.tellings.iter().flatten().any(|telling| telling.stage == Stage::Initial) {
                self.wake(key);
            }
        }
    }

    pub(super) fn drain(&mut self, on: bool) {
        if std::mem::replace(&mut self.drain, on) != on {
            for key in self.peers.keys() {
                self.retell(key);
            }
        }
    }

    pub(super) fn reset(&mut self, key: PeerKey, words: &str) {
        let Some(peer) = self.peers.get(key).filter(|peer| peer.is_wanted()) else { return };
        if peer.main.state.negotiated().is_some() {
            self.step(key, Lane::Rival, Input::CollisionDump);
            let notification = Notification::cease_with_text(cease::RESET, words);
            self.step(key, Lane::Main, Input::Interrupt(notification));
        } else {
            self.vanish(key, words);
            if !self.farewell {
                self.step(key, Lane::Main, Input::Start);
            }
        }
    }

    pub(super) fn farewell(&mut self, farewell: &Farewell) {
        self.farewell = true;
        for key in self.peers.keys() {
            match farewell {
                Farewell::Silent => self.vanish(key, "we are restarting"),
                Farewell::Shutdown(text) => {
                    let notification = Notification::cease_with_text(cease::SHUTDOWN, text);
                    self.stop(key, &notification, "we are going away");
                }
            }
        }
    }
}

fn changed(found: &Difference) -> String {
    let fields = if found.reset.is_empty() { &found.live } else { &found.reset };
    format!("the configuration changed: {fields}")
}

fn withheld(config: &PeerConfig) -> Option<DownReason> {
    config.withheld.clone().map(DownReason::Local)
}
