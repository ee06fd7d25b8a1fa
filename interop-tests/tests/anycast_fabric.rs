//! An anycast address in a fabric: served by pods on three nodes it is one route with three next
//! hops in the kernels of the ToRs, and whatever happens to a pod, its node or its agent, kernels of
//! ToRs and nodes come to agree about who serves it. What happens on one node alone is told in
//! `anycast.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rack::fabric::{Fabric, PodOnNode, Transport};
use rack::facts;
use rack::node::Node;
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

const ANYCAST: [&str; 2] = ["2001:db8:cafe::1", "192.0.2.1"];
const NODES: [usize; 3] = [1, 2, 3];
/// What is announced of one prefix before it is paced (`agent/src/reconcile/pace.rs`).
const BURST: usize = 64;
/// What the agent says when it paces.
const PACED: &str = "it flaps";

fn serve(fabric: &Fabric, node: usize, name: &str) -> PodOnNode {
    fabric.add_pod(node, name, &[("anycast", &ANYCAST.join(","))]).unwrap()
}

fn three_nodes(transport: Transport) -> (Fabric, Vec<PodOnNode>) {
    let builder = Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Frr);
    let mut fabric = builder.nodes(NODES.len()).transport(transport).build().unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    let pods = NODES.iter().map(|node| serve(&fabric, *node, &format!("dns-{node}"))).collect();
    (fabric, pods)
}

/// Awaits that the ToRs' kernels lead to exactly these nodes, in both families.
fn await_served_by(fabric: &Fabric, nodes: &[usize]) {
    ANYCAST.iter().for_each(|address| fabric.await_ways(address, nodes).unwrap());
}

/// The gateways of a node's route to an anycast address, sorted; none without a route.
fn gateways(node: &Node, address: &str) -> Result<Vec<String>> {
    let routes = facts::routes(node.netns())?;
    let route = routes.into_iter().find(|route| route.destination == address);
    let mut gateways = route.map(|route| route.gateways).unwrap_or_default();
    gateways.sort_unstable();
    Ok(gateways)
}

/// Whether a node's kernel leads to exactly these pods, in both families.
fn leads_to(fabric: &Fabric, node: usize, pods: &[&PodOnNode]) -> Result<()> {
    for (family, address) in ANYCAST.iter().enumerate() {
        let mut wanted: Vec<_> =
            pods.iter().map(|pod| pod.addresses()[family].to_string()).collect();
        wanted.sort_unstable();
        let there = gateways(fabric.node(node)?, address)?;
        ensure!(there == wanted, "{address} on node-{node} via {there:?}, not {wanted:?}");
    }
    Ok(())
}

fn await_leads_to(fabric: &Fabric, node: usize, pods: &[&PodOnNode]) {
    until("the node's kernel to follow", PATIENCE, || leads_to(fabric, node, pods)).unwrap();
}

/// What a node says about its pod.
fn shown(node: &Node, pod: &PodOnNode) -> Result<Value> {
    let list = node.cli_json(&["pods"])?;
    let rows = list["pods"].as_array().context("no pods")?;
    let row = rows.iter().find(|row| row["name"] == pod.pod.name.as_str());
    row.cloned().with_context(|| format!("{} is not shown: {list}", pod.pod.name))
}

/// The rows that a node originates for an address: none, or one whoever serves it.
fn originated(node: &Node, address: &str) -> Result<Vec<Value>> {
    let list = node.cli_json(&["bgp", "show", "routes", address, "--originated"])?;
    let rows = list["routes"].as_array().context("no routes")?;
    // An address is asked for: the node's own networks do not hold it.
    Ok(rows.clone())
}

fn two_pods_of_one_node_are_one_next_hop(fabric: &Fabric, pods: &[PodOnNode]) -> PodOnNode {
    let spare = serve(fabric, 1, "spare");
    leads_to(fabric, 1, &[&pods[0], &spare]).unwrap();
    await_served_by(fabric, &NODES);
    for address in ANYCAST {
        let rows = originated(fabric.node(1).unwrap(), address).unwrap();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0]["owner"], "anycast default/dns-1, default/spare");
    }
    spare
}

/// One after the other is not Ready: the ToRs hear of it with the last.
fn readiness_is_followed(fabric: &Fabric, first: &mut PodOnNode, spare: &mut PodOnNode) {
    let targets = ANYCAST.map(|address| address.parse().unwrap());
    let storms = ["tor-a", "tor-b"].map(|tor| fabric.storm(tor, &targets, 400).unwrap());
    fabric.set_ready(spare, false).unwrap();
    await_leads_to(fabric, 1, &[first]);
    await_served_by(fabric, &NODES);
    fabric.set_ready(first, false).unwrap();
    await_served_by(fabric, &[2, 3]);
    // It lingers: packets on their way are delivered.
    leads_to(fabric, 1, &[first]).unwrap();
    fabric.set_ready(spare, true).unwrap();
    await_served_by(fabric, &NODES);
    leads_to(fabric, 1, &[spare]).unwrap();
    fabric.set_ready(first, true).unwrap();
    await_leads_to(fabric, 1, &[first, spare]);
    for outcome in storms.map(|storm| storm.stop().unwrap()) {
        // A router may have no route for an instant while it changes one: what leaves it is answered.
        let delivered =
            outcome.targets.iter().all(|one| one.answered > 0 && one.lost == one.refused);
        assert!(delivered, "{outcome}");
    }
}

