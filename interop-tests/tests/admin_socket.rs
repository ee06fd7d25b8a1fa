//! Hostile requests on the admin socket: each gets its answer or its end, nothing is changed by it,
//! and the agent serves the next.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use anyhow::ensure;
use rack::bench::bgp::usage;
use rack::manifests::node_config;
use rack::node::{Node, OUTSIDE_V4, POD_CIDR4, POD_CIDR6};
use rack::pod::Pod;
use rack::raw::{Client, Reply, Then};
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

/// More than the socket takes: 64 KiB.
const TOO_MUCH: usize = (64 << 10) + 1;
/// What all of it may cost the agent.
const MEGABYTES: u64 = 16 << 20;
/// Connections that are served at a time, and watched of those.
const CONNECTIONS: usize = 32;
const WATCHERS: usize = 16;

/// A node with a pod and a peer that is not there, and what must not change of it.
struct Scene {
    node: Node,
    _pod: Pod,
    before: Value,
    resident: u64,
}

impl Scene {
    fn new() -> Self {
        let mut node = Node::new().unwrap();
        let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
        config["spec"]["bgp"]["peers"] =
            json!([{ "name": "tor-a", "address": OUTSIDE_V4, "asn": 65000 }]);
        node.configure(&config).unwrap();
        node.start().unwrap();
        node.await_ready().unwrap();
        let pod = Pod::new("pod").unwrap();
        node.plugin().unwrap().add(&pod).unwrap();
        let before = state(&node);
        let resident = usage::of(node.agent().unwrap().pid()).unwrap().resident;
        Self { node, _pod: pod, before, resident }
    }

    fn client(&self) -> Client {
        Client::new(&self.node.admin_socket())
    }

    /// The agent lives, answers, did nothing and needs no more than before.
    fn is_unharmed(&mut self) {
        self.node.agent().unwrap().ensure_alive().unwrap();
        assert_eq!(state(&self.node), self.before);
        let log = self.node.log().unwrap();
        assert!(!log.contains("as the operator wants") && !log.contains("panicked"), "{log}");
        let now = usage::of(self.node.agent().unwrap().pid()).unwrap().resident;
        let grown = now.saturating_sub(self.resident);
        assert!(grown < MEGABYTES, "the agent grew by {} KiB", grown >> 10);
    }
}

/// What requests could change.
fn state(node: &Node) -> Value {
    let drain = node.cli_json(&["drain", "--status"]).unwrap();
    let routes = node.cli_json(&["bgp", "show", "routes"]).unwrap();
    let pods = node.cli_json(&["pods"]).unwrap();
    json!([drain["state"], routes, pods])
}

fn request(op: &str, args: &Value) -> Vec<u8> {
    let mut line = json!({ "v": 1, "op": op, "args": args }).to_string().into_bytes();
    line.push(b'\n');
    line
}

