//! Whatever a peer, a runtime or a file says, it is one line, and no terminal obeys it.

use std::fs;

use anyhow::ensure;
use rack::capture::message;
use rack::manifests::{self, Writing};
use rack::node::Node;
use rack::pod::Pod;
use rack::wait::{PATIENCE, until};
use serde_json::json;

use super::scene::{await_line, establish, node, objects};

/// Ends a line and begins another, turns red, rings, clears the screen in two ways, writes backwards.
const EVIL: &str =
    "x\n2026-01-01T00:00:00.000000Z ERROR forged\r\x1b[31mred\x07\u{9b}2J\x7f\u{202e}\u{2028}end";

/// Says it in every way that there is.
fn say_it(node: &Node) {
    let mut wire = establish(node);
    let length = u8::try_from(EVIL.len()).unwrap();
    wire.send(&message(3, &[&[6, 2, length], EVIL.as_bytes()].concat())).unwrap();
    drop(wire);
    let client = node.client();
    for request in [
        json!({ "op": EVIL, "container_id": EVIL }),
        json!({ "op": "ADD", "container_id": "c1", "netns": format!("/{EVIL}"), "ifname": "eth0",
                "args": format!("K8S_POD_NAMESPACE={EVIL};K8S_POD_NAME={EVIL}"), "stdin_data": "e30=" }),
        json!({ "op": "DEL", "container_id": EVIL, "ifname": EVIL }),
    ] {
        client.request(&request).unwrap().error().unwrap();
    }
    fs::write(node.file("standalone/pods").join(format!("{EVIL}.yaml").replace('/', "_")), "[")
        .unwrap();
    // What no YAML may hold is refused by its reader.
    let evil = EVIL.replace(['\u{9b}', '\x7f'], "");
    let annotated = manifests::pod("default", "evil", &[("ip-algo", &evil)]);
    node.write_pod(&annotated, Writing::Renamed).unwrap();
    node.plugin().unwrap().add(&Pod::new("evil").unwrap()).unwrap();
}

fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202e}' | '\u{2028}')
}

#[test]
fn nobody_forges_a_line_of_text() {
    let node = node("text");
    say_it(&node);
    for words in [
        &["session down", "forged", "code=6"][..],
        &["CNI call failed", "op=", "forged"],
        &["CNI call failed", "op=\"DEL\""],
        &["manifest refused", "forged"],
        &["pod annotation", "forged"],
    ] {
        await_line(&node, words);
    }
    let log = node.log().unwrap();
    for line in log.lines() {
        assert!(!line.contains(is_harmful), "{line:?}");
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.len() == 27 && time.starts_with("20") && time.ends_with('Z'), "{line:?}");
        let level = rest.trim_start().split(' ').next().unwrap();
        assert!(["INFO", "WARN", "ERROR"].contains(&level), "{line:?}");
        assert!(!rest.trim_start().starts_with("ERROR forged"), "{line:?}");
    }
}

#[test]
fn nobody_forges_a_line_for_machines() {
    let node = node("json");
    say_it(&node);
    until("everything to be said", PATIENCE, || {
        let lines = objects(&node)?;
        for words in
            ["session down", "CNI call failed", "manifest refused; what it said before stays"]
        {
            ensure!(lines.iter().any(|line| line["message"] == words), "no {words}");
        }
        Ok(())
    })
    .unwrap();
    let log = node.log().unwrap();
    assert!(log.lines().all(|line| !line.contains(is_harmful)), "{log:?}");
    let lines = objects(&node).unwrap();
    let refused =
        lines.iter().find(|line| line["file"].as_str().is_some_and(|f| f.contains("forged")));
    assert!(refused.unwrap()["file"].as_str().unwrap().contains(EVIL), "it can be read back");
}

#[test]
fn a_value_without_end_is_cut() {
    let node = node("text");
    let long = "y".repeat(400_000);
    node.client().request(&json!({ "op": long, "container_id": long })).unwrap().error().unwrap();
    let line = await_line(&node, &["CNI call failed", "yyyy"]);
    assert!(line.len() < 4000, "{}", line.len());
    node.client().bytes(&vec![b'z'; 2 << 20], rack::raw::Then::HangUp).unwrap();
    await_line(&node, &["a CNI request cannot be read"]);
}