/// A pod on its way out serves no longer; that it is gone changes nothing for the ToRs.
fn a_leaving_pod_is_withdrawn(fabric: &Fabric, mut pod: PodOnNode) -> PodOnNode {
    fabric.set_leaving(&mut pod).unwrap();
    await_served_by(fabric, &[1, 3]);
    // It lingers, but not longer than its pod is there.
    leads_to(fabric, 2, &[&pod]).unwrap();
    fabric.remove_pod(pod).unwrap();
    leads_to(fabric, 2, &[]).unwrap();
    let next = serve(fabric, 2, "dns-2");
    await_served_by(fabric, &NODES);
    next
}

fn a_deleted_pod_is_withdrawn(fabric: &Fabric, pod: PodOnNode) -> PodOnNode {
    fabric.remove_pod(pod).unwrap();
    leads_to(fabric, 3, &[]).unwrap();
    await_served_by(fabric, &[1, 2]);
    let next = serve(fabric, 3, "dns-3");
    await_served_by(fabric, &NODES);
    next
}

/// An agent that is killed takes nothing with it, and what changed meanwhile is found by the next.
fn a_restart_finds_what_changed(fabric: &mut Fabric, pod: &mut PodOnNode) {
    let targets = ANYCAST.map(|address| address.parse().unwrap());
    let storms = ["tor-a", "tor-b"].map(|tor| fabric.storm(tor, &targets, 200).unwrap());
    fabric.node_mut(3).unwrap().kill().unwrap();
    storms.iter().for_each(|storm| storm.await_answers(20).unwrap());
    await_served_by(fabric, &NODES);
    fabric.node_mut(3).unwrap().start().unwrap();
    fabric.node_mut(3).unwrap().await_ready().unwrap();
    fabric.await_sessions().unwrap();
    await_served_by(fabric, &NODES);
    storms.iter().for_each(|storm| storm.await_answers(20).unwrap());
    storms.into_iter().for_each(|storm| storm.stop().unwrap().ensure_perfect().unwrap());

    fabric.node_mut(3).unwrap().kill().unwrap();
    fabric.set_ready(pod, false).unwrap();
    fabric.node_mut(3).unwrap().start().unwrap();
    await_served_by(fabric, &[1, 2]);
    fabric.set_ready(pod, true).unwrap();
    await_served_by(fabric, &NODES);
    leads_to(fabric, 3, &[pod]).unwrap();
}

/// Its link is put back; a pod that is no more is not announced any more.
fn a_lost_link_is_repaired_and_a_lost_pod_is_withdrawn(fabric: &Fabric, pod: PodOnNode) {
    let node = fabric.node(3).unwrap();
    let link = shown(node, &pod).unwrap()["hostInterface"].as_str().unwrap().to_owned();
    node.netns().ip(&format!("link delete {link}")).unwrap();
    await_leads_to(fabric, 3, &[&pod]);
    await_served_by(fabric, &NODES);
    let storm = fabric.storm("tor-a", &pod.addresses(), 200).unwrap();
    storm.await_answers(5).unwrap();
    drop(storm);
    // Its namespace goes, and the kernel takes the link with it; nobody calls DEL.
    drop(pod);
    await_served_by(fabric, &[1, 2]);
    await_leads_to(fabric, 3, &[]);
}

fn kernels_agree(transport: Transport) {
    let (mut fabric, mut pods) = three_nodes(transport);
    await_served_by(&fabric, &NODES);
    let ended = |node: &usize| fabric.node(*node).unwrap().ended_sessions().unwrap();
    let before: Vec<_> = [1, 2].iter().map(ended).collect();
    let mut spare = two_pods_of_one_node_are_one_next_hop(&fabric, &pods);
    readiness_is_followed(&fabric, &mut pods[0], &mut spare);
    fabric.remove_pod(spare).unwrap();
    let mut third = a_deleted_pod_is_withdrawn(&fabric, pods.pop().unwrap());
    let second = a_leaving_pod_is_withdrawn(&fabric, pods.pop().unwrap());
    let mut first = pods.pop().unwrap();
    a_restart_finds_what_changed(&mut fabric, &mut third);
    a_lost_link_is_repaired_and_a_lost_pod_is_withdrawn(&fabric, third);
    fabric.set_ready(&mut first, false).unwrap();
    await_served_by(&fabric, &[2]);
    leads_to(&fabric, 1, &[&first]).unwrap();
    fabric.remove_pod(second).unwrap();
    await_served_by(&fabric, &[]);
    await_leads_to(&fabric, 1, &[]);
    fabric.set_ready(&mut first, true).unwrap();
    await_served_by(&fabric, &[1]);
    let ended = |node: &usize| fabric.node(*node).unwrap().ended_sessions().unwrap();
    let after: Vec<_> = [1, 2].iter().map(ended).collect();
    assert_eq!(after, before, "sessions outlast it all");
}

