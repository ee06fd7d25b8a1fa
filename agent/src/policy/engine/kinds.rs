//! Kinds of pods: those that no selector and no name of a port tells apart. Decides which peers a
//! pod is of, once for all pods that have the same namespace, labels and named ports.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::index::{self, Index};
use super::peers::{Changed, Peers, Policies, Scope};
use super::pool::{Mentions, Pool};
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

impl Mentions for Key {
    fn mentions(&self) -> Vec<u32> {
        let names = self.ports.iter().map(|(name, _)| *name);
        let mut all: Vec<u32> = self.peers.iter().copied().chain(names).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// What makes a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KindKey {
    pub(super) namespace: Arc<str>,
    pub(super) labels: Arc<Labels>,
    pub(super) ports: Arc<[NamedPort]>,
}

impl KindKey {
    /// What it is found under.
    fn marks(&self) -> impl Iterator<Item = u32> {
        let ports = self.ports.iter().map(|port| index::of_port(port.protocol, &port.name));
        index::marks(&self.namespace, &self.labels).chain(ports)
    }
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
    found: Index<u32>,
    /// Which addresses a kind has.
    addresses: BTreeSet<(u32, IpAddr)>,
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

    /// The addresses of a kind.
    pub(super) fn addresses(&self, kind: u32) -> impl Iterator<Item = IpAddr> {
        let from = self.addresses.range((kind, IpAddr::V4(Ipv4Addr::UNSPECIFIED))..);
        from.take_while(move |(known, _)| *known == kind).map(|(_, address)| *address)
    }

    /// The number of a kind, which has this address from now on, or once more.
    pub(super) fn join(
        &mut self,
        key: &KindKey,
        address: IpAddr,
        policies: &Policies,
        known: &NamespaceLabels,
        classes: &Pool<Key>,
    ) -> u32 {
        let number = self.numbered(key, policies, known, classes);
        self.addresses.insert((number, address));
        number
    }

    fn numbered(
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
            let selectors = selectors(&key.namespace, &labels, policies);
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
        self.found.add(key.marks(), &number);
        number
    }

    /// A kind has an address once less, and if `for_good`, no more.
    pub(super) fn leave(&mut self, number: u32, address: IpAddr, for_good: bool) {
        if for_good {
            self.addresses.remove(&(number, address));
        }
        let Some(kind) = self.entry_mut(number) else { return };
        kind.uses = kind.uses.saturating_sub(1);
        if kind.uses > 0 {
            return;
        }
        let place = usize::try_from(number).ok().and_then(|n| self.kinds.get_mut(n));
        let Some(gone) = place.and_then(Option::take) else { return };
        self.free.push(number);
        self.numbers.remove(&gone.key);
        self.found.remove(gone.key.marks(), &number);
        if let Some(namespace) = self.namespaces.get_mut(&gone.key.namespace) {
            namespace.kinds = namespace.kinds.saturating_sub(1);
            if namespace.kinds == 0 {
                self.namespaces.remove(&gone.key.namespace);
            }
        }
    }

    /// The number of a kind that is there.
    pub(super) fn number(&self, key: &KindKey) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// Policies are others now, and labels of namespaces if they are given. Returns the kinds that count
    /// as something else, and how many were looked at.
    pub(super) fn rematch(
        &mut self,
        policies: &Policies,
        changed: &Changed,
        known: Option<&NamespaceLabels>,
        classes: &Pool<Key>,
    ) -> (Vec<u32>, usize) {
        let moved = known.map(|known| self.move_namespaces(policies, known)).unwrap_or_default();
        let mut concerned: BTreeSet<u32> = BTreeSet::new();
        for name in &moved {
            concerned.extend(self.found.under(index::of_namespace(name)));
        }
        for (protocol, name) in &changed.names {
            concerned.extend(self.found.under(index::of_port(*protocol, name)));
        }
        let gone = changed.gone.iter().map(|(number, peers)| (*number, peers, false));
        let fresh = changed.fresh.iter().map(|(number, peers)| (*number, peers, true));
        for (number, peers, comes) in gone.chain(fresh) {
            self.spread(number, peers, comes, &moved, &mut concerned);
        }
        let mut others = Vec::new();
        for number in &concerned {
            let Some(kind) = self.entry(*number) else { continue };
            let Some(namespace) = self.namespaces.get(&kind.key.namespace) else { continue };
            let peers = match moved.contains(&kind.key.namespace) {
                true => matching(&namespace.selectors, &kind.key.labels),
                false => {
                    let before = kind.counts_as.peers.iter().copied();
                    let mut peers: Vec<u32> =
                        before.filter(|peers| !changed.gone.contains_key(peers)).collect();
                    let new = changed.fresh.first().map_or(u32::MAX, |(number, _)| *number);
                    let old = namespace.selectors.partition_point(|(peers, _)| *peers < new);
                    let new = namespace.selectors.get(old..).unwrap_or_default();
                    peers.extend(matching(new, &kind.key.labels));
                    peers
                }
            };
            let now = Key { peers: peers.into(), ports: named(&kind.key.ports, policies) };
            if now != *kind.counts_as {
                let now = classes.share(now);
                if let Some(kind) = self.entry_mut(*number) {
                    kind.counts_as = now;
                }
                others.push(*number);
            }
        }
        (others, concerned.len())
    }

    /// Gives namespaces the labels that they have now. Returns those that had others.
    fn move_namespaces(
        &mut self,
        policies: &Policies,
        known: &NamespaceLabels,
    ) -> BTreeSet<Arc<str>> {
        let mut moved = BTreeSet::new();
        for (name, namespace) in &mut self.namespaces {
            let labels = labels_of(name, known);
            if *namespace.labels != *labels {
                namespace.selectors = selectors(name, &labels, policies);
                namespace.labels = labels;
                moved.insert(name.clone());
            }
        }
        moved
    }

    /// Tells the namespaces, but those that know it already, of peers that come or go, and finds the
    /// kinds that may be of them.
    fn spread(
        &mut self,
        number: u32,
        peers: &Peers,
        comes: bool,
        but: &BTreeSet<Arc<str>>,
        concerned: &mut BTreeSet<u32>,
    ) {
        for (scope, selector) in &peers.pods {
            let mut tell = |name: &Arc<str>, namespace: &mut Namespace| {
                let known = &mut namespace.selectors;
                if comes {
                    known.push((number, selector.clone()));
                } else {
                    let first = known.partition_point(|(peers, _)| *peers < number);
                    let behind = known.partition_point(|(peers, _)| *peers <= number);
                    known.drain(first..behind);
                }
                concerned.extend(self.found.candidates(name, selector));
            };
            match scope {
                Scope::Own(own) if !but.contains(own) => {
                    self.namespaces.get_mut(own).into_iter().for_each(|known| tell(own, known));
                }
                Scope::Own(_) => {}
                Scope::Selected(selector) => {
                    let all = self.namespaces.iter_mut().filter(|(name, _)| !but.contains(*name));
                    let selected = all.filter(|(_, known)| selector.matches(&known.labels));
                    selected.for_each(|(name, known)| tell(name, known));
                }
            }
        }
    }
}

/// The selectors of peers that may select pods of a namespace.
fn selectors(namespace: &str, labels: &Labels, policies: &Policies) -> Vec<(u32, Arc<Selector>)> {
    let mut found = Vec::new();
    for (number, peers) in &policies.peers {
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
