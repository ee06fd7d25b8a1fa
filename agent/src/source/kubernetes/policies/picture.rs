//! What the API server told of policies, namespaces and all pods, put together as one `Cluster`. Pure
//! but for its log lines. Nothing is taken from it because a watch began anew or fell silent: a list
//! replaces what was known as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::super::watch::Told;
use super::objects::{NamespaceObject, PeerObject, PolicyObject};
use crate::policy::parse::{self, PolicySpec};
use crate::policy::{Labels, Policy, PolicyKey};
use crate::source::cluster::set;
use crate::source::shared::Pool;
use crate::source::{Cluster, PeerPod, PodKey, Shards};

/// What the API server is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Policies,
    Namespaces,
    Pods,
}

impl Kind {
    fn shown(self) -> &'static str {
        match self {
            Self::Policies => "networkpolicies.networking.k8s.io",
            Self::Namespaces => "namespaces",
            Self::Pods => "pods",
        }
    }
}

/// All that was told.
#[derive(Default)]
pub(super) struct Picture {
    policies: Shards<PolicyKey, Arc<Policy>>,
    /// What they were read from.
    specs: Shards<PolicyKey, Arc<str>>,
    namespaces: Arc<BTreeMap<String, Arc<Labels>>>,
    peers: Shards<PodKey, Arc<PeerPod>>,
    /// Those of the list under way.
    listing: Shards<PodKey, Arc<PeerPod>>,
    pool: Pool,
    /// Policies that cannot be read, and why.
    refused: BTreeMap<PolicyKey, String>,
    told: BTreeSet<Kind>,
    /// Of what nothing is told, and why.
    silent: BTreeMap<Kind, String>,
}

/// What a restart begins with.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Past {
    pub(super) specs: Shards<PolicyKey, Arc<str>>,
    pub(super) namespaces: Arc<BTreeMap<String, Arc<Labels>>>,
}

impl Picture {
    /// Nothing is told yet; `past` is what was known before.
    pub(super) fn new(past: Past) -> Self {
        let mut picture = Self { namespaces: past.namespaces, ..Self::default() };
        for (key, spec) in past.specs.iter() {
            match serde_json::from_str(spec) {
                Ok(spec) => picture.set_policy(key, Some(spec)),
                Err(error) => picture.refuse(key, error.to_string()),
            }
        }
        picture
    }

    pub(super) fn cluster(&self) -> Cluster {
        let told = |kind| self.told.contains(&kind);
        let pods = !self.wants_pods() || told(Kind::Pods);
        Cluster {
            policies: self.policies.clone(),
            namespaces: self.namespaces.clone(),
            peers: self.peers.clone(),
            complete: told(Kind::Policies) && told(Kind::Namespaces) && pods,
            problems: Arc::new(self.problems()),
        }
    }

    fn problems(&self) -> BTreeMap<String, String> {
        let policies = self.refused.iter();
        let policies = policies.map(|(key, why)| (format!("NetworkPolicy {key}"), why.clone()));
        let forbidden = self.silent.iter().filter(|(_, why)| is_refusal(why));
        policies
            .chain(forbidden.map(|(kind, why)| (kind.shown().to_owned(), why.clone())))
            .collect()
    }

    pub(super) fn past(&self) -> Past {
        Past { specs: self.specs.clone(), namespaces: self.namespaces.clone() }
    }

    /// Whether anybody asks for the pods of other nodes.
    pub(super) fn wants_pods(&self) -> bool {
        !self.policies.is_empty()
    }

    /// Nobody asks for them any more.
    pub(super) fn forget_pods(&mut self) {
        (self.peers, self.listing) = (Shards::default(), Shards::default());
        self.told.remove(&Kind::Pods);
        self.answers(Kind::Pods);
    }

    pub(super) fn hear_policies(&mut self, told: Told<PolicyObject>) {
        match self.news(Kind::Policies, told) {
            News::All(all) => {
                let known = self.policies.iter().map(|(key, _)| key).chain(self.refused.keys());
                let mut gone: BTreeSet<PolicyKey> = known.cloned().collect();
                for policy in all {
                    gone.remove(&policy.key);
                    self.set_policy(&policy.key, Some(policy.spec));
                }
                for key in gone {
                    self.set_policy(&key, None);
                }
            }
            News::Changed(policy) => self.set_policy(&policy.key, Some(policy.spec)),
            News::Gone(policy) => self.set_policy(&policy.key, None),
            News::Part { .. } | News::Nothing => {}
        }
    }

    pub(super) fn hear_namespaces(&mut self, told: Told<NamespaceObject>) {
        match self.news(Kind::Namespaces, told) {
            News::All(all) => {
                let named = all.into_iter().map(|one| (one.name, Arc::new(one.labels)));
                let all: BTreeMap<_, _> = named.collect();
                if *self.namespaces != all {
                    self.namespaces = Arc::new(all);
                }
            }
            News::Changed(one) => {
                set(&mut self.namespaces, &one.name, Some(Arc::new(one.labels)));
            }
            News::Gone(one) => set(&mut self.namespaces, &one.name, None),
            News::Part { .. } | News::Nothing => {}
        }
    }

