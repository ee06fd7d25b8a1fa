//! Each kind of drift is named, and repair mends it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use flock_dataplane::{Dataplane, Difference, Error, NodeSettings, PodLink};
use lab::{Space, address, dual, on_node};

fn link(pod: &Space, n: u8) -> PodLink {
    let mut link = dual(pod, n);
    link.addresses = vec![address("203.0.113.9")];
    link.anycast = vec![address("192.0.2.1"), address("2001:db8:ca::1")];
    link
}

/// Where a test's hand interferes, the command, and the words that name it.
/// `{if}` is the host interface.
const DRIFTS: &[(&str, &str, &[&str])] = &[
    (
        "node",
        "link del {if}",
        &["host interface {if} is gone", "interface eth0 is gone in the pod"],
    ),
    ("node", "link set {if} down", &["host interface {if} is down"]),
    ("node", "link set {if} mtu 1400", &["host interface {if} has MTU 1400, not 1500"]),
    ("node", "link set {if} group 233492480", &["host interface {if} is marked for deletion"]),
    (
        "node",
        "addr del fe80::1/64 dev {if}",
        &["address fe80::1/64 is missing on host interface {if}"],
    ),
    ("node", "addr del 169.254.1.1/32 dev {if}", &["address 169.254.1.1/32 is missing on host"]),
    ("node", "route del 10.244.1.2/32", &["route 10.244.1.2/32 to host interface {if} is missing"]),
    (
        "node",
        "-6 route del 2001:db8:a::2/128",
        &["route 2001:db8:a::2/128 to host interface {if} is missing"],
    ),
    (
        "node",
        "route replace 10.244.1.2/32 dev up0",
        &["route 10.244.1.2/32 points to up0, not to host"],
    ),
    (
        "node",
        "-6 route replace 2001:db8:a::2/128 dev up0",
        &["route 2001:db8:a::2/128 points to up0"],
    ),
    (
        "node",
        "route del 203.0.113.9/32",
        &["route 203.0.113.9/32 to host interface {if} is missing"],
    ),
    ("pod", "link del eth0", &["host interface {if} is gone", "interface eth0 is gone in the pod"]),
    ("pod", "link set eth0 down", &["interface eth0 is down in the pod"]),
    ("pod", "link set eth0 mtu 1600", &["interface eth0 in the pod has MTU 1600, more than 1500"]),
    (
        "pod",
        "addr del 10.244.1.2/32 dev eth0",
        &["address 10.244.1.2/32 is missing on eth0 in the pod"],
    ),
    (
        "pod",
        "addr del 2001:db8:a::2/128 dev eth0",
        &["address 2001:db8:a::2/128 is missing on eth0"],
    ),
    (
        "pod",
        "route del default",
        &["default route 0.0.0.0/0 via 169.254.1.1 out of eth0 is missing in the pod"],
    ),
    (
        "pod",
        "-6 route del default",
        &["default route ::/0 via fe80::1 out of eth0 is missing in the pod"],
    ),
    ("pod", "link set lo down", &["interface lo is down in the pod"]),
    (
        "pod",
        "addr del 192.0.2.1/32 dev lo",
        &["anycast address 192.0.2.1/32 is missing on lo in the pod"],
    ),
    (
        "pod",
        "addr del 2001:db8:ca::1/128 dev lo",
        &["anycast address 2001:db8:ca::1/128 is missing"],
    ),
];

#[test]
fn every_drift_is_named_and_mended() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        node.ip("link add up0 type veth peer name up1");
        node.ip("link set up0 up");
        let pod = Space::new("p");
        let link = link(&pod, 2);
        dataplane.attach(link.clone()).await.unwrap();
        let picture = || (node.picture(), pod.picture());
        let before = picture();
        for (place, command, words) in DRIFTS {
            let command = command.replace("{if}", &link.host_ifname);
            if *place == "node" {
                node.ip(&command)
            } else {
                pod.ip(&command)
            };
            let found = dataplane.verify(link.clone()).await.unwrap();
            let text: Vec<String> = found.iter().map(ToString::to_string).collect();
            for words in *words {
                let words = words.replace("{if}", &link.host_ifname);
                assert!(text.iter().any(|line| line.contains(&words)), "{command}: {text:?}");
            }
            assert_eq!(dataplane.repair(link.clone()).await.unwrap(), found, "{command}");
            assert_eq!(dataplane.verify(link.clone()).await.unwrap(), vec![], "{command}");
            assert_eq!(dataplane.repair(link.clone()).await.unwrap(), vec![], "{command}");
            assert!(node.reaches(lab::ip6(2)) && node.reaches(lab::ip4(2)), "{command}");
            assert!(pod.reaches(lab::address("169.254.1.1")), "{command}");
        }
        // Nothing is left of the disturbances but indices and MACs.
        assert_eq!(before.0.lines().count(), picture().0.lines().count());
        assert_eq!(before.1.lines().count(), picture().1.lines().count());
    });
}

