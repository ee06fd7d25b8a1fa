//! A pod is wired: reachable at once, in both families, and refused clearly.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::process::{Command, Stdio};

use flock_dataplane::{
    Dataplane, Error, GATEWAY4, GATEWAY6, Netns, NodeSettings, PodLink, Wired, host_ifname,
    host_ifname_nth,
};
use lab::{Space, address, dual, ip4, ip6, on_node};

async fn ready() -> Dataplane {
    let dataplane = Dataplane::start().unwrap();
    dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
    dataplane
}

#[test]
fn dual_stack_reaches_both_ways_at_once() {
    on_node(|node| async move {
        let dataplane = ready().await;
        node.ip("addr add 198.51.100.1/32 dev lo");
        node.ip("addr add 2001:db8:b::1/128 dev lo nodad");
        let pod = Space::new("p");
        let wired = dataplane.attach(dual(&pod, 2)).await.unwrap();
        assert!(pod.reaches(address("2001:db8:b::1")), "the first packet from the pod is lost");
        assert!(pod.reaches(address("198.51.100.1")));
        assert!(node.reaches(ip6(2)) && node.reaches(ip4(2)));
        check_facts(&node, &pod, &wired);
        assert_eq!(dataplane.verify(dual(&pod, 2)).await.unwrap(), vec![]);
    });
}

#[test]
fn a_link_is_noticed_when_it_is_finished_and_has_no_route_that_leads_nowhere() {
    on_node(|node| async move {
        let dataplane = ready().await;
        node.ip("addr add 2001:db8:b::1/128 dev lo nodad");
        let pod = Space::new("p");
        let (wired, waking) = dataplane.begin_attach(dual(&pod, 2)).await.unwrap();
        dataplane.awaken(waking).await.unwrap();
        assert_eq!(wired.host.index, wired.pod.index, "the kernel hurries where they differ");
        let anycast = format!("-6 route show table local type anycast dev {}", wired.host.name);
        assert!(node.ip(&anycast).contains("fe80::"), "nothing to remove: the kernel has changed");
        for _ in 0..2 {
            dataplane.finish_attach(wired.host.index).await.unwrap();
        }
        assert!(node.ip("-o link show up").contains(&format!("{}@", wired.host.name)));
        let link = node.ip(&format!("-o link show {}", wired.host.name));
        assert!(link.contains("state UP"), "{link}");
        assert_eq!(node.ip(&anycast), "");
        // What a pod needs that asks for its gateway's hardware address.
        let local = node.ip(&format!("-6 route show table local dev {}", wired.host.name));
        assert!(local.contains("local fe80::1") && local.contains("multicast ff00::/8"), "{local}");
        pod.ip("-6 neigh del fe80::1 dev eth0");
        assert!(pod.reaches(address("2001:db8:b::1")));
        assert_eq!(dataplane.verify(dual(&pod, 2)).await.unwrap(), vec![]);
        dataplane.finish_attach(12345).await.unwrap();
    });
}

/// Both ends want one index; on the node or in the pod another link may have it.
#[test]
fn where_an_index_is_taken_the_kernel_chooses() {
    on_node(|node| async move {
        let dataplane = ready().await;
        let (first, second, third) = (Space::new("p"), Space::new("p"), Space::new("p"));
        let index = dataplane.attach(dual(&first, 2)).await.unwrap().host.index;
        node.ip(&format!("link add other index {} type veth peer name rehto", index + 1));
        third.ip(&format!("link add other index {} type veth peer name rehto", index + 2));
        for (pod, n) in [(&second, 3), (&third, 4)] {
            let wired = dataplane.attach(dual(pod, n)).await.unwrap();
            assert!(wired.host.index < index, "{wired:?}");
            assert!(node.reaches(ip6(u16::from(n))) && node.reaches(ip4(n)));
            assert_eq!(dataplane.verify(dual(pod, n)).await.unwrap(), vec![]);
        }
        // One of a life before this is not tried again.
        node.ip("link del other");
        let dataplane = ready().await;
        let fourth = Space::new("p");
        let wired = dataplane.attach(dual(&fourth, 5)).await.unwrap();
        assert_eq!((wired.host.index, wired.pod.index), (index + 1, index + 1));
    });
}

