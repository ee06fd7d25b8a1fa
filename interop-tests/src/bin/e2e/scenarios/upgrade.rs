//! `kubectl rollout restart ds/flock` under traffic: no packet lost, nothing withdrawn, by no
//! node: neither the prefixes of pods nor an anycast address.

use anyhow::{Result, ensure};
use rack::cluster::plan;
use rack::monitor::RouteMonitor;
use rack::storm::Storm;

use crate::flock;
use crate::objects::Workload;
use crate::stage::{Pod, Stage, deploy, remove};
use crate::ways::Anycast;

const APP: &str = "upgrade";
const SHARED: &str = "upgrade-anycast";
const ANYCAST: Anycast = Anycast(["2001:db8:54::54", "192.0.2.54"]);

/// Probes a second of each storm.
const RATE: u32 = 200;

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    let kubectl = cluster.kubectl();
    let pods = deploy(kubectl, &Workload::new(APP, 2))?;
    let shared = ANYCAST.deploy(cluster, SHARED, 0)?;
    let addresses: Vec<_> = pods.iter().flat_map(|pod| pod.addresses.clone()).collect();
    let before = flock::agents(kubectl)?;
    let monitor = RouteMonitor::start(cluster.tor().netns())?;
    let doors = pods.iter().map(|pod| pod.door(cluster)).collect::<Result<Vec<_>>>()?;
    let mut storms = vec![Storm::start(cluster.tor().netns(), &addresses, RATE)?];
    for (pod, door) in pods.iter().zip(&doors) {
        let others: Vec<_> = others(pod, &pods);
        storms.push(Storm::start_from(door.netns(), &pod.addresses, &others, RATE)?);
    }
    storms.iter().try_for_each(|storm| storm.await_answers(20))?;
    kubectl.run(&["-n", flock::NAMESPACE, "rollout", "restart", "daemonset/flock"])?;
    flock::await_rollout(kubectl)?;
    for node in cluster.nodes() {
        cluster.tor().await_established(node.wire().far(true))?;
        for ipv6 in [true, false] {
            cluster.tor().await_path(&plan::pods(node.number(), ipv6), |path| !path.stale)?;
        }
    }
    ANYCAST.await_fresh(cluster)?;
    ANYCAST.await_ways(cluster, &shared)?;
    storms.iter().try_for_each(|storm| storm.await_answers(20))?;
    let after = flock::agents(kubectl)?;
    ensure!(!after.iter().any(|agent| before.contains(agent)), "{before:?} became {after:?}");
    let outcomes = storms.into_iter().map(Storm::stop).collect::<Result<Vec<_>>>()?;
    let sent: u64 = outcomes.iter().map(rack::storm::Outcome::sent).sum();
    let gone = monitor.gone()?;
    let lost: u64 = outcomes.iter().map(rack::storm::Outcome::lost).sum();
    let changes = ANYCAST.changes(&monitor)?;
    println!("     {sent} packets, {lost} lost; {} routes withdrawn at the ToR", gone.len());
    println!("     the ways of an anycast address on both nodes: {} changes", changes.len());
    outcomes.iter().try_for_each(rack::storm::Outcome::ensure_perfect)?;
    ensure!(gone.is_empty(), "the ToR lost {gone:?}, if only for a moment");
    ensure!(changes.is_empty(), "a node withdrew an anycast address: {changes:#?}");
    drop(doors);
    remove(kubectl, SHARED)?;
    ANYCAST.await_ways(cluster, &[])?;
    // Nothing may have been seen because nobody looked: now there is something to see.
    ensure!(!ANYCAST.changes(&monitor)?.is_empty(), "its ways went, and nobody saw it");
    remove(kubectl, APP)
}

/// The addresses of all others.
fn others(pod: &Pod, pods: &[Pod]) -> Vec<std::net::IpAddr> {
    let others = pods.iter().filter(|other| other.name != pod.name);
    others.flat_map(|other| other.addresses.clone()).collect()
}
