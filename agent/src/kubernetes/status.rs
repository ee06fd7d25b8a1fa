//! The status of a NodeConfig: what its node's agent makes of it. Decides the conditions and their
//! reasons as a pure function of what was found; what a peer, a pool or a NodeConfig is judged to be is
//! decided where `bgp show` and the doctor have it from. When it is sent is `report`'s.

mod shape;
mod troubles;

use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::bgp::Conflict;
use crate::cli::bgp::{PeerRow, PeerState};
use crate::cli::check::Finding;
use crate::cli::output::harmless;
use crate::pods::NotServing;
use crate::source::{NodeState, World};
pub use shape::{Peer, Status};

/// New pods are served.
pub const READY: &str = "Ready";
/// Something is wrong.
pub const DEGRADED: &str = "Degraded";
/// Settings wait for a session's next beginning.
pub const PENDING_RESET: &str = "PendingReset";

/// No message is longer; a NodeConfig with a hundred problems has said enough by then.
const LONGEST: usize = 4096;
/// Of one peer: a thousand of them are still one object.
const LONGEST_ERROR: usize = 512;
/// The time that a session is up is counted in whole seconds, and from here: it may seem to have begun a
/// second earlier or later than it did.
const INEXACT: Duration = Duration::from_secs(2);

/// Everything that the status is made of.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The NodeConfig, and the object behind it.
    pub world: Arc<World>,
    /// The generation that the speaker follows.
    pub following: Option<i64>,
    /// Why pods cannot be served, where they cannot.
    pub refused: Option<NotServing>,
    /// There is a speaker.
    pub speaking: bool,
    /// The agent has just started.
    pub young: bool,
    /// The node is drained, or about to be.
    pub drained: bool,
    /// As `bgp show peers` has them.
    pub peers: Vec<PeerRow>,
    /// What two nodes claim.
    pub conflicts: Arc<[Conflict]>,
    /// How NetworkPolicies stand.
    pub policies: crate::policy::Standing,
    /// As the doctor judges them.
    pub pools: Vec<Finding>,
    /// The wall clock.
    pub now: Timestamp,
}

impl Facts {
    /// The agent has just started, and its speaker was not told of its peers yet: whatever is said of
    /// them is not true.
    pub fn begins(&self) -> bool {
        let speaks = self.world.node.config().is_some_and(|config| config.bgp.is_some());
        self.young && speaks && !(self.speaking && self.following.is_some())
    }
}

/// The status, after this one: what did not change keeps its time.
pub fn status(facts: &Facts, before: &Status) -> Status {
    let config = facts.world.node.config();
    let networks = config.iter().flat_map(|config| {
        let six = config.cidr6.iter().map(ToString::to_string);
        six.chain(config.cidr4.iter().map(ToString::to_string))
    });
    let speaks = config.is_some_and(|config| config.bgp.is_some());
    let up = facts.peers.iter().filter(|peer| peer.state == PeerState::Established).count();
    let peers: Vec<Peer> = facts.peers.iter().map(|row| peer(row, facts.now, before)).collect();
    let conditions = [ready(facts), degraded(facts, &peers), pending_reset(facts)];
    let conditions = conditions.into_iter().map(|verdict| condition(verdict, facts, before));
    Status {
        observed_generation: config.and(facts.following),
        conditions: conditions.collect(),
        sessions: speaks.then(|| format!("{up}/{}", peers.len())),
        networks: networks.collect(),
        peers,
    }
}

/// A condition before it has a time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

fn ready(facts: &Facts) -> Verdict {
    let (reason, message) = match &facts.refused {
        None => ("Serving", "new pods are served".to_owned()),
        Some(why) => (not_serving(why, &facts.world), told(why)),
    };
    Verdict { kind: READY, holds: facts.refused.is_none(), reason, message }
}

/// In one word.
pub(super) fn not_serving(why: &NotServing, world: &World) -> &'static str {
    match why {
        NotServing::NoConfig(_) if refusal(world).is_some() => "NodeConfigRefused",
        NotServing::NoConfig(_) => "NoNodeConfig",
        NotServing::Deleted(_) => "NodeConfigDeleted",
        NotServing::NoNetworks(_) => "NoNetworks",
        NotServing::NetworkRemoved(_) => "NetworkRemoved",
        NotServing::DiskFails(_) => "DiskFails",
        NotServing::FewSessions { .. } => "FewSessions",
        NotServing::Stopping(_) => "Stopping",
    }
}

