//! The demo: one node and three pods in network namespaces of this machine, the
//! real agent without Kubernetes, the real plugin called as a container runtime
//! calls it.
//!
//! Everything that is claimed is looked up in the kernel or tried with packets.
//! The exit code is true to what happened, and whatever happens (Ctrl-C too)
//! nothing stays behind on the machine. On a terminal it pauses between its acts
//! (`--no-pause` does not).
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a demo is there to be watched")]

mod matrix;
mod stage;

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rack::manifests::Writing;
use rack::netns::Netns;
use rack::node::{Builder, NODE_V4, NODE_V6, Node, OUTSIDE_V4, OUTSIDE_V6, POD_CIDR4, POD_CIDR6};
use rack::plugin::Plugin;
use rack::pod::{Pod, addresses};
use rack::wait::{go_on, interrupted};
use rack::{facts, probe, signals};
use serde_json::Value;

use crate::matrix::{Party, ping_everybody};
use crate::stage::Stage;

/// The cast.
const PODS: [&str; 3] = ["web", "api", "db"];

fn main() -> ExitCode {
    let hurried = std::env::args().any(|argument| argument == "--no-pause");
    let mut stage = Stage::new(hurried);
    let outcome = signals::listen().and_then(|()| play(&mut stage));
    match outcome {
        Ok(()) => {
            stage.finale("Everything worked, and nothing is left behind.");
            ExitCode::SUCCESS
        }
        Err(_) if interrupted() => {
            stage.regret("Interrupted; everything that the demo started is gone.");
            ExitCode::from(130)
        }
        Err(error) => {
            stage.regret(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn play(stage: &mut Stage) -> Result<()> {
    stage.title("flock", "one node, three pods, IPv6 and IPv4, no Kubernetes, no overlay, no NAT");
    let mut node = set_up(stage)?;
    start_agent(stage, &mut node)?;
    let plugin = node.plugin()?;
    let pods = attach(stage, &plugin)?;
    talk(stage, &node, &pods)?;
    ask_agent(stage, &node)?;
    survive(stage, &mut node, &pods)?;
    detach(stage, &node, &plugin, pods)
}

fn set_up(stage: &mut Stage) -> Result<Node> {
    stage.act("A node, and a network outside it");
    let node = Builder::default().named("node-a").build()?;
    let outside = node.outside()?;
    // What a ToR learns by BGP is told to the outside by hand here.
    outside.ip(&format!("route add {POD_CIDR4} via {NODE_V4}"))?;
    outside.ip(&format!("-6 route add {POD_CIDR6} via {NODE_V6}"))?;
    stage.facts(&[
        ("node", NODE_V6, NODE_V4, "a network namespace"),
        ("outside", OUTSIDE_V6, OUTSIDE_V4, "beyond its uplink"),
    ]);
    node.write("nodeconfig.yaml", &node_config(node.name()), Writing::Renamed)?;
    stage.quote("nodeconfig.yaml", &node_config(node.name()));
    Ok(node)
}

fn node_config(name: &str) -> String {
    format!(
        "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata:\n  name: {name}\n\
         spec:\n  cidr6: [\"{POD_CIDR6}\"]\n  cidr4: [\"{POD_CIDR4}\"]\n"
    )
}

fn start_agent(stage: &mut Stage, node: &mut Node) -> Result<()> {
    stage.act("The agent starts, without Kubernetes");
    stage.command("flock-agent run --standalone DIR");
    let start = Instant::now();
    node.start()?;
    node.await_ready()?;
    stage.tick(&format!("ready to attach pods after {}", milliseconds(start)));
    Ok(())
}

/// A pod with the addresses that it was given.
struct Attached {
    pod: Pod,
    v6: IpAddr,
    v4: IpAddr,
}

fn attach(stage: &mut Stage, plugin: &Plugin) -> Result<Vec<Attached>> {
    stage.act("Three pods are attached, as a container runtime does it");
    stage.command("CNI_COMMAND=ADD CNI_NETNS=... CNI_IFNAME=eth0 flock < network.json");
    let mut attached = Vec::new();
    for name in PODS {
        go_on()?;
        let pod = Pod::new(name)?;
        let start = Instant::now();
        let result = plugin.add(&pod)?;
        let took = milliseconds(start);
        let given = addresses(&result)?;
        let of = |v6: bool| given.iter().copied().find(|address| address.is_ipv6() == v6);
        let v6 = of(true).with_context(|| format!("{name} got no IPv6 address"))?;
        let v4 = of(false).with_context(|| format!("{name} got no IPv4 address"))?;
        is_bound(&pod.netns, &[v6, v4])?;
        stage.pod(name, &v6.to_string(), &v4.to_string(), &took);
        attached.push(Attached { pod, v6, v4 });
    }
    Ok(attached)
}

fn is_bound(netns: &Netns, wanted: &[IpAddr]) -> Result<()> {
    let bound = facts::global_addresses(netns, "eth0")?;
    for address in wanted {
        let there = bound.iter().any(|(other, _)| other == address);
        ensure!(there, "{address} is in the answer, but not on the pod's eth0: {bound:?}");
    }
    Ok(())
}

fn talk(stage: &mut Stage, node: &Node, pods: &[Attached]) -> Result<()> {
    stage.act("Everybody pings everybody");
    let party = |name, netns, v6: &str, v4: &str| -> Result<_> {
        Ok(Party { name, netns, v6: v6.parse()?, v4: v4.parse()? })
    };
    let mut parties = vec![party("node", node.netns(), NODE_V6, NODE_V4)?];
    for Attached { pod, v6, v4 } in pods {
        parties.push(Party { name: &pod.name, netns: &pod.netns, v6: *v6, v4: *v4 });
    }
    parties.push(party("outside", node.outside()?, OUTSIDE_V6, OUTSIDE_V4)?);
    ping_everybody(stage, &parties)
}

fn ask_agent(stage: &mut Stage, node: &Node) -> Result<()> {
    stage.act("The agent, asked");
    for question in ["pods", "check"] {
        go_on()?;
        stage.command(&format!("flock-agent {question}"));
        stage.output(&node.cli(&[question])?);
    }
    let known = node.cli_json(&["pods"])?;
    let count = known.get("pods").and_then(Value::as_array).map_or(0, Vec::len);
    ensure!(count == PODS.len(), "the agent knows {count} pods: {known}");
    Ok(())
}

fn survive(stage: &mut Stage, node: &mut Node, pods: &[Attached]) -> Result<()> {
    stage.act("The agent is killed, and started again");
    let before = node.cli_json(&["pods"])?;
    node.kill()?;
    stage.command("kill -9 AGENT");
    if let [first, second, ..] = pods {
        for target in [second.v6, second.v4] {
            let time = probe::ping(&first.pod.netns, target)?;
            stage.tick(&format!(
                "without it, {} still reaches {} at {target} ({time:.2} ms)",
                first.pod.name, second.pod.name
            ));
        }
    }
    let start = Instant::now();
    node.start()?;
    node.await_ready()?;
    let took = milliseconds(start);
    let after = node.cli_json(&["pods"])?;
    ensure!(before == after, "the pods differ after the restart:\n{before}\n{after}");
    stage.tick(&format!("back after {took}, with the same pods and addresses"));
    Ok(())
}

fn detach(stage: &mut Stage, node: &Node, plugin: &Plugin, pods: Vec<Attached>) -> Result<()> {
    stage.act("The pods go");
    stage.command("CNI_COMMAND=DEL ... flock < network.json");
    for Attached { pod, .. } in &pods {
        go_on()?;
        let start = Instant::now();
        plugin.del(pod)?;
        stage.tick(&format!("{:<5} detached in {}", pod.name, milliseconds(start)));
    }
    node.await_no_leftovers()?;
    for Attached { pod, .. } in &pods {
        ensure!(facts::interface(&pod.netns, "eth0").is_err(), "{} still has eth0", pod.name);
    }
    stage.tick("no interface, no route, no filter rule, no allocation is left on the node");
    Ok(())
}

fn milliseconds(since: Instant) -> String {
    format!("{:.1} ms", since.elapsed().as_secs_f64() * 1000.0)
}
