//! Who was told, and who was not and why.

use super::*;

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
    let not_taken = "the peer has not taken yet what was sent to it before";
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
            format!("queued: {not_taken}"),
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
    let not_taken = "the peer has not taken yet what was sent to it before";
    let mut facts = network();
    set_peers(&mut facts, vec![with(Pending::Announcement)]);
    let answer = explained(&facts);
    let expected = format!("what is new about it is queued: {not_taken}");
    assert_eq!(answer.peers[0].reason, Some(expected));
    assert!(answer.peers[0].pending && answer.peers[0].told);

    let mut facts = withdrawn();
    set_peers(&mut facts, vec![with(Pending::Withdrawal)]);
    let answer = explained(&facts);
    let expected = format!("its withdrawal is queued: {not_taken}");
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
