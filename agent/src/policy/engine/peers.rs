//! Policies as the engine has them: decides what the peers of a rule are as one thing with a number,
//! which of those things and which names of ports are in force, and what differs when a policy does.
//!
//! The peers of a rule are taken together, because a rule does not tell them apart: a list of a
//! thousand blocks is one thing, and whoever is in it has one class.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use flock_dataplane::policy::Direction;

use super::index;
use crate::policy::blocks::{self, Piece, Span};
use crate::policy::labels::Selector;
use crate::policy::model::{Peer, Policy, PolicyKey, Protocol, Rule};
use crate::policy::ports::{PortSet, Range};
use crate::source::Shards;

/// How often the pieces of the address space may name blocks, all together: a few megabytes.
const ROOM: usize = 1 << 18;

/// The number of no peers: anybody.
pub(super) const ANYBODY: u32 = 0;

/// The peers of a rule.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Peers {
    /// Pods that any of these select.
    pub(super) pods: Vec<(Scope, Arc<Selector>)>,
    /// Addresses.
    pub(super) spans: Vec<Span>,
}

/// Pods of which namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Scope {
    /// Of the policy's own.
    Own(Arc<str>),
    /// Of those that this selects.
    Selected(Selector),
}

/// A rule in force.
#[derive(Debug)]
pub(super) struct Lowered {
    /// The number of its peers, or [`ANYBODY`].
    pub(super) peers: u32,
    pub(super) ports: PortSet,
}

/// A policy in force. Rules that allow nobody are left out.
#[derive(Debug)]
pub(super) struct InForce {
    /// Its own, for as long as it is the same.
    number: u32,
    pub(super) policy: Arc<Policy>,
    pub(super) ingress: Option<Vec<Lowered>>,
    pub(super) egress: Option<Vec<Lowered>>,
}

impl InForce {
    fn rules(&self) -> impl Iterator<Item = &Lowered> {
        self.ingress.iter().chain(&self.egress).flatten()
    }

    fn named(&self) -> impl Iterator<Item = &(Protocol, Arc<str>)> {
        self.egress.iter().flatten().flat_map(|rule| &rule.ports.named)
    }
}

/// Something with a number that several policies may speak of.
#[derive(Debug, Default)]
struct Counted {
    number: u32,
    uses: u32,
}

/// What is not as it was.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Policies that are gone, or were otherwise.
    pub(super) before: Vec<Arc<InForce>>,
    /// Policies that are new, or otherwise.
    pub(super) after: Vec<Arc<InForce>>,
    /// Peers that are new, in order: their numbers are above all that were there.
    pub(super) fresh: Vec<(u32, Arc<Peers>)>,
    /// Peers that nobody speaks of any more.
    pub(super) gone: BTreeMap<u32, Arc<Peers>>,
    /// Names of ports that are new, or that nobody speaks of any more.
    pub(super) names: Vec<(Protocol, Arc<str>)>,
    /// The pieces of the address space, where it was cut anew: those before.
    pub(super) pieces: Option<Vec<Piece>>,
}

impl Changed {
    /// Whether what the policies that changed say of something is not the same.
    fn differ<T: Ord>(&self, say: impl Fn(&InForce) -> Vec<T>) -> bool {
        let all = |policies: &[Arc<InForce>]| {
            let mut said: Vec<(PolicyKey, T)> = Vec::new();
            for policy in policies {
                said.extend(say(policy).into_iter().map(|one| (policy.policy.key.clone(), one)));
            }
            said.sort_unstable();
            said
        };
        all(&self.before) != all(&self.after)
    }

    /// Whether there are others than before among the ranges of ports.
    pub(super) fn ranges(&self) -> bool {
        self.differ(|policy| policy.rules().flat_map(|rule| rule.ports.ranges.clone()).collect())
    }
}

/// Policies that select the same pods: many do, and whom they select is asked once.
#[derive(Debug)]
struct Alike {
    namespace: Arc<str>,
    pods: Selector,
    /// By their number.
    policies: BTreeMap<u32, Arc<InForce>>,
}

impl Alike {
    fn is_of(&self, policy: &InForce) -> bool {
        self.namespace == policy.policy.key.namespace && self.pods == policy.policy.pods
    }
}

/// All policies.
#[derive(Debug, Default)]
pub(super) struct Policies {
    /// By name.
    pub(super) in_force: BTreeMap<PolicyKey, Arc<InForce>>,
    /// By the mark that whom they select has.
    selectors: HashMap<u32, Vec<Alike>>,
    /// Peers, by their number. Numbers are not used again.
    pub(super) peers: BTreeMap<u32, Arc<Peers>>,
    numbers: HashMap<Arc<Peers>, Counted>,
    /// Names of ports that what is sent may depend on.
    names: BTreeMap<(Protocol, Arc<str>), Counted>,
    last_number: u32,
    /// The address space, as blocks cut it.
    pub(super) pieces: Vec<Piece>,
    /// Namespaces whose blocks are left out, because they are too many.
    pub(super) crowded: Vec<String>,
}