/// In words that stay the same while nothing changes.
pub(super) fn told(why: &NotServing) -> String {
    match why {
        NotServing::FewSessions { up, wanted, .. } => format!(
            "{up} of {wanted} BGP sessions are up and told everything; spec.readiness waits for them, up \
             to its timeout"
        ),
        why => why.to_string(),
    }
}

fn degraded(facts: &Facts, peers: &[Peer]) -> Verdict {
    let mut found = troubles::find(facts, peers);
    found.sort_by_key(|trouble| trouble.what);
    let message = found.iter().map(|trouble| trouble.words.as_str()).collect::<Vec<_>>().join("; ");
    match found.first() {
        Some(gravest) => {
            Verdict { kind: DEGRADED, holds: true, reason: gravest.what.reason(), message }
        }
        None => Verdict {
            kind: DEGRADED,
            holds: false,
            reason: "AsConfigured",
            message: "everything is as the NodeConfig wants it".to_owned(),
        },
    }
}

fn pending_reset(facts: &Facts) -> Verdict {
    let waiting = facts.peers.iter().filter_map(|peer| Some((&peer.name, peer.pending.as_ref()?)));
    let words: Vec<String> = waiting
        .map(|(name, fields)| {
            format!("{name}: {fields} changed; flock-agent bgp reset {name} brings it into force")
        })
        .collect();
    if words.is_empty() {
        let message = "every session has the settings of the NodeConfig".to_owned();
        return Verdict { kind: PENDING_RESET, holds: false, reason: "NothingWaits", message };
    }
    let message = words.join("; ");
    Verdict { kind: PENDING_RESET, holds: true, reason: "NextSession", message }
}

fn condition(verdict: Verdict, facts: &Facts, before: &Status) -> Condition {
    let Verdict { kind, holds, reason, message } = verdict;
    let status = if holds { "True" } else { "False" };
    let same = |known: &&Condition| known.type_ == kind && known.status == status;
    let since = before.conditions.iter().find(same).map(|known| known.last_transition_time.0);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: bounded(&message, LONGEST),
        last_transition_time: whole(since.unwrap_or(facts.now)),
        observed_generation: facts.world.object.as_ref().map(|object| object.generation),
    }
}

fn peer(row: &PeerRow, now: Timestamp, before: &Status) -> Peer {
    let up = row.state == PeerState::Established;
    let known = before.peers.iter().find(|known| known.name == row.name);
    let known = known.filter(|known| (known.state == PeerState::Established) == up);
    let known = known.and_then(|known| known.since.as_ref()).map(|since| since.0);
    let began =
        i64::try_from(row.uptime_seconds).ok().and_then(|up| now.checked_sub(up.seconds()).ok());
    let since = match (known, began.filter(|_| up)) {
        (Some(known), Some(began)) if known.duration_until(began).unsigned_abs() <= INEXACT => {
            known
        }
        (_, Some(began)) => began,
        (known, None) => known.unwrap_or(now),
    };
    Peer {
        name: row.name.clone(),
        address: row.address.clone(),
        asn: row.asn.map(i64::from),
        state: row.state,
        since: Some(whole(since)),
        families: row.families.clone(),
        received: i64::from(row.received),
        accepted: i64::from(row.accepted),
        advertised: i64::from(row.advertised),
        last_error: row.last_error.as_ref().map(|error| bounded(error, LONGEST_ERROR)),
    }
}

/// As it is written: seconds have no parts there.
fn whole(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

/// One line that no terminal obeys, and not too long.
pub(super) fn bounded(text: &str, most: usize) -> String {
    let line = harmless(text).replace('\n', "; ");
    if line.len() <= most {
        return line;
    }
    let end = line.floor_char_boundary(most.saturating_sub(4));
    format!("{} ...", line.get(..end).unwrap_or_default())
}

/// Whether there is a bad NodeConfig in the place of the one in force, and what is wrong with it.
pub(super) fn refusal(world: &World) -> Option<&str> {
    use crate::source::Standing;
    match &world.node {
        NodeState::Known { standing: Standing::Refused(why), .. } => Some(why),
        // It is there, and everything else that it takes was told: so it is a bad one.
        NodeState::Unknown { reason } if world.object.is_some() && world.away.is_none() => {
            Some(reason)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
