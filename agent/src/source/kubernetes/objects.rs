//! What is read of the API server's objects: the few fields that flock acts on, as lenient as can be,
//! because one object that cannot be read would hide all others of its list. Everything else is
//! dropped as soon as it was received.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::ApiResource;
use kube::core::{DynamicObject, Object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kubernetes::crd;
use crate::policy::Labels;
use crate::source::ports::{self, Container};
use crate::source::{self, PodFacts, PodKey};
use crate::{annotations, ipam};

/// kubelet's mark on the copy of a static pod that it shows the API server: the uid by which
/// the runtime knows the pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod, as far as it is read.
pub(super) type Pod = Object<PodSpec, PodStatus>;
/// A node, as far as it is read.
pub(super) type Node = Object<NodeSpec, NodeStatus>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    host_network: bool,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PodStatus {
    phase: String,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Vec<String>,
    #[serde(rename = "podCIDR")]
    pod_cidr: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct NodeStatus {}

/// Where pods are.
pub(super) fn pods() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}

/// Where nodes are.
pub(super) fn nodes() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&())
}

/// The name of a pod, whatever else is known of it.
pub(super) fn key(pod: &Pod) -> Option<PodKey> {
    let name = pod.metadata.name.as_deref()?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    Some(PodKey { namespace: namespace.into(), name: name.into() })
}

/// What flock acts on. A pod in the node's own namespace is none of ours.
pub(super) fn facts(pod: Pod) -> Option<PodFacts> {
    let key = key(&pod)?;
    if pod.spec.host_network {
        return None;
    }
    let metadata = pod.metadata;
    let owners = metadata.owner_references.unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    let labels = metadata.labels.unwrap_or_default();
    let hash = labels.get("pod-template-hash").map(String::as_str);
    let controller = controller.map(|owner| (owner.kind.as_str(), owner.name.as_str()));
    let app = ipam::app_name(controller, hash, &key.name).into();
    let all = metadata.annotations.unwrap_or_default();
    let static_uid = all.get(MIRROR).cloned();
    let ours = |(name, _): &(String, String)| name.starts_with(annotations::PREFIX);
    Some(PodFacts {
        key,
        uid: metadata.uid.unwrap_or_default(),
        static_uid,
        annotations: all.into_iter().filter(ours).collect::<BTreeMap<_, _>>(),
        app,
        ports: ports::named(&pod.spec.containers, &pod.spec.init_containers).into(),
        image: pod
            .spec
            .containers
            .first()
            .and_then(|first| first.image.as_deref())
            .unwrap_or_default()
            .into(),
        ready: pod.status.is_some_and(|status| is_ready(&status)),
        terminating: metadata.deletion_timestamp.is_some(),
        labels: Arc::new(Labels::new(&labels)),
    })
}

/// Ready by its condition, and by nothing else: kubelet has put probes and readiness gates into it.
fn is_ready(status: &PodStatus) -> bool {
    let over = matches!(status.phase.as_str(), "Succeeded" | "Failed");
    let said = status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True");
    said && !over
}

/// The networks that Kubernetes gave a node.
pub(super) fn pod_cidrs(node: &Node) -> Vec<String> {
    match (&node.spec.pod_cidrs, &node.spec.pod_cidr) {
        (several, _) if !several.is_empty() => several.clone(),
        (_, one) if !one.is_empty() => vec![one.clone()],
        _ => Vec::new(),
    }
}

/// A NodeConfig without what nobody reads: who wrote which field, and our own status.
pub(super) fn slim(object: &DynamicObject) -> Value {
    let metadata = &object.metadata;
    let annotations = metadata.annotations.iter().flatten();
    let ours = annotations.filter(|(name, _)| name.starts_with(annotations::PREFIX));
    let ours: BTreeMap<&String, &String> = ours.collect();
    let mut slim = json!({
        "apiVersion": format!("{}/{}", crd::GROUP, crd::VERSION),
        "kind": crd::KIND,
        "metadata": {
            "name": metadata.name,
            "annotations": ours,
            "generation": metadata.generation,
        },
    });
    // Where there is none, the reader says so better.
    if let (Some(spec), Some(slim)) = (object.data.get("spec"), slim.as_object_mut()) {
        slim.insert("spec".to_owned(), spec.clone());
    }
    slim
}

