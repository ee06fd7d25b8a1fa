//! The networks of the node changed, or what is believed of a peer: what it told is judged anew, and
//! asked for again where something that was refused may be welcome now.

use std::sync::Arc;

use flock_bgp_wire::Family;
use ipnet::IpNet;

use super::Speaker;
use crate::event::PeerKey;
use crate::fsm::Input;
use crate::peer::Lane;
use crate::policy::networks::Networks;
use crate::tally::Tally;

impl Speaker {
    pub(super) fn networks(&mut self, connected: Vec<IpNet>, own: Vec<IpNet>, down: Vec<IpNet>) {
        let networks = Networks::new(connected, own, down);
        if self.networks.as_deref() == Some(&networks) {
            return;
        }
        self.networks = Some(Arc::new(networks));
        for key in self.peers.keys() {
            // What was refused has no attributes left. Where nothing was, nothing is to be gained.
            let refused = self.has_refused(key);
            self.rejudge(key);
            if refused && self.can_refresh(key) {
                self.ask_refresh(key);
            } else if refused && self.anew(key, "the node's networks changed") {
                self.step(key, Lane::Main, Input::Start);
            }
        }
    }

    fn has_refused(&self, key: PeerKey) -> bool {
        Family::ALL.into_iter().any(|family| self.rib.counts(key, family).has_refused())
    }

    /// What is believed of a peer changed: what it told is judged again, also where it is away.
    pub(super) fn rejudge(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        let Some(judge) = &mut peer.judge else { return };
        judge.import = peer.config.import.clone();
        judge.networks = self.networks.clone();
        let mut refused = Tally::default();
        for family in Family::ALL {
            self.rib.rejudge(key, family, &mut |net, kept| {
                let verdict = judge.again(net, kept);
                if let Err(why) = verdict
                    && kept != Err(why)
                    && judge.is_news(net, why)
                {
                    refused.add((why, net));
                }
                verdict
            });
        }
        if !refused.is_empty() {
            self.refused_nets(key, refused);
        }
    }

    /// Whether it would send everything again, or is to begin anyway.
    pub(super) fn can_refresh(&self, key: PeerKey) -> bool {
        let session = self.peers.get(key).and_then(|peer| peer.session.as_ref());
        session.is_none_or(|session| session.negotiated.refresh)
    }

    pub(super) fn ask_refresh(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        let Some(session) = &peer.session else { return };
        let Some(connection) = &mut peer.main.connection else { return };
        if session.negotiated.refresh {
            for family in session.negotiated.families() {
                connection.outbox.refresh(family);
            }
            self.wake(key);
        }
    }
}
