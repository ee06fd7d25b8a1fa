//! One peer as it is, in the words of `bgp show peers`.

use flock_bgp::{FamilyStatus, Now, PeerStatus, State};

use super::super::peers::Untold;
use crate::cli::bgp::{FamilyRow, NotAnnounced, PeerRow, PeerState};

pub(super) fn row(peer: &PeerStatus, now: Now) -> PeerRow {
    let established = peer.state == State::Established;
    let since = |at: Now| now.0.saturating_sub(at.0).as_secs();
    let total = |of: fn(&FamilyStatus) -> u32| peer.families.iter().map(of).sum();
    let used = || peer.families.iter().filter(|family| family.negotiated || !established);
    let negotiated = peer.negotiated.as_ref();
    let every = |of: fn(&FamilyStatus) -> bool| established && used().all(of);
    PeerRow {
        name: peer.name.to_string(),
        address: peer.address.to_string(),
        asn: peer.asn,
        local_asn: peer.local_asn,
        state: state(peer.state),
        uptime_seconds: if established { since(peer.since) } else { 0 },
        families: used().map(|family| family.family.name().to_owned()).collect(),
        received: total(|family| family.received),
        accepted: total(|family| family.accepted),
        advertised: total(|family| family.advertised),
        last_error: last_error(peer),
        last_error_seconds_ago: peer.last_error.as_ref().map(|error| since(error.at)),
        state_seconds: since(peer.since),
        next_attempt_seconds: peer.next_attempt.map(|at| at.0.saturating_sub(now.0).as_secs()),
        router_id: negotiated.map(|negotiated| negotiated.peer_id.to_string()),
        local_address: peer.connection.map(|(local, _)| local.ip().to_canonical().to_string()),
        hold_time_seconds: negotiated.and_then(|n| n.hold_time).map(|time| time.as_secs()),
        keepalive_seconds: negotiated.and_then(|n| n.keepalive).map(|time| time.as_secs()),
        end_of_rib_sent: every(|family| family.end_of_rib_sent),
        end_of_rib_received: every(|family| family.end_of_rib_received),
        restarting: peer.families.iter().any(|family| family.stale),
        pending: peer.pending.clone(),
        not_announced: peer.families.iter().filter_map(not_announced).collect(),
        flaps: peer.flaps,
        messages_sent: peer.messages.sent,
        messages_received: peer.messages.received,
        family_details: peer.families.iter().map(family_row).collect(),
    }
}

/// Why the last session ended and, where nobody answers since then, what is known about that.
pub(super) fn last_error(peer: &PeerStatus) -> Option<String> {
    let error = peer.last_error.as_ref()?;
    let since = peer.last_refusal.as_ref().filter(|refusal| refusal.at > error.at);
    Some(match since {
        Some(refusal) => format!("{}; since then: {}", error.reason, refusal.reason),
        None => error.reason.to_string(),
    })
}

pub(in crate::bgp) fn state(state: State) -> PeerState {
    match state {
        State::Idle => PeerState::Idle,
        State::Connect => PeerState::Connect,
        State::Active => PeerState::Active,
        State::OpenSent => PeerState::OpenSent,
        State::OpenConfirm => PeerState::OpenConfirm,
        State::Established => PeerState::Established,
    }
}

fn not_announced(family: &FamilyStatus) -> Option<NotAnnounced> {
    let reason = family.not_announced.clone()?;
    Some(NotAnnounced { family: family.family.name().to_owned(), reason })
}

fn family_row(family: &FamilyStatus) -> FamilyRow {
    FamilyRow {
        family: family.family.name().to_owned(),
        negotiated: family.negotiated,
        received: family.received,
        accepted: family.accepted,
        advertised: family.advertised,
        end_of_rib_sent: family.end_of_rib_sent,
        end_of_rib_received: family.end_of_rib_received,
        stale: family.stale,
    }
}

/// A peer that the speaker does not know.
pub(super) fn untold(peer: &Untold, local_asn: u32) -> PeerRow {
    PeerRow {
        name: peer.name.clone(),
        address: peer.place.clone(),
        asn: peer.asn,
        local_asn,
        state: PeerState::Idle,
        uptime_seconds: 0,
        families: Vec::new(),
        received: 0,
        accepted: 0,
        advertised: 0,
        last_error: Some(peer.reason.clone()),
        last_error_seconds_ago: None,
        state_seconds: 0,
        next_attempt_seconds: None,
        router_id: None,
        local_address: None,
        hold_time_seconds: None,
        keepalive_seconds: None,
        end_of_rib_sent: false,
        end_of_rib_received: false,
        restarting: false,
        pending: None,
        not_announced: Vec::new(),
        flaps: 0,
        messages_sent: 0,
        messages_received: 0,
        family_details: Vec::new(),
    }
}
