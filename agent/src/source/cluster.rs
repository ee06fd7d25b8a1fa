//! What NetworkPolicies need to know of the whole cluster: the policies, the labels of namespaces,
//! and of every pod its labels, addresses and named ports. Beside the `World`, because it changes
//! with every pod of every node, and only policies care.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::PodKey;
use super::shards::Shards;
use crate::policy::{Labels, NamedPort, Policy, PolicyKey};

/// A pod anywhere in the cluster, as far as selectors need it. One in its node's own namespace
/// (hostNetwork), one that is over (Succeeded, Failed), and one without an address is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerPod {
    /// Its labels; pods that have the same share them.
    pub labels: Arc<Labels>,
    /// Its named ports; likewise shared.
    pub ports: Arc<[NamedPort]>,
    /// `status.podIPs`.
    pub addresses: Box<[IpAddr]>,
    /// What it names in the annotations `anycast` and `addresses` beside them.
    pub claimed: Box<[IpAddr]>,
}

/// One consistent picture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// The policies that are good.
    pub policies: Shards<PolicyKey, Arc<Policy>>,
    /// The labels of namespaces; each has `kubernetes.io/metadata.name`, as the API wants it. One that
    /// is not there has that label and no other.
    pub namespaces: Arc<BTreeMap<String, Arc<Labels>>>,
    /// Pods, also those of this node. Empty while there is no policy.
    pub peers: Shards<PodKey, Arc<PeerPod>>,
    /// All of it was told since the start. Until then the policies (and namespaces) may be those that
    /// the last agent knew, and of pods nothing may be known.
    pub complete: bool,
    /// Policies and namespaces that cannot be used, by where they came from, and why; and what the agent
    /// may not read. What was known before stays in force.
    pub problems: Arc<BTreeMap<String, String>>,
}

/// The value of a name from now on, or none. A picture that was given away stays as it was.
pub(super) fn set<K: Ord + Clone, V: Clone + PartialEq>(
    map: &mut Arc<BTreeMap<K, V>>,
    key: &K,
    value: Option<V>,
) {
    if map.get(key) == value.as_ref() {
        return;
    }
    let map = Arc::make_mut(map);
    match value {
        Some(value) => map.insert(key.clone(), value),
        None => map.remove(key),
    };
}
