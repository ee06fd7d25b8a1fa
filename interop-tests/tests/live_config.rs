//! The standalone directory while the agent runs: what changes takes effect at once, what is bad
//! is refused as a whole, what is deleted is kept and told.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::net::IpAddr;

use anyhow::ensure;
use rack::manifests::{self, Writing, node_config};
use rack::node::{Node, POD_CIDR4, POD_CIDR6};
use rack::pod::{Pod, addresses};
use rack::probe::ping;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

fn finding(node: &Node, check: &str) -> Value {
    // check exits 1 when something failed; the report is printed all the same.
    let mut command = node.netns().command(rack::binaries::flock_agent().unwrap()).unwrap();
    command.args(["check", "-o", "json"]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    let report: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == check).cloned().unwrap_or_default()
}

fn await_finding(node: &Node, check: &str, status: &str, word: &str) {
    until(&format!("{check} to be {status}"), PATIENCE, || {
        let found = finding(node, check);
        ensure!(found["status"] == status, "{found}");
        ensure!(found["message"].as_str().unwrap_or_default().contains(word), "{found}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_bad_nodeconfig_is_refused_as_a_whole_and_the_last_good_one_stays() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let bad = [
        ("spec.cidr4[0]", node_config(node.name(), &[POD_CIDR6], &["10.0.0.0/33"])),
        ("spec.mtu", {
            let mut config = node_config(node.name(), &["2001:db8:b::/64"], &["10.7.0.0/24"]);
            config["spec"]["mtu"] = json!(12);
            config
        }),
        ("cidr5", {
            let mut config = node_config(node.name(), &["2001:db8:b::/64"], &["10.7.0.0/24"]);
            config["spec"]["cidr5"] = json!([]);
            config
        }),
    ];
    for (n, (path, config)) in bad.iter().enumerate() {
        node.configure(config).unwrap();
        await_finding(&node, "NodeConfig", "fail", path);
        let pod = Pod::new(&format!("p{n}")).unwrap();
        let list = addresses(&plugin.add(&pod).unwrap()).unwrap();
        assert!(
            list[1].to_string().starts_with("10.244.1."),
            "the last good one is in force: {list:?}"
        );
    }
    node.configure(&node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4])).unwrap();
    await_finding(&node, "NodeConfig", "ok", "in force");
}

#[test]
fn a_deleted_nodeconfig_keeps_pods_and_refuses_new_ones() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let (old, new) = (Pod::new("old").unwrap(), Pod::new("new").unwrap());
    let result = plugin.add(&old).unwrap();
    fs::remove_file(node.file("standalone/nodeconfig.yaml")).unwrap();
    await_finding(&node, "NodeConfig", "fail", "deleted");
    let refusal = plugin.try_add(&new).unwrap().unwrap_err();
    assert!(refusal.msg.contains("deleted") && refusal.code == 11, "{refusal}");
    assert_eq!(node.plugin().unwrap().speaking("1.1.0").status().unwrap().unwrap_err().code, 50);
    for address in addresses(&result).unwrap() {
        ping(node.netns(), address).unwrap();
    }
    plugin.check(&old, &result).unwrap().unwrap();
    node.configure(&node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4])).unwrap();
    await_finding(&node, "NodeConfig", "ok", "in force");
    plugin.add(&new).unwrap();
}

#[test]
fn a_bad_nodeconfig_after_a_deletion_brings_the_last_good_one_back() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    fs::remove_file(node.file("standalone/nodeconfig.yaml")).unwrap();
    await_finding(&node, "NodeConfig", "fail", "deleted");
    node.write("nodeconfig.yaml", "", Writing::InPlace).unwrap();
    await_finding(&node, "NodeConfig", "fail", "refused");
    assert!(!finding(&node, "NodeConfig").to_string().contains("deleted"));
    plugin.add(&Pod::new("pod").unwrap()).unwrap();
}

#[test]
fn a_directory_that_is_swapped_or_made_anew_is_followed() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let root = node.file("standalone");
    let config = serde_json::to_string(&node_config(node.name(), &[POD_CIDR6], &["10.7.0.0/24"]));
    let next = node.file("next");
    manifests::write(&next.join("nodeconfig.yaml"), &config.unwrap(), Writing::Renamed).unwrap();
    fs::create_dir(next.join("pods")).unwrap();
    fs::rename(&root, node.file("old")).unwrap();
    fs::rename(&next, &root).unwrap();
    let gets = |name: &str, start: &str| {
        let pod = Pod::new(name).unwrap();
        let got = addresses(&plugin.add(&pod).unwrap()).unwrap();
        assert!(got[1].to_string().starts_with(start), "{got:?}");
        plugin.del(&pod).unwrap();
    };
    gets("swapped", "10.7.0.");
    let written = manifests::pod("default", "told", &[("addresses", "192.0.2.9")]);
    node.write_pod(&written, Writing::Renamed).unwrap();
    gets("told", "192.0.2.9");
    fs::remove_dir_all(&root).unwrap();
    await_finding(&node, "NodeConfig", "fail", "deleted");
    node.configure(&node_config(node.name(), &[POD_CIDR6], &["10.8.0.0/24"])).unwrap();
    await_finding(&node, "NodeConfig", "ok", "in force");
    gets("anew", "10.8.0.");
}

#[test]
fn a_fifo_among_the_files_stops_nobody() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pipe = |relative: &str| {
        let path = node.file("standalone").join(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    };
    pipe("pods/x.yaml");
    pipe("nodeconfig.yaml");
    await_finding(&node, "pod manifest", "warn", "not a regular file");
    await_finding(&node, "NodeConfig", "fail", "not a regular file");
    plugin.add(&Pod::new("pod").unwrap()).unwrap();
}

