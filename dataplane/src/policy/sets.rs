//! The sets and maps of the table.
//!
//! Decides their names, keys and values. Numbers of the agent's (profiles,
//! classes) are in the machine's own order and shown by `nft` as marks.

use super::Direction;
use crate::expression::counter_each;
use crate::nftables::{NFTA_LIST_ELEM, attribute, nested, number, text};

pub(crate) const TABLE: &str = "flock-policy";

pub(super) const SUBJECTS_IN: &str = "subjects_in";
pub(super) const SUBJECTS_OUT: &str = "subjects_out";
pub(super) const MEMBERS4: &str = "members4";
pub(super) const MEMBERS6: &str = "members6";
pub(super) const BLOCKS4: &str = "blocks4";
pub(super) const BLOCKS6: &str = "blocks6";
pub(super) const RANGES: &str = "ranges";
pub(super) const ALLOWED: &str = "allowed";
pub(super) const SELF4: &str = "self4";
pub(super) const SELF6: &str = "self6";
pub(super) const DENIED_IN: &str = "denied_in";
pub(super) const DENIED_OUT: &str = "denied_out";

/// The kernel's IFNAMSIZ: an interface's name in a key, padded with zeros.
pub(super) const NAME: usize = 16;

const INTERVAL: u32 = 0x4;
const MAP: u32 = 0x8;
const CONCATENATION: u32 = 0x80;

/// `nft`'s names of types, for it to read.
const IPV4_ADDR: u32 = 7;
const IPV6_ADDR: u32 = 8;
const INET_PROTO: u32 = 12;
const INET_SERVICE: u32 = 13;
const MARK: u32 = 19;
const IFNAME: u32 = 41;

const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_TYPE: u16 = 4;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_DATA_TYPE: u16 = 6;
const NFTA_SET_DATA_LEN: u16 = 7;
const NFTA_SET_DESC: u16 = 9;
const NFTA_SET_ID: u16 = 10;
const NFTA_SET_USERDATA: u16 = 13;
const NFTA_SET_EXPR: u16 = 17;
const NFTA_SET_DESC_CONCAT: u16 = 2;
const NFTA_SET_FIELD_LEN: u16 = 1;

/// A value is a number of the agent's.
const VALUE: u32 = 4;

/// A set, or a map.
pub(super) struct Set {
    pub(super) name: &'static str,
    key_type: u32,
    key_length: u32,
    flags: u32,
    /// The parts of a key that has intervals in any of them.
    fields: &'static [u32],
    /// Whether each element counts how often it was found.
    counted: bool,
}

impl Set {
    const fn new(name: &'static str, key_type: u32, key_length: u32) -> Self {
        Self { name, key_type, key_length, flags: 0, fields: &[], counted: false }
    }

    const fn map(self) -> Self {
        Self { flags: self.flags | MAP, ..self }
    }

    const fn of_intervals(self) -> Self {
        Self { flags: self.flags | INTERVAL, ..self }
    }

    const fn in_fields(self, fields: &'static [u32]) -> Self {
        Self { flags: self.flags | INTERVAL | CONCATENATION, fields, ..self }
    }

    const fn counted(self) -> Self {
        Self { counted: true, ..self }
    }

    /// By what the kernel's is compared with this one: flags, length of key and value.
    pub(super) fn shape(&self) -> [u32; 3] {
        [self.flags, self.key_length, self.value_length()]
    }

    /// For `nft`, in its own words: the byte order of keys (0) and values (1) is
    /// the machine's (1) or the network's (2).
    fn orders(&self) -> Vec<u8> {
        let order = |of, order: u32| [&[of, 4], order.to_ne_bytes().as_slice()].concat();
        let key = order(0, if self.key_type == IFNAME { 1 } else { 2 });
        if self.value_length() == 0 { key } else { [key, order(1, 1)].concat() }
    }

    fn value_length(&self) -> u32 {
        if self.flags & MAP == 0 { 0 } else { VALUE }
    }

