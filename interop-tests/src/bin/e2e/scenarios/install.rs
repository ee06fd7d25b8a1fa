//! flock comes into a cluster that has no network: its nodes are not Ready before it serves, and are
//! when it does. The ToR then knows every pod.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use rack::cluster::{Cluster, SLOW};
use rack::probe::await_ping;
use rack::wait::until;
use serde_json::Value;

use crate::flock;
use crate::objects::{NodeConfig, Workload};
use crate::stage::{Stage, condition, deploy, items, remove, text};
use crate::web;

const APP: &str = "install";

/// What tells the runtime that there is a network.
const CONFLIST: &str = "/etc/cni/net.d/01-flock.conflist";

/// The conditions of a Node that kubelet looks after.
const OF_KUBELET: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    ensure!(!stage.installed, "flock is installed already; play this scenario first");
    let cluster = stage.cluster()?;
    await_network_missing(cluster)?;
    println!("     both nodes are NotReady: they have no network");
    flock::apply(cluster.kubectl())?;
    await_agents_running(cluster)?;
    await_waiting(cluster)?;
    ensure_not_ready(cluster).context("the agent runs, but has no NodeConfig")?;
    println!("     the agents wait for NodeConfigs, and the nodes are still NotReady");
    for node in cluster.nodes() {
        flock::configure(cluster.kubectl(), &NodeConfig::new(node.number()))?;
    }
    cluster.await_ready()?;
    for node in cluster.nodes() {
        let socket = node.machine()?.file("/run/flock/flock.sock");
        ensure!(socket.exists(), "{} is Ready, and flock does not serve there", node.name());
        let conflist = node.machine()?.file(CONFLIST);
        ensure!(conflist.exists(), "{} is Ready without {CONFLIST}", node.name());
    }
    println!("     with NodeConfigs they are Ready");
    stage.installed = true;
    let cluster = stage.flock()?;
    reached_from_tor(cluster)?;
    conditions(cluster)
}

/// Kubelet itself says that the network is what is missing.
fn await_network_missing(cluster: &Cluster) -> Result<()> {
    until("NotReady nodes for want of a network", SLOW, || {
        let nodes = cluster.kubectl().json(&["get", "nodes"])?;
        for node in items(&nodes) {
            let ready = condition(node, "Ready").context("no condition Ready")?;
            let message = text(ready, "/message");
            ensure!(text(ready, "/status") == "False", "it is {ready}");
            ensure!(message.to_lowercase().contains("network"), "it is {ready}");
        }
        Ok(())
    })
}

/// The container runs; whether it is Ready is another question.
fn await_agents_running(cluster: &Cluster) -> Result<()> {
    until("an agent on every node", SLOW, || {
        let namespace = flock::NAMESPACE;
        let list = cluster.kubectl().json(&["-n", namespace, "get", "pods", "-l", flock::LABEL])?;
        let running =
            |pod: &&Value| pod.pointer("/status/containerStatuses/0/state/running").is_some();
        let count = items(&list).iter().filter(running).count();
        ensure!(count == cluster.nodes().len(), "{count} run");
        Ok(())
    })
}

/// Every agent has come so far that only a NodeConfig is missing, and says so.
fn await_waiting(cluster: &Cluster) -> Result<()> {
    let kubectl = cluster.kubectl();
    until("every agent to say that it waits for a NodeConfig", SLOW, || {
        for (node, pod) in flock::agents(kubectl)? {
            let log = kubectl.run(&["-n", flock::NAMESPACE, "logs", &pod, "-c", "flock"])?;
            ensure!(log.contains("waiting for a NodeConfig"), "{node} says {log:?}");
        }
        Ok(())
    })
}

fn ensure_not_ready(cluster: &Cluster) -> Result<()> {
    for (name, ready) in cluster.readiness()? {
        ensure!(ready != "True", "{name} is Ready");
    }
    for node in cluster.nodes() {
        let conflist = node.machine()?.file(CONFLIST);
        ensure!(!conflist.exists(), "{} has {CONFLIST} already", node.name());
    }
    Ok(())
}

/// Pods are reached by those who are not in the cluster at all.
fn reached_from_tor(cluster: &Cluster) -> Result<()> {
    let kubectl = cluster.kubectl();
    let pods = deploy(kubectl, &Workload::new(APP, 4))?;
    for pod in &pods {
        for ipv6 in [true, false] {
            await_ping(cluster.tor().netns(), pod.address(ipv6)?)?;
            let server =
                std::net::SocketAddr::new(pod.address(ipv6)?, rack::cluster::workload::PORT);
            let said = web::get(cluster.tor().netns(), server, "/")?;
            ensure!(said.contains(&pod.name), "asked {} and heard {said}", pod.name);
        }
    }
    println!("     the ToR reaches {} pods over both families", pods.len());
    remove(kubectl, APP)
}

/// flock says that the network is there, and touches nothing else of a Node.
fn conditions(cluster: &Cluster) -> Result<()> {
    let nodes = cluster.kubectl().json(&["get", "nodes"])?;
    for node in items(&nodes) {
        let all = node.pointer("/status/conditions").and_then(Value::as_array);
        let all = all.into_iter().flatten();
        let all: BTreeMap<_, _> = all.map(|one| (text(one, "/type"), one)).collect();
        let network = all.get("NetworkUnavailable").context("no NetworkUnavailable")?;
        ensure!(text(network, "/status") == "False", "{network}");
        for kind in OF_KUBELET {
            let condition = all.get(kind).with_context(|| format!("no {kind} in {all:?}"))?;
            let reason = text(condition, "/reason");
            ensure!(reason.starts_with("Kubelet"), "{kind} is not kubelet's any more: {condition}");
        }
    }
    println!("     NetworkUnavailable is False, the other conditions are kubelet's");
    Ok(())
}
