//! Hostile requests on the CNI socket: each gets its answer or its end, nothing
//! is left of it, and the agent serves the next.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use rack::node::Node;
use rack::pod::Pod;
use rack::raw::{self, Reply, Then};
use rack::wait::PATIENCE;
use serde_json::{Value, json};

/// More than the socket takes: 1 MiB.
const TOO_MUCH: usize = (1 << 20) + 4096;

/// The agent lives, and a pod can be attached and detached.
fn serves(node: &mut Node) {
    node.agent().unwrap().ensure_alive().unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("next").unwrap();
    plugin.add(&pod).unwrap();
    plugin.del(&pod).unwrap();
    node.await_no_leftovers().unwrap();
}

fn nested(depth: usize) -> Vec<u8> {
    let mut bytes = b"[".repeat(depth);
    bytes.push(b'\n');
    bytes
}

#[test]
fn what_cannot_be_decoded_is_answered_so() {
    let mut node = Node::running().unwrap();
    let table: Vec<(&str, Vec<u8>, Then)> = vec![
        ("an empty line", b"\n".to_vec(), Then::Stay),
        ("not JSON", b"hello\n".to_vec(), Then::Stay),
        ("not an object", b"[]\n".to_vec(), Then::Stay),
        ("null", b"null\n".to_vec(), Then::Stay),
        ("an op that is no text", b"{\"op\":7}\n".to_vec(), Then::Stay),
        ("base64 that is none", b"{\"op\":\"ADD\",\"stdin_data\":\"%%%\"}\n".to_vec(), Then::Stay),
        ("two values", b"{\"op\":\"STATUS\"}{}\n".to_vec(), Then::Stay),
        ("a cut request", b"{\"op\":\"ADD\",\"container_id\":\"a".to_vec(), Then::HangUp),
        ("deep nesting", nested(100_000), Then::Stay),
        ("zeros", vec![0; 4096], Then::HangUp),
        ("all bytes", (0..=255).chain([b'\n']).collect(), Then::HangUp),
        ("text that is not UTF-8", b"{\"op\":\"\xff\xfe\"}\n".to_vec(), Then::Stay),
    ];
    for (what, bytes, then) in table {
        let reply = node.client().bytes(&bytes, then).unwrap();
        let error = reply.error().unwrap_or_else(|problem| panic!("{what}: {problem:#}"));
        assert!(error.starts_with("decode:"), "{what}: {error}");
    }
    serves(&mut node);
}

#[test]
fn an_unknown_op_is_named() {
    let mut node = Node::running().unwrap();
    for op in ["PATCH", "add", "", "ADD\u{0}"] {
        let error = node.client().request(&json!({ "op": op })).unwrap().error().unwrap();
        let name = op.trim_end_matches('\u{0}');
        assert!(error.contains(name), "{op:?}: {error}");
    }
    serves(&mut node);
}

#[test]
fn an_oversized_request_is_refused_and_not_kept() {
    let mut node = Node::running().unwrap();
    let endless = vec![b'a'; TOO_MUCH];
    let mut large = json!({ "op": "STATUS", "args": "a".repeat(TOO_MUCH) }).to_string();
    large.push('\n');
    for bytes in [endless.as_slice(), large.as_bytes()] {
        for then in [Then::Stay, Then::HangUp] {
            let reply = node.client().bytes(bytes, then).unwrap();
            // The agent may close before it has read all; then its words are lost.
            assert!(reply.is_silence() || reply.error().is_ok(), "{reply:?}");
        }
    }
    serves(&mut node);
}

#[test]
fn slow_and_silent_clients_hold_nobody_up_and_are_ended() {
    let mut node = Node::running().unwrap();
    let mut silent: Vec<_> = (0..64).map(|_| node.client().connect().unwrap()).collect();
    let mut slow: Vec<_> = (0..64).map(|_| node.client().connect().unwrap()).collect();
    for stream in &mut slow {
        stream.write_all(b"{\"op\":").unwrap();
    }
    serves(&mut node);
    for stream in silent.iter_mut().chain(&mut slow) {
        stream.set_read_timeout(Some(PATIENCE * 4)).unwrap();
        let reply = Reply::read(stream).unwrap();
        assert!(reply.is_silence() || reply.error().is_ok(), "{reply:?}");
    }
    serves(&mut node);
}

#[test]
fn clients_that_leave_before_the_answer_do_no_harm() {
    let mut node = Node::running().unwrap();
    for _ in 0..100 {
        let mut stream = node.client().connect().unwrap();
        stream.write_all(b"{\"op\":\"STATUS\"}\n").unwrap();
    }
    serves(&mut node);
}

#[test]
fn a_client_that_is_not_root_is_refused() {
    const NOBODY: u32 = 65534;
    let mut node = Node::running().unwrap();
    let status = json!({ "op": "STATUS" });
    let mode = fs::metadata(node.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the mode of the socket");

    // Even where the file system would let them: the peer's credentials decide.
    for path in [node.file(""), node.file("run"), node.socket()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let reply = node.client().request_as(NOBODY, &status).unwrap();
    assert!(reply.is_silence() || reply.error().is_ok(), "{reply:?}");
    node.client().request(&status).unwrap().success().unwrap();
    serves(&mut node);
}

#[test]
fn a_call_with_bad_words_fails_and_leaves_nothing() {
    let mut node = Node::running().unwrap();
    let pod = Pod::new("pod").unwrap();
    let good = pod.call("ADD");
    let input = node.plugin().unwrap().input();
    let with = |change: &dyn Fn(&mut rack::plugin::Call)| {
        let mut call = good.clone();
        change(&mut call);
        raw::request(&call, &input)
    };
    let table: Vec<(&str, Value)> = vec![
        ("no such namespace", with(&|call| call.netns = "/run/netns/is-not-there".into())),
        ("a namespace that is a file", with(&|call| call.netns = "/etc/passwd".into())),
        ("a namespace that is a directory", with(&|call| call.netns = "/proc".into())),
        ("no namespace", with(&|call| call.netns.clear())),
        ("no container", with(&|call| call.container_id.clear())),
        ("a container with a slash", with(&|call| call.container_id = "../../etc".into())),
        ("no interface", with(&|call| call.ifname.clear())),
        ("a long interface", with(&|call| call.ifname = "interface-of-17ch".into())),
        ("an interface with a slash", with(&|call| call.ifname = "eth/0".into())),
        ("the loopback", with(&|call| call.ifname = "lo".into())),
        ("arguments that are none", with(&|call| call.args = "K8S_POD_NAME".into())),
        ("a configuration that is none", raw::request(&good, b"not JSON")),
    ];
    for (what, request) in table {
        let reply = node.client().request(&request).unwrap();
        reply.error().unwrap_or_else(|problem| panic!("{what}: {problem:#}"));
        let left = node.leftovers().unwrap();
        assert_eq!(left, Vec::<String>::new(), "{what}");
    }
    assert!(rack::facts::interface(&pod.netns, "eth0").is_err(), "nothing in the pod either");
    serves(&mut node);
}
