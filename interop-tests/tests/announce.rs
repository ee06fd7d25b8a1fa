//! What nodes announce, as their ToRs see it: the networks of pods, the addresses of pods, with the
//! attributes that the NodeConfig asks for; and that packets follow. Three nodes and two ToRs, in
//! both families, over cables with IPv4 and without.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use rack::fabric::{Fabric, PodOnNode, Transport};
use rack::router::{Brand, Family};
use rack::storm::Storm;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

const TORS: [&str; 2] = ["tor-a", "tor-b"];
const NODES: [usize; 3] = [1, 2, 3];
/// On everything.
const COMMUNITY: &str = "65001:100";
const LARGE_COMMUNITY: &str = "65001:1:2";
/// For the second ToR alone.
const TO_THE_SECOND: &str = "65001:200";
/// For both, or one would prefer the way by the other.
const MED: u32 = 50;
/// In nobody's network.
const ELSEWHERE: [&str; 2] = ["2001:db8:e::7", "198.51.100.7"];

fn rack_of(transport: Transport) -> Fabric {
    let builder = Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Frr);
    let mut fabric = builder.nodes(NODES.len()).transport(transport).build().unwrap();
    for node in NODES {
        let bgp = &mut fabric.node_config_mut(node).unwrap()["spec"]["bgp"];
        bgp["communities"] = json!([COMMUNITY, LARGE_COMMUNITY]);
        bgp["peers"][0]["export"] = json!({ "med": MED });
        bgp["peers"][1]["export"] = json!({ "med": MED, "communities": [TO_THE_SECOND] });
        fabric.configure(node).unwrap();
    }
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    fabric
}

fn summaries(node: usize) -> [String; 2] {
    [format!("2001:db8:0:{node}::/64"), format!("10.244.{node}.0/24")]
}

/// The prefix of one host.
fn host(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv6() { 128 } else { 32 })
}

fn hosts(pod: &PodOnNode) -> Vec<String> {
    pod.addresses().into_iter().map(host).collect()
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|one| one.as_str().map_or(one.to_string(), str::to_owned)).collect()
}

/// What a node says that it told a ToR, and what the ToR says that it heard from the node: the same
/// prefixes with the same attributes, and those that the NodeConfig asks for.
fn agree(fabric: &Fabric, node: usize, tor: &str, expected: &BTreeSet<String>) -> Result<()> {
    let told = ["bgp", "show", "routes", "--advertised", "--peer", tor];
    let told = fabric.node(node)?.cli_json(&told)?;
    let rows = told["routes"].as_array().context("no routes")?;
    let rows: BTreeMap<&str, &Value> =
        rows.iter().filter_map(|row| Some((row["prefix"].as_str()?, row))).collect();
    let same = rows.keys().copied().eq(expected.iter().map(String::as_str));
    ensure!(same, "node-{node} told {tor} of {:?}, not {expected:?}", rows.keys());
    for (prefix, row) in rows {
        let path = fabric.path_of(node, tor, prefix)?;
        let path = path.with_context(|| format!("{tor} did not hear of {prefix}"))?;
        let hop = fabric.next_hop(node, tor, Family::of(prefix))?;
        ensure!(texts(&row["nextHops"]) == [hop.to_string()], "{row}");
        ensure!(texts(&row["asPath"]) == ["65001"] && path.as_path == [65001], "{row} {path:?}");
        let mut communities = vec![COMMUNITY];
        communities.extend((tor == TORS[1]).then_some(TO_THE_SECOND));
        ensure!(texts(&row["communities"]) == communities, "{row}");
        ensure!(path.communities == communities, "{path:?}");
        ensure!(texts(&row["largeCommunities"]) == [LARGE_COMMUNITY], "{row}");
        ensure!(path.large_communities == [LARGE_COMMUNITY], "{path:?}");
        ensure!(row["med"] == MED && path.med == Some(MED), "{row} {path:?}");
    }
    Ok(())
}

/// Awaits that all ToRs heard exactly this from a node, and that it says so itself.
fn await_told<'a>(fabric: &Fabric, node: usize, more: impl IntoIterator<Item = &'a String>) {
    let expected: BTreeSet<String> =
        summaries(node).into_iter().chain(more.into_iter().cloned()).collect();
    for tor in TORS {
        until(&format!("node-{node} and {tor} to agree"), PATIENCE, || {
            agree(fabric, node, tor, &expected)
        })
        .unwrap();
    }
    let shown = fabric.node(node).unwrap().cli_json(&["bgp", "show"]).unwrap();
    assert_eq!(shown["originated"], expected.len(), "{shown}");
    for peer in shown["peers"].as_array().unwrap() {
        assert_eq!(peer["state"], "Established", "{peer}");
        assert_eq!(peer["advertised"], expected.len(), "{peer}");
    }
}

