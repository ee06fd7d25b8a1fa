//! Kinds of pods: those that no selector and no name of a port tells apart. Decides which peers a
//! pod is of, once for all pods that have the same namespace, labels and named ports.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::peers::{Policies, Scope};
use super::pool::Pool;
use crate::policy::labels::{Labels, Selector};
use crate::policy::model::NamedPort;
use crate::policy::parse::namespace_labels;

/// What an address counts as: the peers that it is of, by number, and what it has under which name
/// of a port. Both in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) peers: Box<[u32]>,
    pub(super) ports: Box<[(u32, u16)]>,
}

impl Key {
    /// Of no peers, and without a port that policies speak of.
    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty() && self.ports.is_empty()
    }

    /// What both are.
    pub(super) fn and(&self, other: &Self) -> Self {
        let peers = self.peers.iter().filter(|id| other.peers.binary_search(id).is_ok());
        let ports = self.ports.iter().filter(|port| other.ports.binary_search(port).is_ok());
        Self { peers: peers.copied().collect(), ports: ports.copied().collect() }
    }

    /// Of these peers too.
    pub(super) fn with(&self, more: &[u32]) -> Self {
        let peers: BTreeSet<u32> = self.peers.iter().chain(more).copied().collect();
        Self { peers: peers.into_iter().collect(), ports: self.ports.clone() }
    }
}

/// What makes a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KindKey {
    pub(super) namespace: Arc<str>,
    pub(super) labels: Arc<Labels>,
    pub(super) ports: Arc<[NamedPort]>,
}

#[derive(Debug)]
struct Kind {
    key: KindKey,
    /// How many addresses.
    uses: u32,
    counts_as: Arc<Key>,
}

/// A namespace that has pods.
#[derive(Debug)]
struct Namespace {
    labels: Arc<Labels>,
    /// Selectors that may select pods of it, with the peers that they are part of, in their order.
    selectors: Vec<(u32, Arc<Selector>)>,
    kinds: u32,
}

#[derive(Debug, Default)]
pub(super) struct Kinds {
    numbers: HashMap<KindKey, u32>,
    kinds: Vec<Option<Kind>>,
    free: Vec<u32>,
    namespaces: HashMap<Arc<str>, Namespace>,
}

/// The labels of namespaces, as they are known.
pub(super) type NamespaceLabels = std::collections::BTreeMap<String, Arc<Labels>>;

fn labels_of(namespace: &str, known: &NamespaceLabels) -> Arc<Labels> {
    let unknown = || Arc::new(namespace_labels(namespace, std::collections::BTreeMap::new()));
    known.get(namespace).cloned().unwrap_or_else(unknown)
}

impl Kinds {
    /// A name of a namespace, in memory once.
    pub(super) fn namespace(&self, name: &str) -> Arc<str> {
        self.namespaces.get_key_value(name).map_or_else(|| name.into(), |(known, _)| known.clone())
    }

    /// What a kind counts as.
    pub(super) fn counts_as(&self, kind: u32) -> Option<&Arc<Key>> {
        self.entry(kind).map(|kind| &kind.counts_as)
    }

    fn entry(&self, kind: u32) -> Option<&Kind> {
        self.kinds.get(usize::try_from(kind).ok()?)?.as_ref()
    }

    fn entry_mut(&mut self, kind: u32) -> Option<&mut Kind> {
        self.kinds.get_mut(usize::try_from(kind).ok()?)?.as_mut()
    }