fn check_facts(node: &Space, pod: &Space, wired: &Wired) {
    let mac = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
    let host = node.ip(&format!("-o link show {}", wired.host.name));
    assert!(host.contains(&mac(wired.host.mac)) && host.contains("mtu 1500"), "{host}");
    assert!(host.starts_with(&format!("{}:", wired.host.index)), "{host}");
    let inside = pod.ip("-o link show eth0");
    assert!(inside.contains(&mac(wired.pod.mac)) && wired.pod.name == "eth0", "{inside}");
    assert!(inside.starts_with(&format!("{}:", wired.pod.index)), "{inside}");
    // No address of the kernel's own making, and none that waits for DAD.
    let addresses = node.ip(&format!("-6 -o addr show dev {}", wired.host.name));
    assert_eq!(addresses.lines().count(), 1, "{addresses}");
    assert!(addresses.contains("fe80::1/64") && !addresses.contains("tentative"), "{addresses}");
    let addresses = pod.ip("-6 -o addr show dev eth0");
    assert_eq!(addresses.lines().count(), 1, "{addresses}");
    assert!(!addresses.contains("tentative"), "{addresses}");
}

/// The first packet after an attach, over and over, node to pod: which side
/// comes up first, and when the carrier is seen, must not cost a packet. Nor
/// must it that a link is not finished, as that of an ADD is not.
#[test]
fn the_first_packet_is_never_lost() {
    on_node(|node| async move {
        let dataplane = ready().await;
        for n in 2..22u8 {
            let pod = Space::new("p");
            let (_, waking) = dataplane.begin_attach(dual(&pod, n)).await.unwrap();
            dataplane.awaken(waking).await.unwrap();
            let (to6, to4) = (ip6(u16::from(n)), ip4(n));
            let answered = node.within({
                let echo = pod.within(move || {
                    let six = std::net::UdpSocket::bind((to6, 7)).unwrap();
                    let four = std::net::UdpSocket::bind((to4, 7)).unwrap();
                    [six, four]
                });
                move || {
                    echo.map(|server| {
                        let to = server.local_addr().unwrap();
                        let any = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
                        let client = std::net::UdpSocket::bind(any).unwrap();
                        let second = Some(std::time::Duration::from_secs(1));
                        client.send_to(b"ping", to).unwrap();
                        server.set_read_timeout(second).unwrap();
                        let (_, from) = server.recv_from(&mut [0; 8]).ok()?;
                        server.send_to(b"pong", from).ok()?;
                        client.set_read_timeout(second).unwrap();
                        client.recv_from(&mut [0; 8]).ok()
                    })
                }
            });
            assert!(answered.iter().all(Option::is_some), "pod {n}: {answered:?}");
        }
    });
}

#[test]
fn a_repaired_link_keeps_its_hardware_addresses() {
    on_node(|node| async move {
        let dataplane = ready().await;
        let pod = Space::new("p");
        let chosen = dataplane.attach(dual(&pod, 2)).await.unwrap();
        assert_ne!(chosen.host.mac, chosen.pod.mac);
        let link = PodLink {
            host_mac: Some(chosen.host.mac),
            pod_mac: Some(chosen.pod.mac),
            ..dual(&pod, 2)
        };
        node.ip(&format!("link del {}", link.host_ifname));
        dataplane.repair(link.clone()).await.unwrap();
        let mac = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
        let host = node.ip(&format!("-o link show {}", link.host_ifname));
        assert!(host.contains(&format!("link/ether {}", mac(chosen.host.mac))), "{host}");
        let inside = pod.ip("-o link show eth0");
        assert!(inside.contains(&format!("link/ether {}", mac(chosen.pod.mac))), "{inside}");
        // And an attach answers with those that it was given.
        dataplane.retire(&link.host_ifname, link.own_addresses().collect(), vec![]).await.unwrap();
        dataplane.reap().await.unwrap();
        let again = dataplane.attach(link).await.unwrap();
        assert_eq!((again.host.mac, again.pod.mac), (chosen.host.mac, chosen.pod.mac));
    });
}

#[test]
fn the_gateways_are_those_of_the_crate() {
    on_node(|node| async move {
        let dataplane = ready().await;
        let pod = Space::new("p");
        let wired = dataplane.attach(dual(&pod, 2)).await.unwrap();
        let addresses = node.ip(&format!("addr show dev {}", wired.host.name));
        assert!(addresses.contains(&format!("inet6 {GATEWAY6}/64")), "{addresses}");
        assert!(addresses.contains(&format!("inet {GATEWAY4}/32")), "{addresses}");
    });
}

#[test]
fn one_family_means_nothing_of_the_other() {
    on_node(|node| async move {
        let dataplane = ready().await;
        let (six, four) = (Space::new("p"), Space::new("p"));
        let only6 = PodLink { ip4: None, ..dual(&six, 6) };
        let only4 = PodLink { ip6: None, ..dual(&four, 4) };
        let wired6 = dataplane.attach(only6.clone()).await.unwrap();
        let wired4 = dataplane.attach(only4.clone()).await.unwrap();
        assert!(node.reaches(ip6(6)) && node.reaches(ip4(4)));
        assert!(!six.ip("-4 addr").contains("10.244") && six.ip("-4 route").is_empty());
        assert!(!four.ip("-6 addr show dev eth0").contains("inet6"));
        assert!(!node.ip(&format!("addr show {}", wired6.host.name)).contains("169.254"));
        assert!(!node.ip(&format!("addr show {}", wired4.host.name)).contains("fe80"));
        for link in [only6, only4] {
            assert_eq!(dataplane.verify(link).await.unwrap(), vec![]);
        }
    });
}

