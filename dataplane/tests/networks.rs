//! Changes of the node's own networks are told, pods' comings and goings are
//! not, and a learned route that goes is missed.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::sync::Arc;
use std::time::Duration;

use flock_dataplane::{
    Dataplane, Drift, LearnedHop, LearnedRoute, NextHop, NodeRoute, NodeSettings, PodLink, RouteKey,
};
use lab::{Space, Uplinks, address, dual, on_node};
use tokio::sync::mpsc::Receiver;

/// Waits for an event; others on the way are returned.
async fn told(events: &mut Receiver<Drift>, wanted: &Drift, why: &str) -> Vec<Drift> {
    let mut others = Vec::new();
    let wait = async {
        while let Some(event) = events.recv().await {
            if event == *wanted {
                return;
            }
            others.push(event);
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(3), wait).await;
    assert!(in_time.is_ok(), "{why}: never told {wanted:?}, but {others:?}");
    others
}

/// A route of flock's that nobody else's events are confused with: when its
/// end is told, all that came before it was told too.
async fn all_until_now(node: &Space, events: &mut Receiver<Drift>) -> Vec<Drift> {
    node.ip("route add unreachable 192.0.2.255/32 proto 241");
    node.ip("route del unreachable 192.0.2.255/32");
    let destination = "192.0.2.255/32".parse().unwrap();
    let mut before = told(events, &Drift::RouteGone { destination }, "the mark").await;
    // What is told once for a while comes at its end.
    tokio::time::sleep(Duration::from_millis(20)).await;
    while let Ok(event) = events.try_recv() {
        before.push(event);
    }
    before
}

/// The kernel has nothing more to say about these links by itself.
async fn at_rest(node: &Space, events: &mut Receiver<Drift>) {
    let wait = async {
        while node.ip("addr show tentative").contains("inet6") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        while !all_until_now(node, events).await.is_empty() {}
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap();
}

fn learned(prefix: &str, hops: &[(&str, u32)]) -> LearnedRoute {
    let hop = |(via, dev): &(&str, u32)| LearnedHop { via: address(via), dev: *dev };
    LearnedRoute { prefix: prefix.parse().unwrap(), next_hops: hops.iter().map(hop).collect() }
}

async fn learn(dataplane: &Dataplane, routes: Vec<LearnedRoute>) {
    for verdict in dataplane.set_learned(routes).await.unwrap() {
        verdict.unwrap();
    }
}

#[test]
fn each_kind_of_change_is_told() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let mut events = dataplane.monitor().unwrap();
        at_rest(&node, &mut events).await;
        let (node, beyond) = (&node, &links.beyond);
        for (space, command) in [
            (node, "link add br0 type bridge"),
            (node, "link set br0 name br1"),
            (node, "link set br1 mtu 1400"),
            (node, "link del br1"),
            (beyond, "link set up1 down"),
            (beyond, "link set up1 up"),
            (node, "link set up0 down"),
            (node, "link set up0 up"),
            (node, "addr add 10.7.0.1/24 dev up0"),
            (node, "addr del 10.7.0.1/24 dev up0"),
            (node, "addr add 2001:db8:7::1/128 dev lo"),
            (node, "addr del 2001:db8:7::1/128 dev lo"),
            (node, "addr add 2001:db8:7::2/64 dev up0"),
            (node, "addr del 2001:db8:7::2/64 dev up0"),
            (node, "route add default via 10.9.0.2"),
            (node, "route replace default via 10.8.0.2"),
            (node, "route del default"),
            (node, "-6 route add 2001:db8:f::/48 via 2001:db8:8::2"),
            (node, "-6 route append 2001:db8:f::/48 via 2001:db8:8::3"),
            (node, "-6 route del 2001:db8:f::/48"),
            (node, "route add blackhole 198.51.100.0/24"),
            (node, "route del blackhole 198.51.100.0/24"),
        ] {
            space.ip(command);
            let others = told(&mut events, &Drift::NetworksChanged, command).await;
            assert_eq!(others, vec![], "{command}");
            at_rest(node, &mut events).await;
        }
    });
}

