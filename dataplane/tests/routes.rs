//! Anycast and summaries: what is asked for is exactly what is there.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use flock_dataplane::{
    Dataplane, Error, NextHop, NodeRoute, NodeSettings, PROTOCOL, PodLink, RouteKey, RouteWish,
};
use lab::{Space, Uplinks, address, dual, on_node};

fn hops(links: &[PodLink], six: bool) -> Vec<Arc<NextHop>> {
    let mut hops: Vec<Arc<NextHop>> = links
        .iter()
        .map(|link| {
            Arc::new(NextHop {
                via: if six { link.ip6.unwrap().into() } else { link.ip4.unwrap().into() },
                dev: link.host_ifname.clone(),
            })
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
                let found = dataplane.anycast_routes(vec![anycast]).await.unwrap();
                assert_eq!(found, std::slice::from_ref(&route), "{count} {text}");
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
            assert_eq!(dataplane.anycast_routes(vec![anycast]).await.unwrap(), vec![]);
            dataplane.remove_route(RouteKey::Anycast(anycast)).await.unwrap();
        }
        assert_eq!(dataplane.pod_routes().await.unwrap().len(), 6);
    });
}

/// More than one round holds, with some that are refused among them.
#[test]
fn many_are_laid_and_removed_with_a_verdict_each() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let _uplinks = Uplinks::new(&node);
        let pods = [Space::new("p"), Space::new("p")];
        let links: Vec<PodLink> = pods.iter().zip(2..).map(|(pod, n)| dual(pod, n)).collect();
        for link in &links {
            dataplane.attach(link.clone()).await.unwrap();
        }
        // In the way, seen by a lookup (a better and a worse one) and hidden from it.
        node.ip("route add 192.0.2.7/32 via 10.9.0.2 proto static");
        node.ip("route add 192.0.2.8/32 dev up0 proto static metric 100");
        node.ip("route add unreachable 192.0.2.9/32 proto static");
        node.ip("-6 route add 2001:db8:ca::7/128 via 2001:db8:9::2 proto static");
        let before = node.picture();
        let own = dataplane.our_routes().await.unwrap();
        let anycast = |address: IpAddr, count: usize| NodeRoute::Anycast {
            address,
            next_hops: hops(&links[..count], address.is_ipv6()),
        };
        let addresses: Vec<IpAddr> =
            (0..100_u8).flat_map(|n| [Ipv4Addr::new(192, 0, 2, n).into(), v6(n).into()]).collect();
        let taken = |address: &IpAddr| {
            let text = address.to_string();
            ["192.0.2.7", "192.0.2.8", "192.0.2.9", "2001:db8:ca::7"].contains(&text.as_str())
        };
        let set = |route: NodeRoute| RouteWish::Set(route);
        for count in [1, 2, 1] {
            let mut wishes: Vec<RouteWish> =
                addresses.iter().map(|address| set(anycast(*address, count))).collect();
            let gone =
                Arc::new(NextHop { via: address("10.0.0.1"), dev: "flock00000000".to_owned() });
            let nowhere =
                NodeRoute::Anycast { address: address("198.51.100.1"), next_hops: vec![gone] };
            wishes.push(set(nowhere));
            wishes.push(set(NodeRoute::Blackhole { prefix: "10.77.0.0/16".parse().unwrap() }));
            let verdicts = dataplane.lay(wishes).await.unwrap();
            assert_eq!(verdicts.len(), addresses.len() + 2);
            for (address, verdict) in addresses.iter().zip(&verdicts) {
                match verdict {
                    Err(Error::AddressTaken { address: other }) => {
                        assert!(taken(address) && other == address, "{address}");
                    }
                    other => assert!(other.is_ok() && !taken(address), "{address}: {other:?}"),
                }
            }
            let [.., nowhere, summary] = verdicts.as_slice() else { panic!("too few") };
            assert!(matches!(nowhere, Err(Error::NoSuchLink { .. })), "{nowhere:?}");
            assert!(summary.is_ok(), "{summary:?}");
            let there = dataplane.our_routes().await.unwrap();
            assert_eq!(there.len(), own.len() + addresses.len() - 4 + 1);
            for address in addresses.iter().filter(|address| !taken(address)) {
                assert!(there.contains(&anycast(*address, count)), "{address} over {count}");
            }
        }
        assert_eq!(dataplane.failures(), 0, "that is nobody's failure");
        let mut wishes: Vec<RouteWish> = addresses
            .iter()
            .map(|address| RouteWish::Remove(RouteKey::Anycast(*address)))
            .collect();
        wishes.push(RouteWish::Remove(RouteKey::Blackhole("10.77.0.0/16".parse().unwrap())));
        for _ in 0..2 {
            let verdicts = dataplane.lay(wishes.clone()).await.unwrap();
            assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
            assert_eq!(node.picture(), before);
        }
        // What is said later of the same destination happens later.
        let (first, last) = (address("192.0.2.20"), address("192.0.2.21"));
        let wishes = vec![
            set(anycast(first, 1)),
            RouteWish::Remove(RouteKey::Anycast(first)),
            set(anycast(last, 1)),
            RouteWish::Remove(RouteKey::Anycast(last)),
            set(anycast(last, 2)),
        ];
        let verdicts = dataplane.lay(wishes).await.unwrap();
        assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
        assert_eq!(dataplane.our_routes().await.unwrap(), vec![anycast(last, 2)]);
    });
}

