//! A failure at any point leaves both namespaces exactly as before, and a
//! death at any point leaves only what the next start can sweep.
// Fault points are empty without debug assertions.
#![cfg(debug_assertions)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::sync::{Mutex, PoisonError};

use flock_dataplane::fault::{self, Action};
use flock_dataplane::{Dataplane, Error, NodeRoute, NodeSettings, PodLink};
use lab::{Space, address, dual, on_node};

/// Faults are the process's, so these tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn link(pod: &Space) -> PodLink {
    let mut link = dual(pod, 2);
    link.addresses = vec![address("203.0.113.9"), address("2001:db8:e::9")];
    link.anycast = vec![address("192.0.2.1"), address("2001:db8:ca::1")];
    link
}

fn picture(node: &Space, pod: &Space) -> (String, String, String) {
    (node.picture(), pod.picture(), node.nft("list table inet flock"))
}

#[test]
fn an_attach_that_fails_anywhere_never_was() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        for loopback_up in [false, true] {
            let pod = Space::new("p");
            if loopback_up {
                pod.ip("link set lo up");
                pod.ip("addr add 192.0.2.1/32 dev lo");
            }
            let before = picture(&node, &pod);
            let points = fault::ALL.iter().filter(|name| name.starts_with("attach."));
            for point in points {
                let armed = fault::inject(point, Action::Error, 1);
                let error = dataplane.attach(link(&pod)).await.unwrap_err();
                drop(armed);
                assert!(matches!(&error, Error::Fault(f) if f.point == *point), "{error}");
                assert_eq!(picture(&node, &pod), before, "{point}, loopback up: {loopback_up}");
            }
            dataplane.attach(link(&pod)).await.unwrap();
            assert_eq!(dataplane.verify(link(&pod)).await.unwrap(), vec![]);
            dataplane
                .retire(&link(&pod).host_ifname, link(&pod).own_addresses().collect(), vec![])
                .await
                .unwrap();
            dataplane.reap().await.unwrap();
        }
    });
}

/// Refusals of the kernel's own, in the pod's round and in the node's.
#[test]
fn an_attach_that_the_kernel_refuses_half_way_never_was() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pod = Space::new("p");
        let before = picture(&node, &pod);
        let mut twice = link(&pod);
        twice.addresses.push(address("203.0.113.9"));
        let error = dataplane.attach(twice).await.unwrap_err();
        assert!(error.to_string().contains("203.0.113.9"), "{error}");
        assert_eq!(picture(&node, &pod), before);
        node.ip("route add unreachable 203.0.113.9/32");
        let before = picture(&node, &pod);
        let error = dataplane.attach(link(&pod)).await.unwrap_err();
        assert!(matches!(error, Error::AddressTaken { .. }), "{error}");
        assert_eq!(picture(&node, &pod), before);
        let multicast = PodLink { ip6: Some("ff02::5".parse().unwrap()), ..link(&pod) };
        let error = dataplane.attach(multicast).await.unwrap_err();
        assert!(error.to_string().contains("ff02::5"), "{error}");
        assert_eq!(picture(&node, &pod), before);
    });
}

#[test]
fn the_other_points_fail_and_succeed_when_repeated() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pod = Space::new("p");
        dataplane.attach(link(&pod)).await.unwrap();
        let route = NodeRoute::Blackhole { prefix: "10.244.1.0/24".parse().unwrap() };
        for point in ["set-route.before", "set-route.after"] {
            let armed = fault::inject(point, Action::Error, 1);
            assert!(matches!(dataplane.set_route(route.clone()).await, Err(Error::Fault(_))));
            dataplane.set_route(route.clone()).await.unwrap();
            drop(armed);
        }
        let name = link(&pod).host_ifname;
        for point in ["retire.before", "retire.after"] {
            let armed = fault::inject(point, Action::Error, 1);
            let own: Vec<_> = link(&pod).own_addresses().collect();
            assert!(matches!(
                dataplane.retire(&name, own.clone(), vec![]).await,
                Err(Error::Fault(_))
            ));
            dataplane.retire(&name, own, vec![]).await.unwrap();
            drop(armed);
        }
        for point in ["reap.before", "reap.after"] {
            let armed = fault::inject(point, Action::Error, 1);
            assert!(matches!(dataplane.reap().await, Err(Error::Fault(_))));
            dataplane.reap().await.unwrap();
            drop(armed);
        }
        assert!(!node.ip("link show").contains("flock"));
    });
}

/// Every point is passed by some operation, under its name in the list; the
/// second pass can be asked for.
#[test]
fn a_fault_may_wait_for_its_turn() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|_node| async move {
        let dataplane = Dataplane::start().unwrap();
        let _armed = fault::inject("reap.before", Action::Error, 2);
        dataplane.reap().await.unwrap();
        assert!(matches!(dataplane.reap().await, Err(Error::Fault(_))));
        dataplane.reap().await.unwrap();
    });
}

/// Runs this test binary again as the process that dies.
#[test]
fn a_crash_at_any_point_leaves_what_a_restart_can_sweep() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(name) = std::env::var("FLOCK_TEST_VICTIM") {
        return be_the_victim(&name);
    }
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let untouched = node.picture();
        for point in fault::ALL.iter().filter(|name| name.starts_with("attach.")) {
            let pod = Space::new("p");
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "a_crash_at_any_point_leaves_what_a_restart_can_sweep"])
                .env("FLOCK_TEST_VICTIM", format!("{} {}", node.name, pod.name))
                .env("FLOCK_FAULT", format!("{point}=kill"))
                .stdout(std::process::Stdio::null())
                .status()
                .unwrap();
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            assert_eq!(signal, Some(9), "{point}");
            for left in dataplane.links().await.unwrap() {
                dataplane.retire(&left.name, vec![], vec![]).await.unwrap();
            }
            dataplane.reap().await.unwrap();
            assert_eq!(node.picture(), untouched, "{point}");
            // And what is swept can be wired again.
            dataplane.attach(link(&pod)).await.unwrap();
            assert_eq!(dataplane.verify(link(&pod)).await.unwrap(), vec![], "{point}");
            dataplane.retire(&link(&pod).host_ifname, vec![], vec![]).await.unwrap();
            dataplane.reap().await.unwrap();
        }
    });
}

fn be_the_victim(names: &str) {
    let (node, pod) = names.split_once(' ').unwrap();
    // Not ours to delete.
    let node = std::mem::ManuallyDrop::new(Space { name: node.to_owned() });
    let pod = std::mem::ManuallyDrop::new(Space { name: pod.to_owned() });
    node.enter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let _ = Dataplane::start().unwrap().attach(link(&pod)).await;
    });
}
