//! The kernel did as asked, but its answer never came: nothing is left of it,
//! and nothing of anybody else's is taken.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::sync::{Mutex, PoisonError};

use flock_dataplane::{Dataplane, Drift, Error, LearnedHop, LearnedRoute, PodLink};
use lab::{Space, Uplinks, address, dual, on_node};
use rustix::net::{AddressFamily, netlink, sockopt};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Sockets are the process's, so these tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Leaves room for about one answer in each rtnetlink socket of this
/// process, so that the kernel has to drop what follows (ENOBUFS).
fn deafen() {
    room_for(1);
}

fn room_for(bytes: usize) {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let mut deaf = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let number = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let Ok(file) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()) else { continue };
        let family = sockopt::socket_domain(&file);
        let protocol = sockopt::socket_protocol(&file);
        if family == Ok(AddressFamily::NETLINK) && protocol.is_ok_and(|p| p.is_none_or(is_route)) {
            sockopt::set_socket_recv_buffer_size(&file, bytes).unwrap();
            deaf += 1;
        }
    }
    assert!(deaf >= 2, "{deaf} sockets found, not those of both workers");
}

/// NETLINK_ROUTE is 0, which is "no protocol" elsewhere.
fn is_route(protocol: rustix::net::Protocol) -> bool {
    protocol != netlink::NETFILTER
}

async fn unanswered(dataplane: &Dataplane, link: &PodLink) {
    deafen();
    let error = dataplane.attach(link.clone()).await.unwrap_err();
    assert!(matches!(error, Error::Socket { .. }), "{error}");
}

#[test]
fn a_pair_without_an_answer_is_deleted() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let pod = Space::new("p");
        let link = dual(&pod, 2);
        let before = (node.picture(), pod.picture());
        unanswered(&dataplane, &link).await;
        assert_eq!((node.picture(), pod.picture()), before);
        // On a fresh socket all is well again (the other worker's is still deaf).
        let dataplane = Dataplane::start().unwrap();
        dataplane.attach(link.clone()).await.unwrap();
        assert_eq!(dataplane.verify(link).await.unwrap(), vec![]);
    });
}

#[test]
fn a_link_that_may_be_in_use_is_never_deleted() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let pod = Space::new("p");
        let link = dual(&pod, 2);
        let name = &link.host_ifname;
        let wire = format!("link add {name} type veth peer name eth0 netns {}", pod.name);
        node.ip("link add br0 type bridge");
        for (space, using) in [
            (&node, format!("link set {name} up")),
            (&node, format!("addr add 10.8.0.1/24 dev {name}")),
            (&node, format!("link set {name} master br0")),
            (&node, format!("link set {name} group 7")),
            (&pod, "link set eth0 up".to_owned()),
            (&pod, "addr add 10.8.0.1/24 dev eth0".to_owned()),
            (&pod, "link set eth0 name eth9".to_owned()),
        ] {
            node.ip(&wire);
            space.ip(&using);
            let before = (node.picture(), pod.picture());
            unanswered(&dataplane, &link).await;
            assert_eq!((node.picture(), pod.picture()), before, "{using}");
            node.ip(&format!("link del {name}"));
        }
        // Nor one that is no veth.
        node.ip(&format!("link add {name} type bridge"));
        let before = node.picture();
        unanswered(&dataplane, &link).await;
        assert_eq!(node.picture(), before);
    });
}

/// Events that were lost are told as such, and the watch goes on with the
/// links that came meanwhile.
#[test]
fn a_link_that_came_unheard_is_watched() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let mut events = dataplane.monitor().unwrap();
        let mut next = async || {
            let wait = std::time::Duration::from_secs(3);
            tokio::time::timeout(wait, events.recv()).await.unwrap().unwrap()
        };
        let name = "flock0000000a".to_owned();
        // Nothing is awaited, and so nothing is read, until there is room again.
        deafen();
        for n in 0..8 {
            node.ip(&format!("route add unreachable 10.50.{n}.0/24 proto 241"));
        }
        node.ip(&format!("link add {name} type veth peer name far0"));
        node.ip(&format!("link set {name} up"));
        room_for(100_000);
        while next().await != Drift::Lost {}
        node.ip(&format!("link set {name} down"));
        while next().await != (Drift::LinkDown { name: name.clone() }) {}
        node.ip(&format!("link set {name} name other0"));
        while next().await != (Drift::LinkGone { name: name.clone() }) {}
        // It is the node's own now.
        while next().await != Drift::NetworksChanged {}
    });
}

/// The watch has room for an event or two, and a batch of routes is sixty-four before anything is read: what
/// the kernel told of our own would be lost, and said to be.
#[test]
fn our_own_routes_are_not_even_told_and_anothers_deletion_is() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let mut events = dataplane.monitor().unwrap();
        let mut next = async || {
            let wait = std::time::Duration::from_secs(3);
            tokio::time::timeout(wait, events.recv()).await.unwrap().unwrap()
        };
        let routes = |present: bool| -> Vec<LearnedRoute> {
            let four = (0..200).map(|n| (format!("203.0.{n}.0/24"), "10.9.0.2"));
            let six = (0..200).map(|n| (format!("2001:db8:f{n:03}::/48"), "2001:db8:9::2"));
            let hop = |via| LearnedHop { via: address(via), dev: links.up };
            let route = |(prefix, via): (String, _)| LearnedRoute {
                prefix: prefix.parse().unwrap(),
                next_hops: if present { [hop(via)].into() } else { [].into() },
            };
            four.chain(six).map(route).collect()
        };
        let gone = |prefix: &str| Drift::RouteGone { destination: prefix.parse().unwrap() };
        // From the second time on over sockets that are not those of the first: their ports are others.
        for turn in 0..4 {
            deafen();
            for present in [true, false, true] {
                for verdict in dataplane.set_learned(routes(present)).await.unwrap() {
                    verdict.unwrap();
                }
                // Somebody is heard, and nothing before it.
                node.ip("route add unreachable 192.0.2.255/32 proto 241");
                node.ip("route del unreachable 192.0.2.255/32");
                assert_eq!(next().await, gone("192.0.2.255/32"), "turn {turn}, {present}");
            }
            for prefix in ["203.0.7.0/24", "2001:db8:f007::/48"] {
                node.ip(&format!("route del {prefix}"));
                assert_eq!(next().await, gone(prefix), "turn {turn}");
            }
            break_one(&dataplane, &links).await;
            for verdict in dataplane.set_learned(routes(false)).await.unwrap() {
                verdict.unwrap();
            }
        }
    });
}

/// So many refusals at once that there is no room for their words: the socket of the thread that asked is
/// given up. Each thread may once have a fresh one that is not deaf yet.
async fn break_one(dataplane: &Dataplane, links: &Uplinks) {
    let nowhere = LearnedHop { via: address("10.9.0.2"), dev: links.up + 1000 };
    let refused = |n: u8| LearnedRoute {
        prefix: ipnet::IpNet::from(std::net::IpAddr::from([198, 51, 100, n])),
        next_hops: [nowhere].into(),
    };
    let mut broken = false;
    for _ in 0..3 {
        deafen();
        let batch: Vec<LearnedRoute> = (0..64).map(refused).collect();
        if let Err(error) = dataplane.set_learned(batch).await {
            assert!(matches!(error, Error::Socket { .. }), "{error}");
            broken = true;
            break;
        }
    }
    assert!(broken, "the kernel's words were all heard");
}
