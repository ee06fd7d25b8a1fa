//! From what is known of the cluster and of the pods of this node to the elements of the table
//! `flock-policy`, and to what changes in it. Nothing here has a clock, a log or a kernel.
//!
//! | room | what it decides |
//! |---|---|
//! | `peers` | the peers of a rule as one thing with a number, what is in force, and what differs |
//! | `index` | by what pods, kinds and policies are found, so that nobody has to look at all of them |
//! | `kinds` | which peers a pod is of, once for all that are alike |
//! | `holders` | whose word counts where several pods name one address |
//! | `pool` | which number a class or a profile has, and that it keeps it |
//! | `profile` | what policies come to for a pod, and what a class is allowed by that |
//! | `change` | whom it concerns that policies change |
//! | `attached` | the pods of this node: what isolates them, and what is their own |
//! | `pending` | what has changed, without what went and came again |
//!
//! A change costs what it concerns: a policy that is another now is a look at the pods that it selects
//! or selected, at the kinds of pods that its peers are or were, and at their addresses ([`Effort`]
//! counts it). Only blocks and ranges of ports are cut all together, where those of a policy change.

mod attached;
mod change;
mod holders;
mod index;
mod kinds;
mod peers;
mod pending;
mod pool;
mod profile;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use flock_dataplane::policy::{Change, Class, Element};

use self::attached::Attached;
pub use self::attached::{Isolation, Local};
use self::holders::{Address, Held, Holder};
use self::index::Index;
use self::kinds::{Key, Kinds};
use self::peers::Policies;
use self::pending::Pending;
use self::pool::{Pool, Shift, only_in_one};
use self::profile::Rules;
use super::blocks::{Piece, Span};
use super::ports::Ranges;
use crate::source::{Cluster, PodKey};

/// Pods that are looked at together.
const AT_ONCE: usize = 512;

/// Everything that the table follows from.
#[derive(Debug)]
pub struct Engine {
    cluster: Arc<Cluster>,
    policies: Policies,
    ranges: Ranges,
    kinds: Kinds,
    addresses: BTreeMap<IpAddr, Address>,
    /// It is kept who has which address: there is a policy.
    keeps_addresses: bool,
    /// The classes of the pieces of the address space, in their order.
    piece_classes: Vec<u32>,
    classes: Pool<Key>,
    profiles: Pool<Rules>,
    attached: BTreeMap<Arc<str>, Attached>,
    links: BTreeMap<PodKey, BTreeSet<Arc<str>>>,
    /// Links by the namespace and labels of their pods.
    found: Index<Arc<str>>,
    /// Pairs of addresses that are one pod's, and how many say so.
    own: BTreeMap<(IpAddr, IpAddr), u32>,
    pending: Pending,
    effort: Effort,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Links of pods, for what isolates them.
    pub links: usize,
    /// Kinds of pods, for the peers that they are of.
    pub kinds: usize,
    /// Addresses, for their class.
    pub addresses: usize,
    /// Pairs of a profile and a class, for what the one allows to the other.
    pub pairs: usize,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            cluster: Arc::default(),
            policies: Policies::default(),
            ranges: Ranges::default(),
            kinds: Kinds::default(),
            addresses: BTreeMap::new(),
            keeps_addresses: false,
            piece_classes: Vec::new(),
            classes: Pool::new(Class::ANYBODY.0 + 1),
            profiles: Pool::new(attached::FIRST_PROFILE),
            attached: BTreeMap::new(),
            links: BTreeMap::new(),
            found: Index::default(),
            own: BTreeMap::new(),
            pending: Pending::default(),
            effort: Effort::default(),
        }
    }
}

/// Something that has a class, and gets another.
struct Move {
    spot: Spot,
    before: Option<u32>,
    key: Option<Arc<Key>>,
}

enum Spot {
    Address(IpAddr),
    Piece(usize),
}

impl Engine {
    /// What is known of the cluster, from now on.
    pub fn set_cluster(&mut self, cluster: &Arc<Cluster>) {
        if !cluster.policies.is_empty() {
            self.keep_addresses();
        }
        let before = self.cluster.clone();
        let policies = cluster.policies.differing(&before.policies);
        let same_namespaces = Arc::ptr_eq(&before.namespaces, &cluster.namespaces)
            || before.namespaces == cluster.namespaces;
        if !policies.is_empty() || !same_namespaces {
            self.set_policies(cluster, &policies, !same_namespaces);
        }
        if cluster.policies.is_empty() {
            self.forget_addresses();
        }
        // A list of everything is taken in parts, so that it needs little memory at a time.
        for some in cluster.peers.differing(&before.peers).chunks(AT_ONCE) {
            self.cluster = before.clone();
            self.change_pods(&[], some, |engine| engine.cluster = cluster.clone());
        }
        self.cluster = cluster.clone();
    }

