//! A ToR that says what it must not: refused, told in the log, and nothing else is disturbed. The
//! other ToR's session, its routes and the traffic over them are watched throughout.

use std::collections::BTreeMap;

use anyhow::ensure;
use rack::fabric::{BEYOND_V4, BEYOND_V6, Fabric, PodOnNode};
use rack::router::Brand;
use rack::storm::Storm;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

use super::impostor::{
    self, ASN, HERE_V4, HERE_V6, Impostor, NODE_V4, encoded, ended, update, whole,
};
use super::scene::{
    DEFAULTS, Lasting, await_complete, await_learned, await_log, await_peer, ip, last_error,
    learned, log, peer_config,
};

/// The ToR that behaves.
const GOOD: &str = "tor-a";
/// What the impostor may say.
const HARMLESS: [&str; 2] = ["2001:db8:77::/48", "198.51.100.0/24"];
/// How much of it, in each family.
const MOST: usize = 12;

/// A node with a good ToR and an impostor, from which it takes everything; a storm from a pod.
struct Scene {
    // Dropped in this order: nobody sends from a pod that is gone.
    storm: Storm,
    _pod: PodOnNode,
    session: Lasting,
    impostor: Impostor,
    fabric: Fabric,
}

impl Scene {
    fn new() -> Self {
        let mut fabric =
            Fabric::builder().tor(GOOD, Brand::Bird).nodes(1).hold_time(90).build().unwrap();
        let import = json!({ "accept": ["::/0 le 128", "0.0.0.0/0 le 32"], "maxPrefixes": MOST });
        let impostor = Impostor::new(&mut fabric, 1, &import);
        fabric.configure(1).unwrap();
        fabric.start().unwrap();
        fabric.await_sessions().unwrap();
        await_complete(&fabric, 1, GOOD);
        await_learned(&fabric, 1, &DEFAULTS.map(|default| (default, &[GOOD][..])));
        let pod = fabric.add_pod(1, "pod", &[]).unwrap();
        let beyond = [BEYOND_V6, BEYOND_V4].map(ip);
        let storm = Storm::start(&pod.pod.netns, &beyond, 200).unwrap();
        storm.await_answers(10).unwrap();
        let session = Lasting::new(&fabric, 1, GOOD);
        Self { storm, _pod: pod, session, impostor, fabric }
    }

    /// The defaults of the good ToR, and what the impostor may say.
    fn await_harmless(&self, there: bool) {
        until("the harmless routes", PATIENCE, || {
            let mut found = learned(self.fabric.node(1)?.netns())?;
            for (prefix, hop) in HARMLESS.iter().zip([HERE_V6, HERE_V4]) {
                let wanted = there.then(|| vec![ip(hop)]);
                ensure!(found.remove(*prefix) == wanted, "{prefix}: {found:?}");
            }
            let left: Vec<_> = found.keys().map(String::as_str).collect();
            ensure!(left == ["0.0.0.0/0", "::/0"], "{left:?}");
            Ok(())
        })
        .unwrap();
    }

    /// Nothing happened to the good ToR's session and routes, and no packet was lost.
    fn undisturbed(self) {
        self.storm.await_answers(10).unwrap();
        self.session.check(&self.fabric);
        self.storm.stop().unwrap().ensure_perfect().unwrap();
    }

    /// What the impostor told, with why it was refused; empty where it was not.
    fn received(&self) -> BTreeMap<String, String> {
        let told = self.fabric.node(1).unwrap();
        let told =
            told.cli_json(&["bgp", "show", "routes", "--received", "--peer", impostor::NAME]);
        let told = told.unwrap();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let rows = told["routes"].as_array().unwrap().iter();
        rows.map(|row| (text(row, "prefix"), text(row, "refused"))).collect()
    }
}

