//! kill -9 and a new process under a storm of pings from the ToR: packets that are lost.

use anyhow::Result;

use crate::fabric::Fabric;
use crate::router::Brand;

/// Pings a second.
const RATE: u32 = 1000;
/// Answers of every address before, while the agent is away, and after.
const ANSWERS: u64 = 100;
const NODE: usize = 1;
const TOR: &str = "tor-a";

/// Packets sent and lost over so many kills, with so many pods.
pub fn over_kills(kills: usize, pods: usize) -> Result<(u64, u64)> {
    let mut fabric = Fabric::builder().tor(TOR, Brand::Bird).nodes(NODE).build()?;
    fabric.start()?;
    fabric.await_sessions()?;
    let mut targets = Vec::new();
    let mut all = Vec::new();
    for number in 0..pods {
        let pod = fabric.add_pod(NODE, &format!("web-{number}"), &[])?;
        targets.extend(pod.addresses());
        all.push(pod);
    }
    let storm = fabric.storm(TOR, &targets, RATE)?;
    for _ in 0..kills {
        storm.await_answers(ANSWERS)?;
        fabric.node_mut(NODE)?.kill()?;
        storm.await_answers(ANSWERS)?;
        fabric.node_mut(NODE)?.start()?;
        fabric.node_mut(NODE)?.await_ready()?;
        fabric.await_sessions()?;
    }
    storm.await_answers(ANSWERS)?;
    let outcome = storm.stop()?;
    Ok((outcome.sent(), outcome.lost()))
}
