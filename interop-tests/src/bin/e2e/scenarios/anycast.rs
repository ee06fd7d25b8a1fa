//! An anycast address follows readiness: announced by the nodes with a Ready pod, and by no other. A
//! rolling restart of its pods loses no request.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use rack::binaries::tool;
use rack::cluster::{Cluster, SLOW, workload};
use rack::monitor::RouteMonitor;
use rack::storm::Storm;

use crate::lines::Lines;
use crate::stage::{Pod, Stage, await_pods, remove};
use crate::ways::Anycast;
use crate::web::Load;

const APP: &str = "anycast";
const ANYCAST: Anycast = Anycast(["2001:db8:53::53", "192.0.2.53"]);

/// Longer than a node's route lingers, so that whoever is still sent there is served.
const LINGER: u32 = 10;

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    let pods = ANYCAST.deploy(cluster, APP, LINGER)?;
    println!("     both nodes announce the address");
    follows_readiness(cluster, &pods)?;
    rolls(cluster)?;
    remove(cluster.kubectl(), APP)?;
    ANYCAST.await_none(cluster)?;
    println!("     and it is gone with its pods");
    Ok(())
}

/// One pod stops being Ready, and its node's announcement goes; the time between what an observer of the
/// API server sees and what the ToR's kernel does is told.
fn follows_readiness(cluster: &Cluster, pods: &[Pod]) -> Result<()> {
    let kubectl = cluster.kubectl();
    let (one, other) = match pods {
        [one, other] => (one, other),
        _ => anyhow::bail!("not two pods: {pods:?}"),
    };
    let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}{"\n"}"#;
    let observer = Lines::of(kubectl.piped(&["get", "pod", &one.name, "--watch", "-o", ready])?)?;
    let mut monitor = cluster.tor().netns().command(tool("ip")?)?;
    monitor.args(["-o", "monitor", "route"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let monitor = Lines::of(monitor.spawn()?)?;
    observer.await_line("the observer to see a Ready pod", 0, |line| line == "True")?;
    let skip = monitor.count();
    let url = one.url(true, "/ready?value=false")?;
    one.exec(kubectl, &["/workload", "post", &url])?;
    let seen = observer.await_line("the pod not to be Ready", 0, |line| line == "False")?;
    ANYCAST.await_ways(cluster, std::slice::from_ref(other))?;
    for address in ANYCAST.0 {
        let told = monitor
            .await_line("the ToR's kernel to change", skip, |line| line.contains(address))?;
        let milliseconds = match told.checked_duration_since(seen) {
            Some(after) => after.as_secs_f64() * 1000.0,
            None => -seen.duration_since(told).as_secs_f64() * 1000.0,
        };
        println!(
            "     {address}: withdrawn {milliseconds:.1} ms after an observer saw the pod not Ready"
        );
    }
    let url = one.url(true, "/ready?value=true")?;
    one.exec(kubectl, &["/workload", "post", &url])?;
    ANYCAST.await_ways(cluster, pods)?;
    println!("     Ready again, announced again");
    Ok(())
}

/// All pods are replaced under load.
fn rolls(cluster: &Cluster) -> Result<()> {
    let tor = cluster.tor().netns();
    let addresses = ANYCAST.addresses()?;
    let servers: Vec<_> =
        addresses.iter().map(|address| SocketAddr::new(*address, workload::PORT)).collect();
    // The ToR chooses a node, and a node chooses a pod.
    let mut monitors = vec![RouteMonitor::start(tor)?];
    for node in cluster.nodes() {
        monitors.push(RouteMonitor::start(node.netns()?)?);
    }
    let load = Load::start(tor, &servers)?;
    let storm = Storm::start(tor, &addresses, 200)?;
    storm.await_answers(20)?;
    let kubectl = cluster.kubectl();
    kubectl.run(&["rollout", "restart", &format!("deployment/{APP}")])?;
    let limit = format!("--timeout={}s", SLOW.as_secs());
    kubectl.run(&["rollout", "status", &format!("deployment/{APP}"), &limit])?;
    let pods = await_pods(kubectl, APP, 2)?;
    ANYCAST.await_ways(cluster, &pods)?;
    load.await_answers(100)?;
    let account = load.stop();
    let changes = monitors.iter().map(|monitor| ANYCAST.changes(monitor));
    let changes = changes.collect::<Result<Vec<_>>>()?.concat();
    let storm = storm.stop()?;
    println!(
        "     a rolling restart: {account}, {} changes of ways; pings: {} sent, {} lost",
        changes.len(),
        storm.sent(),
        storm.lost()
    );
    account.ensure_none_lost()?;
    // Each address has one client, which has one connection at a time: a change of the ways of that
    // address moves one at the most. Who is reset more often is reset by something else.
    ensure!(
        account.moved <= u64::try_from(changes.len())?,
        "{account}, more than the ways changed: {changes:#?}"
    );
    ensure!(storm.lost() == 0, "{storm}");
    pods.first().context("no pod")?;
    Ok(())
}
