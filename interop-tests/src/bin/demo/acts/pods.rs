//! Pods come, talk and go.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rack::facts;
use rack::wait::go_on;
use serde_json::Value;

use crate::company::{ANYCAST, Company, NODES};
use crate::matrix::{Party, ping_everybody};
use crate::milliseconds;
use crate::stage::Stage;

/// What a packet from a pod to a pod of another node has left of the 64 that it
/// began with: its node, a ToR and the other node each took one.
const TTL_ACROSS: &str = "ttl=61";

pub(super) fn attach(stage: &mut Stage, company: &mut Company) -> Result<()> {
    stage.act("Six pods are attached, as a container runtime does it");
    stage.command("node-1", "CNI_COMMAND=ADD CNI_NETNS=... CNI_IFNAME=eth0 flock < network.json");
    let start = Instant::now();
    for node in NODES {
        for name in ["web", "dns"] {
            go_on()?;
            let one = company.attach(node, &format!("{name}-{node}"))?;
            let [v6, v4] = [one.v6.map(|v6| v6.to_string()), one.v4.map(|v4| v4.to_string())]
                .map(Option::unwrap_or_default);
            stage.place(&one.pod.name, &v6, &v4, &format!("node-{node}"));
        }
    }
    let took = milliseconds(start);
    stage.tick(&format!("six pods in {took}, and in the kernel as they are in the answers"));
    let web = &company.pod("web-1")?.pod.netns;
    for question in ["-6 -brief address show dev eth0", "-6 route show default", "-4 route"] {
        stage.command("web-1", &format!("ip {question}"));
        stage.output(&web.ip(question)?);
    }
    let node = company.fabric.node(1)?;
    stage.command("node-1", "flock-agent pods");
    stage.output(&node.cli(&["pods"])?);
    let known = node.cli_json(&["pods"])?;
    let count = known.get("pods").and_then(Value::as_array).map_or(0, Vec::len);
    ensure!(count == 2, "the agent of node-1 knows {count} pods: {known}");
    Ok(())
}

pub(super) fn talk(stage: &mut Stage, company: &Company) -> Result<()> {
    stage.act("Everybody pings everybody, through the ToRs");
    let mut parties = Vec::new();
    for tor in company.fabric.tors() {
        let [v6, v4] = tor.addresses();
        parties.push(Party { name: tor.name(), netns: tor.netns(), v6, v4 });
    }
    for node in NODES {
        let one = company.pod(&format!("web-{node}"))?;
        let (v6, v4) = one.v6.zip(one.v4).context("a pod with one family")?;
        let (v6, v4) = (v6.into(), v4.into());
        parties.push(Party { name: &one.pod.name, netns: &one.pod.netns, v6, v4 });
    }
    ping_everybody(stage, &parties)?;
    let (from, to) = (company.pod("web-1")?, company.pod("web-3")?);
    for target in to.addresses().iter().map(ToString::to_string) {
        let said = from.pod.netns.exec("ping", &["-n", "-c", "1", "-W", "5", &target])?;
        let answer = said.lines().find(|line| line.contains(" ttl=")).context(said.clone())?;
        let across = answer.contains(TTL_ACROSS);
        ensure!(across, "the packet took another way than over a ToR: {answer}");
        // The other one is too long for a narrow terminal.
        if !target.contains(':') {
            stage.command("web-1", &format!("ping -c 1 {target}"));
            stage.output(answer);
        }
    }
    stage.tick("ttl 61 of 64, in both families: node-3, a ToR and node-1 took one each");
    stage.command("node-1", "ip -6 route show default");
    stage.output(&company.fabric.node(1)?.netns().ip("-6 route show default")?);
    Ok(())
}

pub(super) fn detach(stage: &mut Stage, company: &mut Company) -> Result<()> {
    stage.act("The pods go, and then everything else");
    stage.command("node-1", "CNI_COMMAND=DEL ... flock < network.json");
    let mut namespaces = Vec::new();
    while let Some(one) = company.pods.pop() {
        go_on()?;
        let (name, node) = (one.pod.name.clone(), one.node);
        let start = Instant::now();
        company.fabric.node(node)?.plugin()?.del(&one.pod)?;
        stage.tick(&format!("{name:<5} detached from node-{node} in {}", milliseconds(start)));
        namespaces.push(one);
    }
    for node in NODES {
        company.fabric.node(node)?.await_no_leftovers()?;
    }
    for one in &namespaces {
        let gone = facts::interface(&one.pod.netns, "eth0").is_err();
        ensure!(gone, "{} still has eth0", one.pod.name);
    }
    stage.tick("no interface, route, filter rule or allocation is left on any node");
    for address in ANYCAST {
        company.await_ways(address, &[])?;
    }
    stage.tick(&format!("no ToR has a route for {} any more", ANYCAST.join(" or ")));
    Ok(())
}
