//! What a node learns from its ToRs: into its kernel with our protocol number and metric, over all
//! of them, and only what `import.accept` names. Nobody else's route is touched.

use anyhow::ensure;
use rack::fabric::{BEYOND_V4, BEYOND_V6, Fabric, Transport};
use rack::probe::await_ping;
use rack::router::Route;
use rack::wait::{PATIENCE, until};
use serde_json::json;

use super::scene::{
    DEFAULTS, Lasting, TORS, accept, await_complete, await_defaults, await_learned, await_log,
    await_peer, ip, learned, log, pair, peer_config, start, ways,
};

/// What one ToR originates beside the defaults, and the other passes on.
const MORE: [&str; 2] = ["2001:db8:77::/48", "198.51.100.0/24"];

/// A metric that is somebody else's.
const FOREIGN: &str = "metric 900";

#[test]
fn defaults_of_two_tors_over_both_families() {
    walk(Transport::DualStack);
}

#[test]
fn defaults_of_two_tors_over_ipv6_alone() {
    walk(Transport::Ipv6Only);
}

fn walk(transport: Transport) {
    let mut fabric = pair().transport(transport).nodes(1).build().unwrap();
    for tor in TORS {
        peer_config(&mut fabric, 1, tor).as_object_mut().unwrap().remove("import");
    }
    fabric.configure(1).unwrap();
    foreign_defaults(&fabric);
    start(&mut fabric);
    let sessions = TORS.map(|tor| Lasting::new(&fabric, 1, tor));

    // Told of, and not believed: nobody said that it may be.
    for tor in TORS {
        await_peer(&fabric, 1, tor, "received, not accepted", |row| {
            row["received"].as_u64() >= Some(2) && row["accepted"] == 0
        });
    }
    await_learned(&fabric, 1, &[]);

    accept(&mut fabric, 1, &json!(DEFAULTS));
    await_defaults(&fabric, 1, &TORS);
    shown_with_our_numbers(&fabric);
    for beyond in [BEYOND_V6, BEYOND_V4] {
        let pod = fabric.add_pod(1, "probe", &[]).unwrap();
        await_ping(&pod.pod.netns, ip(beyond)).unwrap();
        fabric.remove_pod(pod).unwrap();
    }
    removed_by_hand(&fabric);

    // More than the rules name; then the rules name it; then not any more.
    let both = [(DEFAULTS[0], &TORS[..]), (DEFAULTS[1], &TORS), (MORE[0], &TORS), (MORE[1], &TORS)];
    fabric.tor_mut(TORS[0]).unwrap().router.announce(&MORE.map(Route::new)).unwrap();
    for tor in TORS {
        await_peer(&fabric, 1, tor, "two more", |row| {
            row["received"].as_u64() >= Some(4) && row["accepted"] == 2
        });
    }
    await_defaults(&fabric, 1, &TORS);
    accept(&mut fabric, 1, &json!([DEFAULTS[0], DEFAULTS[1], "2001:db8::/32 le 48", MORE[1]]));
    await_learned(&fabric, 1, &both);
    accept(&mut fabric, 1, &json!([MORE[0], MORE[1]]));
    await_learned(&fabric, 1, &both[2..]);
    accept(&mut fabric, 1, &json!(["::/0 le 128", "0.0.0.0/0 le 32"]));
    await_more_than(&fabric, &both);
    accept(&mut fabric, 1, &json!([DEFAULTS[0], DEFAULTS[1], MORE[0], MORE[1]]));
    await_learned(&fabric, 1, &both);

    // What a ToR takes back goes.
    for prefix in MORE {
        fabric.tor_mut(TORS[0]).unwrap().router.withdraw(prefix).unwrap();
    }
    await_defaults(&fabric, 1, &TORS);
    for tor in TORS {
        fabric.tor_mut(tor).unwrap().router.withdraw(DEFAULTS[1]).unwrap();
    }
    await_learned(&fabric, 1, &[(DEFAULTS[0], &TORS)]);
    for tor in TORS {
        fabric.tor_mut(tor).unwrap().router.announce(&[Route::new(DEFAULTS[1])]).unwrap();
    }
    await_defaults(&fabric, 1, &TORS);

    // Nothing is accepted: nothing stays.
    accept(&mut fabric, 1, &json!([]));
    await_learned(&fabric, 1, &[]);
    foreign_are_there(&fabric);
    sessions.iter().for_each(|session| session.check(&fabric));
    TORS.iter().for_each(|tor| await_complete(&fabric, 1, tor));
}

