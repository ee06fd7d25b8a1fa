//! Real podman with its CNI backend as the client.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::net::IpAddr;

use rack::node::{NODE_V4, NODE_V6, Node};
use rack::podman::{Container, Podman};
use rack::recorder::Recorder;
use rack::{facts, probe};

/// What is bound inside is what podman shows, and it can be reached both ways.
fn is_connected(node: &Node, container: &Container<'_>) -> Vec<IpAddr> {
    let addresses = container.addresses().unwrap();
    let netns = container.netns().unwrap();
    let bound = facts::global_addresses(&netns, "eth0").unwrap();
    let inside = container.exec(&["ip", "-j", "address", "show", "dev", "eth0"]).unwrap();
    for address in &addresses {
        assert!(bound.iter().any(|(there, _)| there == address), "{address} not in {bound:?}");
        assert!(inside.contains(&format!("\"{address}\"")), "{address} not in {inside}");
        probe::await_ping(node.netns(), *address).unwrap();
    }
    for target in [NODE_V4, NODE_V6] {
        probe::await_ping(&netns, target.parse().unwrap()).unwrap();
    }
    addresses
}

#[test]
fn containers_get_addresses_talk_and_leave_nothing() {
    let node = Node::running().unwrap();
    let network = node.flock_network();
    let bin = node.install_plugins().unwrap();
    let recorder = Recorder::wrap(&bin.join("flock")).unwrap();
    let podman = Podman::new(&node, &bin, &network.conflist("rack", &[])).unwrap();

    let one = podman.start().unwrap();
    let other = podman.start().unwrap();
    is_connected(&node, &one);
    let (from, addresses) = (one.netns().unwrap(), is_connected(&node, &other));
    for address in addresses {
        probe::await_ping(&from, address).unwrap();
    }

    let added = recorder.calls("ADD").unwrap();
    assert_eq!(added.len(), 2);
    assert!(added.iter().any(|call| call.container_id == one.id().unwrap()));

    one.remove().unwrap();
    other.remove().unwrap();
    assert_eq!(recorder.calls("DEL").unwrap().len(), 2);
    node.await_no_leftovers().unwrap();
}
