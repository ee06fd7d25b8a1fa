//! The API server is away. Sandboxes go and come meanwhile, agents are restarted: what is announced stays
//! announced, sessions are up again with their passwords, whoever is known is served and whoever is not
//! is refused, and afterwards everything is as if nothing had been.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rack::cluster::{Cluster, SLOW, plan};
use rack::monitor::RouteMonitor;
use rack::probe::{await_ping, ping};
use rack::wait::{go_on, until};
use serde_json::{Value, json};

use crate::by_hand::{self, Call};
use crate::flock;
use crate::leaks;
use crate::objects::{self, NodeConfig, TOR_V4, Workload};
use crate::stage::{Pod, Stage, await_pods, deploy, pods, remove, text};
use crate::ways::Anycast;
use crate::web;

const APP: &str = "outage";
const SHARED: &str = "outage-anycast";
const ANYCAST: Anycast = Anycast(["2001:db8:55::55", "192.0.2.55"]);

/// A pod of which nobody heard, and the network namespace that it would have.
const STRANGER: &str = "nobody-knows-me";
const NETNS: &str = "of-a-stranger";

/// CNI's code for what may work later.
const TRY_AGAIN_LATER: u64 = 11;

/// Where the agent tells its metrics, on every address of its node.
const METRICS: u16 = 9179;

/// The node that has a session with a password beside the other.
const GUARDED: u8 = 1;
const SECRET: &str = "outage";
const PASSWORD: &str = "a password for bad times";

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let outage = stage.outage;
    let cluster = stage.flock()?;
    guard(cluster)?;
    let known = deploy(cluster.kubectl(), &Workload::new(APP, 4))?;
    let shared = ANYCAST.deploy(cluster, SHARED, 0)?;
    let monitor = RouteMonitor::start(cluster.tor().netns())?;
    let began = Instant::now();
    cluster.control_mut().stop_api_server()?;
    println!("     the API server is away");
    let served = without(cluster, &known, &shared);
    // Back in any case: the scenarios after this one need it.
    let waited = served.and_then(|()| wait_out(began, outage));
    let (gone, changes) = (monitor.gone(), ANYCAST.changes(&monitor));
    cluster.control_mut().start_api_server()?;
    waited?;
    let (gone, changes) = (gone?, changes?);
    println!("     it was away for {} s", began.elapsed().as_secs());
    ensure!(gone.is_empty(), "the ToR lost {gone:?}");
    ensure!(changes.is_empty(), "a node withdrew an anycast address: {changes:#?}");
    println!("     the ToR lost no route meanwhile, and no way of an anycast address");
    flock::settle(cluster)?;
    unguard(cluster)?;
    // Until its kubelet has told, Kubernetes tells of addresses that are gone.
    until("all pods to answer", SLOW, || {
        for pod in pods(cluster.kubectl(), APP)? {
            for ipv6 in [true, false] {
                ping(cluster.tor().netns(), pod.address(ipv6)?)?;
            }
        }
        Ok(())
    })?;
    await_pods(cluster.kubectl(), APP, 4)?;
    leaks::ensure_none(cluster)?;
    println!("     all pods are back, and nothing leaked");
    remove(cluster.kubectl(), SHARED)?;
    remove(cluster.kubectl(), APP)
}

/// A session more, with a password from a Secret.
fn guard(cluster: &mut Cluster) -> Result<()> {
    let peer = plan::node_wire(GUARDED).far(false);
    cluster.tor_mut().set_password(peer, Some(PASSWORD))?;
    let (kubectl, node) = (cluster.kubectl(), plan::node_name(GUARDED));
    kubectl.apply(&objects::secret(SECRET, PASSWORD).to_string())?;
    let mut config = NodeConfig::new(GUARDED);
    (config.over_ipv4, config.secret) = (true, Some(SECRET));
    flock::configure(kubectl, &config)?;
    let up = |one: &Value| text(one, "/state") == "Established";
    flock::await_session(kubectl, &node, TOR_V4, up)?;
    cluster.tor().await_established(peer)
}