#[test]
fn what_no_tor_may_say_is_refused_and_told() {
    let scene = Scene::new();
    let mut wire = scene.impostor.establish();
    wire.send(&update(HERE_V4, &[ASN], &HARMLESS[1..])).unwrap();
    wire.send(&update(HERE_V6, &[ASN], &HARMLESS[..1])).unwrap();
    scene.await_harmless(true);
    let routes = kernel(&scene.fabric);

    let ours = "this node's own pods";
    let connected = "connected to that network";
    let martian = "not a routable prefix";
    let hop = "next hop is unusable";
    // Next hop, AS path, prefixes, and what is said about the first of them.
    let cases: [(&str, &[u32], &[&str], &str); 11] = [
        (HERE_V4, &[ASN], &["172.16.1.0/30", "172.16.1.1/32", "172.30.0.0/30"], connected),
        (HERE_V6, &[ASN], &["2001:db8:f1:1::/64", "2001:db8:f1:1::1/128"], connected),
        (HERE_V4, &[ASN], &["10.244.1.0/24", "10.244.1.128/25"], ours),
        (HERE_V6, &[ASN], &["2001:db8:0:1::/64", "2001:db8:0:1::7/128"], ours),
        (HERE_V4, &[ASN], &["127.0.0.0/8", "224.0.0.0/4", "169.254.0.0/16"], martian),
        (HERE_V6, &[ASN], &["fe80::/10", "ff00::/8", "::1/128"], martian),
        ("192.0.2.77", &[ASN], &["198.18.1.0/24"], hop),
        ("2001:db8:dead::1", &[ASN], &["2001:db8:78::/48"], hop),
        (NODE_V4, &[ASN], &["198.18.2.0/24"], hop),
        (HERE_V4, &[65_999, ASN], &["198.18.3.0/24"], "does not begin with the peer's AS"),
        (HERE_V4, &[ASN, 65_001], &["198.18.4.0/24"], "our own AS number is in the path"),
    ];
    let node = scene.fabric.node(1).unwrap();
    for (next_hop, path, prefixes, why) in cases {
        let before = log(node).len();
        wire.send(&update(next_hop, path, prefixes)).unwrap();
        until(&format!("{prefixes:?} to be refused"), PATIENCE, || {
            let received = scene.received();
            for prefix in prefixes {
                let refused = received.get(*prefix).map(String::as_str).unwrap_or_default();
                ensure!(refused.contains(why), "{prefix}: {received:?}");
            }
            Ok(())
        })
        .unwrap();
        // A loop is everyday where nodes share an AS number, and gets no line.
        if path.last() == Some(&ASN) {
            await_log(node, before, &["route refused", impostor::NAME, why]);
        }
        // Taken back, so that there is room for the next.
        wire.send(&withdrawal(prefixes)).unwrap();
    }
    scene.await_harmless(true);
    assert_eq!(kernel(&scene.fabric), routes, "the node's other routes");

    // An UPDATE with a mistake is survived (RFC 7606): what it announces is not taken.
    let before = log(node).len();
    let bad_origin = [&[0x40, 1, 1, 7][..], &update_attributes()].concat();
    wire.send(&whole(&bad_origin, &encoded("198.18.5.0/24"))).unwrap();
    await_log(node, before, &["malformed UPDATE was survived", impostor::NAME]);
    assert!(!scene.received().contains_key("198.18.5.0/24"));
    await_peer(&scene.fabric, 1, impostor::NAME, "up", |row| row["flaps"] == 0);
    scene.await_harmless(true);
    scene.undisturbed();
}

/// AS_PATH and NEXT_HOP of the impostor.
fn update_attributes() -> Vec<u8> {
    let mut attributes = vec![0x40, 2, 6, 2, 1];
    attributes.extend(ASN.to_be_bytes());
    attributes.extend([0x40, 3, 4, 172, 30, 0, 1]);
    attributes
}

