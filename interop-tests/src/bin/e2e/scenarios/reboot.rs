//! What leaves without a word leaves nothing behind: a node that loses its power, a pod that is deleted
//! by force, an attachment whose runtime forgot it.

use anyhow::{Context, Result, ensure};
use rack::cluster::{Cluster, SLOW, plan};
use rack::probe::{await_ping, ping};
use rack::wait::until;
use serde_json::{Value, json};

use crate::by_hand::{self, Call};
use crate::flock;
use crate::leaks;
use crate::objects::Workload;
use crate::stage::{Pod, Stage, await_pods, deploy, pods, remove, text};

const APP: &str = "reboot";
const NODE: u8 = 2;
const STRAY: &str = "stray";

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    let name = plan::node_name(NODE);
    deploy(cluster.kubectl(), &Workload::new(APP, 4).on(&name))?;
    cluster.reboot(NODE)?;
    println!("     {name} lost its power, and was booted again");
    // Until its kubelet has looked, Kubernetes tells of pods that are gone.
    until("the pods to be there again", SLOW, || {
        for pod in pods(cluster.kubectl(), APP)? {
            ping(cluster.tor().netns(), pod.address(true)?)?;
        }
        Ok(())
    })?;
    flock::settle(cluster)?;
    let pods = await_pods(cluster.kubectl(), APP, 4)?;
    leaks::ensure_none(cluster)?;
    println!("     its pods are back, and nothing leaked");
    by_force(cluster, &pods)?;
    collected(cluster)?;
    remove(cluster.kubectl(), APP)
}

/// A pod is deleted from the API server at once, whatever its node says.
fn by_force(cluster: &Cluster, pods: &[Pod]) -> Result<()> {
    let kubectl = cluster.kubectl();
    let pod = pods.first().context("no pod")?;
    kubectl.run(&["delete", "pod", &pod.name, "--grace-period=0", "--force", "--wait=false"])?;
    await_pods(kubectl, APP, 4)?;
    leaks::ensure_none(cluster)?;
    println!("     a pod was deleted by force, and nothing leaked");
    Ok(())
}

/// An attachment that no runtime knows is removed by GC; those that are named stay as they are.
fn collected(cluster: &Cluster) -> Result<()> {
    let kubectl = cluster.kubectl();
    let node = cluster.node(NODE)?;
    let live = pods(kubectl, APP)?;
    let pod = live.first().context("no pod")?;
    node.machine()?.run(&["ip", "netns", "add", STRAY])?;
    let id = by_hand::container_id(STRAY);
    let call = Call { command: "ADD", container: &id, netns: STRAY, pod: ("default", &pod.name) };
    let answer = by_hand::call(node, &call, &json!({}))?;
    ensure!(answer.get("code").is_none(), "ADD of a stray attachment: {answer}");
    let stray = answer.pointer("/ips/0").map(|ip| text(ip, "/address").to_owned());
    let stray = stray.context("no address")?;
    leaks::found(cluster, node).context("a stray attachment, and nobody sees a leak")?;
    let ids: Vec<_> = live.iter().map(|pod| pod.sandbox(cluster)).collect::<Result<_>>()?;
    let before = ids.clone();
    let valid: Vec<Value> =
        ids.iter().map(|id| json!({ "containerID": id, "ifname": "eth0" })).collect();
    let call = Call { command: "GC", container: "", netns: "", pod: ("", "") };
    let answer = by_hand::call(node, &call, &json!({ "cni.dev/valid-attachments": valid }))?;
    ensure!(answer.get("code").is_none(), "GC: {answer}");
    leaks::ensure_none(cluster)?;
    node.machine()?.run(&["ip", "netns", "delete", STRAY])?;
    for pod in &live {
        for ipv6 in [true, false] {
            await_ping(cluster.tor().netns(), pod.address(ipv6)?)?;
        }
    }
    let after: Vec<_> = live.iter().map(|pod| pod.sandbox(cluster)).collect::<Result<_>>()?;
    ensure!(before == after, "sandboxes changed: {before:?}, {after:?}");
    println!("     GC removed a stray attachment with {stray}, and touched no other");
    Ok(())
}
