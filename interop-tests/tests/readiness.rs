//! STATUS where the NodeConfig asks for sessions: not available until so many of them are up and
//! were told everything, or until the patience that it gives is over; asked anew at every start.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use anyhow::{Context, ensure};
use rack::fabric::Fabric;
use rack::plugin::Answer;
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::json;

const TORS: [&str; 2] = ["tor-a", "tor-b"];

/// BIRD, FRR and a node that asks for sessions.
fn fabric(sessions: u32, timeout: &str) -> Fabric {
    let builder = Fabric::builder().tor(TORS[0], Brand::Bird).tor(TORS[1], Brand::Frr);
    let mut fabric = builder.nodes(1).build().unwrap();
    ask_for(&mut fabric, sessions, timeout);
    fabric
}

fn ask_for(fabric: &mut Fabric, sessions: u32, timeout: &str) {
    let wish = json!({ "sessions": sessions, "timeout": timeout });
    fabric.node_config_mut(1).unwrap()["spec"]["readiness"] = wish;
    fabric.configure(1).unwrap();
}

/// Starts the agent, and awaits nothing but its socket.
fn start(fabric: &mut Fabric) {
    fabric.node_mut(1).unwrap().start().unwrap();
    let socket = fabric.node(1).unwrap().socket();
    until("the socket", PATIENCE, || socket.exists().then_some(()).context("not there")).unwrap();
}

fn status(fabric: &Fabric) -> Answer {
    fabric.node(1).unwrap().plugin().unwrap().status().unwrap()
}

/// Awaits that STATUS says how many sessions there are of those that it wants.
fn await_refusal(fabric: &Fabric, words: &str) {
    until(&format!("STATUS to say {words:?}"), PATIENCE, || {
        let refusal = status(fabric).err().context("it is available")?;
        ensure!(refusal.code == 50 && refusal.msg.contains(words), "{refusal}");
        Ok(())
    })
    .unwrap();
}

fn await_available(fabric: &Fabric) {
    until("STATUS to succeed", PATIENCE, || Ok(status(fabric).map(drop)?)).unwrap();
}

#[test]
fn a_node_is_available_once_its_sessions_were_told_everything() {
    let mut fabric = fabric(2, "600s");
    for tor in TORS {
        fabric.link(1, tor).unwrap().silence().unwrap();
    }
    start(&mut fabric);
    await_refusal(&fabric, "0 of 2 BGP sessions");
    // Only STATUS waits: whoever asks for a pod gets it.
    let pod = fabric.add_pod(1, "pod", &[]).unwrap();
    fabric.link(1, TORS[0]).unwrap().pass().unwrap();
    await_refusal(&fabric, "1 of 2 BGP sessions");
    fabric.link(1, TORS[1]).unwrap().pass().unwrap();
    await_available(&fabric);
    // Told means told: the ToRs have it, or will without another word of ours.
    for tor in fabric.tors() {
        tor.router.await_path("2001:db8:0:1::/64", |_| true).unwrap();
        tor.router.await_path("10.244.1.0/24", |_| true).unwrap();
    }

    // Sessions of the life before count for nothing.
    fabric.node_mut(1).unwrap().kill().unwrap();
    fabric.link(1, TORS[1]).unwrap().silence().unwrap();
    start(&mut fabric);
    await_refusal(&fabric, "1 of 2 BGP sessions");
    // Less is asked for, and that is there.
    ask_for(&mut fabric, 1, "600s");
    await_available(&fabric);
    fabric.remove_pod(pod).unwrap();
}

#[test]
fn the_patience_for_sessions_ends() {
    let mut fabric = fabric(1, "600s");
    for tor in TORS {
        fabric.link(1, tor).unwrap().silence().unwrap();
    }
    start(&mut fabric);
    await_refusal(&fabric, "0 of 1 BGP sessions");
    ask_for(&mut fabric, 1, "1s");
    await_available(&fabric);
    // It is counted from the start: more of it than has passed is waited for again.
    ask_for(&mut fabric, 1, "600s");
    await_refusal(&fabric, "0 of 1 BGP sessions");
    // And a node that asks for nothing is available without anybody.
    let spec = &mut fabric.node_config_mut(1).unwrap()["spec"];
    spec.as_object_mut().unwrap().remove("readiness");
    fabric.configure(1).unwrap();
    await_available(&fabric);
}