#[test]
fn a_network_removed_under_living_pods_is_kept_and_new_pods_are_refused() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let old = Pod::new("old").unwrap();
    let held = addresses(&plugin.add(&old).unwrap()).unwrap();
    node.configure(&node_config(node.name(), &[POD_CIDR6], &["10.7.0.0/24"])).unwrap();
    until("the new network", PATIENCE, || {
        let routes = node.netns().ip("route show")?;
        ensure!(routes.contains("unreachable 10.7.0.0/24"), "{routes}");
        Ok(())
    })
    .unwrap();
    let routes = node.netns().ip("route show").unwrap();
    assert!(routes.contains("unreachable 10.244.1.0/24"), "it still holds a pod: {routes}");
    let new = Pod::new("new").unwrap();
    let refusal = plugin.try_add(&new).unwrap().unwrap_err();
    assert!(refusal.msg.contains(&held[1].to_string()), "{refusal}");
    ping(node.netns(), held[1]).unwrap();
    plugin.del(&old).unwrap();
    let got = addresses(&plugin.add(&new).unwrap()).unwrap();
    assert!(got[1].to_string().starts_with("10.7.0."), "{got:?}");
    until("the old network to go", PATIENCE, || {
        let routes = node.netns().ip("route show")?;
        ensure!(!routes.contains("10.244.1.0/24"), "{routes}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_added_network_takes_effect_at_once() {
    let node = Node::running().unwrap();
    node.configure(&node_config(node.name(), &[POD_CIDR6], &["10.244.1.0/30"])).unwrap();
    let plugin = node.plugin().unwrap();
    let pods = ["a", "b"].map(|name| Pod::new(name).unwrap());
    plugin.add(&pods[0]).unwrap();
    plugin.try_add(&pods[1]).unwrap().unwrap_err();
    node.configure(&node_config(node.name(), &[POD_CIDR6], &["10.244.1.0/30", "10.8.0.0/24"]))
        .unwrap();
    let got = addresses(&plugin.add(&pods[1]).unwrap()).unwrap();
    assert!(got[1].to_string().starts_with("10.8.0."), "{got:?}");
}

#[test]
fn the_socket_appears_only_with_a_nodeconfig() {
    let mut node = Node::new().unwrap();
    fs::remove_file(node.file("standalone/nodeconfig.yaml")).unwrap();
    node.start().unwrap();
    await_finding_of_waiting(&node);
    assert!(!node.socket().exists());
    node.configure(&node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4])).unwrap();
    node.await_ready().unwrap();
}

fn await_finding_of_waiting(node: &Node) {
    until("the admin socket", PATIENCE, || {
        ensure!(node.admin_socket().exists(), "not there");
        Ok(())
    })
    .unwrap();
    await_finding(node, "NodeConfig", "fail", "not there yet");
}

#[test]
fn manifests_are_read_at_the_call_however_they_were_written() {
    let node = Node::running().unwrap();
    fs::remove_dir_all(node.file("standalone/pods")).unwrap();
    let plugin = node.plugin().unwrap();
    for (n, writing) in
        [Writing::Renamed, Writing::InPlace, Writing::Renamed].into_iter().enumerate()
    {
        let address = format!("192.0.2.{}", n + 10);
        let name = format!("p{n}");
        // Written an instant before the call: it must be seen by it.
        node.write_pod(&manifests::pod("default", &name, &[("addresses", &address)]), writing)
            .unwrap();
        let pod = Pod::new(&name).unwrap();
        let got = addresses(&plugin.add(&pod).unwrap()).unwrap();
        assert!(got.contains(&address.parse::<IpAddr>().unwrap()), "{got:?}");
    }
}

#[test]
fn a_manifest_that_cannot_be_read_fails_its_pod_only() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    node.write("pods/broken.yaml", "metadata: {name: [", Writing::Renamed).unwrap();
    let refusal = plugin.try_add(&Pod::new("broken").unwrap()).unwrap().unwrap_err();
    assert!(refusal.msg.contains("pods/broken.yaml"), "{refusal}");
    plugin.add(&Pod::new("other").unwrap()).unwrap();
    assert_eq!(finding(&node, "pod manifest")["status"], "warn");
}

#[test]
fn a_manifest_that_is_linked_into_place_is_read_at_the_call() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let manifest = manifests::pod("default", "linked", &[("addresses", "192.0.2.10")]);
    let aside = node.file("aside.yaml");
    fs::write(&aside, manifest.to_string()).unwrap();
    let pods = node.file("standalone/pods");
    fs::create_dir_all(&pods).unwrap();
    plugin.add(&Pod::new("other").unwrap()).unwrap();
    fs::hard_link(&aside, pods.join("linked.yaml")).unwrap();
    fs::remove_file(&aside).unwrap();
    let got = addresses(&plugin.add(&Pod::new("linked").unwrap()).unwrap()).unwrap();
    assert!(got.contains(&"192.0.2.10".parse::<IpAddr>().unwrap()), "{got:?}");
}

#[test]
fn an_emptied_manifest_takes_nothing_away() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let manifest = manifests::pod("default", "p", &[("addresses", "192.0.2.11")]);
    node.write_pod(&manifest, Writing::Renamed).unwrap();
    // A call, so that the manifest has been read for certain.
    plugin.add(&Pod::new("other").unwrap()).unwrap();
    node.write("pods/default.p.yaml", "", Writing::InPlace).unwrap();
    await_finding(&node, "pod manifest", "warn", "empty");
    let got = addresses(&plugin.add(&Pod::new("p").unwrap()).unwrap()).unwrap();
    assert!(got.contains(&"192.0.2.11".parse::<IpAddr>().unwrap()), "{got:?}");
}
