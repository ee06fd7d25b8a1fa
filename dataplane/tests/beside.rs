//! A learned route and a pod's for the very same address: each is itself, and
//! the pod gets the packets.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::net::IpAddr;
use std::sync::Arc;

use flock_dataplane::{
    Dataplane, Error, LearnedHop, LearnedRoute, NextHop, NodeRoute, NodeSettings, PodLink, RouteKey,
};
use lab::{Space, Uplinks, address, dual, on_node};

const ANYCAST: [&str; 2] = ["192.0.2.53", "2001:db8:ca::53"];

fn learned(prefix: &str, links: &Uplinks) -> LearnedRoute {
    let via = if prefix.contains(':') { "2001:db8:9::2" } else { "10.9.0.2" };
    let hop = LearnedHop { via: address(via), dev: links.up };
    let host = |address: IpAddr| address.into();
    let prefix = prefix.parse().or_else(|_| prefix.parse().map(host)).unwrap();
    LearnedRoute { prefix, next_hops: [hop].into() }
}

async fn learn(dataplane: &Dataplane, route: &LearnedRoute) {
    for verdict in dataplane.set_learned(vec![route.clone()]).await.unwrap() {
        verdict.unwrap();
    }
}

async fn forget(dataplane: &Dataplane, route: &LearnedRoute) {
    learn(dataplane, &LearnedRoute { prefix: route.prefix, next_hops: [].into() }).await;
}

fn anycast(text: &str, links: &[PodLink]) -> NodeRoute {
    let address = address(text);
    let via = |link: &PodLink| match address {
        IpAddr::V6(_) => link.ip6.unwrap().into(),
        IpAddr::V4(_) => link.ip4.unwrap().into(),
    };
    let mut next_hops: Vec<Arc<NextHop>> = links
        .iter()
        .map(|link| Arc::new(NextHop { via: via(link), dev: link.host_ifname.clone() }))
        .collect();
    next_hops.sort();
    NodeRoute::Anycast { address, next_hops }
}

/// Where the node sends what is for an address.
fn towards(node: &Space, to: &str) -> String {
    let way = node.ip(&format!("route get {to}"));
    way.split_whitespace().skip_while(|word| *word != "dev").nth(1).unwrap().to_owned()
}

#[test]
fn anycast_comes_and_goes_beside_what_was_learned() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let uplinks = Uplinks::new(&node);
        let pods = [Space::new("p"), Space::new("p")];
        let links: Vec<PodLink> = pods.iter().zip(2..).map(|(pod, n)| dual(pod, n)).collect();
        for link in &links {
            dataplane.attach(link.clone()).await.unwrap();
        }
        for text in ANYCAST {
            let route = learned(text, &uplinks);
            let key = RouteKey::Anycast(address(text));
            for learned_first in [true, false] {
                if learned_first {
                    learn(&dataplane, &route).await;
                    assert_eq!(dataplane.our_routes().await.unwrap(), vec![], "{text}");
                    assert_eq!(towards(&node, text), "up0");
                }
                for count in [1, 2, 1] {
                    let served = anycast(text, &links[..count]);
                    dataplane.set_route(served.clone()).await.unwrap();
                    learn(&dataplane, &route).await;
                    assert_eq!(dataplane.our_routes().await.unwrap(), vec![served], "{text}");
                    assert_eq!(dataplane.learned_routes().await.unwrap(), vec![route.clone()]);
                    assert!(towards(&node, text).starts_with("flock"), "{text}");
                }
                // The second time there is nothing of that kind to remove.
                for _ in 0..2 {
                    dataplane.remove_route(key).await.unwrap();
                    assert_eq!(dataplane.our_routes().await.unwrap(), vec![], "{text}");
                    assert_eq!(dataplane.learned_routes().await.unwrap(), vec![route.clone()]);
                }
                // And with the other one gone first.
                let served = anycast(text, &links);
                dataplane.set_route(served.clone()).await.unwrap();
                for _ in 0..2 {
                    forget(&dataplane, &route).await;
                    assert_eq!(dataplane.learned_routes().await.unwrap(), vec![]);
                    assert_eq!(dataplane.our_routes().await.unwrap(), vec![served.clone()]);
                }
                dataplane.remove_route(key).await.unwrap();
            }
        }
    });
}

/// What hides both from a lookup confuses nobody.
#[test]
fn hidden_by_a_rule_each_is_still_itself() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let uplinks = Uplinks::new(&node);
        let pod = Space::new("p");
        let link = dual(&pod, 2);
        dataplane.attach(link.clone()).await.unwrap();
        node.ip("rule add priority 1 unreachable");
        node.ip("-6 rule add priority 1 unreachable");
        for text in ANYCAST {
            let (route, served) =
                (learned(text, &uplinks), anycast(text, std::slice::from_ref(&link)));
            for _ in 0..2 {
                learn(&dataplane, &route).await;
                dataplane.set_route(served.clone()).await.unwrap();
            }
            assert_eq!(dataplane.our_routes().await.unwrap(), vec![served]);
            assert_eq!(dataplane.learned_routes().await.unwrap(), vec![route.clone()]);
            for _ in 0..2 {
                dataplane.remove_route(RouteKey::Anycast(address(text))).await.unwrap();
            }
            assert_eq!(dataplane.our_routes().await.unwrap(), vec![]);
            assert_eq!(dataplane.learned_routes().await.unwrap(), vec![route.clone()]);
            forget(&dataplane, &route).await;
        }
    });
}

