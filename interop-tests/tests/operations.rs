//! What an operator and a runtime do besides ADD and DEL: GC, STATUS, the installer, the doctor.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context, ensure};
use rack::binaries;
use rack::manifests::node_config;
use rack::node::{Node, POD_CIDR4, POD_CIDR6};
use rack::pod::Pod;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

#[test]
fn gc_detaches_what_is_not_in_the_list_and_nothing_without_one() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap().speaking("1.1.0");
    let pods = ["a", "b", "c"].map(|name| Pod::new(name).unwrap());
    let results = pods.each_ref().map(|pod| plugin.add(pod).unwrap());
    let call = rack::plugin::Call { command: "GC".into(), ..Default::default() };
    plugin.call(&call, &plugin.input()).unwrap().unwrap_err();
    assert_eq!(node.allocations().unwrap().len(), 3, "no list removes nothing");

    plugin.gc(&[&pods[1]]).unwrap().unwrap();
    let left: Vec<String> = node.allocations().unwrap().into_keys().collect();
    assert_eq!(left, [pods[1].container_id.clone()]);
    plugin.check(&pods[1], &results[1]).unwrap().unwrap();
    plugin.gc(&[]).unwrap().unwrap();
    node.await_no_leftovers().unwrap();
}

#[test]
fn status_waits_for_sessions_until_the_timeout() {
    let mut node = Node::new().unwrap();
    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    config["spec"]["readiness"] = json!({ "sessions": 1, "timeout": "1h" });
    node.configure(&config).unwrap();
    node.start().unwrap();
    let plugin = node.plugin().unwrap().speaking("1.1.0");
    until("the socket", PATIENCE, || {
        ensure!(node.socket().exists(), "not there");
        Ok(())
    })
    .unwrap();
    assert_eq!(plugin.status().unwrap().unwrap_err().code, 50);
    config["spec"]["readiness"] = json!({ "sessions": 1, "timeout": "1s" });
    node.configure(&config).unwrap();
    until("the timeout", PATIENCE, || Ok(plugin.status()?.map(drop)?)).unwrap();
}

#[test]
fn status_says_no_when_no_add_could_be_served() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap().speaking("1.1.0");
    plugin.status().unwrap().unwrap();
    let pod = Pod::new("pod").unwrap();
    plugin.add(&pod).unwrap();
    for (cidr6, cidr4, word) in [
        (&[][..], &[][..], "spec.cidr6"),
        (&["2001:db8:b::/64"][..], &["10.7.0.0/24"][..], "1 pod(s)"),
    ] {
        node.configure(&node_config(node.name(), cidr6, cidr4)).unwrap();
        until("STATUS to say no", PATIENCE, || {
            let refusal = plugin.status()?.err().context("it says yes")?;
            ensure!(refusal.code == 50 && refusal.msg.contains(word), "{refusal}");
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn the_installer_puts_plugin_and_conflist_in_place_and_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let (bin, conf) = (dir.path().join("bin"), dir.path().join("conf"));
    let places = format!("{}:{}", bin.display(), conf.display());
    let mut node = Node::new().unwrap();
    fs::remove_file(node.file("standalone/nodeconfig.yaml")).unwrap();
    node.start_with(&[("FLOCK_INSTALL_CNI", &places)]).unwrap();
    until("the plugin", PATIENCE, || {
        ensure!(bin.join("loopback").exists() && bin.join("flock").exists(), "not there");
        Ok(())
    })
    .unwrap();
    assert!(!conf.join("01-flock.conflist").exists(), "not before the agent can serve");
    node.configure(&node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4])).unwrap();
    node.await_ready().unwrap();
    until("the conflist", PATIENCE, || {
        ensure!(conf.join("01-flock.conflist").exists(), "not there");
        Ok(())
    })
    .unwrap();
    let text = fs::read_to_string(conf.join("01-flock.conflist")).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["cniVersion"], "1.0.0");
    assert_eq!(list["cniVersions"], json!(["0.4.0", "1.0.0", "1.1.0"]));
    assert_eq!(list["plugins"][0]["socket"], node.socket().to_str().unwrap());
    assert_eq!(fs::metadata(bin.join("flock")).unwrap().permissions().mode() & 0o777, 0o755);
    node.terminate().unwrap();
    assert!(conf.join("01-flock.conflist").exists(), "kept on shutdown");
    assert!(!node.socket().exists() && !node.admin_socket().exists());
    let names: Vec<_> = fs::read_dir(&bin).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing is left aside: {names:?}");
}

#[test]
fn install_once_from_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let (bin, conf) = (dir.path().join("bin"), dir.path().join("conf"));
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("loopback"), "somebody's own").unwrap();
    fs::write(bin.join("portmap"), "x").unwrap();
    let places = format!("{}:{}", bin.display(), conf.display());
    let install = || {
        let mut command = Command::new(binaries::flock_agent().unwrap());
        binaries::run(command.args(["install", &places])).unwrap()
    };
    assert!(install().contains("01-flock.conflist"));
    assert_eq!(fs::read_to_string(bin.join("loopback")).unwrap(), "somebody's own");
    let text = fs::read_to_string(conf.join("01-flock.conflist")).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["plugins"][1]["type"], "portmap");
    assert!(install().contains("already"), "a second time changes nothing");
}

#[test]
fn the_doctor_finds_what_is_wrong_and_says_what_to_do() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("pod").unwrap();
    plugin.add(&pod).unwrap();
    let healthy = node.cli(&["check"]).unwrap();
    assert!(!healthy.contains("FAIL"), "{healthy}");
    node.netns().exec("sysctl", &["-qw", "net.ipv6.conf.all.forwarding=0"]).unwrap();
    let error = node.cli(&["check"]).unwrap_err().to_string();
    let report = run_check(&node);
    let broken = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["status"] == "fail")
        .unwrap_or_else(|| panic!("nothing failed: {error}"));
    assert!(broken["message"].as_str().unwrap().contains("net.ipv6.conf.all.forwarding = 0"));
    assert!(broken["remedy"].as_str().unwrap().contains("forwarding=1"));
}

fn run_check(node: &Node) -> Value {
    let mut command = node.netns().command(binaries::flock_agent().unwrap()).unwrap();
    command.args(["check", "-o", "json"]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
}

#[test]
fn pods_are_shown_in_every_form() {
    let node = Node::running().unwrap();
    assert_eq!(node.cli(&["pods"]).unwrap(), "No pods on this node.\n");
    let pod = Pod::new("web").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    let shown = node.cli_json(&["pods"]).unwrap();
    let row = &shown["pods"][0];
    assert_eq!(row["containerId"], pod.container_id);
    assert_eq!((&row["namespace"], &row["name"]), (&json!("default"), &json!("web")));
    assert_eq!((&row["state"], &row["ready"]), (&json!("committed"), &json!(true)));
    let table = node.cli(&["pods"]).unwrap();
    assert!(
        table.starts_with("NAMESPACE") && table.contains("web") && !table.contains('\x1b'),
        "{table}"
    );
    assert!(node.cli(&["pods", "-o", "wide"]).unwrap().contains(&pod.container_id));
    assert!(node.cli(&["pods", "-o", "yaml"]).unwrap().contains("containerId:"));
}
