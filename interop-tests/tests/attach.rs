//! Pods of every kind on one node: they reach the node, each other and what is beyond, with the
//! right MTU, addresses and answers, and leave nothing.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::ensure;
use rack::facts;
use rack::manifests::{self, Writing};
use rack::node::{NODE_V4, NODE_V6, Node};
use rack::pod::{Pod, addresses};
use rack::probe::ping;
use rack::process::Daemon;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

fn annotated(node: &Node, name: &str, annotations: &[(&str, &str)]) -> Pod {
    node.write_pod(&manifests::pod("default", name, annotations), Writing::Renamed).unwrap();
    Pod::new(name).unwrap()
}

#[test]
fn dual_stack_v6_only_and_v4_only_pods_reach_node_and_each_other_at_once() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pods = [
        annotated(&node, "both", &[]),
        annotated(&node, "six", &[("ipv4", "false")]),
        annotated(&node, "four", &[("ipv6", "false")]),
        annotated(&node, "other", &[]),
    ];
    let results: Vec<Vec<IpAddr>> =
        pods.iter().map(|pod| addresses(&plugin.add(pod).unwrap()).unwrap()).collect();
    let families: Vec<Vec<bool>> =
        results.iter().map(|list| list.iter().map(IpAddr::is_ipv6).collect()).collect();
    assert_eq!(families, [vec![true, false], vec![true], vec![false], vec![true, false]]);

    for (from, own) in pods.iter().zip(&results) {
        for node_address in [NODE_V6, NODE_V4].map(|text| text.parse::<IpAddr>().unwrap()) {
            if own.iter().any(|ip| ip.is_ipv6() == node_address.is_ipv6()) {
                // The very first packet, no retry: nothing may wait for DAD or proxy ARP.
                ping(&from.netns, node_address).unwrap();
            }
        }
        for target in results.iter().flatten() {
            if own.iter().any(|ip| ip.is_ipv6() == target.is_ipv6()) {
                ping(&from.netns, *target).unwrap();
            }
        }
        for address in own {
            ping(node.netns(), *address).unwrap();
        }
    }
    for pod in &pods {
        plugin.del(pod).unwrap();
    }
    node.await_no_leftovers().unwrap();
}

#[test]
fn the_answer_tells_interfaces_addresses_routes_and_dns() {
    let node = Node::running().unwrap();
    let pod = Pod::new("pod").unwrap();
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let mut plugin = node.plugin().unwrap().speaking(version);
        plugin.config_mut()["dns"] =
            json!({ "nameservers": ["192.0.2.53"], "search": ["example.org"] });
        let result = plugin.add(&pod).unwrap();
        assert_eq!(result["cniVersion"], version);
        let [host, inside] = &result["interfaces"].as_array().unwrap()[..] else {
            panic!("{result}")
        };
        assert!(facts::is_pod_interface(host["name"].as_str().unwrap()), "{host}");
        assert_eq!(host["sandbox"].as_str().unwrap_or_default(), "");
        assert_eq!(inside["name"], "eth0");
        assert_eq!(inside["sandbox"], pod.netns.path().to_str().unwrap());
        let real = facts::interface(&pod.netns, "eth0").unwrap();
        assert_eq!(inside["mac"].as_str().unwrap(), real.mac, "{result}");
        let ips = result["ips"].as_array().unwrap();
        assert!(ips[0]["address"].as_str().unwrap().ends_with("/128"));
        assert!(ips[1]["address"].as_str().unwrap().ends_with("/32"));
        for (ip, family) in ips.iter().zip(["6", "4"]) {
            assert_eq!(ip["interface"], 1);
            let old = version.starts_with("0.");
            assert_eq!(ip["version"].as_str(), old.then_some(family), "{version}: {ip}");
        }
        let routes: BTreeSet<&str> =
            result["routes"].as_array().unwrap().iter().filter_map(|r| r["dst"].as_str()).collect();
        assert!(routes.contains("::/0") && routes.contains("0.0.0.0/0"), "{routes:?}");
        assert_eq!(result["dns"]["nameservers"], json!(["192.0.2.53"]));
        assert_eq!(plugin.add(&pod).unwrap(), result, "ADD again gives the same answer");
        plugin.del(&pod).unwrap();
        plugin.del(&pod).unwrap();
    }
    node.await_no_leftovers().unwrap();
}

#[test]
fn the_mtu_is_the_configured_one_else_the_uplinks() {
    let node = Node::running().unwrap();
    node.netns().ip("link set uplink0 mtu 1400").unwrap();
    let plugin = node.plugin().unwrap();
    let (by_uplink, by_config) = (Pod::new("uplink").unwrap(), Pod::new("config").unwrap());
    let mtu_of = |pod: &Pod, result: &Value| {
        let host = result["interfaces"][0]["name"].as_str().unwrap().to_owned();
        let inside = facts::interface(&pod.netns, "eth0").unwrap().mtu;
        assert_eq!(facts::interface(node.netns(), &host).unwrap().mtu, inside);
        inside
    };
    let result = plugin.add(&by_uplink).unwrap();
    assert_eq!(mtu_of(&by_uplink, &result), 1400);
    let mut config =
        manifests::node_config(node.name(), &[rack::node::POD_CIDR6], &[rack::node::POD_CIDR4]);
    config["spec"]["mtu"] = json!(9000);
    node.configure(&config).unwrap();
    let result = plugin.add(&by_config).unwrap();
    assert_eq!(
        mtu_of(&by_config, &result),
        9000,
        "a change of the NodeConfig takes effect at once"
    );
}

