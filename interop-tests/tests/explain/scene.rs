//! What these tests share: two ToRs, and what an agent says when it is asked to explain.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use rack::binaries::flock_agent;
use rack::fabric::{Builder, Fabric};
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

/// Both ToRs.
pub(crate) const TORS: [&str; 2] = ["tor-a", "tor-b"];
/// The first node's networks.
pub(crate) const NETWORK4: &str = "10.244.1.0/24";
pub(crate) const NETWORK6: &str = "2001:db8:0:1::/64";

/// BIRD and FRR.
pub(crate) fn pair() -> Builder {
    Fabric::builder().tor(TORS[0], Brand::Bird).tor(TORS[1], Brand::Frr)
}

/// Starts the agents, and awaits that everything is told on both sides.
pub(crate) fn start(fabric: &mut Fabric) {
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    for node in 1..=fabric.node_count() {
        until("everything to be told", PATIENCE, || {
            let shown = fabric.node(node)?.cli_json(&["bgp", "show", "peers"])?;
            let peers = shown["peers"].as_array().context("no peers")?;
            let complete = |peer: &Value| {
                peer["state"] == "Established"
                    && peer["endOfRibSent"] == true
                    && peer["endOfRibReceived"] == true
            };
            ensure!(peers.iter().all(complete), "{shown}");
            Ok(())
        })
        .unwrap();
    }
}

/// An explanation.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) json: Value,
    /// As people see it, without what differs from run to run.
    pub(crate) text: String,
    /// What the command exited with.
    pub(crate) code: i32,
}

impl Said {
    pub(crate) fn verdict(&self) -> String {
        timeless(self.json["verdict"].as_str().unwrap_or_default())
    }

    /// The peer of this name, as far as the prefix is concerned.
    pub(crate) fn peer(&self, name: &str) -> &Value {
        let peers = self.json["peers"].as_array().unwrap();
        peers.iter().find(|peer| peer["name"] == name).unwrap()
    }

    /// A sentence under a heading, as it stands there.
    #[track_caller]
    pub(crate) fn says(&self, heading: &str, sentence: &str) -> &Self {
        let under = self.text.split(&format!("\n{heading}\n")).nth(1).unwrap_or_default();
        let under = under.split("\n\n").next().unwrap_or_default();
        let found = under.lines().any(|line| line.trim_start() == sentence);
        assert!(found, "{sentence:?} is not under {heading}:\n{}", self.text);
        self
    }
}

/// What a node explains.
pub(crate) fn explain(fabric: &Fabric, node: usize, words: &[&str]) -> Result<Said> {
    let node = fabric.node(node)?;
    let run = |more: &[&str]| -> Result<(String, i32)> {
        let mut command = node.netns().command(flock_agent()?)?;
        command.args(["bgp", "explain"]).args(words).args(more);
        let output = command.env("FLOCK_ADMIN_SOCKET", node.admin_socket()).output()?;
        let code = output.status.code().context("it was killed")?;
        ensure!(!output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok((String::from_utf8(output.stdout)?, code))
    };
    let (json, code) = run(&["-o", "json"])?;
    let json = serde_json::from_str(&json).with_context(|| format!("not JSON: {json}"))?;
    Ok(Said { json, text: timeless(&run(&[])?.0), code })
}

/// Awaits a verdict of the first node.
#[track_caller]
pub(crate) fn await_verdict(fabric: &Fabric, words: &[&str], verdict: &str) -> Said {
    await_said(fabric, words, verdict, |said| said.verdict() == verdict)
}

/// Awaits that the first node says what pleases.
#[track_caller]
pub(crate) fn await_said(
    fabric: &Fabric,
    words: &[&str],
    what: &str,
    pleases: impl Fn(&Said) -> bool,
) -> Said {
    let said = until(&format!("{words:?}: {what}"), PATIENCE, || {
        let said = explain(fabric, 1, words)?;
        ensure!(pleases(&said), "it says\n{}\n{:#}", said.text, said.json);
        Ok(said)
    });
    said.unwrap_or_else(|error| panic!("{error:#}"))
}

/// A text without what differs from run to run: moments are T, lengths of time N, pods' interfaces
/// flockX, errors of the system without their number.
pub(crate) fn timeless(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(timeless_line).collect();
    lines.join("\n")
}

fn timeless_line(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = line.split(' ').peekable();
    while let Some(word) = rest.next() {
        let is_time = word.len() == 8 && word.bytes().filter(|byte| *byte == b':').count() == 2;
        if is_time && rest.peek().is_some_and(|next| next.starts_with("UTC")) {
            let zone = rest.next().unwrap_or_default();
            let mut end = zone.trim_start_matches("UTC").to_owned();
            if rest.peek().is_some_and(|next| next.starts_with('(')) {
                rest.next();
                end = rest.next().unwrap_or_default().trim_start_matches("ago)").to_owned();
            }
            words.push(format!("T{end}"));
            continue;
        }
        let after_in = words.last().is_some_and(|last| last == "in");
        let digits = word.chars().take_while(char::is_ascii_digit).count();
        match word.get(digits..) {
            Some(unit) if after_in && digits > 0 => {
                words.push(format!("N{}", unit.trim_start_matches(['s', 'm', 'h'])));
            }
            _ => words.push(plain_interface(word)),
        }
    }
    words.join(" ").replace(" (os error 111)", "")
}

fn plain_interface(word: &str) -> String {
    let Some(at) = word.find("flock") else { return word.to_owned() };
    let (before, name) = word.split_at(at);
    let is_id = |id: &&str| id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match (name.get(5..13).filter(is_id), name.get(13..)) {
        (Some(_), Some(after)) => format!("{before}flockX{after}"),
        _ => word.to_owned(),
    }
}

/// One peer of the first node's NodeConfig, to be changed.
pub(crate) fn peer_config<'a>(fabric: &'a mut Fabric, name: &str) -> &'a mut Value {
    let peers = fabric.node_config_mut(1).unwrap().pointer_mut("/spec/bgp/peers").unwrap();
    let peers = peers.as_array_mut().unwrap();
    peers.iter_mut().find(|peer| peer["name"] == name).unwrap()
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
