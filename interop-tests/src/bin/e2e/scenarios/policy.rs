//! NetworkPolicies in a real cluster: applied, changed and deleted by kubectl, with pods on both nodes. What
//! becomes of packets is held against the oracle, which reads the same objects from the API server. Pods
//! that nobody may speak to stay Ready all the while: their kubelets may.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use rack::cluster::door::Door;
use rack::cluster::kubectl::Kubectl;
use rack::cluster::{Cluster, SLOW, plan};
use rack::policy::oracle::{self, End, Protocol, Who, World};
use rack::policy::round::{Due, Outcome, Shot, fire};
use rack::policy::station::Station;
use rack::wait::until;
use serde_json::{Value, json};

use crate::objects::Workload;
use crate::stage::{Pod, Stage, condition, items, text};

/// The namespaces, each with a label of the same name.
const FRONT: &str = "policy-front";
const BACK: &str = "policy-back";

/// Name, namespace, node and label `app` of every pod, and what it calls `http`.
const PODS: [(&str, &str, u8, &str, u16); 5] = [
    ("client-1", FRONT, 1, "client", 80),
    ("client-2", FRONT, 2, "client", 80),
    ("web-1", BACK, 1, "web", 8081),
    ("web-2", BACK, 2, "web", 8082),
    ("dns-2", BACK, 2, "dns", 80),
];

/// What is sent from everybody to every pod and to the ToR.
const SENT: [(Protocol, u16); 5] = [
    (Protocol::Tcp, 8081),
    (Protocol::Tcp, 8082),
    (Protocol::Udp, 53),
    (Protocol::Sctp, 8081),
    (Protocol::Icmp, 0),
];

/// Where pods and the ToR answer, and where nodes do: nothing of theirs is there.
const PORTS: [u16; 3] = [53, 8081, 8082];
const NODE_PORT: u16 = 7001;

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    let outcome = populate(cluster.kubectl()).and_then(|pods| shapes(cluster, &pods));
    // Gone in any case: the scenarios after this one know nothing of them.
    let kubectl = cluster.kubectl();
    let removed = kubectl.run(&["delete", "namespace", FRONT, BACK, "--ignore-not-found"]);
    outcome.and(removed.map(drop))
}

/// Makes namespaces and pods, and awaits that all are Ready.
fn populate(kubectl: &Kubectl) -> Result<Vec<(Pod, String)>> {
    for namespace in [FRONT, BACK] {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": namespace, "labels": { "space": namespace } },
        });
        kubectl.apply(&object.to_string())?;
    }
    for (name, namespace, node, app, http) in PODS {
        let node = plan::node_name(node);
        let mut template = Workload::new(app, 1).on(&node).template();
        let ports = json!([{ "name": "http", "containerPort": http }]);
        if let Some(container) =
            template.pointer_mut("/spec/containers/0").and_then(Value::as_object_mut)
        {
            container.insert("ports".to_owned(), ports);
        }
        let metadata = json!({ "name": name, "namespace": namespace, "labels": { "app": app } });
        let spec = template.pointer("/spec").context("a template without a spec")?;
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
        // A namespace that is new has no service account for its pods at first.
        until(&format!("{name} to be taken"), SLOW, || kubectl.apply(&pod.to_string()).map(drop))?;
    }
    PODS.iter().map(|(name, namespace, ..)| ready(kubectl, namespace, name)).collect()
}

/// Awaits that a pod is Ready; returns it with since when.
fn ready(kubectl: &Kubectl, namespace: &str, name: &str) -> Result<(Pod, String)> {
    until(&format!("{name} to be Ready"), SLOW, || {
        let object = kubectl.json(&["-n", namespace, "get", "pod", name])?;
        let pod = Pod::read(&object)?;
        ensure!(pod.ready, "{}", object.pointer("/status").unwrap_or(&Value::Null));
        Ok((pod, since(&object)))
    })
}

/// Since when a pod is Ready, and how often its container was started anew.
fn since(object: &Value) -> String {
    let restarts = object.pointer("/status/containerStatuses/0/restartCount");
    let ready = condition(object, "Ready").map(|one| text(one, "/lastTransitionTime").to_owned());
    format!("{ready:?}, restarted {restarts:?}")
}

/// Everybody whom packets come from or go to.
struct Place {
    station: Station,
    spots: Vec<End>,
    // A door is closed after the station behind it.
    _door: Option<Door>,
}

