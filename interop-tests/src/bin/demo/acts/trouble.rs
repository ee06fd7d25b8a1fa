//! What an operator fears: the agent is killed, a node is taken out of service.

use std::fs;
use std::net::IpAddr;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rack::binaries;
use rack::fabric::Tor;
use rack::node::Node;
use rack::process::Daemon;
use rack::storm::Storm;
use rack::wait::go_on;
use serde_json::Value;

use crate::company::{ANYCAST, Company, NODES};
use crate::milliseconds;
use crate::stage::Stage;

/// Pings a second from each ToR, to all pods in turn.
const RATE: u32 = 1000;
/// Answers of every target before, during and after the agent's absence.
const ANSWERS: u64 = 40;
/// GRACEFUL_SHUTDOWN (RFC 8326).
const LEAVING: &str = "65535:0";

pub(super) fn kill(stage: &mut Stage, company: &mut Company) -> Result<()> {
    stage.act("An agent is killed under continuous ping, and started again");
    let targets: Vec<_> = company.pods.iter().flat_map(|one| one.addresses()).collect();
    let before = company.fabric.node(2)?.cli_json(&["pods"])?;
    let storms = storms(company, &targets)?;
    stage.tick(&format!(
        "{RATE} pings a second from each ToR to {} addresses of {} pods",
        targets.len(),
        company.pods.len()
    ));
    storms.iter().try_for_each(|storm| storm.await_answers(ANSWERS))?;
    let pid = company.fabric.node_mut(2)?.agent()?.pid();
    stage.command("node-2", &format!("kill -9 {pid}"));
    company.fabric.node_mut(2)?.kill()?;
    let killed = Instant::now();
    for tor in company.fabric.tors() {
        abandoned(stage, company, tor)?;
    }
    storms.iter().try_for_each(|storm| storm.await_answers(ANSWERS))?;
    stage.command("node-2", "flock-agent run --standalone DIR &");
    let start = Instant::now();
    company.fabric.node_mut(2)?.start()?;
    company.fabric.node_mut(2)?.await_ready()?;
    let ready = milliseconds(start);
    for tor in company.fabric.tors() {
        company.fabric.await_session(2, tor.name())?;
    }
    stage.tick(&format!(
        "ready after {ready}, both sessions up after {}; it was away for {:.1} s",
        milliseconds(start),
        killed.elapsed().as_secs_f64()
    ));
    let after = company.fabric.node(2)?.cli_json(&["pods"])?;
    ensure!(before == after, "the pods differ after the restart:\n{before}\n{after}");
    storms.iter().try_for_each(|storm| storm.await_answers(ANSWERS))?;
    account(stage, company, storms)
}

fn storms(company: &Company, targets: &[IpAddr]) -> Result<Vec<Storm>> {
    let each = company.fabric.tors().iter();
    each.map(|tor| company.fabric.storm(tor.name(), targets, RATE)).collect()
}

/// Shows that a ToR has lost the session with node-2 and keeps its routes.
fn abandoned(stage: &Stage, company: &Company, tor: &Tor) -> Result<()> {
    for address in company.fabric.session_addresses(2, tor.name())? {
        tor.router.await_state(address, |state| state != "Established")?;
    }
    let [_, prefix] = Company::prefixes(2);
    stage.command(tor.name(), &format!("ip route show {prefix}   # its session is down"));
    let kept = tor.netns().ip(&format!("route show {prefix}"))?;
    stage.output(&kept);
    ensure!(kept.contains("dev node-2"), "{} dropped {prefix}: {kept:?}", tor.name());
    Ok(())
}

/// Ends the storms; not one ping may be lost.
fn account(stage: &Stage, company: &Company, storms: Vec<Storm>) -> Result<()> {
    for (tor, storm) in company.fabric.tors().iter().zip(storms) {
        let outcome = storm.stop()?;
        outcome.ensure_perfect().with_context(|| format!("from {}", tor.name()))?;
        stage.tick(&format!(
            "{}: {} pings, {} answered, {} lost, longest silence of a pod {} ms",
            tor.name(),
            outcome.sent(),
            outcome.answered(),
            outcome.lost(),
            outcome.longest_gap().as_millis()
        ));
    }
    Ok(())
}

pub(super) fn drain(stage: &mut Stage, company: &Company) -> Result<()> {
    stage.act("A node is drained, and put back into service");
    let node = company.fabric.node(3)?;
    stage.command("node-3", "flock-agent drain --wait 5s");
    stage.output(&drained(company, node)?);
    let [v6, v4] = Company::prefixes(3);
    stage.tick(&format!("first both ToRs saw {v6} and {v4} with {LEAVING}"));
    for prefix in [v6.as_str(), v4.as_str()] {
        company.await_ways(prefix, &[])?;
    }
    for address in ANYCAST {
        company.await_ways(address, &[1, 2])?;
    }
    stage.tick("then they lost both, and anycast leads to node-1 and node-2 alone");
    stage.command("node-3", "flock-agent bgp show");
    stage.output(&node.cli(&["bgp", "show"])?);
    let summary = node.cli_json(&["bgp", "show"])?;
    let drain = summary.get("drain").and_then(Value::as_str).unwrap_or_default();
    ensure!(drain.contains("drained"), "it does not say that it is drained: {summary}");
    go_on()?;
    stage.command("node-3", "flock-agent drain --undo");
    let start = Instant::now();
    stage.output(&node.cli(&["drain", "--undo"])?);
    for address in ANYCAST {
        company.await_ways(address, &NODES)?;
    }
    for prefix in [v6.as_str(), v4.as_str()] {
        company.await_ways(prefix, &[3])?;
    }
    stage.tick(&format!("back on both ToRs after {}", milliseconds(start)));
    Ok(())
}

/// Drains a node, and returns what the command said. Both ToRs are asked meanwhile.
fn drained(company: &Company, node: &Node) -> Result<String> {
    let mut command = node.netns().command(binaries::flock_agent()?)?;
    command.args(["drain", "--wait", "5s"]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    let log = node.file("drain.log");
    let mut drain = Daemon::start("flock-agent drain", &mut command, &log)?;
    warned(company)?;
    let status = drain.await_exit()?;
    let said = fs::read_to_string(log)?;
    ensure!(status.success(), "flock-agent drain ended with {status}: {said}");
    Ok(said)
}

/// Awaits that both ToRs see the node's summaries with the community of RFC 8326.
fn warned(company: &Company) -> Result<()> {
    for tor in company.fabric.tors() {
        for prefix in Company::prefixes(3) {
            tor.router.await_path(&prefix, |path| {
                path.communities.iter().any(|community| community == LEAVING)
            })?;
        }
    }
    Ok(())
}
