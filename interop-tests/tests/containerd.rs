//! Real containerd as the client, asked over its CRI as kubelet asks.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread;

use rack::containerd::Containerd;
use rack::netns::Netns;
use rack::network;
use rack::node::{NODE_V4, NODE_V6, Node};
use rack::recorder::Recorder;
use rack::{binaries, facts, probe};

const HOST_PORT: u16 = 18080;
const POD_PORT: u16 = 8080;

/// The plugins, with flock itself in the role of `loopback`, which is how it is
/// installed where no other is there.
fn plugins(node: &Node) -> PathBuf {
    let bin = node.install_plugins().unwrap();
    fs::remove_file(bin.join("loopback")).unwrap();
    symlink(binaries::flock().unwrap(), bin.join("loopback")).unwrap();
    bin
}

#[test]
fn a_sandbox_gets_addresses_talks_and_leaves_nothing() {
    let node = Node::running().unwrap();
    let network = node.flock_network();
    let bin = plugins(&node);
    let recorder = Recorder::wrap(&bin.join("flock")).unwrap();
    let containerd = Containerd::start(&node, &bin, &network.conflist("rack", &[])).unwrap();
    let cri = containerd.cri();

    let config = containerd.sandbox("web-0");
    let id = cri.run_pod_sandbox(&config).unwrap();
    let status = cri.pod_sandbox_status(&id).unwrap();
    assert_eq!(status.addresses.len(), 2, "both families: {status:?}");
    let netns = Netns::of_someone_else(&status.netns).unwrap();
    assert!(facts::interface(&netns, "lo").unwrap().up);
    let bound = facts::global_addresses(&netns, "eth0").unwrap();
    for address in &status.addresses {
        assert!(bound.iter().any(|(there, _)| there == address), "{address} not in {bound:?}");
        probe::await_ping(node.netns(), *address).unwrap();
    }
    for target in [NODE_V4, NODE_V6] {
        probe::await_ping(&netns, target.parse().unwrap()).unwrap();
    }

    let added = recorder.calls("ADD").unwrap();
    assert_eq!(added.len(), 1);
    for call in &added {
        assert_eq!(call.container_id, id);
        for (key, value) in
            [("NAMESPACE", "default"), ("NAME", "web-0"), ("UID", config.uid.as_str())]
        {
            let argument = format!("K8S_POD_{key}={value}");
            assert!(call.args.split(';').any(|part| part == argument), "{argument}: {call:?}");
        }
    }

    cri.stop_pod_sandbox(&id).unwrap();
    node.await_no_leftovers().unwrap();
    cri.remove_pod_sandbox(&id).unwrap();
    assert!(!netns.exists());
    let deleted = recorder.calls("DEL").unwrap();
    assert!(deleted.iter().any(|call| !call.netns.is_empty()), "{deleted:?}");
    assert!(deleted.iter().any(|call| call.netns.is_empty()), "the second DEL: {deleted:?}");
    node.await_no_leftovers().unwrap();
}

#[test]
fn host_ports_and_bandwidth_work() {
    let node = Node::running().unwrap();
    let network = node.flock_network();
    let bin = plugins(&node);
    let conflist = network.conflist("rack", &[network::portmap(), network::bandwidth()]);
    let containerd = Containerd::start(&node, &bin, &conflist).unwrap();
    let cri = containerd.cri();

    let mut config = containerd.sandbox("web-0");
    config.host_ports.push((POD_PORT, HOST_PORT));
    for direction in ["ingress", "egress"] {
        config.annotations.insert(format!("kubernetes.io/{direction}-bandwidth"), "100M".into());
    }
    let id = cri.run_pod_sandbox(&config).unwrap();
    let status = cri.pod_sandbox_status(&id).unwrap();
    let netns = Netns::of_someone_else(&status.netns).unwrap();
    let _greeter =
        probe::Greeter::start(&netns, SocketAddr::new("::".parse().unwrap(), POD_PORT)).unwrap();
    for target in [NODE_V4, NODE_V6] {
        let target = SocketAddr::new(target.parse().unwrap(), HOST_PORT);
        probe::await_greeting(node.outside().unwrap(), target).unwrap();
    }
    let queues = node.netns().exec("tc", &["qdisc", "show"]).unwrap();
    assert_eq!(queues.matches("qdisc tbf").count(), 2, "one each way: {queues}");

    cri.stop_pod_sandbox(&id).unwrap();
    cri.remove_pod_sandbox(&id).unwrap();
    node.await_no_leftovers().unwrap();
}

#[test]
fn sandboxes_that_start_at_once_get_addresses_of_their_own() {
    const COUNT: usize = 8;
    let node = Node::running().unwrap();
    let network = node.flock_network();
    let bin = plugins(&node);
    let containerd = Containerd::start(&node, &bin, &network.conflist("rack", &[])).unwrap();
    let cri = containerd.cri();

    let ids: Vec<_> = thread::scope(|scope| {
        let start = |number| {
            let config = containerd.sandbox(&format!("web-{number}"));
            scope.spawn(move || cri.run_pod_sandbox(&config).unwrap())
        };
        let starting: Vec<_> = (0..COUNT).map(start).collect();
        starting.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut addresses = BTreeSet::new();
    for id in &ids {
        for address in cri.pod_sandbox_status(id).unwrap().addresses {
            probe::await_ping(node.netns(), address).unwrap();
            assert!(addresses.insert(address), "{address} was given twice");
        }
    }
    assert_eq!(addresses.len(), 2 * COUNT);

    thread::scope(|scope| {
        for id in &ids {
            scope.spawn(move || {
                cri.stop_pod_sandbox(id).unwrap();
                cri.remove_pod_sandbox(id).unwrap();
            });
        }
    });
    node.await_no_leftovers().unwrap();
}
