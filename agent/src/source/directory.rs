//! The standalone directory as last read: `nodeconfig.yaml`, and what the manifests in `pods/`,
//! `networkpolicies/` and `namespaces/` mean together, as a `World` and a `Cluster`. How a folder is
//! followed is `folder`'s.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cluster::set;
use super::files::Texts;
use super::folder::{Described, Folder};
use super::manifest;
use super::shared::Pool;
use super::{Cluster, NodeState, PeerPod, PodFacts, PodKey, Pods, Secrets, Shards, World};
use crate::config::{NodeConfig, validate};
use crate::notify::{Arrival, Touched};
use crate::policy::{Labels, Policy, PolicyKey, parse};

/// The NodeConfig's file.
pub(super) const NODE_CONFIG: &str = "nodeconfig.yaml";
/// The folder of the pod manifests.
pub(super) const PODS: &str = "pods";
/// That of the NetworkPolicies.
const POLICIES: &str = "networkpolicies";
/// That of the namespaces, for their labels.
const NAMESPACES: &str = "namespaces";
/// All folders.
pub(super) const FOLDERS: &[&str] = &[PODS, POLICIES, NAMESPACES];

/// A pod of this node, or of another one, by its manifest.
#[derive(Clone)]
struct Pod {
    facts: Arc<PodFacts>,
    peer: Option<Arc<PeerPod>>,
}

impl Described for Pod {
    type Key = PodKey;
    const KIND: &'static str = "pod";
    fn key(&self) -> &PodKey {
        &self.facts.key
    }
}

impl Described for Arc<Policy> {
    type Key = PolicyKey;
    const KIND: &'static str = "NetworkPolicy";
    fn key(&self) -> &PolicyKey {
        &self.key
    }
}

/// A namespace by its manifest.
#[derive(Clone)]
struct Namespace {
    name: String,
    labels: Arc<Labels>,
}

impl Described for Namespace {
    type Key = String;
    const KIND: &'static str = "namespace";
    fn key(&self) -> &String {
        &self.name
    }
}

pub(super) struct Directory {
    root: PathBuf,
    node: NodeState,
    pod_files: Folder<Pod>,
    policy_files: Folder<Arc<Policy>>,
    namespace_files: Folder<Namespace>,
    pool: Pool,
    pods: Pods,
    peers: Shards<PodKey, Arc<PeerPod>>,
    /// What policies need of pods while there are none, made once: it is part of every picture.
    nobody: Shards<PodKey, Arc<PeerPod>>,
    policies: Shards<PolicyKey, Arc<Policy>>,
    namespaces: Arc<BTreeMap<String, Arc<Labels>>>,
}

impl Directory {
    pub(super) fn read(root: &Path) -> Self {
        let reason = not_there(&root.join(NODE_CONFIG));
        let mut directory = Self {
            root: root.to_owned(),
            node: NodeState::Unknown { reason },
            pod_files: Folder::new(PODS),
            policy_files: Folder::new(POLICIES),
            namespace_files: Folder::new(NAMESPACES),
            pool: Pool::default(),
            pods: Pods::default(),
            peers: Shards::default(),
            nobody: Shards::default(),
            policies: Shards::default(),
            namespaces: Arc::default(),
        };
        directory.look(&Touched { everything: true, ..Touched::default() });
        directory
    }

    /// Looks again at what may have changed, if that is done without waiting for the disk. Returns
    /// whether it was.
    pub(super) fn look_at_once(&mut self, touched: &Touched) -> bool {
        let Some(mut texts) = Texts::at_once(&self.root, touched) else { return false };
        self.look_with(touched, &mut texts);
        true
    }

    /// Looks again at what may have changed.
    pub(super) fn look(&mut self, touched: &Touched) {
        let root = self.root.clone();
        self.look_with(touched, &mut Texts::Disk(&root));
    }

    fn look_with(&mut self, touched: &Touched, texts: &mut Texts<'_>) {
        let arrival = match touched.files.get(Path::new(NODE_CONFIG)) {
            _ if touched.everything => Some(Arrival::Settled),
            touched => touched.copied(),
        };
        if let Some(arrival) = arrival {
            self.look_at_node_config(arrival, texts);
        }
        let Self { root, pool, .. } = self;
        for (key, pod) in self.pod_files.look(root, touched, texts, |text| pods(text, pool)) {
            self.peers.set(&key, pod.as_ref().and_then(|pod| pod.peer.clone()));
            self.pods.set(&key, pod.map(|pod| pod.facts));
        }
        for (key, policy) in self.policy_files.look(root, touched, texts, policies) {
            self.policies.set(&key, policy);
        }
        for (key, namespace) in self.namespace_files.look(root, touched, texts, namespaces) {
            set(&mut self.namespaces, &key, namespace.map(|namespace| namespace.labels));
        }
    }

    fn look_at_node_config(&mut self, arrival: Arrival, texts: &mut Texts<'_>) {
        let path = self.root.join(NODE_CONFIG);
        let Some(read) = texts.of(Path::new(NODE_CONFIG), arrival) else { return };
        let found = read.and_then(|text| text.map(|text| node_config(&text)).transpose());
        self.node.take(found, &path.display().to_string(), || not_there(&path));
    }

    /// The picture as of the last looks. Problems are those of all folders: people write them all, and
    /// look in one place for what is wrong.
    pub(super) fn world(&self) -> World {
        let mut problems = self.pod_files.problems();
        problems.extend(self.policy_problems());
        World {
            node: self.node.clone(),
            pods: self.pods.clone(),
            problems: Arc::new(problems),
            secrets: Secrets::default(),
            object: None,
            away: None,
        }
    }

    /// What NetworkPolicies need, as of the last looks.
    pub(super) fn cluster(&self) -> Cluster {
        let wanted = !self.policies.is_empty();
        Cluster {
            policies: self.policies.clone(),
            namespaces: self.namespaces.clone(),
            peers: if wanted { &self.peers } else { &self.nobody }.clone(),
            complete: true,
            problems: Arc::new(self.policy_problems()),
        }
    }

    fn policy_problems(&self) -> BTreeMap<String, String> {
        let mut problems = self.policy_files.problems();
        problems.extend(self.namespace_files.problems());
        problems
    }
}

fn pods(text: &str, pool: &mut Pool) -> Result<Vec<Pod>, String> {
    let shared = |(facts, peer): (PodFacts, Option<PeerPod>)| Pod {
        facts: pool.facts(facts),
        peer: peer.map(|peer| pool.peer(peer)),
    };
    Ok(manifest::described(text)?.into_iter().map(shared).collect())
}

fn policies(text: &str) -> Result<Vec<Arc<Policy>>, String> {
    Ok(parse::from_manifest(text)?.into_iter().map(Arc::new).collect())
}

fn namespaces(text: &str) -> Result<Vec<Namespace>, String> {
    let named = |(name, labels)| Namespace { name, labels: Arc::new(labels) };
    Ok(parse::namespaces_from_manifest(text)?.into_iter().map(named).collect())
}

fn not_there(path: &Path) -> String {
    format!("{} is not there yet", path.display())
}

fn node_config(text: &str) -> Result<NodeConfig, String> {
    if text.trim().is_empty() {
        return Err("is empty".into());
    }
    validate::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
