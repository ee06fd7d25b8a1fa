//! What these tests share: a node with a peer that is played by hand, and its log.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use rack::capture::{Open, Wire};
use rack::manifests::node_config;
use rack::node::{Node, OUTSIDE_V4, POD_CIDR4, POD_CIDR6};
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

pub(crate) const ASN: u32 = 65_000;
/// What the node calls the peer.
pub(crate) const PEER: &str = "tor";

/// A NodeConfig with one peer, on the other end of the default uplink.
pub(crate) fn with_peer(node: &Node) -> Value {
    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    config["spec"]["bgp"]["peers"] = json!([{
        "name": PEER, "address": OUTSIDE_V4, "asn": ASN, "connectRetry": "1s",
        "import": { "accept": ["0.0.0.0/0 le 32"] },
    }]);
    config
}

/// A running node with that peer.
pub(crate) fn node(format: &str) -> Node {
    let mut node = Node::new().unwrap();
    node.configure(&with_peer(&node)).unwrap();
    node.start_with(&[("FLOCK_LOG_FORMAT", format)]).unwrap();
    node.await_ready().unwrap();
    node
}

/// The peer's side of a session.
pub(crate) fn establish(node: &Node) -> Wire {
    let outside = node.outside().unwrap();
    let mut wire = Wire::accept(outside, OUTSIDE_V4.parse().unwrap()).unwrap();
    let mut open = Open::new(ASN, Ipv4Addr::new(198, 51, 100, 1));
    open.hold_time = 0;
    wire.establish(&open.bytes()).unwrap();
    wire
}

/// Awaits a line that has all these words, and returns it.
pub(crate) fn await_line(node: &Node, words: &[&str]) -> String {
    until(&format!("a line with {words:?}"), PATIENCE, || {
        let log = node.log()?;
        let line = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
        line.map(str::to_owned).with_context(|| format!("the log says\n{log}"))
    })
    .unwrap()
}

/// The lines of a log of JSON.
pub(crate) fn objects(node: &Node) -> Result<Vec<Value>> {
    let log = node.log()?;
    let object = |line: &str| -> Result<Value> {
        let value: Value = serde_json::from_str(line).with_context(|| format!("{line:?}"))?;
        ensure!(value.is_object(), "{line:?}");
        Ok(value)
    };
    log.lines().map(object).collect()
}

/// Awaits a line of JSON that pleases, and returns it.
pub(crate) fn await_object(node: &Node, what: &str, pleases: impl Fn(&Value) -> bool) -> Value {
    until(what, PATIENCE, || {
        let all = objects(node)?;
        all.into_iter().find(|line| pleases(line)).context("it is not there")
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", node.log().unwrap()))
}