/// The first screen that a network engineer looks at.
fn sessions_are_shown_as_they_are(fabric: &Fabric, node: usize) {
    let host = fabric.node(node).unwrap();
    until("both defaults of both ToRs", PATIENCE, || {
        let shown = host.cli_json(&["bgp", "show"])?;
        ensure!(shown["learned"] == 2 && shown["installed"] == 2, "{shown}");
        Ok(())
    })
    .unwrap();
    let shown = host.cli_json(&["bgp", "show"]).unwrap();
    assert_eq!((&shown["asn"], &shown["drain"]), (&json!(65001), &Value::Null), "{shown}");
    let listed = host.cli_json(&["bgp", "show", "peers"]).unwrap();
    for (number, (peer, tor)) in
        (1..).zip(shown["peers"].as_array().unwrap().iter().zip(fabric.tors()))
    {
        let told: Vec<_> = ["name", "asn", "localAsn", "routerId", "endOfRibSent"]
            .iter()
            .map(|key| &peer[key])
            .collect();
        let id = format!("10.255.0.{number}");
        let wanted = json!([tor.name(), 65000, 65001, id, true]);
        assert_eq!(json!(told), wanted, "{peer}");
        let address = fabric.session_addresses(node, tor.name()).unwrap()[0];
        assert_eq!(peer["localAddress"], address.to_string());
        assert_eq!(tor.router.state(address).unwrap(), "Established");
        assert_eq!(texts(&peer["families"]), ["ipv6-unicast", "ipv4-unicast"]);
        assert_eq!(listed["peers"][number - 1]["name"], peer["name"]);
    }
}

/// Pods answer the ToRs and each other, across nodes, which only ToRs connect.
fn packets_follow(fabric: &Fabric, pods: &[PodOnNode]) {
    let targets: Vec<IpAddr> = pods.iter().flat_map(PodOnNode::addresses).collect();
    for node in NODES {
        summaries(node).iter().for_each(|net| fabric.await_ways(net, &[node]).unwrap());
    }
    for tor in TORS {
        let storm = fabric.storm(tor, &targets, 600).unwrap();
        storm.await_answers(10).unwrap();
        storm.stop().unwrap().ensure_perfect().unwrap();
    }
    for pod in pods {
        let others: Vec<IpAddr> = pods
            .iter()
            .filter(|other| other.node != pod.node)
            .flat_map(PodOnNode::addresses)
            .collect();
        let storm = Storm::start(&pod.pod.netns, &others, 400).unwrap();
        storm.await_answers(10).unwrap();
        storm.stop().unwrap().ensure_perfect().unwrap();
    }
}

/// How many sessions have ended, node by node and peer by peer.
fn ended_sessions(fabric: &Fabric, nodes: &[usize]) -> Vec<BTreeMap<String, u64>> {
    let of = |node: &usize| fabric.node(*node).unwrap().ended_sessions().unwrap();
    nodes.iter().map(of).collect()
}

fn announce_pods(fabric: &mut Fabric, node: usize, on: bool) {
    fabric.node_config_mut(node).unwrap()["spec"]["bgp"]["announcePods"] = json!(on);
    fabric.configure(node).unwrap();
}