/// What reports about a NodeConfig refer to.
pub(super) fn identity(object: &DynamicObject) -> source::Object {
    source::Object {
        uid: object.metadata.uid.clone().unwrap_or_default(),
        generation: object.metadata.generation.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: Value) -> Option<PodFacts> {
        facts(serde_json::from_value(json).unwrap())
    }

    #[test]
    fn a_pod_is_a_few_facts() {
        let facts = pod(json!({
            "metadata": {
                "name": "web-7d9f-x2x", "namespace": "shop", "uid": "u-1",
                "annotations": {"flock.fritzlab.net/anycast": "192.0.2.1", "other": "x"},
                "labels": {"pod-template-hash": "7d9f", "app": "web"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9f", "uid": "r", "controller": true}],
                "managedFields": [{"manager": "kubelet"}],
            },
            "spec": {
                "containers": [{"image": "web:1", "ports": [{"name": "http", "containerPort": 80}]}, {"image": "side:1"}],
                "nodeName": "a",
            },
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();
        assert_eq!(facts.key.to_string(), "shop/web-7d9f-x2x");
        assert_eq!((&*facts.app, &*facts.image, facts.uid.as_str()), ("web", "web:1", "u-1"));
        assert_eq!(facts.annotations.len(), 1);
        assert!(facts.ready && !facts.terminating);
        assert_eq!(facts.labels.get("app"), Some("web"));
        assert_eq!((&*facts.ports[0].name, facts.ports[0].port), ("http", 80));
    }

    #[test]
    fn readiness_is_a_condition_that_says_so() {
        let ready = |status: Value| {
            let facts = pod(json!({"metadata": {"name": "a"}, "spec": {}, "status": status}));
            facts.unwrap().ready
        };
        let condition = |status: &str| json!([{"type": "Ready", "status": status}]);
        assert!(ready(json!({"phase": "Running", "conditions": condition("True")})));
        for status in [
            json!({"phase": "Pending"}),
            json!({"phase": "Running", "conditions": []}),
            json!({"phase": "Running", "conditions": condition("False")}),
            json!({"phase": "Running", "conditions": condition("Unknown")}),
            json!({"phase": "Succeeded", "conditions": condition("True")}),
            json!({"phase": "Failed", "conditions": condition("True")}),
            json!(null),
        ] {
            assert!(!ready(status.clone()), "{status}");
        }
        let going = json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}});
        assert!(pod(going).unwrap().terminating);
    }

    #[test]
    fn pods_of_the_nodes_own_namespace_are_not_kept() {
        assert!(pod(json!({"metadata": {"name": "a"}, "spec": {"hostNetwork": true}})).is_none());
    }

    #[test]
    fn a_static_pod_is_known_by_the_uid_that_kubelet_gives_it() {
        let facts = pod(json!({
            "metadata": {"name": "a", "uid": "mirror", "annotations": {MIRROR: "static"}}, "spec": {},
        }))
        .unwrap();
        assert!(facts.has_uid("static") && facts.has_uid("mirror") && facts.has_uid(""));
        assert!(!facts.has_uid("another"));
    }

    #[test]
    fn the_networks_of_a_node() {
        let cidrs = |spec: Value| {
            pod_cidrs(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap())
        };
        assert_eq!(cidrs(json!({"podCIDR": "10.0.0.0/24"})), ["10.0.0.0/24"]);
        let both = json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "2001:db8::/64"]});
        assert_eq!(cidrs(both), ["10.0.0.0/24", "2001:db8::/64"]);
        assert!(cidrs(json!({"providerID": "x"})).is_empty());
    }

    #[test]
    fn a_node_config_is_read_without_the_notes_of_others() {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": {
                "name": "node-a", "uid": "u", "generation": 3, "resourceVersion": "77",
                "annotations": {"flock.fritzlab.net/ip-algo": "app", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {"cidr4": ["10.0.0.0/24"]},
            "status": {"peers": []},
        }))
        .unwrap();
        let slim = slim(&object);
        let config = crate::config::parse_object(&slim).unwrap();
        assert_eq!((config.name.as_str(), config.generation), ("node-a", Some(3)));
        assert!(config.ip_algo.is_some() && slim.get("status").is_none());
        assert_eq!(identity(&object), source::Object { uid: "u".into(), generation: 3 });
        let empty: DynamicObject =
            serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert!(
            crate::config::parse_object(&super::slim(&empty))
                .unwrap_err()
                .to_string()
                .contains("spec")
        );
    }
}
