//! A NodeConfig that names no networks: pods have addresses of the Node's `podCIDRs`, which the ToR is told
//! of. With networks in its NodeConfig again, the node has those.

use anyhow::{Result, ensure};
use rack::cluster::{Cluster, plan};
use rack::probe::await_ping;
use serde_json::json;

use crate::flock;
use crate::objects::{NodeConfig, Workload};
use crate::stage::{Stage, deploy, remove};

const APP: &str = "pod-cidrs";
const NODE: u8 = 2;

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    let (kubectl, node) = (cluster.kubectl(), plan::node_name(NODE));
    // They can be given to a Node once; the same again is no change.
    let (v4, v6) = (plan::pod_cidr(NODE, false), plan::pod_cidr(NODE, true));
    let patch = json!({ "spec": { "podCIDR": &v4, "podCIDRs": [&v4, &v6] } }).to_string();
    kubectl.run(&["patch", "node", &node, "--type=merge", "--patch", &patch])?;
    has_networks_of(cluster, plan::pods, plan::pod_cidr)?;
    println!("     {node} has podCIDRs, and its NodeConfig has networks: those of the NodeConfig");
    let up = flock::up(kubectl, &node)?;
    let mut config = NodeConfig::new(NODE);
    config.networks = false;
    flock::configure(kubectl, &config)?;
    has_networks_of(cluster, plan::pod_cidr, plan::pods)?;
    println!("     without networks in the NodeConfig: {v6} and {v4} of the Node");
    flock::configure(kubectl, &NodeConfig::new(NODE))?;
    has_networks_of(cluster, plan::pods, plan::pod_cidr)?;
    flock::ensure_not_reset(kubectl, &node, up)?;
    println!("     with them, its own again; the session was not reset");
    Ok(())
}

/// The prefix of a node's pods, of a family.
type Networks = fn(u8, bool) -> String;

/// The ToR is told of these networks and not of the others, and new pods are in them. None of the pods is
/// left: networks that hold pods cannot be taken away.
fn has_networks_of(cluster: &Cluster, these: Networks, others: Networks) -> Result<()> {
    let (kubectl, node) = (cluster.kubectl(), plan::node_name(NODE));
    for ipv6 in [true, false] {
        cluster.tor().await_path(&these(NODE, ipv6), |path| !path.stale)?;
        cluster.tor().await_no_path(&others(NODE, ipv6))?;
    }
    for pod in deploy(kubectl, &Workload::new(APP, 2).on(&node))? {
        for ipv6 in [true, false] {
            let (address, network) = (pod.address(ipv6)?, these(NODE, ipv6));
            ensure!(plan::holds(&network, address), "{} has {address}, not of {network}", pod.name);
            await_ping(cluster.tor().netns(), address)?;
        }
    }
    remove(kubectl, APP)
}
