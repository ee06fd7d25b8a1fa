//! Nobody fills the disk: lines of one kind are bounded, and what was left out is counted and told.

use std::time::{Duration, Instant};

use anyhow::ensure;
use rack::capture::message;
use rack::node::Node;
use rack::wait::{PATIENCE, until};
use serde_json::json;

use super::scene::{PEER, await_line, await_object, establish, node, objects};

/// As many troubles of one kind at once, and a second.
const BURST: u64 = 50;
const A_SECOND: u64 = 10;

/// Lines of a kind, and those that were left out.
fn counted(node: &Node, words: &str) -> (u64, u64) {
    let lines = objects(node).unwrap();
    let said = lines.iter().filter(|line| line["message"] == words).count();
    let left_out = lines.iter().filter(|line| {
        line["line"] == words
            && line["message"].as_str().unwrap().starts_with("lines were left out")
    });
    let left_out = left_out.map(|line| line["count"].as_u64().unwrap()).sum();
    (u64::try_from(said).unwrap(), left_out)
}

fn await_accounted(node: &Node, words: &str, wanted: u64, began: Instant) {
    until(&format!("{wanted} of {words} to be accounted for"), PATIENCE, || {
        let (said, left_out) = counted(node, words);
        ensure!(said + left_out == wanted, "{said} and {left_out} left out");
        Ok(())
    })
    .unwrap();
    let (said, _) = counted(node, words);
    let most = BURST + A_SECOND * (began.elapsed().as_secs() + 2);
    assert!(said >= BURST && said <= most, "{said}, at most {most}");
}

#[test]
fn a_runtime_that_fails_all_the_time() {
    let node = node("json");
    let client = node.client();
    let began = Instant::now();
    for n in 0..2000 {
        client.request(&json!({ "op": "NONSENSE", "container_id": format!("c{n}") })).unwrap();
    }
    await_accounted(&node, "CNI call failed", 2000, began);
    // Others are heard meanwhile, and the agent works.
    node.plugin().unwrap().add(&rack::pod::Pod::new("web").unwrap()).unwrap();
    await_object(&node, "a call that went well", |line| line["message"] == "CNI call");
}

#[test]
fn a_peer_that_sends_what_is_malformed_all_the_time() {
    let node = node("json");
    let mut wire = establish(&node);
    // ORIGIN 77: the routes are treated as withdrawn (RFC 7606), and the session goes on.
    let attributes =
        [0x40, 1, 1, 77, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe8, 0x40, 3, 4, 198, 51, 100, 1];
    let length = u16::try_from(attributes.len()).unwrap().to_be_bytes();
    let bad = message(2, &[&[0, 0], &length[..], &attributes[..], &[24, 192, 0, 2]].concat());
    let began = Instant::now();
    for _ in 0..400 {
        wire.send(&bad).unwrap();
    }
    // Once a second, with how many there were.
    let words = "a malformed UPDATE was survived";
    std::thread::sleep(Duration::from_millis(1100));
    wire.send(&bad).unwrap();
    let line = await_object(&node, "the total", |line| {
        line["message"] == words && line["peer"] == PEER && line["total"].as_u64() > Some(100)
    });
    assert!(line["reason"].as_str().unwrap().contains("its routes count as withdrawn"), "{line}");
    let (said, _) = counted(&node, words);
    assert!(said <= began.elapsed().as_secs() + 2, "{said}");
    assert_eq!(
        node.cli_json(&["bgp", "show", "peers"]).unwrap()["peers"][0]["state"],
        "Established"
    );
}

#[test]
fn strangers_that_knock_all_the_time() {
    let mut node = Node::new().unwrap();
    let mut config = super::scene::with_peer(&node);
    let port = 1790;
    config["spec"]["bgp"]["listenPort"] = json!(port);
    node.configure(&config).unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
    await_line(&node, &["speaking BGP"]);
    // The peer's address is the IPv4 one; whoever comes with another is a stranger.
    let began = Instant::now();
    let knock = || {
        for _ in 0..500 {
            let node = format!("[{}]:{port}", rack::node::NODE_V6);
            let _refused = std::net::TcpStream::connect(node);
        }
        Ok(())
    };
    node.outside().unwrap().within(knock).unwrap();
    await_line(&node, &["BGP connection of a stranger closed"]);
    let said = node.log().unwrap().matches("BGP connection of a stranger closed").count();
    let most = 5 + usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
    assert!(said <= most, "{said}, at most {most}");
    let lines = node.log().unwrap().lines().count();
    assert!(lines < 100, "{lines}");
}

/// A peer that comes and goes: few lines a second, and each end is told or counted.
#[test]
fn a_peer_that_flaps() {
    let node = node("json");
    for _ in 0..3 {
        drop(establish(&node));
    }
    until("three ends", PATIENCE, || {
        let (said, left_out) = counted(&node, "session down");
        ensure!(said + left_out >= 3, "{said} and {left_out}");
        Ok(())
    })
    .unwrap();
    let lines = objects(&node).unwrap().len();
    assert!(lines < 100, "{lines}");
}