    /// The attributes that make it; `id` is its own in the transaction.
    pub(super) fn describe(&self, id: u32) -> Vec<u8> {
        let mut words = [
            place(self.name),
            number(NFTA_SET_FLAGS, self.flags),
            number(NFTA_SET_KEY_TYPE, self.key_type),
            number(NFTA_SET_KEY_LEN, self.key_length),
            number(NFTA_SET_ID, id),
        ]
        .concat();
        if self.value_length() != 0 {
            words.extend(number(NFTA_SET_DATA_TYPE, MARK));
            words.extend(number(NFTA_SET_DATA_LEN, self.value_length()));
        }
        words.extend(attribute(NFTA_SET_USERDATA, &self.orders()));
        if !self.fields.is_empty() {
            let field = |length| nested(NFTA_LIST_ELEM, &number(NFTA_SET_FIELD_LEN, length));
            let fields: Vec<u8> = self.fields.iter().flat_map(|length| field(*length)).collect();
            words.extend(nested(NFTA_SET_DESC, &nested(NFTA_SET_DESC_CONCAT, &fields)));
        }
        if self.counted {
            words.extend(nested(NFTA_SET_EXPR, &counter_each()));
        }
        words
    }
}

/// The type of a key of several parts: six bits for each.
const fn types(parts: &[u32]) -> u32 {
    match parts {
        [before @ .., last] => types(before) << 6 | *last,
        [] => 0,
    }
}

/// All of them.
pub(super) const ALL: [Set; 12] = [
    Set::new(SUBJECTS_IN, IFNAME, 16).map(),
    Set::new(SUBJECTS_OUT, IFNAME, 16).map(),
    Set::new(MEMBERS4, IPV4_ADDR, 4).map(),
    Set::new(MEMBERS6, IPV6_ADDR, 16).map(),
    Set::new(BLOCKS4, IPV4_ADDR, 4).map().of_intervals(),
    Set::new(BLOCKS6, IPV6_ADDR, 16).map().of_intervals(),
    Set::new(RANGES, types(&[INET_PROTO, INET_SERVICE]), 8).map().in_fields(&[1, 2]),
    Set::new(ALLOWED, types(&[MARK, MARK, MARK, INET_PROTO, INET_SERVICE]), 20),
    Set::new(SELF4, types(&[IPV4_ADDR, IPV4_ADDR]), 8),
    Set::new(SELF6, types(&[IPV6_ADDR, IPV6_ADDR]), 32),
    Set::new(DENIED_IN, IFNAME, 16).counted(),
    Set::new(DENIED_OUT, IFNAME, 16).counted(),
];

/// Who is isolated, by the link that their packets come from or go to.
pub(super) fn subjects(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => SUBJECTS_IN,
        Direction::Egress => SUBJECTS_OUT,
    }
}

/// What was dropped, by the same links.
pub(super) fn denied(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => DENIED_IN,
        Direction::Egress => DENIED_OUT,
    }
}

/// The attributes that name a set, and those that name one's list of elements.
pub(super) fn place(name: &str) -> Vec<u8> {
    [text(NFTA_SET_TABLE, TABLE), text(NFTA_SET_NAME, name)].concat()
}

/// The attributes that name all of them.
pub(super) fn place_of_all() -> Vec<u8> {
    text(NFTA_SET_TABLE, TABLE)
}

/// Name and shape of a set of the kernel's.
pub(super) fn read(payload: &[u8]) -> Option<(Vec<u8>, [u32; 3])> {
    let value = |kind| {
        let bytes = crate::nftables::find(payload, kind)?;
        bytes.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
    };
    let name = crate::nftables::find(payload, NFTA_SET_NAME)?;
    // What is 0 is not said.
    let number = |kind| value(kind).unwrap_or(0);
    let shape = [number(NFTA_SET_FLAGS), number(NFTA_SET_KEY_LEN), number(NFTA_SET_DATA_LEN)];
    Some((name, shape))
}
