//! A node that ran the Go agent: its state file and its living pods are taken over as they are.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;

use anyhow::ensure;
use rack::node::Node;
use rack::pod::{Pod, addresses};
use rack::probe::ping;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

/// Keeps of an entry what the Go agent would have written.
fn as_go_wrote(entry: &Value) -> Value {
    let keys = [
        "container_id",
        "namespace",
        "pod_name",
        "owner_uid",
        "ip6",
        "ip4",
        "anycast",
        "addresses",
        "state",
        "allocated_at",
    ];
    let kept = keys.iter().filter_map(|key| Some(((*key).to_owned(), entry.get(*key)?.clone())));
    Value::Object(kept.collect())
}

#[test]
fn living_pods_of_the_go_agent_go_on_untouched() {
    let mut node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pods = [Pod::new("one").unwrap(), Pod::new("two").unwrap()];
    let results = pods.each_ref().map(|pod| plugin.add(pod).unwrap());
    node.kill().unwrap();
    let file = node.state_dir().join("allocations.json");
    let mut state: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let mut list: Vec<Value> =
        state["allocations"].as_array().unwrap().iter().map(as_go_wrote).collect();
    list.push(json!({
        "container_id": "crashed", "namespace": "default", "pod_name": "crashed", "owner_uid": "u",
        "ip4": "10.244.1.99", "state": "pending", "allocated_at": "2026-01-02T03:04:05.123456789+02:00",
    }));
    state["allocations"] = list.into();
    fs::write(&file, serde_json::to_vec_pretty(&state).unwrap()).unwrap();
    let links = node.netns().ip("-o link show").unwrap();

    node.start().unwrap();
    node.await_ready().unwrap();
    assert_eq!(node.netns().ip("-o link show").unwrap(), links, "no link was made anew");
    let known = node.allocations().unwrap();
    assert!(!known.contains_key("crashed"), "an ADD that never ended is undone: {known:?}");
    for (pod, result) in pods.iter().zip(&results) {
        plugin.check(pod, result).unwrap().unwrap();
        for address in addresses(result).unwrap() {
            ping(node.netns(), address).unwrap();
        }
    }
    let third = Pod::new("three").unwrap();
    let fresh = addresses(&plugin.add(&third).unwrap()).unwrap();
    for result in &results {
        assert!(addresses(result).unwrap().iter().all(|address| !fresh.contains(address)));
    }
    for pod in pods.iter().chain([&third]) {
        plugin.del(pod).unwrap();
    }
    node.await_no_leftovers().unwrap();
}

#[test]
fn an_entry_without_a_link_is_wired_anew_by_its_next_add() {
    let mut node = Node::new().unwrap();
    let pod = Pod::new("pod").unwrap();
    let state = json!({ "version": 1, "node": node.name(), "allocations": [{
        "container_id": pod.container_id, "namespace": "default", "pod_name": "pod",
        "owner_uid": "u", "ip6": "2001:db8:a::ab", "ip4": "10.244.1.51", "state": "committed",
        "allocated_at": "2026-01-02T03:04:05Z",
    }] });
    fs::write(node.state_dir().join("allocations.json"), state.to_string()).unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
    let shown = node.cli_json(&["pods"]).unwrap();
    assert_eq!(shown["pods"][0]["ready"], json!(false), "{shown}");
    let plugin = node.plugin().unwrap();
    let result = plugin.add(&pod).unwrap();
    for address in addresses(&result).unwrap() {
        ping(node.netns(), address).unwrap();
    }
    plugin.check(&pod, &result).unwrap().unwrap();
    plugin.del(&pod).unwrap();
    node.await_no_leftovers().unwrap();
}

#[test]
fn after_a_lost_state_file_living_pods_keep_their_addresses() {
    let mut node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pods: Vec<Pod> = (0..20).map(|n| Pod::new(&format!("p{n}")).unwrap()).collect();
    let held: Vec<_> =
        pods.iter().flat_map(|pod| addresses(&plugin.add(pod).unwrap()).unwrap()).collect();
    node.kill().unwrap();
    fs::remove_file(node.state_dir().join("allocations.json")).unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
    let next = Pod::new("next").unwrap();
    let fresh = addresses(&plugin.add(&next).unwrap()).unwrap();
    assert!(fresh.iter().all(|address| !held.contains(address)), "{fresh:?}");
    for address in held {
        ping(node.netns(), address).unwrap();
    }
}

#[test]
fn without_a_nodeconfig_a_restart_keeps_its_pods() {
    let mut node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("pod").unwrap();
    let result = plugin.add(&pod).unwrap();
    let routes = node.netns().ip("route show").unwrap();
    node.kill().unwrap();
    fs::remove_file(node.file("standalone/nodeconfig.yaml")).unwrap();
    node.start().unwrap();
    until("the admin socket", PATIENCE, || {
        let shown = node.cli_json(&["pods"])?;
        ensure!(shown["pods"][0]["ready"] == json!(true), "{shown}");
        Ok(())
    })
    .unwrap();
    assert!(!node.socket().exists(), "no call can be served yet");
    for address in addresses(&result).unwrap() {
        ping(node.netns(), address).unwrap();
    }
    assert_eq!(node.netns().ip("route show").unwrap(), routes);
}
