//! A pod that a policy isolates is never open, not for one packet: not while it is attached, not while an
//! agent is killed and starts, not while policies are rewritten.

use std::net::IpAddr;

use rack::manifests::{PREFIX, Writing};
use rack::pod::Pod;
use rack::policy::people::{self, Home, policy};
use rack::policy::rig::{Rig, Spot};
use rack::wait::{PATIENCE, until};
use serde_json::json;

use super::watch::{Hammer, leaked, watch};
use super::{SHUT, policies, rig};

/// The addresses that the pod to come will have.
pub(crate) const ADDRESSES: [&str; 2] = ["192.0.2.60", "2001:db8:60::60"];

/// Writes who `back/new-1` will be, and leads its addresses to the first node.
pub(crate) fn announce(rig: &Rig) -> [IpAddr; 2] {
    let mut manifest = people::pod("back/new-1", &[("app", "new")], &[]);
    let annotations = json!({ format!("{PREFIX}addresses"): ADDRESSES.join(",") });
    people::put(&mut manifest, "/metadata", "annotations", annotations);
    rig.node(Home::A).write_pod(&manifest, Writing::Renamed).unwrap();
    let hop = rig.spot("node-a").unwrap().addresses;
    for (address, hop) in ADDRESSES.iter().zip(hop) {
        rig.hub().ip(&format!("route add {address} via {hop}")).unwrap();
    }
    // Until the pod is there its node sends packets for it back, and they would go in circles.
    let chain = "{ type filter hook forward priority 0 ; }";
    rig.hub().exec("nft", &["add", "table", "inet", "circles"]).unwrap();
    rig.hub().exec("nft", &["add", "chain", "inet", "circles", "forward", chain]).unwrap();
    let rule = "add rule inet circles forward iifname node-a oifname node-a drop";
    rig.hub().exec("nft", &rule.split(' ').collect::<Vec<_>>()).unwrap();
    ADDRESSES.map(|address| address.parse().unwrap())
}

/// From the same node, from the other one, and from beyond.
pub(crate) fn strangers(rig: &Rig) -> Vec<&Spot> {
    ["front/web-1", "front/web-2", "outside-10"].map(|name| rig.spot(name).unwrap()).into()
}

/// A pod `back/new-1` with nobody in it yet but a watch.
pub(crate) fn watched(rig: &Rig) -> Pod {
    let pod = rig.new_pod("back/new-1").unwrap();
    watch(&pod.netns, &strangers(rig));
    pod
}

#[test]
fn a_pod_that_comes_is_never_open() {
    let mut rig = rig(SHUT);
    let targets = announce(&rig);
    let hammers: Vec<_> =
        strangers(&rig).into_iter().map(|from| Hammer::start(&rig, from, targets)).collect();
    let plugin = rig.node(Home::A).plugin().unwrap();
    let mut last = None;
    for turn in 0..6 {
        if let Some(pod) = last.take() {
            plugin.del(&pod).unwrap();
        }
        let pod = watched(&rig);
        plugin.add(&pod).unwrap();
        hammers.iter().for_each(|hammer| hammer.await_more(20));
        match turn % 3 {
            0 => rig.node_mut(Home::A).restart_with(&[]).unwrap(),
            1 => rewrite(&mut rig),
            _ => {
                rig.node_mut(Home::A).kill().unwrap();
                hammers.iter().for_each(|hammer| hammer.await_more(20));
                rewrite_while_away(&mut rig, turn);
                rig.node_mut(Home::A).restart_with(&[]).unwrap();
                rig.pass_gates().unwrap();
            }
        }
        hammers.iter().for_each(|hammer| hammer.await_more(20));
        assert_eq!(leaked(&pod.netns), 0, "turn {turn}");
        last = Some(pod);
    }
    // They would have come in, all the time.
    let pod = last.unwrap();
    rig.set_policies(&[]).unwrap();
    until("packets to come in", PATIENCE, || {
        anyhow::ensure!(leaked(&pod.netns) > 0, "none came");
        Ok(())
    })
    .unwrap();
}

/// Policies that mean the same for the pod, in other words and under other names, one after the other.
fn rewrite(rig: &mut Rig) {
    let mut now = policies(SHUT);
    now.push(policy("back/deny-new", "{ podSelector: { matchLabels: { app: new } } }").unwrap());
    rig.set_policies(&now).unwrap();
    now.retain(|policy| {
        policy["metadata"]["name"] != "deny" || policy["metadata"]["namespace"] != "back"
    });
    rig.set_policies(&now).unwrap();
    now.extend(policies(SHUT).into_iter().filter(|one| one["metadata"]["namespace"] == "back"));
    let wide =
        "{ podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { app: db } } }] }] }";
    now.push(policy("back/wide", wide).unwrap());
    rig.set_policies(&now).unwrap();
    rig.set_policies(&policies(SHUT)).unwrap();
}

fn rewrite_while_away(rig: &mut Rig, turn: usize) {
    let mut now = policies(SHUT);
    let other =
        format!("{{ podSelector: {{}}, ingress: [{{ ports: [{{ port: {} }}] }}] }}", 7000 + turn);
    now.push(policy("back/other", &other).unwrap());
    rig.write_policies(&now).unwrap();
}

/// A policy that is written just before ADD is in force when ADD has answered.
#[test]
fn what_is_written_before_add_is_in_force_after_it() {
    let mut rig = Rig::start().unwrap();
    let targets = announce(&rig);
    let hammers: Vec<_> =
        strangers(&rig).into_iter().map(|from| Hammer::start(&rig, from, targets)).collect();
    let plugin = rig.node(Home::A).plugin().unwrap();
    for turn in 0..4 {
        rig.set_policies(&[]).unwrap();
        let pod = watched(&rig);
        // No gate is passed here: ADD alone has to see to it.
        rig.write_policies(&policies(SHUT)).unwrap();
        plugin.add(&pod).unwrap();
        hammers.iter().for_each(|hammer| hammer.await_more(20));
        assert_eq!(leaked(&pod.netns), 0, "turn {turn}");
        plugin.del(&pod).unwrap();
    }
}
