//! The API server is away. Pods go meanwhile, agents are restarted: what is announced stays announced,
//! whoever is not known is refused, and afterwards everything is as if nothing had been.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rack::cluster::{Cluster, plan};
use rack::monitor::RouteMonitor;
use rack::probe::await_ping;
use rack::wait::go_on;
use serde_json::{Value, json};

use crate::by_hand::{self, Call};
use crate::flock;
use crate::leaks;
use crate::objects::Workload;
use crate::stage::{Pod, Stage, await_pods, deploy, remove, text};

const APP: &str = "outage";
const STRANGER: &str = "nobody-knows-me";

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let outage = stage.outage;
    let cluster = stage.flock()?;
    let pods = deploy(cluster.kubectl(), &Workload::new(APP, 4))?;
    let monitor = RouteMonitor::start(cluster.tor().netns())?;
    let began = Instant::now();
    cluster.control_mut().stop_api_server()?;
    println!("     the API server is away");
    let served = without(cluster, &pods);
    // Back in any case: the scenarios after this one need it.
    let waited = served.and_then(|()| wait_out(began, outage));
    cluster.control_mut().start_api_server()?;
    waited?;
    println!("     it was away for {} s", began.elapsed().as_secs());
    let gone = monitor.gone()?;
    ensure!(gone.is_empty(), "the ToR lost {gone:?}");
    println!("     the ToR lost no route meanwhile");
    flock::settle(cluster)?;
    let pods = await_pods(cluster.kubectl(), APP, 4)?;
    for pod in &pods {
        for ipv6 in [true, false] {
            await_ping(cluster.tor().netns(), pod.address(ipv6)?)?;
        }
    }
    leaks::ensure_none(cluster)?;
    println!("     all pods are back, and nothing leaked");
    remove(cluster.kubectl(), APP)
}

/// What happens while nobody can ask the API server anything.
fn without(cluster: &Cluster, pods: &[Pod]) -> Result<()> {
    let leaving = pods.first().context("no pod")?;
    let staying: Vec<_> = pods.iter().filter(|pod| pod.name != leaving.name).collect();
    let node = cluster.node_named(&leaving.node)?;
    node.cri()?.stop_pod_sandbox(&leaving.sandbox(cluster)?)?;
    println!("     a pod was stopped by its runtime");
    for worker in cluster.nodes() {
        flock::kill_agent(worker)?;
        println!("     the agent of {} was killed, and started again by kubelet", worker.name());
    }
    for worker in cluster.nodes() {
        cluster.tor().await_established(worker.wire().far(true))?;
        for ipv6 in [true, false] {
            let prefix = plan::pods(worker.number(), ipv6);
            cluster.tor().await_path(&prefix, |path| !path.stale)?;
        }
    }
    for pod in staying {
        await_ping(cluster.tor().netns(), pod.address(true)?)?;
    }
    println!("     its sessions are up again, the other pods answer");
    refuses_strangers(cluster)
}

/// ADD of a pod that the agent never heard of.
fn refuses_strangers(cluster: &Cluster) -> Result<()> {
    let node = cluster.node(1)?;
    node.machine()?.run(&["ip", "netns", "add", STRANGER])?;
    let id = by_hand::container_id("stranger");
    let call = Call { command: "ADD", container: &id, netns: STRANGER, pod: ("default", STRANGER) };
    let answer = by_hand::call(node, &call, &json!({}))?;
    node.machine()?.run(&["ip", "netns", "delete", STRANGER])?;
    let told = format!("{} {}", text(&answer, "/msg"), text(&answer, "/details"));
    ensure!(answer.get("code").and_then(Value::as_u64).is_some(), "it was taken: {answer}");
    ensure!(told.contains(STRANGER), "who was refused? {answer}");
    println!("     ADD of a stranger: {}", told.trim());
    Ok(())
}

fn wait_out(began: Instant, outage: Duration) -> Result<()> {
    while began.elapsed() < outage {
        go_on()?;
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
