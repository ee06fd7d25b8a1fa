//! What peers told: which path won and at which step, what was refused, what is kept from a router
//! that restarts, what two claim, and what of it is in the kernel.

use rack::fabric::Fabric;
use rack::router::{Brand, Route};
use serde_json::{Value, json};

use super::impostor::{ASN, HERE_V4, Impostor, NAME, update};
use super::scene::{NETWORK4, TORS, await_said, await_verdict, explain, pair, peer_config, start};

/// What a ToR originates beside the defaults.
const LEARNED: &str = "198.51.100.0/24";

#[test]
fn which_path_won_and_what_is_kept() {
    let mut fabric = pair().nodes(1).build().unwrap();
    for tor in TORS {
        peer_config(&mut fabric, tor)["import"]["accept"] = json!(["0.0.0.0/0", "::/0", LEARNED]);
    }
    fabric.configure(1).unwrap();
    start(&mut fabric);
    equal_paths_share(&fabric);
    the_lower_med_wins(&mut fabric);
    another_program_has_its_place(&fabric);
    stale_while_its_peer_restarts(&mut fabric);
}

fn equal_paths_share(fabric: &Fabric) {
    let verdict = "0.0.0.0/0 is learned from tor-a and tor-b, which share the traffic, and in the \
                   kernel.";
    let said = await_verdict(fabric, &["0.0.0.0/0"], verdict);
    said.says(
        "Paths",
        "The paths of tor-a and tor-b are equally good and share the traffic; tor-a's counts as the \
         best (lower router id).",
    )
    .says("Paths", "tor-a told it: next hop 172.16.1.1, AS path 65000; used.")
    .says(
        "Kernel",
        "The kernel has the route: 0.0.0.0/0 via 172.16.1.1 dev uplink0, via 172.17.1.1 dev uplink1.",
    )
    .says(
        "Peers",
        "tor-a and tor-b were not told: learned from a peer, and only what this node originates is \
         told.",
    );
    assert_eq!((&said.json["announced"], &said.json["origin"]), (&json!(false), &Value::Null));
    assert_eq!(said.json["decision"], "lower router id");
    let equal: Vec<&Value> =
        said.json["paths"].as_array().unwrap().iter().map(|path| &path["equal"]).collect();
    assert_eq!(equal, [&json!(true), &json!(true)]);
    // What has no route of its own follows it.
    let followed = await_verdict(
        fabric,
        &["203.0.113.9"],
        "203.0.113.9 has no route of its own: 0.0.0.0/0 is learned from tor-a and tor-b, which share \
         the traffic, and in the kernel.",
    );
    followed.says(
        "Kernel",
        "Packets for 203.0.113.9 go by the kernel's route 0.0.0.0/0 via 172.16.1.1 dev uplink0, via \
         172.17.1.1 dev uplink1.",
    );
    let around = await_verdict(
        fabric,
        &["10.0.0.0/8"],
        "Nothing is known of 10.0.0.0/8 itself; packets for it follow 0.0.0.0/0.",
    );
    around.says("Advice", "Inside it, this node originates 10.244.1.0/24.");
    assert_eq!((around.code, &around.json["covering"]["prefix"]), (0, &json!("0.0.0.0/0")));
}

fn the_lower_med_wins(fabric: &mut Fabric) {
    for (tor, med) in [(TORS[0], 20), (TORS[1], 10)] {
        let route = Route::new(LEARNED).with_med(med);
        fabric.tor_mut(tor).unwrap().router.announce(&[route]).unwrap();
    }
    let verdict = "198.51.100.0/24 is learned from tor-b, whose path won (lower MED from the same AS), \
                   and in the kernel.";
    let said = await_verdict(fabric, &[LEARNED], verdict);
    said.says("Paths", "tor-b's path won: lower MED from the same AS.").says(
        "Paths",
        "tor-a told it: next hop 172.16.1.1, AS path 65000, MED 20; not used: another has a lower MED \
         from the same AS.",
    );
    assert_eq!(said.json["decision"], "lower MED from the same AS");
    assert_eq!(said.json["kernel"]["route"], "198.51.100.0/24 via 172.17.1.1 dev uplink1");
}

/// A static route with the metric of learned ones.
fn another_program_has_its_place(fabric: &Fabric) {
    let netns = fabric.node(1).unwrap().netns();
    netns.ip("route replace 198.51.100.0/24 via 172.17.1.1 metric 32 proto static").unwrap();
    let said = await_said(fabric, &[LEARNED], "taken", |said| {
        said.verdict().contains(", but the kernel refuses it: route 198.51.100.0/24 metric 32 is")
    });
    let refused = said.json["kernel"]["refused"].as_str().unwrap();
    assert!(refused.contains("ip route del 198.51.100.0/24 metric 32 proto 4"), "{refused}");
    netns.ip("route del 198.51.100.0/24 metric 32 proto static").unwrap();
    await_said(fabric, &[LEARNED], "put back", |said| {
        said.verdict().ends_with(", and in the kernel.") && said.json["kernel"]["refused"].is_null()
    });
}

