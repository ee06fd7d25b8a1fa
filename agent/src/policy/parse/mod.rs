//! From the API's shape to a [`Policy`]: decides what is good, with the rules of the API server, and
//! what is meant where nothing is said. An error names the field, its value and what is expected.
//!
//! A manifest is held to more than the API server's objects are: there nobody has looked at it
//! before us, while an object that was accepted long ago, or that says something newer than this
//! agent, has to mean as much as can be read of it, and rather less than more.

mod shape;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use shape::PolicySpec;
use shape::{PeerSpec, PortSpec, SelectorSpec};

use super::labels::{Labels, Requirement, Selector};
use super::model::{Peer, Policy, PolicyKey, PortWish, Rule};
use crate::yaml;

/// The label by which a namespace is selected by its name. The API server sees to it.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Rules, peers, excepts, ports and values of a policy together. People write some dozens.
const MAX_ENTRIES: usize = 10_000;

/// From an object of the API server. What it says that this agent does not know selects nobody.
pub fn from_parts(namespace: &str, name: &str, spec: &PolicySpec) -> Result<Policy, String> {
    let key = PolicyKey { namespace: namespace.into(), name: name.into() };
    Reader { manifest: false, entries: 0 }.policy(key, spec)
}

/// A policy of the API server that cannot be used, as far as it isolates: it allows nothing. What of
/// that cannot be read either is taken for everything.
pub fn closed(namespace: &str, name: &str, spec: Option<&PolicySpec>) -> Policy {
    let mut reader = Reader { manifest: false, entries: 0 };
    let selector = spec.and_then(|spec| spec.pod_selector.as_ref());
    let pods = selector.and_then(|selector| reader.selector(selector, "").ok());
    let (ingress, egress) = spec.and_then(|spec| directions(spec).ok()).unwrap_or((true, true));
    Policy {
        key: PolicyKey { namespace: namespace.into(), name: name.into() },
        pods: pods.unwrap_or_default(),
        ingress: ingress.then(Vec::new),
        egress: egress.then(Vec::new),
    }
}

/// Every policy of a manifest file; several documents are allowed, none is an error (a file that
/// is about to be written looks like that), and so are other kinds.
pub fn from_manifest(text: &str) -> Result<Vec<Policy>, String> {
    documents(text, "policy")?.into_iter().map(manifest_policy).collect()
}

/// Every namespace of a manifest file with its labels, likewise.
pub fn namespaces_from_manifest(text: &str) -> Result<Vec<(String, Labels)>, String> {
    documents(text, "namespace")?.into_iter().map(manifest_namespace).collect()
}

/// The labels of a namespace, with the one that every namespace has.
pub fn namespace_labels(name: &str, mut labels: BTreeMap<String, String>) -> Labels {
    labels.insert(NAMESPACE_NAME.to_owned(), name.to_owned());
    Labels::new(&labels)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Value>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

fn documents(text: &str, what: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, yaml::options())
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().trim().to_owned())?;
    if documents.is_empty() {
        return Err(format!("is empty: it has no {what}; remove the file if none is meant"));
    }
    Ok(documents)
}

/// With the path of what cannot be read.
fn read<T: DeserializeOwned>(value: Value, path: &str) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let inner = error.path().to_string();
        match (path, inner.as_str()) {
            ("", ".") => error.inner().to_string(),
            ("", inner) => format!("{inner}: {}", error.inner()),
            (path, ".") => format!("{path}: {}", error.inner()),
            (path, inner) => format!("{path}.{inner}: {}", error.inner()),
        }
    })
}

fn head(document: Value, version: &str, kind: &str) -> Result<Manifest, String> {
    let manifest: Manifest = read(document, "")?;
    for (field, said, expected) in
        [("apiVersion", &manifest.api_version, version), ("kind", &manifest.kind, kind)]
    {
        if let Some(said) = said.as_deref().filter(|said| *said != expected) {
            return Err(format!("{field} is {said:?}, expected {expected:?}"));
        }
    }
    if manifest.metadata.name.is_empty() {
        return Err("metadata.name is empty".into());
    }
    Ok(manifest)
}

fn manifest_policy(document: Value) -> Result<Policy, String> {
    let manifest = head(document, "networking.k8s.io/v1", "NetworkPolicy")?;
    let namespace = manifest.metadata.namespace.filter(|namespace| !namespace.is_empty());
    let namespace = namespace.unwrap_or_else(|| "default".into());
    let key = PolicyKey { namespace: namespace.into(), name: manifest.metadata.name.into() };
    let named = |error: String| format!("{key}: {error}");
    let written = manifest.spec.ok_or_else(|| named("spec is missing".into()))?;
    let spec: PolicySpec = read(written.clone(), "spec").map_err(named)?;
    let again = serde_json::to_value(&spec).map_err(|error| named(error.to_string()))?;
    if let Some(field) = shape::unread(&written, &again, "spec") {
        return Err(named(format!("{field}: there is no such field; look for a slip of the pen")));
    }
    let mut reader = Reader { manifest: true, entries: 0 };
    reader.policy(key.clone(), &spec).map_err(named)
}

fn manifest_namespace(document: Value) -> Result<(String, Labels), String> {
    let metadata = head(document, "v1", "Namespace")?.metadata;
    let labels = metadata.labels.unwrap_or_default();
    for (key, value) in &labels {
        let path = "metadata.labels";
        values::label_key(key, path)
            .and_then(|()| values::label_value(value, &format!("{path}[{key}]")))
            .map_err(|error| format!("{}: {error}", metadata.name))?;
    }
    let labels = namespace_labels(&metadata.name, labels);
    Ok((metadata.name, labels))
}