fn v6(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xca, 0, 0, 0, 0, n.into())
}

#[test]
fn a_missing_interface_is_named() {
    on_node(|_node| async move {
        let dataplane = Dataplane::start().unwrap();
        let hop = Arc::new(NextHop { via: address("10.0.0.1"), dev: "flock00000000".to_owned() });
        let route = NodeRoute::Anycast { address: address("192.0.2.1"), next_hops: vec![hop] };
        let error = dataplane.set_route(route).await.unwrap_err();
        assert!(matches!(&error, Error::NoSuchLink { name } if name == "flock00000000"), "{error}");
    });
}

/// A pod whose namespace died without DEL, and one that is on its way out.
#[test]
fn a_next_hop_without_a_link_is_left_out() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let pods = [Space::new("p"), Space::new("p"), Space::new("p")];
        let links: Vec<PodLink> = pods.iter().zip(10..).map(|(pod, n)| dual(pod, n)).collect();
        for link in &links {
            dataplane.attach(link.clone()).await.unwrap();
        }
        node.ip(&format!("link del {}", links[0].host_ifname));
        dataplane.retire(&links[1].host_ifname, vec![], vec![]).await.unwrap();
        for (six, text) in [(true, "2001:db8:ca::1"), (false, "192.0.2.53")] {
            let address = address(text);
            let wanted = NodeRoute::Anycast { address, next_hops: hops(&links, six) };
            let served = NodeRoute::Anycast { address, next_hops: hops(&links[2..], six) };
            for _ in 0..2 {
                dataplane.set_route(wanted.clone()).await.unwrap();
                assert_eq!(dataplane.our_routes().await.unwrap(), vec![served.clone()]);
            }
            let none = NodeRoute::Anycast { address, next_hops: hops(&links[..2], six) };
            let error = dataplane.set_route(none).await.unwrap_err();
            assert!(matches!(error, Error::NoSuchLink { .. }), "{error}");
            assert_eq!(dataplane.our_routes().await.unwrap(), vec![served]);
            dataplane.remove_route(RouteKey::Anycast(address)).await.unwrap();
        }
    });
}

