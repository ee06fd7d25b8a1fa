//! The few words of nfnetlink that flock speaks.
//!
//! Decides encodings (linux/netfilter/nf_tables.h; numbers in attributes are
//! big-endian) and how a transaction is sent. What the rules say is found in
//! `rules`, which addresses they let through in `admission`.

use netlink_packet_core::{NLA_F_NESTED, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NlasIterator};
use rustix::io::Errno;

use crate::channel::Channel;
use crate::error::Error;
use crate::reply::Reply;

pub(crate) const NFT_MSG_NEWTABLE: u16 = 0;
pub(crate) const NFT_MSG_DELTABLE: u16 = 2;
pub(crate) const NFT_MSG_NEWCHAIN: u16 = 3;
pub(crate) const NFT_MSG_GETCHAIN: u16 = 4;
pub(crate) const NFT_MSG_DELCHAIN: u16 = 5;
pub(crate) const NFT_MSG_NEWRULE: u16 = 6;
pub(crate) const NFT_MSG_GETRULE: u16 = 7;
pub(crate) const NFT_MSG_DELRULE: u16 = 8;
pub(crate) const NFT_MSG_NEWSET: u16 = 9;
pub(crate) const NFT_MSG_NEWSETELEM: u16 = 12;
pub(crate) const NFT_MSG_GETSETELEM: u16 = 13;
pub(crate) const NFT_MSG_DELSETELEM: u16 = 14;

/// The nftables subsystem, the upper byte of a message's type.
pub(crate) const SUBSYSTEM: u16 = 10;

const NFPROTO_INET: u8 = 1;
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;

/// The header that follows netlink's own: family, version, resource.
const NFGENMSG: usize = 4;

pub(crate) const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const REGISTER_1: u32 = 1;
const REGISTER_2: u32 = 2;
const REGISTER_VERDICT: u32 = 0;

const META_IIFNAME: u32 = 6;
const META_NFPROTO: u32 = 15;
const NETWORK_HEADER: u32 = 1;

/// Verdicts are negative where they are nftables' own, and not netfilter's.
const VERDICT_DROP: i32 = 0;
const VERDICT_JUMP: i32 = -3;
const VERDICT_RETURN: i32 = -5;

/// A message of the nftables subsystem for the family `inet`.
fn message(kind: u16, flags: u16, number: u32, attributes: &[u8]) -> Vec<u8> {
    raw((SUBSYSTEM << 8) | kind, flags, number, NFPROTO_INET, 0, attributes)
}

fn begin(number: u32) -> Vec<u8> {
    raw(NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, number, 0, SUBSYSTEM, &[])
}

fn end(number: u32) -> Vec<u8> {
    raw(NFNL_MSG_BATCH_END, NLM_F_REQUEST, number, 0, SUBSYSTEM, &[])
}

