//! Who asks for it on this node, what the node and its kernel say to that, and what nobody knows.

use super::*;

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
    type Change = fn(&mut Pod);
    let cases: [(Change, &str); 6] = [
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
        // Whatever else leads there.
        facts.covering = Some(Box::new(network()));
        check(&facts, &verdict, &[]);
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
