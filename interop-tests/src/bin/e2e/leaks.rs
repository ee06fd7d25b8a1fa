//! What a node has beside its pods: an address, a link, a route, a deletion that nobody carried out. For
//! every node, flock's record, the kernel and Kubernetes have to tell of the same pods.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use rack::cluster::kubectl::Kubectl;
use rack::cluster::worker::{UPLINK, Worker};
use rack::cluster::{Cluster, SLOW};
use rack::facts::{self, is_pod_interface};
use rack::wait::until;
use serde_json::Value;

use crate::stage::{items, text};

/// Where flock keeps what it knows.
const ALLOCATIONS: &str = "/var/lib/flock/allocations.json";
/// Where deletions wait for an agent that is away.
const SPOOL: &str = "/var/lib/flock/spool";

/// Awaits that no node has anything beside its pods. Links are deleted a little after their pods.
pub(crate) fn ensure_none(cluster: &Cluster) -> Result<()> {
    for node in cluster.nodes() {
        until(&format!("nothing beside the pods on {}", node.name()), SLOW, || {
            look(node, cluster.kubectl())
        })?;
    }
    Ok(())
}

/// Whether a node has something beside its pods now, and what; for a scenario that put it there.
pub(crate) fn found(cluster: &Cluster, node: &Worker) -> Option<String> {
    look(node, cluster.kubectl()).err().map(|error| format!("{error:#}"))
}

fn look(node: &Worker, kubectl: &Kubectl) -> Result<()> {
    let pods = pod_addresses(kubectl, node.name())?;
    let addresses: BTreeSet<IpAddr> = pods.iter().flatten().copied().collect();
    let recorded = recorded(node)?;
    let held: BTreeSet<IpAddr> = recorded.iter().flatten().copied().collect();
    ensure!(recorded.len() == pods.len(), "{} recorded, {} pods", recorded.len(), pods.len());
    ensure!(held == addresses, "recorded {held:?}, pods have {addresses:?}");
    let netns = node.netns()?;
    let links = facts::interfaces(netns)?;
    let links: Vec<_> = links.iter().map(|link| &link.name).collect();
    let of_pods = links.iter().filter(|name| is_pod_interface(name)).count();
    ensure!(of_pods == pods.len(), "{} pods, and the links {links:?}", pods.len());
    let strange = |name: &str| name != "lo" && name != UPLINK && !is_pod_interface(name);
    ensure!(!links.iter().any(|name| strange(name)), "links of nobody: {links:?}");
    for family in ["-4", "-6"] {
        let text = netns.ip(&format!("-j {family} route show"))?;
        for destination in over_pod_links(&text)? {
            ensure!(addresses.contains(&destination), "a route to {destination}, which no pod has");
        }
    }
    let spool = node.machine()?.file(SPOOL);
    let waiting = fs::read_dir(spool).into_iter().flatten().flatten().count();
    ensure!(waiting == 0, "{waiting} deletions wait in {SPOOL}");
    Ok(())
}

/// The addresses of each pod of a node that has a network of its own and still runs.
fn pod_addresses(kubectl: &Kubectl, node: &str) -> Result<Vec<Vec<IpAddr>>> {
    let field = format!("spec.nodeName={node}");
    let list = kubectl.json(&["get", "pods", "-A", "--field-selector", &field])?;
    let own = |pod: &&Value| {
        let host = pod.pointer("/spec/hostNetwork").and_then(Value::as_bool).unwrap_or(false);
        !host && ["Running", "Pending"].contains(&text(pod, "/status/phase"))
    };
    let addresses = |pod: &Value| {
        let all = pod.pointer("/status/podIPs").and_then(Value::as_array);
        let all = all.into_iter().flatten().map(|one| Ok(text(one, "/ip").parse()?));
        let name = text(pod, "/metadata/name");
        let all = all.collect::<Result<Vec<IpAddr>>>()?;
        ensure!(!all.is_empty(), "{name} has no address yet");
        Ok(all)
    };
    items(&list).iter().filter(own).map(addresses).collect()
}

/// Whether flock's record of a node has a container.
pub(crate) fn is_recorded(node: &Worker, container: &str) -> Result<bool> {
    Ok(entries(node)?.iter().any(|entry| text(entry, "/container_id") == container))
}

/// The addresses of each entry of flock's record.
fn recorded(node: &Worker) -> Result<Vec<Vec<IpAddr>>> {
    let addresses = |entry: &Value| {
        let words = ["/ip6", "/ip4"].into_iter().map(|key| text(entry, key));
        let words = words.filter(|word| !word.is_empty());
        words.map(|word| Ok(word.parse()?)).collect()
    };
    entries(node)?.iter().map(addresses).collect()
}

fn entries(node: &Worker) -> Result<Vec<Value>> {
    let file = node.machine()?.file(ALLOCATIONS);
    // A node that never had a pod has no record, which is an empty one.
    let record = match fs::read(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        record => record.with_context(|| format!("reading {ALLOCATIONS}"))?,
    };
    let record: Value = serde_json::from_slice(&record)?;
    let entries = record.get("allocations").and_then(Value::as_array);
    entries.cloned().context("no allocations")
}

/// The single addresses that routes over links of pods lead to, and not by way of a gateway: those of
/// anycast addresses do.
fn over_pod_links(shown: &str) -> Result<Vec<IpAddr>> {
    if shown.trim().is_empty() {
        return Ok(Vec::new());
    }
    let routes: Value = serde_json::from_str(shown)?;
    let direct =
        |route: &&Value| is_pod_interface(text(route, "/dev")) && route.get("gateway").is_none();
    let routes = routes.as_array().into_iter().flatten().filter(direct);
    Ok(routes.filter_map(|route| text(route, "/dst").parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_over_links_of_pods_are_found_and_networks_and_gateways_left_out() {
        let shown = r#"[
            {"dst":"default","gateway":"10.100.1.1","dev":"eth0"},
            {"dst":"10.244.1.2","dev":"flock0a1b2c3d","scope":"link"},
            {"dst":"192.0.2.53","gateway":"10.244.1.2","dev":"flock0a1b2c3d"},
            {"dst":"fe80::/64","dev":"flock0a1b2c3d"}
        ]"#;
        assert_eq!(over_pod_links(shown).unwrap(), ["10.244.1.2".parse::<IpAddr>().unwrap()]);
        assert!(over_pod_links("").unwrap().is_empty());
    }
}
