//! Elements as keys and values, and many of them as messages.
//!
//! Decides how an element looks in its set: pure. What a packet has (addresses,
//! protocol, port) is as the kernel loads it, with zeros up to four bytes.

use std::collections::HashSet;
use std::net::IpAddr;

use netlink_packet_core::{NLA_F_NESTED, NLM_F_CREATE, NLM_F_EXCL};

use super::sets::{
    self, ALLOWED, BLOCKS4, BLOCKS6, MEMBERS4, MEMBERS6, NAME, RANGES, SELF4, SELF6,
};
use super::{Change, Class, Direction, Element, Ports, Profile};
use crate::error::Error;
use crate::names::is_ifname;
use crate::nftables::{Command, NFT_MSG_DELSETELEM, NFT_MSG_NEWSETELEM, NFTA_LIST_ELEM, nested};

const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_DATA: u16 = 2;
const NFTA_SET_ELEM_FLAGS: u16 = 3;
const NFTA_SET_ELEM_KEY_END: u16 = 10;
const NFTA_DATA_VALUE: u16 = 1;
const INTERVAL_END: u32 = 1;

/// The first part of a key of `allowed`: how the others are to be read, so
/// that nothing in a packet can look like "any".
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Everything.
    All = 1,
    /// What is of the protocol.
    Protocol = 2,
    /// What is of the protocol and to the port.
    One = 3,
    /// In the port's place is the number of a range.
    Range = 4,
}

impl Kind {
    pub(super) fn key(self) -> [u8; 4] {
        (self as u32).to_ne_bytes()
    }
}

/// A message's elements are one attribute, whose length is 16 bits.
const FULL: usize = 60_000;

/// The messages that put all of these into a new table.
pub(super) fn all(elements: &[Element]) -> Result<Vec<Command>, Error> {
    let mut writer = Writer::adding();
    for element in elements {
        check(element)?;
        writer.write(element);
        if let Some((direction, ifname)) = subject(element) {
            writer.put(sets::denied(direction), &name(ifname), None);
        }
    }
    Ok(writer.finish())
}

/// The messages of a change. What a pod's link was denied stays counted where
/// it is only held against something else.
pub(super) fn changed(change: &Change) -> Result<Vec<Command>, Error> {
    let subjects = |elements| -> HashSet<(Direction, &str)> {
        let elements: &Vec<Element> = elements;
        elements.iter().filter_map(subject).collect()
    };
    let (gone, come) = (subjects(&change.removed), subjects(&change.added));
    let mut removing = Writer::removing();
    for element in &change.removed {
        check(element)?;
        removing.write(element);
    }
    for (direction, ifname) in gone.difference(&come) {
        removing.put(sets::denied(*direction), &name(ifname), None);
    }
    let mut adding = Writer::adding();
    for element in &change.added {
        check(element)?;
        adding.write(element);
    }
    for (direction, ifname) in come.difference(&gone) {
        adding.put(sets::denied(*direction), &name(ifname), None);
    }
    let mut commands = removing.finish();
    commands.extend(adding.finish());
    Ok(commands)
}

fn subject(element: &Element) -> Option<(Direction, &str)> {
    match element {
        Element::Subject { direction, ifname, .. } => Some((*direction, ifname)),
        _ => None,
    }
}

/// Refuses what the kernel would take for something else.
fn check(element: &Element) -> Result<(), Error> {
    let wrong = match element {
        Element::Subject { ifname, .. } if !is_ifname(ifname) => {
            return Err(Error::BadName { name: ifname.to_string() });
        }
        Element::Block { first, last, .. } => first.is_ipv4() != last.is_ipv4() || first > last,
        Element::Range { first, last, .. } => first > last,
        Element::Own { source, destination } => source.is_ipv4() != destination.is_ipv4(),
        Element::Subject { .. } | Element::Member { .. } | Element::Allowed { .. } => false,
    };
    if wrong {
        let what = format!("{element:?}: ends before it begins, or in another family");
        return Err(Error::BadRequest { what });
    }
    Ok(())
}

