//! `--watch` as a person and a script have it: on a real terminal, which changes its size, and in a
//! pipe; while pods come and go and the agent does.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use rack::binaries::flock_agent;
use rack::manifests::node_config;
use rack::node::{Node, OUTSIDE_V4, POD_CIDR4, POD_CIDR6};
use rack::pod::Pod;
use rack::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A node with a peer that is not there.
fn node() -> Node {
    let mut node = Node::new().unwrap();
    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    config["spec"]["bgp"]["peers"] =
        json!([{ "name": "tor-a", "address": OUTSIDE_V4, "asn": 65000, "connectRetry": "1s" }]);
    node.configure(&config).unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
    node
}

fn watch(node: &Node, size: (usize, usize), words: &str) -> Terminal {
    let terminal = Terminal::for_operator(node, size, &[]).unwrap();
    terminal.enter(&format!("flock-agent {words}")).unwrap();
    terminal
}

fn heading(screen: &str) -> &str {
    screen.lines().next().unwrap_or_default()
}

#[test]
fn on_a_terminal_the_screen_is_drawn_over() {
    let mut node = node();
    let plugin = node.plugin().unwrap();
    let terminal = watch(&node, (80, 24), "pods --watch");
    let first = terminal.await_screen("no pods", |s| s.contains("No pods on this node.")).unwrap();
    assert!(heading(&first).ends_with("flock-agent pods --watch"), "{first}");
    assert!(!terminal.has_cursor().unwrap());

    let pods: Vec<Pod> = (0..5).map(|n| Pod::new(&format!("web-{n}")).unwrap()).collect();
    for pod in &pods {
        plugin.add(pod).unwrap();
    }
    let shown = terminal.await_screen("five pods", |s| s.contains("web-4")).unwrap();
    assert!(!shown.contains("No pods"), "nothing of the last frame is left: {shown}");
    assert_eq!(shown.lines().count(), 7, "a heading, headings and five: {shown}");
    let coloured = terminal.painted().unwrap();
    assert!(coloured.contains("\x1b[32m"), "{coloured:?}");

    // Smaller: what does not fit is counted, and no line is broken.
    terminal.resize(40, 5).unwrap();
    let small = terminal.await_screen("a small screen", |s| s.contains("... and 3 more")).unwrap();
    assert_eq!(small.lines().count(), 5, "{small}");
    assert!(small.lines().nth(2).unwrap().starts_with("default    web-0"), "{small}");
    terminal.resize(120, 20).unwrap();
    terminal.await_screen("a large screen", |s| s.contains("web-4") && !s.contains("...")).unwrap();

    // The agent goes away and comes back.
    node.terminate().unwrap();
    let away = terminal.await_screen("no agent", |s| heading(s).contains("no answer")).unwrap();
    assert!(away.contains("web-4"), "what was known stays: {away}");
    node.start().unwrap();
    terminal.await_screen("the agent", |s| !heading(s).contains("no answer")).unwrap();
    node.await_ready().unwrap();
    plugin.del(&pods[4]).unwrap();
    terminal.await_screen("four pods", |s| s.contains("web-3") && !s.contains("web-4")).unwrap();

    terminal.keys(&["C-c"]).unwrap();
    assert_eq!(terminal.await_prompt().unwrap(), 130);
    let left = terminal.screen().unwrap();
    assert!(terminal.has_cursor().unwrap(), "it is given back");
    assert!(left.contains("web-3"), "the last frame stays: {left}");
}

#[test]
fn a_clock_goes_on_and_sigterm_leaves_the_terminal_in_order() {
    let node = node();
    let terminal = watch(&node, (80, 24), "bgp show peers tor-a -w");
    let first = terminal.await_screen("the peer", |s| s.contains("Peer:")).unwrap();
    let time = heading(&first).split(' ').next().unwrap().to_owned();
    terminal.await_screen("a second later", |s| !heading(s).starts_with(&time)).unwrap();
    assert!(first.lines().all(|line| line.chars().count() <= 80), "{first}");
    let pid = Pid::from_raw(terminal.pid().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(terminal.await_prompt().unwrap(), 130);
    assert!(terminal.has_cursor().unwrap());
}

#[test]
fn what_cannot_be_watched_from_the_beginning_is_an_error() {
    let node = node();
    let unknown = watch(&node, (80, 24), "bgp show peers tor-x -w");
    let (status, said) = (unknown.await_prompt().unwrap(), unknown.screen().unwrap());
    assert_eq!((status, said.contains("there are: tor-a")), (1, true), "{said}");
    let nobody = watch(&node, (80, 24), "pods -w --admin-socket /nonexistent/admin.sock");
    assert_eq!(nobody.await_prompt().unwrap(), 2);
}

#[test]
fn a_question_is_answered_with_one_key() {
    let node = node();
    for (keys, status, words) in
        [(["n", "Enter"], 1, "Nothing was reset."), (["y", "Enter"], 0, "it is tried again now.")]
    {
        let terminal = watch(&node, (80, 24), "bgp reset tor-a");
        terminal.await_screen("a question", |s| s.contains("? [y/N]")).unwrap();
        terminal.keys(&keys).unwrap();
        let (ended, screen) = (terminal.await_prompt().unwrap(), terminal.screen().unwrap());
        assert_eq!(ended, status, "{screen}");
        assert!(screen.contains("\nReset the session with tor-a ("), "{screen}");
        assert!(screen.contains(words), "{screen}");
    }
}

/// A command whose output somebody reads line by line.
struct Piped {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Piped {
    fn start(node: &Node, words: &[&str]) -> Self {
        let mut command = node.netns().command(flock_agent().unwrap()).unwrap();
        command.args(words).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn end(mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

#[test]
fn in_a_pipe_an_answer_is_printed_when_it_is_another() {
    let node = node();
    let plugin = node.plugin().unwrap();
    let mut json = Piped::start(&node, &["pods", "-w", "-o", "json"]);
    let mut yaml = Piped::start(&node, &["pods", "-w", "-o", "yaml"]);
    let mut table = Piped::start(&node, &["pods", "-w"]);
    let pods = |line: String| -> usize {
        let list: Value = serde_json::from_str(&line).unwrap();
        list["pods"].as_array().unwrap().len()
    };
    assert_eq!(pods(json.line()), 0);
    assert_eq!(yaml.line(), "pods: []");
    assert_eq!(table.line(), "No pods on this node.");
    let pod = Pod::new("web").unwrap();
    plugin.add(&pod).unwrap();
    // A pod may be seen before its turn is over.
    let mut line = json.line();
    while line.contains("pending") {
        line = json.line();
    }
    assert_eq!(pods(line), 1);
    assert_eq!(yaml.line(), "---");
    assert_eq!(yaml.line(), "pods:");
    assert_eq!(table.line(), "");
    assert!(table.line().starts_with("NAMESPACE"));
    let mut routes = Piped::start(&node, &["bgp", "show", "routes", "-w", "-o", "json"]);
    let list: Value = serde_json::from_str(&routes.line()).unwrap();
    assert_eq!(list["routes"].as_array().unwrap().len(), 2, "{list}");
    for (piped, signal) in [(json, Signal::INT), (yaml, Signal::TERM), (routes, Signal::INT)] {
        assert_eq!(piped.end(signal), Some(130));
    }
    // A reader that leaves ends it without a word, although nothing is to be said.
    let Piped { mut child, lines } = table;
    drop(lines);
    assert!(child.wait().unwrap().success());
}
