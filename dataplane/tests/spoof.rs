//! A pod may only send from its own addresses, in both families.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use flock_dataplane::{Dataplane, NextHop, NodeRoute, NodeSettings, PodLink};
use lab::{Space, address, dual, on_node};

/// Sends a datagram from `from` inside the pod to the node's listener.
fn arrives(node: &Space, pod: &Space, from: IpAddr, to: IpAddr) -> bool {
    let listener = node.within(move || UdpSocket::bind(SocketAddr::new(to, 0)).unwrap());
    listener.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let target = listener.local_addr().unwrap();
    for port in 0..8 {
        // Several source ports: a multipath hash must not decide this.
        pod.within(move || {
            let _ = port;
            let socket = UdpSocket::bind(SocketAddr::new(from, 0)).unwrap();
            socket.send_to(b"hello", target).unwrap();
        });
    }
    let mut seen = 0;
    let mut bytes = [0; 16];
    while let Ok((_, source)) = listener.recv_from(&mut bytes) {
        assert_eq!(source.ip(), from);
        seen += 1;
        if seen == 8 {
            return true;
        }
    }
    assert_eq!(seen, 0, "some of the packets from {from} arrive");
    false
}

#[test]
fn forged_sources_are_dropped_and_own_ones_pass() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        node.ip("addr add 198.51.100.1/32 dev lo");
        node.ip("addr add 2001:db8:b::1/128 dev lo nodad");
        let (node4, node6) = (address("198.51.100.1"), address("2001:db8:b::1"));
        let pods = [Space::new("p"), Space::new("p"), Space::new("p")];
        let mut links: Vec<PodLink> = Vec::new();
        let (any4, any6) = (address("192.0.2.53"), address("2001:db8:ca::1"));
        for (pod, n) in pods.iter().zip(2u8..) {
            let mut link = dual(pod, n);
            link.addresses =
                vec![IpAddr::from([203, 0, 113, n]), format!("2001:db8:e::{n}").parse().unwrap()];
            link.anycast = vec![any4, any6];
            dataplane.attach(link.clone()).await.unwrap();
            links.push(link);
        }
        for anycast in [any4, any6] {
            let next_hops = links
                .iter()
                .map(|link| {
                    Arc::new(NextHop {
                        via: if anycast.is_ipv6() {
                            link.ip6.unwrap().into()
                        } else {
                            link.ip4.unwrap().into()
                        },
                        dev: link.host_ifname.clone(),
                    })
                })
                .collect();
            dataplane.set_route(NodeRoute::Anycast { address: anycast, next_hops }).await.unwrap();
        }
        let to = |from: IpAddr| if from.is_ipv6() { node6 } else { node4 };
        for (pod, link) in pods.iter().zip(&links) {
            for from in link.own_addresses().chain(link.anycast.iter().copied()) {
                assert!(arrives(&node, pod, from, to(from)), "own {from} of {}", link.host_ifname);
            }
        }
        // Another pod's, the node's own, the gateway's, and nobody's.
        for text in [
            "10.244.1.3",
            "198.51.100.1",
            "8.8.8.8",
            "2001:db8:a::3",
            "2001:db8:b::1",
            "2001:db8:dead::1",
        ] {
            let forged = address(text);
            let length = if forged.is_ipv6() { "128 nodad" } else { "32" };
            pods[0].ip(&format!("addr add {forged}/{length} dev eth0"));
            // To an address that is not also the pod's own now.
            let target = if forged == node4 || forged == node6 {
                let other = if forged.is_ipv6() { "2001:db8:b::2" } else { "198.51.100.2" };
                let length = if forged.is_ipv6() { "128 nodad" } else { "32" };
                node.ip(&format!("addr add {other}/{length} dev lo"));
                address(other)
            } else {
                to(forged)
            };
            assert!(!arrives(&node, &pods[0], forged, target), "forged {forged} passes");
            pods[0].ip(&format!(
                "addr del {forged}/{} dev eth0",
                if forged.is_ipv6() { 128 } else { 32 }
            ));
        }
        assert!(node.nft("list table inet flock").contains("fib saddr . iif oif"));
    });
}