#[test]
fn kernels_agree_about_who_serves_in_both_families() {
    kernels_agree(Transport::DualStack);
}

#[test]
fn kernels_agree_about_who_serves_without_ipv4_on_the_cables() {
    kernels_agree(Transport::Ipv6Only);
}

/// How often the agent said of a prefix that it is paced.
fn paced(node: &Node, address: &str) -> Result<usize> {
    let of_prefix = |line: &&str| line.contains(PACED) && line.contains(address);
    Ok(node.log()?.lines().filter(of_prefix).count())
}

/// Not Ready, withdrawn, and Ready again. True when it is announced again, false when that has to
/// wait.
fn flip(fabric: &Fabric, pod: &mut PodOnNode, address: &str) -> bool {
    let node = fabric.node(pod.node).unwrap();
    let before = paced(node, address).unwrap();
    fabric.set_ready(pod, false).unwrap();
    until("the withdrawal", PATIENCE, || {
        let rows = originated(node, address)?;
        ensure!(rows.is_empty(), "{rows:?}");
        Ok(())
    })
    .unwrap();
    fabric.set_ready(pod, true).unwrap();
    until("the announcement, or that it has to wait", PATIENCE, || {
        // In this order: one that waited is announced a while later.
        let waits = paced(node, address)? > before;
        ensure!(waits || !originated(node, address)?.is_empty(), "neither");
        Ok(!waits)
    })
    .unwrap()
}

#[test]
fn what_flaps_is_announced_at_its_pace_and_withdrawn_at_once() {
    let mut fabric = Fabric::builder().tor("tor", Brand::Bird).nodes(1).build().unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    let [six, four] = ANYCAST;
    let begun = Instant::now();
    let mut pod = serve(&fabric, 1, "flaps");
    await_served_by(&fabric, &[1]);
    let before = fabric.node(1).unwrap().ended_sessions().unwrap();
    let mut announced = 1;
    while flip(&fabric, &mut pod, four) {
        announced += 1;
        assert!(announced < 10 * BURST, "never paced");
    }
    assert!(announced >= BURST, "paced after {announced}");
    // One more for each second that went by, and one that may have been under way.
    let most = BURST + usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    assert!(announced <= most, "{announced} announcements, at most {most} were due");
    // It comes by itself when it may. Others do not wait.
    await_served_by(&fabric, &[1]);
    let calm = fabric.add_pod(1, "calm", &[("anycast", "192.0.2.2")]).unwrap();
    fabric.await_ways("192.0.2.2", &[1]).unwrap();
    let node = fabric.node(1).unwrap();
    assert_eq!(paced(node, "192.0.2.2/32").unwrap(), 0);

    // The ToR hears of a withdrawal while an announcement would still have to wait.
    until("a withdrawal between two announcements", PATIENCE, || {
        await_served_by(&fabric, &[1]);
        let before = paced(node, four)?;
        fabric.set_ready(&mut pod, false)?;
        await_served_by(&fabric, &[]);
        fabric.set_ready(&mut pod, true)?;
        await_served_by(&fabric, &[1]);
        ensure!(paced(node, four)? > before, "the announcement did not have to wait");
        Ok(())
    })
    .unwrap();

    // Faster than anybody looks: what counts is how it ends.
    for (last, nodes) in [(false, &[][..]), (true, &[1])] {
        for turn in 0..70 {
            fabric.set_ready(&mut pod, turn % 2 == 0).unwrap();
        }
        fabric.set_ready(&mut pod, last).unwrap();
        await_served_by(&fabric, nodes);
        for address in [six, four] {
            let rows = originated(node, address).unwrap();
            assert_eq!(rows.len(), nodes.len(), "{rows:?}");
        }
    }
    leads_to(&fabric, 1, &[&pod]).unwrap();
    fabric.await_ways("192.0.2.2", &[1]).unwrap();
    fabric.remove_pod(pod).unwrap();
    await_served_by(&fabric, &[]);
    fabric.remove_pod(calm).unwrap();
    assert_eq!(node.ended_sessions().unwrap(), before);
    node.await_no_leftovers().unwrap();
}
