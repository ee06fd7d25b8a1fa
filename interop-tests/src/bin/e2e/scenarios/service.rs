//! What any cluster with flock can show, by kubectl alone: addresses of both families, pods that talk
//! across nodes and are probed by kubelet, sessions up, the agent's own command line and metrics.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use rack::cluster::SLOW;
use rack::cluster::kubectl::Kubectl;
use rack::wait::until;
use serde_json::Value;

use crate::flock;
use crate::objects::Workload;
use crate::stage::{Stage, deploy, items, remove, text};

const APP: &str = "service";

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    if !stage.is_foreign() {
        stage.flock()?;
    }
    let kubectl = stage.kubectl()?;
    pods_talk(kubectl)?;
    nodeconfigs_tell(kubectl)?;
    agents_answer(kubectl)
}

fn pods_talk(kubectl: &Kubectl) -> Result<()> {
    let nodes = items(&kubectl.json(&["get", "nodes"])?).len();
    let pods = deploy(kubectl, &Workload::new(APP, u32::try_from(2 * nodes)?))?;
    let on: BTreeSet<_> = pods.iter().map(|pod| &pod.node).collect();
    ensure!(on.len() == nodes, "{nodes} nodes, and pods on {on:?}");
    let wide = kubectl.run(&["get", "pods", "-l", &format!("app={APP}"), "-o", "wide"])?;
    for pod in &pods {
        ensure!(pod.addresses.len() == 2, "{} has {:?}", pod.name, pod.addresses);
        let shown = pod.addresses.iter().any(|address| wide.contains(&address.to_string()));
        ensure!(shown, "no address of {} in\n{wide}", pod.name);
    }
    for from in &pods {
        for to in &pods {
            for ipv6 in [true, false] {
                let said = from.exec(kubectl, &["/workload", "get", &to.url(ipv6, "/")?])?;
                let answer: Value = serde_json::from_str(&said)?;
                ensure!(text(&answer, "/pod") == to.name, "asked {} and heard {said}", to.name);
                // Nobody on the way puts its own address in the place of theirs.
                let client = from.address(ipv6)?.to_string();
                ensure!(text(&answer, "/client") == client, "{} is seen as {said}", from.name);
            }
        }
    }
    // They are Ready by a probe over HTTP, and stay: liveness has another.
    let list = kubectl.json(&["get", "pods", "-l", &format!("app={APP}")])?;
    for pod in items(&list) {
        let restarts = pod.pointer("/status/containerStatuses/0/restartCount");
        ensure!(restarts.and_then(Value::as_u64) == Some(0), "restarted by a probe: {pod}");
    }
    println!(
        "     {} pods on {nodes} nodes talk over both families, each seen under its own address",
        pods.len()
    );
    remove(kubectl, APP)
}

fn nodeconfigs_tell(kubectl: &Kubectl) -> Result<()> {
    let table = until("every session Established in the status of its NodeConfig", SLOW, || {
        let list = kubectl.json(&["get", "nodeconfigs"])?;
        ensure!(!items(&list).is_empty(), "there is no NodeConfig");
        for config in items(&list) {
            let name = text(config, "/metadata/name");
            let peers = config.pointer("/status/peers").and_then(Value::as_array);
            let peers = peers.with_context(|| format!("{name} tells of no peers: {config}"))?;
            let wanted = config.pointer("/spec/bgp/peers").and_then(Value::as_array);
            let wanted = wanted.with_context(|| format!("{name} has no peers: {config}"))?.len();
            ensure!(peers.len() == wanted, "{name} has {wanted} peers, and tells of {peers:?}");
            let sessions = text(config, "/status/sessions");
            ensure!(sessions == format!("{wanted}/{wanted}"), "{name}: sessions is {sessions:?}");
            for peer in peers {
                ensure!(text(peer, "/state") == "Established", "{name}: {peer}");
            }
        }
        kubectl.run(&["get", "nodeconfigs"])
    })?;
    table.lines().for_each(|line| println!("     {line}"));
    Ok(())
}

fn agents_answer(kubectl: &Kubectl) -> Result<()> {
    let namespace = flock::NAMESPACE;
    let words = ["-n", namespace, "exec", "ds/flock", "--", "flock-agent", "bgp", "show"];
    let summary = kubectl.run(&words)?;
    ensure!(summary.contains("Established"), "bgp show says\n{summary}");
    summary.lines().for_each(|line| println!("     {line}"));
    for (node, pod) in flock::agents(kubectl)? {
        let page = format!("/api/v1/namespaces/{namespace}/pods/{pod}:9179/proxy/metrics");
        let metrics = kubectl.run(&["get", "--raw", &page])?;
        let up = metrics.lines().find(|line| line.starts_with("flock_bgp_session_up{"));
        ensure!(up.is_some_and(|line| line.ends_with(" 1")), "{node}: {up:?}");
        let words = ["-n", namespace, "exec", &pod, "--", "flock-agent", "check"];
        let said = kubectl.run(&words).with_context(|| format!("the doctor on {node}"))?;
        ensure!(!said.is_empty(), "the doctor of {node} says nothing");
    }
    println!("     /metrics answers on every node, and flock-agent check finds nothing wrong");
    Ok(())
}
