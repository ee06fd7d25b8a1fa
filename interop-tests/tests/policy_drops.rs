//! What policies drop is counted, by pod and direction, and logged where the NodeConfig wants it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::net::IpAddr;

use anyhow::ensure;
use rack::manifests::{Writing, node_config};
use rack::node::{Node, POD_CIDR4, POD_CIDR6};
use rack::pod::{Pod, addresses};
use rack::probe::{await_ping, ping};
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

const LOGGED: &str = "a network policy dropped a packet";

fn shown(node: &Node, pod: &str) -> Value {
    let said = node.cli(&["policy", "show", pod, "-o", "json"]).unwrap();
    serde_json::from_str::<Value>(&said).unwrap()["pods"][0].clone()
}

#[test]
fn drops_are_counted_and_logged_where_that_is_wanted() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pods = ["open", "shut"].map(|name| Pod::new(name).unwrap());
    let [from, to] = pods.each_ref().map(|pod| addresses(&plugin.add(pod).unwrap()).unwrap());
    let address: IpAddr = to[0];
    await_ping(&pods[0].netns, address).unwrap();
    std::fs::create_dir_all(node.file("standalone/networkpolicies")).unwrap();
    let deny = json!({
        "metadata": {"name": "deny"},
        "spec": {
            "podSelector": {"matchExpressions": [{"key": "open", "operator": "DoesNotExist"}]},
            "policyTypes": ["Ingress"],
        },
    });
    let labelled = json!({"metadata": {"name": "open", "labels": {"open": ""}}});
    node.write_pod(&labelled, Writing::Renamed).unwrap();
    node.write("networkpolicies/deny.yaml", &deny.to_string(), Writing::Renamed).unwrap();
    until("a drop to be counted", PATIENCE, || {
        let _ = ping(&pods[0].netns, address);
        let pod = shown(&node, "shut");
        ensure!(pod["ingress"]["droppedPackets"].as_u64() > Some(0), "{pod}");
        ensure!(
            pod["egress"]["droppedPackets"] == 0 && pod["egress"]["isolated"] == false,
            "{pod}"
        );
        Ok(())
    })
    .unwrap();
    assert_eq!(shown(&node, "open")["ingress"]["isolated"], false);
    assert!(!node.log().unwrap().contains(LOGGED), "nobody asked for it");

    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    config["spec"]["networkPolicy"] = json!({"logDrops": true});
    node.configure(&config).unwrap();
    until("a drop in the log", PATIENCE, || {
        let _ = ping(&pods[0].netns, address);
        let log = node.log()?;
        let line = log.lines().find(|line| line.contains(LOGGED)).unwrap_or_default();
        let source = from.iter().find(|from| from.is_ipv4() == address.is_ipv4()).unwrap();
        for words in ["default/shut", "ingress", &source.to_string(), &address.to_string()] {
            ensure!(line.contains(words), "no {words}: {line}");
        }
        Ok(())
    })
    .unwrap();
    // What is in the way of people is taken away with the last policy.
    std::fs::remove_file(node.file("standalone/networkpolicies/deny.yaml")).unwrap();
    await_ping(&pods[0].netns, address).unwrap();
    assert!(node.findings("network policy").unwrap()[0]["message"] != "", "it has its say");
}