fn shapes(cluster: &Cluster, pods: &[(Pod, String)]) -> Result<()> {
    let places = places(cluster, pods)?;
    let kubectl = cluster.kubectl();
    let agree = |what: &str| agree(kubectl, &places, what);
    let apply = |name: &str, spec: Value| apply(kubectl, name, &spec);
    agree("no policy")?;
    apply("default-deny", json!({ "podSelector": {}, "policyTypes": ["Ingress"] }))?;
    agree("default deny of ingress")?;
    let web = json!({ "matchLabels": { "app": "web" } });
    let from = json!([
        { "podSelector": web },
        { "namespaceSelector": { "matchLabels": { "space": FRONT } }, "podSelector": { "matchLabels": { "app": "client" } } },
    ]);
    apply("by-selectors", json!({ "podSelector": web, "ingress": [{ "from": from }] }))?;
    agree("pods of the namespace, and some of another one, across nodes")?;
    for (label, what) in [("other", "a pod that loses its label"), ("client", "and has it again")] {
        let words = ["-n", FRONT, "label", "pod", "client-2", "--overwrite"];
        let label = format!("app={label}");
        kubectl.run(&words.into_iter().chain([label.as_str()]).collect::<Vec<_>>())?;
        agree(what)?;
    }
    let named = json!([{ "from": from, "ports": [{ "port": "http" }] }]);
    apply("by-selectors", json!({ "podSelector": {}, "ingress": named }))?;
    agree("ports by name, a number for each pod")?;
    apply("by-selectors", json!({ "podSelector": {}, "ingress": [{ "from": blocks() }] }))?;
    agree("blocks with exceptions")?;
    let names = json!([{
        "to": [{ "namespaceSelector": { "matchLabels": { "space": BACK } }, "podSelector": { "matchLabels": { "app": "dns" } } }],
        "ports": [{ "protocol": "UDP", "port": 53 }],
    }]);
    apply("by-selectors", json!({ "podSelector": {}, "ingress": [{}] }))?;
    let egress = json!({ "podSelector": {}, "policyTypes": ["Egress"], "egress": names });
    kubectl.apply(&object(FRONT, "only-names", &egress).to_string())?;
    agree("egress to a name server alone")?;
    kubectl.run(&["-n", FRONT, "delete", "networkpolicy", "only-names"])?;
    kubectl.run(&["-n", BACK, "delete", "networkpolicy", "by-selectors"])?;
    agree("and denied again, but for egress")?;
    for ((_, since_then), (name, namespace, ..)) in pods.iter().zip(PODS) {
        let (_, now) = ready(kubectl, namespace, name)?;
        ensure!(now == *since_then, "{name} was Ready since {since_then}, and is since {now}");
    }
    println!("     kubelet reached every pod all the while");
    kubectl.run(&["-n", BACK, "delete", "networkpolicy", "default-deny"])?;
    agree("everything open with the last policy gone")
}

/// The ToR's addresses, without the one on the wire of the second node.
fn blocks() -> Value {
    let address = |ipv6| plan::node_wire(2).near(ipv6);
    json!([
        { "ipBlock": { "cidr": "10.100.0.0/16", "except": [format!("{}/32", address(false))] } },
        { "ipBlock": { "cidr": "2001:db8:100::/48", "except": [format!("{}/128", address(true))] } },
    ])
}

fn apply(kubectl: &Kubectl, name: &str, spec: &Value) -> Result<()> {
    kubectl.apply(&object(BACK, name, spec).to_string()).map(drop)
}

fn object(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": name, "namespace": namespace }, "spec": spec,
    })
}

/// Stations in the pods, on the nodes and at the ToR; the pods come first.
fn places(cluster: &Cluster, pods: &[(Pod, String)]) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for ((pod, _), (name, namespace, ..)) in pods.iter().zip(PODS) {
        let who = Who::Pod(format!("{namespace}/{name}"));
        let spots = ends(&who, [pod.address(false)?, pod.address(true)?]);
        let door = pod.door(cluster)?;
        let station = Station::start(name, door.netns(), &addresses(&spots), &PORTS)?;
        places.push(Place { station, spots, _door: Some(door) });
    }
    let tor = cluster.nodes().iter().map(|node| [false, true].map(|ipv6| node.wire().near(ipv6)));
    let spots: Vec<_> = tor.flat_map(|both| ends(&Who::Outside, both)).collect();
    let station = Station::start("tor", cluster.tor().netns(), &addresses(&spots), &PORTS)?;
    places.push(Place { station, spots, _door: None });
    for node in cluster.nodes() {
        let who = Who::Node(node.name().to_owned());
        let spots = ends(&who, [false, true].map(|ipv6| node.wire().far(ipv6)));
        let station = Station::start(node.name(), node.netns()?, &[], &[NODE_PORT])?;
        places.push(Place { station, spots, _door: None });
    }
    Ok(places)
}

