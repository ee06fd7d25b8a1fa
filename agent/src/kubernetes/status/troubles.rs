//! What is wrong, for the condition Degraded. Decides what is graver than what, and how long a peer may
//! take for its first session; whether something is wrong is known already by those who look.

use std::time::Duration;

use super::{Facts, Peer, refusal, told};
use crate::cli::bgp::PeerState;
use crate::cli::check::Status as Judged;
use crate::doctor;
use crate::pods::NotServing;
use crate::policy;
use crate::source::{NodeState, Standing};

/// A peer that is new, or whose agent has just started, may take so long for its first session.
pub(super) const FIRST_SESSION: Duration = Duration::from_secs(15);

/// What can be wrong, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    NodeConfigRefused,
    NodeConfigDeleted,
    NotServing,
    PolicyFailed,
    SpeakerDown,
    Drained,
    NoSession,
    PeerDown,
    PrefixConflict,
    PoolNearlyFull,
    NotAnnounced,
    NodeConfigOverlooked,
}

impl What {
    /// All of them, in this order.
    #[cfg(test)]
    pub(super) const ALL: [Self; 12] = [
        Self::NodeConfigRefused,
        Self::NodeConfigDeleted,
        Self::NotServing,
        Self::PolicyFailed,
        Self::SpeakerDown,
        Self::Drained,
        Self::NoSession,
        Self::PeerDown,
        Self::PrefixConflict,
        Self::PoolNearlyFull,
        Self::NotAnnounced,
        Self::NodeConfigOverlooked,
    ];

    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NodeConfigRefused => "NodeConfigRefused",
            Self::NodeConfigDeleted => "NodeConfigDeleted",
            Self::NotServing => "NotServing",
            Self::PolicyFailed => "PolicyFailed",
            Self::SpeakerDown => "SpeakerDown",
            Self::Drained => "Drained",
            Self::NoSession => "NoSession",
            Self::PeerDown => "PeerDown",
            Self::PrefixConflict => "PrefixConflict",
            Self::PoolNearlyFull => "PoolNearlyFull",
            Self::NotAnnounced => "NotAnnounced",
            Self::NodeConfigOverlooked => "NodeConfigOverlooked",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) what: What,
    pub(super) words: String,
}

pub(super) fn find(facts: &Facts, peers: &[Peer]) -> Vec<Trouble> {
    let mut found = node_config(facts);
    found.extend(serving(facts));
    if let policy::Standing::Failing(reason) = &facts.policies {
        let words =
            format!("network policies cannot be put in force, what was in force stays: {reason}");
        found.push(Trouble { what: What::PolicyFailed, words });
    }
    found.extend(speaker(facts));
    if !facts.drained {
        found.extend(absent(facts, peers));
    }
    let conflicts = facts.conflicts.iter().map(|conflict| Trouble {
        what: What::PrefixConflict,
        words: format!("{conflict}; {}", conflict.remedy()),
    });
    found.extend(conflicts);
    let pools = facts.pools.iter().filter(|pool| pool.status != Judged::Ok);
    found.extend(pools.map(|pool| Trouble {
        what: What::PoolNearlyFull,
        words: format!("pool {}; {}", pool.message, pool.remedy),
    }));
    for peer in &facts.peers {
        found.extend(peer.not_announced.iter().map(|missing| Trouble {
            what: What::NotAnnounced,
            words: format!(
                "{}: {} is not announced: {}",
                peer.name, missing.family, missing.reason
            ),
        }));
    }
    found
}

/// In the doctor's words, where it is not well.
fn node_config(facts: &Facts) -> Vec<Trouble> {
    let deleted = matches!(facts.world.node, NodeState::Known { standing: Standing::Deleted, .. });
    let wrong = doctor::node_config(&facts.world.node);
    let wrong = wrong.into_iter().filter(|finding| finding.status != Judged::Ok);
    wrong
        .map(|finding| Trouble {
            what: match finding.status {
                Judged::Warn | Judged::Ok => What::NodeConfigOverlooked,
                Judged::Fail if deleted => What::NodeConfigDeleted,
                Judged::Fail => What::NodeConfigRefused,
            },
            words: finding.message,
        })
        .collect()
}

/// Waiting for sessions is how a start goes, and a bad NodeConfig has been told.
fn serving(facts: &Facts) -> Option<Trouble> {
    let why = facts.refused.as_ref()?;
    let known = matches!(
        why,
        NotServing::FewSessions { .. } | NotServing::Deleted(_) | NotServing::Stopping(_)
    );
    if known || refusal(&facts.world).is_some() {
        return None;
    }
    Some(Trouble { what: What::NotServing, words: told(why) })
}

fn speaker(facts: &Facts) -> Option<Trouble> {
    facts.world.node.config().filter(|config| config.bgp.is_some())?;
    if facts.drained {
        let words = "the node is drained, or about to be; flock-agent drain --undo brings it back";
        return Some(Trouble { what: What::Drained, words: words.to_owned() });
    }
    if facts.speaking || facts.young {
        return None;
    }
    let words = "the speaker does not run; the agent's log says why, and it is tried again";
    Some(Trouble { what: What::SpeakerDown, words: words.to_owned() })
}

/// Peers without a session. Without any the node is cut off.
fn absent(facts: &Facts, peers: &[Peer]) -> Vec<Trouble> {
    let some_up = peers.iter().any(|peer| peer.state == PeerState::Established);
    let what = if some_up { What::PeerDown } else { What::NoSession };
    let rows = facts.peers.iter().zip(peers);
    let down = rows.filter(|(_, peer)| peer.state != PeerState::Established);
    let late = down.filter(|(row, peer)| {
        let since = peer.since.as_ref().map_or(facts.now, |since| since.0);
        let waited = facts.now.duration_since(since);
        row.flaps > 0 || waited.unsigned_abs() >= FIRST_SESSION
    });
    late.map(|(_, peer)| {
        let why = peer.last_error.as_deref().unwrap_or("no word from it yet");
        Trouble { what, words: format!("{} has no session: {why}", peer.name) }
    })
    .collect()
}
