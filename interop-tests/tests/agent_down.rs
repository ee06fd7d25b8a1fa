//! The agent away: pods keep their network, an ADD says "later", a DEL succeeds
//! and is carried out when the agent is back.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;

use rack::node::{NODE_V4, NODE_V6, Node};
use rack::plugin::{Call, Plugin};
use rack::pod::{Pod, addresses};
use rack::probe;
use serde_json::Value;

/// "Try again later" in the CNI specification.
const LATER: u64 = 11;

fn talks(node: &Node, pod: &Pod, result: &Value) {
    for address in addresses(result).unwrap() {
        probe::await_ping(node.netns(), address).unwrap();
    }
    for target in [NODE_V4, NODE_V6] {
        probe::await_ping(&pod.netns, target.parse().unwrap()).unwrap();
    }
}

#[test]
fn version_needs_no_agent() {
    let node = Node::new().unwrap();
    let plugin = Plugin::new(node.netns(), &node.flock_network()).unwrap();
    let call = Call { command: "VERSION".to_owned(), ..Call::default() };
    let answer = plugin.call(&call, &plugin.input()).unwrap().unwrap();
    let supported = answer.get("supportedVersions").and_then(Value::as_array).unwrap();
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        assert!(supported.iter().any(|there| there == version), "{version}: {answer}");
    }
}

#[test]
fn without_an_agent_an_add_is_for_later_and_a_del_succeeds() {
    let node = Node::new().unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("pod").unwrap();
    let refusal = plugin.try_add(&pod).unwrap().unwrap_err();
    assert_eq!(refusal.code, LATER, "{refusal}");
    assert!(plugin.status().unwrap().unwrap_err().code >= 50);
    plugin.del(&pod).unwrap();
    plugin.del(&pod).unwrap();
}

#[test]
fn a_del_while_the_agent_is_down_is_carried_out_later() {
    let mut node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let (goes, stays) = (Pod::new("goes").unwrap(), Pod::new("stays").unwrap());
    plugin.add(&goes).unwrap();
    let result = plugin.add(&stays).unwrap();

    node.kill().unwrap();
    plugin.del(&goes).unwrap();
    let waiting = fs::read_dir(node.spool()).unwrap().count();
    assert!(waiting > 0, "nothing is in the spool");
    talks(&node, &stays, &result);

    node.start().unwrap();
    node.await_ready().unwrap();
    let known = node.allocations().unwrap();
    assert!(known.contains_key(&stays.container_id), "{known:?}");
    assert!(!known.contains_key(&goes.container_id), "{known:?}");
    talks(&node, &stays, &result);
    plugin.del(&stays).unwrap();
    node.await_no_leftovers().unwrap();
}

#[test]
fn neither_a_crash_nor_a_restart_disturbs_a_pod() {
    let mut node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("pod").unwrap();
    let first = plugin.add(&pod).unwrap();
    let shown = node.cli_json(&["pods"]).unwrap();

    let stops: [fn(&mut Node) -> anyhow::Result<()>; 2] = [Node::kill, Node::terminate];
    for stop in stops {
        stop(&mut node).unwrap();
        talks(&node, &pod, &first);
        node.start().unwrap();
        node.await_ready().unwrap();
        talks(&node, &pod, &first);
        plugin.check(&pod, &first).unwrap().unwrap();
        assert_eq!(plugin.add(&pod).unwrap(), first, "the same answer again");
        assert_eq!(node.cli_json(&["pods"]).unwrap(), shown);
    }
    plugin.del(&pod).unwrap();
    node.await_no_leftovers().unwrap();
}