/// Elements on their way into messages, each set's for itself.
struct Writer {
    kind: u16,
    flags: u16,
    waiting: Vec<(&'static str, Vec<u8>)>,
    commands: Vec<Command>,
}

impl Writer {
    /// One that is there already is refused.
    fn adding() -> Self {
        Self::new(NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// One that is not there is refused.
    fn removing() -> Self {
        Self::new(NFT_MSG_DELSETELEM, 0)
    }

    fn new(kind: u16, flags: u16) -> Self {
        Self { kind, flags, waiting: Vec::new(), commands: Vec::new() }
    }

    fn finish(mut self) -> Vec<Command> {
        for (set, list) in std::mem::take(&mut self.waiting) {
            self.send(set, &list);
        }
        self.commands
    }

    fn write(&mut self, element: &Element) {
        match element {
            Element::Subject { direction, ifname, profile } => {
                self.put(sets::subjects(*direction), &name(ifname), Some(profile.0.to_ne_bytes()));
            }
            Element::Member { address, class } => {
                let set = if address.is_ipv4() { MEMBERS4 } else { MEMBERS6 };
                self.put(set, &octets(*address), Some(class.0.to_ne_bytes()));
            }
            Element::Block { first, last, class } => {
                let set = if first.is_ipv4() { BLOCKS4 } else { BLOCKS6 };
                self.put(set, &octets(*first), Some(class.0.to_ne_bytes()));
                // The end is the first that is not in it; the last address of all has none behind it.
                if let Some(behind) = next(*last) {
                    self.entry(set, &octets(behind), &[], None, INTERVAL_END);
                }
            }
            Element::Range { protocol, first, last, number } => {
                let key = |port| [protocol_key(*protocol), port_key(port)].concat();
                self.entry(RANGES, &key(*first), &key(*last), Some(range_key(*number)), 0);
            }
            Element::Allowed { profile, class, ports } => {
                self.put(ALLOWED, &allowed(*profile, *class, *ports), None);
            }
            Element::Own { source, destination } => {
                let set = if source.is_ipv4() { SELF4 } else { SELF6 };
                self.put(set, &[octets(*source), octets(*destination)].concat(), None);
            }
        }
    }

    fn put(&mut self, set: &'static str, key: &[u8], value: Option<[u8; 4]>) {
        self.entry(set, key, &[], value, 0);
    }

    fn entry(
        &mut self,
        set: &'static str,
        key: &[u8],
        end: &[u8],
        value: Option<[u8; 4]>,
        flags: u32,
    ) {
        let mut entry = Vec::with_capacity(96);
        data(&mut entry, NFTA_SET_ELEM_KEY, key);
        if !end.is_empty() {
            data(&mut entry, NFTA_SET_ELEM_KEY_END, end);
        }
        if let Some(value) = value.filter(|_| self.kind == NFT_MSG_NEWSETELEM) {
            data(&mut entry, NFTA_SET_ELEM_DATA, &value);
        }
        if flags != 0 {
            header(&mut entry, NFTA_SET_ELEM_FLAGS, 4);
            entry.extend(flags.to_be_bytes());
        }
        let place = match self.waiting.iter().position(|(name, _)| *name == set) {
            Some(place) => place,
            None => {
                self.waiting.push((set, Vec::new()));
                self.waiting.len() - 1
            }
        };
        let Some((_, list)) = self.waiting.get_mut(place) else { return };
        header(list, NFTA_LIST_ELEM | NLA_F_NESTED, entry.len());
        list.extend(entry);
        if list.len() > FULL {
            let list = std::mem::take(list);
            self.send(set, &list);
        }
    }

    fn send(&mut self, set: &str, list: &[u8]) {
        if !list.is_empty() {
            let list = nested(NFTA_SET_ELEM_LIST_ELEMENTS, list);
            let attributes = [sets::place(set), list].concat();
            self.commands.push(Command::new(self.kind, self.flags, attributes));
        }
    }
}

/// A value inside an attribute; all that flock has are multiples of four bytes.
fn data(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    header(bytes, kind | NLA_F_NESTED, 4 + value.len());
    header(bytes, NFTA_DATA_VALUE, value.len());
    bytes.extend(value);
}

fn header(bytes: &mut Vec<u8>, kind: u16, length: usize) {
    bytes.extend(u16::try_from(4 + length).unwrap_or(u16::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
}

/// An interface's name as a key.
fn name(ifname: &str) -> [u8; NAME] {
    let mut key = [0; NAME];
    for (place, byte) in key.iter_mut().zip(ifname.bytes()) {
        *place = byte;
    }
    key
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V4(std::net::Ipv4Addr::from_bits(bits))),
        IpAddr::V6(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V6(std::net::Ipv6Addr::from_bits(bits))),
    }
}

fn allowed(profile: Profile, class: Class, ports: Ports) -> Vec<u8> {
    let (kind, protocol, port) = match ports {
        Ports::All => (Kind::All, 0, [0; 4]),
        Ports::Protocol(protocol) => (Kind::Protocol, protocol, [0; 4]),
        Ports::One(protocol, port) => (Kind::One, protocol, port_key(port)),
        Ports::Range(number) => (Kind::Range, 0, range_key(number)),
    };
    let (profile, class) = (profile.0.to_ne_bytes(), class.0.to_ne_bytes());
    [kind.key(), profile, class, protocol_key(protocol), port].concat()
}

fn protocol_key(protocol: u8) -> [u8; 4] {
    [protocol, 0, 0, 0]
}

fn port_key(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}

/// A small one looks like a port, for `nft` to show it.
fn range_key(number: u32) -> [u8; 4] {
    number.rotate_left(16).to_be_bytes()
}
