//! Every removal of what is flock's is told, and a flood is not fatal.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::time::Duration;

use flock_dataplane::{Dataplane, Drift, Error, NodeRoute, NodeSettings};
use lab::{Space, dual, on_node};
use tokio::sync::mpsc::Receiver;

/// Waits for an event; others on the way are of no concern here.
async fn told(events: &mut Receiver<Drift>, wanted: &Drift) {
    let wait = async {
        loop {
            let event = events.recv().await.unwrap();
            if event == *wanted {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(3), wait).await;
    assert!(in_time.is_ok(), "never told: {wanted:?}");
}

#[test]
fn each_kind_of_drift_is_told() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let (old, new) = (Space::new("p"), Space::new("p"));
        // One link from before the watch, one from after.
        dataplane.attach(dual(&old, 2)).await.unwrap();
        let mut events = dataplane.monitor().unwrap();
        dataplane.attach(dual(&new, 3)).await.unwrap();
        let summary = "2001:db8:a::/64".parse().unwrap();
        dataplane.set_route(NodeRoute::Blackhole { prefix: summary }).await.unwrap();
        assert!(events.try_recv().is_err(), "wiring a pod is no drift");
        for link in [dual(&old, 2), dual(&new, 3)] {
            let name = link.host_ifname.clone();
            let destination = lab_net(&link.ip4.unwrap().to_string());
            node.ip(&format!("route del {destination}"));
            told(&mut events, &Drift::RouteGone { destination }).await;
            let destination = lab_net(&link.ip6.unwrap().to_string());
            node.ip(&format!("-6 route replace {destination} dev lo proto static"));
            told(&mut events, &Drift::RouteGone { destination }).await;
            for address in ["169.254.1.1/32", "fe80::1/64"] {
                node.ip(&format!("addr del {address} dev {name}"));
                let address = address.parse().unwrap();
                told(&mut events, &Drift::AddressGone { ifname: name.clone(), address }).await;
            }
            node.ip(&format!("link set {name} down"));
            told(&mut events, &Drift::LinkDown { name: name.clone() }).await;
        }
        node.ip("-6 route del unreachable 2001:db8:a::/64 metric 1000000");
        told(&mut events, &Drift::RouteGone { destination: summary }).await;
        node.ip(&format!("link set {} name renamed", dual(&old, 2).host_ifname));
        told(&mut events, &Drift::LinkGone { name: dual(&old, 2).host_ifname }).await;
        new.ip("link del eth0");
        told(&mut events, &Drift::LinkGone { name: dual(&new, 3).host_ifname }).await;
    });
}

fn lab_net(address: &str) -> ipnet::IpNet {
    address.parse::<std::net::IpAddr>().unwrap().into()
}

#[test]
fn removed_rules_are_told_and_preparing_again_restores_them() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let settings = NodeSettings::default();
        dataplane.prepare_node(&settings).await.unwrap();
        let mut events = dataplane.monitor().unwrap();
        let original = node.nft("list table inet flock");
        for command in [
            "delete table inet flock",
            "flush chain inet flock antispoof",
            "flush chain inet flock forged",
            "flush ruleset",
        ] {
            node.nft(command);
            told(&mut events, &Drift::RulesGone).await;
            assert!(!dataplane.rules_present().await.unwrap(), "{command}");
            dataplane.prepare_node(&settings).await.unwrap();
            assert_eq!(node.nft("list table inet flock"), original, "{command}");
        }
        // Already so: nothing happens, and so nobody is told.
        while events.try_recv().is_ok() {}
        tokio::time::sleep(Duration::from_millis(50)).await;
        while events.try_recv().is_ok() {}
        dataplane.prepare_node(&settings).await.unwrap();
        node.nft("add table inet other");
        node.nft("delete table inet other");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(events.try_recv().is_err());
    });
}

/// A table's end is many events, for each rule, chain and set: one answer.
#[test]
fn rules_that_go_together_are_told_once() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let settings = NodeSettings::default();
        dataplane.prepare_node(&settings).await.unwrap();
        let mut events = dataplane.monitor().unwrap();
        for command in ["flush ruleset", "delete table inet flock", "flush ruleset"] {
            node.nft(command);
            let mut told = Vec::new();
            let quiet = Duration::from_millis(200);
            while let Ok(Some(event)) = tokio::time::timeout(quiet, events.recv()).await {
                told.push(event);
            }
            assert_eq!(told, vec![Drift::RulesGone], "{command}");
            dataplane.prepare_node(&settings).await.unwrap();
        }
    });
}

#[test]
fn a_flood_becomes_one_lost() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let mut events = dataplane.monitor().unwrap();
        // Twice the channel's room, none of it read meanwhile.
        let commands: String = (0..3000)
            .flat_map(|n| {
                let prefix = format!("10.{}.{}.0/24", 100 + n / 256, n % 256);
                ["add", "del"].map(|verb| format!("route {verb} unreachable {prefix} proto 241\n"))
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let batch = folder.path().join("batch");
        std::fs::write(&batch, commands).unwrap();
        let batch = batch.to_str().unwrap().to_owned();
        let name = node.name.clone();
        let flood = tokio::task::spawn_blocking(move || {
            lab::run("ip", &["-n", &name, "-batch", &batch]);
        });
        flood.await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut lost = 0;
        let mut others = 0;
        while let Ok(Some(event)) =
            tokio::time::timeout(Duration::from_millis(200), events.recv()).await
        {
            if event == Drift::Lost { lost += 1 } else { others += 1 }
        }
        assert!((1..=3).contains(&lost) && others < 3000, "{lost} lost, {others} others");
        // And it still watches.
        node.ip("route add unreachable 10.9.9.0/24 proto 241");
        node.ip("route del unreachable 10.9.9.0/24");
        told(&mut events, &Drift::RouteGone { destination: "10.9.9.0/24".parse().unwrap() }).await;
    });
}

#[test]
fn outside_a_runtime_it_is_an_error() {
    let node = Space::new("n");
    let error = node.within(|| Dataplane::start().unwrap().monitor().unwrap_err());
    assert!(matches!(error, Error::NoRuntime));
}
