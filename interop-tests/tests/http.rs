//! The HTTP port: probes that say what STATUS says, and hostile requests, each of which gets its
//! answer or its end, changes nothing and costs a bounded amount.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

use anyhow::{Context, ensure};
use rack::manifests::node_config;
use rack::node::{Node, POD_CIDR4, POD_CIDR6};
use rack::pod::Pod;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

/// Each node has a namespace of its own.
const PORT: &str = "127.0.0.1:9179";
/// Connections that are served at a time, as the agent has it.
const CONNECTIONS: usize = 64;
/// As long as a connection may last, and then some.
const LONG: std::time::Duration = std::time::Duration::from_secs(60);

fn node() -> Node {
    let mut node = Node::new().unwrap();
    node.start_with(&[("FLOCK_HTTP", PORT)]).unwrap();
    node.await_ready().unwrap();
    node
}

/// A connection from inside the node's namespace.
fn connect(node: &Node) -> TcpStream {
    let stream = node.netns().within(|| Ok(TcpStream::connect(PORT)?)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream
}

/// Everything that is said until the connection ends; a reset is an end, too.
fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _reset = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn say(node: &Node, bytes: &[u8]) -> String {
    let mut stream = connect(node);
    let _closed_early = stream.write_all(bytes);
    read(&mut stream)
}

fn get(node: &Node, path: &str) -> String {
    say(node, format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").as_bytes())
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// The agent lives, answers its probe, and a pod can be attached and detached.
fn serves(node: &mut Node) {
    node.agent().unwrap().ensure_alive().unwrap();
    assert_eq!(status(&get(node, "/healthz")), "200");
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("next").unwrap();
    plugin.add(&pod).unwrap();
    plugin.del(&pod).unwrap();
    node.await_no_leftovers().unwrap();
}

/// File descriptors, and bytes that are resident.
fn cost(node: &mut Node) -> (usize, usize) {
    let process = format!("/proc/{}", node.agent().unwrap().pid());
    let open = fs::read_dir(format!("{process}/fd")).unwrap().count();
    let text = fs::read_to_string(format!("{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kibibytes: usize = line.split_whitespace().next().unwrap().parse().unwrap();
    (open, kibibytes << 10)
}

#[test]
fn probes_say_what_status_says() {
    let mut node = Node::new().unwrap();
    fs::remove_file(node.file("standalone/nodeconfig.yaml")).unwrap();
    node.start_with(&[("FLOCK_HTTP", PORT)]).unwrap();
    until("the port", PATIENCE, || node.netns().within(|| Ok(TcpStream::connect(PORT)?))).unwrap();
    assert_eq!(status(&get(&node, "/healthz")), "200", "it lives, whatever it lacks");
    let answer = get(&node, "/readyz");
    assert_eq!(status(&answer), "503");
    assert!(body(&answer).contains("no NodeConfig is in force"), "{answer}");

    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    config["spec"]["readiness"] = json!({ "sessions": 1, "timeout": "1h" });
    node.configure(&config).unwrap();
    let await_answer = |node: &Node, code: &str, words: &str| {
        until(&format!("{code} {words}"), PATIENCE, || {
            let answer = get(node, "/readyz");
            ensure!(status(&answer) == code && body(&answer).contains(words), "{answer}");
            Ok(())
        })
        .unwrap();
    };
    await_answer(&node, "503", "0 of 1 BGP sessions are up");
    let asked = node.plugin().unwrap().speaking("1.1.0");
    until("the CNI socket", PATIENCE, || {
        let refusal = asked.status()?.err().context("it says yes")?;
        // But for the seconds that are left.
        let words = |text: &str| text.split(';').next().unwrap_or_default().to_owned();
        ensure!(words(body(&get(&node, "/readyz"))) == words(&refusal.msg), "{refusal}");
        Ok(())
    })
    .unwrap();
    config["spec"].as_object_mut().unwrap().remove("readiness");
    node.configure(&config).unwrap();
    await_answer(&node, "200", "ok");
    fs::remove_file(node.file("standalone/nodeconfig.yaml")).unwrap();
    await_answer(&node, "503", "was deleted");
    assert_eq!(status(&get(&node, "/healthz")), "200");
}

#[test]
fn a_taken_port_refuses_the_start_before_anything_is_changed() {
    let mut node = Node::new().unwrap();
    let squatter = node.netns().within(|| Ok(TcpListener::bind(PORT)?)).unwrap();
    let before = node.netns().exec("sysctl", &["-n", "net.ipv4.ip_forward"]).unwrap();
    fs::write(node.socket(), "in the way").unwrap();
    node.start_with(&[("FLOCK_HTTP", PORT)]).unwrap();
    node.await_death().unwrap();
    let log = node.log().unwrap();
    let words = format!("--http {PORT}: cannot listen there: Address already in use");
    assert!(log.contains(&words) && log.contains("or choose another"), "{log}");
    assert_eq!(fs::read_dir(node.state_dir()).unwrap().count(), 0, "nothing on disk");
    assert_eq!(fs::read_to_string(node.socket()).unwrap(), "in the way");
    assert_eq!(node.netns().exec("nft", &["list", "ruleset"]).unwrap(), "", "nor in the kernel");
    assert_eq!(node.netns().exec("sysctl", &["-n", "net.ipv4.ip_forward"]).unwrap(), before);
    drop(squatter);
    fs::remove_file(node.socket()).unwrap();
    node.start_with(&[("FLOCK_HTTP", PORT)]).unwrap();
    node.await_ready().unwrap();
    serves(&mut node);
}

#[test]
fn every_request_has_one_answer_or_an_end() {
    let mut node = node();
    let kept = Pod::new("kept").unwrap();
    node.plugin().unwrap().add(&kept).unwrap();
    let before = node.cli_json(&["pods"]).unwrap();
    let line = |text: &str| format!("{text}\r\n\r\n").into_bytes();
    let headers = |count: usize, size: usize| {
        let one = format!("X-Filler: {}\r\n", "x".repeat(size));
        format!("GET /healthz HTTP/1.1\r\nHost: node\r\n{}\r\n", one.repeat(count)).into_bytes()
    };
    let with_body = |head: &str, body: &str| format!("{head}\r\n\r\n{body}").into_bytes();
    let table: Vec<(&str, Vec<u8>, &str)> = vec![
        ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), "400"),
        ("all bytes", (0..=255).cycle().take(4096).collect(), "400"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), ""),
        ("no version", line("GET /healthz"), "400"),
        ("a NUL in the path", line("GET /\0healthz HTTP/1.1\r\nHost: n"), "400"),
        ("a NUL in a header", line("GET /healthz HTTP/1.1\r\nHost: n\r\nX: a\0b"), "400"),
        ("a path that is not UTF-8", b"GET /\xff\xfe HTTP/1.1\r\nHost: n\r\n\r\n".to_vec(), "400"),
        ("a long path", line(&format!("GET /{} HTTP/1.1\r\nHost: n", "a".repeat(12 << 10))), "404"),
        ("a huge path", line(&format!("GET /{} HTTP/1.1\r\nHost: n", "a".repeat(1 << 20))), "431"),
        ("many headers", headers(65, 1), "431"),
        ("a huge header", headers(1, 1 << 20), "431"),
        ("endless headers", headers(10_000, 100), "431"),
        (
            "POST",
            with_body("POST /metrics HTTP/1.1\r\nHost: n\r\nContent-Length: 5", "hello"),
            "405",
        ),
        ("PUT", line("PUT / HTTP/1.1\r\nHost: n\r\nContent-Length: 0"), "405"),
        ("DELETE", line("DELETE /healthz HTTP/1.1\r\nHost: n"), "405"),
        ("OPTIONS", line("OPTIONS * HTTP/1.1\r\nHost: n"), "405"),
        ("TRACE", line("TRACE / HTTP/1.1\r\nHost: n"), "405"),
        ("CONNECT", line("CONNECT example.org:443 HTTP/1.1\r\nHost: n"), "405"),
        ("a method of its own", line("BREW /pot HTTP/1.1\r\nHost: n"), "405"),
        (
            "a body",
            with_body("GET /healthz HTTP/1.1\r\nHost: n\r\nContent-Length: 3", "abc"),
            "200",
        ),
        (
            "a body that never comes",
            line("GET /healthz HTTP/1.1\r\nHost: n\r\nContent-Length: 99999999999"),
            "200",
        ),
        (
            "two lengths",
            line("GET /healthz HTTP/1.1\r\nHost: n\r\nContent-Length: 1\r\nContent-Length: 2"),
            "400",
        ),
        (
            "a chunk that is too long",
            with_body(
                "POST / HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked",
                "ffffffffffffffffff\r\n",
            ),
            "405",
        ),
        ("HTTP/1.0", line("GET /healthz HTTP/1.0"), "200"),
        ("an absolute URI", line("GET http://node/healthz HTTP/1.1\r\nHost: n"), "200"),
        ("somebody else's URI", line("GET http://example.org/ HTTP/1.1\r\nHost: example.org"), ""),
        ("dots", line("GET /../../etc/passwd HTTP/1.1\r\nHost: n"), "404"),
        (
            "an upgrade",
            line("GET /healthz HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\nUpgrade: h2c"),
            "200",
        ),
        ("no host", line("GET /healthz HTTP/1.1"), "200"),
        (
            "expectations",
            line("POST / HTTP/1.1\r\nHost: n\r\nExpect: 100-continue\r\nContent-Length: 9"),
            "405",
        ),
        ("nothing", Vec::new(), ""),
    ];
    for (what, bytes, wanted) in table {
        let mut stream = connect(&node);
        let _closed_early = stream.write_all(&bytes);
        if bytes.is_empty() {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        let answer = read(&mut stream);
        // The agent need not have read all of what it refuses; then its words may be lost.
        let lost = answer.is_empty() && (bytes.len() > 16 << 10 || wanted.is_empty());
        let right = wanted.is_empty() || status(&answer) == wanted;
        assert!(lost || right, "{what}: {answer:?}");
        assert!(answer.matches("HTTP/1.").count() <= 1, "{what}: {answer:?}");
    }
    assert_eq!(node.cli_json(&["pods"]).unwrap(), before, "nothing changed");
    node.plugin().unwrap().del(&kept).unwrap();
    serves(&mut node);
}

#[test]
fn one_request_a_connection_and_no_body_for_head() {
    let mut node = node();
    let one = "GET /healthz HTTP/1.1\r\nHost: n\r\n\r\n";
    let answer = say(&node, one.repeat(20).as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
    for path in ["/healthz", "/metrics", "/nothing"] {
        let answer = say(&node, format!("HEAD {path} HTTP/1.1\r\nHost: n\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 ") && body(&answer).is_empty(), "{answer}");
        assert!(answer.to_lowercase().contains("\r\ncontent-length: "), "{answer}");
    }
    for path in ["/healthz", "/metrics", "/nothing"] {
        let answer = get(&node, path).to_lowercase();
        for header in ["x-content-type-options: nosniff", "cache-control: no-store"] {
            assert!(answer.contains(header), "{path}: {answer}");
        }
    }
    serves(&mut node);
}

#[test]
fn a_head_that_comes_byte_by_byte_is_given_up_and_holds_nobody_up() {
    let mut node = node();
    let mut slow: Vec<_> = (0..CONNECTIONS / 2).map(|_| connect(&node)).collect();
    let began = Instant::now();
    let head =
        b"GET /healthz HTTP/1.1\r\nHost: node\r\nX-Slow: ".iter().chain([b'x'].iter().cycle());
    let mut ended = 0;
    for byte in head {
        let open = slow.len();
        // A write to a connection that has ended fails, at the latest the second one.
        slow.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
        ended += open - slow.len();
        if slow.is_empty() {
            break;
        }
        assert!(began.elapsed() < LONG, "{} are still served", slow.len());
        assert_eq!(status(&get(&node, "/healthz")), "200", "meanwhile");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(ended, CONNECTIONS / 2);
    serves(&mut node);
}

#[test]
fn a_probe_is_answered_while_somebody_holds_every_connection() {
    let mut node = node();
    let (files, memory) = cost(&mut node);
    let mut idle: Vec<TcpStream> = Vec::new();
    for round in 1..=4 {
        idle.extend((0..CONNECTIONS).map(|_| connect(&node)));
        assert_eq!(status(&get(&node, "/healthz")), "200", "round {round}");
        assert_eq!(status(&get(&node, "/readyz")), "200", "round {round}");
        let (open, resident) = cost(&mut node);
        assert!(open <= files + CONNECTIONS + 8, "{open} descriptors, {files} before");
        assert!(resident < memory + (8 << 20), "{resident} bytes, {memory} before");
    }
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("meanwhile").unwrap();
    plugin.add(&pod).unwrap();
    plugin.del(&pod).unwrap();
    for stream in &mut idle {
        assert_eq!(read(stream), "", "nothing was asked");
    }
    until("their descriptors to be closed", PATIENCE, || {
        let (open, _) = cost(&mut node);
        ensure!(open <= files + 2, "{open}, {files} before");
        Ok(())
    })
    .unwrap();
    let evicted = body(&get(&node, "/metrics")).lines().find_map(|line| {
        line.strip_prefix("flock_http_connections_evicted_total ")?.parse::<usize>().ok()
    });
    assert!(evicted.is_some_and(|evicted| evicted >= 3 * CONNECTIONS), "{evicted:?}");
    serves(&mut node);
}

/// A NodeConfig with so many peers that its metrics are some megabytes.
fn crowded(node: &Node, count: usize) -> Value {
    let peers = (0..count).map(|n| {
        let address = format!("2001:db8:ffff::{:x}", 0x1000 + n);
        let name = format!("peer-{n:04}-{}", "x".repeat(100));
        json!({ "name": name, "address": address, "asn": 65000, "passive": true })
    });
    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    config["spec"]["bgp"]["peers"] = peers.collect();
    config
}

#[test]
fn readers_that_never_read_cost_one_text_and_are_ended() {
    let mut node = Node::new().unwrap();
    // The kernel is not to take all of an answer that nobody reads.
    let small =
        [("net/ipv4/tcp_wmem", "4096 16384 65536"), ("net/ipv4/tcp_rmem", "4096 8192 16384")];
    node.netns().sysctls(&small).unwrap();
    node.configure(&crowded(&node, 600)).unwrap();
    node.start_with(&[("FLOCK_HTTP", PORT)]).unwrap();
    node.await_ready().unwrap();
    let page = until("so many peers", PATIENCE, || {
        let page = get(&node, "/metrics");
        ensure!(page.contains("flock_bgp_peers 600"), "not yet");
        Ok(page)
    })
    .unwrap();
    assert!(page.len() > 3 << 19, "{} bytes", page.len());
    // More peers than labels: the rest is one.
    let states = page.lines().filter(|line| line.starts_with("flock_bgp_session_up{"));
    assert_eq!(states.count(), 513);
    assert!(page.contains("flock_bgp_session_state{peer=\"overflow\",state=\"Idle\"}"));

    let (files, before) = cost(&mut node);
    let mut readers: Vec<_> = (0..CONNECTIONS).map(|_| connect(&node)).collect();
    for reader in &mut readers {
        reader.write_all(b"GET /metrics HTTP/1.1\r\nHost: n\r\n\r\n").unwrap();
    }
    assert_eq!(status(&get(&node, "/healthz")), "200");
    serves(&mut node);
    let (open, resident) = cost(&mut node);
    assert!(open > files + CONNECTIONS / 2, "{open} descriptors, {files} before: they do not wait");
    assert!(resident < before + page.len() * 12, "{resident} bytes, {before} before");
    until("their connections to be ended", LONG, || {
        let (open, _) = cost(&mut node);
        ensure!(open <= files + 2, "{open} descriptors, {files} before");
        Ok(())
    })
    .unwrap();
    serves(&mut node);
}

#[test]
fn nothing_listens_unless_it_is_asked_for() {
    let mut node = Node::running().unwrap();
    let refused = node.netns().within(|| Ok(TcpStream::connect(PORT).is_err())).unwrap();
    assert!(refused);
    node.terminate().unwrap();
    node.start_with(&[("FLOCK_HTTP", "nonsense")]).unwrap();
    node.await_death().unwrap();
    let log = node.log().unwrap();
    assert!(log.contains("expected ADDR:PORT or :PORT"), "{log}");
}
