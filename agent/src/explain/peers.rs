//! Which peers were told, when and in which words; which were not, and why not.

use flock_bgp::{Pending, Withheld};
use jiff::Timestamp;

use crate::cli::bgp::{ExplainedPeer, PeerState};

use super::facts::{Facts, Heard, Peer};
use super::words::{at, attributes, clock, list, rfc3339, since, told, within};

/// More peers than these are counted.
const SHOWN: usize = 16;
/// What is told within such a time was told at one moment, as far as people are concerned.
const MOMENT: i64 = 1;

const NOT_TAKEN: &str = "the peer has not taken yet what was sent to it before";
const NOT_ORIGINATED: &str = "this node does not originate it";

/// The peers that are asked about.
pub(super) fn asked(facts: &Facts) -> Vec<&Peer> {
    let peers = facts.speaker.iter().flat_map(|speaker| &speaker.peers);
    let wanted = |peer: &&Peer| facts.only.as_ref().is_none_or(|only| *only == peer.name);
    peers.filter(wanted).collect()
}

pub(super) fn was_told(peer: &Peer) -> bool {
    peer.heard.as_ref().is_some_and(|heard| heard.told)
}

/// Whether there is something that a peer could be told.
fn has_route(facts: &Facts) -> bool {
    let route = facts.speaker.as_ref().and_then(|speaker| speaker.route.as_ref());
    route.is_some_and(|route| route.reason.is_some())
}

/// Why a peer was not told, or what it is still to be told; `None`: it was told, and that is all.
pub(super) fn reason(facts: &Facts, peer: &Peer) -> Option<String> {
    if let Some(why) = &peer.untold {
        return Some(format!("it is not followed: {why}"));
    }
    if !has_route(facts) && !was_told(peer) {
        let gone = withdrawn(peer)
            .map(|when| format!("it was told {} that it is gone", at(when, facts.now)));
        return Some(gone.unwrap_or_else(|| NOT_ORIGINATED.to_owned()));
    }
    if peer.state != PeerState::Established {
        return Some(down(peer, facts.now));
    }
    let Some(heard) = &peer.heard else {
        let why = peer.not_announced.as_deref();
        return Some(why.unwrap_or("this family is not among its families").to_owned());
    };
    match (heard.told, heard.pending) {
        (true, None) => None,
        (true, Some(Pending::Withdrawal)) => Some(format!("its withdrawal is queued: {NOT_TAKEN}")),
        (true, Some(Pending::Announcement)) => {
            Some(format!("what is new about it is queued: {NOT_TAKEN}"))
        }
        (false, Some(_)) => Some(format!("queued: {NOT_TAKEN}")),
        (false, None) => Some(match (&peer.not_announced, peer.withheld) {
            (Some(why), _) => why.clone(),
            (None, Some(why)) => why.to_string(),
            // Policy lets it be told, and it is not queued.
            (None, None) => Withheld::TooLong.to_string(),
        }),
    }
}

/// The same in fewer words, for the verdict.
pub(super) fn shortly(facts: &Facts, peer: &Peer) -> Option<String> {
    let reason = reason(facts, peer)?;
    let down = peer.untold.is_none() && has_route(facts) && peer.state != PeerState::Established;
    match &peer.last_error {
        Some(error) if down => Some(format!("no session: {error}")),
        None if down => Some("no session".to_owned()),
        _ => Some(reason),
    }
}

fn down(peer: &Peer, now: Timestamp) -> String {
    let session = match peer.ended {
        Some(ended) => format!("no session {}", since(ended, now)),
        None => "no session yet".to_owned(),
    };
    let error = peer.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let next = peer.next_attempt.map(|next| format!("; next attempt {}", within(next)));
    format!("{session}, now {}{error}{}", peer.state, next.unwrap_or_default())
}