/// Routes of somebody else, which are to stay whatever happens.
fn foreign_defaults(fabric: &Fabric) {
    let netns = fabric.node(1).unwrap().netns();
    let six = ways(fabric, 1, &TORS[..1], DEFAULTS[0])[0];
    netns.ip(&format!("-6 route add default via {six} {FOREIGN}")).unwrap();
    let four = ways(fabric, 1, &TORS[..1], DEFAULTS[1])[0];
    let word = if four.is_ipv6() { "inet6" } else { "" };
    netns.ip(&format!("-4 route add default via {word} {four} dev uplink0 {FOREIGN}")).unwrap();
}

fn foreign_are_there(fabric: &Fabric) {
    let netns = fabric.node(1).unwrap().netns();
    for family in ["-6", "-4"] {
        let shown = netns.ip(&format!("{family} route show default")).unwrap();
        assert_eq!(shown.matches(FOREIGN).count(), 1, "{shown}");
    }
}

fn shown_with_our_numbers(fabric: &Fabric) {
    let netns = fabric.node(1).unwrap().netns();
    for family in ["-6", "-4"] {
        let shown = netns.ip(&format!("{family} route show default proto 241")).unwrap();
        assert!(shown.starts_with("default ") && shown.contains("metric 32"), "{shown}");
        assert_eq!(shown.matches("nexthop via").count(), 2, "{shown}");
    }
    let summary = fabric.node(1).unwrap().cli_json(&["bgp", "show"]).unwrap();
    assert_eq!((&summary["learned"], &summary["installed"]), (&json!(2), &json!(2)), "{summary}");
    foreign_are_there(fabric);
}

/// Whole, in part, changed, and replaced by what is somebody else's.
fn removed_by_hand(fabric: &Fabric) {
    let node = fabric.node(1).unwrap();
    let netns = node.netns();
    let six = ways(fabric, 1, &TORS[..1], DEFAULTS[0])[0];
    for command in [
        "-4 route del default metric 32",
        "-6 route flush proto 241 default metric 32",
        &format!("-6 route del default via {six} metric 32"),
        &format!("-6 route replace default via {six} metric 32 proto 241"),
    ] {
        netns.ip(command).unwrap();
        await_defaults(fabric, 1, &TORS);
    }
    // Not ours to remove: told, and back once it is gone.
    let before = log(node).len();
    netns.ip(&format!("-6 route replace default via {six} metric 32 proto static")).unwrap();
    await_log(node, before, &["cannot change a learned route", "::/0"]);
    let shown = netns.ip("-6 route show default metric 32").unwrap();
    assert!(shown.contains("proto static") && !shown.contains("241"), "{shown}");
    netns.ip("-6 route del default metric 32 proto static").unwrap();
    await_defaults(fabric, 1, &TORS);
    foreign_are_there(fabric);
}

/// The ToRs tell more than these, and no more is asked of it.
fn await_more_than(fabric: &Fabric, wanted: &[(&str, &[&str])]) {
    let netns = fabric.node(1).unwrap().netns();
    until("all that the ToRs tell", PATIENCE, || {
        let there = learned(netns)?;
        for (prefix, tors) in wanted {
            let ways = ways(fabric, 1, tors, prefix);
            ensure!(there.get(*prefix) == Some(&ways), "{prefix}: {there:?}");
        }
        ensure!(there.len() > wanted.len(), "{there:?}");
        Ok(())
    })
    .unwrap();
}
