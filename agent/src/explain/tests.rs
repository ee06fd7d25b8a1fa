//! Every situation, as facts and as what is said of it. The same situations are made for real in
//! `interop-tests/tests/explain`.

mod asked;
mod learned;
mod told;

use flock_bgp::{AsPath, Attributes, NextHop, Origin as OriginCode, Pending, Reason, Withheld};
use flock_dataplane::{PROTOCOL, StandingHop, StandingRoute};
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};

use super::explained;
use super::facts::*;
use crate::cli::bgp::{About, Destination, Explanation, PeerState};
use crate::pods::book::Phase;
use About::{Advice, Covering, Kernel as InKernel, Origin as Asked, Paths, Peers};

const NETWORK: &str = "10.244.1.0/24";
const ANYCAST: &str = "192.0.2.53/32";

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    "2026-07-29T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn route(path: &[u32], hop: [u8; 4]) -> Attributes {
    let mut attributes = Attributes::new(OriginCode::Igp, NextHop::V4(hop.into()));
    attributes.as_path = AsPath::sequence(path.iter().copied());
    attributes
}

/// A peer with a session that was told five minutes ago.
fn told(name: &str) -> Peer {
    Peer {
        name: name.into(),
        state: PeerState::Established,
        ended: None,
        last_error: None,
        next_attempt: None,
        untold: None,
        not_announced: None,
        heard: Some(Heard {
            told: true,
            when: Some((ago(300), ago(300))),
            attributes: Some(route(&[65_001], [172, 16, 1, 2])),
            pending: None,
        }),
        withheld: None,
    }
}

/// One with a session that knows nothing of it.
fn untold(name: &str) -> Peer {
    Peer { heard: Some(Heard::default()), ..told(name) }
}

/// One without a session.
fn down(name: &str) -> Peer {
    Peer {
        state: PeerState::Active,
        last_error: Some("cannot connect: Connection refused".into()),
        next_attempt: Some(3),
        heard: None,
        ..told(name)
    }
}

fn ours() -> Path {
    Path {
        peer: None,
        attributes: Some(route(&[], [0, 0, 0, 0])),
        best: true,
        equal: true,
        stale: false,
        withheld: None,
        lost: None,
    }
}

fn from(peer: &str, path: &[u32], lost: Option<Reason>) -> Path {
    Path {
        peer: Some(peer.into()),
        attributes: Some(route(path, [172, 16, 1, 1])),
        best: lost.is_none(),
        equal: lost.is_none_or(|step| step >= Reason::RouterId),
        lost,
        ..ours()
    }
}

fn refused(peer: &str, why: Withheld) -> Path {
    Path {
        attributes: None,
        best: false,
        equal: false,
        withheld: Some(why),
        ..from(peer, &[], None)
    }
}

fn standing(text: &str, kind: &str, hops: &[(&str, &str)]) -> StandingRoute {
    let hop =
        |(via, dev): &(&str, &str)| StandingHop { via: via.parse().ok(), dev: (*dev).to_owned() };
    StandingRoute {
        destination: net(text),
        kind: kind.into(),
        protocol: PROTOCOL,
        metric: 0,
        hops: hops.iter().map(hop).collect(),
    }
}

/// Nothing is known of a prefix, on a node with two peers.
fn nothing(text: &str) -> Facts {
    Facts {
        asked: Destination::Prefix(net(text)),
        prefix: net(text),
        now: now(),
        node: Node { config: Some("node-1".into()), speaks: true, ..Node::default() },
        origin: Origin::default(),
        pods: vec![],
        mentions: vec![],
        holder: None,
        kernel: Kernel::default(),
        speaker: Some(Speaker { peers: vec![untold("tor-a"), untold("tor-b")], route: None }),
        only: None,
        covering: None,
        within: vec![],
    }
}

/// The node's network, told to both peers.
fn network() -> Facts {
    let mut facts = nothing(NETWORK);
    facts.origin.field = Some("spec.cidr4[0]".into());
    facts.origin.since = Some(ago(3600));
    let unreachable = standing(NETWORK, "unreachable", &[]);
    facts.kernel.expected = Some(unreachable.to_string());
    facts.kernel.found = Ok(vec![unreachable]);
    set_peers(&mut facts, vec![told("tor-a"), told("tor-b")]);
    set_route(&mut facts, Some(Reason::Only), vec![ours()]);
    facts
}

fn pod(name: &str, by: By) -> Pod {
    Pod {
        name: name.into(),
        by,
        phase: Phase::Serving,
        wired: true,
        ready: Some(true),
        terminating: false,
        gone: false,
        interface: "flock00000001".into(),
    }
}

/// An anycast address of one pod, told to both peers.
fn anycast() -> Facts {
    let mut facts = Facts { prefix: net(ANYCAST), ..network() };
    facts.asked = "192.0.2.53".parse().unwrap();
    facts.origin.field = None;
    facts.pods = vec![pod("shop/dns-0", By::Anycast)];
    let route = standing(ANYCAST, "unicast", &[("10.244.1.5", "flock00000001")]);
    facts.kernel.expected = Some(route.to_string());
    facts.kernel.found = Ok(vec![route]);
    facts
}

/// The same, not announced any more.
fn withdrawn() -> Facts {
    let mut facts = anycast();
    facts.origin.since = None;
    set_peers(&mut facts, vec![untold("tor-a"), untold("tor-b")]);
    speaker(&mut facts).route = None;
    facts
}

/// Something that peers told, in the kernel.
fn learned(reason: Option<Reason>, paths: Vec<Path>) -> Facts {
    let mut facts = nothing("198.51.100.0/24");
    let route = standing("198.51.100.0/24", "unicast", &[("172.16.1.1", "uplink0")]);
    facts.kernel.expected = Some(route.to_string());
    facts.kernel.found = Ok(vec![route]);
    set_route(&mut facts, reason, paths);
    for peer in &mut speaker(&mut facts).peers {
        peer.withheld = Some(Withheld::NotOriginated);
    }
    facts
}

fn speaker(facts: &mut Facts) -> &mut Speaker {
    facts.speaker.as_mut().unwrap()
}

fn set_peers(facts: &mut Facts, peers: Vec<Peer>) {
    speaker(facts).peers = peers;
}

fn set_route(facts: &mut Facts, reason: Option<Reason>, paths: Vec<Path>) {
    speaker(facts).route = Some(Route { reason, paths });
}

/// What is said under a heading.
fn said(answer: &Explanation, about: About) -> Vec<&str> {
    let of = answer.sentences.iter().filter(|sentence| sentence.about == about);
    of.map(|sentence| sentence.text.as_str()).collect()
}

/// The verdict, and a sentence that has to be there.
#[track_caller]
fn check(facts: &Facts, verdict: &str, sentences: &[(About, &str)]) -> Explanation {
    let answer = explained(facts);
    assert_eq!(answer.verdict, verdict);
    for (about, text) in sentences {
        let said = said(&answer, *about);
        assert!(said.contains(text), "{text:?} is not among {said:#?}");
    }
    for sentence in &answer.sentences {
        let text = &sentence.text;
        assert!(text.ends_with('.') && !text.ends_with("..") && !text.contains("  "), "{text:?}");
    }
    answer
}
