//! What peers told: which path won, which were refused, and what of it is in the kernel.

use super::*;

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
