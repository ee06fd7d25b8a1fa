//! A pod's link goes: routes at once, links in groups, absence is success.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::sync::Arc;

use flock_dataplane::{DOOMED_GROUP, Dataplane, Error, NextHop, NodeRoute, NodeSettings};
use lab::{Space, address, dual, ip4, ip6, on_node};

#[test]
fn routes_go_at_once_and_the_link_with_the_next_reap() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        dataplane.reap().await.unwrap();
        let (pod, other) = (Space::new("p"), Space::new("p"));
        let link = dual(&pod, 2);
        dataplane.attach(link.clone()).await.unwrap();
        dataplane.attach(dual(&other, 3)).await.unwrap();
        for _ in 0..2 {
            dataplane
                .retire(&link.host_ifname, link.own_addresses().collect(), vec![])
                .await
                .unwrap();
        }
        assert!(!node.ip("route").contains("10.244.1.2") && !node.ip("-6 route").contains("a::2"));
        let links = dataplane.links().await.unwrap();
        let doomed: Vec<_> = links.iter().filter(|link| link.doomed).collect();
        assert_eq!((links.len(), doomed.len()), (2, 1));
        assert_eq!(doomed[0].name, link.host_ifname);
        assert!(doomed[0].up, "taking it down would cost the milliseconds that this saves");
        for _ in 0..2 {
            dataplane.reap().await.unwrap();
        }
        assert_eq!(dataplane.links().await.unwrap().len(), 1);
        assert!(!pod.ip("link").contains("eth0"));
        assert!(node.reaches(ip6(3)) && node.reaches(ip4(3)));
        dataplane.retire(&link.host_ifname, vec![], vec![]).await.unwrap();
        // The address is free again.
        dataplane.attach(dual(&pod, 2)).await.unwrap();
        assert!(node.reaches(ip6(2)));
    });
}

#[test]
fn others_routes_and_links_are_left_alone() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let (pod, other) = (Space::new("p"), Space::new("p"));
        let link = dual(&pod, 2);
        dataplane.attach(link.clone()).await.unwrap();
        dataplane.attach(dual(&other, 3)).await.unwrap();
        node.ip(&format!("route add 198.51.100.5/32 dev {} proto static", link.host_ifname));
        let foreign = vec![address("198.51.100.5"), ip4(3).into(), ip6(3).into()];
        dataplane.retire(&link.host_ifname, foreign, vec![]).await.unwrap();
        assert!(node.ip("route").contains("198.51.100.5"), "a route of another protocol");
        assert!(node.ip("route").contains("10.244.1.3"), "a route of another pod");
        assert!(node.ip("-6 route").contains("2001:db8:a::3"));
        let error = dataplane.retire("lo", vec![], vec![]).await.unwrap_err();
        assert!(matches!(error, Error::BadRequest { .. }), "{error}");
    });
}

#[test]
fn fifty_links_go_in_one_request() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let pods: Vec<Space> = (0..50).map(|_| Space::new("p")).collect();
        for (pod, n) in pods.iter().zip(2..) {
            let link = dual(pod, n);
            dataplane.attach(link.clone()).await.unwrap();
            dataplane
                .retire(&link.host_ifname, link.own_addresses().collect(), vec![])
                .await
                .unwrap();
        }
        let doomed = dataplane.links().await.unwrap().iter().filter(|link| link.doomed).count();
        assert_eq!(doomed, 50);
        let marked = node.ip(&format!("link show group {DOOMED_GROUP}"));
        assert_eq!(marked, "", "a mark costs a walk over all IPv6 routes: not on the way of a DEL");
        dataplane.reap().await.unwrap();
        assert_eq!(dataplane.links().await.unwrap(), vec![]);
        assert_eq!(dataplane.pod_routes().await.unwrap(), vec![]);
    });
}

#[test]
fn what_a_life_before_has_marked_goes_and_what_it_has_not_is_seen() {
    on_node(|node| async move {
        let before = Dataplane::start().unwrap();
        let (pod, other) = (Space::new("p"), Space::new("p"));
        let (marked, retired) = (dual(&pod, 2), dual(&other, 3));
        for link in [&marked, &retired] {
            before.attach(link.clone()).await.unwrap();
            let own = link.own_addresses().collect();
            before.retire(&link.host_ifname, own, vec![]).await.unwrap();
        }
        node.ip(&format!("link set {} group {DOOMED_GROUP}", marked.host_ifname));
        drop(before);
        let dataplane = Dataplane::start().unwrap();
        dataplane.reap().await.unwrap();
        let left = dataplane.links().await.unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].name.as_str(), left[0].doomed), (&*retired.host_ifname, false));
        assert_eq!(dataplane.pod_routes().await.unwrap(), vec![], "nothing leads to it");
        dataplane.retire(&retired.host_ifname, vec![], vec![]).await.unwrap();
        dataplane.reap().await.unwrap();
        assert_eq!(dataplane.links().await.unwrap(), vec![]);
    });
}

#[test]
fn anycast_admissions_go_with_the_link() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pods = [Space::new("p"), Space::new("p")];
        let mut links = vec![];
        for (pod, n) in pods.iter().zip(2..) {
            let mut link = dual(pod, n);
            link.anycast = vec![address("192.0.2.1"), address("2001:db8:ca::1")];
            dataplane.attach(link.clone()).await.unwrap();
            links.push(link);
        }
        let hop = |link: &flock_dataplane::PodLink| {
            Arc::new(NextHop { via: link.ip6.unwrap().into(), dev: link.host_ifname.clone() })
        };
        let next_hops = links.iter().map(hop).collect();
        let anycast = NodeRoute::Anycast { address: address("2001:db8:ca::1"), next_hops };
        dataplane.set_route(anycast).await.unwrap();
        let name = &links[0].host_ifname;
        assert_eq!(node.nft("list table inet flock").matches(name.as_str()).count(), 2);
        let own = links[0].own_addresses().collect();
        dataplane.retire(name, own, links[0].anycast.clone()).await.unwrap();
        dataplane.reap().await.unwrap();
        let rules = node.nft("list table inet flock");
        assert_eq!(rules.matches(name.as_str()).count(), 0, "{rules}");
        assert_eq!(rules.matches(links[1].host_ifname.as_str()).count(), 2, "{rules}");
        // The kernel itself takes the dead pod out of the multipath route.
        let left = NodeRoute::Anycast {
            address: address("2001:db8:ca::1"),
            next_hops: vec![hop(&links[1])],
        };
        assert_eq!(dataplane.our_routes().await.unwrap(), vec![left]);
        // A link that went without being retired is cleared at the next start.
        node.ip(&format!("link del {}", links[1].host_ifname));
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let rules = node.nft("list table inet flock");
        assert_eq!(rules.matches(links[1].host_ifname.as_str()).count(), 0, "{rules}");
    });
}
