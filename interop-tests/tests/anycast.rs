//! Anycast on one node: the host route follows readiness, two ready pods are one multipath route,
//! and a withdrawn route lingers while its pod is there.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use anyhow::{Result, ensure};
use rack::facts;
use rack::manifests::{self, Writing};
use rack::node::Node;
use rack::pod::Pod;
use rack::probe::ping;
use rack::wait::{PATIENCE, until};
use serde_json::json;

const SIX: &str = "2001:db8:cafe::1";
const FOUR: &str = "192.0.2.1";

fn declare(node: &Node, name: &str, ready: bool) {
    let annotations = [
        ("anycast", "2001:db8:cafe::1,192.0.2.1"),
        ("ready", if ready { "true" } else { "false" }),
    ];
    node.write_pod(&manifests::pod("default", name, &annotations), Writing::Renamed).unwrap();
}

/// How many ways the node has to an address.
fn hops(node: &Node, address: &str) -> Result<usize> {
    let routes = facts::routes(node.netns())?;
    let route = routes.iter().find(|route| route.destination == address);
    Ok(route.map_or(0, |route| route.devices.len()))
}

fn await_hops(node: &Node, expected: usize) {
    until(&format!("{expected} next hop(s)"), PATIENCE, || {
        for address in [SIX, FOUR] {
            let found = hops(node, address)?;
            ensure!(found == expected, "{address} has {found}");
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_route_follows_readiness_and_several_pods_share_it() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pods = ["a", "b", "c"].map(|name| {
        declare(&node, name, true);
        Pod::new(name).unwrap()
    });
    plugin.add(&pods[0]).unwrap();
    // In the kernel before ADD answers.
    assert_eq!((hops(&node, SIX).unwrap(), hops(&node, FOUR).unwrap()), (1, 1));
    plugin.add(&pods[1]).unwrap();
    plugin.add(&pods[2]).unwrap();
    assert_eq!((hops(&node, SIX).unwrap(), hops(&node, FOUR).unwrap()), (3, 3));
    for address in [SIX, FOUR] {
        ping(node.outside().unwrap(), address.parse().unwrap()).unwrap_err();
        ping(node.netns(), address.parse().unwrap()).unwrap();
    }
    declare(&node, "a", false);
    await_hops(&node, 2);
    declare(&node, "a", true);
    await_hops(&node, 3);
    plugin.del(&pods[1]).unwrap();
    assert_eq!((hops(&node, SIX).unwrap(), hops(&node, FOUR).unwrap()), (2, 2));
    plugin.del(&pods[2]).unwrap();
    plugin.del(&pods[0]).unwrap();
    assert_eq!(
        (hops(&node, SIX).unwrap(), hops(&node, FOUR).unwrap()),
        (0, 0),
        "a detached pod's route does not linger"
    );
    node.await_no_leftovers().unwrap();
}

#[test]
fn a_withdrawn_route_lingers_and_then_goes() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    declare(&node, "a", true);
    let pod = Pod::new("a").unwrap();
    plugin.add(&pod).unwrap();
    declare(&node, "a", false);
    until("the change to be seen", PATIENCE, || {
        let shown = node.cli_json(&["pods"])?;
        ensure!(shown["pods"][0]["ready"] == json!(false), "{shown}");
        Ok(())
    })
    .unwrap();
    assert_eq!(hops(&node, SIX).unwrap(), 1, "packets on their way are still delivered");
    ping(node.netns(), FOUR.parse().unwrap()).unwrap();
    await_hops(&node, 0);
    declare(&node, "a", true);
    await_hops(&node, 1);
    let mut leaving = manifests::pod("default", "a", &[("anycast", "2001:db8:cafe::1,192.0.2.1")]);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    node.write_pod(&leaving, Writing::InPlace).unwrap();
    await_hops(&node, 0);
}

#[test]
fn a_pod_that_is_not_ready_gets_no_route_and_a_restart_changes_nothing() {
    let mut node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    declare(&node, "a", false);
    declare(&node, "b", true);
    let pods = ["a", "b"].map(|name| Pod::new(name).unwrap());
    for pod in &pods {
        plugin.add(pod).unwrap();
    }
    assert_eq!(hops(&node, SIX).unwrap(), 1);
    let before = node.netns().ip("-6 route show").unwrap();
    node.restart_with(&[]).unwrap();
    assert_eq!(node.netns().ip("-6 route show").unwrap(), before);
    node.kill().unwrap();
    declare(&node, "b", false);
    node.start().unwrap();
    node.await_ready().unwrap();
    await_hops(&node, 0);
}

#[test]
fn a_pod_that_died_without_del_does_not_take_the_address_from_the_others() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let [dies, lives, comes] = ["a", "b", "c"].map(|name| {
        declare(&node, name, true);
        Pod::new(name).unwrap()
    });
    plugin.add(&dies).unwrap();
    plugin.add(&lives).unwrap();
    drop(dies.netns);
    await_hops(&node, 1);
    ping(node.netns(), SIX.parse().unwrap()).unwrap();
    plugin.add(&comes).unwrap();
    assert_eq!((hops(&node, SIX).unwrap(), hops(&node, FOUR).unwrap()), (2, 2));
    until("the dead pod to be shown as such", PATIENCE, || {
        let shown = node.cli_json(&["pods"])?;
        let rows = shown["pods"].as_array().cloned().unwrap_or_default();
        let dead = rows.iter().find(|row| row["name"] == "a");
        ensure!(dead.is_some_and(|row| row["ready"] == json!(false)), "{shown}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_address_is_either_a_pods_own_or_anycast() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let victim = Pod::new("victim").unwrap();
    let own = rack::pod::addresses(&plugin.add(&victim).unwrap()).unwrap();
    for address in own {
        let wish = address.to_string();
        let manifest = manifests::pod("default", "thief", &[("anycast", &wish)]);
        node.write_pod(&manifest, Writing::Renamed).unwrap();
        let refusal = plugin.try_add(&Pod::new("thief").unwrap()).unwrap().unwrap_err();
        assert!(refusal.msg.contains(&wish), "{refusal}");
        ping(node.netns(), address).unwrap();
    }
    // And the other way round: the pool does not hand out what is anycast.
    let manifest =
        manifests::pod("default", "shared", &[("anycast", "10.244.1.3"), ("ready", "false")]);
    node.write_pod(&manifest, Writing::Renamed).unwrap();
    plugin.add(&Pod::new("shared").unwrap()).unwrap();
    let next = rack::pod::addresses(&plugin.add(&Pod::new("next").unwrap()).unwrap()).unwrap();
    assert!(next.iter().all(|address| address.to_string() != "10.244.1.3"), "{next:?}");
}

#[test]
fn neither_the_node_nor_its_neighbours_can_be_made_anycast() {
    use rack::node::{NODE_V4, NODE_V6, OUTSIDE_V4, OUTSIDE_V6};
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let routes =
        || ["-4", "-6"].map(|family| node.netns().ip(&format!("{family} route show")).unwrap());
    let before = routes();
    for address in [NODE_V4, NODE_V6, OUTSIDE_V4, OUTSIDE_V6] {
        let manifest = manifests::pod("default", "thief", &[("anycast", address)]);
        node.write_pod(&manifest, Writing::Renamed).unwrap();
        let refusal = plugin.try_add(&Pod::new("thief").unwrap()).unwrap().unwrap_err();
        assert!(refusal.msg.contains("/anycast") && refusal.msg.contains(address), "{refusal}");
        node.await_no_leftovers().unwrap();
    }
    assert_eq!(routes(), before, "what the node sends to its router goes to its router");
}

#[test]
fn the_first_packet_from_an_anycast_source_leaves_at_once() {
    let node = Node::running().unwrap();
    declare(&node, "a", true);
    let pod = Pod::new("a").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    for (source, target) in [(SIX, rack::node::NODE_V6), (FOUR, rack::node::NODE_V4)] {
        pod.netns.exec("ping", &["-n", "-c", "1", "-W", "2", "-I", source, target]).unwrap();
        let beyond = if source == SIX { rack::node::OUTSIDE_V6 } else { rack::node::OUTSIDE_V4 };
        node.outside().unwrap().ip(&format!("route add {source} via {target}")).unwrap();
        pod.netns
            .exec("ping", &["-n", "-c", "3", "-i", "0.2", "-W", "2", "-I", source, beyond])
            .unwrap();
    }
}
