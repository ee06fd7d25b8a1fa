//! A NodeConfig is deleted, behind everybody's back: what is there goes on, new pods are refused with
//! that reason, and a new NodeConfig mends it.

use anyhow::{Result, ensure};
use rack::cluster::kubectl::Kubectl;
use rack::cluster::{SLOW, plan};
use rack::monitor::RouteMonitor;
use rack::storm::Storm;
use rack::wait::until;

use crate::flock;
use crate::objects::{NodeConfig, Workload};
use crate::stage::{Stage, await_pods, condition, deploy, items, remove, text};

const NODE: u8 = 1;
const OLD: &str = "lost-config";
const NEW: &str = "lost-config-new";

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    let (kubectl, node) = (cluster.kubectl(), plan::node_name(NODE));
    let pods = deploy(kubectl, &Workload::new(OLD, 2).on(&node))?;
    let addresses: Vec<_> = pods.iter().flat_map(|pod| pod.addresses.clone()).collect();
    let up = flock::uptime(kubectl, &node)?;
    let monitor = RouteMonitor::start(cluster.tor().netns())?;
    let storm = Storm::start(cluster.tor().netns(), &addresses, 100)?;
    storm.await_answers(20)?;
    let key = format!("/registry/flock.fritzlab.net/nodeconfigs/{node}");
    let deleted = cluster.control().delete_from_etcd(&key)?;
    ensure!(deleted == 1, "{key} is not where the NodeConfig is kept");
    println!("     the NodeConfig of {node} is gone from etcd");
    kubectl.apply(&Workload::new(NEW, 1).on(&node).deployment().to_string())?;
    let told = until("a new pod to be refused with the reason", SLOW, || refusal(kubectl))?;
    println!("     a new pod: {told}");
    storm.await_answers(20)?;
    ensure!(flock::uptime(kubectl, &node)? >= up, "the session with the ToR was reset");
    let nodes = kubectl.json(&["get", "node", &node])?;
    let network = condition(&nodes, "NetworkUnavailable").cloned().unwrap_or_default();
    ensure!(text(&network, "/status") == "False", "pods are served, and the Node says {network}");
    flock::configure(kubectl, &NodeConfig::new(NODE))?;
    await_pods(kubectl, NEW, 1)?;
    println!("     with a new NodeConfig the new pod runs");
    let outcome = storm.stop()?;
    let gone = monitor.gone()?;
    println!(
        "     {} packets meanwhile, {} lost; {} routes withdrawn",
        outcome.sent(),
        outcome.lost(),
        gone.len()
    );
    outcome.ensure_perfect()?;
    ensure!(gone.is_empty(), "the ToR lost {gone:?}");
    remove(kubectl, OLD)?;
    remove(kubectl, NEW)
}

/// The Event of a pod that could not be attached, if it names the reason.
fn refusal(kubectl: &Kubectl) -> Result<String> {
    let list =
        kubectl.json(&["get", "events", "--field-selector", "reason=FailedCreatePodSandBox"])?;
    let ours =
        items(&list).iter().filter(|event| text(event, "/involvedObject/name").starts_with(NEW));
    let mut told = ours.map(|event| text(event, "/message"));
    let found = told.find(|message| message.contains("NodeConfig"));
    let found = found.ok_or_else(|| anyhow::anyhow!("no such Event names the NodeConfig"))?;
    Ok(found.to_owned())
}
