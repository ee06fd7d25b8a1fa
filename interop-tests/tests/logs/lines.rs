//! What the lines say.

use std::collections::BTreeSet;

use rack::capture::message;
use rack::netns::Netns;
use rack::node::Node;
use rack::pod::Pod;
use serde_json::Value;

use super::scene::{PEER, await_line, await_object, establish, node, objects};

/// Cease, Administrative Shutdown, with words (RFC 9003).
fn shutdown(words: &[u8]) -> Vec<u8> {
    let length = u8::try_from(words.len()).unwrap();
    message(3, &[&[6, 2, length], words].concat())
}

#[test]
fn with_debug_what_a_peer_does_is_in_a_span_of_its_own() {
    let node = node("json");
    node.cli(&["log-level", "debug"]).unwrap();
    let mut wire = establish(&node);
    wire.send(&shutdown(b"bye")).unwrap();
    let down = await_object(&node, "session down", |line| line["message"] == "session down");
    let spans = down["spans"].as_array().unwrap();
    assert!(spans.iter().any(|span| span["name"] == "session" && span["peer"] == PEER), "{down}");
}

#[test]
fn a_session_that_ends_says_why_how_long_it_lasted_and_the_peers_words() {
    let node = node("json");
    let mut wire = establish(&node);
    let is = |line: &Value, words: &str| line["message"] == words && line["peer"] == PEER;
    let up = await_object(&node, "session up", |line| is(line, "session up"));
    assert_eq!((&up["level"], &up["asn"]), (&"INFO".into(), &65_000.into()));
    wire.send(&shutdown(b"new optics at 14:00")).unwrap();
    let down = await_object(&node, "session down", |line| is(line, "session down"));
    assert_eq!(down["level"], "WARN");
    assert_eq!((&down["code"], &down["subcode"]), (&6.into(), &2.into()));
    assert_eq!(down["said"], "new optics at 14:00");
    assert!(
        down["reason"].as_str().unwrap().starts_with("received Cease: Administrative Shutdown")
    );
    assert!(down["lasted"].as_str().unwrap().ends_with('s'), "{down}");
    drop(wire);
    // Nobody answers since then: said once, however often it is tried.
    await_object(&node, "no session", |line| {
        is(line, "no session") && line["reason"].as_str().unwrap().contains("refused")
    });

    // Ended by us: the peer speaks nonsense.
    let mut wire = establish(&node);
    wire.send(&[0; 19]).unwrap();
    let down = await_object(&node, "the second end", |line| {
        is(line, "session down") && line["reason"].as_str().unwrap().starts_with("sent Message")
    });
    assert_eq!((&down["code"], &down["said"]), (&1.into(), &Value::Null));
    drop(wire);
    // And without a word.
    drop(establish(&node));
    let down = await_object(&node, "the third end", |line| {
        is(line, "session down") && line["reason"].as_str().unwrap().contains("connection closed")
    });
    assert_eq!(down["code"], Value::Null);
    let lines = objects(&node).unwrap();
    let refused = lines.iter().filter(|line| {
        is(line, "no session") && line["reason"].as_str().unwrap_or_default().contains("refused")
    });
    assert!(refused.count() <= 3, "once between two sessions: {lines:#?}");
}

#[test]
fn everything_that_is_said_for_a_call_names_it() {
    let node = Node::running().unwrap();
    let pod = Pod::new("web").unwrap();
    let plugin = node.plugin().unwrap();
    plugin.add(&pod).unwrap();
    let id = pod.container_id.as_str();
    await_line(&node, &["INFO cni{op=\"ADD\"", id, "pod=default/web}: CNI call took="]);
    plugin.del(&pod).unwrap();
    await_line(&node, &["INFO cni{op=\"DEL\"", id, "pod=default/web}: CNI call took="]);

    // Also where only troubles are asked for, and where they come from inside.
    node.cli(&["log-level", "warn"]).unwrap();
    let annotated = rack::manifests::pod("default", "bad", &[("ip-algo", "moon")]);
    node.write_pod(&annotated, rack::manifests::Writing::Renamed).unwrap();
    let bad = Pod::new("bad").unwrap();
    plugin.add(&bad).unwrap();
    await_line(&node, &["WARN cni{op=\"ADD\"", "pod=default/bad}: pod annotation", "moon"]);
    let link = node.cli_json(&["pods"]).unwrap()["pods"][0]["hostInterface"].clone();
    node.netns().ip(&format!("link set {} down", link.as_str().unwrap())).unwrap();
    await_line(&node, &["WARN repair{pod=\"default/bad\"}: repaired", "is down"]);
    let lost = Pod::in_netns("lost", Netns::new("lost").unwrap());
    let mut call = lost.call("ADD");
    call.netns = "/nowhere".into();
    plugin.call(&call, &plugin.input()).unwrap().unwrap_err();
    await_line(&node, &["WARN cni{op=\"ADD\"", &lost.container_id, "CNI call failed", "/nowhere"]);
}

#[test]
fn lines_for_machines_are_objects_with_the_same_keys() {
    let node = node("json");
    let pod = Pod::new("web").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    let call = await_object(&node, "the call", |line| line["message"] == "CNI call");
    assert_eq!(call["target"], "flock_agent::server::cni");
    let span = &call["spans"][0];
    assert_eq!((&span["name"], &span["op"]), (&"cni".into(), &"ADD".into()));
    assert_eq!(
        (&span["container"], &span["pod"]),
        (&pod.container_id.into(), &"default/web".into())
    );
    for line in node.log().unwrap().lines() {
        // A key that stands twice is lost by the parser: counted in the text.
        let value: Value = serde_json::from_str(line).unwrap();
        for key in ["timestamp", "level", "message", "target"] {
            assert!(value[key].is_string(), "{line}");
            assert_eq!(line.matches(&format!("\"{key}\":")).count(), 1, "{line}");
        }
    }
}

/// A runtime asks STATUS every few seconds: the log hears of it when the answer changes.
#[test]
fn what_is_asked_all_the_time_is_told_once() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap().speaking("1.1.0");
    let none = rack::manifests::node_config(node.name(), &[], &[]);
    let good = rack::manifests::node_config(node.name(), &["2001:db8:a::/64"], &[]);
    let ask = |wanted: bool| {
        rack::wait::until("STATUS", rack::wait::PATIENCE, || {
            anyhow::ensure!(plugin.status()?.is_ok() == wanted);
            Ok(())
        })
        .unwrap();
        for _ in 0..5 {
            assert_eq!(plugin.status().unwrap().is_ok(), wanted);
        }
    };
    node.configure(&none).unwrap();
    ask(false);
    node.configure(&good).unwrap();
    ask(true);
    let log = node.log().unwrap();
    let said = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(said("was told that no pod can be added"), 1, "{log}");
    assert_eq!(said("was told that pods can be added"), 1, "{log}");
    assert_eq!(said("op=\"STATUS\""), 2, "{log}");
}

/// The words of a line are constant: values are fields. Otherwise nobody can search for it.
#[test]
fn no_two_lines_differ_in_their_words_only() {
    let node = node("json");
    for name in ["a", "b"] {
        let pod = Pod::new(name).unwrap();
        node.plugin().unwrap().add(&pod).unwrap();
        node.plugin().unwrap().del(&pod).unwrap();
    }
    let lines = objects(&node).unwrap();
    let messages: BTreeSet<&str> =
        lines.iter().filter_map(|line| line["message"].as_str()).collect();
    let digits = |text: &&&str| text.contains(|c: char| c.is_ascii_digit());
    assert_eq!(messages.iter().filter(digits).count(), 0, "{messages:?}");
}
