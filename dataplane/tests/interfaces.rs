//! The node's own networks are seen as they are, and pods' links are not.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use flock_dataplane::{
    Dataplane, Interface, InterfaceAddress, LearnedHop, LearnedRoute, NodeRoute, Way,
};
use lab::{Space, Uplinks, address, dual, on_node};

async fn named(dataplane: &Dataplane, name: &str) -> Option<Interface> {
    let all = dataplane.interfaces().await.unwrap();
    let mut found = all.into_iter().filter(|interface| interface.name == name);
    let first = found.next();
    assert_eq!(found.next(), None, "{name} twice");
    first
}

fn texts(interface: &Interface) -> Vec<String> {
    let mut texts: Vec<String> =
        interface.addresses.iter().map(|one| one.address.to_string()).collect();
    texts.sort();
    texts
}

#[test]
fn all_but_pods_are_listed_with_their_addresses() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let pod = Space::new("p");
        dataplane.attach(dual(&pod, 2)).await.unwrap();
        node.ip("link set up0 mtu 9000");
        node.ip("link add flockish type bridge");
        node.ip("addr add 192.168.7.9/29 dev flockish");
        let all = dataplane.interfaces().await.unwrap();
        let mut names: Vec<&str> = all.iter().map(|interface| interface.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["alt0", "flockish", "lo", "up0"]);
        let up = named(&dataplane, "up0").await.unwrap();
        assert_eq!((up.index, up.mtu, up.usable, up.loopback), (links.up, 9000, true, false));
        assert_eq!(texts(&up), ["10.9.0.1/24", "2001:db8:9::1/64", "fe80::1/64"]);
        assert_eq!(up.addresses[0].network(), "10.9.0.0/24".parse().unwrap());
        let lo = named(&dataplane, "lo").await.unwrap();
        assert_eq!((lo.usable, lo.loopback), (true, true));
        assert_eq!(texts(&lo), ["127.0.0.1/8", "::1/128"]);
        let down = named(&dataplane, "flockish").await.unwrap();
        assert_eq!((down.usable, texts(&down)), (false, vec!["192.168.7.9/29".to_owned()]));
    });
}

#[test]
fn usable_means_up_and_with_a_carrier() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let becomes = async |usable: bool| {
            let wait = async {
                while named(&dataplane, "up0").await.unwrap().usable != usable {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(std::time::Duration::from_secs(5), wait).await.unwrap();
        };
        becomes(true).await;
        links.beyond.ip("link set up1 down");
        becomes(false).await;
        links.beyond.ip("link set up1 up");
        becomes(true).await;
        node.ip("link set up0 down");
        becomes(false).await;
        assert!(named(&dataplane, "alt0").await.unwrap().usable);
    });
}

#[test]
fn an_address_that_is_not_valid_yet_is_left_out() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let _links = Uplinks::new(&node);
        // Probed for a duplicate for as long as the test takes.
        node.sysctl("net/ipv6/conf/up0/dad_transmits", "1000");
        node.ip("addr add 2001:db8:9::5/64 dev up0");
        assert!(node.ip("addr show dev up0 tentative").contains("2001:db8:9::5"));
        let up = named(&dataplane, "up0").await.unwrap();
        assert_eq!(texts(&up), ["10.9.0.1/24", "2001:db8:9::1/64", "fe80::1/64"]);
    });
}

#[test]
fn the_other_end_of_a_link_of_two_is_known() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        node.ip("addr add 172.16.0.1 peer 172.16.9.2/30 dev up0");
        node.ip("addr add 2001:db8:77::1 peer 2001:db8:78::2/127 dev up0 nodad");
        let up = named(&dataplane, "up0").await.unwrap();
        for (own, peer, network) in [
            ("172.16.0.1/32", "172.16.9.2/30", "172.16.9.0/30"),
            ("2001:db8:77::1/128", "2001:db8:78::2/127", "2001:db8:78::2/127"),
        ] {
            let (address, peer) = (own.parse().unwrap(), Some(peer.parse().unwrap()));
            let wanted = InterfaceAddress { address, peer, permanent: true };
            assert!(up.addresses.contains(&wanted), "{up:?}");
            assert_eq!(wanted.network(), network.parse().unwrap());
        }
        let way = dataplane.way_to(address("172.16.9.2")).await.unwrap();
        assert_eq!(way, Some(Way { via: None, dev: links.up }));
    });
}

