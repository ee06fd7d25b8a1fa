//! Every situation, as facts and as what is said of it. The same situations are made for real in
//! `interop-tests/tests/explain`.

use flock_bgp::{AsPath, Attributes, NextHop, Origin as OriginCode, Pending, Reason, Withheld};
use flock_dataplane::{PROTOCOL, StandingHop, StandingRoute};
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};

use super::explained;
use super::facts::*;
use crate::cli::bgp::{About, Destination, Explanation, PeerState};
use crate::pods::book::Phase;

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

use About::{Advice, Covering, Kernel as InKernel, Origin as Asked, Paths, Peers};

#[test]
fn a_network_that_both_peers_were_told() {
    let answer = check(
        &network(),
        "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to both peers.",
        &[
            (Asked, "It is the network spec.cidr4[0] of the NodeConfig node-1."),
            (Asked, "This node has originated it since 11:00:00 UTC (1h ago)."),
            (
                InKernel,
                "The kernel has the route: unreachable 10.244.1.0/24; packets for addresses that no \
                 pod has are answered with that.",
            ),
            (Peers, "tor-a was told at 11:55:00 UTC (5m ago): next hop 172.16.1.2, AS path 65001."),
        ],
    );
    assert!(answer.known && answer.announced && answer.covering.is_none());
    let peer = &answer.peers[0];
    assert_eq!(peer.told_at.as_deref(), Some("2026-07-29T11:55:00Z"));
    assert!(peer.told && peer.told_exactly && peer.reason.is_none() && !peer.pending);
    assert_eq!(answer.origin.unwrap().field.as_deref(), Some("spec.cidr4[0]"));
}

#[test]
fn how_many_of_how_many_peers() {
    for (peers, expected) in [
        (vec![told("a")], " and told to a."),
        (vec![told("a"), told("b"), told("c")], " and told to all 3 peers."),
        (vec![], ", but no peers are configured."),
        (
            vec![told("a"), down("b")],
            " and told to 1 of 2 peers, a; not to b (no session: cannot connect: Connection refused).",
        ),
        (
            vec![down("a"), down("b")],
            ", but no peer was told: a and b (no session: cannot connect: Connection refused).",
        ),
    ] {
        let mut facts = network();
        set_peers(&mut facts, peers);
        let verdict = format!("10.244.1.0/24 is originated here (spec.cidr4[0]){expected}");
        check(&facts, &verdict, &[]);
    }
    let mut facts = network();
    set_peers(&mut facts, (0..40).map(|n| told(&format!("p{n}"))).collect());
    let answer = explained(&facts);
    assert_eq!((answer.peers.len(), said(&answer, Peers).len()), (40, 17));
    let last = "24 more peers were told; -o json has them all.";
    assert_eq!(said(&answer, Peers).last(), Some(&last));
}

/// What keeps one peer from being told, as the peer's reason, a sentence and the verdict.
#[test]
fn why_a_peer_was_not_told() {
    let heard = |pending| Some(Heard { pending, ..Heard::default() });
    let not_taken = "it has not taken yet what was sent to it before";
    let cases: Vec<(Peer, String)> = vec![
        (
            down("tor-b"),
            "no session yet, now Active: cannot connect: Connection refused; next attempt in 3s"
                .into(),
        ),
        (
            Peer { ended: Some(ago(90)), next_attempt: None, ..down("tor-b") },
            "no session since 11:58:30 UTC (1m ago), now Active: cannot connect: Connection refused"
                .into(),
        ),
        (
            Peer { state: PeerState::Connect, last_error: None, next_attempt: None, ..down("tor-b") },
            "no session yet, now Connect".into(),
        ),
        (
            Peer { untold: Some("unnumbered".into()), ..down("tor-b") },
            "it is not followed: unnumbered".into(),
        ),
        (
            Peer { heard: None, not_announced: Some("not this family".into()), ..told("tor-b") },
            "not this family".into(),
        ),
        (
            Peer {
                not_announced: Some("no IPv4 next hop".into()),
                withheld: Some(Withheld::NoNextHop),
                ..untold("tor-b")
            },
            "no IPv4 next hop".into(),
        ),
        (
            Peer { withheld: Some(Withheld::SplitHorizon), ..untold("tor-b") },
            Withheld::SplitHorizon.to_string(),
        ),
        (
            Peer { heard: heard(Some(Pending::Announcement)), ..told("tor-b") },
            format!("it is next to be told: {not_taken}"),
        ),
        (untold("tor-b"), Withheld::TooLong.to_string()),
    ];
    for (peer, expected) in cases {
        let mut facts = network();
        set_peers(&mut facts, vec![told("tor-a"), peer]);
        let answer = explained(&facts);
        assert_eq!(answer.peers[1].reason.as_deref(), Some(expected.as_str()));
        assert!(!answer.peers[1].told && answer.announced);
        let sentence = format!("tor-b was not told: {expected}.");
        assert!(said(&answer, Peers).contains(&sentence.as_str()), "{answer:#?}");
        assert!(answer.verdict.contains("told to 1 of 2 peers, tor-a; not to tor-b ("));
    }
}

