//! A table of many routes, shown: it streams in order, and neither the agent nor the command holds
//! it in memory. Readers that do not read hold nobody up.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use anyhow::ensure;
use rack::bench::bgp::session::{Identity, Session, listen};
use rack::bench::bgp::table::{Table, Wish};
use rack::bench::bgp::{Family, usage};
use rack::binaries;
use rack::manifests::node_config;
use rack::node::{Node, OUTSIDE_V4, POD_CIDR4, POD_CIDR6};
use rack::raw::Client;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

const ROUTES: usize = 200_000;
const TOR: u32 = 65_010;
/// What reading all of it may cost, where the text alone has a hundred.
const MEGABYTES: u64 = 16 << 20;

/// A node that learned the table, and the session that told it.
fn learned() -> (Node, Session) {
    let mut node = Node::new().unwrap();
    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    config["spec"]["bgp"]["peers"] = json!([{
        "name": "tor",
        "address": OUTSIDE_V4,
        "asn": TOR,
        "families": ["ipv4-unicast"],
        "import": { "accept": ["0.0.0.0/0 le 32"], "maxPrefixes": 1_000_000 },
    }]);
    node.configure(&config).unwrap();
    let next_hop = OUTSIDE_V4.parse().unwrap();
    let listener = listen(node.outside().unwrap(), next_hop).unwrap();
    node.start().unwrap();
    let id = Ipv4Addr::new(10, 0, 0, 9);
    let identity = Identity { asn: TOR, id, family: Family::V4, hold: 0 };
    let mut session = Session::accept(&listener, &identity, PATIENCE).unwrap();
    let wish = Wish { family: Family::V4, routes: ROUTES, sets: 20_000, asn: TOR, next_hop };
    let table = Table::new(&wish).unwrap();
    session.write(&table.bytes).unwrap();
    until("all routes in the kernel", PATIENCE * 10, || {
        let summary = node.cli_json(&["bgp", "show"])?;
        let counts = (&summary["learned"], &summary["installed"]);
        ensure!(counts == (&json!(ROUTES), &json!(ROUTES)), "{counts:?}");
        Ok(())
    })
    .unwrap();
    (node, session)
}

fn command(node: &Node, words: &[&str]) -> Command {
    let mut command = node.netns().command(binaries::flock_agent().unwrap()).unwrap();
    command.args(["bgp", "show", "routes"]).args(words);
    command.env("FLOCK_ADMIN_SOCKET", node.admin_socket()).stdout(Stdio::piped());
    command
}

/// What grew while somebody read.
struct Growth {
    pid: u32,
    before: u64,
    most: u64,
}

impl Growth {
    fn of(pid: u32) -> Self {
        let before = usage::of(pid).unwrap().resident;
        Self { pid, before, most: before }
    }

    fn look(&mut self) {
        // A command that has ended does not grow any more.
        self.most = self.most.max(usage::of(self.pid).map_or(0, |usage| usage.resident));
    }

    fn check(&self, whose: &str) {
        let grown = self.most.saturating_sub(self.before);
        assert!(grown < MEGABYTES, "{whose} grew by {} KiB", grown >> 10);
    }
}

/// Reads the prefixes of all rows from pretty JSON as it comes.
fn prefixes(child: &mut Child, mut look: impl FnMut()) -> Vec<(u32, u8)> {
    let mut found = Vec::new();
    for (number, line) in BufReader::new(child.stdout.take().unwrap()).lines().enumerate() {
        if number % 50_000 == 0 {
            look();
        }
        let line = line.unwrap();
        if let Some(text) = line.trim_start().strip_prefix("\"prefix\": \"") {
            let (address, length) = text.trim_end_matches("\",").split_once('/').unwrap();
            let address: Ipv4Addr = address.parse().unwrap();
            found.push((address.into(), length.parse().unwrap()));
        }
    }
    found
}

#[test]
fn a_long_table_streams_in_order_and_is_held_by_nobody() {
    let (mut node, _session) = learned();
    let agent = node.agent().unwrap().pid();
    // Once, so that what is allocated at the first time is there.
    node.cli(&["bgp", "show", "routes", "--limit", "5000"]).unwrap();

    let mut growth = Growth::of(agent);
    let mut child =
        command(&node, &["-o", "json", "--received"]).stderr(Stdio::piped()).spawn().unwrap();
    let (pid, mut own) = (child.id(), None);
    let found = prefixes(&mut child, || {
        growth.look();
        // From its first line on: it has its program and its buffers by then.
        own.get_or_insert_with(|| Growth::of(pid)).look();
    });
    assert!(child.wait().unwrap().success());
    assert_eq!(found.len(), ROUTES);
    assert!(found.is_sorted_by(|a, b| a < b), "in order, each once");
    growth.check("the agent");
    own.unwrap().check("the command");

    rows_are_chosen(&node, &found);
    a_reader_that_leaves(&node);
    readers_that_do_not_read(&node, agent);
    node.agent().unwrap().ensure_alive().unwrap();
}

fn rows_are_chosen(node: &Node, found: &[(u32, u8)]) {
    let text = |(address, length): (u32, u8)| format!("{}/{length}", Ipv4Addr::from(address));
    let shown = |words: &[&str]| -> Vec<String> {
        let list = node.cli_json(&[&["bgp", "show", "routes"], words].concat()).unwrap();
        let rows = list["routes"].as_array().unwrap();
        rows.iter().map(|row| row["prefix"].as_str().unwrap().to_owned()).collect()
    };
    let (last, next) = (text(found[99_999]), text(found[100_000]));
    let one = std::slice::from_ref(&next);
    assert_eq!(shown(&["--received", "--limit", "1", "--after", &last]), one);
    assert_eq!(shown(&[&next]), one);
    let address = next.split_once('/').unwrap().0;
    assert!(shown(&[address]).contains(&next));
    assert_eq!(shown(&[address, "--exact"]), Vec::<String>::new());
    let (base, _) = found[100_000];
    let within = format!("{}/12", Ipv4Addr::from(base >> 20 << 20));
    let longer = shown(&[&within, "--longer"]);
    let wanted = found.iter().filter(|(at, _)| at >> 20 == base >> 20);
    assert_eq!(longer, wanted.map(|net| text(*net)).collect::<Vec<_>>());
}

/// `| head`: nothing is said about it.
fn a_reader_that_leaves(node: &Node) {
    for form in ["table", "json", "yaml"] {
        let mut child = command(node, &["-o", form]).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        drop(lines);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{form}: {output:?}");
        assert!(output.stderr.is_empty(), "{form}: {output:?}");
    }
}

/// Twenty that ask for everything and take nothing: others are answered, and memory is bounded.
fn readers_that_do_not_read(node: &Node, agent: u32) {
    let client = Client::new(&node.admin_socket());
    let question = json!({ "v": 1, "op": "bgp.routes", "args": {} });
    let mut growth = Growth::of(agent);
    let mut asleep: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = client.connect().unwrap();
            stream.write_all(format!("{question}\n").as_bytes()).unwrap();
            stream
        })
        .collect();
    // The first bytes are here: each has its walk and waits in the middle of it.
    for stream in &mut asleep {
        stream.read_exact(&mut [0; 16]).unwrap();
    }
    growth.look();
    let counted: Value = node.cli_json(&["bgp", "show"]).unwrap();
    assert_eq!(counted["learned"], ROUTES);
    growth.look();
    let grown = growth.most.saturating_sub(growth.before);
    // A choice of prefixes and a part each, some two megabytes.
    assert!(grown < 20 * (3 << 20), "the agent grew by {} KiB", grown >> 10);
}
