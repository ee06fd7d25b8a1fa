//! Anycast and summaries: what is asked for is exactly what is there.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use flock_dataplane::{
    Dataplane, Error, NextHop, NodeRoute, NodeSettings, PROTOCOL, PodLink, RouteKey,
};
use lab::{Space, address, dual, on_node};

fn hops(links: &[PodLink], six: bool) -> Vec<NextHop> {
    let mut hops: Vec<NextHop> = links
        .iter()
        .map(|link| NextHop {
            via: if six { link.ip6.unwrap().into() } else { link.ip4.unwrap().into() },
            dev: link.host_ifname.clone(),
        })
        .collect();
    hops.sort();
    hops
}

#[test]
fn anycast_grows_and_shrinks_in_both_families() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pods = [Space::new("p"), Space::new("p"), Space::new("p")];
        let links: Vec<PodLink> = pods.iter().zip(10..).map(|(pod, n)| dual(pod, n)).collect();
        for link in &links {
            dataplane.attach(link.clone()).await.unwrap();
        }
        for (six, text) in [(true, "2001:db8:ca::1"), (false, "192.0.2.53")] {
            let anycast = address(text);
            for count in [1, 3, 2, 3, 1, 2, 1, 1] {
                let next_hops = hops(&links[..count], six);
                let route = NodeRoute::Anycast { address: anycast, next_hops };
                dataplane.set_route(route.clone()).await.unwrap();
                assert_eq!(dataplane.our_routes().await.unwrap(), vec![route], "{count} {text}");
                let shown = node.ip(&format!(
                    "{} route show proto {PROTOCOL} {text}",
                    if six { "-6" } else { "-4" }
                ));
                assert_eq!(shown.matches(" via ").count(), count, "{shown}");
            }
            let none = NodeRoute::Anycast { address: anycast, next_hops: vec![] };
            dataplane.set_route(none).await.unwrap();
            assert_eq!(dataplane.our_routes().await.unwrap(), vec![]);
            dataplane.remove_route(RouteKey::Anycast(anycast)).await.unwrap();
        }
        assert_eq!(dataplane.pod_routes().await.unwrap().len(), 6);
    });
}

#[test]
fn a_missing_interface_is_named() {
    on_node(|_node| async move {
        let dataplane = Dataplane::start().unwrap();
        let hop = NextHop { via: address("10.0.0.1"), dev: "flock00000000".to_owned() };
        let route = NodeRoute::Anycast { address: address("192.0.2.1"), next_hops: vec![hop] };
        let error = dataplane.set_route(route).await.unwrap_err();
        assert!(matches!(&error, Error::NoSuchLink { name } if name == "flock00000000"), "{error}");
    });
}

#[test]
fn summaries_answer_unreachable_and_yield_to_pods() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pod = Space::new("p");
        for text in ["2001:db8:a::/64", "10.244.1.0/24", "2001:db8:a::5/128", "10.244.1.5/32"] {
            let prefix = text.parse().unwrap();
            for _ in 0..2 {
                dataplane.set_route(NodeRoute::Blackhole { prefix }).await.unwrap();
            }
        }
        let listed = dataplane.our_routes().await.unwrap();
        assert_eq!(listed.len(), 4, "{listed:?}");
        dataplane.attach(dual(&pod, 5)).await.unwrap();
        assert!(node.reaches(lab::ip6(5)) && node.reaches(lab::ip4(5)));
        assert!(!node.reaches(lab::ip6(6)) && !node.reaches(lab::ip4(6)));
        assert!(node.ip("-6 route show").contains("unreachable 2001:db8:a::/64"));
        for text in ["2001:db8:a::/64", "10.244.1.0/24", "2001:db8:a::5/128", "10.244.1.5/32"] {
            let prefix = text.parse().unwrap();
            for _ in 0..2 {
                dataplane.remove_route(RouteKey::Blackhole(prefix)).await.unwrap();
            }
        }
        assert_eq!(dataplane.our_routes().await.unwrap(), vec![]);
        assert!(node.reaches(lab::ip6(5)) && node.reaches(lab::ip4(5)), "the pod's own are gone");
    });
}

#[test]
fn only_our_own_routes_are_removed() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        node.ip("link add up0 type veth peer name up1");
        node.ip("link set up0 up");
        node.ip("addr add 10.9.0.1/24 dev up0");
        node.ip("route add 192.0.2.7/32 via 10.9.0.2 proto static");
        node.ip("route add unreachable 10.77.0.0/16 metric 1000000 proto static");
        node.ip("-6 route add unreachable 2001:db8:77::/48 metric 1000000 proto static");
        let before = node.ip("route show table main");
        let before6 = node.ip("-6 route show table main");
        dataplane.remove_route(RouteKey::Anycast(address("192.0.2.7"))).await.unwrap();
        for text in ["10.77.0.0/16", "2001:db8:77::/48"] {
            dataplane.remove_route(RouteKey::Blackhole(text.parse().unwrap())).await.unwrap();
        }
        assert_eq!(node.ip("route show table main"), before);
        assert_eq!(node.ip("-6 route show table main"), before6);
    });
}

#[test]
fn uplinks_are_those_of_the_kernels_routes() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        assert_eq!(dataplane.default_uplink().await.unwrap(), None);
        assert_eq!(dataplane.uplink_towards(address("203.0.113.1")).await.unwrap(), None);
        assert_eq!(dataplane.uplink_towards(address("2001:db8:ff::1")).await.unwrap(), None);
        node.ip("link add up0 mtu 9000 type veth peer name up1 mtu 9000");
        node.ip("link add alt0 mtu 1400 type veth peer name alt1");
        for link in ["up0", "up1", "alt0", "alt1"] {
            node.ip(&format!("link set {link} up"));
        }
        node.ip("addr add 10.9.0.1/24 dev up0");
        node.ip("addr add 10.8.0.1/24 dev alt0");
        node.ip("route add default via 10.9.0.2 metric 10");
        node.ip("route add default via 10.8.0.2 metric 20");
        node.ip("route add 198.51.100.0/24 via 10.8.0.2");
        let uplink = dataplane.default_uplink().await.unwrap().unwrap();
        assert_eq!((uplink.name.as_str(), uplink.mtu), ("up0", 9000));
        let towards = dataplane.uplink_towards(address("198.51.100.9")).await.unwrap().unwrap();
        assert_eq!((towards.name.as_str(), towards.mtu), ("alt0", 1400));
        node.ip("route add blackhole 198.51.100.128/25");
        assert_eq!(dataplane.uplink_towards(address("198.51.100.129")).await.unwrap(), None);
    });
}
