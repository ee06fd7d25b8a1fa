//! Two hundred pods at once on one node: all run, no two have an address in common. The time is told
//! beside that of the reference plugin ptp, in a cluster of its own. Both
//! clusters stand while either is measured.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rack::cluster::kubectl::Kubectl;
use rack::cluster::{Cluster, Network, Wish, plan};
use rack::wait::until;

use crate::objects::Workload;
use crate::stage::{Stage, load_workload, pods, remove};

const APP: &str = "burst";
const PODS: u32 = 200;

/// How long they may take; what is claimed is that they come, not how fast.
const LIMIT: Duration = Duration::from_secs(900);

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    // Both clusters stand while either is measured, so that each has the same beside it.
    let wish = Wish { nodes: 1, network: Network::Ptp, ..Wish::default() };
    let mut beside = Cluster::start(wish)?;
    load_workload(&mut beside)?;
    beside.await_ready()?;
    let flock = measure(cluster.kubectl())?;
    println!("     {PODS} pods with flock: {:.1} s", flock.as_secs_f64());
    crate::leaks::ensure_none(cluster)?;
    let ptp = measure(beside.kubectl())?;
    println!("     {PODS} pods with ptp:   {:.1} s", ptp.as_secs_f64());
    Ok(())
}

/// From the Deployment to the last pod that runs.
fn measure(kubectl: &Kubectl) -> Result<Duration> {
    let node = plan::node_name(1);
    let wanted = Workload::new(APP, PODS).on(&node).unprobed();
    let began = Instant::now();
    kubectl.apply(&wanted.deployment().to_string())?;
    let all = until(&format!("{PODS} pods"), LIMIT, || {
        let all = pods(kubectl, APP)?;
        let ready = all.iter().filter(|pod| pod.ready).count();
        ensure!(u32::try_from(ready)? == PODS, "{ready} run");
        Ok(all)
    })?;
    let took = began.elapsed();
    let addresses: Vec<_> = all.iter().flat_map(|pod| pod.addresses.clone()).collect();
    let distinct: BTreeSet<_> = addresses.iter().collect();
    ensure!(distinct.len() == addresses.len(), "an address twice among {addresses:?}");
    ensure!(u32::try_from(distinct.len())? == 2 * PODS, "{} addresses", distinct.len());
    remove(kubectl, APP)?;
    Ok(took)
}
