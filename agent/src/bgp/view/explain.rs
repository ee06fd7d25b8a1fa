//! What the speaker and its surroundings know of one prefix, as facts for `explain`. One question to
//! the speaker, so that all of it is of one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use flock_bgp::{Family, Now, PathView, PeerKey, PeerStatus, RouteView, Speaker};
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};

use super::super::Bgp;
use super::super::drain::{Stage, seconds};
use super::super::peers::Untold;
use super::{gone, sessions};
use crate::cli::bgp::PeerState;
use crate::explain::facts::{self, Drain, Heard, Peer, Route};
use crate::reconcile::Reconciler;

/// A peer that is not to carry the family.
const NOT_WISHED: &str =
    "the NodeConfig does not give it this address family (spec.bgp.peers[].families)";

impl Bgp {
    /// Who knows what is originated.
    pub(crate) fn reconciler(&self) -> &Reconciler {
        &self.reconciler
    }

    /// How far the node is on its way out of service.
    pub(crate) fn drain_stage(&self, now: Timestamp) -> Option<Drain> {
        self.stage().map(|stage| match stage {
            Stage::Draining { .. } => {
                Drain::Draining(stage.left(now).map(seconds).unwrap_or_default())
            }
            Stage::Drained { since } => Drain::Drained(since),
        })
    }

    /// Whether anything is known of a prefix itself, and the narrowest around it that is used.
    pub(crate) async fn known_of(&self, prefix: IpNet) -> Result<(bool, Option<IpNet>), String> {
        let Some(live) = self.live() else { return Ok((false, None)) };
        let look = move |speaker: &Speaker| {
            let around = speaker.route_around(prefix).map(|route| route.net);
            (speaker.route(prefix).is_some(), around)
        };
        live.handle.query(look).await.map_err(gone)
    }

    /// What the speaker knows of a prefix; `None`: there is no speaker.
    pub(crate) async fn facts_of(
        &self,
        prefix: IpNet,
        now: Timestamp,
    ) -> Result<Option<facts::Speaker>, String> {
        let Some(live) = self.live() else { return Ok(None) };
        let began = live.handle.now();
        let wall = Wall { now: began, time: now };
        let look = move |speaker: &Speaker| {
            let statuses: Vec<PeerStatus> = speaker.peers().collect();
            let names = statuses.iter().map(|peer| (peer.key, Arc::clone(&peer.name))).collect();
            facts::Speaker {
                peers: statuses.iter().map(|peer| of_peer(speaker, peer, prefix, wall)).collect(),
                route: speaker.route(prefix).map(|route| of_route(&route, &names)),
            }
        };
        let mut speaker = live.handle.query(look).await.map_err(gone)?;
        speaker.peers.extend(live.untold.iter().map(of_untold));
        speaker.peers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Some(speaker))
    }
}

/// The speaker's clock beside the wall's.
#[derive(Clone, Copy)]
struct Wall {
    now: Now,
    time: Timestamp,
}

impl Wall {
    /// When that was.
    fn at(self, moment: Now) -> Timestamp {
        let ago = self.now.0.saturating_sub(moment.0);
        let ago = SignedDuration::try_from(ago).unwrap_or(SignedDuration::MAX);
        self.time.checked_sub(ago).unwrap_or(Timestamp::MIN)
    }

    /// Whole seconds until then.
    fn until(self, moment: Now) -> u64 {
        seconds(moment.0.saturating_sub(self.now.0))
    }
}

fn of_peer(speaker: &Speaker, peer: &PeerStatus, prefix: IpNet, wall: Wall) -> Peer {
    let family = if prefix.addr().is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
    let used = peer.families.iter().find(|used| used.family == family);
    let heard = speaker.heard(peer.key, prefix).map(|heard| Heard {
        told: heard.told,
        when: heard.when.map(|span| (wall.at(span.from), wall.at(span.until))),
        attributes: heard.attributes,
        pending: heard.pending,
    });
    Peer {
        name: peer.name.to_string(),
        state: sessions::state(peer.state),
        ended: peer.session_ended.map(|at| wall.at(at)),
        last_error: sessions::last_error(peer),
        next_attempt: peer.next_attempt.map(|at| wall.until(at)),
        untold: None,
        not_announced: match used {
            Some(used) => used.not_announced.clone(),
            None => Some(NOT_WISHED.to_owned()),
        },
        heard,
        withheld: speaker.explain(peer.key, prefix).and_then(Result::err),
    }
}

fn of_untold(peer: &Untold) -> Peer {
    Peer {
        name: peer.name.clone(),
        state: PeerState::Idle,
        ended: None,
        last_error: None,
        next_attempt: None,
        untold: Some(peer.reason.clone()),
        not_announced: None,
        heard: None,
        withheld: None,
    }
}

fn of_route(route: &RouteView<'_>, names: &BTreeMap<PeerKey, Arc<str>>) -> Route {
    let path = |path: &PathView<'_>| facts::Path {
        peer: path.peer.map(|key| names.get(&key).map(ToString::to_string).unwrap_or_default()),
        attributes: path.attributes.cloned(),
        best: path.best,
        equal: path.equal,
        stale: path.stale,
        withheld: path.withheld,
        lost: path.lost,
    };
    Route { reason: route.reason, paths: route.paths.iter().map(path).collect() }
}
