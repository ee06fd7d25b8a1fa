//! The pods of this node: decides what isolates them, what of the cluster's picture of them counts,
//! and which pairs of addresses are a pod's own.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use flock_dataplane::policy::{Direction, Element, Profile};

use super::Engine;
use super::holders::{Held, Rank};
use super::index;
use super::kinds::KindKey;
use super::pool::{Shift, only_in_one};
use super::profile::{self, Rules};
use crate::policy::labels::Labels;
use crate::policy::model::{NamedPort, PolicyKey};
use crate::source::PodKey;

/// 0 is none, 1 is [`Profile::CLOSED`].
pub(super) const FIRST_PROFILE: u32 = Profile::CLOSED.0 + 1;
/// Pairs are a square: with more addresses of a family than this, only each with itself.
const MAX_PAIRED: usize = 32;

const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// A pod that is attached to this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Its name.
    pub key: PodKey,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Its named ports.
    pub ports: Arc<[NamedPort]>,
    /// Every address of it that this node delivers: its own, extra ones and anycast.
    pub addresses: Arc<[IpAddr]>,
    /// Those of them that others may have too: anycast.
    pub shared: Arc<[IpAddr]>,
    /// Whether labels and ports are known. Where not, it is held to everything that the policies of
    /// its namespace could say, and nobody's peer.
    pub known: bool,
}

/// What isolates a pod in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Isolation {
    /// What its packets are held against; `None`: it is not isolated, also where policies select it
    /// that allow everything.
    pub profile: Option<Profile>,
    /// The policies that select it and speak of this direction.
    pub policies: Vec<PolicyKey>,
}

#[derive(Debug)]
pub(super) struct Attached {
    pub(super) local: Local,
    /// By direction, as in [`DIRECTIONS`].
    pub(super) profiles: [Option<u32>; 2],
    own: BTreeSet<(IpAddr, IpAddr)>,
}

/// A direction of a pod that may get another profile.
struct Move {
    link: Arc<str>,
    place: usize,
    before: Option<u32>,
    rules: Option<Arc<Rules>>,
}

/// What the pods that are alike are held against, by direction.
type Sides = [Option<Arc<Rules>>; 2];

impl Local {
    /// What it is found under: one of which nothing is known, whatever is sought in its namespace.
    fn marks(&self) -> impl Iterator<Item = u32> {
        let unknown = (!self.known).then(|| index::of_unknown(&self.key.namespace));
        let known = self.known.then(|| index::marks(&self.key.namespace, &self.labels));
        unknown.into_iter().chain(known.into_iter().flatten())
    }
}

impl Attached {
    pub(super) fn subjects(&self, link: &Arc<str>) -> impl Iterator<Item = Element> {
        let held = DIRECTIONS.into_iter().zip(self.profiles);
        held.filter_map(|(direction, profile)| Some(subject(link, direction, profile?)))
    }
}

fn subject(link: &Arc<str>, direction: Direction, profile: u32) -> Element {
    Element::Subject { direction, ifname: link.clone(), profile: Profile(profile) }
}

/// A pair as an element.
pub(super) fn own((source, destination): (IpAddr, IpAddr)) -> Element {
    Element::Own { source, destination }
}

impl Engine {
    /// The pod behind a host link, from now on; `None`: no pod.
    pub fn set_local(&mut self, ifname: &Arc<str>, local: Option<Local>) {
        let before = self.attached.get(ifname).map(|attached| &attached.local);
        if before == local.as_ref() {
            return;
        }
        let keys: BTreeSet<PodKey> =
            before.into_iter().chain(&local).map(|local| local.key.clone()).collect();
        let keys: Vec<PodKey> = keys.into_iter().collect();
        if local.is_none() {
            self.let_go(ifname);
        }
        // The pod's other links have what they had: many may have one name, or none.
        let link = std::slice::from_ref(ifname);
        self.change_pods(link, &keys, |engine| engine.place(ifname, local));
        self.isolate(std::slice::from_ref(ifname));
    }

    /// What isolates the pod behind a link.
    pub fn isolation(&self, ifname: &str, direction: Direction) -> Isolation {
        let Some(Attached { local, profiles, .. }) = self.attached.get(ifname) else {
            return Isolation::default();
        };
        let selecting = self.policies.selecting(&local.key.namespace, &local.labels);
        let speaking = selecting.filter(|policy| match direction {
            Direction::Ingress => policy.ingress.is_some(),
            Direction::Egress => policy.egress.is_some(),
        });
        let [ingress, egress] = *profiles;
        let profile = match direction {
            Direction::Ingress => ingress,
            Direction::Egress => egress,
        };
        let policies: BTreeSet<PolicyKey> =
            speaking.map(|policy| policy.policy.key.clone()).collect();
        let policies = policies.into_iter().collect();
        Isolation { profile: profile.map(Profile), policies }
    }

    /// How many links of this node are isolated, in any direction.
    pub fn isolated(&self) -> usize {
        let held = |attached: &&Attached| attached.profiles.iter().any(Option::is_some);
        self.attached.values().filter(held).count()
    }

