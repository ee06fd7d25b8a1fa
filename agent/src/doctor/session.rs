//! One peer: is its session there, does it last, and is everything told? Pure.

use std::time::Duration;

use flock_bgp::{Capability, DownReason, FamilyStatus, Now, PeerStatus, State};

use super::name::PEER;
use super::remedy::remedy;
use crate::cli::check::{Finding, Status};

/// What takes longer to be told is stuck.
const TOLD_WITHIN: Duration = Duration::from_secs(60);
/// So many ends, of which the last is so near ...
const FLAPS: u64 = 3;
const LATELY: Duration = Duration::from_secs(600);
/// ... and one so often: that is flapping.
const OFTEN: Duration = Duration::from_secs(3600);

/// What there is beside the peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    /// The speaker's clock.
    pub(super) now: Now,
    /// The node is going away, or gone.
    pub(super) drained: bool,
    /// Some session is up.
    pub(super) some_up: bool,
}

/// All that is to be said about a peer.
pub(super) fn judge(peer: &PeerStatus, around: Around) -> Vec<Finding> {
    if peer.state != State::Established {
        return vec![down(peer, around)];
    }
    let mut findings: Vec<Finding> =
        peer.families.iter().filter_map(|family| not_announced(peer, family)).collect();
    findings.extend(untold(peer, around.now, says_when_all_is_told(peer)));
    findings.extend(flapping(peer, around.now));
    findings.extend(peer.pending.as_ref().map(|pending| {
        Finding::warn(
            PEER,
            format!("{}: {pending} changed and waits for the next session", peer.name),
            format!("flock-agent bgp reset {} makes it so, and interrupts the session", peer.name),
        )
    }));
    if findings.is_empty() {
        let advertised: u32 = peer.families.iter().map(|family| family.advertised).sum();
        findings.push(Finding::ok(
            PEER,
            format!("{}: Established, {advertised} routes told", peer.name),
        ));
    }
    findings
}

fn down(peer: &PeerStatus, around: Around) -> Finding {
    let (name, state) = (&peer.name, peer.state);
    if around.drained {
        return Finding::warn(
            PEER,
            format!("{name}: {state}, because the node is drained"),
            "flock-agent drain --undo brings it back",
        );
    }
    let Some(reason) = last(peer) else {
        return Finding::warn(
            PEER,
            format!("{name}: {state}, no word from it yet"),
            "wait for the first attempt to end, and ask again",
        );
    };
    Finding {
        check: PEER.into(),
        // Without any session the node is cut off.
        status: if around.some_up { Status::Warn } else { Status::Fail },
        message: format!("{name}: {state}: {}", in_words(peer)),
        remedy: remedy(peer, reason),
    }
}

/// What to mend: the latest reason. A peer that hangs up without a word since it said why has said it.
fn last(peer: &PeerStatus) -> Option<&DownReason> {
    let (ended, since) = (peer.last_error.as_ref(), peer.last_refusal.as_ref());
    let said_why = ended.filter(|error| error.reason.code().is_some());
    let hangs_up = since.is_some_and(|since| matches!(since.reason, DownReason::Closed(_)));
    let latest = ended.into_iter().chain(since).max_by_key(|error| error.at);
    said_why.filter(|_| hangs_up).or(latest).map(|error| &error.reason)
}

/// As `bgp show` has it.
fn in_words(peer: &PeerStatus) -> String {
    let Some(error) = &peer.last_error else { return String::new() };
    match peer.last_refusal.as_ref().filter(|refusal| refusal.at > error.at) {
        Some(refusal) => format!("{}; since then: {}", error.reason, refusal.reason),
        None => error.reason.to_string(),
    }
}

fn not_announced(peer: &PeerStatus, family: &FamilyStatus) -> Option<Finding> {
    let reason = family.not_announced.as_ref()?;
    let (name, family) = (&peer.name, family.family.name());
    let remedy = if reason.contains("next hop") {
        format!(
            "give the link to {name} an address of that family, or set nextHop for the peer, or \
             leave {family} out of its families"
        )
    } else {
        format!("enable {family} for this node at {name}, or leave it out of its families")
    };
    Some(Finding::warn(PEER, format!("{name}: nothing of {family} is told: {reason}"), remedy))
}

/// Who does not speak RFC 4724 need not say when that was all.
fn says_when_all_is_told(peer: &PeerStatus) -> bool {
    let offered = peer.negotiated.iter().flat_map(|session| &session.received);
    offered.into_iter().any(|capability| matches!(capability, Capability::GracefulRestart(_)))
}

/// A session that is up, and one side has not told everything.
fn untold(peer: &PeerStatus, now: Now, says_so: bool) -> Vec<Finding> {
    if since(now, peer.since) < TOLD_WITHIN {
        return Vec::new();
    }
    let name = &peer.name;
    let mut findings = Vec::new();
    for family in peer.families.iter().filter(|family| family.negotiated) {
        let shown = family.family.name();
        if !family.end_of_rib_sent {
            findings.push(Finding::warn(
                PEER,
                format!("{name}: not everything of {shown} is told after a minute"),
                format!("see whether {name} reads (its load, its log), and the agent's log"),
            ));
        }
        if says_so && !family.end_of_rib_received {
            findings.push(Finding::warn(
                PEER,
                format!("{name}: it has not said that it told everything of {shown}"),
                format!("see the log of {name}; until then routes from before a restart are kept"),
            ));
        }
    }
    findings
}

fn flapping(peer: &PeerStatus, now: Now) -> Option<Finding> {
    let error = peer.last_error.as_ref()?;
    let ago = since(now, peer.session_ended.unwrap_or(error.at));
    let often = now.0.checked_div(u32::try_from(peer.flaps).unwrap_or(u32::MAX))?;
    if peer.flaps < FLAPS || ago > LATELY || often > OFTEN {
        return None;
    }
    Some(Finding::warn(
        PEER,
        format!(
            "{}: {} sessions have ended, the last one {} s ago: {}",
            peer.name,
            peer.flaps,
            ago.as_secs(),
            error.reason
        ),
        remedy(peer, &error.reason),
    ))
}

fn since(now: Now, at: Now) -> Duration {
    now.0.saturating_sub(at.0)
}

#[cfg(test)]
mod tests;