    /// From now on it is kept who has which address. Most nodes have many addresses and no policy, and
    /// nobody asks for them there.
    fn keep_addresses(&mut self) {
        if std::mem::replace(&mut self.keeps_addresses, true) {
            return;
        }
        // As for a list of everything.
        let links: Vec<Arc<str>> = self.attached.keys().cloned().collect();
        for some in links.chunks(AT_ONCE) {
            self.hold(some.iter().flat_map(|link| self.given(link)).collect());
        }
        let pods: Vec<PodKey> = self.cluster.peers.iter().map(|(pod, _)| pod.clone()).collect();
        for some in pods.chunks(AT_ONCE) {
            self.hold(some.iter().flat_map(|pod| self.told(pod)).collect());
        }
    }

    /// Without a policy none of them has a class.
    fn forget_addresses(&mut self) {
        self.keeps_addresses = false;
        self.addresses.clear();
        self.kinds = Kinds::default();
    }

    /// Whether there is a policy at all: without one there is no table.
    pub fn is_active(&self) -> bool {
        !self.policies.in_force.is_empty()
    }

    /// Namespaces whose rules by blocks allow nobody, because their blocks are too many.
    pub fn crowded(&self) -> &[String] {
        &self.policies.crowded
    }

    /// What has changed since it was taken last, or since [`Engine::forget_changes`]. What went and
    /// came again is not in it.
    pub fn take_change(&mut self) -> Change {
        self.pending.take()
    }

    /// What was looked at since this was asked last.
    pub fn take_effort(&mut self) -> Effort {
        std::mem::take(&mut self.effort)
    }

    /// Changes count from here on: all [`Engine::elements`] are where they belong.
    pub fn forget_changes(&mut self) {
        self.pending = Pending::default();
    }

    /// Everything that belongs into the table, nothing twice.
    pub fn elements(&self) -> Vec<Element> {
        let mut all: Vec<Element> = self.ranges.elements().collect();
        all.extend(self.attached.iter().flat_map(|(link, pod)| pod.subjects(link)));
        let members = self.addresses.iter().filter_map(|(address, entry)| {
            Some(Element::Member { address: *address, class: Class(entry.class?) })
        });
        all.extend(members);
        let pieces = self.policies.pieces.iter().zip(&self.piece_classes);
        all.extend(pieces.map(|(piece, class)| block(&piece.span, *class)));
        for (number, rules) in self.profiles.iter() {
            all.extend(profile::to_anybody(number, rules));
            for (class, key) in self.classes.iter() {
                let ports = profile::to_class(rules, key).into_iter();
                all.extend(ports.map(|ports| profile::allowed(number, class, ports)));
            }
        }
        all.extend(self.own.keys().map(|pair| attached::own(*pair)));
        all
    }

    /// Behind these links, and told of pods of these names, are others after the change than before.
    fn change_pods(&mut self, links: &[Arc<str>], pods: &[PodKey], change: impl FnOnce(&mut Self)) {
        if !self.keeps_addresses {
            change(self);
            return;
        }
        let held = |engine: &Self| -> Vec<Held> {
            let given = links.iter().flat_map(|link| engine.given(link));
            given.chain(pods.iter().flat_map(|pod| engine.told(pod))).collect()
        };
        let before = held(self);
        change(self);
        let after = held(self);
        let dirty: BTreeSet<IpAddr> =
            before.iter().chain(&after).map(|held| held.address).collect();
        // First what comes: a kind that stays is not forgotten and found again.
        self.hold(after);
        for Held { address, kind, rank } in before {
            let Some(kind) = self.kinds.number(&kind) else { continue };
            let entry = self.addresses.get_mut(&address);
            let stays = entry.is_some_and(|entry| {
                entry.holders.remove(Holder { kind, rank });
                entry.holders.has(kind)
            });
            self.kinds.leave(kind, address, !stays);
        }
        self.classify(&dirty, None);
        self.own_anew(&dirty);
    }

    fn hold(&mut self, held: Vec<Held>) {
        for Held { address, kind, rank } in held {
            let namespaces = &self.cluster.namespaces;
            let kind = self.kinds.join(&kind, address, &self.policies, namespaces, &self.classes);
            self.addresses.entry(address).or_default().holders.add(Holder { kind, rank });
        }
    }