    fn place(&mut self, ifname: &Arc<str>, local: Option<Local>) {
        if let Some(Attached { local: before, .. }) = self.attached.get(ifname) {
            self.found.remove(before.marks(), ifname);
            if let Some(links) = self.links.get_mut(&before.key) {
                links.remove(ifname);
                if links.is_empty() {
                    self.links.remove(&before.key);
                }
            }
        }
        let Some(local) = local else {
            self.attached.remove(ifname);
            return;
        };
        self.found.add(local.marks(), ifname);
        self.links.entry(local.key.clone()).or_default().insert(ifname.clone());
        match self.attached.get_mut(ifname) {
            Some(attached) => attached.local = local,
            None => {
                let attached = Attached { local, profiles: [None; 2], own: BTreeSet::new() };
                self.attached.insert(ifname.clone(), attached);
            }
        }
    }

    /// What a pod has by all that is known of it: by its attachments, and by the API server.
    fn held(&self, pod: &PodKey) -> Vec<Held> {
        let links = self.links.get(pod).into_iter().flatten();
        links.flat_map(|link| self.given(link)).chain(self.told(pod)).collect()
    }

    /// What the pod behind a link has by that.
    pub(super) fn given(&self, link: &str) -> Vec<Held> {
        let attached = self.attached.get(link).map(|attached| &attached.local);
        let Some(local) = attached.filter(|local| local.known) else { return Vec::new() };
        let kind = self.kind(&local.key, &local.labels, &local.ports);
        let held = local.addresses.iter().map(|address| {
            let shared = local.shared.contains(address);
            let rank = if shared { Rank::Here } else { Rank::Given };
            Held { address: *address, kind: kind.clone(), rank }
        });
        held.collect()
    }

    /// What a pod has by the API server. What is known here of an attachment is newer than what
    /// comes around that way, if both speak of the same pod (and not of two that had the name one
    /// after the other).
    pub(super) fn told(&self, pod: &PodKey) -> Vec<Held> {
        let Some(peer) = self.cluster.peers.get(pod) else { return Vec::new() };
        let links = self.links.get(pod).into_iter().flatten();
        let mut locals = links.filter_map(|link| Some(&self.attached.get(link)?.local));
        let same =
            |local: &&Local| peer.addresses.iter().any(|address| local.addresses.contains(address));
        let kind = match locals.find(same) {
            Some(local) => self.kind(pod, &local.labels, &local.ports),
            None => self.kind(pod, &peer.labels, &peer.ports),
        };
        let own = peer.addresses.iter().map(|address| (address, Rank::Own));
        let claimed = peer.claimed.iter().map(|address| (address, Rank::Claim));
        let hold =
            |(address, rank): (&IpAddr, Rank)| Held { address: *address, kind: kind.clone(), rank };
        own.chain(claimed).map(hold).collect()
    }

    fn kind(&self, pod: &PodKey, labels: &Arc<Labels>, ports: &Arc<[NamedPort]>) -> KindKey {
        let namespace = self.kinds.namespace(&pod.namespace);
        KindKey { namespace, labels: labels.clone(), ports: ports.clone() }
    }

    /// Holds the pods behind these links against what policies say now.
    pub(super) fn isolate(&mut self, links: &[Arc<str>]) {
        self.effort.links += links.len();
        let moves = self.moves(links);
        moves.iter().filter_map(|step| step.before).for_each(|old| self.profiles.release(old));
        // First those whose profile is there: no other may take over its number.
        let known = |step: &Move| step.rules.as_ref().is_none_or(|it| self.profiles.knows(it));
        let (known, new): (Vec<Move>, Vec<Move>) = moves.into_iter().partition(known);
        for step in known.into_iter().chain(new) {
            let after = step.rules.map(|rules| match rules.is_empty() {
                true => Profile::CLOSED.0,
                false => self.profiles.adopt(step.before, rules),
            });
            self.hold_against(&step.link, step.place, after);
        }
        for shift in self.profiles.settle() {
            self.profile_shifts(&shift);
        }
        for link in links {
            self.own_of(link);
        }
    }

    fn moves(&self, links: &[Arc<str>]) -> Vec<Move> {
        // The pods of a Deployment are looked at once.
        let mut alike: HashMap<(&str, &Labels, &[NamedPort]), Sides> = HashMap::new();
        let mut moves = Vec::new();
        for link in links {
            let Some(Attached { local, profiles, .. }) = self.attached.get(link) else { continue };
            let namespace = &*local.key.namespace;
            let rules = match local.known {
                true => alike
                    .entry((namespace, &local.labels, &local.ports))
                    .or_insert_with(|| self.rules(local))
                    .clone(),
                false => DIRECTIONS.map(|direction| {
                    self.policies.speak_of(namespace, direction).then(Arc::default)
                }),
            };
            let directions = profiles.iter().zip(rules).enumerate();
            moves.extend(directions.map(|(place, (before, rules))| Move {
                link: link.clone(),
                place,
                before: *before,
                rules,
            }));
        }
        moves
    }

