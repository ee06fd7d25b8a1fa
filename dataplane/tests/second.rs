//! A second interface of one container, beside the first and not instead.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use flock_dataplane::{Dataplane, Difference, NodeSettings, PodLink, host_ifname};
use lab::{Space, address, dual, ip4, ip6, on_node};

fn second(pod: &Space, n: u8) -> PodLink {
    PodLink {
        host_ifname: host_ifname(&format!("{} net1", pod.name)),
        ifname: "net1".to_owned(),
        ..dual(pod, n)
    }
}

fn defaults(pod: &Space) -> String {
    pod.ip("-4 route show default") + &pod.ip("-6 route show default")
}

async fn ready(node: &Space) -> Dataplane {
    let dataplane = Dataplane::start().unwrap();
    dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
    node.ip("addr add 198.51.100.1/32 dev lo");
    node.ip("addr add 2001:db8:b::1/128 dev lo nodad");
    dataplane
}

/// The first interface works as ever, in both families.
fn first_works(node: &Space, pod: &Space) -> bool {
    node.reaches(ip6(2))
        && node.reaches(ip4(2))
        && pod.reaches_from(address("2001:db8:b::1"), Some(ip6(2).into()))
        && pod.reaches_from(address("198.51.100.1"), Some(ip4(2).into()))
}

#[test]
fn the_second_comes_beside_the_first() {
    on_node(|node| async move {
        let dataplane = ready(&node).await;
        let pod = Space::new("p");
        let links = [dual(&pod, 2), second(&pod, 3)];
        dataplane.attach(links[0].clone()).await.unwrap();
        let before = (defaults(&pod), pod.picture(), node.picture());
        // A failure leaves the first as it was.
        let broken = PodLink { ip6: Some("ff02::5".parse().unwrap()), ..links[1].clone() };
        dataplane.attach(broken).await.unwrap_err();
        assert_eq!((defaults(&pod), pod.picture(), node.picture()), before);
        dataplane.attach(links[1].clone()).await.unwrap();
        assert_eq!(defaults(&pod), before.0);
        assert!(first_works(&node, &pod));
        for link in &links {
            assert_eq!(dataplane.verify(link.clone()).await.unwrap(), vec![], "{}", link.ifname);
            assert_eq!(dataplane.repair(link.clone()).await.unwrap(), vec![], "{}", link.ifname);
        }
        let addresses = pod.ip("addr show dev net1");
        assert!(addresses.contains("10.244.1.3/32") && addresses.contains("2001:db8:a::3/128"));
        let name = &links[1].host_ifname;
        assert!(node.ip("route get 10.244.1.3").contains(name));
        assert!(node.ip("-6 route get 2001:db8:a::3").contains(name));
        // The gateway is on both links, each for who asks for it there.
        for ifname in ["eth0", "net1"] {
            let found = pod.ip(&format!("route get 169.254.1.1 oif {ifname}"));
            assert!(found.contains(&format!("dev {ifname}")) && !found.contains("via"), "{found}");
        }
    });
}

#[test]
fn mending_the_second_takes_nothing_from_the_first() {
    on_node(|node| async move {
        let dataplane = ready(&node).await;
        let pod = Space::new("p");
        let links = [dual(&pod, 2), second(&pod, 3)];
        for link in &links {
            dataplane.attach(link.clone()).await.unwrap();
        }
        let before = defaults(&pod);
        // Mended, and replaced by a new pair.
        for (space, command) in [
            (&pod, "addr del 10.244.1.3/32 dev net1"),
            (&pod, "route del 169.254.1.1 dev net1"),
            (&pod, "link set net1 down"),
            (&pod, "link del net1"),
        ] {
            space.ip(command);
            assert_ne!(dataplane.repair(links[1].clone()).await.unwrap(), vec![], "{command}");
            assert_eq!(defaults(&pod), before, "{command}");
            assert!(first_works(&node, &pod), "{command}");
            for link in &links {
                assert_eq!(dataplane.verify(link.clone()).await.unwrap(), vec![], "{command}");
            }
        }
        // With the first gone, the second is missing its default routes, and gets them.
        dataplane
            .retire(&links[0].host_ifname, links[0].own_addresses().collect(), vec![])
            .await
            .unwrap();
        dataplane.reap().await.unwrap();
        let found = dataplane.repair(links[1].clone()).await.unwrap();
        assert!(found.len() == 2, "{found:?}");
        assert!(found.iter().all(|one| matches!(one, Difference::PodRouteMissing { .. })));
        assert_eq!(defaults(&pod).matches("dev net1").count(), 2);
        assert!(node.reaches(ip6(3)) && node.reaches(ip4(3)));
    });
}
