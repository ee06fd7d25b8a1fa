//! What these tests share: two ToRs, what an agent says of a peer, and what the kernel of a node
//! learned.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use rack::fabric::{Builder, Fabric};
use rack::link::Side;
use rack::netns::Netns;
use rack::node::Node;
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

/// Both ToRs.
pub(crate) const TORS: [&str; 2] = ["tor-a", "tor-b"];
/// What they originate.
pub(crate) const DEFAULTS: [&str; 2] = ["::/0", "0.0.0.0/0"];

/// BIRD and FRR.
pub(crate) fn pair() -> Builder {
    Fabric::builder().tor(TORS[0], Brand::Bird).tor(TORS[1], Brand::Frr)
}

/// Starts the agents and awaits the sessions, also as the agents see them.
pub(crate) fn start(fabric: &mut Fabric) {
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    for node in 1..=fabric.node_count() {
        TORS.iter().for_each(|tor| await_complete(fabric, node, tor));
    }
}

/// A peer, as a node's agent tells of it.
pub(crate) fn peer(fabric: &Fabric, node: usize, name: &str) -> Result<Value> {
    let told = fabric.node(node)?.cli_json(&["bgp", "show", "peers", name])?;
    told["peers"].get(0).cloned().with_context(|| format!("there is no peer {name}: {told}"))
}

/// Awaits that an agent tells of a peer what pleases.
pub(crate) fn await_peer(
    fabric: &Fabric,
    node: usize,
    name: &str,
    what: &str,
    pleases: impl Fn(&Value) -> bool,
) -> Value {
    until(&format!("{name} of node-{node}: {what}"), PATIENCE, || {
        let row = peer(fabric, node, name)?;
        ensure!(pleases(&row), "{row}");
        Ok(row)
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", log(fabric.node(node).unwrap())))
}

/// Awaits that a session is up and both have told everything.
pub(crate) fn await_complete(fabric: &Fabric, node: usize, name: &str) {
    await_peer(fabric, node, name, "everything is told", |row| {
        row["state"] == "Established"
            && row["endOfRibSent"] == true
            && row["endOfRibReceived"] == true
    });
}

/// What a peer's last error says; empty when there was none.
pub(crate) fn last_error(row: &Value) -> &str {
    row["lastError"].as_str().unwrap_or_default()
}

/// A session that is to stay.
pub(crate) struct Lasting {
    node: usize,
    name: String,
    before: Value,
}

impl Lasting {
    /// From now on.
    pub(crate) fn new(fabric: &Fabric, node: usize, name: &str) -> Self {
        let before = await_peer(fabric, node, name, "up", |row| row["state"] == "Established");
        Self { node, name: name.to_owned(), before }
    }

    /// It is still the same session.
    pub(crate) fn check(&self, fabric: &Fabric) {
        let (before, now) = (&self.before, peer(fabric, self.node, &self.name).unwrap());
        assert_eq!(now["state"], "Established", "{now}");
        assert_eq!(now["flaps"], before["flaps"], "{now}");
        for counter in ["uptimeSeconds", "messagesSent", "messagesReceived"] {
            assert!(now[counter].as_u64() >= before[counter].as_u64(), "{counter}: {now}");
        }
    }
}

/// Everything that an agent wrote so far.
pub(crate) fn log(node: &Node) -> String {
    fs::read_to_string(node.file("agent.log")).unwrap_or_default()
}

/// Awaits a line of an agent's log, after so many bytes, that has all these words.
pub(crate) fn await_log(node: &Node, after: usize, words: &[&str]) {
    until(&format!("{words:?} in the log of {}", node.name()), PATIENCE, || {
        let log = log(node);
        let news = log.get(after..).unwrap_or_default();
        let found = news.lines().any(|line| words.iter().all(|word| line.contains(word)));
        ensure!(found, "it says\n{news}");
        Ok(())
    })
    .unwrap();
}

/// The routes that a kernel learned: destination to gateways, sorted. Told by our protocol number
/// and metric; pods' routes have the same number and another metric.
pub(crate) fn learned(netns: &Netns) -> Result<BTreeMap<String, Vec<IpAddr>>> {
    let mut found = BTreeMap::new();
    for (family, default) in [("-6", "::/0"), ("-4", "0.0.0.0/0")] {
        let shown = netns.ip(&format!("-j {family} route show proto 241"))?;
        let routes: Vec<Value> = match shown.trim() {
            "" => Vec::new(),
            shown => serde_json::from_str(shown)?,
        };
        for route in routes.iter().filter(|route| route["metric"] == 32) {
            let destination = route["dst"].as_str().context("a route without destination")?;
            let destination = if destination == "default" { default } else { destination };
            let repeated = found.insert(destination.to_owned(), gateways(route));
            ensure!(repeated.is_none(), "{destination} twice: {shown}");
        }
    }
    Ok(found)
}

/// The gateways of a route, sorted; one of the other family stands under `via`.
fn gateways(route: &Value) -> Vec<IpAddr> {
    let hops = route["nexthops"].as_array().map_or(std::slice::from_ref(route), Vec::as_slice);
    let one = |hop: &Value| {
        hop["gateway"].as_str().or(hop["via"]["host"].as_str())?.parse::<IpAddr>().ok()
    };
    let mut gateways: Vec<_> = hops.iter().filter_map(one).collect();
    gateways.sort();
    gateways
}

/// The gateways that lead to these ToRs, for routes of the family of `prefix`.
pub(crate) fn ways(fabric: &Fabric, node: usize, tors: &[&str], prefix: &str) -> Vec<IpAddr> {
    let far = |tor: &&str| {
        let link = fabric.link(node, tor).unwrap();
        let plug = link.plug(Side::Far);
        plug.address(prefix.contains(':')).or(plug.address(true)).unwrap()
    };
    let mut ways: Vec<_> = tors.iter().map(far).collect();
    ways.sort();
    ways
}

/// Awaits that a node's kernel learned exactly these prefixes, each by way of these ToRs.
pub(crate) fn await_learned(fabric: &Fabric, node: usize, wanted: &[(&str, &[&str])]) {
    let wanted: BTreeMap<String, Vec<IpAddr>> = wanted
        .iter()
        .map(|(prefix, tors)| ((*prefix).to_owned(), ways(fabric, node, tors, prefix)))
        .collect();
    let host = fabric.node(node).unwrap();
    until(&format!("what node-{node} learned"), PATIENCE, || {
        let there = learned(host.netns())?;
        ensure!(there == wanted, "it has {there:?}, not {wanted:?}");
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", log(host)));
}

/// Awaits the defaults, by way of these ToRs, and nothing else.
pub(crate) fn await_defaults(fabric: &Fabric, node: usize, tors: &[&str]) {
    await_learned(fabric, node, &DEFAULTS.map(|default| (default, tors)));
}

/// One peer of a node's NodeConfig, to be changed.
pub(crate) fn peer_config<'a>(fabric: &'a mut Fabric, node: usize, name: &str) -> &'a mut Value {
    let peers = fabric.node_config_mut(node).unwrap().pointer_mut("/spec/bgp/peers").unwrap();
    let peers = peers.as_array_mut().unwrap();
    peers.iter_mut().find(|peer| peer["name"] == name).unwrap()
}

/// Changes what a node accepts from both ToRs, and writes it.
pub(crate) fn accept(fabric: &mut Fabric, node: usize, rules: &Value) {
    for tor in TORS {
        peer_config(fabric, node, tor)["import"]["accept"] = rules.clone();
    }
    fabric.configure(node).unwrap();
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