#[test]
fn what_a_peer_that_was_told_is_still_to_be_told() {
    let with = |pending| {
        let mut peer = told("tor-a");
        peer.heard.as_mut().unwrap().pending = Some(pending);
        peer
    };
    let not_taken = "it has not taken yet what was sent to it before";
    let mut facts = network();
    set_peers(&mut facts, vec![with(Pending::Announcement)]);
    let answer = explained(&facts);
    let expected = format!("it is still to be told what is new about it: {not_taken}");
    assert_eq!(answer.peers[0].reason, Some(expected));
    assert!(answer.peers[0].pending && answer.peers[0].told);

    let mut facts = withdrawn();
    set_peers(&mut facts, vec![with(Pending::Withdrawal)]);
    let answer = explained(&facts);
    let expected = format!("it is still to be told that it is gone: {not_taken}");
    assert_eq!(answer.peers[0].reason, Some(expected));
}

#[test]
fn when_it_was_told_where_that_is_not_known_exactly() {
    let mut facts = network();
    let mut peer = told("tor-a");
    peer.heard.as_mut().unwrap().when = Some((ago(7200), ago(3600)));
    set_peers(&mut facts, vec![peer]);
    let answer = check(
        &facts,
        "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to tor-a.",
        &[(
            Peers,
            "tor-a was told between 10:00:00 UTC and 11:00:00 UTC: next hop 172.16.1.2, AS path \
             65001.",
        )],
    );
    let peer = &answer.peers[0];
    assert!(!peer.told_exactly);
    assert_eq!(peer.told_at.as_deref(), Some("2026-07-29T11:00:00Z"));
    assert_eq!(peer.told_not_before.as_deref(), Some("2026-07-29T10:00:00Z"));
}

#[test]
fn anycast_by_what_its_pods_do() {
    check(
        &anycast(),
        "192.0.2.53/32 is originated here (anycast of pod shop/dns-0) and told to both peers.",
        &[(
            Asked,
            "Pod shop/dns-0 has it by its annotation flock.fritzlab.net/anycast: it is attached and \
             Ready, and serves it (interface flock00000001).",
        )],
    );
    let cases: [(fn(&mut Pod), &str); 6] = [
        (|pod| pod.ready = Some(false), "is not Ready"),
        (|pod| pod.terminating = true, "is being deleted"),
        (|pod| pod.phase = Phase::Wiring, "is still being attached"),
        (|pod| pod.phase = Phase::Leaving, "is being detached"),
        (
            |pod| pod.phase = Phase::Orphaned,
            "lost its network namespace and waits for the runtime's DEL",
        ),
        (|pod| (pod.terminating, pod.ready) = (true, Some(false)), "is being deleted"),
    ];
    for (change, why) in cases {
        let mut facts = withdrawn();
        change(&mut facts.pods[0]);
        let sentence = format!(
            "Pod shop/dns-0 has it by its annotation flock.fritzlab.net/anycast: it {why}, so it \
             does not serve it (interface flock00000001)."
        );
        let verdict = format!("192.0.2.53/32 is not announced: pod shop/dns-0 {why}.");
        let answer = check(&facts, &verdict, &[(Asked, &sentence)]);
        assert!(!answer.announced && answer.known);
        assert!(
            answer
                .peers
                .iter()
                .all(|p| p.reason.as_deref() == Some("this node does not originate it"))
        );
    }
    // One of two serves it.
    let mut facts = anycast();
    facts.pods.push(Pod { ready: Some(false), ..pod("shop/dns-1", By::Anycast) });
    facts.pods.push(Pod { ready: None, ..pod("shop/dns-2", By::Anycast) });
    check(
        &facts,
        "192.0.2.53/32 is originated here (anycast of pods shop/dns-0 and shop/dns-2) and told to \
         both peers.",
        &[(
            Asked,
            "Pod shop/dns-2 has it by its annotation flock.fritzlab.net/anycast: it is attached, \
             counts as Ready because nothing says otherwise, and serves it (interface \
             flock00000001).",
        )],
    );
    // None of two does.
    let mut facts = withdrawn();
    facts.pods = vec![
        Pod { ready: Some(false), ..pod("shop/dns-0", By::Anycast) },
        Pod { terminating: true, ..pod("shop/dns-1", By::Anycast) },
    ];
    let verdict = "192.0.2.53/32 is not announced: pod shop/dns-0 is not Ready and pod shop/dns-1 is \
                   being deleted.";
    check(&facts, verdict, &[]);
}

