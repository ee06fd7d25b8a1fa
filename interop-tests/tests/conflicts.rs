//! What two nodes claim is reported and not fatal: one address on two pods, an anycast address
//! inside another node's network, networks that overlap. Nodes hear of each other from the ToRs,
//! where all have one AS number, and where each has its own.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Result, ensure};
use rack::fabric::{Builder, Fabric, PodOnNode};
use rack::probe::await_ping;
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::json;

const NODES: [usize; 3] = [1, 2, 3];
/// In nobody's network.
const TWICE: [&str; 2] = ["2001:db8:e::7", "198.51.100.7"];
/// In the networks of the first node.
const INSIDE: [&str; 2] = ["2001:db8:0:1::cafe", "10.244.1.200"];
/// What the log says of a conflict.
const LOGGED: &str = "two nodes claim the same";

fn pair() -> Builder {
    Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Frr).nodes(NODES.len())
}

fn started(builder: Builder) -> Fabric {
    let mut fabric = builder.build().unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    fabric
}

/// Whether a node reports a conflict in these words, to whoever asks and in its log.
fn reports(fabric: &Fabric, node: usize, words: &str) -> Result<()> {
    let node = fabric.node(node)?;
    let found = node.findings("conflict")?;
    let same = |text: &str| text.contains(words);
    let told = |finding: &&serde_json::Value| finding["message"].as_str().is_some_and(same);
    let finding = found.iter().find(told);
    ensure!(finding.is_some(), "{} finds {found:?}", node.name());
    ensure!(finding.is_some_and(|one| one["status"] == "warn" && one["remedy"] != ""), "{found:?}");
    let logged = node.log()?.lines().any(|line| line.contains(LOGGED) && line.contains(words));
    ensure!(logged, "{} has no line in its log", node.name());
    Ok(())
}

/// Awaits that one of these nodes reports a conflict. Where both have one prefix, a router tells
/// each of them of the other only if it prefers the other.
fn await_report(fabric: &Fabric, nodes: &[usize], words: &str) {
    until(&format!("a report: {words}"), PATIENCE, || {
        let said: Vec<_> = nodes.iter().map(|node| reports(fabric, *node, words)).collect();
        let words: Vec<_> = said.iter().filter_map(|one| one.as_ref().err()).collect();
        ensure!(words.len() < said.len(), "{words:?}");
        Ok(())
    })
    .unwrap();
}

/// Awaits that nobody finds a conflict any more.
fn await_peace(fabric: &Fabric) {
    until("no conflicts", PATIENCE, || {
        for node in NODES {
            let found = fabric.node(node)?.findings("conflict")?;
            ensure!(found.is_empty(), "node-{node}: {found:?}");
        }
        Ok(())
    })
    .unwrap();
}

fn host(address: &str) -> String {
    format!("{address}/{}", if address.contains(':') { 128 } else { 32 })
}

/// One address on two pods: both are attached, announced and answer.
fn one_address_on_two_nodes(fabric: &Fabric) {
    for address in TWICE {
        await_report(fabric, &[1, 2], &format!("{} is announced elsewhere, too", host(address)));
        fabric.await_ways(address, &[1, 2]).unwrap();
        for node in [1, 2] {
            await_ping(fabric.node(node).unwrap().netns(), address.parse().unwrap()).unwrap();
        }
    }
}

/// An anycast address in another node's network: the address leads to who serves it, and the
/// network to whose it is.
fn anycast_inside_another_network(fabric: &Fabric, theirs: &PodOnNode) {
    for (address, net) in INSIDE.iter().zip(["2001:db8:0:1::/64", "10.244.1.0/24"]) {
        let words = format!("the anycast address {address} is inside {net}");
        await_report(fabric, &[3], &words);
        let words = format!("{} is announced elsewhere, and is part of", host(address));
        await_report(fabric, &[1], &words);
        fabric.await_ways(address, &[3]).unwrap();
        fabric.await_ways(net, &[1]).unwrap();
    }
    let inside = INSIDE.map(|address| address.parse::<IpAddr>().unwrap());
    let targets: Vec<IpAddr> = theirs.addresses().into_iter().chain(inside).collect();
    let storm = fabric.storm("tor-b", &targets, 200).unwrap();
    storm.await_answers(10).unwrap();
    storm.stop().unwrap().ensure_perfect().unwrap();
}

