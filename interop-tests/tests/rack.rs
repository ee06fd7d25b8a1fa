//! The rack itself, proven with reference plugins in the place of flock: where
//! these fail, the machine or the rack is at fault and not flock.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rack::chain::Chain;
use rack::fabric::Fabric;
use rack::manifests::{self, Writing};
use rack::names;
use rack::netns::Netns;
use rack::network::{self, PluginUnderTest};
use rack::node::{NODE_V4, NODE_V6, Node, OUTSIDE_V4, OUTSIDE_V6, POD_CIDR4, POD_CIDR6};
use rack::plugin::Plugin;
use rack::pod::{self, Pod};
use rack::process::Daemon;
use rack::router::Brand;
use rack::{binaries, facts, probe};
use serde_json::json;

fn ptp(node: &Node) -> PluginUnderTest {
    PluginUnderTest::ptp(&node.file("host-local"), &[POD_CIDR4, POD_CIDR6])
}

#[test]
fn a_node_and_the_outside_reach_each_other() {
    let node = Node::new().unwrap();
    for target in [OUTSIDE_V4, OUTSIDE_V6] {
        probe::await_ping(node.netns(), target.parse().unwrap()).unwrap();
    }
    for target in [NODE_V4, NODE_V6] {
        probe::await_ping(node.outside().unwrap(), target.parse().unwrap()).unwrap();
    }
    assert_eq!(node.leftovers().unwrap(), Vec::<String>::new());
}

#[test]
fn one_plugin_call_attaches_and_detaches() {
    let node = Node::new().unwrap();
    let plugin = Plugin::new(node.netns(), &ptp(&node)).unwrap();
    let pod = Pod::new("pod").unwrap();
    let result = plugin.add(&pod).unwrap();
    let addresses = pod::addresses(&result).unwrap();
    assert_eq!(addresses.len(), 2);
    let bound = facts::global_addresses(&pod.netns, "eth0").unwrap();
    for address in addresses {
        assert!(bound.iter().any(|(there, _)| *there == address), "{bound:?}");
        probe::await_ping(node.netns(), address).unwrap();
    }
    assert_ne!(node.leftovers().unwrap(), Vec::<String>::new(), "a veth and its routes");
    plugin.del(&pod).unwrap();
    node.await_no_leftovers().unwrap();
}

#[test]
fn a_refusal_of_a_plugin_is_read_as_a_cni_error() {
    let node = Node::new().unwrap();
    let plugin = Plugin::new(node.netns(), &ptp(&node)).unwrap().speaking("9.9.9");
    let refusal = plugin.try_add(&Pod::new("pod").unwrap()).unwrap().unwrap_err();
    assert_eq!(refusal.code, 1, "{refusal}");
}

#[test]
fn a_chain_passes_results_and_wishes_on() {
    let node = Node::new().unwrap();
    let bin = node.install_plugins().unwrap();
    let tuning = network::tuning("net.core.somaxconn", "321");
    let conflist = ptp(&node).conflist("rack", &[network::portmap(), tuning.clone()]);
    let mapping = json!([{ "hostPort": 18080, "containerPort": 8080, "protocol": "tcp" }]);
    let chain = Chain::new(node.netns(), &bin, conflist).unwrap().wish("portMappings", mapping);
    let pod = Pod::new("pod").unwrap();
    let result = chain.add(&pod).unwrap();
    let somaxconn = pod.netns.exec("cat", &["/proc/sys/net/core/somaxconn"]).unwrap();
    assert_eq!(somaxconn.trim(), "321");
    let _greeter = probe::Greeter::start(&pod.netns, "0.0.0.0:8080".parse().unwrap()).unwrap();
    let port = format!("{NODE_V4}:18080").parse().unwrap();
    let seen = probe::await_greeting(node.outside().unwrap(), port).unwrap();
    assert_eq!(seen.to_string(), OUTSIDE_V4);
    // CHECK without portmap, whose own looks for its rules in the wrong family.
    let checkable = Chain::new(node.netns(), &bin, ptp(&node).conflist("rack", &[tuning])).unwrap();
    checkable.check(&pod, &result).unwrap().unwrap();
    chain.del(&pod, Some(&result)).unwrap();
    node.await_no_leftovers().unwrap();
}

