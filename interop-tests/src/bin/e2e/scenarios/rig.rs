//! The rig proves itself without flock: two nodes with the reference plugin ptp are Ready, a Deployment
//! runs on both, `kubectl exec` and `logs` work, the API server is restarted, a node rebooted, and
//! nothing is left of it afterwards.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use rack::cluster::{Cluster, Network, SLOW, Wish};
use rack::probe::{await_ping, ping};
use rack::remains::left_behind;
use rack::wait::until;

use crate::objects::Workload;
use crate::stage::{Stage, await_pods, deploy, load_workload, pods};

const APP: &str = "rig";

pub(crate) fn play(_stage: &mut Stage) -> Result<()> {
    let before = left_behind();
    let wish = Wish { network: Network::Ptp, node_cidrs: true, ..Wish::default() };
    let mut cluster = Cluster::start(wish)?;
    println!("     a cluster stands, with ptp");
    serves(&mut cluster).with_context(|| cluster.logs())?;
    drop(cluster);
    let left: Vec<_> = left_behind().into_iter().filter(|one| !before.contains(one)).collect();
    ensure!(left.is_empty(), "left behind: {}", left.join(", "));
    println!("     nothing is left of it");
    Ok(())
}

fn serves(cluster: &mut Cluster) -> Result<()> {
    load_workload(cluster)?;
    cluster.await_ready()?;
    println!("     both nodes are Ready");
    talks(cluster, 4)?;
    cluster.control_mut().stop_api_server()?;
    cluster.control_mut().start_api_server()?;
    println!("     the API server was restarted");
    cluster.reboot(2)?;
    println!("     node-2 was rebooted");
    // Until its kubelet has looked, Kubernetes tells of pods that are gone.
    until("the pods to be there again", SLOW, || {
        for pod in pods(cluster.kubectl(), APP)? {
            ping(cluster.tor().netns(), pod.address(false)?)?;
        }
        Ok(())
    })?;
    cluster.await_ready()?;
    talks(cluster, 4)
}

/// Pods on both nodes reach each other over both families, and are reached by their operator.
fn talks(cluster: &Cluster, replicas: u32) -> Result<()> {
    let kubectl = cluster.kubectl();
    deploy(kubectl, &Workload::new(APP, replicas))?;
    let pods = await_pods(kubectl, APP, replicas)?;
    let nodes: BTreeSet<_> = pods.iter().map(|pod| &pod.node).collect();
    ensure!(nodes.len() == 2, "they are on {nodes:?}");
    let first = pods.first().context("no pod")?;
    for pod in &pods {
        for ipv6 in [false, true] {
            await_ping(cluster.tor().netns(), pod.address(ipv6)?)?;
            let said = first.exec(kubectl, &["/workload", "get", &pod.url(ipv6, "/")?])?;
            ensure!(said.contains(&pod.name), "asked {} and heard {said}", pod.name);
        }
        let log = kubectl.run(&["logs", &pod.name])?;
        ensure!(log.contains("serving"), "its log is {log:?}");
        let door = pod.door(cluster)?;
        await_ping(door.netns(), first.address(true)?)?;
    }
    println!("     {replicas} pods on both nodes talk, exec and logs work");
    Ok(())
}