impl Policies {
    /// Policies of these names are as wanted from now on; all others are so already.
    pub(super) fn set(
        &mut self,
        names: &[PolicyKey],
        wanted: &Shards<PolicyKey, Arc<Policy>>,
    ) -> Changed {
        let mut changed = Changed::default();
        let newest = self.last_number;
        // First what comes, then what goes: what both speak of keeps its number.
        for key in names {
            let before = match wanted.get(key) {
                Some(policy) => {
                    let lowered = Arc::new(self.lower(policy, &mut changed));
                    changed.after.push(lowered.clone());
                    self.in_force.insert(key.clone(), lowered)
                }
                None => self.in_force.remove(key),
            };
            changed.before.extend(before);
        }
        changed.before.iter().for_each(|policy| self.unlist(policy));
        changed.after.iter().for_each(|policy| self.list(policy));
        let with_blocks = |policy: &InForce| {
            policy
                .rules()
                .filter_map(|rule| {
                    let blocks =
                        self.peers.get(&rule.peers).is_some_and(|peers| !peers.spans.is_empty());
                    blocks.then_some(rule.peers)
                })
                .collect()
        };
        let blocks_differ = changed.differ(with_blocks);
        for policy in changed.before.clone() {
            self.forget(&policy, &mut changed);
        }
        if blocks_differ {
            let before = std::mem::take(&mut self.pieces);
            self.cut();
            changed.pieces = (before != self.pieces).then_some(before);
        }
        let fresh = self.peers.range(newest.saturating_add(1)..);
        changed.fresh = fresh.map(|(number, peers)| (*number, peers.clone())).collect();
        changed
    }

    /// Those of a namespace that select what has these labels, in no order, some perhaps twice.
    pub(super) fn selecting(
        &self,
        namespace: &str,
        labels: &crate::policy::Labels,
    ) -> impl Iterator<Item = &InForce> {
        let marks = index::marks(namespace, labels);
        let found = marks.filter_map(|mark| self.selectors.get(&mark)).flatten();
        let selecting =
            found.filter(move |alike| *alike.namespace == *namespace && alike.pods.matches(labels));
        selecting.flat_map(|alike| alike.policies.values().map(|policy| &**policy))
    }

    fn list(&mut self, policy: &Arc<InForce>) {
        let (namespace, pods) = (&policy.policy.key.namespace, &policy.policy.pods);
        for mark in index::sought(namespace, pods) {
            let all = self.selectors.entry(mark).or_default();
            let place = all.iter().position(|alike| alike.is_of(policy)).unwrap_or_else(|| {
                let (namespace, pods) = (namespace.clone(), pods.clone());
                all.push(Alike { namespace, pods, policies: BTreeMap::new() });
                all.len().saturating_sub(1)
            });
            if let Some(alike) = all.get_mut(place) {
                alike.policies.insert(policy.number, policy.clone());
            }
        }
    }

    fn unlist(&mut self, policy: &InForce) {
        for mark in index::sought(&policy.policy.key.namespace, &policy.policy.pods) {
            let Some(all) = self.selectors.get_mut(&mark) else { continue };
            for alike in all.iter_mut().filter(|alike| alike.is_of(policy)) {
                alike.policies.remove(&policy.number);
            }
            all.retain(|alike| !alike.policies.is_empty());
            if all.is_empty() {
                self.selectors.remove(&mark);
            }
        }
    }

    /// Whether any policy of a namespace speaks of a direction, whatever it selects.
    pub(super) fn speak_of(&self, namespace: &str, direction: Direction) -> bool {
        self.of(namespace).any(|policy| match direction {
            Direction::Ingress => policy.ingress.is_some(),
            Direction::Egress => policy.egress.is_some(),
        })
    }