#[test]
fn what_was_learned_hides_nobodys_claim() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let uplinks = Uplinks::new(&node);
        let pods = [Space::new("p"), Space::new("p")];
        let link = dual(&pods[0], 2);
        dataplane.attach(link.clone()).await.unwrap();
        // Worse than the learned one for the same address, and so not seen at first.
        node.ip("route add 192.0.2.53/32 via 10.8.0.2 proto static metric 5000");
        node.ip("-6 route add 2001:db8:ca::53/128 via 2001:db8:8::2 proto static metric 5000");
        for text in ANYCAST {
            learn(&dataplane, &learned(text, &uplinks)).await;
            let before = node.picture();
            let route = anycast(text, std::slice::from_ref(&link));
            let error = dataplane.set_route(route).await.unwrap_err();
            assert!(matches!(error, Error::AddressTaken { .. }), "{text}: {error}");
            let wanted = PodLink { anycast: vec![address(text)], ..dual(&pods[1], 3) };
            let error = dataplane.attach(wanted).await.unwrap_err();
            assert!(matches!(error, Error::AddressTaken { .. }), "{text}: {error}");
            assert_eq!(node.picture(), before);
        }
        // On a connected network, under a learned route to just it or to a part of the network.
        for (network, inside) in [
            ("10.9.0.77", "10.9.0.77"),
            ("10.9.0.128/25", "10.9.0.200"),
            ("2001:db8:9::77", "2001:db8:9::77"),
            ("2001:db8:9:0:8000::/65", "2001:db8:9:0:8000::1"),
        ] {
            learn(&dataplane, &learned(network, &uplinks)).await;
            let wanted = PodLink { anycast: vec![address(inside)], ..dual(&pods[1], 3) };
            let error = dataplane.attach(wanted).await.unwrap_err();
            let taken = address(inside);
            assert!(
                matches!(error, Error::AddressTaken { address } if address == taken),
                "{inside}: {error}"
            );
        }
    });
}

#[test]
fn a_pod_with_a_learned_anycast_address_is_wired() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let uplinks = Uplinks::new(&node);
        // Just the address, the prefix around it by a router of the other family, and all there is.
        for prefixes in [ANYCAST, ["192.0.2.0/24", "2001:db8:ca::/48"], ["0.0.0.0/0", "::/0"]] {
            for prefix in prefixes {
                let mut route = learned(prefix, &uplinks);
                if prefix == "192.0.2.0/24" {
                    let hop = LearnedHop { via: address("2001:db8:9::2"), ..route.next_hops[0] };
                    route.next_hops = [hop].into();
                }
                learn(&dataplane, &route).await;
            }
            let pod = Space::new("p");
            let link = PodLink { anycast: ANYCAST.map(address).to_vec(), ..dual(&pod, 2) };
            dataplane.attach(link.clone()).await.unwrap();
            for text in ANYCAST {
                dataplane.set_route(anycast(text, std::slice::from_ref(&link))).await.unwrap();
                assert!(node.reaches(address(text)), "{text} under {prefixes:?}");
            }
            for text in ANYCAST {
                dataplane.remove_route(RouteKey::Anycast(address(text))).await.unwrap();
            }
            let (own, all) = (link.own_addresses().collect(), link.anycast.clone());
            dataplane.retire(&link.host_ifname, own, all).await.unwrap();
            dataplane.reap().await.unwrap();
            assert_eq!(dataplane.learned_routes().await.unwrap().len(), 2);
            for prefix in prefixes {
                forget(&dataplane, &learned(prefix, &uplinks)).await;
            }
        }
    });
}

#[test]
fn a_pods_own_address_is_not_given_away_nor_taken_from_it() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let uplinks = Uplinks::new(&node);
        let pods = [Space::new("p"), Space::new("p")];
        let routes = ["10.244.1.2", "2001:db8:a::2"].map(|text| learned(text, &uplinks));
        let link = dual(&pods[0], 2);
        for route in &routes {
            learn(&dataplane, route).await;
            let before = node.picture();
            let error = dataplane.attach(link.clone()).await.unwrap_err();
            let named =
                matches!(error, Error::AddressTaken { address } if address == route.prefix.addr());
            assert!(named, "{error}");
            assert_eq!(node.picture(), before);
            forget(&dataplane, route).await;
        }
        dataplane.attach(link.clone()).await.unwrap();
        for route in &routes {
            learn(&dataplane, route).await;
        }
        assert!(node.reaches(lab::ip4(2)) && node.reaches(lab::ip6(2)));
        assert_eq!(dataplane.verify(link.clone()).await.unwrap(), vec![]);
        assert_eq!(dataplane.pod_routes().await.unwrap().len(), 2);
        // Removed by hand, it is put back beside the learned one.
        node.ip(&format!("route del 10.244.1.2 dev {}", link.host_ifname));
        assert_eq!(dataplane.repair(link.clone()).await.unwrap().len(), 1);
        assert_eq!(dataplane.verify(link.clone()).await.unwrap(), vec![]);
        dataplane.retire(&link.host_ifname, link.own_addresses().collect(), vec![]).await.unwrap();
        let mut there = dataplane.learned_routes().await.unwrap();
        there.sort();
        assert_eq!(there, routes);
        assert_eq!(dataplane.pod_routes().await.unwrap(), vec![]);
    });
}