#[test]
fn ways_are_those_of_the_kernels_routes() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        for command in [
            "route add 198.51.100.0/24 via 10.8.0.2",
            "route add 198.51.100.128/25 via inet6 2001:db8:9::2 dev up0",
            "route add blackhole 198.51.100.252/30",
            "-6 route add 2001:db8:f::/48 via 2001:db8:8::2",
            "-6 route add unreachable 2001:db8:f:1::/64",
        ] {
            node.ip(command);
        }
        let some = |via: &str, dev| Some(Way { via: Some(address(via)), dev });
        for (to, wanted) in [
            ("10.9.0.77", Some(Way { via: None, dev: links.up })),
            ("2001:db8:8::77", Some(Way { via: None, dev: links.alt })),
            ("198.51.100.1", some("10.8.0.2", links.alt)),
            ("198.51.100.129", some("2001:db8:9::2", links.up)),
            ("198.51.100.253", None),
            ("2001:db8:f::1", some("2001:db8:8::2", links.alt)),
            ("2001:db8:f:1::1", None),
            // No route at all, the node itself, and no link in particular.
            ("203.0.113.1", None),
            ("2001:db8:e::1", None),
            ("10.9.0.1", None),
            ("2001:db8:9::1", None),
            ("fe80::1", None),
        ] {
            assert_eq!(dataplane.way_to(address(to)).await.unwrap(), wanted, "{to}");
        }
    });
}

#[test]
fn no_way_leads_through_what_was_learned() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let learned = |prefix: &str, via: &str| LearnedRoute {
            prefix: prefix.parse().unwrap(),
            next_hops: [LearnedHop { via: address(via), dev: links.up }].into(),
        };
        let routes = vec![
            learned("0.0.0.0/0", "10.9.0.2"),
            learned("203.0.113.0/24", "10.9.0.2"),
            learned("10.8.0.77/32", "10.9.0.2"),
            learned("::/0", "2001:db8:9::2"),
            learned("2001:db8:f::/48", "2001:db8:9::2"),
            learned("2001:db8:8::77/128", "2001:db8:9::2"),
        ];
        for verdict in dataplane.set_learned(routes).await.unwrap() {
            verdict.unwrap();
        }
        let all = ["203.0.113.1", "198.51.100.1", "2001:db8:f::1", "2001:db8:e::1"];
        for to in all {
            assert_eq!(dataplane.way_to(address(to)).await.unwrap(), None, "{to}");
        }
        // Beneath the learned ones there are worse, shorter, or connected ones.
        node.ip("route add default via 10.8.0.2 metric 100");
        node.ip("-6 route add default via 2001:db8:8::2 metric 100");
        for to in all {
            let via = if to.contains(':') { "2001:db8:8::2" } else { "10.8.0.2" };
            let wanted = Some(Way { via: Some(address(via)), dev: links.alt });
            assert_eq!(dataplane.way_to(address(to)).await.unwrap(), wanted, "{to}");
        }
        for to in ["10.8.0.77", "2001:db8:8::77"] {
            let wanted = Some(Way { via: None, dev: links.alt });
            assert_eq!(dataplane.way_to(address(to)).await.unwrap(), wanted, "{to}");
        }
        // A summary of ours is no way either.
        let prefix = "203.0.113.0/24".parse().unwrap();
        dataplane.set_route(NodeRoute::Blackhole { prefix }).await.unwrap();
        assert_eq!(dataplane.way_to(address("203.0.113.1")).await.unwrap(), None);
    });
}

#[test]
fn a_way_without_a_carrier_is_none() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        node.ip(
            "route add 198.51.100.0/24 nexthop via 10.9.0.2 dev up0 nexthop via 10.8.0.2 dev alt0",
        );
        node.ip("route add 203.0.113.0/24 via 10.9.0.2");
        links.beyond.ip("link set up1 down");
        let wait = async {
            let lame = address("203.0.113.1");
            while dataplane.way_to(lame).await.unwrap().is_some() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(5), wait).await.unwrap();
        let wanted = Some(Way { via: Some(address("10.8.0.2")), dev: links.alt });
        assert_eq!(dataplane.way_to(address("198.51.100.1")).await.unwrap(), wanted);
    });
}
