//! flock as the operator of a cluster has it: installed by `kubectl apply -k`, asked by `kubectl exec`,
//! looked at by `kubectl get nodeconfig`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rack::cluster::kubectl::Kubectl;
use rack::cluster::worker::Worker;
use rack::cluster::{Cluster, SLOW, plan};
use rack::wait::until;
use serde_json::Value;

use crate::objects::{NodeConfig, TOR};
use crate::stage::{items, text};

/// The namespace of flock.
pub(crate) const NAMESPACE: &str = "flock-system";

/// The label that all its pods have.
pub(crate) const LABEL: &str = "app.kubernetes.io/name=flock";

/// Applies the manifests of the source tree, as a user does.
pub(crate) fn apply(kubectl: &Kubectl) -> Result<()> {
    let base = deploy_dir()?.join("kustomize/base");
    let base = base.to_str().context("a path that is no text")?;
    // The NodeConfig of one and the same call needs a CRD that the API server has taken up.
    kubectl.run(&["apply", "-k", base])?;
    let crd = "crd/nodeconfigs.flock.fritzlab.net";
    kubectl.run(&["wait", "--for=condition=established", "--timeout=60s", crd]).map(drop)
}

/// Applies a NodeConfig.
pub(crate) fn configure(kubectl: &Kubectl, config: &NodeConfig) -> Result<()> {
    kubectl.apply(&config.object().to_string()).map(drop)
}

/// The NodeConfig of every node as scenarios begin with it, and the sessions up at the ToR.
pub(crate) fn settle(cluster: &Cluster) -> Result<()> {
    for node in cluster.nodes() {
        configure(cluster.kubectl(), &NodeConfig::new(node.number()))?;
    }
    cluster.await_ready()?;
    await_rollout(cluster.kubectl())?;
    for node in cluster.nodes() {
        cluster.tor().await_established(node.wire().far(true))?;
        for ipv6 in [true, false] {
            cluster.tor().await_path(&plan::pods(node.number(), ipv6), |path| !path.stale)?;
        }
    }
    Ok(())
}

/// Awaits that every node's agent is the newest and Ready.
pub(crate) fn await_rollout(kubectl: &Kubectl) -> Result<()> {
    let limit = format!("--timeout={}s", SLOW.as_secs());
    kubectl.run(&["-n", NAMESPACE, "rollout", "status", "daemonset/flock", &limit]).map(drop)
}

/// The pods of the DaemonSet.
pub(crate) fn agents(kubectl: &Kubectl) -> Result<Vec<(String, String)>> {
    let list = kubectl.json(&["-n", NAMESPACE, "get", "pods", "-l", LABEL])?;
    let agent = |pod: &Value| {
        (text(pod, "/spec/nodeName").to_owned(), text(pod, "/metadata/name").to_owned())
    };
    let live = |pod: &&Value| pod.pointer("/metadata/deletionTimestamp").is_none();
    Ok(items(&list).iter().filter(live).map(agent).collect())
}

/// What a command of the agent says, run in the agent's own container on a node.
pub(crate) fn ask(kubectl: &Kubectl, node: &str, words: &[&str]) -> Result<Value> {
    let agents = agents(kubectl)?;
    let (_, pod) = agents
        .iter()
        .find(|(there, _)| there == node)
        .with_context(|| format!("no agent on {node} among {agents:?}"))?;
    let exec = ["-n", NAMESPACE, "exec", pod, "-c", "flock", "--", "flock-agent"];
    let all: Vec<_> = exec.into_iter().chain(words.iter().copied()).chain(["-o", "json"]).collect();
    let said = kubectl.run(&all)?;
    serde_json::from_str(&said).with_context(|| format!("{words:?} said {said:?}"))
}