#[test]
fn pods_reach_each_other_and_more_addresses_work() {
    on_node(|node| async move {
        let dataplane = ready().await;
        let (one, two) = (Space::new("p"), Space::new("p"));
        let mut link = dual(&two, 3);
        link.addresses = vec![address("203.0.113.9"), address("2001:db8:e::9")];
        link.anycast = vec![address("192.0.2.1"), address("2001:db8:ca::1")];
        dataplane.attach(dual(&one, 2)).await.unwrap();
        dataplane.attach(link.clone()).await.unwrap();
        for to in link.own_addresses() {
            assert!(one.reaches(to) && node.reaches(to), "{to}");
        }
        assert!(two.reaches(ip6(2)) && two.reaches(ip4(2)));
        let loopback = two.ip("addr show lo");
        assert!(loopback.contains("192.0.2.1/32") && loopback.contains("2001:db8:ca::1/128"));
        assert_eq!(dataplane.verify(link).await.unwrap(), vec![]);
        let mut routes = dataplane.pod_routes().await.unwrap();
        routes.retain(|route| route.ifname == host_ifname(&two.name) && route.ours);
        assert_eq!(routes.len(), 4, "{routes:?}");
    });
}

#[test]
fn nothing_but_the_host_interface_ever_appears() {
    on_node(|node| async move {
        let dataplane = ready().await;
        let mut monitor = Command::new("ip")
            .args(["-n", &node.name, "monitor", "link"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let pods: Vec<Space> = (0..5).map(|_| Space::new("p")).collect();
        for (pod, n) in pods.iter().zip(2..) {
            dataplane.attach(dual(pod, n)).await.unwrap();
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        monitor.kill().unwrap();
        let output = monitor.wait_with_output().unwrap();
        let seen = String::from_utf8(output.stdout).unwrap();
        let names: Vec<&str> = seen
            .lines()
            .filter(|line| line.contains("mtu"))
            .filter_map(|line| line.split(": ").nth(1))
            .collect();
        assert!(names.len() >= 5, "{seen}");
        assert!(names.iter().all(|name| name.starts_with("flock")), "{names:?}");
    });
}

#[test]
fn taken_names_and_addresses_are_told_apart() {
    on_node(|node| async move {
        let dataplane = ready().await;
        let (one, two) = (Space::new("p"), Space::new("p"));
        dataplane.attach(dual(&one, 2)).await.unwrap();
        let before = (node.picture(), one.picture(), two.picture());
        // The same host name, another pod.
        let link = PodLink { host_ifname: host_ifname(&one.name), ..dual(&two, 3) };
        let error = dataplane.attach(link).await.unwrap_err();
        assert!(matches!(&error, Error::NameTaken { name } if *name == host_ifname(&one.name)));
        // The same pod, another host name.
        let link = PodLink { host_ifname: host_ifname_nth(&one.name, 1), ..dual(&one, 3) };
        let error = dataplane.attach(link).await.unwrap_err();
        assert!(matches!(&error, Error::PodInterfaceTaken { ifname, .. } if ifname == "eth0"));
        // An address that has a route already, of either family.
        let error = dataplane.attach(dual(&two, 2)).await.unwrap_err();
        assert!(matches!(error, Error::AddressTaken { address } if address == ip6(2)), "{error}");
        let link = PodLink { ip6: None, ..dual(&two, 2) };
        let error = dataplane.attach(link).await.unwrap_err();
        assert!(matches!(error, Error::AddressTaken { address } if address == ip4(2)), "{error}");
        assert_eq!((node.picture(), one.picture(), two.picture()), before);
        dataplane.attach(dual(&two, 3)).await.unwrap();
    });
}

#[test]
fn what_is_not_a_pods_namespace_is_refused() {
    on_node(|_node| async move {
        let dataplane = Dataplane::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let regular = folder.path().join("regular");
        std::fs::write(&regular, "").unwrap();
        let fifo = folder.path().join("fifo");
        lab::run("mkfifo", &[fifo.to_str().unwrap()]);
        for (path, words) in [(&regular, "a regular file"), (&fifo, "a fifo")] {
            let error = Netns::open(path).unwrap_err();
            assert!(matches!(error, Error::NotANetworkNamespace { .. }));
            assert!(error.to_string().contains(words), "{error}");
        }
        let error = Netns::open(folder.path().join("missing")).unwrap_err();
        assert!(matches!(error, Error::NamespaceOpen { .. }));
        assert!(error.to_string().contains("missing") && error.to_string().contains("os error 2"));
        let pod = Space::new("p");
        // A namespace, but of another kind.
        let link = PodLink { netns: Netns::open("/proc/self/ns/pid").unwrap(), ..dual(&pod, 2) };
        let error = dataplane.attach(link).await.unwrap_err();
        assert!(matches!(error, Error::NotANetworkNamespace { .. }), "{error}");
        // The node's own, by whatever path.
        let link = PodLink { netns: Netns::of_this_thread().unwrap(), ..dual(&pod, 2) };
        let error = dataplane.attach(link).await.unwrap_err();
        assert!(matches!(error, Error::OwnNamespace { .. }), "{error}");
        assert_eq!(dataplane.links().await.unwrap(), vec![]);
        assert_eq!(pod.netns().id(), pod.netns().id());
        assert_ne!(pod.netns(), Netns::of_this_thread().unwrap());
    });
}

#[test]
fn senseless_requests_never_reach_the_kernel() {
    on_node(|_node| async move {
        let dataplane = Dataplane::start().unwrap();
        let pod = Space::new("p");
        let base = dual(&pod, 2);
        for ifname in ["", "a-name-too-long-for-it", "a/b", "a b", ".", ".."] {
            let link = PodLink { ifname: ifname.to_owned(), ..base.clone() };
            let error = dataplane.attach(link).await.unwrap_err();
            assert!(matches!(error, Error::BadName { .. }), "{ifname}: {error}");
        }
        for host_ifname in ["eth0", "flockXYZ", "flock1234567", "flock123456789"] {
            let link = PodLink { host_ifname: host_ifname.to_owned(), ..base.clone() };
            let error = dataplane.attach(link).await.unwrap_err();
            assert!(matches!(error, Error::BadRequest { .. }), "{host_ifname}: {error}");
        }
        let link = PodLink { ip4: None, anycast: vec![address("192.0.2.1")], ..base.clone() };
        let error = dataplane.attach(link).await.unwrap_err();
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
        let link = PodLink { ip4: None, ip6: None, ..base.clone() };
        assert!(matches!(dataplane.attach(link).await.unwrap_err(), Error::BadRequest { .. }));
        // The kernel's own refusal names the step.
        let error = dataplane.attach(PodLink { mtu: 10, ..base }).await.unwrap_err();
        assert!(matches!(error, Error::Kernel { .. }), "{error}");
        assert!(error.to_string().contains("create veth flock"), "{error}");
    });
}

#[test]
fn ipv6_switched_off_by_the_runtime_is_switched_on() {
    on_node(|node| async move {
        let dataplane = ready().await;
        let pod = Space::new("p");
        pod.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        pod.sysctl("net/ipv6/conf/default/disable_ipv6", "1");
        node.sysctl("net/ipv6/conf/default/disable_ipv6", "1");
        let mut link = dual(&pod, 2);
        link.anycast = vec![address("2001:db8:ca::1")];
        dataplane.attach(link.clone()).await.unwrap();
        assert!(node.reaches(ip6(2)));
        assert_eq!(dataplane.verify(link).await.unwrap(), vec![]);
    });
}

#[test]
fn many_at_once_are_all_wired() {
    on_node(|node| async move {
        let dataplane = ready().await;
        let pods: Vec<Space> = (0..20).map(|_| Space::new("p")).collect();
        let mut tasks = tokio::task::JoinSet::new();
        for (pod, n) in pods.iter().zip(2..) {
            let (dataplane, link) = (dataplane.clone(), dual(pod, n));
            tasks.spawn(async move { dataplane.attach(link).await });
        }
        while let Some(result) = tasks.join_next().await {
            result.unwrap().unwrap();
        }
        assert_eq!(dataplane.links().await.unwrap().len(), 20);
        assert!((2..22).all(|n| node.reaches(ip4(n))));
    });
}

#[test]
fn names_are_those_of_the_contract() {
    // FNV-1a-32 of "a" and of "foobar", from the algorithm's own test suite.
    assert_eq!(host_ifname("a"), "flocke40c292c");
    assert_eq!(host_ifname("foobar"), "flockbf9cf968");
    assert_eq!(host_ifname_nth("a", 0), host_ifname("a"));
    let all: std::collections::HashSet<String> =
        (0..100).map(|attempt| host_ifname_nth("a", attempt)).collect();
    assert_eq!(all.len(), 100);
    assert!(all.iter().all(|name| name.len() == 13 && name.starts_with("flock")));
}