fn raw(
    kind: u16,
    flags: u16,
    number: u32,
    family: u8,
    resource: u16,
    attributes: &[u8],
) -> Vec<u8> {
    let length = 16 + NFGENMSG + attributes.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(number.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(attributes);
    bytes
}

/// An attribute, padded to four bytes.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut bytes = Vec::with_capacity(length.next_multiple_of(4));
    bytes.extend(u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

pub(crate) fn nested(kind: u16, value: &[u8]) -> Vec<u8> {
    attribute(kind | NLA_F_NESTED, value)
}

pub(crate) fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

pub(crate) fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// A rule's comment as `nft` writes it: type 0, length, text with its zero.
pub(crate) fn comment(words: &str) -> Vec<u8> {
    let length = u8::try_from(words.len() + 1).unwrap_or(u8::MAX);
    [&[0, length], words.as_bytes(), &[0]].concat()
}

/// An attribute's value in a received message.
pub(crate) fn find(payload: &[u8], kind: u16) -> Option<Vec<u8>> {
    let attributes = payload.get(NFGENMSG..)?;
    let mut found = NlasIterator::new(attributes).flatten().filter(|nla| nla.kind() == kind);
    found.next().map(|nla| nla.value().to_vec())
}

/// The family of a received message.
pub(crate) fn is_inet(payload: &[u8]) -> bool {
    payload.first() == Some(&NFPROTO_INET)
}

/// The parts of a rule that flock uses.
pub(crate) enum Expression {
    /// The input interface's name into register 1.
    MetaIifname,
    /// The packet's family (AF_INET, AF_INET6) into register 1.
    MetaFamily,
    /// Register 1 begins with these bytes, else the rule ends.
    Equals(Vec<u8>),
    /// The interface by which the source would be routed, if it is the input
    /// interface, else 0, into register 1.
    FibSourceThroughInput,
    /// Part of the network header into register 2.
    Header {
        offset: u32,
        length: u32,
    },
    /// Registers 1 and 2 are in the set, else the rule ends.
    InSet {
        name: &'static str,
        id: u32,
    },
    Counter,
    Drop,
    Return,
    Jump(&'static str),
}

impl Expression {
    /// One element of a rule's list of expressions.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (name, data) = match self {
            Self::MetaIifname => meta(META_IIFNAME),
            Self::MetaFamily => meta(META_NFPROTO),
            Self::Equals(value) => {
                let value = nested(3, &attribute(1, value));
                ("cmp", [number(1, REGISTER_1), number(2, 0), value].concat())
            }
            // Flags: saddr (1) and iif (8); result: oif (1).
            Self::FibSourceThroughInput => {
                ("fib", [number(3, 1 | 8), number(2, 1), number(1, REGISTER_1)].concat())
            }
            Self::Header { offset, length } => {
                let place = [number(2, NETWORK_HEADER), number(3, *offset), number(4, *length)];
                ("payload", [number(1, REGISTER_2), place.concat()].concat())
            }
            Self::InSet { name, id } => {
                ("lookup", [number(2, REGISTER_1), text(1, name), number(4, *id)].concat())
            }
            Self::Counter => ("counter", Vec::new()),
            Self::Drop => verdict(VERDICT_DROP, &[]),
            Self::Return => verdict(VERDICT_RETURN, &[]),
            Self::Jump(chain) => verdict(VERDICT_JUMP, &text(2, chain)),
        };
        nested(
            NFTA_LIST_ELEM,
            &[text(NFTA_EXPR_NAME, name), nested(NFTA_EXPR_DATA, &data)].concat(),
        )
    }
}

fn meta(key: u32) -> (&'static str, Vec<u8>) {
    ("meta", [number(2, key), number(1, REGISTER_1)].concat())
}

fn verdict(code: i32, chain: &[u8]) -> (&'static str, Vec<u8>) {
    let code = attribute(1, &code.to_be_bytes());
    let verdict = nested(2, &nested(2, &[code, chain.to_vec()].concat()));
    ("immediate", [number(1, REGISTER_VERDICT), verdict].concat())
}

/// One command of a transaction.
pub(crate) struct Command {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) attributes: Vec<u8>,
}

impl Command {
    pub(crate) fn new(kind: u16, flags: u16, attributes: Vec<u8>) -> Self {
        Self { kind, flags, attributes }
    }
}

/// All commands or none. Only the last asks for an acknowledgement, and all
/// carry one number: the first thing to come back is the verdict, be it the
/// refusal of any of them or the acknowledgement of all.
pub(crate) fn transact(
    channel: &mut Channel,
    what: &str,
    commands: &[Command],
) -> Result<(), Error> {
    let number = channel.reserve(1);
    let mut bytes = begin(number);
    for (place, command) in commands.iter().enumerate() {
        let ack = if place + 1 == commands.len() { NLM_F_ACK } else { 0 };
        let flags = command.flags | ack | NLM_F_REQUEST;
        bytes.extend(message(command.kind, flags, number, &command.attributes));
    }
    bytes.extend(end(number));
    let answer = channel.exchange(&bytes, number, 1)?.into_iter().next().unwrap_or_default();
    match answer.verdict {
        Some(Err(refusal)) => Err(Error::Kernel { what: what.to_owned(), refusal }),
        _ => Ok(()),
    }
}

/// Asks for one thing; `None` where there is no such thing.
pub(crate) fn look_up(
    channel: &mut Channel,
    what: &str,
    kind: u16,
    attributes: &[u8],
) -> Result<Option<Reply>, Error> {
    let number = channel.reserve(1);
    let bytes = message(kind, NLM_F_REQUEST | NLM_F_ACK, number, attributes);
    let answer = channel.exchange(&bytes, number, 1)?.into_iter().next().unwrap_or_default();
    match answer.verdict {
        Some(Err(refusal)) if refusal.is(Errno::NOENT) => Ok(None),
        Some(Err(refusal)) => Err(Error::Kernel { what: what.to_owned(), refusal }),
        _ => Ok(answer.replies.into_iter().next()),
    }
}

/// Lists things; none where the table itself is not there.
pub(crate) fn list(
    channel: &mut Channel,
    what: &str,
    kind: u16,
    attributes: &[u8],
) -> Result<Vec<Reply>, Error> {
    let listed = channel.consistent(what, |channel| {
        let number = channel.reserve(1);
        let bytes = message(kind, NLM_F_REQUEST | NLM_F_DUMP, number, attributes);
        channel.exchange(&bytes, number, 1)
    });
    match listed {
        Err(Error::Kernel { refusal, .. }) if refusal.is(Errno::NOENT) => Ok(Vec::new()),
        other => other,
    }
}
