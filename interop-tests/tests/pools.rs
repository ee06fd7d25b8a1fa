//! Addresses: exhaustion in words that help, cool-down, foreign routes, two ids of one hash, and
//! five hundred pods by thirty-two callers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use anyhow::ensure;
use rack::facts;
use rack::manifests;
use rack::netns::Netns;
use rack::node::{Node, POD_CIDR6};
use rack::pod::{Pod, addresses};
use rack::probe::ping;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

fn node_with(cidr6: &[&str], cidr4: &[&str]) -> Node {
    let mut node = Node::new().unwrap();
    node.configure(&manifests::node_config(node.name(), cidr6, cidr4)).unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
    node
}

fn four(result: &Value) -> String {
    let list = addresses(result).unwrap();
    list.into_iter().find(IpAddr::is_ipv4).unwrap().to_string()
}

#[test]
fn an_exhausted_pool_says_so_with_pool_size_and_holders() {
    // 8 addresses less network, first host and broadcast.
    let node = node_with(&[], &["10.9.9.0/29"]);
    let plugin = node.plugin().unwrap();
    let pods: Vec<Pod> = (0..5).map(|n| Pod::new(&format!("p{n}")).unwrap()).collect();
    let results: Vec<Value> = pods.iter().map(|pod| plugin.add(pod).unwrap()).collect();
    let got: Vec<String> = results.iter().map(four).collect();
    assert_eq!(got, ["10.9.9.2", "10.9.9.3", "10.9.9.4", "10.9.9.5", "10.9.9.6"]);
    let late = Pod::new("late").unwrap();
    let refusal = plugin.try_add(&late).unwrap().unwrap_err();
    for word in ["10.9.9.0/29", "5 usable", "5 pods"] {
        assert!(refusal.msg.contains(word), "{word}: {refusal}");
    }
    assert_eq!(refusal.code, 11, "{refusal}");
    plugin.del(&pods[3]).unwrap();
    let link = results[3]["interfaces"][0]["name"].as_str().unwrap();
    until("the link to be gone", PATIENCE, || {
        ensure!(facts::interface(node.netns(), link).is_err(), "{link} is still there");
        Ok(())
    })
    .unwrap();
    assert_eq!(four(&plugin.add(&late).unwrap()), "10.9.9.5", "a released one, rather than none");
}

#[test]
fn a_released_address_cools_down() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let mut seen = BTreeSet::new();
    for n in 0..5 {
        let pod = Pod::new(&format!("p{n}")).unwrap();
        assert!(
            seen.insert(four(&plugin.add(&pod).unwrap())),
            "handed out again at once: {seen:?}"
        );
        plugin.del(&pod).unwrap();
        node.await_no_leftovers().unwrap();
    }
}

#[test]
fn an_address_that_the_kernel_already_routes_is_never_handed_out() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    node.netns().ip("route add 10.244.1.2/32 dev uplink0").unwrap();
    node.netns().ip("addr add 10.244.1.3/32 dev lo").unwrap();
    let pod = Pod::new("pod").unwrap();
    assert_eq!(four(&plugin.add(&pod).unwrap()), "10.244.1.4");
    let routes = node.netns().ip("route show 10.244.1.2").unwrap();
    assert!(routes.contains("uplink0"), "the foreign route is as it was: {routes}");
}

/// FNV-1a, 32 bits, written from its definition.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[test]
fn two_containers_whose_ids_hash_alike_both_work() {
    let mut seen = HashMap::new();
    let (one, other) = (0_u32..)
        .find_map(|n| {
            let id = format!("container-{n}");
            seen.insert(fnv1a(&id), id.clone()).map(|earlier| (earlier, id))
        })
        .unwrap();
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let mut pods = [Pod::new("one").unwrap(), Pod::new("other").unwrap()];
    pods[0].container_id = one;
    pods[1].container_id = other;
    let results: Vec<Value> = pods.iter().map(|pod| plugin.add(pod).unwrap()).collect();
    let names: Vec<&Value> =
        results.iter().map(|result| &result["interfaces"][0]["name"]).collect();
    assert_ne!(names[0], names[1]);
    assert_eq!(*names[0], format!("flock{:08x}", fnv1a(&pods[0].container_id)));
    for result in &results {
        for address in addresses(result).unwrap() {
            ping(node.netns(), address).unwrap();
            ping(&pods[0].netns, address).unwrap();
        }
    }
    plugin.del(&pods[0]).unwrap();
    plugin.check(&pods[1], &results[1]).unwrap().unwrap();
    plugin.del(&pods[1]).unwrap();
    node.await_no_leftovers().unwrap();
}

#[test]
fn a_foreign_interface_of_our_name_is_left_alone() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("pod").unwrap();
    let taken = format!("flock{:08x}", fnv1a(&pod.container_id));
    node.netns().ip(&format!("link add {taken} type veth peer name foreign0")).unwrap();
    let result = plugin.add(&pod).unwrap();
    assert_ne!(result["interfaces"][0]["name"], taken);
    for address in addresses(&result).unwrap() {
        ping(node.netns(), address).unwrap();
    }
    plugin.del(&pod).unwrap();
    facts::interface(node.netns(), &taken).unwrap();
}

#[test]
fn five_hundred_pods_by_thirty_two_callers() {
    let node = node_with(&[POD_CIDR6], &["10.244.0.0/20"]);
    let all = Netns::many("p", 500).unwrap();
    let pods: Vec<Pod> = all
        .into_iter()
        .enumerate()
        .map(|(n, netns)| Pod::in_netns(&format!("p{n}"), netns))
        .collect();
    let by_callers = |act: &(dyn Fn(&Pod) + Sync)| {
        std::thread::scope(|scope| {
            for chunk in pods.chunks(pods.len().div_ceil(32)) {
                scope.spawn(move || chunk.iter().for_each(act));
            }
        });
    };
    by_callers(&|pod| {
        node.plugin().unwrap().add(pod).unwrap();
    });

    let recorded = node.allocations().unwrap();
    assert_eq!(recorded.len(), pods.len());
    let mut holders: BTreeMap<String, String> = BTreeMap::new();
    for (id, entry) in &recorded {
        assert_eq!(entry["state"], "committed", "{entry}");
        for family in ["ip6", "ip4"] {
            let address = entry[family].as_str().unwrap().to_owned();
            let before = holders.insert(address, entry["host_ifname"].as_str().unwrap().to_owned());
            assert_eq!(before, None, "{id}: {family} is held twice");
        }
    }
    let mut routed: BTreeMap<String, String> = BTreeMap::new();
    for route in facts::routes(node.netns()).unwrap() {
        let [device] = &route.devices[..] else { continue };
        let of_the_link = ["fe80", "ff00", "169.254"];
        let is_pods = !of_the_link.iter().any(|start| route.destination.starts_with(start));
        if facts::is_pod_interface(device) && route.kind == "unicast" && is_pods {
            routed.insert(route.destination.clone(), device.clone());
        }
    }
    assert_eq!(routed, holders, "the store and the kernel agree");

    by_callers(&|pod| {
        node.plugin().unwrap().del(pod).unwrap();
    });
    node.await_no_leftovers().unwrap();
    Netns::delete_all(pods.into_iter().map(|pod| pod.netns).collect()).unwrap();
}
