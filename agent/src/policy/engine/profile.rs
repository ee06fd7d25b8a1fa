//! Profiles: decides what the policies that select a pod come to in one direction, and what a class
//! is allowed by that.

use flock_dataplane::policy::{Class, Direction, Element, Ports, Profile};

use super::kinds::Key;
use super::peers::{ANYBODY, InForce, Lowered, Policies};
use super::pool::Mentions;
use crate::policy::model::{NamedPort, Protocol};
use crate::policy::ports::{self, PortSet, Range, Ranges};

/// What is allowed to peers by their number, in order, nothing twice.
pub(super) type Rules = Vec<(u32, Item)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Item {
    /// These.
    Ports(Ports),
    /// What the other side has under the name with this number.
    Named(u32, Protocol),
}

impl Mentions for Rules {
    fn mentions(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.iter().flat_map(mentioned).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The numbers that what a rule comes to for a class depends on.
pub(super) fn mentioned((peers, item): &(u32, Item)) -> impl Iterator<Item = u32> {
    let name = match item {
        Item::Named(name, _) => Some(*name),
        Item::Ports(_) => None,
    };
    Some(*peers).filter(|peers| *peers != ANYBODY).into_iter().chain(name)
}

/// What these policies allow in this direction to a pod with these ports. `None`: it is not isolated,
/// because none of them speaks of it, or because everything is allowed.
pub(super) fn rules<'a>(
    selecting: impl Iterator<Item = &'a InForce>,
    direction: Direction,
    own_ports: &[NamedPort],
    policies: &Policies,
    ranges: &Ranges,
) -> Option<Rules> {
    let mut isolated = false;
    let mut rules = Rules::new();
    let mut wide = Vec::new();
    for policy in selecting {
        let listed = match direction {
            Direction::Ingress => policy.ingress.as_deref(),
            Direction::Egress => policy.egress.as_deref(),
        };
        let Some(listed) = listed else { continue };
        isolated = true;
        for Lowered { peers, ports } in listed {
            if ports.everything && *peers == ANYBODY {
                return None;
            }
            wide.extend(ports.ranges.iter().map(|range| (*peers, *range)));
            let item = |item| (*peers, item);
            rules.extend(plain(ports).map(Item::Ports).map(item));
            for (protocol, name) in &ports.named {
                match direction {
                    Direction::Ingress => {
                        let here = own_ports
                            .iter()
                            .filter(|port| port.protocol == *protocol && port.name == *name);
                        let one = |port: &NamedPort| Ports::One(protocol.number(), port.port);
                        rules.extend(here.map(one).map(Item::Ports).map(item));
                    }
                    Direction::Egress => {
                        let number = policies.name(*protocol, name);
                        rules.extend(number.map(|number| item(Item::Named(number, *protocol))));
                    }
                }
            }
        }
    }
    rules.extend(pieces(wide, ranges));
    rules.sort_unstable();
    rules.dedup();
    isolated.then(|| without_surplus(rules))
}

fn plain(ports: &PortSet) -> impl Iterator<Item = Ports> {
    let everything = ports.everything.then_some(Ports::All);
    let protocols = ports.protocols.iter().map(|protocol| Ports::Protocol(protocol.number()));
    let single = ports.single.iter().map(|(protocol, port)| Ports::One(protocol.number(), *port));
    everything.into_iter().chain(protocols).chain(single)
}

/// Ranges as the numbered pieces of them. Those of the same peers that overlap are taken together
/// first: many long ones would be many times as many pieces.
fn pieces(mut wide: Vec<(u32, Range)>, ranges: &Ranges) -> Rules {
    wide.sort_unstable();
    let mut rules = Rules::new();
    for of_peers in wide.chunk_by(|(one, _), (other, _)| one == other) {
        let Some((peers, _)) = of_peers.first() else { continue };
        for range in ports::merged(of_peers.iter().map(|(_, range)| *range).collect()) {
            let piece = |number| (*peers, Item::Ports(Ports::Range(number)));
            rules.extend(ranges.within(range).map(piece));
        }
    }
    rules
}

/// Without what is allowed by another rule as well, to the same peers or to anybody: each would be
/// an element for every class.
fn without_surplus(rules: Rules) -> Rules {
    let anybody = to(&rules, ANYBODY);
    let mut kept = Rules::with_capacity(rules.len());
    for same in rules.chunk_by(|(one, _), (other, _)| one == other) {
        let surplus = |(peers, item): &(u32, Item)| {
            let by_anybody = || has(anybody, *item) || covered(*item, anybody);
            covered(*item, same) || *peers != ANYBODY && by_anybody()
        };
        kept.extend(same.iter().filter(|rule| !surplus(rule)).copied());
    }
    kept
}

/// The rules for some peers, among those of all.
fn to(rules: &[(u32, Item)], peers: u32) -> &[(u32, Item)] {
    let first = rules.partition_point(|(known, _)| *known < peers);
    let rest = rules.get(first..).unwrap_or_default();
    let behind = rest.partition_point(|(known, _)| *known == peers);
    rest.get(..behind).unwrap_or_default()
}

/// Whether the rules for some peers have an item.
fn has(rules: &[(u32, Item)], item: Item) -> bool {
    rules.binary_search_by_key(&item, |(_, known)| *known).is_ok()
}

/// Whether the rules for some peers have something that an item is a part of.
fn covered(item: Item, rules: &[(u32, Item)]) -> bool {
    let protocol = match item {
        Item::Ports(Ports::All) => return false,
        Item::Ports(Ports::Protocol(_) | Ports::Range(_)) => None,
        Item::Ports(Ports::One(protocol, _)) => Some(protocol),
        Item::Named(_, protocol) => Some(protocol.number()),
    };
    let has = |ports| has(rules, Item::Ports(ports));
    has(Ports::All) || protocol.is_some_and(|protocol| has(Ports::Protocol(protocol)))
}

/// What a profile allows to anybody.
pub(super) fn to_anybody(profile: u32, rules: &[(u32, Item)]) -> impl Iterator<Item = Element> {
    let anybody = rules.iter().take_while(|(peers, _)| *peers == ANYBODY);
    anybody.filter_map(move |(_, item)| match item {
        Item::Ports(ports) => Some(allowed(profile, Class::ANYBODY.0, *ports)),
        Item::Named(..) => None,
    })
}

/// What a profile allows to a class, in order, beside what anybody may.
pub(super) fn to_class(rules: &[(u32, Item)], key: &Key) -> Vec<Ports> {
    let mut all = Vec::new();
    let mut take = |item: &Item| match item {
        Item::Ports(ports) => all.push(*ports),
        Item::Named(name, protocol) => {
            let numbers = key.ports.iter().filter(|(known, _)| known == name);
            all.extend(numbers.map(|(_, port)| Ports::One(protocol.number(), *port)));
        }
    };
    if !key.ports.is_empty() {
        let anybody = rules.iter().take_while(|(peers, _)| *peers == ANYBODY);
        anybody
            .map(|(_, item)| item)
            .filter(|item| matches!(item, Item::Named(..)))
            .for_each(&mut take);
    }
    for peers in &key.peers {
        to(rules, *peers).iter().map(|(_, item)| item).for_each(&mut take);
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Said of a class.
pub(super) fn allowed(profile: u32, class: u32, ports: Ports) -> Element {
    Element::Allowed { profile: Profile(profile), class: Class(class), ports }
}
