//! A node whose cable to one ToR fails keeps its traffic on the other: from a pod to a pod on
//! another node, and out of the fabric. How much was lost, and for how long nothing came, is
//! printed; what is claimed is that it recovers, and where the routes lead meanwhile.

use std::net::IpAddr;

use rack::fabric::{BEYOND_V4, BEYOND_V6, Fabric, PodOnNode};
use rack::link::{Link, Side};
use rack::router::Route;
use rack::storm::Storm;
use serde_json::json;

use super::scene::{
    DEFAULTS, Lasting, TORS, accept, await_complete, await_defaults, await_learned, await_peer, ip,
    last_error, pair, start,
};

/// Where silence has to be noticed: long enough for a busy machine, which may stand still for
/// seconds, and short enough to be waited for.
const SHORT: u16 = 9;
/// Where nobody has to.
const LONG: u16 = 90;

/// How many answers of each target are proof that it flows.
const FLOWS: u64 = 25;

/// Two nodes with a pod each.
struct Scene {
    fabric: Fabric,
    pods: [PodOnNode; 2],
}

impl Scene {
    fn new(hold_time: u16) -> Self {
        let mut fabric = pair().nodes(2).hold_time(hold_time).build().unwrap();
        start(&mut fabric);
        let pods = [1, 2].map(|node| {
            await_defaults(&fabric, node, &TORS);
            fabric.add_pod(node, "pod", &[]).unwrap()
        });
        Self { fabric, pods }
    }

    /// From the pod of node 1 to that of node 2 and beyond the fabric.
    fn storm(&self) -> Storm {
        let beyond = [BEYOND_V6, BEYOND_V4].map(ip);
        let targets: Vec<IpAddr> = self.pods[1].addresses().into_iter().chain(beyond).collect();
        let storm = Storm::start(&self.pods[0].pod.netns, &targets, 1000).unwrap();
        storm.await_answers(FLOWS).unwrap();
        storm
    }

    fn link(&self, tor: &str) -> Link {
        self.fabric.link(1, tor).unwrap()
    }

    /// Everything is as it was, and flows.
    fn await_whole(&self, storm: &Storm, tor: &str) {
        self.fabric.await_session(1, tor).unwrap();
        await_complete(&self.fabric, 1, tor);
        await_defaults(&self.fabric, 1, &TORS);
        storm.await_answers(FLOWS).unwrap();
    }
}

/// The other ToR.
fn other(tor: &str) -> &'static str {
    if tor == TORS[0] { TORS[1] } else { TORS[0] }
}

#[allow(clippy::print_stdout, reason = "what was lost is for people to read")]
fn tell(what: &str, storm: Storm) {
    let outcome = storm.stop().unwrap();
    println!(
        "{what}: lost {} of {}, longest gap {:?}\n{outcome}",
        outcome.lost(),
        outcome.sent(),
        outcome.longest_gap()
    );
    assert_eq!((outcome.duplicates(), outcome.strange), (0, 0), "{what}: {outcome}");
}

#[test]
fn a_cable_to_bird_that_is_cut_or_unplugged_leaves_the_traffic_to_the_other() {
    cut(TORS[0]);
}

#[test]
fn a_cable_to_frr_that_is_cut_or_unplugged_leaves_the_traffic_to_the_other() {
    cut(TORS[1]);
}

fn cut(tor: &str) {
    let scene = Scene::new(LONG);
    let link = scene.link(tor);
    let stays = Lasting::new(&scene.fabric, 1, other(tor));
    for (what, side) in [("taken down at the node", Side::Near), ("shut at the ToR", Side::Far)] {
        let storm = scene.storm();
        link.cut(side).unwrap();
        await_defaults(&scene.fabric, 1, &[other(tor)]);
        storm.await_answers(FLOWS).unwrap();
        link.mend().unwrap();
        scene.await_whole(&storm, tor);
        tell(&format!("{what}, {tor}"), storm);
    }
    stays.check(&scene.fabric);
}

