//! Profiles: decides what the policies that select a pod come to in one direction, and what a class
//! is allowed by that.

use flock_dataplane::policy::{Class, Direction, Element, Ports, Profile};

use super::kinds::Key;
use super::peers::{ANYBODY, InForce, Lowered, Policies};
use crate::policy::model::{NamedPort, Protocol};
use crate::policy::ports::{self, PortSet, Ranges};

/// What is allowed to peers by their number, in order, nothing twice.
pub(super) type Rules = Vec<(u32, Item)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Item {
    /// These.
    Ports(Ports),
    /// What the other side has under the name with this number.
    Named(u32, Protocol),
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
fn pieces(mut wide: Vec<(u32, (Protocol, u16, u16))>, ranges: &Ranges) -> Rules {
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
    let has = |peers: u32, ports: Ports| rules.binary_search(&(peers, Item::Ports(ports))).is_ok();
    let covered = |peers: u32, item: Item, by: u32| {
        let same = by == peers;
        let protocol = match item {
            Item::Ports(Ports::All) => return !same && has(by, Ports::All),
            Item::Ports(Ports::Protocol(_)) | Item::Ports(Ports::Range(_)) => None,
            Item::Ports(Ports::One(protocol, _)) => Some(protocol),
            Item::Named(_, protocol) => Some(protocol.number()),
        };
        has(by, Ports::All)
            || protocol.is_some_and(|protocol| has(by, Ports::Protocol(protocol)))
            || !same && rules.binary_search(&(by, item)).is_ok()
    };
    let kept = rules.iter().copied().filter(|(peers, item)| {
        !covered(*peers, *item, *peers) && !covered(*peers, *item, ANYBODY)
    });
    kept.collect()
}

/// What a profile allows to anybody.
pub(super) fn to_anybody(profile: u32, rules: &Rules) -> impl Iterator<Item = Element> {
    let anybody = rules.iter().take_while(|(peers, _)| *peers == ANYBODY);
    anybody.filter_map(move |(_, item)| match item {
        Item::Ports(ports) => Some(allowed(profile, Class::ANYBODY.0, *ports)),
        Item::Named(..) => None,
    })
}

/// What a profile allows to a class, in order, beside what anybody may.
pub(super) fn to_class(rules: &Rules, key: &Key) -> Vec<Ports> {
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
    for (peers, item) in rules {
        if *peers != ANYBODY && key.peers.binary_search(peers).is_ok() {
            take(item);
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Said of a class.
pub(super) fn allowed(profile: u32, class: u32, ports: Ports) -> Element {
    Element::Allowed { profile: Profile(profile), class: Class(class), ports }
}
