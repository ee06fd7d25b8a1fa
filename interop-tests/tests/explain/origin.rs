//! Networks, pods and annotations: who asks for a prefix, and what becomes of it.

use rack::fabric::{Fabric, PodOnNode};
use serde_json::{Value, json};

use super::scene::{
    NETWORK4, NETWORK6, TORS, await_said, await_verdict, explain, pair, peer_config, start,
};

const ANYCAST: &str = "192.0.2.53";
const OUTSIDE: &str = "198.51.100.7";
const NOT_ORIGINATED: &str = "tor-a and tor-b were not told: this node does not originate it.";

/// A node whose announcements carry something to be seen.
fn fabric() -> Fabric {
    let mut fabric = pair().nodes(1).build().unwrap();
    let bgp = &mut fabric.node_config_mut(1).unwrap()["spec"]["bgp"];
    bgp["communities"] = json!(["65001:100", "65001:1:2"]);
    peer_config(&mut fabric, TORS[1])["export"] = json!({ "med": 50, "prepend": 1 });
    fabric.configure(1).unwrap();
    start(&mut fabric);
    fabric
}

#[test]
fn networks_pods_and_annotations() {
    let mut fabric = fabric();
    the_networks_of_the_node(&fabric);
    a_pod_inside_them(&fabric);
    an_address_of_nobody(&fabric);
    an_address_outside_them(&fabric);
    only_one_peer(&fabric);
    announce_pods(&mut fabric);
}

fn the_networks_of_the_node(fabric: &Fabric) {
    let verdict = "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to both peers.";
    let said = await_verdict(fabric, &[NETWORK4], verdict);
    said.says("Origin", "It is the network spec.cidr4[0] of the NodeConfig node-1.")
        .says("Origin", "This node has originated it since T.")
        .says(
            "Kernel",
            "The kernel has the route: unreachable 10.244.1.0/24; packets for addresses that no pod \
             has are answered with that.",
        )
        .says(
            "Peers",
            "tor-a was told at T: next hop 172.16.1.2, AS path 65001, communities 65001:100, large \
             communities 65001:1:2.",
        )
        .says(
            "Peers",
            "tor-b was told at T: next hop 172.17.1.2, AS path 65001 65001, MED 50, communities \
             65001:100, large communities 65001:1:2.",
        );
    assert_eq!(said.code, 0);
    let (json, peer) = (&said.json, said.peer(TORS[1]));
    assert_eq!(json["announced"], true);
    assert_eq!(json["origin"]["field"], "spec.cidr4[0]");
    assert_eq!(json["origin"]["originated"], true);
    assert_eq!(json["kernel"]["route"], "unreachable 10.244.1.0/24");
    assert_eq!(json["kernel"]["expected"], json["kernel"]["route"]);
    assert_eq!(json["covering"], Value::Null);
    assert_eq!((&peer["told"], &peer["toldExactly"]), (&json!(true), &json!(true)), "{peer}");
    assert_eq!(peer["reason"], Value::Null);
    assert_eq!(
        peer["attributes"],
        json!({
            "nextHop": "172.17.1.2",
            "asPath": [65001, 65001],
            "communities": ["65001:100"],
            "largeCommunities": ["65001:1:2"],
            "med": 50,
            "localPref": null,
        })
    );
    let verdict = "2001:db8:0:1::/64 is originated here (spec.cidr6[0]) and told to both peers.";
    let said = await_verdict(fabric, &[NETWORK6], verdict);
    assert_eq!(said.peer(TORS[0])["attributes"]["nextHop"], "2001:db8:f1:1::2");
}

/// Covered by the summary: not announced itself, and reached all the same.
fn a_pod_inside_them(fabric: &Fabric) {
    let web = fabric.add_pod(1, "web", &[]).unwrap();
    let address = web.v4.unwrap().to_string();
    let verdict = format!(
        "{address}/32 is the own address of pod default/web, and reached by the node's network \
         10.244.1.0/24, which both peers were told; it needs no announcement of its own."
    );
    let said = await_verdict(fabric, &[&address], &verdict);
    said.says(
        "Origin",
        "Pod default/web has it from the node's network: it is attached (interface flockX).",
    )
    .says(
        "Origin",
        "The node's network 10.244.1.0/24 holds it and leads here, so it is not announced itself; \
         spec.bgp.announcePods would announce each pod.",
    )
    .says("Kernel", &format!("The kernel leads to the pod: {address}/32 dev flockX."))
    .says("Peers", NOT_ORIGINATED)
    .says("Covering", "10.244.1.0/24 is originated here (spec.cidr4[0]) and told to both peers.");
    assert_eq!((&said.json["announced"], said.code), (&json!(false), 0));
    assert_eq!(said.json["covering"]["prefix"], NETWORK4);
    assert_eq!(said.json["covering"]["announced"], true);
    let pod = &said.json["origin"]["pods"][0];
    assert_eq!((&pod["state"], &pod["annotation"]), (&json!("attached"), &Value::Null));
    fabric.remove_pod(web).unwrap();
}