#[test]
fn withdrawn_lingering_paced_and_told_so() {
    let mut facts = withdrawn();
    facts.pods[0].ready = Some(false);
    facts.origin.withdrawn = Some((ago(2), "pod shop/dns-0 was not Ready".into()));
    facts.kernel.lingers = Some(3);
    let mut peers = vec![untold("tor-a"), untold("tor-b")];
    for peer in &mut peers {
        peer.heard.as_mut().unwrap().when = Some((ago(2), ago(2)));
    }
    set_peers(&mut facts, peers);
    let answer = check(
        &facts,
        "192.0.2.53/32 is not announced: pod shop/dns-0 is not Ready.",
        &[
            (Asked, "It was withdrawn at 11:59:58 UTC (2s ago): pod shop/dns-0 was not Ready."),
            (
                InKernel,
                "The route goes in 3s: until then packets that routers still send are delivered.",
            ),
            (Peers, "tor-a and tor-b were told at 11:59:58 UTC (2s ago) that it is gone."),
        ],
    );
    assert_eq!(answer.kernel.unwrap().lingers_seconds, Some(3));
    assert_eq!(answer.peers[0].told_at, None, "it does not know it");

    let mut facts = withdrawn();
    facts.origin.paced = Some(1);
    let answer = check(
        &facts,
        "192.0.2.53/32 is not announced: it flaps, and is announced again in 1s.",
        &[(Asked, "It flaps, and is announced at most once a second until it stays: again in 1s.")],
    );
    assert_eq!(answer.origin.unwrap().paced_seconds, Some(1));

    // Nobody asks for it any more.
    let mut facts = withdrawn();
    facts.pods.clear();
    facts.kernel = Kernel::default();
    facts.origin.withdrawn = Some((ago(60), "pod shop/dns-0 was detached".into()));
    check(
        &facts,
        "192.0.2.53/32 is not announced: it was withdrawn at 11:59:00 UTC (1m ago): pod shop/dns-0 \
         was detached.",
        &[],
    );
}

#[test]
fn a_pods_own_address() {
    // Outside the node's networks, by annotation.
    let mut facts = anycast();
    facts.pods = vec![pod("shop/web-0", By::Addresses)];
    facts.kernel.expected = None;
    check(
        &facts,
        "192.0.2.53/32 is originated here (own address of pod shop/web-0) and told to both peers.",
        &[
            (
                Asked,
                "Pod shop/web-0 has it by its annotation flock.fritzlab.net/addresses: it is \
                 attached (interface flock00000001).",
            ),
            (Asked, "No network of the node holds it, so it is announced itself."),
            (
                InKernel,
                "The kernel leads to the pod: 192.0.2.53/32 via 10.244.1.5 dev flock00000001.",
            ),
        ],
    );
    // Inside, beside the network.
    facts.pods = vec![pod("shop/web-0", By::Network)];
    facts.origin.inside = Some(net(NETWORK));
    facts.node.announce_pods = true;
    check(
        &facts,
        "192.0.2.53/32 is originated here (own address of pod shop/web-0) and told to both peers.",
        &[(
            Asked,
            "The node's network 10.244.1.0/24 holds it; it is announced beside it because \
             spec.bgp.announcePods is true.",
        )],
    );
    // Inside, and not announced itself.
    let mut covered = withdrawn();
    covered.pods = vec![pod("shop/web-0", By::Network)];
    covered.origin.inside = Some(net(NETWORK));
    covered.covering = Some(Box::new(network()));
    let answer = check(
        &covered,
        "192.0.2.53/32 is the own address of pod shop/web-0, and reached by the node's network \
         10.244.1.0/24, which both peers were told; it needs no announcement of its own.",
        &[
            (
                Asked,
                "Pod shop/web-0 has it from the node's network: it is attached (interface flock00000001).",
            ),
            (
                Asked,
                "The node's network 10.244.1.0/24 holds it and leads here, so it is not announced \
                 itself; spec.bgp.announcePods would announce each pod.",
            ),
            (Covering, "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to both peers."),
        ],
    );
    assert!(!answer.announced && answer.covering.unwrap().announced);
    for (peers, words) in [
        (vec![], ", which no peer was told"),
        (vec![told("tor-a")], ", which tor-a was told"),
        (vec![told("tor-a"), down("tor-b")], ", which 1 of 2 peers were told"),
    ] {
        set_peers(covered.covering.as_mut().unwrap(), peers);
        assert!(explained(&covered).verdict.contains(words), "{words}");
    }
    // Its route is lost.
    covered.pods[0].wired = false;
    check(
        &covered,
        "192.0.2.53/32 is not announced: pod shop/web-0 lost its route, which could not be put back \
         yet.",
        &[],
    );
}

