use super::*;
use crate::bgp::{Conflict, ConflictKind};
use crate::cli::bgp::{NotAnnounced, sample};
use crate::config::parse;
use crate::source::{Object, Pods, Secrets, Standing};

const ONE: &str = "{cidr6: ['2001:db8::/64'], cidr4: [10.1.0.0/24], bgp: {asn: 65001, peers: [\
                   {name: tor-a, address: '2001:db8:ffff::1', asn: 65000}]}}";

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn world(spec: &str, standing: Standing) -> World {
    let text = format!(
        "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {{name: a, generation: 3}}\nspec: {spec}\n"
    );
    World {
        node: NodeState::Known { config: Arc::new(parse(&text).unwrap()), standing },
        pods: Pods::default(),
        problems: Arc::default(),
        secrets: Secrets::default(),
        object: Some(Object { uid: "u".into(), generation: 4 }),
        away: None,
    }
}

/// One peer, Established for an hour.
fn well() -> Facts {
    let [mut peer, _] = sample::peers();
    (peer.uptime_seconds, peer.not_announced, peer.pending) = (3600, vec![], None);
    Facts {
        world: Arc::new(world(ONE, Standing::InForce)),
        following: Some(3),
        refused: None,
        speaking: true,
        young: false,
        drained: false,
        peers: vec![peer],
        conflicts: Arc::default(),
        policies: crate::policy::Standing::Idle,
        pools: vec![Finding::ok("pool", "10.1.0.0/24: 3 held")],
        now: now(),
    }
}

/// Down, and has been up.
fn down(mut facts: Facts) -> Facts {
    for peer in &mut facts.peers {
        (peer.state, peer.uptime_seconds, peer.flaps) = (PeerState::Active, 0, 1);
    }
    facts
}

fn find<'a>(status: &'a Status, kind: &str) -> &'a Condition {
    status.conditions.iter().find(|condition| condition.type_ == kind).unwrap()
}

#[test]
fn all_is_well() {
    let status = status(&well(), &Status::default());
    let short: Vec<(&str, &str, &str)> = status
        .conditions
        .iter()
        .map(|one| (one.type_.as_str(), one.status.as_str(), one.reason.as_str()))
        .collect();
    let wanted = [
        ("Ready", "True", "Serving"),
        ("Degraded", "False", "AsConfigured"),
        ("PendingReset", "False", "NothingWaits"),
    ];
    assert_eq!(short, wanted);
    assert!(status.conditions.iter().all(|one| one.observed_generation == Some(4)));
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.sessions.as_deref(), Some("1/1"));
    assert_eq!(status.networks, ["2001:db8::/64", "10.1.0.0/24"]);
    let [peer] = status.peers.as_slice() else { panic!("{:?}", status.peers) };
    assert_eq!((peer.name.as_str(), peer.state), ("tor-a", PeerState::Established));
    assert_eq!(peer.since, Some(Time("2026-03-01T11:00:00Z".parse().unwrap())));
    assert_eq!((peer.received, peer.accepted, peer.advertised), (12, 11, 3));
}