fn an_address_of_nobody(fabric: &Fabric) {
    for (address, network, field) in [
        ("10.244.1.200", NETWORK4, "spec.cidr4[0]"),
        ("2001:db8:0:1::dead", NETWORK6, "spec.cidr6[0]"),
    ] {
        let verdict = format!(
            "{address} is no pod's: it is inside the node's network {network} ({field}), and the \
             kernel answers \"unreachable\"."
        );
        let said = await_verdict(fabric, &[address], &verdict);
        let answers = format!("The kernel answers packets for {address} with \"unreachable\".");
        said.says("Kernel", &answers);
        assert_eq!(
            (&said.json["question"], &said.json["prefix"]),
            (&json!(address), &json!(network))
        );
        assert_eq!(said.json["announced"], true, "the network is");
    }
}

fn an_address_outside_them(fabric: &Fabric) {
    let own = fabric.add_pod(1, "own", &[("addresses", OUTSIDE)]).unwrap();
    let verdict = "198.51.100.7/32 is originated here (own address of pod default/own) and told to both peers.";
    await_verdict(fabric, &[OUTSIDE], verdict)
        .says(
            "Origin",
            "Pod default/own has it by its annotation flock.fritzlab.net/addresses: it is attached \
             (interface flockX).",
        )
        .says("Origin", "No network of the node holds it, so it is announced itself.")
        .says("Kernel", "The kernel leads to the pod: 198.51.100.7/32 dev flockX.");
    fabric.remove_pod(own).unwrap();
    // Gone: what is remembered of it is told as long as it is.
    let said = await_said(fabric, &[OUTSIDE], "withdrawn", |said| {
        said.verdict().starts_with("198.51.100.7/32 is not announced: it was withdrawn at T: pod")
    });
    let because = said.json["origin"]["withdrawnBecause"].as_str().unwrap();
    assert!(because.starts_with("pod default/own was"), "{because}");
    assert!(said.json["origin"]["withdrawnAt"].is_string());
    said.says("Peers", "tor-a and tor-b were told at T that it is gone.");
}

/// Narrowed to a peer, and to one that there is not.
fn only_one_peer(fabric: &Fabric) {
    let said = explain(fabric, 1, &[NETWORK4, "--peer", TORS[1]]).unwrap();
    assert_eq!(said.verdict(), "tor-b was told of 10.244.1.0/24 at T.");
    assert_eq!(said.json["peer"], TORS[1]);
    assert_eq!(said.json["peers"].as_array().unwrap().len(), 1);
    let said = explain(fabric, 1, &["203.0.113.0/24", "--peer", TORS[1]]).unwrap();
    let verdict = "tor-b was not told of 203.0.113.0/24: this node does not originate it.";
    assert_eq!(said.verdict(), verdict);
    let refused = explain(fabric, 1, &[NETWORK4, "--peer", "tor-x"]).unwrap_err().to_string();
    assert!(refused.contains("no peer is called \"tor-x\"; there are: tor-a, tor-b"), "{refused}");
}

fn announce_pods(fabric: &mut Fabric) {
    let web = fabric.add_pod(1, "web", &[]).unwrap();
    fabric.node_config_mut(1).unwrap()["spec"]["bgp"]["announcePods"] = json!(true);
    fabric.configure(1).unwrap();
    let address = web.v6.unwrap().to_string();
    let verdict = format!(
        "{address}/128 is originated here (own address of pod default/web) and told to both peers."
    );
    await_verdict(fabric, &[&address], &verdict).says(
        "Origin",
        "The node's network 2001:db8:0:1::/64 holds it; it is announced beside it because \
         spec.bgp.announcePods is true.",
    );
    fabric.remove_pod(web).unwrap();
}

#[test]
fn anycast_follows_its_pods() {
    let fabric = fabric();
    let mut first = ready_and_told(&fabric);
    let mut second = one_of_two(&fabric, &mut first);
    not_ready(&fabric, &mut second);
    terminating(&fabric, &mut first);
    fabric.remove_pod(first).unwrap();
    fabric.remove_pod(second).unwrap();
    named_and_not_had(&fabric);
}

