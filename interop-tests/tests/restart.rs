//! What nobody notices: an agent that is killed or stopped and started again, and a ToR that
//! restarts gracefully, with a thousand pings a second from each ToR to fifty pods meanwhile.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread;

use anyhow::ensure;
use rack::fabric::{BEYOND_V4, BEYOND_V6, Fabric, PodOnNode, Transport};
use rack::facts;
use rack::monitor::RouteMonitor;
use rack::node::Node;
use rack::router::Brand;
use rack::storm::Storm;
use rack::wait::{PATIENCE, until};
use serde_json::json;

const TORS: [&str; 2] = ["tor-a", "tor-b"];
/// Pods of the one node, each announced by itself.
const PODS: usize = 50;
/// Who attaches them at the same time.
const CREWS: usize = 4;

/// ToRs of these brands, and a node that is ready once all of them were told everything.
fn fabric(brands: &[Brand], transport: Transport) -> Fabric {
    let tors = TORS.iter().zip(brands);
    let builder = tors.fold(Fabric::builder(), |builder, (tor, brand)| builder.tor(tor, *brand));
    let mut fabric = builder.nodes(1).transport(transport).build().unwrap();
    let spec = &mut fabric.node_config_mut(1).unwrap()["spec"];
    spec["bgp"]["announcePods"] = json!(true);
    spec["readiness"] = json!({ "sessions": brands.len(), "timeout": "600s" });
    fabric.configure(1).unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    fabric
}

fn attach(fabric: &Fabric) -> Vec<PodOnNode> {
    let crew = |crew: usize| {
        let mine = (0..PODS).filter(|pod| pod % CREWS == crew);
        mine.map(|pod| fabric.add_pod(1, &format!("pod-{pod}"), &[]).unwrap()).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let crews: Vec<_> = (0..CREWS).map(|number| scope.spawn(move || crew(number))).collect();
        crews.into_iter().flat_map(|crew| crew.join().unwrap()).collect()
    })
}

/// Whether a destination is one that the node announces.
fn is_announced(destination: &str) -> bool {
    destination.starts_with("2001:db8:0:1:") || destination.starts_with("10.244.1.")
}

/// Awaits that the ToRs' kernels have the node's networks and exactly these pods.
fn await_routes(fabric: &Fabric, pods: &[PodOnNode]) {
    let own = pods.iter().flat_map(PodOnNode::addresses).map(|address| address.to_string());
    let networks = ["2001:db8:0:1::/64", "10.244.1.0/24"].map(str::to_owned);
    let wanted: BTreeSet<String> = own.chain(networks).collect();
    for tor in fabric.tors() {
        until(&format!("all routes in the kernel of {}", tor.name()), PATIENCE, || {
            let routes = facts::routes(tor.netns())?;
            let direct = routes.into_iter().filter(|route| route.devices == ["node-1"]);
            let there = direct.map(|route| route.destination).filter(|to| is_announced(to));
            let there: BTreeSet<String> = there.collect();
            let odd: Vec<_> = there.symmetric_difference(&wanted).collect();
            ensure!(odd.is_empty(), "missing or too many: {odd:?}");
            Ok(())
        })
        .unwrap();
    }
}

fn targets(pods: &[PodOnNode]) -> Vec<IpAddr> {
    pods.iter().flat_map(PodOnNode::addresses).collect()
}

fn await_answers(storms: &[Storm], more: u64) {
    storms.iter().for_each(|storm| storm.await_answers(more).unwrap());
}

/// Awaits that no ToR has a session with the node.
fn await_loss(fabric: &Fabric) {
    for tor in TORS {
        let router = &fabric.tor(tor).unwrap().router;
        for address in fabric.session_addresses(1, tor).unwrap() {
            router.await_state(address, |state| state != "Established").unwrap();
        }
    }
}

fn ensure_kept(tor: &str, monitor: &RouteMonitor) {
    let gone = monitor.gone().unwrap();
    let gone: Vec<_> = gone.into_iter().filter(|to| is_announced(to)).collect();
    assert!(gone.is_empty(), "{tor} dropped {gone:?}");
}

fn an_agent_comes_and_goes(transport: Transport) {
    let mut fabric = fabric(&[Brand::Bird, Brand::Frr], transport);
    let mut pods = attach(&fabric);
    await_routes(&fabric, &pods);
    let monitors = TORS.map(|tor| RouteMonitor::start(fabric.tor(tor).unwrap().netns()).unwrap());
    let storms = TORS.map(|tor| fabric.storm(tor, &targets(&pods), 1000).unwrap());
    await_answers(&storms, 5);
    for (way, late) in [(Node::kill as fn(&mut Node) -> _, "killed"), (Node::terminate, "stopped")]
    {
        way(fabric.node_mut(1).unwrap()).unwrap();
        await_loss(&fabric);
        await_answers(&storms, 10);
        let node = fabric.node_mut(1).unwrap();
        node.start().unwrap();
        node.await_ready().unwrap();
        // Told after End-of-RIB: whoever has it, has swept what was to be swept.
        pods.push(fabric.add_pod(1, late, &[]).unwrap());
        await_routes(&fabric, &pods);
        await_answers(&storms, 5);
    }
    // Back before the ToRs have understood that it was away.
    fabric.node_mut(1).unwrap().restart_with(&[]).unwrap();
    pods.push(fabric.add_pod(1, "at-once", &[]).unwrap());
    await_routes(&fabric, &pods);
    await_answers(&storms, 5);
    ensure_perfect(storms.into());
    TORS.iter().zip(&monitors).for_each(|(tor, monitor)| ensure_kept(tor, monitor));
}