/// Each with what it makes of Ready, of Degraded, and a part of its message.
#[test]
fn what_is_wrong_is_told_by_the_gravest() {
    type Change = fn(Facts) -> Facts;
    type Wanted = (&'static str, &'static str);
    let refused = |mut facts: Facts| {
        let problem = "spec.mtu: \"12\": out of range\nspec.bgp.asn: \"0\": AS 0 is nobody's";
        facts.world = Arc::new(world(ONE, Standing::Refused(problem.into())));
        facts
    };
    let table: [(&str, Change, Wanted, Wanted, &str); 15] = [
        (
            "well",
            |facts| facts,
            ("True", "Serving"),
            ("False", "AsConfigured"),
            "as the NodeConfig",
        ),
        (
            "refused",
            refused,
            ("True", "Serving"),
            ("True", "NodeConfigRefused"),
            "spec.mtu: \"12\": out of range; spec.bgp.asn: \"0\"",
        ),
        (
            "never good",
            |mut facts| {
                let mut world = World::clone(&facts.world);
                world.node = NodeState::Unknown { reason: "spec.mtu: \"12\"".into() };
                facts.refused = Some(NotServing::NoConfig("spec.mtu: \"12\"".into()));
                (facts.world, facts.speaking, facts.peers) = (Arc::new(world), false, vec![]);
                facts
            },
            ("False", "NodeConfigRefused"),
            ("True", "NodeConfigRefused"),
            "spec.mtu",
        ),
        (
            "a disk",
            |mut facts| {
                facts.refused = Some(NotServing::DiskFails("cannot write".into()));
                facts
            },
            ("False", "DiskFails"),
            ("True", "NotServing"),
            "cannot write",
        ),
        (
            "waits for sessions, as a start does",
            |mut facts| {
                facts.refused = Some(NotServing::FewSessions { up: 0, wanted: 1, left: 17 });
                facts
            },
            ("False", "FewSessions"),
            ("False", "AsConfigured"),
            "as the NodeConfig",
        ),
        (
            "no speaker",
            |mut facts| {
                (facts.speaking, facts.peers) = (false, vec![]);
                facts
            },
            ("True", "Serving"),
            ("True", "SpeakerDown"),
            "does not run",
        ),
        (
            "no speaker yet",
            |mut facts| {
                (facts.speaking, facts.young, facts.peers) = (false, true, vec![]);
                facts
            },
            ("True", "Serving"),
            ("False", "AsConfigured"),
            "",
        ),
        (
            "drained, so sessions are down",
            |facts| Facts { drained: true, ..down(facts) },
            ("True", "Serving"),
            ("True", "Drained"),
            "the node is drained, or about to be; flock-agent drain --undo brings it back",
        ),
        (
            "the only peer",
            down,
            ("True", "Serving"),
            ("True", "NoSession"),
            "tor-a has no session: received Cease / Administrative Reset (6/4)",
        ),
        (
            "one of two",
            |facts| {
                let well = facts.peers.clone();
                let mut facts = down(facts);
                facts.peers.extend(well);
                facts
            },
            ("True", "Serving"),
            ("True", "PeerDown"),
            "tor-a has no session",
        ),
        (
            "a peer in its first seconds",
            |facts| {
                let mut facts = down(facts);
                facts.peers[0].flaps = 0;
                facts
            },
            ("True", "Serving"),
            ("False", "AsConfigured"),
            "",
        ),
        (
            "conflict",
            |mut facts| {
                let net = "10.1.0.0/24".parse().unwrap();
                let kind = ConflictKind::Overlap;
                facts.conflicts = [Conflict { ours: net, theirs: net, kind }].into();
                facts
            },
            ("True", "Serving"),
            ("True", "PrefixConflict"),
            "the network 10.1.0.0/24 is announced elsewhere, too; give the nodes networks",
        ),
        (
            "pool",
            |mut facts| {
                facts.pools.push(Finding::warn("pool", "10.1.0.0/24: 253 held", "add a network"));
                facts
            },
            ("True", "Serving"),
            ("True", "PoolNearlyFull"),
            "pool 10.1.0.0/24: 253 held; add a network",
        ),
        (
            "a family",
            |mut facts| {
                let family = "ipv4-unicast".to_owned();
                facts.peers[0].not_announced = vec![NotAnnounced { family, reason: "x".into() }];
                facts
            },
            ("True", "Serving"),
            ("True", "NotAnnounced"),
            "tor-a: ipv4-unicast is not announced: x",
        ),
        (
            "policies",
            |mut facts| {
                facts.policies = crate::policy::Standing::Failing("no memory".into());
                facts
            },
            ("True", "Serving"),
            ("True", "PolicyFailed"),
            "what was in force stays: no memory",
        ),
        (
            "overlooked",
            |mut facts| {
                let mut world = World::clone(&facts.world);
                let NodeState::Known { config, .. } = &mut world.node else { panic!() };
                Arc::make_mut(config).warnings.push("it is not followed".into());
                facts.world = Arc::new(world);
                facts
            },
            ("True", "Serving"),
            ("True", "NodeConfigOverlooked"),
            "it is not followed",
        ),
    ];
    for (name, change, wanted_ready, wanted_degraded, words) in table {
        let status = status(&change(well()), &Status::default());
        let (ready, degraded) = (find(&status, READY), find(&status, DEGRADED));
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), wanted_ready, "{name}");
        assert_eq!((degraded.status.as_str(), degraded.reason.as_str()), wanted_degraded, "{name}");
        assert!(degraded.message.contains(words), "{name}: {}", degraded.message);
    }
    // All of it is told, whatever is the gravest.
    let both = status(&refused(down(well())), &Status::default());
    let degraded = find(&both, DEGRADED);
    assert_eq!(degraded.reason, "NodeConfigRefused");
    assert!(degraded.message.contains("; tor-a has no session"), "{}", degraded.message);
    assert_eq!(both.observed_generation, Some(3), "that of the last good one");
}

