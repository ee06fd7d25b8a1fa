//! What is read of NetworkPolicies, namespaces and the pods of all nodes. There may be ten thousand
//! pods, so each becomes what is kept of it as soon as it was read, and the rest is dropped with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::ApiResource;
use serde::Deserialize;
use serde_json::Value;

use super::super::watch::Followed;
use crate::annotations;
use crate::policy::parse::namespace_labels;
use crate::policy::{Labels, PolicyKey};
use crate::source::peer::{self, PodAddress};
use crate::source::ports::{self, Container};
use crate::source::{PeerPod, PodKey};

/// Where policies are.
pub(super) fn policies() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::networking::v1::NetworkPolicy>(&())
}

/// Where namespaces are.
pub(super) fn namespaces() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Namespace>(&())
}

/// A NetworkPolicy; what of it is good is decided one by one, because one that cannot be read would
/// hide all others of its list.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Received")]
pub(in super::super) struct PolicyObject {
    version: Option<String>,
    pub(super) key: PolicyKey,
    pub(super) spec: Value,
}

/// A namespace.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Received")]
pub(in super::super) struct NamespaceObject {
    version: Option<String>,
    pub(super) name: String,
    pub(super) labels: Labels,
}

/// A pod of any node; `None`: nobody to selectors, or not yet.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "ReceivedPod")]
pub(in super::super) struct PeerObject {
    version: Option<String>,
    pub(super) key: PodKey,
    pub(super) peer: Option<PeerPod>,
}

impl Followed for PolicyObject {
    fn version(&self) -> Option<String> {
        self.version.clone()
    }
}

impl Followed for NamespaceObject {
    fn version(&self) -> Option<String> {
        self.version.clone()
    }
}

impl Followed for PeerObject {
    fn version(&self) -> Option<String> {
        self.version.clone()
    }
}

#[derive(Deserialize)]
struct Received {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Metadata {
    name: String,
    namespace: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct ReceivedPod {
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    host_network: bool,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodAddress>,
}

impl Metadata {
    fn namespace(&mut self) -> String {
        self.namespace.take().unwrap_or_else(|| "default".to_owned())
    }
}

impl From<Received> for PolicyObject {
    fn from(mut received: Received) -> Self {
        let namespace = received.metadata.namespace();
        let Metadata { name, resource_version, .. } = received.metadata;
        let key = PolicyKey { namespace: namespace.into(), name: name.into() };
        Self { version: resource_version, key, spec: received.spec }
    }
}

impl From<Received> for NamespaceObject {
    fn from(received: Received) -> Self {
        let Metadata { name, resource_version, labels, .. } = received.metadata;
        let labels = namespace_labels(&name, labels.unwrap_or_default());
        Self { version: resource_version, name, labels }
    }
}

impl From<ReceivedPod> for PeerObject {
    fn from(mut received: ReceivedPod) -> Self {
        let namespace = received.metadata.namespace();
        let ReceivedPod { metadata, spec, status } = received;
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.retain(|name, _| name.starts_with(annotations::PREFIX));
        let ports = ports::named(&spec.containers, &spec.init_containers);
        let described = peer::Described {
            labels: &Arc::new(Labels::new(&metadata.labels.unwrap_or_default())),
            ports: &ports.into(),
            annotations: &annotations,
            phase: &status.phase,
            addresses: peer::addresses(&status.pod_ips, &status.pod_ip),
        };
        Self {
            version: metadata.resource_version,
            peer: if spec.host_network { None } else { described.peer() },
            key: PodKey { namespace: namespace.into(), name: metadata.name.into() },
        }
    }
}