fn ends(who: &Who, both: [IpAddr; 2]) -> Vec<End> {
    both.into_iter().map(|address| End { who: who.clone(), address }).collect()
}

fn addresses(ends: &[End]) -> Vec<IpAddr> {
    ends.iter().map(|end| end.address).collect()
}

/// Awaits that what becomes of packets is what the oracle says of the objects that the API server has.
fn agree(kubectl: &Kubectl, places: &[Place], what: &str) -> Result<()> {
    let world = world(kubectl)?;
    let (mut shots, mut cases) = (controls(places), Vec::new());
    let controls = shots.len();
    let answering = || places.iter().filter(|place| !matches!(who(place), Some(Who::Node(_))));
    for from in places {
        for to in answering().filter(|to| is_pod(from) || is_pod(to)) {
            for (source, target) in pairs(from, to) {
                for (protocol, port) in SENT {
                    let verdict = oracle::allowed(&world, source, target, protocol, port);
                    let due = if verdict.allowed { Due::Answer } else { Due::Silence };
                    shots.push(shot(from, source, target, (protocol, port), due));
                    cases.push((verdict, to.station.name()));
                }
            }
        }
    }
    until(what, SLOW, || {
        let outcomes = fire(&shots)?.split_off(controls);
        let sent = shots.iter().skip(controls).zip(&cases).zip(&outcomes);
        let wrong = sent.filter_map(|((shot, (verdict, name)), outcome)| {
            let right = match outcome {
                Outcome::Answered(by) => verdict.allowed && (by.is_empty() || by == name),
                Outcome::Silent => !verdict.allowed,
                Outcome::Refused(_) => false,
            };
            (!right).then(|| format!("{shot}: {outcome:?}, but the oracle says it is {verdict}"))
        });
        let wrong: Vec<_> = wrong.collect();
        let told = wrong.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
        ensure!(wrong.is_empty(), "{} of {} cases\n{told}", wrong.len(), cases.len());
        Ok(())
    })?;
    let allowed = cases.iter().filter(|(verdict, _)| verdict.allowed).count();
    println!("     {what}: {allowed} of {} cases are allowed, the others are not", cases.len());
    Ok(())
}

/// Addresses of one family of two places; the first of each, and all of the ToR.
fn pairs<'a>(from: &'a Place, to: &'a Place) -> Vec<(&'a End, &'a End)> {
    let all = from.spots.iter().flat_map(|one| to.spots.iter().map(move |other| (one, other)));
    all.filter(|(one, other)| one.address.is_ipv6() == other.address.is_ipv6()).collect()
}

fn who(place: &Place) -> Option<&Who> {
    place.spots.first().map(|end| &end.who)
}

fn is_pod(place: &Place) -> bool {
    matches!(who(place), Some(Who::Pod(_)))
}

/// What no policy may deny: every pod with the node that it is on, and the ToR with both nodes.
fn controls(places: &[Place]) -> Vec<Shot<'_>> {
    let mut shots = Vec::new();
    let nodes = || places.iter().filter(|place| matches!(who(place), Some(Who::Node(_))));
    for (number, node) in nodes().enumerate() {
        let here = |place: &&Place| match who(place) {
            Some(Who::Pod(_)) => {
                let home = PODS.iter().find(|(name, ..)| *name == place.station.name());
                home.is_some_and(|(_, _, node, ..)| usize::from(*node) == number + 1)
            }
            Some(Who::Outside) => true,
            _ => false,
        };
        for place in places.iter().filter(here) {
            for (source, target) in pairs(place, node) {
                let sent = (Protocol::Tcp, NODE_PORT);
                shots.push(shot(place, source, target, sent, Due::Surely));
            }
        }
    }
    shots
}

fn shot<'a>(
    from: &'a Place,
    source: &End,
    target: &End,
    (protocol, port): (Protocol, u16),
    due: Due,
) -> Shot<'a> {
    let (source, target) = (source.address, target.address);
    Shot { station: &from.station, source, target, protocol, port, due }
}

/// What the API server has.
fn world(kubectl: &Kubectl) -> Result<World> {
    let all = |kind: &str| -> Result<Vec<Value>> {
        Ok(items(&kubectl.json(&["get", kind, "--all-namespaces"])?).to_vec())
    };
    Ok(World {
        policies: all("networkpolicies")?,
        namespaces: all("namespaces")?,
        pods: all("pods")?,
    })
}