fn ready_and_told(fabric: &Fabric) -> PodOnNode {
    let first = fabric.add_pod(1, "dns-0", &[("anycast", ANYCAST), ("ready", "true")]).unwrap();
    let via = first.v4.unwrap();
    let verdict =
        "192.0.2.53/32 is originated here (anycast of pod default/dns-0) and told to both peers.";
    let said = await_verdict(fabric, &[ANYCAST], verdict);
    said.says(
        "Origin",
        "Pod default/dns-0 has it by its annotation flock.fritzlab.net/anycast: it is attached and \
         Ready, and serves it (interface flockX).",
    )
    .says("Kernel", &format!("The kernel has the route: 192.0.2.53/32 via {via} dev flockX."));
    let pod = &said.json["origin"]["pods"][0];
    assert_eq!((&pod["serves"], &pod["ready"]), (&json!(true), &json!(true)), "{pod}");
    // Told after the first telling of the session: to the second, and not before it was originated.
    let (since, told) = (&said.json["origin"]["since"], said.peer(TORS[0]));
    assert_eq!(told["toldExactly"], true, "{told}");
    assert!(told["toldAt"].as_str() >= since.as_str(), "{since} {told}");
    first
}

fn one_of_two(fabric: &Fabric, first: &mut PodOnNode) -> PodOnNode {
    let second = fabric.add_pod(1, "dns-1", &[("anycast", ANYCAST)]).unwrap();
    fabric.set_ready(first, false).unwrap();
    let verdict =
        "192.0.2.53/32 is originated here (anycast of pod default/dns-1) and told to both peers.";
    let said = await_verdict(fabric, &[ANYCAST], verdict);
    said.says(
        "Origin",
        "Pod default/dns-0 has it by its annotation flock.fritzlab.net/anycast: it is not Ready, so \
         it does not serve it (interface flockX).",
    );
    let serves: Vec<&Value> =
        said.json["origin"]["pods"].as_array().unwrap().iter().map(|pod| &pod["serves"]).collect();
    assert_eq!(serves, [&json!(false), &json!(true)]);
    second
}

fn not_ready(fabric: &Fabric, second: &mut PodOnNode) {
    fabric.set_ready(second, false).unwrap();
    let verdict = "192.0.2.53/32 is not announced: pod default/dns-0 is not Ready and pod \
                   default/dns-1 is not Ready.";
    let said = await_said(fabric, &[ANYCAST], "withdrawn and heard", |said| {
        said.verdict() == verdict && said.text.contains("were told at T that it is gone")
    });
    said.says("Origin", "It was withdrawn at T: pod default/dns-1 was not Ready.")
        .says("Peers", "tor-a and tor-b were told at T that it is gone.");
    assert_eq!((&said.json["announced"], said.code), (&json!(false), 0));
    assert_eq!(said.json["origin"]["withdrawnBecause"], "pod default/dns-1 was not Ready");
    // Its route lingers, and then it is gone.
    let lingers = said.json["kernel"]["lingersSeconds"].as_u64();
    if lingers.is_some() {
        let goes = "The route goes in N: until then packets that routers still send are delivered.";
        said.says("Kernel", goes);
    }
    await_said(fabric, &[ANYCAST], "no route", |said| said.json["kernel"] == Value::Null)
        .says("Kernel", "The kernel has no route of its own for it.");
    let only = explain(fabric, 1, &[ANYCAST, "--peer", TORS[0]]).unwrap();
    assert!(
        only.verdict().starts_with("tor-a was not told of 192.0.2.53/32: pod default/dns-0 is")
    );
}

fn terminating(fabric: &Fabric, first: &mut PodOnNode) {
    fabric.set_leaving(first).unwrap();
    let verdict = "192.0.2.53/32 is not announced: pod default/dns-0 is being deleted and pod \
                   default/dns-1 is not Ready.";
    let said = await_verdict(fabric, &[ANYCAST], verdict);
    assert_eq!(said.json["origin"]["pods"][0]["terminating"], true);
}

/// A manifest names an address, and no pod has it.
fn named_and_not_had(fabric: &Fabric) {
    let node = fabric.node(1).unwrap();
    let annotations = [("anycast", "192.0.2.77")];
    let manifest = rack::manifests::pod("default", "late", &annotations);
    node.write_pod(&manifest, rack::manifests::Writing::Renamed).unwrap();
    let sentence = "The manifest of pod default/late names it in flock.fritzlab.net/anycast, but that \
                    pod is not attached on this node.";
    let verdict = format!("192.0.2.77 is not announced. {sentence}");
    let said = await_verdict(fabric, &["192.0.2.77"], &verdict);
    assert_eq!(said.code, 0);
    node.remove_pod(&manifest).unwrap();
    // It is attached, and only then is the annotation written.
    let late = fabric.add_pod(1, "late", &[]).unwrap();
    node.write_pod(&manifest, rack::manifests::Writing::Renamed).unwrap();
    let sentence = "The manifest of pod default/late names it in flock.fritzlab.net/anycast, but that \
                    pod was attached without it: annotations are read when a pod is attached, so \
                    start it again.";
    await_verdict(fabric, &["192.0.2.77"], &format!("192.0.2.77 is not announced. {sentence}"));
    fabric.remove_pod(late).unwrap();
}