    fn of<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a InForce> + use<'a> {
        let first = PolicyKey { namespace: namespace.into(), name: Arc::default() };
        let namespace = first.namespace.clone();
        self.in_force
            .range(first..)
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, policy)| &**policy)
    }

    /// Cuts the address space by the blocks of all rules. Blocks that overlap can be cut into more
    /// than there is room for: then those of the namespace that has the most are left out, and its
    /// rules allow them nothing, until the others fit.
    fn cut(&mut self) {
        self.crowded.clear();
        let mut left_out: BTreeSet<u32> = BTreeSet::new();
        loop {
            let taken = self.peers.iter().filter(|(number, _)| !left_out.contains(*number));
            let spans = taken.map(|(number, peers)| (*number, peers.spans.as_slice()));
            if let Some(pieces) = blocks::partition(spans, ROOM) {
                self.pieces = pieces;
                return;
            }
            let Some(largest) = self.largest(&left_out) else {
                self.pieces = Vec::new();
                return;
            };
            let theirs = self.of(&largest).flat_map(InForce::rules).map(|rule| rule.peers);
            left_out.extend(theirs.collect::<Vec<_>>());
            self.crowded.push(largest);
        }
    }

    /// The namespace with the most rules and blocks that are not left out yet.
    fn largest(&self, left_out: &BTreeSet<u32>) -> Option<String> {
        let mut weights: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (key, policy) in &self.in_force {
            for rule in policy.rules().filter(|rule| !left_out.contains(&rule.peers)) {
                let spans = self.peers.get(&rule.peers).map_or(0, |peers| peers.spans.len());
                if spans > 0 {
                    let (rules, all) = weights.entry(&key.namespace).or_default();
                    (*rules, *all) = (*rules + 1, *all + spans);
                }
            }
        }
        let heaviest =
            weights.into_iter().max_by_key(|(_, (rules, all))| rules.saturating_mul(*all));
        heaviest.map(|(namespace, _)| namespace.to_owned())
    }

    /// The number of a port's name, where what is sent may depend on it.
    pub(super) fn name(&self, protocol: Protocol, name: &Arc<str>) -> Option<u32> {
        if self.names.is_empty() {
            return None;
        }
        self.names.get(&(protocol, name.clone())).map(|known| known.number)
    }

    /// Every range of ports of every rule.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range> {
        let rules = self.in_force.values().flat_map(|policy| policy.rules());
        rules.flat_map(|rule| rule.ports.ranges.iter().copied())
    }

    fn lower(&mut self, policy: &Arc<Policy>, changed: &mut Changed) -> InForce {
        let namespace = policy.key.namespace.clone();
        let mut lower = |rules: &Option<Vec<Rule>>| -> Option<Vec<Lowered>> {
            let rules = rules.as_ref()?.iter();
            Some(rules.filter_map(|rule| self.rule(&namespace, rule)).collect())
        };
        let (ingress, egress) = (lower(&policy.ingress), lower(&policy.egress));
        self.last_number = self.last_number.wrapping_add(1);
        let number = self.last_number;
        let in_force = InForce { number, policy: policy.clone(), ingress, egress };
        for name in in_force.named() {
            if !self.names.contains_key(name) {
                self.last_number = self.last_number.wrapping_add(1);
                changed.names.push(name.clone());
            }
            let known = self.names.entry(name.clone());
            known.or_insert(Counted { number: self.last_number, uses: 0 }).uses += 1;
        }
        in_force
    }

    fn rule(&mut self, namespace: &Arc<str>, rule: &Rule) -> Option<Lowered> {
        let ports = PortSet::of(rule.ports.as_deref());
        let Some(listed) = &rule.peers else { return Some(Lowered { peers: ANYBODY, ports }) };
        let mut peers = Peers { pods: Vec::new(), spans: Vec::new() };
        for peer in listed {
            match peer {
                Peer::Pods { namespaces, pods } => {
                    let own = || Scope::Own(namespace.clone());
                    let scope = namespaces.clone().map_or_else(own, Scope::Selected);
                    peers.pods.push((scope, Arc::new(pods.clone())));
                }
                Peer::Block { cidr, except } => peers.spans.extend(blocks::without(cidr, except)),
                Peer::Nobody => {}
            }
        }
        peers.pods.sort_unstable();
        peers.pods.dedup();
        peers.spans = blocks::union(peers.spans);
        if peers.pods.is_empty() && peers.spans.is_empty() {
            return None;
        }
        let peers = Arc::new(peers);
        let known = self.numbers.entry(peers.clone()).or_insert_with(|| {
            self.last_number = self.last_number.wrapping_add(1);
            self.peers.insert(self.last_number, peers);
            Counted { number: self.last_number, uses: 0 }
        });
        known.uses += 1;
        Some(Lowered { peers: known.number, ports })
    }

    fn forget(&mut self, policy: &InForce, changed: &mut Changed) {
        for rule in policy.rules() {
            let Some(peers) = self.peers.get(&rule.peers) else { continue };
            let Some(known) = self.numbers.get_mut(peers) else { continue };
            known.uses = known.uses.saturating_sub(1);
            if known.uses == 0 {
                self.numbers.remove(peers);
                let gone = self.peers.remove(&rule.peers);
                changed.gone.extend(gone.map(|peers| (rule.peers, peers)));
            }
        }
        for name in policy.named() {
            let Some(known) = self.names.get_mut(name) else { continue };
            known.uses = known.uses.saturating_sub(1);
            if known.uses == 0 {
                self.names.remove(name);
                changed.names.push(name.clone());
            }
        }
    }
}
