//! What people hear of what a peer told. Decides how often: a peer that does something over and over
//! is told of once a second (`tally`).

use flock_bgp_wire::{Disposition, Fault};
use ipnet::IpNet;

use super::Speaker;
use crate::event::{Notice, PeerKey};
use crate::policy::Withheld;
use crate::tally::{APART, Tally};
use crate::timer::Clock;

impl Speaker {
    /// An UPDATE had something wrong that was survived.
    pub(super) fn malformed(&mut self, key: PeerKey, fault: &Fault) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else { return };
        peer.faults += 1;
        if peer.fault_told.is_some_and(|told| now.since(told) < APART) {
            return;
        }
        peer.fault_told = Some(now);
        let name = peer.config.name.clone();
        let followed = match fault.disposition {
            Disposition::Discard => "the attribute was ignored",
            Disposition::TreatAsWithdraw => "its routes count as withdrawn",
        };
        let what = format!("{}: {followed}", fault.what).into();
        self.notice(Notice::Malformed { peer: key, name, attribute: fault.attribute, what });
    }

    /// Prefixes of a peer were refused.
    pub(super) fn refused_nets(&mut self, key: PeerKey, tally: Tally<(Withheld, IpNet)>) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.refused.happened(tally);
            self.tell_untold(key);
        }
    }

    /// A peer tells what we originate.
    pub(super) fn contested_nets(&mut self, key: PeerKey, tally: Tally<IpNet>) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.contested.happened(tally);
            self.tell_untold(key);
        }
    }

    /// Tells what may be told by now, and comes back for the rest.
    pub(super) fn tell_untold(&mut self, key: PeerKey) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else { return };
        let name = || peer.config.name.clone();
        let refused = peer.refused.take(now).map(|((why, net), more)| Notice::Refused {
            peer: key,
            name: name(),
            net,
            why,
            more,
        });
        let contested = peer.contested.take(now).map(|(net, more)| Notice::Contested {
            peer: key,
            name: name(),
            net,
            more,
        });
        if let Some(due) = peer.refused.due().into_iter().chain(peer.contested.due()).min() {
            self.timers.arm(key, Clock::Notices, due);
        }
        for notice in refused.into_iter().chain(contested) {
            self.notice(notice);
        }
    }
}
