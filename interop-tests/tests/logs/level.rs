//! `RUST_LOG`, and `flock-agent log-level`.

use anyhow::ensure;
use rack::binaries;
use rack::node::Node;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

use super::scene::await_line;

#[test]
fn a_filter_that_cannot_be_used_is_told_and_info_is_in_force() {
    let mut node = Node::new().unwrap();
    node.start_with(&[("RUST_LOG", "debgu")]).unwrap();
    node.await_ready().unwrap();
    await_line(&node, &["WARN RUST_LOG cannot be used", "value=\"debgu\"", "neither a level"]);
    await_line(&node, &["INFO serving CNI calls"]);
    assert_eq!(node.cli_json(&["log-level"]).unwrap()["filter"], "info");
    node.restart_with(&[("RUST_LOG", "flock_agent::pods=debug")]).unwrap();
    let level = node.cli_json(&["log-level"]).unwrap();
    assert_eq!(level["filter"], "info,flock_agent::pods=debug");
    assert_eq!(level["startedWith"], level["filter"]);
}

/// Debug lines that a STATUS causes.
fn debug_lines(node: &Node) -> usize {
    let plugin = node.plugin().unwrap().speaking("1.1.0");
    let count = || node.log().unwrap().matches("DEBUG cni{op=\"STATUS\"").count();
    let before = count();
    plugin.status().unwrap().unwrap();
    count() - before
}

#[test]
fn the_filter_is_changed_for_a_while_for_good_and_back() {
    let node = Node::running().unwrap();
    assert_eq!(node.cli(&["log-level"]).unwrap(), "Filter:  info\n");
    assert_eq!(debug_lines(&node), 0);
    let set = node.cli_json(&["log-level", "debug", "--for", "2s"]).unwrap();
    assert_eq!((&set["filter"], &set["then"]), (&"debug".into(), &"info".into()));
    assert!(set["secondsLeft"].as_u64().unwrap() <= 2, "{set}");
    await_line(
        &node,
        &["INFO log filter changed", "from=\"info\" to=\"debug\"", "lasts=\"2s\"", "by="],
    );
    assert_eq!(debug_lines(&node), 1);
    await_line(&node, &["log filter is back", "from=\"debug\" to=\"info\""]);
    assert_eq!(debug_lines(&node), 0);
    assert_eq!(node.cli(&["log-level"]).unwrap(), "Filter:  info\n");

    // For good, in parts, and silent; what is said of the change is said all the same.
    node.cli(&["log-level", "flock_agent::server=debug"]).unwrap();
    assert_eq!(debug_lines(&node), 1);
    node.cli(&["log-level", "off"]).unwrap();
    await_line(&node, &["log filter changed", "to=\"off\""]);
    assert_eq!(debug_lines(&node), 0);
    let shown = node.cli(&["log-level", "reset"]).unwrap();
    assert_eq!(shown, "Filter:  info\n");
    await_line(&node, &["log filter changed", "from=\"off\" to=\"info\""]);
}

#[test]
fn what_cannot_be_a_filter_is_refused_and_changes_nothing() {
    let node = Node::running().unwrap();
    let long = "x".repeat(2000);
    for bad in ["verbose", "flock=lots", "", ",", "\x1b[31mred", &long, "info,nonsense"] {
        let error = node.cli(&["log-level", bad]).unwrap_err().to_string();
        // What was asked stands before what was answered.
        let (_, answer) = error.split_once("the agent says").unwrap();
        assert!(answer.contains("filter: ") && answer.len() < 1000, "{answer}");
        assert!(!answer.contains('\x1b'), "{answer:?}");
    }
    for bad in
        [&["debug", "--for", "0s"][..], &["debug", "--for", "25h"], &["reset", "--for", "1m"]]
    {
        node.cli(&[&["log-level"], bad].concat()).unwrap_err();
    }
    // The command line itself refuses these.
    for bad in [&["--for", "10m"][..], &["debug", "--for", "soon"]] {
        let mut command = node.netns().command(binaries::flock_agent().unwrap()).unwrap();
        command.arg("log-level").args(bad).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
        assert_eq!(command.output().unwrap().status.code(), Some(2), "{bad:?}");
    }
    assert_eq!(node.cli_json(&["log-level"]).unwrap()["filter"], "info");
    let log = node.log().unwrap();
    assert!(!log.contains("log filter changed"), "{log}");
}

#[test]
fn hostile_requests_for_another_filter_are_bounded() {
    use std::io::{Read, Write};
    let node = Node::running().unwrap();
    for args in [
        r#"{"filter":7}"#,
        r#"{"filter":"debug","forSeconds":-1}"#,
        r#"{"filter":"debug","forSeconds":18446744073709551615}"#,
        r#"{"filter":"debug","extra":1}"#,
        r#"{}"#,
        r#""debug""#,
    ] {
        let mut stream = std::os::unix::net::UnixStream::connect(node.admin_socket()).unwrap();
        let line = format!("{{\"v\":1,\"op\":\"log.set\",\"args\":{args}}}\n");
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["error"].is_string(), "{args}: {answer}");
    }
    // Who asks is repeated in the log, shortened and harmless.
    let mut stream = std::os::unix::net::UnixStream::connect(node.admin_socket()).unwrap();
    let by = format!("mallory\\n\\u001b[31m{}", "x".repeat(10_000));
    let line = format!(
        "{{\"v\":1,\"op\":\"log.set\",\"args\":{{\"filter\":\"debug\",\"by\":\"{by}\"}}}}\n"
    );
    stream.write_all(line.as_bytes()).unwrap();
    let said = await_line(&node, &["log filter changed", "mallory"]);
    assert!(said.len() < 400 && !said.contains('\x1b'), "{said:?}");
    until("the filter", PATIENCE, || {
        ensure!(node.cli_json(&["log-level"])?["filter"] == "debug");
        Ok(())
    })
    .unwrap();
}