/// Takes prefixes of one family back.
fn withdrawal(prefixes: &[&str]) -> Vec<u8> {
    let nlri: Vec<u8> = prefixes.iter().flat_map(|prefix| encoded(prefix)).collect();
    let length = u16::try_from(nlri.len()).unwrap();
    if prefixes[0].contains(':') {
        // MP_UNREACH_NLRI.
        let attributes = [&[0x90, 15][..], &(length + 3).to_be_bytes(), &[0, 2, 1], &nlri].concat();
        return whole(&attributes, &[]);
    }
    rack::capture::message(2, &[&length.to_be_bytes()[..], &nlri, &[0, 0]].concat())
}

/// All routes of the node's main tables.
fn kernel(fabric: &Fabric) -> String {
    let netns = fabric.node(1).unwrap().netns();
    ["-6", "-4"].map(|family| netns.ip(&format!("{family} route show")).unwrap()).concat()
}

#[test]
fn too_many_prefixes_and_nonsense_end_that_session_alone() {
    let mut scene = Scene::new();
    let mut wire = scene.impostor.establish();
    wire.send(&update(HERE_V4, &[ASN], &HARMLESS[1..])).unwrap();
    wire.send(&update(HERE_V6, &[ASN], &HARMLESS[..1])).unwrap();
    scene.await_harmless(true);

    // More than maxPrefixes: Cease 6/1, a rest, and its routes go.
    let many: Vec<_> = (0..=MOST).map(|third| format!("198.19.{third}.0/24")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    wire.send(&update(HERE_V4, &[ASN], &many)).unwrap();
    assert_eq!(ended(&mut wire), (6, 1));
    await_peer(&scene.fabric, 1, impostor::NAME, "rests", |row| {
        row["state"] == "Idle"
            && last_error(row).contains("(6/1)")
            && row["nextAttemptSeconds"].as_u64() > Some(20)
    });
    await_log(scene.fabric.node(1).unwrap(), 0, &["session down", impostor::NAME, "6/1"]);
    scene.await_harmless(false);

    // Who may say more is asked again at once. Then nonsense instead of a message.
    peer_config(&mut scene.fabric, 1, impostor::NAME)["import"]["maxPrefixes"] = json!(1000);
    scene.fabric.configure(1).unwrap();
    let mut wire = scene.impostor.establish();
    wire.send(&update(HERE_V4, &[ASN], &HARMLESS[1..])).unwrap();
    wire.send(&update(HERE_V6, &[ASN], &HARMLESS[..1])).unwrap();
    wire.send(&update(HERE_V4, &[ASN], &many)).unwrap();
    await_peer(&scene.fabric, 1, impostor::NAME, "all of it", |row| {
        row["accepted"].as_u64() == Some(MOST as u64 + 3)
    });
    let noise: Vec<u8> =
        (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    // It may be gone before it has heard everything.
    let _cut_off = wire.send(&noise);
    let hears = |code: &'static str| {
        await_peer(&scene.fabric, 1, impostor::NAME, code, |row| last_error(row).contains(code))
    };
    hears("(1/1)");
    scene.await_harmless(false);

    // It tries again by itself. Nonsense instead of OPEN; then half a message, and the end.
    let mut wire = scene.impostor.accept();
    wire.send(&[0xff; 16]).unwrap();
    wire.send(&[0, 5, 1]).unwrap();
    assert_eq!(ended(&mut wire), (1, 2));
    hears("(1/2)");
    let mut wire = scene.impostor.establish();
    wire.send(&update(HERE_V4, &[ASN], &HARMLESS[1..])[..30]).unwrap();
    drop(wire);
    hears("connection closed");

    // And once more in order.
    let mut wire = scene.impostor.establish();
    wire.send(&update(HERE_V4, &[ASN], &HARMLESS[1..])).unwrap();
    wire.send(&update(HERE_V6, &[ASN], &HARMLESS[..1])).unwrap();
    scene.await_harmless(true);
    scene.undisturbed();
}