    /// What policies come to for a pod.
    fn rules(&self, local: &Local) -> Sides {
        let (policies, ranges) = (&self.policies, &self.ranges);
        let selecting: Vec<_> = policies.selecting(&local.key.namespace, &local.labels).collect();
        DIRECTIONS.map(|direction| {
            let selecting = selecting.iter().copied();
            let rules = profile::rules(selecting, direction, &local.ports, policies, ranges);
            rules.map(Arc::new)
        })
    }

    fn hold_against(&mut self, link: &Arc<str>, place: usize, after: Option<u32>) {
        let Some(attached) = self.attached.get_mut(link) else { return };
        let direction = DIRECTIONS.get(place).copied();
        let (Some(direction), Some(known)) = (direction, attached.profiles.get_mut(place)) else {
            return;
        };
        let before = std::mem::replace(known, after);
        if before != after {
            let subject = |profile| subject(link, direction, profile);
            before.map(subject).into_iter().for_each(|element| self.pending.remove(element));
            after.map(subject).into_iter().for_each(|element| self.pending.add(element));
        }
    }

    /// A pod goes: whatever is said of its link.
    fn let_go(&mut self, link: &Arc<str>) {
        let Some(attached) = self.attached.get(link) else { return };
        for profile in attached.profiles.into_iter().flatten() {
            self.profiles.release(profile);
        }
        for place in 0..DIRECTIONS.len() {
            self.hold_against(link, place, None);
        }
        for shift in self.profiles.settle() {
            self.profile_shifts(&shift);
        }
        self.own_of(link);
    }

    /// A profile means something else: what it allows to anybody, and to the classes that what differs
    /// speaks of.
    fn profile_shifts(&mut self, shift: &Shift<Rules>) {
        let nothing = Arc::default();
        let [before, after] = [&shift.before, &shift.after]
            .map(|rules: &Option<Arc<Rules>>| rules.as_ref().unwrap_or(&nothing));
        let number = shift.number;
        let mut things = BTreeSet::new();
        for (rule, comes) in only_in_one(before, after) {
            things.extend(profile::mentioned(rule));
            for element in profile::to_anybody(number, std::slice::from_ref(rule)) {
                match comes {
                    true => self.pending.add(element),
                    false => self.pending.remove(element),
                }
            }
        }
        let classes = self.classes.mentioning(&things);
        self.effort.pairs += classes.len();
        for class in classes {
            let Some(key) = self.classes.get(class) else { continue };
            let [before, after] = [before, after].map(|rules| profile::to_class(rules, key));
            self.pending.shift(&before, &after, |ports| profile::allowed(number, class, *ports));
        }
    }

    /// Somebody else has some of these addresses too, or not any more.
    pub(super) fn own_anew(&mut self, addresses: &BTreeSet<IpAddr>) {
        let here = |address: &&IpAddr| {
            self.addresses.get(address).is_some_and(|entry| entry.holders.is_here())
        };
        let here: Vec<IpAddr> = addresses.iter().filter(here).copied().collect();
        if here.is_empty() {
            return;
        }
        let concerned = self.attached.iter().filter(|(_, attached)| {
            attached.local.addresses.iter().any(|address| here.contains(address))
        });
        let links: Vec<Arc<str>> = concerned.map(|(link, _)| link.clone()).collect();
        for link in links {
            self.own_of(&link);
        }
    }

    /// The pairs of addresses of the pod behind a link.
    fn own_of(&mut self, link: &Arc<str>) {
        let Some(attached) = self.attached.get(link) else { return };
        let isolated = attached.profiles.iter().any(Option::is_some);
        let now = if isolated { self.pairs(&attached.local) } else { BTreeSet::new() };
        let Some(attached) = self.attached.get_mut(link) else { return };
        let before = std::mem::replace(&mut attached.own, now.clone());
        for pair in now.difference(&before) {
            let uses = self.own.entry(*pair).or_default();
            *uses += 1;
            if *uses == 1 {
                self.pending.add(own(*pair));
            }
        }
        for pair in before.difference(&now) {
            let Some(uses) = self.own.get_mut(pair) else { continue };
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                self.own.remove(pair);
                self.pending.remove(own(*pair));
            }
        }
    }

    /// Addresses that another pod has too are nobody's own: a packet to one may be for the other.
    fn pairs(&self, local: &Local) -> BTreeSet<(IpAddr, IpAddr)> {
        let held = self.held(&local.key);
        let alone = |address: &&IpAddr| {
            let Some(entry) = self.addresses.get(address) else { return false };
            let mine = held.iter().filter(|held| held.address == **address);
            let counts = entry.holders.counting();
            let mine = mine.filter(|held| counts(held.rank)).count();
            entry.holders.in_effect() == mine
        };
        let alone: BTreeSet<IpAddr> = local.addresses.iter().filter(alone).copied().collect();
        let (four, six): (Vec<IpAddr>, Vec<IpAddr>) = alone.into_iter().partition(IpAddr::is_ipv4);
        let mut pairs = BTreeSet::new();
        for family in [four, six] {
            let all = family.len() <= MAX_PAIRED;
            for source in &family {
                let others = family.iter().filter(|other| all || *other == source);
                pairs.extend(others.map(|destination| (*source, *destination)));
            }
        }
        pairs
    }
}