fn everything_is_announced(transport: Transport) {
    let mut fabric = rack_of(transport);
    for node in NODES {
        await_told(&fabric, node, []);
        sessions_are_shown_as_they_are(&fabric, node);
    }
    let before = ended_sessions(&fabric, &NODES);
    // An ordinary pod is within its node's network, and tells nobody anything.
    let pods = NODES.map(|node| fabric.add_pod(node, &format!("web-{node}"), &[]).unwrap());
    packets_follow(&fabric, &pods);
    NODES.iter().for_each(|node| await_told(&fabric, *node, []));

    // Each pod beside the summary, switched on and off under living sessions.
    announce_pods(&mut fabric, 1, true);
    let mut of_node = hosts(&pods[0]);
    await_told(&fabric, 1, &of_node);
    let later = fabric.add_pod(1, "later", &[]).unwrap();
    of_node.extend(hosts(&later));
    await_told(&fabric, 1, &of_node);
    of_node.iter().for_each(|prefix| fabric.await_ways(prefix, &[1]).unwrap());
    fabric.remove_pod(later).unwrap();
    of_node.truncate(2);
    await_told(&fabric, 1, &of_node);
    announce_pods(&mut fabric, 1, false);
    await_told(&fabric, 1, []);
    of_node.iter().for_each(|prefix| fabric.await_ways(prefix, &[]).unwrap());

    // Addresses of a pod's own: outside the node's networks they need a route of their own.
    let outside = fabric.add_pod(2, "outside", &[("addresses", &ELSEWHERE.join(","))]).unwrap();
    let inside = "2001:db8:0:2::77,10.244.2.77";
    let inside = fabric.add_pod(2, "inside", &[("addresses", inside)]).unwrap();
    assert_eq!(outside.addresses(), ELSEWHERE.map(|text| text.parse::<IpAddr>().unwrap()));
    assert_eq!(hosts(&inside), ["2001:db8:0:2::77/128", "10.244.2.77/32"]);
    await_told(&fabric, 2, &hosts(&outside));
    hosts(&outside).iter().for_each(|prefix| fabric.await_ways(prefix, &[2]).unwrap());
    let [first, second, third] = pods;
    packets_follow(&fabric, &[first, third, outside, inside]);
    // What the ToRs hear of nobody else's pods is as before.
    [1, 3].iter().for_each(|node| await_told(&fabric, *node, []));
    fabric.remove_pod(second).unwrap();
    assert_eq!(ended_sessions(&fabric, &NODES), before, "no session was reset");
}

#[test]
fn three_nodes_and_two_tors_in_both_families() {
    everything_is_announced(Transport::DualStack);
}

#[test]
fn three_nodes_and_two_tors_without_ipv4_on_the_cables() {
    everything_is_announced(Transport::Ipv6Only);
}

#[test]
fn gobgp_and_openbgpd_hear_the_same() {
    let builder = Fabric::builder().tor("gobgp", Brand::Gobgp).tor("openbgpd", Brand::Openbgpd);
    let mut fabric = builder.nodes(2).build().unwrap();
    fabric.node_config_mut(1).unwrap()["spec"]["bgp"]["communities"] = json!([COMMUNITY]);
    fabric.configure(1).unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    for node in [1, 2] {
        summaries(node).iter().for_each(|net| fabric.await_tellers(net, &[node]).unwrap());
    }
    for tor in fabric.tors() {
        for net in summaries(1) {
            let path = fabric.path_of(1, tor.name(), &net).unwrap().unwrap();
            assert_eq!((path.as_path, path.communities), (vec![65001], vec![COMMUNITY.into()]));
        }
        let learned = fabric.node(1).unwrap().cli_json(&["bgp", "show", "peers"]).unwrap();
        for peer in learned["peers"].as_array().unwrap() {
            let families = texts(&peer["families"]).len();
            assert_eq!(peer["advertised"], families, "a summary of each: {peer}");
        }
    }
    let before = ended_sessions(&fabric, &[1, 2]);
    let anycast = ["2001:db8:cafe::1/128", "192.0.2.1/32"];
    let annotation = anycast.map(|net| net.split('/').next().unwrap()).join(",");
    let mut pods = [1, 2].map(|node| {
        fabric.add_pod(node, &format!("dns-{node}"), &[("anycast", &annotation)]).unwrap()
    });
    anycast.iter().for_each(|net| fabric.await_tellers(net, &[1, 2]).unwrap());
    fabric.set_ready(&mut pods[0], false).unwrap();
    anycast.iter().for_each(|net| fabric.await_tellers(net, &[2]).unwrap());
    announce_pods(&mut fabric, 2, true);
    hosts(&pods[1]).iter().for_each(|net| fabric.await_tellers(net, &[2]).unwrap());
    let [_, gone] = pods;
    let prefixes = hosts(&gone);
    fabric.remove_pod(gone).unwrap();
    let all = prefixes.iter().map(String::as_str).chain(anycast);
    all.for_each(|net| fabric.await_tellers(net, &[]).unwrap());
    summaries(2).iter().for_each(|net| fabric.await_tellers(net, &[2]).unwrap());
    assert_eq!(ended_sessions(&fabric, &[1, 2]), before, "no session was reset");
}