    /// The number of a kind, for one address more.
    pub(super) fn join(
        &mut self,
        key: &KindKey,
        policies: &Policies,
        known: &NamespaceLabels,
        classes: &Pool<Key>,
    ) -> u32 {
        if let Some(number) = self.numbers.get(key).copied() {
            if let Some(kind) = self.entry_mut(number) {
                kind.uses += 1;
            }
            return number;
        }
        let namespace = self.namespaces.entry(key.namespace.clone()).or_insert_with(|| {
            let labels = labels_of(&key.namespace, known);
            let selectors = selectors(&key.namespace, &labels, policies, 0);
            Namespace { labels, selectors, kinds: 0 }
        });
        namespace.kinds += 1;
        let peers = matching(&namespace.selectors, &key.labels);
        let counts_as =
            classes.share(Key { peers: peers.into(), ports: named(&key.ports, policies) });
        let kind = Some(Kind { key: key.clone(), uses: 1, counts_as });
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.kinds.push(None);
                u32::try_from(self.kinds.len().saturating_sub(1)).unwrap_or(u32::MAX)
            }
        };
        if let Some(place) = usize::try_from(number).ok().and_then(|n| self.kinds.get_mut(n)) {
            *place = kind;
        }
        self.numbers.insert(key.clone(), number);
        number
    }

    /// One address less.
    pub(super) fn leave(&mut self, number: u32) {
        let Some(kind) = self.entry_mut(number) else { return };
        kind.uses -= 1;
        if kind.uses > 0 {
            return;
        }
        let place = usize::try_from(number).ok().and_then(|n| self.kinds.get_mut(n));
        let Some(gone) = place.and_then(Option::take) else { return };
        self.free.push(number);
        self.numbers.remove(&gone.key);
        if let Some(namespace) = self.namespaces.get_mut(&gone.key.namespace) {
            namespace.kinds -= 1;
            if namespace.kinds == 0 {
                self.namespaces.remove(&gone.key.namespace);
            }
        }
    }

    /// The number of a kind that is there.
    pub(super) fn number(&self, key: &KindKey) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// Policies or labels of namespaces are others now. Whether any kind counts as something else.
    pub(super) fn rematch(
        &mut self,
        policies: &Policies,
        fresh: &BTreeSet<u32>,
        known: &NamespaceLabels,
        classes: &Pool<Key>,
    ) -> bool {
        let mut moved = BTreeSet::new();
        // What is fresh has a number of its own, above all that were there.
        let first_fresh = fresh.first().copied().unwrap_or(u32::MAX);
        for (name, namespace) in &mut self.namespaces {
            let labels = labels_of(name, known);
            if *namespace.labels == *labels {
                namespace.selectors.retain(|(peers, _)| policies.peers.contains_key(peers));
                namespace.selectors.extend(selectors(name, &labels, policies, first_fresh));
            } else {
                namespace.selectors = selectors(name, &labels, policies, 0);
                namespace.labels = labels;
                moved.insert(name.clone());
            }
        }
        let mut changed = false;
        for kind in self.kinds.iter_mut().flatten() {
            let Some(namespace) = self.namespaces.get(&kind.key.namespace) else { continue };
            let peers = if moved.contains(&kind.key.namespace) {
                matching(&namespace.selectors, &kind.key.labels)
            } else {
                let before = kind.counts_as.peers.iter().copied();
                let mut peers: Vec<u32> =
                    before.filter(|peers| policies.peers.contains_key(peers)).collect();
                let old = namespace.selectors.partition_point(|(peers, _)| *peers < first_fresh);
                let new = namespace.selectors.get(old..).unwrap_or_default();
                peers.extend(matching(new, &kind.key.labels));
                peers
            };
            let now = Key { peers: peers.into(), ports: named(&kind.key.ports, policies) };
            if now != *kind.counts_as {
                kind.counts_as = classes.share(now);
                changed = true;
            }
        }
        changed
    }
}

/// The selectors of peers from this number on that may select pods of a namespace.
fn selectors(
    namespace: &str,
    labels: &Labels,
    policies: &Policies,
    first: u32,
) -> Vec<(u32, Arc<Selector>)> {
    let mut found = Vec::new();
    for (number, peers) in policies.peers.range(first..) {
        for (scope, selector) in &peers.pods {
            let concerned = match scope {
                Scope::Own(own) => **own == *namespace,
                Scope::Selected(selector) => selector.matches(labels),
            };
            if concerned {
                found.push((*number, selector.clone()));
            }
        }
    }
    found
}

fn matching(selectors: &[(u32, Arc<Selector>)], labels: &Labels) -> Vec<u32> {
    let mut peers: Vec<u32> = Vec::new();
    for (number, selector) in selectors {
        if peers.last() != Some(number) && selector.matches(labels) {
            peers.push(*number);
        }
    }
    peers
}

/// What a pod has under the names that policies speak of.
fn named(ports: &[NamedPort], policies: &Policies) -> Box<[(u32, u16)]> {
    let known = |port: &NamedPort| Some((policies.name(port.protocol, &port.name)?, port.port));
    let mut found: Vec<(u32, u16)> = ports.iter().filter_map(known).collect();
    found.sort_unstable();
    found.dedup();
    found.into()
}