#[test]
fn what_is_not_the_nodes_networks_is_not_told() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let links = Uplinks::new(&node);
        let mut events = dataplane.monitor().unwrap();
        at_rest(&node, &mut events).await;
        for command in [
            "route add 198.51.100.0/24 via 10.9.0.2 table 77",
            "route del 198.51.100.0/24 via 10.9.0.2 table 77",
            "route add local 198.51.100.1 dev lo table local",
            "route del local 198.51.100.1 dev lo table local",
            "link set up0 txqueuelen 77",
            "link set up0 alias uplink",
            "neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev up0",
        ] {
            node.ip(command);
            assert_eq!(all_until_now(&node, &mut events).await, vec![], "{command}");
        }
        let routes = [
            learned("203.0.113.0/24", &[("10.9.0.2", links.up), ("10.8.0.2", links.alt)]),
            learned(
                "2001:db8:f::/48",
                &[("2001:db8:9::2", links.up), ("2001:db8:8::2", links.alt)],
            ),
        ];
        for count in [1, 2, 1, 2, 0] {
            let part = |route: &LearnedRoute| LearnedRoute {
                prefix: route.prefix,
                next_hops: route.next_hops[..count].into(),
            };
            learn(&dataplane, routes.iter().map(part).collect()).await;
            assert_eq!(all_until_now(&node, &mut events).await, vec![], "{count} next hops");
        }
    });
}

#[test]
fn pods_come_and_go_unnoticed() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let _links = Uplinks::new(&node);
        let old = Space::new("p");
        dataplane.attach(dual(&old, 2)).await.unwrap();
        let mut events = dataplane.monitor().unwrap();
        at_rest(&node, &mut events).await;
        let anycast = address("2001:db8:ca::1");
        let pods: Vec<Space> = (0..8).map(|_| Space::new("p")).collect();
        let mut links: Vec<PodLink> = pods.iter().zip(3..).map(|(pod, n)| dual(pod, n)).collect();
        for link in &mut links {
            link.anycast = vec![anycast];
            dataplane.attach(link.clone()).await.unwrap();
        }
        let hop = |link: &PodLink| {
            Arc::new(NextHop { via: link.ip6.unwrap().into(), dev: link.host_ifname.clone() })
        };
        let next_hops = links.iter().map(hop).collect();
        dataplane.set_route(NodeRoute::Anycast { address: anycast, next_hops }).await.unwrap();
        let prefix = "10.244.1.0/24".parse().unwrap();
        dataplane.set_route(NodeRoute::Blackhole { prefix }).await.unwrap();
        dataplane.remove_route(RouteKey::Anycast(anycast)).await.unwrap();
        dataplane.remove_route(RouteKey::Blackhole(prefix)).await.unwrap();
        assert_eq!(all_until_now(&node, &mut events).await, vec![], "pods came");
        links.push(dual(&old, 2));
        for link in &links {
            let own = link.own_addresses().collect();
            dataplane.retire(&link.host_ifname, own, link.anycast.clone()).await.unwrap();
        }
        dataplane.reap().await.unwrap();
        let others = all_until_now(&node, &mut events).await;
        assert!(!others.contains(&Drift::NetworksChanged), "pods went: {others:?}");
        for link in &links {
            let name = link.host_ifname.clone();
            assert!(others.contains(&Drift::LinkGone { name }), "{others:?}");
        }
        // Nor when a pod dies with its namespace, or somebody meddles with it.
        let pod = Space::new("p");
        let link = dual(&pod, 2);
        dataplane.attach(link.clone()).await.unwrap();
        let name = link.host_ifname.clone();
        for command in [
            format!("addr del 169.254.1.1/32 dev {name}"),
            format!("addr add 169.254.1.1/32 dev {name} noprefixroute"),
            format!("link set {name} mtu 1300"),
            format!("link set {name} down"),
        ] {
            node.ip(&command);
        }
        // An open namespace would stay.
        drop((link, pod));
        let others = told(&mut events, &Drift::LinkGone { name }, "the namespace went").await;
        assert!(!others.contains(&Drift::NetworksChanged), "{others:?}");
    });
}

#[test]
fn what_happens_at_once_is_told_once() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let _links = Uplinks::new(&node);
        let mut events = dataplane.monitor().unwrap();
        at_rest(&node, &mut events).await;
        let add = |n: u32| format!("route add 198.{}.{}.0/24 via 10.9.0.2\n", n / 256, n % 256);
        let batch: String = (0..1500).map(add).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("batch");
        std::fs::write(&file, batch).unwrap();
        // Nothing is awaited meanwhile, so that all of it waits in the socket.
        node.ip(&format!("-batch {}", file.display()));
        assert_eq!(all_until_now(&node, &mut events).await, vec![Drift::NetworksChanged]);
    });
}

