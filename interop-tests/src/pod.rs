//! A pod as a runtime sees it: a namespace, an id, and the name that Kubernetes
//! gave it.

use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::names;
use crate::netns::Netns;
use crate::plugin::Call;

/// A pod.
#[derive(Debug)]
pub struct Pod {
    /// Its network namespace.
    pub netns: Netns,
    /// Its sandbox's id.
    pub container_id: String,
    /// Its Kubernetes namespace.
    pub namespace: String,
    /// Its Kubernetes name.
    pub name: String,
    /// Its Kubernetes uid; passed on when not empty.
    pub uid: String,
}

impl Pod {
    /// A pod in the namespace `default` with a fresh network namespace.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self::in_netns(name, Netns::new(name)?))
    }

    /// A pod in a network namespace that exists already.
    pub fn in_netns(name: &str, netns: Netns) -> Self {
        Self {
            container_id: names::container_id(&names::unique(name)),
            netns,
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: String::new(),
        }
    }

    /// The call that kubelet's runtime would make for this pod.
    pub fn call(&self, command: &str) -> Call {
        let mut args = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={}",
            self.namespace, self.name, self.container_id
        );
        if !self.uid.is_empty() {
            args.push_str(&format!(";K8S_POD_UID={}", self.uid));
        }
        Call {
            command: command.to_owned(),
            container_id: self.container_id.clone(),
            netns: self.netns.path().to_string_lossy().into_owned(),
            ifname: "eth0".to_owned(),
            args,
            path: String::new(),
        }
    }
}

/// The addresses in a CNI result, in its order.
pub fn addresses(result: &Value) -> Result<Vec<IpAddr>> {
    let ips = result.get("ips").and_then(Value::as_array).context("a result without ips")?;
    let address = |entry: &Value| {
        let text = entry.get("address").and_then(Value::as_str)?;
        text.split_once('/')?.0.parse().ok()
    };
    ips.iter().map(|entry| address(entry).context("an address that is none")).collect()
}
