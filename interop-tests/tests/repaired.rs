//! A repair that fails is tried again, and what cannot be reached meanwhile is not announced.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use rack::fabric::Fabric;
use rack::facts;
use rack::probe::await_ping;
use rack::router::Brand;

#[test]
fn an_address_is_withdrawn_while_its_pod_cannot_be_wired_and_announced_when_it_can() {
    let address = "198.51.100.7";
    let mut fabric = Fabric::builder().tor("tor-a", Brand::Bird).nodes(1).build().unwrap();
    // The first link is ADD's; the next ones are repairs', one for each of what the kernel tells of.
    let faults: Vec<String> = (2..=7).map(|n| format!("attach.before-create=error@{n}")).collect();
    let node = fabric.node_mut(1).unwrap();
    node.start_with(&[("FLOCK_FAULT", &faults.join(","))]).unwrap();
    node.await_ready().unwrap();
    fabric.await_sessions().unwrap();
    let pod = fabric.add_pod(1, "web", &[("addresses", address)]).unwrap();
    fabric.await_tellers(&format!("{address}/32"), &[1]).unwrap();

    let netns = fabric.node(1).unwrap().netns();
    let link = facts::interfaces(netns).unwrap().into_iter().map(|link| link.name);
    let link = link.into_iter().find(|name| facts::is_pod_interface(name)).unwrap();
    netns.ip(&format!("link delete {link}")).unwrap();
    fabric.await_tellers(&format!("{address}/32"), &[]).unwrap();
    fabric.await_tellers(&format!("{address}/32"), &[1]).unwrap();
    await_ping(fabric.tor("tor-a").unwrap().netns(), address.parse().unwrap()).unwrap();
    let log = fabric.node(1).unwrap().log().unwrap();
    assert!(log.contains("cannot repair"), "the fault was met: {log}");
    fabric.remove_pod(pod).unwrap();
}