#[test]
fn only_an_anycast_route_of_ours_is_replaced() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let _uplinks = Uplinks::new(&node);
        let pods = [Space::new("p"), Space::new("p")];
        let links: Vec<PodLink> = pods.iter().zip(2..).map(|(pod, n)| dual(pod, n)).collect();
        for link in &links {
            dataplane.attach(link.clone()).await.unwrap();
        }
        for command in [
            "route add 192.0.2.7/32 via 10.9.0.2 proto static",
            "route add 192.0.2.8/32 dev up0 proto static metric 100",
            "route add unreachable 192.0.2.9/32 proto static",
            "-6 route add 2001:db8:ca::7/128 via 2001:db8:9::2 proto static",
            "-6 route add 2001:db8:ca::8/128 dev up0 proto static metric 100",
            "-6 route add unreachable 2001:db8:ca::9/128 proto static",
        ] {
            node.ip(command);
        }
        let before = node.picture();
        for text in [
            // A pod's own, and everybody else's.
            "10.244.1.2",
            "192.0.2.7",
            "192.0.2.8",
            "192.0.2.9",
            "2001:db8:a::2",
            "2001:db8:ca::7",
            "2001:db8:ca::8",
            "2001:db8:ca::9",
        ] {
            let taken = address(text);
            let next_hops = hops(&links[1..], taken.is_ipv6());
            let route = NodeRoute::Anycast { address: taken, next_hops };
            let error = dataplane.set_route(route).await.unwrap_err();
            assert!(
                matches!(error, Error::AddressTaken { address } if address == taken),
                "{text}: {error}"
            );
            assert_eq!(node.picture(), before, "{text}");
        }
    });
}

/// What hides our own route from a lookup does not make it another's.
#[test]
fn a_hidden_anycast_route_is_still_ours() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let pods = [Space::new("p"), Space::new("p")];
        let links: Vec<PodLink> = pods.iter().zip(2..).map(|(pod, n)| dual(pod, n)).collect();
        for link in &links {
            dataplane.attach(link.clone()).await.unwrap();
        }
        node.ip("rule add priority 1 unreachable");
        node.ip("-6 rule add priority 1 unreachable");
        for (six, text) in [(true, "2001:db8:ca::1"), (false, "192.0.2.53")] {
            // A summary of the same length is ours too, and yields.
            let prefix = address(text).into();
            dataplane.set_route(NodeRoute::Blackhole { prefix }).await.unwrap();
            for count in [1, 2, 1] {
                let next_hops = hops(&links[..count], six);
                let route = NodeRoute::Anycast { address: address(text), next_hops };
                dataplane.set_route(route.clone()).await.unwrap();
                assert!(dataplane.our_routes().await.unwrap().contains(&route), "{count} {text}");
                let found = dataplane.anycast_routes(vec![address(text)]).await.unwrap();
                assert_eq!(found, vec![route], "{count} {text}");
            }
        }
        assert_eq!(dataplane.our_routes().await.unwrap().len(), 4);
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

#[test]
fn a_path_tells_how_much_passes() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        node.ip("link add up0 mtu 9000 type veth peer name up1 mtu 9000");
        for link in ["up0", "up1"] {
            node.ip(&format!("link set {link} up"));
        }
        node.ip("addr add 10.9.0.1/24 dev up0");
        node.ip("-6 addr add 2001:db8:9::1/64 dev up0 nodad");
        node.ip("route add 198.51.100.0/24 via 10.9.0.2 mtu 1400");
        node.ip("-6 route add 2001:db8:ff::/64 via 2001:db8:9::2 mtu 1480");
        for (to, known) in [
            ("10.9.0.2", None),
            ("198.51.100.9", Some(1400)),
            ("2001:db8:9::2", None),
            ("2001:db8:ff::1", Some(1480)),
        ] {
            let path = dataplane.path_towards(address(to)).await.unwrap().unwrap();
            let found = (path.uplink.name.as_str(), path.uplink.mtu, path.mtu);
            assert_eq!(found, ("up0", 9000, known), "{to}");
        }
        assert_eq!(dataplane.path_towards(address("203.0.113.1")).await.unwrap(), None);
        assert_eq!(dataplane.advertised_uplinks().await.unwrap(), Vec::<String>::new());
    });
}
