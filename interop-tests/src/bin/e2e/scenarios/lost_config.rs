//! A NodeConfig is deleted, behind everybody's back: what is there goes on, new pods are refused with
//! that reason, also after a restart of the agent, and a new NodeConfig mends it.

use anyhow::{Context, Result, bail, ensure};
use rack::cluster::kubectl::Kubectl;
use rack::cluster::worker::Worker;
use rack::cluster::{Cluster, SLOW, plan};
use rack::monitor::RouteMonitor;
use rack::storm::Storm;
use rack::wait::until;
use serde_json::{Value, json};

use crate::by_hand::{self, Call};
use crate::flock;
use crate::objects::{NodeConfig, Workload};
use crate::stage::{Pod, Stage, await_pods, condition, deploy, items, pods, remove, text};

const NODE: u8 = 1;
const OLD: &str = "lost-config";
const NEW: &str = "lost-config-new";

/// What a refusal says of the NodeConfig.
const REASON: &str = "was deleted";

const NETNS: &str = "of-no-network";

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    let (kubectl, node) = (cluster.kubectl(), plan::node_name(NODE));
    let pods = deploy(kubectl, &Workload::new(OLD, 2).on(&node))?;
    let addresses: Vec<_> = pods.iter().flat_map(|pod| pod.addresses.clone()).collect();
    let up = flock::up(kubectl, &node)?;
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
    flock::ensure_not_reset(kubectl, &node, up)?;
    restarts(cluster)?;
    forget_nodeconfigs(kubectl)?;
    let restarted = restarts(cluster);
    flock::apply(kubectl)?;
    restarted.context("an agent that is told of its Node, and not of NodeConfigs")?;
    // A session that is another is seen to be one, or what was said above would mean nothing.
    let seen = flock::ensure_not_reset(kubectl, &node, up);
    ensure!(seen.is_err(), "the agent was killed, and its session is the same");
    storm.await_answers(20)?;
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
    remove(kubectl, NEW)?;
    // Agents that say nothing of what they were refused here, for whoever looks for refusals later.
    kubectl.run(&["-n", flock::NAMESPACE, "rollout", "restart", "daemonset/flock"])?;
    flock::await_rollout(kubectl)
}

/// An agent that begins without a NodeConfig knows what was lost: it serves what is there, and refuses
/// what is new with the same reason, from its first answer on.
fn restarts(cluster: &Cluster) -> Result<()> {
    let node = cluster.node(NODE)?;
    let pods = pods(cluster.kubectl(), OLD)?;
    let known = pods.first().context("no pod")?;
    node.machine()?.run(&["ip", "netns", "add", NETNS])?;
    let told = serves_and_refuses(cluster, node, known);
    node.machine()?.run(&["ip", "netns", "delete", NETNS])?;
    println!("     its agent was killed and started again: {}", told?);
    Ok(())
}

fn serves_and_refuses(cluster: &Cluster, node: &Worker, known: &Pod) -> Result<String> {
    flock::kill_agent(node)?;
    refused_by_hand(node, known)?;
    cluster.tor().await_established(node.wire().far(true))?;
    for ipv6 in [true, false] {
        cluster.tor().await_path(&plan::pods(NODE, ipv6), |path| !path.stale)?;
    }
    refused_by_hand(node, known)
}

/// Takes from the agents what lets them see NodeConfigs: the next one that begins has nothing but what
/// was known before, while it is told of its Node and its pods.
fn forget_nodeconfigs(kubectl: &Kubectl) -> Result<()> {
    let mut role = kubectl.json(&["get", "clusterrole", "flock"])?;
    let rules = role.get_mut("rules").and_then(Value::as_array_mut).context("no rules")?;
    rules.retain(|rule| text(rule, "/resources/0") != "nodeconfigs");
    kubectl.fed(&["replace", "-f", "-"], &role.to_string())?;
    let agent = format!("--as=system:serviceaccount:{}:flock", flock::NAMESPACE);
    until("NodeConfigs to be forbidden", SLOW, || {
        // It exits with an error when the answer is no.
        let may = kubectl.run(&["auth", "can-i", "list", "nodeconfigs", &agent]);
        ensure!(may.is_err(), "they are allowed");
        Ok(())
    })
}

/// ADD of another container of a pod that is known, which nothing but the NodeConfig hinders; what the
/// agent said.
fn refused_by_hand(node: &Worker, pod: &Pod) -> Result<String> {
    let id = by_hand::container_id("lost");
    let call = Call { command: "ADD", container: &id, netns: NETNS, pod: ("default", &pod.name) };
    let answer = until("an agent that answers", SLOW, || {
        let answer = by_hand::call(node, &call, &json!({}))?;
        // Until it serves, the plugin itself says so; what is taken, or refused with a reason, is its
        // answer.
        let served = answer.get("code").is_none() || told(&answer).contains(REASON);
        ensure!(served, "{answer}");
        Ok(answer)
    })?;
    if answer.get("code").is_none() {
        // Given back, for whoever looks for leaks later.
        let undone = by_hand::call(node, &Call { command: "DEL", ..call }, &json!({}));
        bail!("ADD without a NodeConfig was taken: {answer}; DEL: {undone:?}");
    }
    Ok(told(&answer))
}

fn told(answer: &Value) -> String {
    format!("{} {}", text(answer, "/msg"), text(answer, "/details")).trim().to_owned()
}

/// The Event of a pod that could not be attached, if it names the reason.
fn refusal(kubectl: &Kubectl) -> Result<String> {
    let list =
        kubectl.json(&["get", "events", "--field-selector", "reason=FailedCreatePodSandBox"])?;
    let ours =
        items(&list).iter().filter(|event| text(event, "/involvedObject/name").starts_with(NEW));
    let mut told = ours.map(|event| text(event, "/message"));
    let found = told.find(|message| message.contains(REASON));
    let found = found.ok_or_else(|| anyhow::anyhow!("no such Event says {REASON:?}"))?;
    Ok(found.to_owned())
}