#[test]
fn a_silent_cable_is_left_at_the_hold_time() {
    let scene = Scene::new(SHORT);
    let (link, stays) = (scene.link(TORS[0]), Lasting::new(&scene.fabric, 1, TORS[1]));
    let storm = scene.storm();
    link.silence().unwrap();
    // Nobody says anything; each side finds out by itself.
    await_down(&scene, TORS[0], "sent Hold Timer Expired");
    await_defaults(&scene.fabric, 1, &TORS[1..]);
    await_away(&scene, TORS[0]);
    storm.await_answers(FLOWS).unwrap();
    link.pass().unwrap();
    scene.await_whole(&storm, TORS[0]);
    tell("silence", storm);
    stays.check(&scene.fabric);
}

#[test]
fn a_cable_on_which_the_node_is_deaf_is_left_by_both() {
    deaf(Side::Near, "sent Hold Timer Expired");
}

/// The ToR says that it heard nothing; or it cannot, because without answers to neighbour discovery
/// it sends nothing any more, and then the node finds out by itself.
#[test]
fn a_cable_on_which_the_tor_is_deaf_is_left_by_both() {
    deaf(Side::Far, "Hold Timer Expired");
}

fn deaf(side: Side, error: &str) {
    let scene = Scene::new(SHORT);
    let (link, stays) = (scene.link(TORS[1]), Lasting::new(&scene.fabric, 1, TORS[0]));
    let storm = scene.storm();
    link.one_way(side).unwrap();
    await_down(&scene, TORS[1], error);
    await_away(&scene, TORS[1]);
    await_defaults(&scene.fabric, 1, &TORS[..1]);
    storm.await_answers(FLOWS).unwrap();
    link.pass().unwrap();
    scene.await_whole(&storm, TORS[1]);
    tell(&format!("deaf {side:?}"), storm);
    stays.check(&scene.fabric);
}

fn await_down(scene: &Scene, tor: &str, error: &str) {
    await_peer(&scene.fabric, 1, tor, error, |row| {
        row["state"] != "Established" && last_error(row).contains(error)
    });
}

/// A ToR has no session with node 1.
fn await_away(scene: &Scene, tor: &str) {
    let address = scene.fabric.session_addresses(1, tor).unwrap()[0];
    let router = &scene.fabric.tor(tor).unwrap().router;
    router.await_state(address, |state| state != "Established").unwrap();
}

#[test]
fn a_slow_cable_costs_no_session() {
    let mut fabric = pair().nodes(1).hold_time(SHORT).build().unwrap();
    accept(&mut fabric, 1, &json!([DEFAULTS[0], DEFAULTS[1], "100.64.0.0/10 le 24"]));
    start(&mut fabric);
    await_defaults(&fabric, 1, &TORS);
    let sessions = TORS.map(|tor| Lasting::new(&fabric, 1, tor));
    let link = fabric.link(1, TORS[0]).unwrap();
    link.slow(16_000).unwrap();
    // A table that takes seconds, and then a hold time's worth of keepalives.
    let many: Vec<_> = (0..500).map(|n| format!("100.{}.{}.0/24", 64 + n / 256, n % 256)).collect();
    let routes: Vec<_> = many.iter().map(|prefix| Route::new(prefix)).collect();
    fabric.tor_mut(TORS[0]).unwrap().router.announce(&routes).unwrap();
    let mut wanted: Vec<_> = many.iter().map(|prefix| (prefix.as_str(), &TORS[..])).collect();
    wanted.extend(DEFAULTS.map(|default| (default, &TORS[..])));
    await_learned(&fabric, 1, &wanted);
    let heard = |row: &serde_json::Value| row["messagesReceived"].as_u64().unwrap();
    let before = await_peer(&fabric, 1, TORS[0], "up", |row| row["state"] == "Established");
    await_peer(&fabric, 1, TORS[0], "keepalives", |row| heard(row) >= heard(&before) + 4);
    link.full_speed().unwrap();
    sessions.iter().for_each(|session| session.check(&fabric));
    await_learned(&fabric, 1, &wanted);
}