#[test]
fn a_learned_route_that_goes_is_told() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let mut events = dataplane.monitor().unwrap();
        at_rest(&node, &mut events).await;
        let four = [("10.9.0.2", links.up), ("10.8.0.2", links.alt)];
        let six = [("2001:db8:9::2", links.up), ("2001:db8:8::2", links.alt)];
        for (prefix, hops, commands) in [
            (
                "203.0.113.0/24",
                four,
                vec![
                    "route del 203.0.113.0/24",
                    "route replace 203.0.113.0/24 via 10.9.0.9 metric 32",
                    "route replace unreachable 203.0.113.0/24 metric 32",
                    "route replace 203.0.113.0/24 via 10.9.0.9 metric 32 proto 241",
                ],
            ),
            (
                "2001:db8:f::/48",
                six,
                vec![
                    "-6 route del 2001:db8:f::/48",
                    "-6 route del 2001:db8:f::/48 via 2001:db8:9::2",
                    "-6 route replace 2001:db8:f::/48 via 2001:db8:9::9 metric 32",
                    "-6 route replace unreachable 2001:db8:f::/48 metric 32",
                    "-6 route replace 2001:db8:f::/48 via 2001:db8:9::9 metric 32 proto 241",
                ],
            ),
            (
                "2001:db8:f::7/128",
                six,
                vec!["-6 route replace 2001:db8:f::7 via 2001:db8:9::9 metric 1056"],
            ),
        ] {
            for count in [1, 2] {
                for command in &commands {
                    if count == 1 && command.contains("del 2001:db8:f::/48 via") {
                        continue;
                    }
                    learn(&dataplane, vec![learned(prefix, &hops[..count])]).await;
                    node.ip(command);
                    let destination = prefix.parse().unwrap();
                    told(&mut events, &Drift::RouteGone { destination }, command).await;
                    if command.contains("replace") {
                        // With our number it is none of the node's own.
                        if !command.contains("proto 241") {
                            told(&mut events, &Drift::NetworksChanged, command).await;
                        }
                        let kind =
                            if command.contains("unreachable") { "unreachable " } else { "" };
                        let family = if prefix.contains(':') { "-6" } else { "-4" };
                        node.ip(&format!("{family} route del {kind}{prefix}"));
                    }
                    at_rest(&node, &mut events).await;
                }
            }
        }
    });
}

/// IPv4 says nothing of routes that go with a link or an address.
#[test]
fn a_learned_route_that_goes_without_a_word_comes_with_a_change() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let mut events = dataplane.monitor().unwrap();
        let route = learned("203.0.113.0/24", &[("10.9.0.2", links.up)]);
        let both = [("10.8.0.2", links.alt), ("10.9.0.2", links.up)];
        let several = learned("198.51.100.0/24", &both);
        for (command, back) in [
            ("link set up0 down", Some("link set up0 up")),
            ("addr del 10.9.0.1/24 dev up0", Some("addr add 10.9.0.1/24 dev up0")),
            ("link del up0", None),
        ] {
            learn(&dataplane, vec![route.clone(), several.clone()]).await;
            at_rest(&node, &mut events).await;
            node.ip(command);
            told(&mut events, &Drift::NetworksChanged, command).await;
            let there = dataplane.learned_routes().await.unwrap();
            assert!(!there.contains(&route), "{command}: {there:?}");
            // What is left of the other is dead in part, and listed as it is.
            let shown = node.ip("route show 198.51.100.0/24");
            assert!(shown.contains("dead") || !there.contains(&several), "{command}: {shown}");
            if let Some(back) = back {
                node.ip(back);
            }
        }
    });
}

#[test]
fn thousands_of_learned_routes_are_no_drift() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let mut events = dataplane.monitor().unwrap();
        at_rest(&node, &mut events).await;
        for hops in [&[("10.9.0.2", links.up)][..], &[]] {
            // More than there is room for events.
            let prefix = |n: u32| format!("100.{}.{}.0/24", n / 256, n % 256);
            let routes = (0..3000).map(|n| learned(&prefix(n), hops)).collect();
            learn(&dataplane, routes).await;
            assert_eq!(all_until_now(&node, &mut events).await, vec![]);
        }
    });
}