/// How a session of a node stands, as the agent itself says.
pub(crate) fn session(kubectl: &Kubectl, node: &str, name: &str) -> Result<Value> {
    let answer = ask(kubectl, node, &["bgp", "show", "peers"])?;
    let peers = answer.get("peers").and_then(Value::as_array).context("no peers")?;
    let found = peers.iter().find(|peer| text(peer, "/name") == name);
    found.cloned().with_context(|| format!("{node} has no peer {name}: {answer}"))
}

/// For how long a session was up, and when that was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uptime {
    seconds: u64,
    at: Instant,
}

/// What the agent's seconds and ours may differ by: both leave out the last part of one.
const ROUNDING: u64 = 2;

/// The session with the ToR as it is up now, for [`ensure_not_reset`]; awaited until it is up for so
/// long that one that begins anew could be told from it.
pub(crate) fn up(kubectl: &Kubectl, node: &str) -> Result<Uptime> {
    until(&format!("the session of {node} with the ToR"), SLOW, || {
        let seconds = uptime(kubectl, node)?;
        ensure!(seconds > ROUNDING, "it is up for {seconds} s");
        Ok(Uptime { seconds, at: Instant::now() })
    })
}

/// Fails when the session with the ToR is another than it was then: it has to be up for as much longer
/// as time has passed.
pub(crate) fn ensure_not_reset(kubectl: &Kubectl, node: &str, before: Uptime) -> Result<()> {
    let wanted = before.seconds + before.at.elapsed().as_secs();
    let seconds = uptime(kubectl, node)?;
    ensure!(
        seconds + ROUNDING >= wanted,
        "the session of {node} with the ToR was reset: it is up for {seconds} s and not for {wanted} s"
    );
    Ok(())
}

fn uptime(kubectl: &Kubectl, node: &str) -> Result<u64> {
    let session = session(kubectl, node, TOR)?;
    ensure!(text(&session, "/state") == "Established", "{session}");
    session.get("uptimeSeconds").and_then(Value::as_u64).context("no uptimeSeconds")
}

/// A node's NodeConfig as the API server has it.
pub(crate) fn nodeconfig(kubectl: &Kubectl, node: &str) -> Result<Value> {
    kubectl.json(&["get", "nodeconfig", node])
}

/// What the status of a node's NodeConfig says of a session.
pub(crate) fn told_session(kubectl: &Kubectl, node: &str, name: &str) -> Result<Value> {
    let config = nodeconfig(kubectl, node)?;
    let peers = config.pointer("/status/peers").and_then(Value::as_array);
    let found = peers.into_iter().flatten().find(|peer| text(peer, "/name") == name);
    found.cloned().with_context(|| format!("{node} tells of no peer {name}: {config}"))
}

/// Awaits that the status of a node's NodeConfig tells something of a session.
pub(crate) fn await_session(
    kubectl: &Kubectl,
    node: &str,
    name: &str,
    pleases: impl Fn(&Value) -> bool,
) -> Result<Value> {
    until(&format!("the status of {name} on {node}"), SLOW, || {
        let session = told_session(kubectl, node, name)?;
        ensure!(pleases(&session), "it is {session}");
        Ok(session)
    })
}

/// Ends the agent of a node without a word; kubelet starts it again.
pub(crate) fn kill_agent(worker: &Worker) -> Result<()> {
    let before = agent_process(worker)?;
    worker.machine()?.run(&["kill", "-KILL", &before])?;
    until(&format!("another agent on {}", worker.name()), SLOW, || {
        let now = agent_process(worker)?;
        ensure!(now != before, "it is still {now}");
        Ok(())
    })
}

fn agent_process(worker: &Worker) -> Result<String> {
    let found = worker.machine()?.run(&["pgrep", "--exact", "flock-agent"])?;
    let mut all = found.split_whitespace();
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(one.to_owned()),
        _ => bail!("the agents of {} are {found:?}", worker.name()),
    }
}

/// Where the manifests are.
fn deploy_dir() -> Result<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    fs::canonicalize(&dir)
        .with_context(|| format!("{}: the manifests are in the source tree", dir.display()))
}