fn stale_while_its_peer_restarts(fabric: &mut Fabric) {
    fabric.tor_mut(TORS[0]).unwrap().router.kill().unwrap();
    let said = await_said(fabric, &["0.0.0.0/0"], "stale", |said| {
        said.text.contains("stale: the peer restarts, and it is kept meanwhile")
    });
    let path = |said: &super::scene::Said, tor: &str| {
        let paths = said.json["paths"].as_array().unwrap().clone();
        paths.into_iter().find(|path| path["peer"] == tor).unwrap()
    };
    let (kept, other) = (path(&said, TORS[0]), path(&said, TORS[1]));
    assert_eq!((&kept["stale"], &other["stale"]), (&json!(true), &json!(false)));
    assert_eq!(kept["equal"], true, "it goes on to share the traffic");
    fabric.tor_mut(TORS[0]).unwrap().router.start_again().unwrap();
    await_said(fabric, &["0.0.0.0/0"], "told again", |said| {
        path(said, TORS[0])["stale"] == false && said.peer(TORS[0])["state"] == "Established"
    });
}

/// A ToR that says what it must not, and one whose path is longer.
#[test]
fn what_is_refused_contested_or_longer() {
    let mut fabric =
        Fabric::builder().tor(TORS[0], Brand::Bird).nodes(1).hold_time(90).build().unwrap();
    let import = json!({ "accept": ["0.0.0.0/0", "10.0.0.0/8 le 32", "127.0.0.0/8", "172.16.0.0/12 le 32"] });
    let impostor = Impostor::new(&mut fabric, 1, &import);
    fabric.configure(1).unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    let mut wire = impostor.establish();
    let mut tell = |path: &[u32], prefix: &str| {
        wire.send(&update(HERE_V4, path, &[prefix])).unwrap();
    };
    // Longer than the good ToR's.
    tell(&[ASN, 65_010], "0.0.0.0/0");
    let verdict = "0.0.0.0/0 is learned from tor-a, whose path won (shorter AS path), and in the \
                   kernel.";
    await_verdict(&fabric, &["0.0.0.0/0"], verdict).says(
        "Paths",
        "impostor told it: next hop 172.30.0.1, AS path 65666 65010; not used: another has a shorter \
         AS path.",
    );
    // Refused, each for its own reason.
    for (prefix, why) in [
        (LEARNED, "no rule of import.accept matches"),
        ("127.0.0.0/8", "not a routable prefix (loopback, link-local, multicast or reserved)"),
        ("172.16.1.0/30", "this node is connected to that network"),
    ] {
        tell(&[ASN], prefix);
        let verdict = format!("{prefix} was told by impostor, and refused: {why}.");
        let said = await_verdict(&fabric, &[prefix], &verdict);
        assert_eq!((said.json["paths"][0]["refused"].as_str(), said.code), (Some(why), 0));
        assert_eq!(said.json["decision"], Value::Null);
    }
    // Ours, and told by another AS.
    tell(&[ASN, 65_077], NETWORK4);
    let said = await_said(&fabric, &[NETWORK4], "contested", |said| {
        said.verdict().ends_with("; impostor tells it, too.")
    });
    let ours = "a network of this node's own pods, or part of one";
    said.says("Paths", &format!("impostor told it; refused: {ours}.")).says(
        "Paths",
        "Another node may have the same network or address; `flock-agent check` tells.",
    );
    assert_eq!(said.json["paths"][0]["peer"], Value::Null, "ours is the best");
    assert_eq!(said.json["announced"], true);
    // What has a route of its own is explained, not what holds it.
    tell(&[ASN], "10.244.1.66/32");
    let verdict = format!("10.244.1.66/32 was told by impostor, and refused: {ours}.");
    let said = await_verdict(&fabric, &["10.244.1.66"], &verdict);
    assert_eq!(said.json["covering"]["prefix"], NETWORK4);
    // Its end is told, and nothing of it is left.
    drop(wire);
    let said = await_said(&fabric, &[LEARNED], "forgotten", |said| {
        said.json["paths"].as_array().is_some_and(Vec::is_empty)
    });
    assert!(said.verdict().ends_with("packets for it follow 0.0.0.0/0."), "{}", said.verdict());
    let shown = explain(&fabric, 1, &[NETWORK4, "--peer", NAME]).unwrap();
    assert!(shown.verdict().starts_with("impostor was not told of 10.244.1.0/24: no session: the"));
}
