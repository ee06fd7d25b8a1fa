//! Who lives in the rig: pods on two nodes, in three namespaces and one more, and their manifests.
//!
//! Between them they have what policies can tell apart: labels and none, ports of one name with different
//! numbers, addresses by annotation, an anycast address that two share, a namespace without a file.

use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::oracle::{named, text};
use crate::manifests::PREFIX;

/// The two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// The first.
    A,
    /// The second.
    B,
}

impl Home {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// What a list of both has of it.
    pub(super) fn of<T>(self, both: &[T; 2]) -> &T {
        let [a, b] = both;
        match self {
            Self::A => a,
            Self::B => b,
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The address that two pods share, by family.
pub const ANYCAST: [&str; 2] = ["192.0.2.53", "2001:db8:53::53"];
/// The addresses that a pod has by annotation, by family: the first is its own, the other one beside it.
pub const ADDRESSES: [[&str; 2]; 2] =
    [["192.0.2.50", "192.0.2.51"], ["2001:db8:50::50", "2001:db8:50::51"]];
/// Two that are nobody's pod, by family.
pub const OUTSIDE: [[&str; 2]; 2] =
    [["203.0.113.10", "203.0.113.77"], ["2001:db8:f00d::10", "2001:db8:f00d::77"]];

/// One pod.
#[derive(Debug, Clone)]
pub struct Person {
    /// Where it lives.
    pub home: Home,
    /// Its manifest, as its own node has it.
    pub manifest: Value,
}

/// The namespaces that have a file.
pub fn namespaces() -> Vec<Value> {
    vec![
        namespace("front", &[("team", "web"), ("env", "prod")]),
        namespace("back", &[("team", "data"), ("env", "prod"), ("open", "")]),
    ]
}

/// A Namespace with labels.
pub fn namespace(name: &str, labels: &[(&str, &str)]) -> Value {
    let labels = map(labels);
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": name, "labels": labels },
    })
}

/// Everybody. The last two are gates: what is in force shows at them.
pub fn people() -> Vec<Person> {
    use Home::{A, B};
    let own = ADDRESSES.concat().join(", ");
    let shared = ANYCAST.join(",");
    let person = |home, name: &str, labels: &[(&str, &str)], ports: &[Port]| Person {
        home,
        manifest: pod(name, labels, ports),
    };
    vec![
        person(
            A,
            "front/web-1",
            &[("app", "web"), ("tier", "front"), ("version", "v1")],
            &[("http", 80, "TCP"), ("metrics", 9000, "TCP")],
        ),
        person(
            A,
            "back/db-1",
            &[("app", "db"), ("tier", "back")],
            &[("http", 8080, "TCP"), ("names", 5353, "UDP")],
        ),
        person(A, "ops/probe-1", &[("app", "probe")], &[("http", 443, "TCP")])
            .annotated("addresses", &own),
        person(
            A,
            "ops/dns-1",
            &[("app", "dns"), ("zone", "a")],
            &[("names", 53, "UDP"), ("names-tcp", 53, "TCP")],
        )
        .annotated("anycast", &shared),
        person(
            B,
            "front/web-2",
            &[("app", "web"), ("tier", "front"), ("version", "v2")],
            &[("http", 8080, "TCP"), ("metrics", 9000, "UDP")],
        ),
        person(
            B,
            "back/api-1",
            &[("app", "api"), ("tier", "back"), ("version", "v1")],
            &[("http", 80, "TCP"), ("names", 53, "UDP")],
        ),
        person(
            B,
            "ops/dns-2",
            &[("app", "dns"), ("zone", "b")],
            &[("names", 5353, "UDP"), ("names-tcp", 53, "TCP")],
        )
        .annotated("anycast", &shared),
        person(B, "back/plain-1", &[], &[]),
        person(A, "gates/gate-a", &[("gate", "a")], &[]),
        person(B, "gates/gate-b", &[("gate", "b")], &[]),
    ]
}

type Port = (&'static str, u16, &'static str);

/// A pod's manifest; `name` is `NAMESPACE/NAME`.
pub fn pod(name: &str, labels: &[(&str, &str)], ports: &[Port]) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let ports: Vec<_> = ports
        .iter()
        .map(|(name, port, protocol)| {
            json!({ "name": name, "containerPort": port, "protocol": protocol })
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "labels": map(labels) },
        "spec": { "containers": [{ "name": "main", "image": "example.org/main:1", "ports": ports }] },
    })
}

/// A pod that has no network of its own; it is described, and never attached.
pub fn on_host_network(name: &str, labels: &[(&str, &str)]) -> Value {
    let mut manifest = pod(name, labels, &[]);
    put(&mut manifest, "/spec", "hostNetwork", true.into());
    manifest
}

impl Person {
    fn annotated(mut self, key: &str, value: &str) -> Self {
        let annotations = json!({ format!("{PREFIX}{key}"): value });
        put(&mut self.manifest, "/metadata", "annotations", annotations);
        self
    }

    /// `NAMESPACE/NAME`.
    pub fn name(&self) -> String {
        named(&self.manifest)
    }
}

/// Puts an entry into the map at a pointer.
pub fn put(object: &mut Value, pointer: &str, key: &str, value: Value) {
    if let Some(map) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        map.insert(key.to_owned(), value);
    }
}

/// Labels as JSON.
pub fn map(pairs: &[(&str, &str)]) -> Value {
    let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// A manifest as everybody but the pod's own node has it: with where it is and what its addresses are.
pub fn placed(manifest: &Value, node: &str, addresses: &[IpAddr]) -> Value {
    let mut manifest = manifest.clone();
    put(&mut manifest, "/spec", "nodeName", node.into());
    let ips: Vec<_> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
    if let Some(map) = manifest.as_object_mut() {
        map.insert("status".to_owned(), json!({ "phase": "Running", "podIPs": ips }));
    }
    manifest
}

/// A policy from `NAMESPACE/NAME` and its spec in YAML.
pub fn policy(name: &str, spec: &str) -> Result<Value> {
    let (namespace, name) = name.split_once('/').context("a policy is NAMESPACE/NAME")?;
    let spec: Value = serde_saphyr::from_str(spec).with_context(|| format!("{name}: {spec}"))?;
    Ok(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "namespace": namespace, "name": name },
        "spec": spec,
    }))
}

/// The file that an object is in, below its directory.
pub(super) fn file(object: &Value) -> String {
    let name = text(object, "/metadata/name");
    match object.pointer("/metadata/namespace").and_then(Value::as_str) {
        Some(namespace) => format!("{namespace}.{name}.yaml"),
        None => format!("{name}.yaml"),
    }
}