#[test]
fn an_address_that_no_pod_has() {
    let mut facts = network();
    let address = "10.244.1.99".parse().unwrap();
    facts.asked = Destination::Address(address);
    facts.kernel.decides = Some((address, None));
    let answer = check(
        &facts,
        "10.244.1.99 is no pod's: it is inside the node's network 10.244.1.0/24 (spec.cidr4[0]), and \
         the kernel answers \"unreachable\".",
        &[(InKernel, "The kernel answers packets for 10.244.1.99 with \"unreachable\".")],
    );
    assert_eq!((answer.question.as_str(), answer.prefix.as_str()), ("10.244.1.99", NETWORK));
    let other = StandingRoute { protocol: 4, ..standing(NETWORK, "unicast", &[("", "eth9")]) };
    facts.kernel.decides = Some((address, Some(other)));
    let expected = "and packets for it go by the kernel's route 10.244.1.0/24 dev eth9.";
    assert!(explained(&facts).verdict.ends_with(expected));
    // Held by something else than a pod.
    let mut facts = nothing("10.244.1.99/32");
    facts.asked = Destination::Address(address);
    facts.holder = Some("link flock2, which no entry of the state file knows".into());
    check(
        &facts,
        "10.244.1.99 is not announced. No pod has the address, but it is held by link flock2, which \
         no entry of the state file knows.",
        &[],
    );
}

#[test]
fn manifests_that_name_an_address_nobody_has() {
    for (attached, but) in [
        (false, "that pod is not attached on this node"),
        (
            true,
            "that pod was attached without it: annotations are read when a pod is attached, so start \
             it again",
        ),
    ] {
        let mut facts = nothing(ANYCAST);
        let annotation = "flock.fritzlab.net/anycast".into();
        facts.mentions = vec![Mention { pod: "shop/dns-0".into(), annotation, attached }];
        let sentence = format!(
            "The manifest of pod shop/dns-0 names it in flock.fritzlab.net/anycast, but {but}."
        );
        let verdict = format!("192.0.2.53/32 is not announced. {sentence}");
        let answer = check(&facts, &verdict, &[(Asked, &sentence)]);
        assert!(answer.known);
    }
}

