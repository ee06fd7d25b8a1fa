//! What another does to the policy's table is told; what flock does itself is not, however much.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flock_dataplane::policy::{Change, Layout};
use flock_dataplane::{Dataplane, Drift, Error, NodeSettings};
use lab::policy::{member, members, some};
use lab::{Space, on_node};
use rustix::net::{netlink, sockopt};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use tokio::sync::mpsc::Receiver;

/// Sockets are the process's, so tests that make them deaf take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Leaves room for about one message in each nftables socket of this process; how many there are.
fn narrow() -> usize {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let mut narrowed = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let number = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let Ok(file) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()) else { continue };
        if sockopt::socket_protocol(&file) == Ok(Some(netlink::NETFILTER)) {
            sockopt::set_socket_recv_buffer_size(&file, 1).unwrap();
            narrowed += 1;
        }
    }
    narrowed
}

/// What is told up to the removal of the anti-spoofing rules, which the test does last. It comes by
/// the same socket, and so after everything else.
async fn told(node: &Space, events: &mut Receiver<Drift>) -> Vec<Drift> {
    node.nft("add table inet flock; delete table inet flock");
    let mut told = Vec::new();
    loop {
        let event = tokio::time::timeout(Duration::from_secs(10), events.recv()).await;
        match event.unwrap().unwrap() {
            Drift::RulesGone => return told,
            Drift::NetworksChanged => {}
            other => told.push(other),
        }
    }
}

#[test]
fn every_meddling_is_told() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let mut events = dataplane.monitor().unwrap();
        for command in [
            "delete table inet flock-policy",
            "flush table inet flock-policy",
            "add table inet flock-policy { flags dormant; }",
            "flush chain inet flock-policy egress4",
            "add chain inet flock-policy forward { policy drop; }",
            "add chain inet flock-policy more",
            "add rule inet flock-policy forward accept",
            "insert rule inet flock-policy ingress-anybody accept",
            "add set inet flock-policy more { type ipv4_addr; }",
            "add element inet flock-policy members4 { 10.9.9.9 : 2 }",
            "delete element inet flock-policy members4 { 10.0.0.1 }",
            "delete element inet flock-policy blocks4 { 10.1.0.0/24 }",
            "flush set inet flock-policy allowed",
            "flush map inet flock-policy ranges",
            // The last, because it is also what `told` waits for.
            "flush ruleset",
        ] {
            dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
            dataplane.replace_policy(some(), Layout::default()).await.unwrap();
            while events.try_recv().is_ok() {}
            node.nft(command);
            let told = told(&node, &mut events).await;
            let others = told.iter().any(|drift| *drift != Drift::PolicyGone);
            assert!(!told.is_empty() && !others, "{command}: {told:?}");
        }
    });
}

#[test]
fn our_own_changes_are_not() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let mut events = dataplane.monitor().unwrap();
        for _ in 0..3 {
            dataplane.replace_policy(some(), Layout::default()).await.unwrap();
            let added = vec![member("10.9.0.1", 2)];
            let change = Change { removed: vec![], added: added.clone() };
            dataplane.change_policy(change.clone()).await.unwrap();
            dataplane.change_policy(change).await.unwrap_err();
            let change = Change { removed: added, added: vec![] };
            dataplane.change_policy(change).await.unwrap();
            // Nothing is read meanwhile: this runtime has one thread, and the test is on it.
            let many = members(100_000);
            dataplane.replace_policy(many[..50_000].to_vec(), Layout::default()).await.unwrap();
            let (less, more) = (many[..50_000].to_vec(), many[50_000..].to_vec());
            let change = Change { removed: less, added: more };
            dataplane.change_policy(change).await.unwrap();
            dataplane.replace_policy(many, Layout::default()).await.unwrap();
            dataplane.remove_policy().await.unwrap();
            dataplane.remove_policy().await.unwrap();
        }
        // Others' tables are no concern either.
        node.nft("add table inet flock-policy2");
        node.nft("add table ip flock-policy");
        node.nft("delete table ip flock-policy");
        assert_eq!(told(&node, &mut events).await, vec![]);
    });
}

/// Where there are more events than room, what they may have been about is told, and no more.
#[test]
fn events_that_are_lost_are_about_rules_only() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let mut events = dataplane.monitor().unwrap();
        assert_eq!(narrow(), 1, "not the monitor's alone");
        let flood: String =
            (0..500).map(|n| format!("add table inet t{n}; delete table inet t{n};")).collect();
        node.nft(&flood);
        let mut told = Vec::new();
        while told.len() < 2 {
            let event = tokio::time::timeout(Duration::from_secs(10), events.recv()).await;
            told.push(event.unwrap().unwrap());
        }
        assert_eq!(told, vec![Drift::PolicyGone, Drift::RulesGone]);
    });
}

/// A transaction is refused once for each of its messages; the first is what is told.
#[test]
fn a_refusal_is_heard_where_there_is_room_for_one() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let layout = Layout::default();
        // On both threads, as it comes.
        for _ in 0..16 {
            let (one, other) =
                tokio::join!(dataplane.policy_present(layout), dataplane.policy_present(layout));
            assert!(!one.unwrap() && !other.unwrap());
        }
        assert!(narrow() >= 1);
        let twice: Vec<_> = members(60_000).into_iter().chain(members(60_000)).collect();
        for _ in 0..4 {
            let error = dataplane.replace_policy(twice.clone(), layout).await.unwrap_err();
            assert!(matches!(error, Error::Kernel { .. }), "{error}");
            dataplane.replace_policy(some(), layout).await.unwrap();
            assert!(dataplane.policy_present(layout).await.unwrap());
        }
        node.nft("delete table inet flock-policy");
    });
}