#[test]
fn no_eth0_ever_appears_on_the_host() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let log = node.file("links.log");
    let mut monitor = node.netns().command("ip").unwrap();
    monitor.args(["-o", "monitor", "link"]);
    let mut monitor = Daemon::start("ip monitor", &mut monitor, &log).unwrap();
    let seen = || std::fs::read_to_string(&log).unwrap_or_default();
    // A link of our own shows that the monitor listens.
    until("the monitor to listen", PATIENCE, || {
        node.netns().ip("link add probe0 type veth peer name probe1")?;
        node.netns().ip("link del probe0")?;
        ensure!(seen().contains("probe0"), "nothing seen");
        Ok(())
    })
    .unwrap();
    let mut hosts = Vec::new();
    for round in 0..20 {
        let pod = Pod::new(&format!("p{round}")).unwrap();
        let result = plugin.add(&pod).unwrap();
        hosts.push(result["interfaces"][0]["name"].as_str().unwrap().to_owned());
        plugin.del(&pod).unwrap();
    }
    node.await_no_leftovers().unwrap();
    until("all events", PATIENCE, || {
        let seen = seen();
        let missing = hosts.iter().find(|name| !seen.contains(*name));
        ensure!(missing.is_none(), "{missing:?}");
        Ok(())
    })
    .unwrap();
    monitor.ensure_alive().unwrap();
    // "7: eth0@if2: ..." would be one.
    let seen = seen();
    let guilty = seen.lines().find(|line| line.contains(" eth0@") || line.contains(" eth0:"));
    assert_eq!(guilty, None);
}

#[test]
fn fixed_addresses_replace_the_pool_and_are_reachable() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let wanted = "2001:db8:77::7,192.0.2.77,2001:db8:77::8,192.0.2.78";
    let pod = annotated(&node, "fixed", &[("addresses", wanted)]);
    let result = plugin.add(&pod).unwrap();
    let got: Vec<String> = addresses(&result).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(got, ["2001:db8:77::7", "2001:db8:77::8", "192.0.2.77", "192.0.2.78"]);
    for address in addresses(&result).unwrap() {
        ping(node.netns(), address).unwrap();
    }
    plugin.check(&pod, &result).unwrap().unwrap();
    let rival = annotated(&node, "rival", &[("addresses", "192.0.2.78")]);
    let refusal = plugin.try_add(&rival).unwrap().unwrap_err();
    assert!(
        refusal.msg.contains("192.0.2.78") && refusal.msg.contains(&pod.container_id),
        "{refusal}"
    );
    plugin.del(&pod).unwrap();
    node.await_no_leftovers().unwrap();
    plugin.add(&rival).unwrap();
}

#[test]
fn a_bad_annotation_fails_add_and_names_itself() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    for (key, value) in [
        ("ipv6", "maybe"),
        ("cidr4", "10.244.1.0/33"),
        ("cidr4", "172.16.0.0/16"),
        ("anycast", "not-an-address"),
        ("addresses", "10.0.0.1,10.0.0.1"),
    ] {
        let pod = annotated(&node, "bad", &[(key, value)]);
        let refusal = plugin.try_add(&pod).unwrap().unwrap_err();
        let part = value.split(',').next().unwrap();
        assert!(
            refusal.msg.contains(&format!("flock.fritzlab.net/{key}"))
                && refusal.msg.contains(part),
            "{refusal}"
        );
        node.await_no_leftovers().unwrap();
    }
    let pod = annotated(&node, "anycast-off", &[("ipv4", "false"), ("anycast", "192.0.2.1")]);
    assert!(plugin.try_add(&pod).unwrap().unwrap_err().msg.contains("192.0.2.1"));
    let tolerated = annotated(&node, "algo", &[("ip-algo", "colour")]);
    plugin.add(&tolerated).unwrap();
}

#[test]
fn an_address_tells_namespace_app_and_image_by_ip_algo() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let algo = [("ip-algo", "namespace,app,image")];
    let mut six = Vec::new();
    for n in 0..3 {
        let name = format!("web-{n}");
        let mut manifest = manifests::pod("default", &name, &algo);
        manifest["metadata"]["ownerReferences"] =
            json!([{ "kind": "StatefulSet", "name": "web", "controller": true }]);
        node.write_pod(&manifest, Writing::InPlace).unwrap();
        let pod = Pod::new(&name).unwrap();
        let IpAddr::V6(address) = addresses(&plugin.add(&pod).unwrap()).unwrap()[0] else {
            panic!("no IPv6 address first")
        };
        six.push((address, pod));
    }
    let stem = |n: usize| six[n].0.to_bits() >> 4;
    assert!(stem(0) == stem(1) && stem(1) == stem(2), "{six:?}");
    let distinct: BTreeSet<_> = six.iter().map(|(address, _)| address).collect();
    assert_eq!(distinct.len(), 3);
}