#[test]
fn a_dropped_namespace_takes_its_processes_along() {
    let netns = Netns::new("doomed").unwrap();
    let path = netns.path();
    let mut sleeper = netns.command("sleep").unwrap().arg("600").spawn().unwrap();
    rack::wait::until("the sleeper to be inside", rack::wait::PATIENCE, || {
        let inside = binaries::run(Command::new("ip").args(["netns", "pids", netns.name()]))?;
        anyhow::ensure!(!inside.trim().is_empty(), "nobody is inside");
        Ok(())
    })
    .unwrap();
    drop(netns);
    assert!(!sleeper.wait().unwrap().success());
    assert!(!path.exists());
}

#[test]
fn many_namespaces_come_and_go_at_once() {
    let many = Netns::many("crowd", 20).unwrap();
    assert!(many.iter().all(Netns::exists));
    let paths: Vec<_> = many.iter().map(Netns::path).collect();
    Netns::delete_all(many).unwrap();
    assert!(paths.iter().all(|path| !path.exists()));
}

#[test]
fn a_daemon_that_dies_is_noticed_with_its_last_words() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "echo farewell; exit 3"]);
    let mut daemon = Daemon::start("mayfly", &mut command, &dir.path().join("log")).unwrap();
    daemon.await_exit().unwrap();
    let told = daemon.ensure_alive().unwrap_err().to_string();
    assert!(told.contains("mayfly") && told.contains("farewell"), "{told}");
}

#[test]
fn manifests_are_written_both_ways_and_removed() {
    let node = Node::new().unwrap();
    let manifest = manifests::pod("default", "web", &[("anycast", "2001:db8:53::1")]);
    for writing in [Writing::Renamed, Writing::InPlace] {
        node.write_pod(&manifest, writing).unwrap();
        let text = std::fs::read_to_string(node.file("standalone/pods/default.web.yaml")).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), manifest);
    }
    node.remove_pod(&manifest).unwrap();
    assert!(!node.file("standalone/pods/default.web.yaml").exists());
    assert!(!names::is_orphan(node.name()));
}

#[test]
fn a_router_that_is_killed_leaves_no_trace() {
    let fabric = Fabric::builder().tor("tor", Brand::Frr).nodes(1).build().unwrap();
    let pid = fabric.tor("tor").unwrap().router.pid().unwrap();
    // Its own place for last words, outside every directory that we gave it.
    let trace = Path::new("/var/tmp/frr").join(format!("bgpd.{pid}"));
    assert!(trace.exists(), "FRR keeps its traces elsewhere than {}", trace.display());
    drop(fabric);
    assert!(!trace.exists(), "{} stayed", trace.display());
}

/// Runs one of the tests below, which nobody else runs, as a process of its own.
fn accomplice(name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a process with this id has in the places where the rack leaves things.
fn traces(pid: u32) -> Vec<String> {
    let mark = format!("{}{pid}-", names::PREFIX);
    let dirs = [Path::new("/run/netns").to_path_buf(), std::env::temp_dir()];
    let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&mark)).collect()
}

#[test]
fn what_a_killed_run_left_is_swept_by_the_next() {
    let mut victim = accomplice("a_run_that_is_killed");
    let mut said = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("everything is there")));
    let pid = victim.id();
    let before = traces(pid);
    for part in ["-tor", "-node", "-pod", "-bird-"] {
        assert!(before.iter().any(|name| name.contains(part)), "no {part} in {before:?}");
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    // Another test may have begun to sweep already; whoever does it, nothing stays.
    let next = accomplice("a_run_that_comes_later").wait_with_output().unwrap();
    assert!(next.status.success());
    rack::wait::until("nothing to be left", rack::wait::PATIENCE, || {
        let left = traces(pid);
        anyhow::ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
#[ignore = "started, and killed, by what_a_killed_run_left_is_swept_by_the_next"]
fn a_run_that_is_killed() {
    let mut fabric = Fabric::builder().tor("tor", Brand::Bird).nodes(1).build().unwrap();
    fabric.start().unwrap();
    let _pod = fabric.add_pod(1, "pod", &[]).unwrap();
    println!("everything is there");
    let _killed_meanwhile = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
#[ignore = "started by what_a_killed_run_left_is_swept_by_the_next"]
fn a_run_that_comes_later() {
    Netns::new("later").unwrap();
}