/// The second node has, of IPv4, the network of the first, and of IPv6 a part of it.
fn overlapping_networks(fabric: &Fabric) {
    await_report(fabric, &[1], "2001:db8:0:1:8000::/65 is announced elsewhere, and is part of");
    await_report(fabric, &[1, 2], "the network 10.244.1.0/24 is announced elsewhere, too");
    fabric.await_ways("2001:db8:0:1::/64", &[1]).unwrap();
    fabric.await_ways("2001:db8:0:1:8000::/65", &[2]).unwrap();
    fabric.await_ways("10.244.1.0/24", &[1, 2]).unwrap();
    // Both go on to attach pods, and what is a node's alone is reached.
    let pods = [(1, "2001:db8:0:1::5"), (2, "2001:db8:0:1:8000::5")].map(|(node, address)| {
        (fabric.add_pod(node, "pod", &[("addresses", address)]).unwrap(), address)
    });
    for (pod, address) in &pods {
        let storm = fabric.storm("tor-a", &[address.parse().unwrap()], 100).unwrap();
        storm.await_answers(5).unwrap();
        let four = pod.v4.unwrap().into();
        await_ping(fabric.node(pod.node).unwrap().netns(), four).unwrap();
    }
    pods.into_iter().for_each(|(pod, _)| fabric.remove_pod(pod).unwrap());
}

fn ended_sessions(fabric: &Fabric) -> [BTreeMap<String, u64>; 3] {
    NODES.map(|node| fabric.node(node).unwrap().ended_sessions().unwrap())
}

fn reported_and_not_fatal(builder: Builder) {
    let mut fabric = started(builder);
    await_peace(&fabric);
    let before = ended_sessions(&fabric);
    // Two at once: what lasts is told, and that takes its time.
    let good = fabric.node_config_mut(2).unwrap().clone();
    let spec = &mut fabric.node_config_mut(2).unwrap()["spec"];
    spec["cidr6"] = json!(["2001:db8:0:1:8000::/65"]);
    spec["cidr4"] = json!(["10.244.1.0/24"]);
    fabric.configure(2).unwrap();
    let twin = |node| fabric.add_pod(node, "twin", &[("addresses", &TWICE.join(","))]).unwrap();
    let twins = [1, 2].map(twin);
    one_address_on_two_nodes(&fabric);
    overlapping_networks(&fabric);
    twins.into_iter().for_each(|pod| fabric.remove_pod(pod).unwrap());
    *fabric.node_config_mut(2).unwrap() = good;
    fabric.configure(2).unwrap();
    await_peace(&fabric);
    fabric.await_ways("10.244.1.0/24", &[1]).unwrap();
    fabric.await_ways("10.244.2.0/24", &[2]).unwrap();
    let log = fabric.node(3).unwrap().log().unwrap();
    assert!(!log.contains(LOGGED), "it has no part in it:\n{log}");

    // Long after the other's network was told, so that nothing but the pod is news.
    let ordinary = fabric.add_pod(1, "ordinary", &[]).unwrap();
    let dns = fabric.add_pod(3, "dns", &[("anycast", &INSIDE.join(","))]).unwrap();
    anycast_inside_another_network(&fabric, &ordinary);
    [ordinary, dns].into_iter().for_each(|pod| fabric.remove_pod(pod).unwrap());
    await_peace(&fabric);
    assert_eq!(ended_sessions(&fabric), before, "no session ended for it");
}

#[test]
fn conflicts_are_reported_where_nodes_share_an_as_number() {
    reported_and_not_fatal(pair());
}

#[test]
fn conflicts_are_reported_where_each_node_has_an_as_number() {
    reported_and_not_fatal(pair().own_asns());
}

/// One NodeConfig for two nodes. Where they share an AS number this cannot be told from a router
/// that sends everything back, so each has its own here.
#[test]
fn two_nodes_with_one_nodeconfig_are_told_so() {
    let mut fabric = pair().own_asns().build().unwrap();
    let first = fabric.node_config_mut(1).unwrap()["spec"].clone();
    let second = &mut fabric.node_config_mut(2).unwrap()["spec"];
    (second["cidr6"], second["cidr4"]) = (first["cidr6"].clone(), first["cidr4"].clone());
    fabric.configure(2).unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    for net in ["2001:db8:0:1::/64", "10.244.1.0/24"] {
        await_report(&fabric, &[1, 2], &format!("the network {net} is announced elsewhere, too"));
        fabric.await_tellers(net, &[1, 2]).unwrap();
    }
    assert!(fabric.node(3).unwrap().findings("conflict").unwrap().is_empty());
}