#[test]
fn an_agent_that_is_killed_or_stopped_loses_no_packet() {
    an_agent_comes_and_goes(Transport::DualStack);
}

#[test]
fn an_agent_that_is_killed_or_stopped_loses_no_packet_without_ipv4_on_the_cables() {
    an_agent_comes_and_goes(Transport::Ipv6Only);
}

/// Whether a router that was restarted keeps the kernel's routes until it knows better. FRR 8.4 does
/// not quite: bgpd says that it has told everything again, and zebra sweeps before it has taken all
/// of that in. So the routes of the first family are gone for some tenths of a second, and its own
/// pings with them.
fn returns_unnoticed(brand: Brand) -> bool {
    brand == Brand::Bird
}

/// Storms from the ToR to the pods, and from some pods out by the routes that were learned from it.
fn storms(fabric: &Fabric, pods: &[PodOnNode]) -> Vec<Storm> {
    let mut storms = vec![fabric.storm(TORS[0], &targets(pods), 1000).unwrap()];
    let beyond = [BEYOND_V6, BEYOND_V4].map(|address| address.parse().unwrap());
    for pod in &pods[..4] {
        let own = pod.addresses();
        storms.push(Storm::start_from(&pod.pod.netns, &own, &beyond, 50).unwrap());
    }
    await_answers(&storms, 5);
    storms
}

fn ensure_perfect(storms: Vec<Storm>) {
    for storm in storms {
        storm.stop().unwrap().ensure_perfect().unwrap();
    }
}

fn a_tor_restarts(brand: Brand) {
    let tor = TORS[0];
    let mut fabric = fabric(&[brand], Transport::DualStack);
    let pods = attach(&fabric);
    await_routes(&fabric, &pods);
    await_defaults(&fabric);
    let learned = RouteMonitor::start(fabric.node(1).unwrap().netns()).unwrap();
    let kept = RouteMonitor::start(fabric.tor(tor).unwrap().netns()).unwrap();
    let mut raging = storms(&fabric, &pods);
    fabric.tor_mut(tor).unwrap().router.kill().unwrap();
    await_peer(&fabric, tor, |state| state != "Established");
    await_answers(&raging, 20);
    if !returns_unnoticed(brand) {
        ensure_perfect(std::mem::take(&mut raging));
        ensure_kept(tor, &kept);
    }
    fabric.tor_mut(tor).unwrap().router.start_again().unwrap();
    await_peer(&fabric, tor, |state| state == "Established");
    fabric.await_sessions().unwrap();
    // A change that comes after all that was told again.
    let late = fabric.add_pod(1, "late", &[]).unwrap();
    let router = &fabric.tor(tor).unwrap().router;
    for address in late.addresses() {
        router.await_path(&host(address), |_| true).unwrap();
    }
    await_answers(&raging, 10);
    ensure_perfect(raging);
    if returns_unnoticed(brand) {
        ensure_kept(tor, &kept);
    }
    fabric.remove_pod(late).unwrap();
    await_routes(&fabric, &pods);
    await_defaults(&fabric);
    ensure_perfect(storms(&fabric, &pods));
    let told = learned.told().unwrap();
    let changed: Vec<_> = told.iter().filter(|line| line.contains("default")).collect();
    assert!(changed.is_empty(), "the node's ways out: {changed:?}");
}

#[test]
fn a_bird_that_restarts_gracefully_loses_no_packet() {
    a_tor_restarts(Brand::Bird);
}

#[test]
fn an_frr_that_restarts_gracefully_is_waited_for() {
    a_tor_restarts(Brand::Frr);
}

/// The prefix of one address.
fn host(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv6() { 128 } else { 32 })
}

/// Awaits that the agent says of its session with a ToR what pleases.
fn await_peer(fabric: &Fabric, tor: &str, pleases: impl Fn(&str) -> bool) {
    until(&format!("the session with {tor}"), PATIENCE, || {
        let shown = fabric.node(1)?.cli_json(&["bgp", "show", "peers", tor])?;
        let state = shown["peers"][0]["state"].as_str().unwrap_or_default();
        ensure!(pleases(state), "{shown}");
        Ok(())
    })
    .unwrap();
}

/// Awaits that the node's kernel has the ToRs as ways out, in both families.
fn await_defaults(fabric: &Fabric) {
    let tors = fabric.tors().len();
    until("the ways out", PATIENCE, || {
        let routes = facts::routes(fabric.node(1)?.netns())?;
        let defaults = routes.iter().filter(|route| route.destination == "default");
        let ways: Vec<_> = defaults.map(|route| route.devices.len()).collect();
        ensure!(ways == [tors, tors], "{routes:?}");
        Ok(())
    })
    .unwrap();
}
