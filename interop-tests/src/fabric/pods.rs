//! Pods on the nodes of a fabric: attached by the real plugin, with a manifest
//! where there is something to say about them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Result;
use serde_json::{Value, json};

use super::Fabric;
use crate::manifests::{self, Writing};
use crate::pod::{Pod, addresses};

/// The annotation that says whether a pod is Ready.
const READY: &str = "ready";

/// A pod that was attached. Dropping it deletes its namespace, and the kernel the
/// interface with it; the node learns of it by [`Fabric::remove_pod`].
#[derive(Debug)]
pub struct PodOnNode {
    /// Its namespace and its names.
    pub pod: Pod,
    /// The number of its node.
    pub node: usize,
    /// Its IPv6 address, unless an annotation switched the family off.
    pub v6: Option<Ipv6Addr>,
    /// Its IPv4 address, likewise.
    pub v4: Option<Ipv4Addr>,
    annotations: Vec<(String, String)>,
    /// Whether the node has a manifest of it.
    declared: bool,
    /// Whether it is being deleted.
    leaving: bool,
}

impl PodOnNode {
    /// Its addresses, IPv6 first.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let (six, four) = (self.v6.map(IpAddr::from), self.v4.map(IpAddr::from));
        [six, four].into_iter().flatten().collect()
    }

    fn manifest(&self) -> Value {
        let pairs: Vec<_> =
            self.annotations.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut manifest = manifests::pod(&self.pod.namespace, &self.pod.name, &pairs);
        if let (true, Some(metadata)) = (self.leaving, manifest.pointer_mut("/metadata")) {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        manifest
    }
}

impl Fabric {
    /// Attaches a pod; annotation keys are given without their prefix. Without any
    /// there is no manifest, and the pod counts as Ready.
    pub fn add_pod(
        &self,
        node: usize,
        name: &str,
        annotations: &[(&str, &str)],
    ) -> Result<PodOnNode> {
        let annotations: Vec<_> = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let declared = !annotations.is_empty();
        let pod = Pod::new(name)?;
        let mut pod =
            PodOnNode { pod, node, v6: None, v4: None, annotations, declared, leaving: false };
        let host = self.node(node)?;
        if declared {
            host.write_pod(&pod.manifest(), Writing::Renamed)?;
        }
        let answer = host.plugin()?.add(&pod.pod);
        if answer.is_err() && declared {
            host.remove_pod(&pod.manifest())?;
        }
        for address in addresses(&answer?)? {
            // The first of a family is its own; more may have been asked for.
            match address {
                IpAddr::V6(address) => pod.v6 = pod.v6.or(Some(address)),
                IpAddr::V4(address) => pod.v4 = pod.v4.or(Some(address)),
            }
        }
        Ok(pod)
    }

    /// Says that a pod is Ready, or that it is not.
    pub fn set_ready(&self, pod: &mut PodOnNode, ready: bool) -> Result<()> {
        pod.annotations.retain(|(key, _)| key != READY);
        pod.annotations.push((READY.to_owned(), ready.to_string()));
        pod.declared = true;
        self.node(pod.node)?.write_pod(&pod.manifest(), Writing::Renamed)
    }

    /// Says that a pod is being deleted, as Kubernetes does before its runtime is told.
    pub fn set_leaving(&self, pod: &mut PodOnNode) -> Result<()> {
        (pod.leaving, pod.declared) = (true, true);
        self.node(pod.node)?.write_pod(&pod.manifest(), Writing::Renamed)
    }

    /// Detaches a pod and removes its manifest, as when it is deleted.
    pub fn remove_pod(&self, pod: PodOnNode) -> Result<()> {
        let host = self.node(pod.node)?;
        host.plugin()?.del(&pod.pod)?;
        if pod.declared {
            host.remove_pod(&pod.manifest())?;
        }
        Ok(())
    }
}
