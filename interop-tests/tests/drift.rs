//! Drift: CHECK names each difference that somebody made by hand, and the agent repairs what was
//! removed on the node.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::net::IpAddr;

use anyhow::ensure;
use rack::manifests::{self, Writing};
use rack::node::Node;
use rack::pod::{Pod, addresses};
use rack::probe::{await_ping, ping};
use rack::wait::{PATIENCE, until};
use serde_json::Value;

struct Attached {
    node: Node,
    pod: Pod,
    result: Value,
    host: String,
    six: IpAddr,
    four: IpAddr,
}

fn attached() -> Attached {
    let node = Node::running().unwrap();
    let anycast = [("anycast", "2001:db8:cafe::1,192.0.2.1")];
    node.write_pod(&manifests::pod("default", "pod", &anycast), Writing::Renamed).unwrap();
    let pod = Pod::new("pod").unwrap();
    let result = node.plugin().unwrap().add(&pod).unwrap();
    let host = result["interfaces"][0]["name"].as_str().unwrap().to_owned();
    let list = addresses(&result).unwrap();
    Attached { node, pod, host, six: list[0], four: list[1], result }
}

impl Attached {
    fn check(&self) -> Result<Value, String> {
        let answer = self.node.plugin().unwrap().check(&self.pod, &self.result).unwrap();
        answer.map_err(|error| error.msg)
    }

    /// The same pod, attached anew.
    fn again(self) -> Self {
        let plugin = self.node.plugin().unwrap();
        plugin.del(&self.pod).unwrap();
        self.node.await_no_leftovers().unwrap();
        self.pod.netns.ip("link set lo down").unwrap();
        let result = plugin.add(&self.pod).unwrap();
        let host = result["interfaces"][0]["name"].as_str().unwrap().to_owned();
        let list = addresses(&result).unwrap();
        Self { host, six: list[0], four: list[1], result, ..self }
    }
}

/// What is broken by hand inside the pod, where the monitor does not look and so nothing is mended
/// in between; and the words that must name it.
#[test]
fn check_names_each_kind_of_drift_inside_the_pod() {
    let broken: [(&str, &[&str]); 9] = [
        ("addr del {six}/128 dev eth0", &["{six}", "missing"]),
        ("addr del {four}/32 dev eth0", &["{four}", "missing"]),
        ("route del default", &["0.0.0.0/0"]),
        ("-6 route del default", &["::/0"]),
        ("link set eth0 down", &["eth0", "down"]),
        ("link set eth0 mtu 1600", &["1600"]),
        ("link set lo down", &["lo"]),
        ("addr del 192.0.2.1/32 dev lo", &["192.0.2.1"]),
        ("addr del 2001:db8:cafe::1/128 dev lo", &["2001:db8:cafe::1"]),
    ];
    let mut attached = attached();
    for (command, words) in broken {
        attached.check().unwrap();
        let fill = |text: &str| {
            text.replace("{six}", &attached.six.to_string())
                .replace("{four}", &attached.four.to_string())
        };
        attached.pod.netns.ip(&fill(command)).unwrap();
        let told = attached.check().unwrap_err();
        for word in words {
            assert!(told.contains(&fill(word)), "{command}: {told}");
        }
        attached = attached.again();
    }
}

#[test]
fn check_names_a_wrong_peer() {
    let attached = attached();
    // Somebody replaced the pod's interface by another of the same name.
    let inside = &attached.pod.netns;
    inside.ip("link set eth0 down").unwrap();
    inside.ip("link set eth0 name old0").unwrap();
    inside.ip("link add eth0 type veth peer name other0").unwrap();
    let told = attached.check().unwrap_err();
    assert!(told.contains("peer"), "{told}");
}

#[test]
fn what_is_removed_on_the_node_is_repaired() {
    let attached = attached();
    let Attached { node, pod, host, six, four, .. } = &attached;
    let breaks = [
        format!("route del {four}/32 dev {host}"),
        format!("-6 route del {six}/128 dev {host}"),
        format!("addr del fe80::1/64 dev {host}"),
        format!("addr del 169.254.1.1/32 dev {host}"),
        format!("link set {host} down"),
        "route del 192.0.2.1".to_owned(),
        "-6 route del 2001:db8:cafe::1".to_owned(),
        "route del unreachable 10.244.1.0/24".to_owned(),
        format!("link del {host}"),
    ];
    for command in breaks {
        node.netns().ip(&command).unwrap();
        until(&format!("repair of `{command}`"), PATIENCE, || {
            attached.check().map(drop).map_err(anyhow::Error::msg)
        })
        .unwrap();
        for address in
            [*six, *four, "192.0.2.1".parse().unwrap(), "2001:db8:cafe::1".parse().unwrap()]
        {
            await_ping(node.netns(), address).unwrap();
        }
        await_ping(&pod.netns, rack::node::NODE_V4.parse().unwrap()).unwrap();
    }
    until("the summary to be back", PATIENCE, || {
        let routes = node.netns().ip("route show")?;
        ensure!(routes.contains("unreachable 10.244.1.0/24"), "{routes}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_anti_spoofing_rules_are_put_back() {
    let attached = attached();
    let node = &attached.node;
    node.netns().exec("nft", &["delete", "table", "inet", "flock"]).unwrap();
    until("the rules to be back", PATIENCE, || {
        let rules = node.netns().exec("nft", &["list", "ruleset"])?;
        ensure!(rules.contains("table inet flock") && rules.contains("drop"), "{rules}");
        Ok(())
    })
    .unwrap();
    ping(node.netns(), attached.six).unwrap();
}

#[test]
fn check_of_a_stranger_and_of_another_namespace_is_an_error() {
    let attached = attached();
    let plugin = attached.node.plugin().unwrap();
    let stranger = Pod::new("stranger").unwrap();
    assert_eq!(plugin.check(&stranger, &attached.result).unwrap().unwrap_err().code, 3);
    let mut elsewhere = Pod::new("elsewhere").unwrap();
    elsewhere.container_id.clone_from(&attached.pod.container_id);
    let told = plugin.check(&elsewhere, &attached.result).unwrap().unwrap_err();
    assert!(told.msg.contains("not the namespace"), "{told}");
}