#[test]
fn the_nodes_own_state() {
    // Draining: told, and marked.
    let mut facts = network();
    facts.node.drain = Some(Drain::Draining(12));
    check(
        &facts,
        "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to both peers; the node drains, \
         and withdraws it in 12s.",
        &[(
            Asked,
            "The node drains: everything carries GRACEFUL_SHUTDOWN, and is withdrawn in 12s.",
        )],
    );
    // Drained.
    facts.node.drain = Some(Drain::Drained(ago(30)));
    (facts.origin.since, facts.origin.hushed) = (None, true);
    set_peers(&mut facts, vec![down("tor-a")]);
    speaker(&mut facts).route = None;
    check(
        &facts,
        "10.244.1.0/24 is not announced: the node is drained since 11:59:30 UTC (30s ago).",
        &[(
            Asked,
            "The node is drained since 11:59:30 UTC (30s ago): nothing is announced until \
             `flock-agent drain --undo`.",
        )],
    );
    // Hushed while it waits for a peer that is away.
    facts.node.drain = Some(Drain::Draining(0));
    check(&facts, "10.244.1.0/24 is not announced: the node is drained.", &[]);
    // A NodeConfig that is gone or bad is told with what it still does.
    let mut facts = network();
    facts.node.problem = Some("The NodeConfig node-1 was deleted: and so on.".into());
    let answer = explained(&facts);
    assert!(said(&answer, Asked).contains(&"The NodeConfig node-1 was deleted: and so on."));
    // A network that it does not have any more.
    let mut facts = network();
    (facts.origin.field, facts.origin.leftover) = (None, true);
    check(
        &facts,
        "10.244.1.0/24 is originated here (a network that the NodeConfig does not have any more) and \
         told to both peers.",
        &[(
            Asked,
            "The NodeConfig node-1 does not have this network any more; it is kept because pods hold \
             addresses of it.",
        )],
    );
    // No BGP at all; and not yet.
    let mut facts = network();
    (facts.speaker, facts.node.speaks) = (None, false);
    let answer = check(
        &facts,
        "10.244.1.0/24 is originated here (spec.cidr4[0]), but this node does not speak BGP: \
         spec.bgp is not set.",
        &[(Peers, "This node does not speak BGP: spec.bgp is not set.")],
    );
    assert!(!answer.announced && answer.peers.is_empty());
    facts.node.speaks = true;
    let started = ", and the speaker is being started.";
    assert!(explained(&facts).verdict.ends_with(started));
    facts = nothing(NETWORK);
    (facts.speaker, facts.node) = (None, Node::default());
    facts.node.problem = Some("No NodeConfig is in force: missing.".into());
    let answer = explained(&facts);
    assert_eq!(said(&answer, Peers), ["No NodeConfig is in force: missing."]);
}

#[test]
fn what_the_kernel_says() {
    let mut facts = withdrawn();
    facts.kernel.expected = None;
    facts.kernel.found = Ok(vec![]);
    facts.kernel.refused = Some(Refused { words: "Network is unreachable".into(), again: Some(9) });
    let answer = check(
        &facts,
        "192.0.2.53/32 is not announced: the kernel refuses its route: Network is unreachable.",
        &[
            (
                InKernel,
                "The kernel refuses the route: Network is unreachable; it is asked again in 9s.",
            ),
            (InKernel, "Nothing is announced before its route is in the kernel."),
        ],
    );
    assert_eq!(answer.kernel.unwrap().retry_seconds, Some(9));
    facts.kernel.refused = None;
    check(&facts, "192.0.2.53/32 is not announced: its route is not in the kernel.", &[]);

    // Put there, and taken away by somebody.
    let mut facts = anycast();
    facts.kernel.found = Ok(vec![]);
    let expected = "192.0.2.53/32 via 10.244.1.5 dev flock00000001";
    let said_of = |facts: &Facts| said(&explained(facts), InKernel).join(" ");
    assert_eq!(
        said_of(&facts),
        format!(
            "The agent put there: {expected}; but the kernel does not have it now. It is put back as \
             soon as the agent hears of that."
        )
    );
    // Another is there instead, or before it.
    let differs = standing(ANYCAST, "unicast", &[("10.244.1.6", "flock00000002")]);
    facts.kernel.found = Ok(vec![differs]);
    assert_eq!(
        said_of(&facts),
        format!(
            "The agent put there: {expected}; but the kernel has: 192.0.2.53/32 via 10.244.1.6 dev \
             flock00000002."
        )
    );
    let theirs = StandingRoute {
        protocol: 4,
        metric: 5,
        ..standing(ANYCAST, "unicast", &[("172.16.1.1", "uplink0")])
    };
    facts.kernel.found = Ok(vec![theirs, anycast().kernel.found.unwrap().remove(0)]);
    assert!(said_of(&facts).ends_with(
        "Packets take another program's route: 192.0.2.53/32 via 172.16.1.1 dev uplink0 (protocol 4, \
         metric 5)."
    ));
    facts.kernel.found = Err("netlink".into());
    assert_eq!(said_of(&facts), "The kernel's routes cannot be read: netlink.");
}

