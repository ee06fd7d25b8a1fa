//! The files that steer an agent in standalone mode: its NodeConfig and pod
//! manifests. JSON is YAML too, so they are built as values.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The annotation prefix of flock.
pub const PREFIX: &str = "flock.fritzlab.net/";

/// How a file gets its new content; an editor may do either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// Written beside and renamed into place.
    Renamed,
    /// Truncated and written where it is.
    InPlace,
}

/// Writes a file in one of the ways that a user might.
pub fn write(path: &Path, text: &str, writing: Writing) -> Result<()> {
    let dir = path.parent().context("a file without a directory")?;
    fs::create_dir_all(dir)?;
    match writing {
        Writing::InPlace => fs::write(path, text)?,
        Writing::Renamed => {
            let mut aside = tempfile::NamedTempFile::new_in(dir)?;
            std::io::Write::write_all(&mut aside, text.as_bytes())?;
            aside.persist(path)?;
        }
    }
    Ok(())
}

/// A NodeConfig with these prefixes and no peers; a test changes what it needs.
pub fn node_config(node: &str, cidr6: &[&str], cidr4: &[&str]) -> Value {
    json!({
        "apiVersion": "flock.fritzlab.net/v1alpha1",
        "kind": "NodeConfig",
        "metadata": { "name": node },
        "spec": {
            "cidr6": cidr6,
            "cidr4": cidr4,
            "bgp": { "asn": 65001, "listenPort": 0, "peers": [] },
        },
    })
}

/// The same as a person writes it, and with `spec.bgp` where there are peers: name, address and AS
/// number of each. They are asked for their default routes.
pub fn written(node: &str, cidr6: &str, cidr4: &str, peers: &[(String, IpAddr, u32)]) -> String {
    let mut text = format!(
        "apiVersion: flock.fritzlab.net/v1alpha1\n\
         kind: NodeConfig\n\
         metadata: {{ name: {node} }}\n\
         spec:\n  \
           cidr6: [\"{cidr6}\"]\n  \
           cidr4: [\"{cidr4}\"]\n"
    );
    if !peers.is_empty() {
        text.push_str("  bgp:\n    asn: 65001\n    peers:\n");
    }
    for (name, address, asn) in peers {
        text.push_str(&format!(
            "    - name: {name}\n      \
               address: {address}\n      \
               asn: {asn}\n      \
               import: {{ accept: [\"::/0\", \"0.0.0.0/0\"] }}\n"
        ));
    }
    text
}

/// A pod manifest; annotation keys are given without their prefix.
pub fn pod(namespace: &str, name: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<_, _> = annotations
        .iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), Value::from(*value)))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "annotations": annotations },
        "spec": { "containers": [{ "name": "main", "image": "example.org/main:1" }] },
    })
}