#[test]
fn what_cannot_be_understood_is_answered_so() {
    let mut scene = Scene::new();
    let long = json!({ "v": 1, "op": "pods", "args": "x".repeat(TOO_MUCH) }).to_string() + "\n";
    let deep = |open: &str| open.repeat(10_000) + "\n";
    let nested = format!("{{\"v\":1,\"op\":\"pods\",\"args\":{}}}\n", "[".repeat(5_000));
    let table: Vec<(&str, Vec<u8>, Then, &str)> = vec![
        ("an empty line", b"\n".to_vec(), Then::Stay, "decode: "),
        ("not JSON", b"hello\n".to_vec(), Then::Stay, "decode: "),
        ("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec(), Then::Stay, "decode: "),
        ("null", b"null\n".to_vec(), Then::Stay, "decode: "),
        ("a list", b"[]\n".to_vec(), Then::Stay, "decode: "),
        ("an empty object", b"{}\n".to_vec(), Then::Stay, "decode: missing field `v`"),
        ("no op", b"{\"v\":1}\n".to_vec(), Then::Stay, "decode: missing field `op`"),
        ("an op that is no text", b"{\"v\":1,\"op\":7}\n".to_vec(), Then::Stay, "decode: "),
        (
            "a version that is none",
            b"{\"v\":-1,\"op\":\"pods\"}\n".to_vec(),
            Then::Stay,
            "decode: ",
        ),
        ("another version", b"{\"v\":99,\"op\":\"pods\"}\n".to_vec(), Then::Stay, "version 1"),
        ("an unknown field", b"{\"v\":1,\"op\":\"pods\",\"x\":1}\n".to_vec(), Then::Stay, "`x`"),
        (
            "the same field twice",
            b"{\"v\":1,\"v\":1,\"op\":\"pods\"}\n".to_vec(),
            Then::Stay,
            "`v`",
        ),
        ("two values", b"{\"v\":1,\"op\":\"pods\"}{}\n".to_vec(), Then::Stay, "decode: "),
        ("an unknown op", request("explode", &json!({})), Then::Stay, "unknown op \"explode\""),
        ("an op with a zero", request("pods\0", &json!({})), Then::Stay, "unknown op"),
        ("not UTF-8", b"{\"v\":1,\"op\":\"\xff\xfe\"}\n".to_vec(), Then::Stay, "decode: "),
        ("zeros", vec![0; 4096], Then::HangUp, "connection closed after 4096 bytes"),
        ("a cut request", b"{\"v\":1,\"op\":\"po".to_vec(), Then::HangUp, "connection closed"),
        ("deep lists", deep("[").into(), Then::Stay, "decode: "),
        ("deep objects", deep("{\"a\":").into(), Then::Stay, "decode: "),
        ("deep arguments", nested.into(), Then::Stay, "decode: "),
        ("too long", long.into(), Then::Stay, "larger than 65536 bytes"),
        ("endless", vec![b'x'; 4 << 20], Then::HangUp, "larger than 65536 bytes"),
        ("half, and then nothing", b"{\"v\":1,".to_vec(), Then::Stay, "not complete within 5s"),
    ];
    for (what, bytes, then, words) in table {
        let reply = scene.client().bytes(&bytes, then).unwrap();
        // The agent may close before it has read all; then its words are lost.
        if reply.is_silence() && bytes.len() > TOO_MUCH {
            continue;
        }
        let error = reply.error().unwrap_or_else(|problem| panic!("{what}: {problem:#}"));
        assert!(error.contains(words), "{what}: {error}");
    }
    scene.is_unharmed();
}

#[test]
fn arguments_of_every_op_are_looked_at() {
    let mut scene = Scene::new();
    let bad = |op: &str| -> Vec<Value> {
        match op {
            "bgp.peers" => vec![
                json!({ "name": 7 }),
                json!({ "name": "" }),
                json!({ "name": "x".repeat(300) }),
                json!({ "nam": "tor-a" }),
            ],
            "bgp.routes" => vec![
                json!({ "prefix": "tor-a" }),
                json!({ "prefix": "10.0.0.1/8" }),
                json!({ "which": "none" }),
                json!({ "limit": -1 }),
                json!({ "limit": 1e300 }),
                json!({ "after": "10.0.0.0" }),
                json!({ "find": "" }),
                json!({ "find": "x".repeat(65) }),
                json!({ "within": true }),
                json!({ "within": true, "prefix": "10.0.0.1" }),
                json!({ "peer": ["tor-a"] }),
            ],
            "bgp.refresh" => vec![
                json!({}),
                json!({ "peer": "tor-x" }),
                json!({ "peer": "tor-a", "direction": "up" }),
                // There is no session.
                json!({ "peer": "tor-a" }),
            ],
            "bgp.reset" => vec![
                json!({}),
                json!({ "peer": "tor-x" }),
                json!({ "peer": "tor-a", "message": "x".repeat(256) }),
                json!({ "peer": "tor-a", "message": "\u{1b}[2J" }),
                json!({ "peer": "tor-a", "message": 7 }),
            ],
            "drain" => vec![
                json!({}),
                json!({ "waitSeconds": -1 }),
                json!({ "waitSeconds": 3601 }),
                json!({ "waitSeconds": "soon" }),
                json!({ "waitSeconds": 1, "undo": true }),
            ],
            _ => Vec::new(),
        }
    };
    let ops = [
        "pods",
        "check",
        "bgp.summary",
        "bgp.peers",
        "bgp.routes",
        "bgp.refresh",
        "bgp.reset",
        "drain",
        "drain.undo",
        "drain.status",
    ];
    for op in ops {
        let any = [json!(7), json!([]), json!("x"), json!(true), json!({ "surprise": 1 })];
        for args in any.into_iter().chain(bad(op)) {
            let reply = scene.client().bytes(&request(op, &args), Then::Stay).unwrap();
            reply.error().unwrap_or_else(|problem| panic!("{op} {args}: {problem:#}"));
        }
    }
    for op in ["bgp.refresh", "bgp.reset", "drain", "drain.undo", "explode"] {
        let args = json!({ "peer": "tor-a", "waitSeconds": 1 });
        let question = json!({ "v": 1, "op": op, "args": args, "watch": true });
        let error = scene.client().request(&question).unwrap().error().unwrap();
        assert!(error.contains("cannot be watched"), "{op}: {error}");
    }
    scene.is_unharmed();
}

#[test]
fn who_says_nothing_holds_nobody_up_for_long() {
    let mut scene = Scene::new();
    let mut silent: Vec<UnixStream> =
        (0..CONNECTIONS + 8).map(|_| scene.client().connect().unwrap()).collect();
    for stream in silent.iter_mut().step_by(2) {
        stream.write_all(b"{\"v\":").unwrap();
    }
    // Behind them in the queue, and served once their time is over.
    scene.node.cli(&["pods"]).unwrap();
    for stream in &mut silent {
        let reply = Reply::read(stream).unwrap();
        assert!(reply.is_silence() || reply.error().is_ok(), "{reply:?}");
    }
    for _ in 0..200 {
        let mut stream = scene.client().connect().unwrap();
        stream.write_all(&request("bgp.routes", &json!({}))).unwrap();
    }
    scene.is_unharmed();
}

#[test]
fn not_everybody_may_watch_and_who_asks_once_is_served() {
    let mut scene = Scene::new();
    let question = json!({ "v": 1, "op": "bgp.summary", "watch": true });
    let watch = |scene: &Scene| -> (BufReader<UnixStream>, Value) {
        let mut stream = scene.client().connect().unwrap();
        stream.write_all(format!("{question}\n").as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        (lines, serde_json::from_str(&first).unwrap())
    };
    let mut watching = Vec::new();
    for _ in 0..WATCHERS {
        let (lines, first) = watch(&scene);
        assert!(first["ok"].is_object(), "{first}");
        watching.push(lines);
    }
    for _ in 0..100 {
        let (_, refused) = watch(&scene);
        assert!(refused["error"].as_str().unwrap().contains("watch already"), "{refused}");
    }
    for _ in 0..20 {
        scene.node.cli(&["pods"]).unwrap();
    }
    // The first one is still told, and its place is free when it has gone.
    let mut line = String::new();
    watching[0].read_line(&mut line).unwrap();
    assert!(line.contains("\"ok\""), "{line}");
    drop(watching);
    until("a place to watch from", PATIENCE, || {
        let (_, first) = watch(&scene);
        ensure!(first["ok"].is_object(), "{first}");
        Ok(())
    })
    .unwrap();
    scene.is_unharmed();
}

#[test]
fn a_client_that_is_not_root_is_refused() {
    const NOBODY: u32 = 65534;
    let mut scene = Scene::new();
    let socket = scene.node.admin_socket();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the mode of the socket");
    // Even where the file system would let them: the peer's credentials decide.
    for path in [scene.node.file(""), scene.node.file("run"), socket] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    for op in ["pods", "bgp.summary", "drain.undo"] {
        let reply = scene.client().request_as(NOBODY, &json!({ "v": 1, "op": op })).unwrap();
        let error = reply.error().unwrap();
        assert_eq!(error, "uid 65534 may not speak to the agent: only root may");
    }
    scene.is_unharmed();
}