#[test]
fn which_path_won_and_at_which_step() {
    let one = learned(Some(Reason::Only), vec![from("tor-a", &[65_000], None)]);
    let answer = check(
        &one,
        "198.51.100.0/24 is learned from tor-a, and in the kernel.",
        &[
            (Paths, "tor-a told the only path that is used."),
            (Paths, "tor-a told it: next hop 172.16.1.1, AS path 65000; used."),
            (
                Peers,
                "tor-a and tor-b were not told: learned from a peer, and only what this node \
                 originates is told.",
            ),
        ],
    );
    assert_eq!(answer.decision.as_deref(), Some("only path"));
    let steps = [
        (Reason::LocalPref, "higher LOCAL_PREF", "another has a higher LOCAL_PREF"),
        (Reason::AsPath, "shorter AS path", "another has a shorter AS path"),
        (Reason::Origin, "lower ORIGIN", "another has a lower ORIGIN"),
        (Reason::Med, "lower MED from the same AS", "another has a lower MED from the same AS"),
        (Reason::External, "external over internal", "another came from an external peer"),
    ];
    for (step, won, lost) in steps {
        let paths =
            vec![from("tor-b", &[65_000], None), from("tor-a", &[65_000, 65_009], Some(step))];
        let verdict = format!(
            "198.51.100.0/24 is learned from tor-b, whose path won ({won}), and in the kernel."
        );
        let not_used =
            format!("tor-a told it: next hop 172.16.1.1, AS path 65000 65009; not used: {lost}.");
        let decided = format!("tor-b's path won: {won}.");
        let facts = learned(Some(step), paths);
        let answer = check(&facts, &verdict, &[(Paths, &decided), (Paths, &not_used)]);
        assert_eq!(answer.decision.as_deref(), Some(won));
        assert_eq!(answer.paths[1].lost.as_deref(), Some(won));
    }
}

#[test]
fn paths_that_share_and_paths_that_are_stale_or_refused() {
    let mut stale = from("tor-b", &[65_000], Some(Reason::RouterId));
    stale.stale = true;
    let paths =
        vec![from("tor-a", &[65_000], None), stale, refused("tor-c", Withheld::NotAccepted)];
    let answer = check(
        &learned(Some(Reason::RouterId), paths),
        "198.51.100.0/24 is learned from tor-a and tor-b, which share the traffic, and in the \
         kernel.",
        &[
            (
                Paths,
                "The paths of tor-a and tor-b are equally good and share the traffic; tor-a's counts \
                 as the best (lower router id).",
            ),
            (
                Paths,
                "tor-b told it: next hop 172.16.1.1, AS path 65000; used as well; stale: the peer \
                 restarts, and it is kept meanwhile.",
            ),
            (
                Paths,
                "tor-c told it; refused: no rule of import.accept matches \
                 (spec.bgp.peers[].import.accept).",
            ),
        ],
    );
    assert!(answer.paths[1].stale && answer.paths[1].equal && !answer.paths[1].best);

    let refused =
        vec![refused("tor-a", Withheld::Connected), refused("tor-b", Withheld::Connected)];
    let mut facts = learned(None, refused);
    facts.kernel = Kernel::default();
    let answer = check(
        &facts,
        "198.51.100.0/24 was told by tor-a and tor-b, and refused: this node is connected to that \
         network.",
        &[],
    );
    assert_eq!((answer.decision, answer.known), (None, true));
}

#[test]
fn a_learned_route_that_is_not_in_the_kernel() {
    let mut facts = learned(Some(Reason::Only), vec![from("tor-a", &[65_000], None)]);
    facts.kernel = Kernel { unusable: vec!["uplink0 is down".into()], ..Kernel::default() };
    check(
        &facts,
        "198.51.100.0/24 is learned from tor-a, but not in the kernel: uplink0 is down.",
        &[(InKernel, "No next hop can be used: uplink0 is down.")],
    );
    facts.kernel = Kernel::default();
    assert!(explained(&facts).verdict.ends_with("and not in the kernel yet."));
    facts.kernel.refused = Some(Refused { words: "it is another program's".into(), again: None });
    let refused = "but the kernel refuses it: it is another program's.";
    assert!(explained(&facts).verdict.ends_with(refused));
    facts.kernel = Kernel { expected: Some("x".into()), ..Kernel::default() };
    assert!(explained(&facts).verdict.ends_with("but the kernel does not have it as it should."));
    // An address that follows it.
    facts.asked = "198.51.100.7".parse().unwrap();
    let head = "198.51.100.7 has no route of its own: 198.51.100.0/24 is learned from tor-a";
    assert!(explained(&facts).verdict.starts_with(head));
}