#[test]
fn every_reason_is_one_word_and_in_the_reference() {
    let page = include_str!("../../../../docs/nodeconfig.md");
    let all = troubles::What::ALL;
    assert!(all.is_sorted());
    let degraded: Vec<&str> = all.iter().map(|what| what.reason()).collect();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let rows: Vec<&str> =
        rows.map(|(word, _)| word).filter(|word| degraded.contains(word)).collect();
    assert_eq!(rows, degraded, "the gravest first");
    let name = || String::from("a");
    let unserved = [
        NotServing::NoConfig(name()),
        NotServing::Deleted(name()),
        NotServing::NoNetworks(name()),
        NotServing::NetworkRemoved(name()),
        NotServing::DiskFails(name()),
        NotServing::FewSessions { up: 0, wanted: 1, left: 1 },
        NotServing::Stopping(crate::pods::ledger::Closed),
    ];
    let nobody = World { object: None, ..world(ONE, Standing::InForce) };
    let unserved = unserved.iter().map(|why| not_serving(why, &nobody));
    let well = ["Serving", "AsConfigured", "NothingWaits", "NextSession"];
    for word in unserved.chain(degraded).chain(well) {
        // What an API server takes for a reason.
        assert!(word.chars().all(|c| c.is_ascii_alphanumeric()), "{word}");
        assert!(page.contains(&format!("`{word}`")), "{word} is not in docs/nodeconfig.md");
    }
}

#[test]
fn settings_that_wait_are_told_with_the_way_out() {
    let mut facts = well();
    facts.peers[0].pending = Some("holdTime".into());
    let status = status(&facts, &Status::default());
    let pending = find(&status, PENDING_RESET);
    assert_eq!((pending.status.as_str(), pending.reason.as_str()), ("True", "NextSession"));
    assert_eq!(
        pending.message,
        "tor-a: holdTime changed; flock-agent bgp reset tor-a brings it into force"
    );
    assert_eq!(find(&status, DEGRADED).status, "False");
}

#[test]
fn times_are_kept_while_nothing_changes() {
    let first = status(&well(), &Status::default());
    let later = |seconds: i64| now().checked_add(seconds.seconds()).unwrap();
    let mut facts = well();
    facts.now = later(100);
    // Counted in whole seconds: it seems to have begun a second later.
    facts.peers[0].uptime_seconds = 3699;
    assert_eq!(status(&facts, &first), first, "nothing changed");
    // What is read back is what was written.
    let read: Status = serde_json::from_value(serde_json::to_value(&first).unwrap()).unwrap();
    assert_eq!(read, first);

    facts.peers[0].uptime_seconds = 3;
    let again = status(&facts, &first);
    assert_eq!(
        again.peers[0].since.as_ref().map(|since| since.0),
        Some(later(97)),
        "another session"
    );

    let lost = status(&Facts { now: later(200), ..down(well()) }, &first);
    let since = |status: &Status| status.peers[0].since.as_ref().map(|since| since.0);
    assert_eq!(since(&lost), Some(later(200)));
    assert_eq!(find(&lost, DEGRADED).last_transition_time.0, later(200));
    assert_eq!(find(&lost, READY).last_transition_time.0, now(), "that did not change");
    let still = status(&Facts { now: later(300), ..down(well()) }, &lost);
    assert_eq!(still, lost);
    // A new peer has its time, and then it is over.
    let mut new = down(well());
    new.peers[0].flaps = 0;
    new.now = later(200);
    let waits = status(&new, &Status::default());
    new.now = later(200 + i64::try_from(troubles::FIRST_SESSION.as_secs()).unwrap());
    assert_eq!(find(&waits, DEGRADED).status, "False");
    assert_eq!(find(&status(&new, &waits), DEGRADED).status, "True");
}

#[test]
fn words_from_outside_are_bounded_and_obeyed_by_no_terminal() {
    let mut facts = down(well());
    facts.peers[0].last_error = Some(format!("\x1b[31m{}\nforged", "ü".repeat(9000)));
    let status = status(&facts, &Status::default());
    let message = &find(&status, DEGRADED).message;
    assert!(message.len() <= LONGEST && message.ends_with(" ..."), "{}", message.len());
    assert!(!message.chars().any(char::is_control));
    assert!(status.peers[0].last_error.as_ref().unwrap().len() <= LONGEST);
    assert_eq!(bounded("as it is", 8), "as it is");
    assert_eq!(bounded("too long", 7), "too ...");
}