#[test]
fn switches_and_admissions_are_part_of_it() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pod = Space::new("p");
        let link = link(&pod, 2);
        dataplane.attach(link.clone()).await.unwrap();
        for (switch, words) in
            [("proxy_arp", "proxy_arp is off"), ("forwarding", "forwarding is off")]
        {
            node.sysctl(&format!("net/ipv4/conf/{}/{switch}", link.host_ifname), "0");
            let found = dataplane.repair(link.clone()).await.unwrap();
            assert!(found.len() == 1 && found[0].to_string().contains(words), "{found:?}");
        }
        node.nft("flush set inet flock anycast6");
        let found = dataplane.repair(link.clone()).await.unwrap();
        assert!(matches!(found.as_slice(), [Difference::AnycastNotAdmitted { .. }]), "{found:?}");
        pod.ip("-6 neigh del fe80::1 dev eth0");
        let found = dataplane.repair(link.clone()).await.unwrap();
        assert!(matches!(found.as_slice(), [Difference::PodNeighbourUnknown { .. }]), "{found:?}");
        assert!(pod.ip("-6 neigh show").contains("PERMANENT"));
        node.nft("delete table inet flock");
        assert!(!dataplane.rules_present().await.unwrap());
        assert_eq!(dataplane.repair(link.clone()).await.unwrap().len(), 2);
        assert!(dataplane.rules_present().await.unwrap());
        assert_eq!(dataplane.verify(link).await.unwrap(), vec![]);
    });
}

/// A chained `tuning` plugin may make it smaller, and that is to stay.
#[test]
fn a_smaller_mtu_in_the_pod_is_its_own_choice() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pod = Space::new("p");
        let link = link(&pod, 2);
        dataplane.attach(link.clone()).await.unwrap();
        pod.ip("link set eth0 mtu 1300");
        assert_eq!(dataplane.verify(link.clone()).await.unwrap(), vec![]);
        node.ip("route del 10.244.1.2/32");
        node.ip(&format!("link set {} mtu 1300", link.host_ifname));
        assert_eq!(dataplane.repair(link.clone()).await.unwrap().len(), 2);
        assert!(pod.ip("link show eth0").contains("mtu 1300"));
        assert!(node.ip(&format!("link show {}", link.host_ifname)).contains("mtu 1500"));
    });
}

#[test]
fn a_wrong_peer_is_seen_and_replaced() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pods = [Space::new("p"), Space::new("p")];
        let links = [link(&pods[0], 2), dual(&pods[1], 3)];
        for link in &links {
            dataplane.attach(link.clone()).await.unwrap();
        }
        // The right name on the node, the right name in the pod, and another
        // pod's wire in between.
        let (one, two) = (&links[0].host_ifname, &links[1].host_ifname);
        node.ip(&format!("link set {one} down"));
        node.ip(&format!("link set {two} down"));
        node.ip(&format!("link set {one} name swap"));
        node.ip(&format!("link set {two} name {one}"));
        node.ip(&format!("link set swap name {two}"));
        let found = dataplane.verify(links[0].clone()).await.unwrap();
        assert!(found.iter().any(|one| matches!(one, Difference::WrongPeer { .. })), "{found:?}");
        // The pod's own end is in the way, and it is somebody's: not ours to
        // delete, so the repair says so.
        let error = dataplane.repair(links[0].clone()).await.unwrap_err();
        assert!(matches!(error, Error::PodInterfaceTaken { .. }), "{error}");
        // A renamed end in the pod is of our own pair: replaced.
        node.ip(&format!("link del {two}"));
        dataplane.repair(links[0].clone()).await.unwrap();
        pods[0].ip("link set eth0 down");
        pods[0].ip("link set eth0 name eth7");
        dataplane.repair(links[0].clone()).await.unwrap();
        assert!(node.reaches(lab::ip4(2)) && !pods[0].ip("link").contains("eth7"));
    });
}

#[test]
fn a_foreign_interface_of_that_name_is_left_alone() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let pod = Space::new("p");
        let link = dual(&pod, 2);
        node.ip(&format!("link add {} type vxlan id 7 dstport 4789", link.host_ifname));
        let found = dataplane.verify(link.clone()).await.unwrap();
        assert!(found.iter().any(|one| matches!(one, Difference::HostLinkForeign { .. })));
        let error = dataplane.repair(link.clone()).await.unwrap_err();
        assert!(matches!(error, Error::NameTaken { .. }), "{error}");
        assert!(node.ip("-d link").contains("vxlan id 7"));
    });
}