/// The password is nobody's any more; the session went with the NodeConfig.
fn unguard(cluster: &mut Cluster) -> Result<()> {
    cluster.kubectl().run(&["-n", flock::NAMESPACE, "delete", "secret", SECRET])?;
    cluster.tor_mut().set_password(plan::node_wire(GUARDED).far(false), None)
}

/// What happens while nobody can ask the API server anything.
fn without(cluster: &Cluster, pods: &[Pod], shared: &[Pod]) -> Result<()> {
    let (one, another) = (pods.first().context("no pod")?, pods.last().context("no pod")?);
    ensure!(one.name != another.name, "not two pods: {pods:?}");
    replaces(cluster, one)?;
    println!("     a sandbox was stopped by its runtime: DEL, and ADD of another for the same pod");
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
    await_guarded(cluster)?;
    ANYCAST.await_fresh(cluster)?;
    ANYCAST.await_ways(cluster, shared)?;
    for pod in pods.iter().filter(|pod| pod.name != one.name) {
        await_ping(cluster.tor().netns(), pod.address(true)?)?;
    }
    println!(
        "     their sessions are up again, also the one with a password; the other pods answer"
    );
    replaces(cluster, another)?;
    println!("     another sandbox was replaced, by an agent that never saw the API server");
    refuses_strangers(cluster)
}

/// The session with a password is up, by the word of the ToR and of the agent that began meanwhile.
fn await_guarded(cluster: &Cluster) -> Result<()> {
    let node = cluster.node(GUARDED)?.wire().far(false);
    cluster.tor().await_established(node).context("the session with a password")?;
    until("the session with a password in the agent's metrics", SLOW, || {
        let page = web::get(cluster.tor().netns(), SocketAddr::new(node, METRICS), "/metrics")?;
        let ups = page.lines().filter(|line| line.starts_with("flock_bgp_session_up{"));
        let ups: Vec<_> = ups.collect();
        let up = |line: &&str| line.contains(TOR_V4) && line.ends_with(" 1");
        ensure!(ups.iter().any(up), "it says {ups:?}");
        Ok(())
    })
}

/// The runtime stops the sandbox of a pod, and kubelet has another made: flock lets the old one go, and
/// attaches the new one from what it knows.
fn replaces(cluster: &Cluster, pod: &Pod) -> Result<()> {
    let node = cluster.node_named(&pod.node)?;
    let old = pod.sandbox(cluster)?;
    ensure!(leaks::is_recorded(node, &old)?, "{} is not in flock's record before", pod.name);
    node.cri()?.stop_pod_sandbox(&old)?;
    until(&format!("the old sandbox of {} to be out of flock's record", pod.name), SLOW, || {
        ensure!(!leaks::is_recorded(node, &old)?, "{old} is there");
        Ok(())
    })?;
    until(&format!("a new sandbox of {} that answers", pod.name), SLOW, || {
        let new = pod.sandbox(cluster)?;
        ensure!(new != old, "it is still {old}");
        ensure!(leaks::is_recorded(node, &new)?, "{new} is not in flock's record");
        let addresses = node.cri()?.pod_sandbox_status(&new)?.addresses;
        ensure!(addresses.len() == 2, "it has {addresses:?}");
        addresses.into_iter().try_for_each(|address| ping(cluster.tor().netns(), address).map(drop))
    })
}

/// ADD of a pod that the agent never heard of.
fn refuses_strangers(cluster: &Cluster) -> Result<()> {
    let node = cluster.node(1)?;
    node.machine()?.run(&["ip", "netns", "add", NETNS])?;
    let id = by_hand::container_id("stranger");
    let call = Call { command: "ADD", container: &id, netns: NETNS, pod: ("default", STRANGER) };
    let answer = by_hand::call(node, &call, &json!({}));
    node.machine()?.run(&["ip", "netns", "delete", NETNS])?;
    let answer = answer?;
    let told = format!("{} {}", text(&answer, "/msg"), text(&answer, "/details"));
    let code = answer.get("code").and_then(Value::as_u64);
    ensure!(code == Some(TRY_AGAIN_LATER), "not refused for now: {answer}");
    for words in [STRANGER, "is not known", "has not answered since"] {
        ensure!(told.contains(words), "it does not say {words:?}: {answer}");
    }
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