    pub(super) fn hear_pods(&mut self, told: Told<PeerObject>) {
        match self.news(Kind::Pods, told) {
            News::Part { first, some } => {
                if first {
                    self.listing = Shards::default();
                }
                self.list(some);
            }
            News::All(rest) => {
                self.list(rest);
                let listed = std::mem::take(&mut self.listing);
                if self.peers.is_empty() {
                    self.peers = listed;
                    return;
                }
                // Into what is there: those who hold the last picture go on to share it.
                for key in listed.differing(&self.peers) {
                    self.peers.set(&key, listed.get(&key).cloned());
                }
            }
            News::Changed(pod) => {
                let peer = pod.peer.map(|peer| self.pool.peer(peer));
                self.peers.set(&self.pool.key(pod.key), peer);
            }
            News::Gone(pod) => self.peers.set(&pod.key, None),
            News::Nothing => {}
        }
    }

    /// Some pods of the list under way. Those that are known as they are stay what they are.
    fn list(&mut self, some: Vec<PeerObject>) {
        for pod in some {
            let Some(peer) = pod.peer else { continue };
            let known = self.peers.get(&pod.key).filter(|known| ***known == peer).cloned();
            let peer = known.unwrap_or_else(|| self.pool.peer(peer));
            self.listing.set(&self.pool.key(pod.key), Some(peer));
        }
    }

    /// A policy as it is now. One that cannot be read takes nothing away.
    fn set_policy(&mut self, key: &PolicyKey, spec: Option<Value>) {
        let Some(spec) = spec else {
            self.policies.set(key, None);
            self.specs.set(key, None);
            self.refused.remove(key);
            return;
        };
        let text = spec.to_string();
        if self.specs.get(key).is_some_and(|known| **known == *text) {
            self.refused.remove(key);
            return;
        }
        match read(key, spec) {
            Ok(policy) => {
                self.policies.set(key, Some(Arc::new(policy)));
                self.specs.set(key, Some(text.into()));
                self.refused.remove(key);
            }
            // Nothing was said before that could stay: whom it selects is closed, not open.
            Err((problem, closed)) if self.policies.get(key).is_none() => {
                self.policies.set(key, Some(closed));
                self.refuse(key, problem);
            }
            Err((problem, _)) => self.refuse(key, problem),
        }
    }

    fn refuse(&mut self, key: &PolicyKey, problem: String) {
        if self.refused.get(key) != Some(&problem) {
            let (policy, reason) = (key.to_string(), &problem);
            tracing::warn!(
                policy,
                reason,
                "NetworkPolicy refused; what it said before stays, and a new one allows nothing"
            );
        }
        self.refused.insert(key.clone(), problem);
    }

    /// What is told, apart from whether anything is.
    fn news<K>(&mut self, kind: Kind, told: Told<K>) -> News<K> {
        match told {
            Told::All(all) => {
                self.answers(kind);
                self.told.insert(kind);
                News::All(all)
            }
            Told::Part { first, some } => News::Part { first, some },
            Told::Changed(one) => News::Changed(one),
            Told::Gone(one) => News::Gone(one),
            Told::Silent(why) => {
                self.falls_silent(kind, why);
                News::Nothing
            }
            Told::Answers => {
                self.answers(kind);
                News::Nothing
            }
        }
    }

    /// One line for an API server that is away, of which the picture of this node tells, too; one for
    /// each permission that is missing, because that does not pass by itself.
    fn falls_silent(&mut self, kind: Kind, reason: String) {
        let what = kind.shown();
        let before = self.silent.get(&kind);
        if is_refusal(&reason) {
            if before.is_none_or(|before| !is_refusal(before)) {
                tracing::warn!(
                    what,
                    reason,
                    "NetworkPolicies cannot be followed: the agent may not list and watch this; apply \
                     the roles of deploy/ again"
                );
            }
        } else if self.silent.is_empty() {
            tracing::warn!(
                what,
                reason,
                "not told by the API server; NetworkPolicies stay as known"
            );
        }
        self.silent.insert(kind, reason);
    }

    fn answers(&mut self, kind: Kind) {
        if self.silent.remove(&kind).is_some() && self.silent.is_empty() {
            tracing::info!("NetworkPolicies are followed again");
        }
    }
}

/// What is told of a kind, where something is.
enum News<K> {
    All(Vec<K>),
    Part { first: bool, some: Vec<K> },
    Changed(K),
    Gone(K),
    Nothing,
}

/// What a policy says; or what is wrong with it, and what it comes to then.
fn read(key: &PolicyKey, spec: Value) -> Result<Policy, (String, Arc<Policy>)> {
    let PolicyKey { namespace, name } = key;
    // A policy without a spec is one that selects every pod, as the API has it.
    let spec: PolicySpec = match spec {
        Value::Null => PolicySpec::default(),
        spec => serde_json::from_value(spec).map_err(|error| {
            let closed = parse::closed(namespace, name, None);
            (format!("spec: {error}"), closed.into())
        })?,
    };
    parse::from_parts(namespace, name, &spec)
        .map_err(|problem| (problem, parse::closed(namespace, name, Some(&spec)).into()))
}

/// Whether the API server answers, and says no: in its words as the client tells them.
fn is_refusal(why: &str) -> bool {
    why.ends_with("(403)")
}