pub(super) fn sentences(facts: &Facts) -> Vec<String> {
    if facts.speaker.is_none() {
        return vec![no_speaker(facts)];
    }
    let peers = asked(facts);
    if peers.is_empty() {
        return vec!["No peers are configured (spec.bgp.peers).".to_owned()];
    }
    let (told, untold): (Vec<&Peer>, Vec<&Peer>) = peers.iter().partition(|peer| was_told(peer));
    let mut said: Vec<String> = told.iter().take(SHOWN).map(|peer| of_told(facts, peer)).collect();
    if let Some(more) = told.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        said.push(format!("{more} more peers were told; -o json has them all."));
    }
    let (gone, never): (Vec<&Peer>, Vec<&Peer>) =
        untold.into_iter().partition(|peer| !has_route(facts) && withdrawn(peer).is_some());
    let gone = grouped(&gone, |peer| withdrawn(peer).map(|when| at(when, facts.now)));
    let gone = gone.into_iter().map(|(when, names)| {
        format!("{} {} told {when} that it is gone.", list(&names), were(&names))
    });
    said.extend(gone);
    let never = grouped(&never, |peer| reason(facts, peer));
    let never = never
        .into_iter()
        .map(|(why, names)| format!("{} {} not told: {why}.", list(&names), were(&names)));
    said.extend(never);
    said
}

/// Why nobody is told anything.
fn no_speaker(facts: &Facts) -> String {
    match &facts.node.problem {
        Some(problem) if facts.node.config.is_none() => problem.clone(),
        _ if facts.node.speaks => "The speaker is being started.".to_owned(),
        _ => "This node does not speak BGP: spec.bgp is not set.".to_owned(),
    }
}

fn of_told(facts: &Facts, peer: &Peer) -> String {
    let Some(heard) = &peer.heard else { return String::new() };
    let when = when(heard, facts.now).map(|when| format!(" {when}")).unwrap_or_default();
    let what = heard.attributes.as_ref().map(|of| format!(": {}", told(&attributes(of, false))));
    let what = what.unwrap_or_default();
    let but = reason(facts, peer).map(|why| format!("; {why}")).unwrap_or_default();
    format!("{} was told{when}{what}{but}.", peer.name)
}

/// `at 12:00:03 UTC (5m ago)`, or between two such moments.
fn when(heard: &Heard, now: Timestamp) -> Option<String> {
    let (from, until) = heard.when?;
    Some(match exactly(from, until) {
        true => at(until, now),
        false => format!("between {} and {}", clock(from, now), clock(until, now)),
    })
}

fn exactly(from: Timestamp, until: Timestamp) -> bool {
    until.as_second().saturating_sub(from.as_second()) <= MOMENT
}

/// When a peer was told that the prefix is gone.
fn withdrawn(peer: &Peer) -> Option<Timestamp> {
    let heard = peer.heard.as_ref().filter(|heard| !heard.told)?;
    heard.when.map(|(_, when)| when)
}

/// Those of which the same is to be said together.
pub(super) fn grouped<'a>(
    peers: &[&'a Peer],
    words: impl Fn(&Peer) -> Option<String>,
) -> Vec<(String, Vec<&'a str>)> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for peer in peers {
        let words = words(peer).unwrap_or_default();
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) => names.push(&peer.name),
            None => groups.push((words, vec![&peer.name])),
        }
    }
    groups
}

fn were(names: &[&str]) -> &'static str {
    if names.len() == 1 { "was" } else { "were" }
}

/// For machines.
pub(super) fn answers(facts: &Facts) -> Vec<ExplainedPeer> {
    asked(facts).into_iter().map(|peer| answer(facts, peer)).collect()
}

fn answer(facts: &Facts, peer: &Peer) -> ExplainedPeer {
    let told = was_told(peer);
    let heard = peer.heard.as_ref();
    let when = heard.filter(|_| told).and_then(|heard| heard.when);
    let attributes = heard.and_then(|heard| heard.attributes.as_ref());
    ExplainedPeer {
        name: peer.name.clone(),
        state: peer.state,
        told,
        told_at: when.map(|(_, until)| rfc3339(until)),
        told_not_before: when.map(|(from, _)| rfc3339(from)),
        told_exactly: when.is_some_and(|(from, until)| exactly(from, until)),
        attributes: attributes.map(|of| self::attributes(of, false)),
        pending: heard.is_some_and(|heard| heard.pending.is_some()),
        reason: reason(facts, peer),
    }
}
