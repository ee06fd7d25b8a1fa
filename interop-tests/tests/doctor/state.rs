//! Book, kernel and source that do not agree.

use std::fs;

use rack::manifests::{self, Writing};
use rack::node::Node;
use rack::pod::Pod;
use serde_json::{Value, json};

use super::scene::{await_found, await_well};

/// The host's end of the only pod's link.
fn link(node: &Node) -> String {
    let shown = node.cli_json(&["pods"]).unwrap();
    shown["pods"][0]["hostInterface"].as_str().unwrap().to_owned()
}

/// A kernel that takes no routes of the node, however often it is asked.
fn no_routes() -> String {
    let each: Vec<String> = (1..=300).map(|n| format!("set-route.before=error@{n}")).collect();
    each.join(",")
}

#[test]
fn what_no_entry_knows() {
    let node = Node::running().unwrap();
    let pod = Pod::new("pod").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    await_well(&node);
    node.netns().ip("link add flock0badcafe type veth peer name other").unwrap();
    await_found(&node, "links", "warn", "flock0badcafe", "ip link del");
    node.netns().ip("link del flock0badcafe").unwrap();
    await_well(&node);
    let route = format!("203.0.113.9/32 dev {}", link(&node));
    node.netns().ip(&format!("route add {route} proto 241")).unwrap();
    await_found(&node, "routes", "warn", &route, "proto 241");
    node.netns().ip(&format!("route del {route}")).unwrap();
    node.netns().ip("route add unreachable 203.0.113.0/24 metric 1000000 proto 241").unwrap();
    await_found(&node, "routes", "warn", "unreachable 203.0.113.0/24", "ip route del");
}

#[test]
fn a_pod_that_is_not_as_recorded() {
    let node = Node::running().unwrap();
    let pod = Pod::new("pod").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    let link = link(&node);
    for switch in ["forwarding", "proxy_arp"] {
        let name = format!("net/ipv4/conf/{link}/{switch}");
        node.netns().sysctls(&[(&name, "0")]).unwrap();
        await_found(&node, "pods", "fail", "default/pod: ", "agent's log");
        node.netns().sysctls(&[(&name, "1")]).unwrap();
        await_well(&node);
    }
    // Its namespace goes, and the link with it.
    drop(pod);
    await_found(&node, "pods", "warn", "default/pod", "DEL or a GC");
}

#[test]
fn routes_that_the_kernel_does_not_take() {
    let mut node = Node::new().unwrap();
    node.start_with(&[("FLOCK_FAULT", &no_routes())]).unwrap();
    node.await_ready().unwrap();
    await_found(&node, "routes", "fail", "unreachable 10.244.1.0/24", "agent's log");
}

#[test]
fn an_anycast_route_that_is_gone_and_a_manifest_that_is() {
    let mut node = Node::running().unwrap();
    let manifest = manifests::pod("default", "pod", &[("anycast", "192.0.2.53")]);
    node.write_pod(&manifest, Writing::Renamed).unwrap();
    let pod = Pod::new("pod").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    await_well(&node);
    node.remove_pod(&manifest).unwrap();
    await_found(&node, "leaks", "warn", "default/pod", "put its manifest back");
    node.write_pod(&manifest, Writing::Renamed).unwrap();
    await_well(&node);
    // A start that cannot lay it again.
    node.kill().unwrap();
    node.netns().ip("route del 192.0.2.53").unwrap();
    node.start_with(&[("FLOCK_FAULT", &no_routes())]).unwrap();
    node.await_ready().unwrap();
    await_found(&node, "routes", "fail", "192.0.2.53 via 10.244.1.", "agent's log");
}

#[test]
fn one_address_for_two() {
    let mut node = Node::new().unwrap();
    let entry = |n: u8| -> Value {
        json!({
            "container_id": format!("container-{n}"), "namespace": "shop", "pod_name": format!("web-{n}"),
            "owner_uid": "", "ip4": "10.244.1.7", "state": "committed",
            "allocated_at": "2026-02-03T04:05:06Z",
        })
    };
    let state = json!({ "version": 1, "node": node.name(), "allocations": [entry(1), entry(2)] });
    let file = node.state_dir().join("allocations.json");
    fs::write(&file, state.to_string()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&file, private).unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
    await_found(&node, "addresses", "fail", "10.244.1.7 by shop/web-1 and shop/web-2", "delete");
}

#[test]
fn pools_manifests_and_a_nodeconfig() {
    let node = Node::running().unwrap();
    node.write("pods/bad.yaml", "metadata: [", Writing::Renamed).unwrap();
    await_found(&node, "pod manifest", "warn", "pods/bad.yaml", "mend the file");
    fs::remove_file(node.file("standalone/pods/bad.yaml")).unwrap();
    let small = manifests::node_config(node.name(), &[], &["10.244.9.0/30"]);
    node.configure(&small).unwrap();
    let pod = Pod::new("pod").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    await_found(&node, "pool", "warn", "10.244.9.0/30: 1 held", "add a network");
    let mut waits = manifests::node_config(node.name(), &[], &["10.244.9.0/24"]);
    waits["spec"]["readiness"] = json!({ "sessions": 1, "timeout": "1h" });
    node.configure(&waits).unwrap();
    await_found(&node, "serving", "warn", "0 of 1 BGP sessions", "wait for it");
    await_found(&node, "NodeConfig", "warn", "there are 0 peers", "correct it");
    fs::remove_file(node.file("standalone/nodeconfig.yaml")).unwrap();
    await_found(&node, "NodeConfig", "fail", "deleted", "create it again");
}

/// Some pods come and go while the doctor looks, and it says nothing of them.
#[test]
fn pods_that_come_and_go_are_no_trouble() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let busy = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            while busy.load(std::sync::atomic::Ordering::Relaxed) {
                let pod = Pod::new("pod").unwrap();
                plugin.add(&pod).unwrap();
                plugin.del(&pod).unwrap();
            }
        });
        let looks: Vec<_> = (0..10).map(|_| super::scene::check(&node).unwrap()).collect();
        busy.store(false, std::sync::atomic::Ordering::Relaxed);
        churn.join().unwrap();
        for (_, findings) in looks {
            let bad: Vec<_> = findings.iter().filter(|one| one["status"] != "ok").collect();
            assert!(bad.is_empty(), "{bad:#?}");
        }
    });
}