    /// Gives these addresses the classes that they have now, and all pieces of the address space if
    /// that was cut anew (then with the pieces before).
    fn classify(&mut self, addresses: &BTreeSet<IpAddr>, cut_before: Option<Vec<Piece>>) {
        self.effort.addresses += addresses.len();
        let mut moves: Vec<Move> =
            addresses.iter().filter_map(|address| self.address_move(*address)).collect();
        if let Some(before) = cut_before {
            moves.extend(self.piece_moves(&before));
        }
        for number in moves.iter().filter_map(|step| step.before) {
            self.classes.release(number);
        }
        // First those whose class is there: no other may take over its number.
        let known = |step: &Move| step.key.as_ref().is_none_or(|key| self.classes.knows(key));
        let (known, new): (Vec<Move>, Vec<Move>) = moves.into_iter().partition(known);
        for step in known.into_iter().chain(new) {
            let class = step.key.map(|key| self.classes.adopt(step.before, key));
            match step.spot {
                Spot::Address(address) => self.member(address, class),
                Spot::Piece(place) => self.piece(place, class),
            }
        }
        for shift in self.classes.settle() {
            self.class_shifts(&shift);
        }
    }

    fn address_move(&self, address: IpAddr) -> Option<Move> {
        let entry = self.addresses.get(&address)?;
        let (policies, classes) = (&self.policies, &self.classes);
        let key = holders::counts_as(address, &entry.holders, &self.kinds, policies, classes);
        let is_there = entry.class.and_then(|class| self.classes.get(class)) == key.as_ref();
        // One that nobody has goes from the map, whether or not it had a class.
        let stays = is_there && !entry.holders.all().is_empty();
        (!stays).then_some(Move { spot: Spot::Address(address), before: entry.class, key })
    }

    fn member(&mut self, address: IpAddr, class: Option<u32>) {
        let Some(entry) = self.addresses.get_mut(&address) else { return };
        if entry.class != class {
            let member = |class: u32| Element::Member { address, class: Class(class) };
            entry.class.map(member).into_iter().for_each(|old| self.pending.remove(old));
            class.map(member).into_iter().for_each(|new| self.pending.add(new));
            entry.class = class;
        }
        if entry.holders.all().is_empty() {
            self.addresses.remove(&address);
        }
    }

    fn piece_moves(&mut self, before: &[Piece]) -> Vec<Move> {
        let classes = std::mem::take(&mut self.piece_classes);
        let mut old: HashMap<Span, u32> = HashMap::new();
        for (piece, class) in before.iter().zip(classes) {
            self.pending.remove(block(&piece.span, class));
            old.insert(piece.span, class);
        }
        self.piece_classes = vec![0; self.policies.pieces.len()];
        let mut moves = Vec::new();
        for (place, piece) in self.policies.pieces.iter().enumerate() {
            let key = Key { peers: piece.blocks.iter().copied().collect(), ports: Box::default() };
            let key = Some(self.classes.share(key));
            moves.push(Move { spot: Spot::Piece(place), before: old.remove(&piece.span), key });
        }
        old.into_values().for_each(|class| self.classes.release(class));
        moves
    }

    fn piece(&mut self, place: usize, class: Option<u32>) {
        let piece = self.policies.pieces.get(place);
        let (Some(piece), Some(class)) = (piece, class) else { return };
        self.pending.add(block(&piece.span, class));
        if let Some(known) = self.piece_classes.get_mut(place) {
            *known = class;
        }
    }

    /// A class means something else: what the profiles allow to it that speak of what differs.
    fn class_shifts(&mut self, shift: &Shift<Key>) {
        let nobody = Arc::default();
        let [before, after] = [&shift.before, &shift.after]
            .map(|key: &Option<Arc<Key>>| key.as_ref().unwrap_or(&nobody));
        let peers = only_in_one(&before.peers, &after.peers).map(|(peers, _)| *peers);
        let names = only_in_one(&before.ports, &after.ports).map(|((name, _), _)| *name);
        let profiles = self.profiles.mentioning(&peers.chain(names).collect());
        self.effort.pairs += profiles.len();
        for number in profiles {
            let Some(rules) = self.profiles.get(number) else { continue };
            let [before, after] = [before, after].map(|key| profile::to_class(rules, key));
            self.pending
                .shift(&before, &after, |ports| profile::allowed(number, shift.number, *ports));
        }
    }
}

fn block(span: &Span, class: u32) -> Element {
    let (first, last) = span.ends();
    Element::Block { first, last, class: Class(class) }
}
