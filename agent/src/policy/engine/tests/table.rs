//! The elements as the kernel looks at them (docs/decisions/0027).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use flock_dataplane::policy::{Change, Class, Direction, Element, Ports, Profile};

use crate::policy::judge::Packet;

/// A table that refuses what the kernel would.
#[derive(Default, Clone)]
pub(super) struct Table {
    pub(super) elements: BTreeSet<Element>,
    subjects: BTreeMap<(Direction, String), Profile>,
    members: BTreeMap<IpAddr, Class>,
    blocks: BTreeMap<IpAddr, (IpAddr, Class)>,
    ranges: BTreeMap<(u8, u16), (u16, u32)>,
}

/// Something that a table says.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meaning {
    Isolated(Direction, String),
    /// A range of ports has its last one, too.
    Allowed(Direction, String, Option<(IpAddr, IpAddr)>, (Ports, Option<u16>)),
    Own(Element),
}

/// A packet on its way through the node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) source: IpAddr,
    pub(super) input: Option<&'a str>,
    pub(super) destination: IpAddr,
    pub(super) output: Option<&'a str>,
    pub(super) packet: Packet,
}

impl Table {
    pub(super) fn of(elements: Vec<Element>) -> Self {
        let mut table = Self::default();
        let change = Change { removed: Vec::new(), added: elements };
        table.apply(change);
        table
    }

    pub(super) fn apply(&mut self, change: Change) {
        for element in change.removed {
            assert!(self.elements.remove(&element), "{element:?} is not there");
            match element {
                Element::Subject { direction, ifname, .. } => {
                    self.subjects.remove(&(direction, ifname.to_string()));
                }
                Element::Member { address, .. } => drop(self.members.remove(&address)),
                Element::Block { first, .. } => drop(self.blocks.remove(&first)),
                Element::Range { protocol, first, .. } => {
                    self.ranges.remove(&(protocol, first));
                }
                Element::Allowed { .. } | Element::Own { .. } => {}
            }
        }
        for element in change.added {
            assert!(self.elements.insert(element.clone()), "{element:?} is there already");
            self.index(element);
        }
        self.check();
    }

    fn index(&mut self, element: Element) {
        let taken = match element.clone() {
            Element::Subject { direction, ifname, profile } => {
                assert_ne!(profile.0, 0);
                self.subjects.insert((direction, ifname.to_string()), profile).is_some()
            }
            Element::Member { address, class } => {
                assert_ne!(class, Class::ANYBODY);
                self.members.insert(address, class).is_some()
            }
            Element::Block { first, last, class } => {
                assert!(first <= last && first.is_ipv4() == last.is_ipv4());
                assert_ne!(class, Class::ANYBODY);
                self.blocks.insert(first, (last, class)).is_some()
            }
            Element::Range { protocol, first, last, number } => {
                assert!(first <= last && number != 0);
                self.ranges.insert((protocol, first), (last, number)).is_some()
            }
            Element::Allowed { .. } => false,
            Element::Own { source, destination } => {
                assert_eq!(source.is_ipv4(), destination.is_ipv4());
                false
            }
        };
        assert!(!taken, "{element:?} has another value");
    }

    /// What never overlaps.
    fn check(&self) {
        let mut before: Option<IpAddr> = None;
        for (first, (last, _)) in &self.blocks {
            assert!(before.is_none_or(|before| before < *first), "blocks overlap at {first}");
            before = Some(*last);
        }
        let mut before = None;
        for ((protocol, first), (last, _)) in &self.ranges {
            assert!(before.is_none_or(|before| before < (*protocol, *first)));
            before = Some((*protocol, *last));
        }
        let numbers: BTreeSet<u32> = self.ranges.values().map(|(_, number)| *number).collect();
        assert_eq!(numbers.len(), self.ranges.len());
    }

    /// What it all comes to, whatever numbers stand for it: for each link and direction who may send or be
    /// sent what; whose own which addresses are.
    pub(super) fn meaning(&self) -> BTreeSet<Meaning> {
        let mut meaning = BTreeSet::new();
        for ((direction, link), profile) in &self.subjects {
            meaning.insert(Meaning::Isolated(*direction, link.clone()));
            for element in &self.elements {
                let Element::Allowed { profile: held, class, ports } = element else { continue };
                if held != profile {
                    continue;
                }
                let ports = match ports {
                    Ports::Range(number) => {
                        let range = self.ranges.iter().find(|(_, (_, known))| known == number);
                        let ((protocol, first), (last, _)) = range.unwrap();
                        (Ports::One(*protocol, *first), Some(*last))
                    }
                    other => (*other, None),
                };
                for who in self.whoever(*class) {
                    meaning.insert(Meaning::Allowed(*direction, link.clone(), who, ports));
                }
            }
        }
        let own = self.elements.iter().filter(|element| matches!(element, Element::Own { .. }));
        meaning.extend(own.cloned().map(Meaning::Own));
        meaning
    }

    /// The addresses of a class, from one to another; none: anybody.
    fn whoever(&self, class: Class) -> Vec<Option<(IpAddr, IpAddr)>> {
        if class == Class::ANYBODY {
            return vec![None];
        }
        let members = self.members.iter().filter(|(_, known)| **known == class);
        let members = members.map(|(address, _)| Some((*address, *address)));
        let blocks = self.blocks.iter().filter(|(_, (_, known))| *known == class);
        members.chain(blocks.map(|(first, (last, _))| Some((*first, *last)))).collect()
    }

    pub(super) fn passes(&self, way: Way<'_>) -> bool {
        let (source, destination) = (way.source, way.destination);
        if self.elements.contains(&Element::Own { source, destination }) {
            return true;
        }
        let held = |direction, link: Option<&str>, other: IpAddr| {
            let key = link.map(|link| (direction, link.to_owned()));
            let profile = key.and_then(|key| self.subjects.get(&key));
            profile.is_none_or(|profile| self.allows(*profile, self.class(other), way.packet))
        };
        held(Direction::Egress, way.input, destination)
            && held(Direction::Ingress, way.output, source)
    }

    fn class(&self, address: IpAddr) -> Option<Class> {
        self.members.get(&address).copied().or_else(|| {
            let (_, (last, class)) = self.blocks.range(..=address).next_back()?;
            (address <= *last).then_some(*class)
        })
    }

    fn allows(&self, profile: Profile, class: Option<Class>, packet: Packet) -> bool {
        let protocol = packet.protocol;
        let mut keys = vec![Ports::All, Ports::Protocol(protocol)];
        if let Some(port) = packet.port {
            keys.push(Ports::One(protocol, port));
            let range = self.ranges.range((protocol, 0)..=(protocol, port)).next_back();
            let range = range.filter(|(_, (last, _))| port <= *last);
            keys.extend(range.map(|(_, (_, number))| Ports::Range(*number)));
        }
        class.into_iter().chain([Class::ANYBODY]).any(|class| {
            keys.iter().any(|ports| {
                self.elements.contains(&Element::Allowed { profile, class, ports: *ports })
            })
        })
    }
}
