//! Sessions, and a rack that is well.

use std::net::TcpListener;

use rack::fabric::Fabric;
use rack::manifests::node_config;
use rack::node::{Node, OUTSIDE_V4, POD_CIDR4, POD_CIDR6};
use rack::router::Brand;
use serde_json::{Value, json};

use super::scene::{await_found, await_well};

fn with_peer(node: &Node, more: &Value) -> Value {
    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    let mut peer = json!({ "name": "tor", "address": OUTSIDE_V4, "asn": 65000 });
    for (key, value) in more.as_object().unwrap() {
        peer[key] = value.clone();
    }
    config["spec"]["bgp"]["peers"] = json!([peer]);
    config
}

#[test]
fn a_rack_that_is_well_has_nothing_to_hear() {
    let builder = Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Frr);
    let mut fabric = builder.nodes(2).build().unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    let _plain = fabric.add_pod(1, "web", &[]).unwrap();
    let _shared = [1, 2].map(|node| {
        fabric.add_pod(node, "dns", &[("anycast", "192.0.2.53,2001:db8:53::53")]).unwrap()
    });
    for node in [1, 2] {
        await_well(fabric.node(node).unwrap());
    }
    let shown = fabric.node(1).unwrap().cli(&["check"]).unwrap();
    assert!(shown.starts_with("CHECK") && shown.contains("checks are well."), "{shown}");
    assert!(shown.contains("BGP peer") && shown.contains("all 2"), "{shown}");
    let wide = fabric.node(1).unwrap().cli(&["check", "-o", "wide"]).unwrap();
    assert!(wide.contains("tor-a: Established") && wide.contains("tor-b: Established"), "{wide}");

    // One session of two: worth a look. The peer's own words are there.
    let node = fabric.node(1).unwrap();
    let address = fabric.session_addresses(1, "tor-a").unwrap()[0];
    fabric.tor("tor-a").unwrap().router.shutdown(address, "new optics").unwrap();
    await_found(node, "BGP peer", "warn", "new optics", "somebody shut it down at tor-a");
    node.cli(&["drain", "--wait", "0s"]).unwrap();
    await_found(node, "drain", "warn", "not in service", "drain --undo");
    await_found(node, "BGP peer", "warn", "tor-b: Idle, because the node is drained", "--undo");
}

#[test]
fn a_wish_that_waits_for_the_next_session_and_a_route_that_is_another_programs() {
    let mut fabric = Fabric::builder().tor("tor-a", Brand::Bird).nodes(1).build().unwrap();
    let netns = fabric.node(1).unwrap().netns();
    netns.ip("route add blackhole default metric 32 proto static").unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    let node = fabric.node(1).unwrap();
    await_found(node, "learned routes", "fail", "0.0.0.0/0", "do what the message says");
    node.netns().ip("route del default metric 32 proto static").unwrap();
    await_well(node);
    let peer = fabric.node_config_mut(1).unwrap().pointer_mut("/spec/bgp/peers/0").unwrap();
    peer["holdTime"] = json!("77s");
    fabric.configure(1).unwrap();
    let node = fabric.node(1).unwrap();
    await_found(node, "BGP peer", "warn", "waits for the next session", "bgp reset tor-a");
}

#[test]
fn sessions_that_do_not_come() {
    let node = Node::running().unwrap();
    let told = |peer: &Value, message: &str, remedy: &str| {
        node.configure(&with_peer(&node, peer)).unwrap();
        await_found(&node, "BGP peer", "fail", message, remedy);
    };
    told(&json!({}), "Connection refused", "start BGP at 198.51.100.1");
    told(&json!({ "localAddress": "192.0.2.99" }), "Cannot assign", "not an address of this node");
    node.outside().unwrap().exec("nft", &["add", "table", "inet", "deaf"]).unwrap();
    let chain = "{ type filter hook input priority 0; policy drop; }";
    node.outside().unwrap().exec("nft", &["add", "chain", "inet", "deaf", "in", chain]).unwrap();
    told(&json!({ "connectRetry": "1s" }), "no answer", "ping");
    node.outside().unwrap().exec("nft", &["delete", "table", "inet", "deaf"]).unwrap();
    told(&json!({ "address": "203.0.113.77" }), "tor: ", "203.0.113.77");
    let unnumbered = json!({ "address": null, "interface": "uplink0" });
    node.configure(&with_peer(&node, &unnumbered)).unwrap();
    await_found(&node, "BGP peer", "warn", "unnumbered", "write it otherwise");
    let bfd = json!({ "bfd": { "enabled": true } });
    node.configure(&with_peer(&node, &bfd)).unwrap();
    await_found(&node, "NodeConfig", "warn", "bfd of the peer tor", "holdTime");
}

#[test]
fn a_peer_of_another_as_number() {
    let mut fabric = Fabric::builder().tor("tor-a", Brand::Bird).nodes(1).build().unwrap();
    let peer = fabric.node_config_mut(1).unwrap().pointer_mut("/spec/bgp/peers/0").unwrap();
    peer["asn"] = json!(64_999);
    fabric.configure(1).unwrap();
    fabric.start().unwrap();
    let node = fabric.node(1).unwrap();
    await_found(node, "BGP peer", "fail", "Bad Peer AS", "AS number");
}

#[test]
fn a_port_that_somebody_else_has() {
    let mut node = Node::new().unwrap();
    let taken: [TcpListener; 2] = node
        .netns()
        .within(|| {
            let six = TcpListener::bind("[::]:0")?;
            let port = six.local_addr()?.port();
            // Of both families already, where the kernel makes it so.
            let four = TcpListener::bind(("0.0.0.0", port)).or_else(|_| six.try_clone())?;
            Ok([six, four])
        })
        .unwrap();
    let port = taken[0].local_addr().unwrap().port();
    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    config["spec"]["bgp"]["listenPort"] = json!(port);
    node.configure(&config).unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
    let found = format!("port {port} cannot be listened on");
    await_found(&node, "BGP listener", "warn", &found, "stop whatever has port");
}
