//! Switches, rules, sizes.

use rack::link::{End, connect};
use rack::manifests::node_config;
use rack::netns::Netns;
use rack::node::{Node, OUTSIDE_V4, POD_CIDR4, POD_CIDR6};
use rack::pod::Pod;
use serde_json::{Value, json};

use super::scene::{await_found, await_well};

/// A node's NodeConfig with these peers, each on a port where nobody listens.
fn with_peers(node: &Node, peers: &[(&str, &str)]) -> Value {
    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    let peer = |(name, address): &(&str, &str)| json!({ "name": name, "address": address, "asn": 65000, "passive": true });
    config["spec"]["bgp"]["peers"] = peers.iter().map(peer).collect();
    config
}

#[test]
fn switches_that_somebody_turned() {
    let node = Node::running().unwrap();
    let pod = Pod::new("pod").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    await_well(&node);
    for (name, bad, good) in [
        ("net/ipv6/conf/all/forwarding", "0", "1"),
        ("net/ipv4/ip_forward", "0", "1"),
        ("net/ipv4/fib_multipath_hash_policy", "0", "1"),
        ("net/ipv6/fib_multipath_hash_policy", "0", "1"),
        ("net/ipv6/conf/default/disable_ipv6", "1", "0"),
    ] {
        let dotted = name.replace('/', ".");
        node.netns().sysctls(&[(name, bad)]).unwrap();
        let (found, mend) = (format!("{dotted} = {bad}"), format!("{dotted}={good}"));
        await_found(&node, "sysctl", "fail", &found, &mend);
        node.netns().sysctls(&[(name, good)]).unwrap();
        if name.ends_with("forward") || name.ends_with("forwarding") {
            // The kernel turned that of every interface with it, and the pod's is not our own any
            // more; the other direction does the same.
            node.netns().sysctls(&[("net/ipv4/conf/all/forwarding", "1")]).unwrap();
        }
        await_well(&node);
    }
}

#[test]
fn a_default_route_by_advertisement_that_would_run_out() {
    let node = Node::running().unwrap();
    node.netns().ip("-6 route add default via fe80::9 dev uplink0 proto ra metric 1").unwrap();
    node.netns().sysctls(&[("net/ipv6/conf/uplink0/accept_ra", "1")]).unwrap();
    let name = "net.ipv6.conf.uplink0.accept_ra";
    await_found(&node, "sysctl", "fail", &format!("{name} = 1"), &format!("{name}=2"));
    node.netns().sysctls(&[("net/ipv6/conf/uplink0/accept_ra", "2")]).unwrap();
    await_well(&node);
}

#[test]
fn a_strict_filter_on_one_of_two_uplinks() {
    let node = Node::running().unwrap();
    let far = Netns::new("far").unwrap();
    let near = End { netns: node.netns(), ifname: "uplink1", addresses: &["203.0.113.2/24"] };
    connect(near, End { netns: &far, ifname: "node", addresses: &["203.0.113.1/24"] }).unwrap();
    let strict = [("net/ipv4/conf/uplink0/rp_filter", "1")];
    node.netns().sysctls(&strict).unwrap();
    let quiet = "no word from it yet";
    node.configure(&with_peers(&node, &[("tor-a", OUTSIDE_V4)])).unwrap();
    await_found(&node, "BGP peer", "warn", quiet, "wait");
    let (_, findings) = super::scene::check(&node).unwrap();
    let told = findings.iter().any(|one| one["check"] == "sysctl" && one["status"] != "ok");
    assert!(!told, "with one uplink there is no other way back: {findings:#?}");
    node.configure(&with_peers(&node, &[("tor-a", OUTSIDE_V4), ("tor-b", "203.0.113.1")])).unwrap();
    let name = "net.ipv4.conf.uplink0.rp_filter";
    await_found(&node, "sysctl", "warn", &format!("{name} = 1"), &format!("{name}=2"));
}

#[test]
fn rules_that_somebody_changed() {
    let node = Node::running().unwrap();
    await_well(&node);
    node.netns().exec("nft", &["add", "rule", "inet", "flock", "forged", "counter"]).unwrap();
    await_found(&node, "anti-spoofing", "fail", "missing or changed", "inet flock alone");
}

#[test]
fn packets_that_do_not_fit() {
    let node = Node::running().unwrap();
    let mut config = with_peers(&node, &[]);
    config["spec"]["mtu"] = json!(9000);
    node.configure(&config).unwrap();
    await_found(&node, "MTU", "warn", "spec.mtu 9000 is larger than the 1500 of uplink0", "1500");
    let pod = Pod::new("pod").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    await_found(&node, "MTU", "warn", "1 pod(s) have a larger MTU", "start these pods again");
    node.configure(&with_peers(&node, &[])).unwrap();
    await_found(&node, "MTU", "warn", "1 pod(s) have a larger MTU", "spec.mtu");
    node.plugin().unwrap().del(&pod).unwrap();
    await_well(&node);

    // Every uplink that leads to a peer counts, and what passes on the way there.
    node.configure(&with_peers(&node, &[("tor-a", OUTSIDE_V4)])).unwrap();
    node.netns().ip(&format!("route add {OUTSIDE_V4}/32 dev uplink0 mtu 1400")).unwrap();
    await_found(&node, "MTU", "warn", "only 1400 bytes pass on the way to tor-a", "spec.mtu");
    node.configure(&with_peers(&node, &[("tor-a", "2001:db8:77::1")])).unwrap();
    node.netns().ip("-6 route add unreachable 2001:db8:77::/48").unwrap();
    await_found(&node, "MTU", "warn", "no route leads to the peer tor-a", "a route to it");
    for family in ["-4", "-6"] {
        node.netns().ip(&format!("{family} route del default")).unwrap();
    }
    node.configure(&with_peers(&node, &[])).unwrap();
    await_found(&node, "MTU", "warn", "no default route and no way to a peer", "default route");
}

#[test]
fn more_files_than_may_be_open() {
    let mut node = Node::running().unwrap();
    let pid = node.agent().unwrap().pid().to_string();
    let mut limit = std::process::Command::new("prlimit");
    rack::binaries::run(limit.args(["--pid", &pid, "--nofile=300:300"])).unwrap();
    await_found(&node, "limits", "warn", "300 files may be open", "LimitNOFILE");
}
