//! What the node itself says to it: drains, NodeConfigs that are bad or gone, pacing, and a kernel that
//! does not do as it is told.

use std::fs;

use anyhow::ensure;
use rack::fabric::Fabric;
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

use super::scene::{NETWORK4, TORS, await_said, await_verdict, explain, pair, start};

const ANYCAST: &str = "192.0.2.53";

#[test]
fn a_node_that_is_drained_and_comes_back() {
    let mut fabric = pair().nodes(1).build().unwrap();
    start(&mut fabric);
    let node = fabric.node(1).unwrap();
    let mut drain = node.netns().command(rack::binaries::flock_agent().unwrap()).unwrap();
    drain.args(["drain", "--wait", "10m"]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    let watch =
        rack::process::Daemon::start("flock-agent drain", &mut drain, &node.file("drain.log"));
    let said = await_said(&fabric, &[NETWORK4], "marked", |said| {
        said.verdict().ends_with("told to both peers; the node drains, and withdraws it in N.")
            && said.text.matches("communities 65535:0 (GRACEFUL_SHUTDOWN)").count() == 2
    });
    let drains = "The node drains: everything carries GRACEFUL_SHUTDOWN, and is withdrawn in N.";
    said.says("Origin", drains);
    drop(watch);
    node.cli(&["drain", "--wait", "1s"]).unwrap();
    let verdict = "10.244.1.0/24 is not announced: the node is drained since T.";
    let said = await_verdict(&fabric, &[NETWORK4], verdict);
    let undo =
        "The node is drained since T: nothing is announced until `flock-agent drain --undo`.";
    said.says("Origin", undo).says("Origin", "It was withdrawn at T: the node was drained.");
    assert_eq!(said.json["origin"]["withdrawnBecause"], "the node was drained");
    // What was learned stays, and why is said.
    let said = await_said(&fabric, &["0.0.0.0/0"], "kept", |said| {
        said.text.contains("It is kept although sessions ended, because the node is drained.")
    });
    assert!(said.json["kernel"]["route"].as_str().unwrap().starts_with("0.0.0.0/0 via "));
    node.cli(&["drain", "--undo"]).unwrap();
    let verdict = "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to both peers.";
    await_verdict(&fabric, &[NETWORK4], verdict);
}

#[test]
fn nodeconfigs_that_are_bad_gone_smaller_or_without_bgp() {
    let mut fabric = pair().nodes(1).build().unwrap();
    start(&mut fabric);
    let told = "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to both peers.";
    let good = fabric.node_config_mut(1).unwrap().clone();
    // Refused: the last good one stays.
    fabric.node_config_mut(1).unwrap()["spec"]["cidr4"] = json!(["10.244.1.7/24"]);
    fabric.configure(1).unwrap();
    let said = await_said(&fabric, &[NETWORK4], "refused", |said| {
        said.text
            .contains("The NodeConfig that is there now is refused, and the last good one stays")
            && said.text.contains("10.244.1.7/24")
    });
    assert_eq!(said.verdict(), told);
    // Deleted: what is there is served.
    fs::remove_file(fabric.node(1).unwrap().file("standalone/nodeconfig.yaml")).unwrap();
    let said = await_said(&fabric, &[NETWORK4], "deleted", |said| {
        said.text
            .contains("The NodeConfig node-1 was deleted: what is there is served and announced")
    });
    assert_eq!(said.verdict(), told);
    // Without the network, while a pod holds an address of it.
    *fabric.node_config_mut(1).unwrap() = good.clone();
    fabric.configure(1).unwrap();
    let pod = until("a pod", PATIENCE, || fabric.add_pod(1, "web", &[])).unwrap();
    fabric.node_config_mut(1).unwrap()["spec"]["cidr4"] = json!(["10.99.1.0/24"]);
    fabric.configure(1).unwrap();
    let kept = "10.244.1.0/24 is originated here (a network that the NodeConfig does not have any \
                more) and told to both peers.";
    await_verdict(&fabric, &[NETWORK4], kept).says(
        "Origin",
        "The NodeConfig node-1 does not have this network any more; it is kept because pods hold \
         addresses of it.",
    );
    fabric.remove_pod(pod).unwrap();
    let gone = "10.244.1.0/24 is not announced: it was withdrawn at T: the NodeConfig does not have it \
                any more.";
    await_verdict(&fabric, &[NETWORK4], gone);
    // No BGP at all.
    *fabric.node_config_mut(1).unwrap() = good;
    let config = fabric.node_config_mut(1).unwrap();
    config["spec"].as_object_mut().unwrap().remove("bgp");
    fabric.configure(1).unwrap();
    let silent = "10.244.1.0/24 is originated here (spec.cidr4[0]), but this node does not speak BGP: \
                  spec.bgp is not set.";
    let said = await_verdict(&fabric, &[NETWORK4], silent);
    said.says("Peers", "This node does not speak BGP: spec.bgp is not set.");
    assert_eq!((&said.json["peers"], &said.json["announced"]), (&json!([]), &json!(false)));
    let unknown = explain(&fabric, 1, &["203.0.113.0/24"]).unwrap();
    assert_eq!((unknown.code, &unknown.json["known"]), (1, &json!(false)));
    let verdict = "Nothing is known of 203.0.113.0/24: no pod of this node has it, its NodeConfig does \
                   not name it, and no peer told it.";
    assert_eq!(unknown.verdict(), verdict);
    let advice = "To announce it from here, add it to spec.cidr6 or spec.cidr4 of the NodeConfig.";
    unknown.says("Advice", advice);
}

/// Ready and not, until it has to wait.
fn flap_until_paced(fabric: &Fabric) {
    let mut pod = fabric.add_pod(1, "flaps", &[("anycast", ANYCAST)]).unwrap();
    let paced = until("it to be paced", PATIENCE, || {
        for _ in 0..10 {
            for ready in [false, true] {
                fabric.set_ready(&mut pod, ready)?;
                let want = if ready { "originated" } else { "is not announced: pod" };
                until("it to follow", PATIENCE, || {
                    let said = explain(fabric, 1, &[ANYCAST])?;
                    let paced = said.json["origin"]["pacedSeconds"].is_number();
                    ensure!(paced || said.verdict().contains(want), "{}", said.verdict());
                    Ok(())
                })?;
            }
            let said = explain(fabric, 1, &[ANYCAST])?;
            if said.json["origin"]["pacedSeconds"].is_number() {
                return Ok(said);
            }
        }
        anyhow::bail!("not yet")
    })
    .unwrap();
    let verdict = "192.0.2.53/32 is not announced: it flaps, and is announced again in N.";
    assert_eq!(paced.verdict(), verdict);
    paced.says(
        "Origin",
        "It flaps, and is announced at most once a second until it stays: again in N.",
    );
    assert_eq!(paced.json["announced"], false);
    let told = "192.0.2.53/32 is originated here (anycast of pod default/flaps) and told to tor-a.";
    await_verdict(fabric, &[ANYCAST], told);
    fabric.remove_pod(pod).unwrap();
}

/// Somebody's own route is in the way of a pod that becomes Ready.
fn refused_by_the_kernel(fabric: &Fabric) {
    let annotations = [("anycast", "192.0.2.99"), ("ready", "false")];
    let mut pod = fabric.add_pod(1, "blocked", &annotations).unwrap();
    let netns = fabric.node(1).unwrap().netns();
    netns.ip("route add 192.0.2.99/32 via 172.16.1.1 proto static").unwrap();
    fabric.set_ready(&mut pod, true).unwrap();
    let verdict = "192.0.2.99/32 is not announced: the kernel refuses its route: address 192.0.2.99 \
                   already has a route on this node.";
    let said = await_verdict(fabric, &["192.0.2.99"], verdict);
    said.says("Kernel", "Nothing is announced before its route is in the kernel.").says(
        "Kernel",
        "Packets take another program's route: 192.0.2.99/32 via 172.16.1.1 dev uplink0 (protocol 4, \
         metric 0).",
    );
    let kernel = &said.json["kernel"];
    assert_eq!(kernel["refused"], "address 192.0.2.99 already has a route on this node");
    assert!(kernel["retrySeconds"].is_number(), "{kernel}");
    assert_eq!(kernel["expected"], Value::Null);
    netns.ip("route del 192.0.2.99/32").unwrap();
    let told =
        "192.0.2.99/32 is originated here (anycast of pod default/blocked) and told to tor-a.";
    await_verdict(fabric, &["192.0.2.99"], told);
    fabric.remove_pod(pod).unwrap();
}

/// Another program's route comes before the node's own.
fn overtaken_in_the_kernel(fabric: &Fabric) {
    let netns = fabric.node(1).unwrap().netns();
    netns.ip("route add 10.244.1.0/24 via 172.16.1.1 proto static").unwrap();
    await_said(fabric, &[NETWORK4], "another's", |said| said.text.contains("another program's"))
        .says(
            "Kernel",
            "Packets take another program's route: 10.244.1.0/24 via 172.16.1.1 dev uplink0 \
             (protocol 4, metric 0).",
        );
    netns.ip("route del 10.244.1.0/24 proto static").unwrap();
}

#[test]
fn what_flaps_and_what_the_kernel_refuses() {
    let mut fabric = Fabric::builder().tor(TORS[0], Brand::Bird).nodes(1).build().unwrap();
    start(&mut fabric);
    refused_by_the_kernel(&fabric);
    overtaken_in_the_kernel(&fabric);
    flap_until_paced(&fabric);
}
