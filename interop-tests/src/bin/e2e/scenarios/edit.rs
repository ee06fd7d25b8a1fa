//! A NodeConfig is edited while it is in force: what can be applied is, without a reset; what cannot is
//! refused with its place, and the last good one stays. A password that is missing keeps its session
//! down.

use anyhow::{Context, Result, ensure};
use rack::cluster::kubectl::Kubectl;
use rack::cluster::worker::Worker;
use rack::cluster::{Cluster, SLOW, plan};
use rack::wait::until;
use serde_json::Value;

use crate::flock;
use crate::objects::{self, NodeConfig, TOR_V4, Workload};
use crate::stage::{Stage, deploy, items, remove, text};

const NODE: u8 = 1;
const SECRET: &str = "tor-v4";
const PASSWORD: &str = "a password of the rack";

/// Where the mistake is that is made on purpose: no schema finds it, because it takes two fields.
const MISTAKE: &str = "spec.bgp.peers[0].keepalive";

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    let name = plan::node_name(NODE);
    let up = flock::up(cluster.kubectl(), &name)?;
    let good = grows(cluster)?;
    breaks(cluster, &good)?;
    flock::ensure_not_reset(cluster.kubectl(), &name, up)?;
    println!("     all of it without a reset of the session that was there");
    passwords(cluster, good)?;
    flock::ensure_not_reset(cluster.kubectl(), &name, up)?;
    flock::configure(cluster.kubectl(), &NodeConfig::new(NODE))
}

/// A peer more, and another community.
fn grows(cluster: &Cluster) -> Result<NodeConfig> {
    let (kubectl, node) = (cluster.kubectl(), cluster.node(NODE)?);
    let mut config = NodeConfig::new(NODE);
    config.over_ipv4 = true;
    flock::configure(kubectl, &config)?;
    cluster.tor().await_established(node.wire().far(false))?;
    flock::await_session(kubectl, node.name(), TOR_V4, |one| text(one, "/state") == "Established")?;
    println!("     a peer was added, and is up");
    let community = format!("{}:200", plan::node_asn(NODE));
    config.communities = vec![community.clone()];
    flock::configure(kubectl, &config)?;
    for ipv6 in [true, false] {
        let prefix = plan::pods(NODE, ipv6);
        cluster.tor().await_path(&prefix, |path| path.communities == [community.clone()])?;
    }
    println!("     the ToR sees {community}");
    Ok(config)
}

/// A mistake, and its repair.
fn breaks(cluster: &Cluster, good: &NodeConfig) -> Result<()> {
    let (kubectl, node) = (cluster.kubectl(), cluster.node(NODE)?);
    let mut bad = good.clone();
    bad.keepalive = Some("25m");
    bad.communities = vec![format!("{}:666", plan::node_asn(NODE))];
    flock::configure(kubectl, &bad)?;
    let told = until("a condition that names the mistake", SLOW, || {
        mistake(&flock::nodeconfig(kubectl, node.name())?)
    })?;
    println!("     a condition says: {told}");
    until("an Event that names the mistake", SLOW, || event(kubectl, node))?;
    println!("     and so does an Event");
    // The last good one stays, as a whole: the session, what is announced, and new pods.
    let name = plan::node_name(NODE);
    let pods = deploy(kubectl, &Workload::new("edit", 1).on(&name))?;
    ensure!(pods.len() == 1, "{pods:?}");
    remove(kubectl, "edit")?;
    for ipv6 in [true, false] {
        let paths = cluster.tor().paths(&plan::pods(NODE, ipv6))?;
        let kept = paths.iter().all(|path| path.communities == good.communities);
        ensure!(kept && !paths.is_empty(), "the ToR has {paths:?}");
    }
    println!("     the last good one stays in force");
    flock::configure(kubectl, good)?;
    until("the condition to be gone", SLOW, || {
        let config = flock::nodeconfig(kubectl, node.name())?;
        let generation = config.pointer("/metadata/generation");
        let observed = config.pointer("/status/observedGeneration");
        ensure!(generation == observed, "{observed:?} of {generation:?} was seen");
        match mistake(&config) {
            Ok(told) => anyhow::bail!("it still says {told}"),
            Err(_) => Ok(()),
        }
    })?;
    println!("     mended");
    Ok(())
}

/// What a condition says of the mistake.
fn mistake(config: &Value) -> Result<String> {
    let all = config.pointer("/status/conditions").and_then(Value::as_array);
    let mut all = all.into_iter().flatten();
    let found = all.find(|one| text(one, "/message").contains(MISTAKE));
    let found = found.with_context(|| format!("no condition names {MISTAKE}: {config}"))?;
    let (kind, status, message) =
        (text(found, "/type"), text(found, "/status"), text(found, "/message"));
    Ok(format!("{kind}={status}: {message}"))
}

fn event(kubectl: &Kubectl, node: &Worker) -> Result<()> {
    let field = format!("involvedObject.kind=NodeConfig,involvedObject.name={}", node.name());
    let list = kubectl.json(&["get", "events", "-A", "--field-selector", &field])?;
    let found = items(&list).iter().any(|event| text(event, "/message").contains(MISTAKE));
    ensure!(found, "none of {} Events names it", items(&list).len());
    Ok(())
}

/// A password by a Secret that is not there, comes, and goes.
fn passwords(cluster: &mut Cluster, mut config: NodeConfig) -> Result<()> {
    let node = plan::node_name(NODE);
    let peer = plan::node_wire(NODE).far(false);
    config.secret = Some(SECRET);
    flock::configure(cluster.kubectl(), &config)?;
    let down = |one: &Value| {
        text(one, "/state") != "Established" && text(one, "/lastError").contains(SECRET)
    };
    let told = flock::await_session(cluster.kubectl(), &node, TOR_V4, down)?;
    println!("     without its Secret: {}", text(&told, "/lastError"));
    // A ToR without a password would take the session, were it offered without one.
    cluster.tor().await_state(peer, |state| state != "Established")?;
    cluster.tor_mut().set_password(peer, Some(PASSWORD))?;
    let kubectl = cluster.kubectl();
    kubectl.apply(&objects::secret(SECRET, PASSWORD).to_string())?;
    cluster.tor().await_established(peer)?;
    flock::await_session(kubectl, &node, TOR_V4, |one| text(one, "/state") == "Established")?;
    println!("     with its Secret it is up");
    kubectl.run(&["-n", flock::NAMESPACE, "delete", "secret", SECRET])?;
    let told = flock::await_session(kubectl, &node, TOR_V4, down)?;
    println!("     without it again: {}", text(&told, "/lastError"));
    cluster.tor_mut().set_password(peer, None)?;
    let told = flock::await_session(cluster.kubectl(), &node, TOR_V4, down)?;
    ensure!(cluster.tor().state(peer)? != "Established", "it fell back to none: {told}");
    Ok(())
}