#[test]
fn what_is_ours_and_told_by_a_peer() {
    let mut facts = network();
    let lost = from("tor-b", &[65_002], Some(Reason::Originated));
    set_route(&mut facts, Some(Reason::Originated), vec![ours(), lost]);
    check(
        &facts,
        "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to both peers; tor-b tells it, \
         too.",
        &[
            (Paths, "This node originates it, so no peer's path is used."),
            (
                Paths,
                "tor-b told it: next hop 172.16.1.1, AS path 65002; not used: this node originates \
                 it.",
            ),
            (
                Paths,
                "Another node may have the same network or address; `flock-agent check` tells.",
            ),
        ],
    );
    // Our own come back is everyday, and not in the verdict.
    let paths = vec![ours(), refused("tor-b", Withheld::OwnPodsLoop)];
    set_route(&mut facts, Some(Reason::Only), paths);
    check(
        &facts,
        "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to both peers.",
        &[(
            Paths,
            "That is our own announcement come back, or that of another node of our AS; \
             `flock-agent check` tells which.",
        )],
    );
}

#[test]
fn what_nobody_knows() {
    let answer = check(
        &nothing("203.0.113.0/24"),
        "Nothing is known of 203.0.113.0/24: no pod of this node has it, its NodeConfig does not \
         name it, and no peer told it.",
        &[
            (Peers, "tor-a and tor-b were not told: this node does not originate it."),
            (
                Advice,
                "To announce it from here, add it to spec.cidr6 or spec.cidr4 of the NodeConfig.",
            ),
        ],
    );
    assert!(!answer.known && answer.origin.is_none() && answer.kernel.is_none());
    let mut facts = nothing("203.0.113.9/32");
    facts.asked = "203.0.113.9".parse().unwrap();
    let answer = explained(&facts);
    let advice = "To announce it from here, name it in a pod's annotation \
                  flock.fritzlab.net/anycast, which follows readiness, or \
                  flock.fritzlab.net/addresses, which makes it the pod's own.";
    assert_eq!(said(&answer, Advice), [advice]);
    // Something leads there, and something of ours is inside.
    let mut facts = nothing("10.0.0.0/8");
    facts.within = vec![net(NETWORK)];
    facts.covering =
        Some(Box::new(learned(Some(Reason::Only), vec![from("tor-a", &[65_000], None)])));
    let answer = check(
        &facts,
        "Nothing is known of 10.0.0.0/8 itself; packets for it follow 198.51.100.0/24.",
        &[
            (Advice, "Inside it, this node originates 10.244.1.0/24."),
            (Covering, "198.51.100.0/24 is learned from tor-a, and in the kernel."),
        ],
    );
    assert!(answer.known);
}

#[test]
fn as_far_as_one_peer_is_concerned() {
    let mut facts = network();
    set_peers(&mut facts, vec![told("tor-a"), down("tor-b")]);
    facts.only = Some("tor-a".into());
    let answer = check(&facts, "tor-a was told of 10.244.1.0/24 at 11:55:00 UTC (5m ago).", &[]);
    assert_eq!((answer.peers.len(), answer.announced), (1, true));
    facts.only = Some("tor-b".into());
    let answer = check(
        &facts,
        "tor-b was not told of 10.244.1.0/24: no session: cannot connect: Connection refused.",
        &[],
    );
    assert_eq!((answer.peers.len(), answer.announced), (1, false));
    assert_eq!(answer.peer.as_deref(), Some("tor-b"));
    // What keeps it from everybody comes first.
    let mut facts = withdrawn();
    facts.pods[0].ready = Some(false);
    facts.only = Some("tor-a".into());
    check(&facts, "tor-a was not told of 192.0.2.53/32: pod shop/dns-0 is not Ready.", &[]);
    let mut facts = nothing("203.0.113.0/24");
    facts.only = Some("tor-a".into());
    let expected = "tor-a was not told of 203.0.113.0/24: this node does not originate it.";
    check(&facts, expected, &[]);
}