/// What a policy has so far, and how strictly it is read.
struct Reader {
    manifest: bool,
    entries: usize,
}

impl Reader {
    fn policy(&mut self, key: PolicyKey, spec: &PolicySpec) -> Result<Policy, String> {
        let pods = match &spec.pod_selector {
            Some(selector) => self.selector(selector, "spec.podSelector")?,
            None if self.manifest => {
                return Err("spec.podSelector is missing; {} selects every pod".into());
            }
            None => Selector::default(),
        };
        let (ingress, egress) = directions(spec)?;
        let mut policy = Policy { key, pods, ingress: None, egress: None };
        // Both are looked at, whether or not they are in force: a slip is a slip.
        let mut rules = Vec::new();
        for (n, rule) in spec.ingress.iter().flatten().enumerate() {
            rules.push(self.rule(
                &rule.from,
                &rule.ports,
                "from",
                &format!("spec.ingress[{n}]"),
            )?);
        }
        policy.ingress = ingress.then_some(rules);
        let mut rules = Vec::new();
        for (n, rule) in spec.egress.iter().flatten().enumerate() {
            rules.push(self.rule(&rule.to, &rule.ports, "to", &format!("spec.egress[{n}]"))?);
        }
        policy.egress = egress.then_some(rules);
        Ok(policy)
    }

    fn count(&mut self, entries: usize) -> Result<(), String> {
        self.entries = self.entries.saturating_add(entries);
        if self.entries > MAX_ENTRIES {
            return Err(format!(
                "spec has more than {MAX_ENTRIES} rules, peers, ports and values; split the policy"
            ));
        }
        Ok(())
    }

    fn rule(
        &mut self,
        peers: &Option<Vec<PeerSpec>>,
        ports: &Option<Vec<PortSpec>>,
        side: &str,
        path: &str,
    ) -> Result<Rule, String> {
        let peers = peers.as_deref().filter(|peers| !peers.is_empty());
        let ports = ports.as_deref().filter(|ports| !ports.is_empty());
        let (who, what) = (peers.map_or(1, <[_]>::len), ports.map_or(1, <[_]>::len));
        self.count(who.saturating_add(what))?;
        let peer = |(n, peer): (usize, &PeerSpec)| self.peer(peer, &format!("{path}.{side}[{n}]"));
        let peers = peers.map(|peers| peers.iter().enumerate().map(peer).collect()).transpose()?;
        let port = |(n, port): (usize, &PortSpec)| -> Result<PortWish, String> {
            values::port(port, &format!("{path}.ports[{n}]"))
        };
        let ports = ports.map(|ports| ports.iter().enumerate().map(port).collect()).transpose()?;
        Ok(Rule { peers, ports })
    }

    fn peer(&mut self, peer: &PeerSpec, path: &str) -> Result<Peer, String> {
        let selects = peer.pod_selector.is_some() || peer.namespace_selector.is_some();
        if let Some(block) = &peer.ip_block {
            if selects {
                return Err(format!(
                    "{path}: has ipBlock and a selector; a peer is one or the other"
                ));
            }
            self.count(block.except.as_ref().map_or(0, Vec::len))?;
            return values::block(block, &format!("{path}.ipBlock"));
        }
        if !selects {
            return match self.manifest {
                true => Err(format!(
                    "{path}: must specify a peer: podSelector, namespaceSelector or ipBlock"
                )),
                false => Ok(Peer::Nobody),
            };
        }
        let mut part = |selector: &Option<SelectorSpec>, name: &str| {
            let path = format!("{path}.{name}");
            selector.as_ref().map(|selector| self.selector(selector, &path)).transpose()
        };
        let namespaces = part(&peer.namespace_selector, "namespaceSelector")?;
        let pods = part(&peer.pod_selector, "podSelector")?.unwrap_or_default();
        Ok(Peer::Pods { namespaces, pods })
    }

    fn selector(&mut self, selector: &SelectorSpec, path: &str) -> Result<Selector, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            self.count(1)?;
            let path = format!("{path}.matchLabels");
            if self.manifest {
                values::label_key(key, &path)?;
                values::label_value(value, &format!("{path}[{key}]"))?;
            }
            requirements.push(Requirement::In(key.as_str().into(), vec![value.as_str().into()]));
        }
        for (n, requirement) in selector.match_expressions.iter().flatten().enumerate() {
            self.count(1 + requirement.values.as_ref().map_or(0, Vec::len))?;
            let path = format!("{path}.matchExpressions[{n}]");
            requirements.push(values::requirement(requirement, &path, self.manifest)?);
        }
        Ok(Selector { requirements })
    }
}

/// Whether it speaks of what pods are sent, and of what they send.
fn directions(spec: &PolicySpec) -> Result<(bool, bool), String> {
    let types = spec.policy_types.as_deref().unwrap_or_default();
    for (n, kind) in types.iter().enumerate() {
        if !matches!(kind.as_str(), "Ingress" | "Egress") {
            return Err(format!("spec.policyTypes[{n}]: {kind:?} is neither Ingress nor Egress"));
        }
    }
    if types.is_empty() {
        return Ok((true, spec.egress.as_ref().is_some_and(|rules| !rules.is_empty())));
    }
    let has = |wanted: &str| types.iter().any(|kind| kind == wanted);
    Ok((has("Ingress"), has("Egress")))
}
