//! The few words of nfnetlink that flock speaks.
//!
//! Decides encodings (linux/netfilter/nf_tables.h; numbers in attributes are
//! big-endian) and how a transaction is sent. What rules are made of is found in
//! `expression`, what they say in `rules` and `policy`.

use netlink_packet_core::{NLA_F_NESTED, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NlasIterator};
use rustix::io::Errno;

use crate::channel::Channel;
use crate::error::Error;
use crate::reply::Reply;

pub(crate) const NFT_MSG_NEWTABLE: u16 = 0;
pub(crate) const NFT_MSG_GETTABLE: u16 = 1;
pub(crate) const NFT_MSG_DELTABLE: u16 = 2;
pub(crate) const NFT_MSG_NEWCHAIN: u16 = 3;
pub(crate) const NFT_MSG_GETCHAIN: u16 = 4;
pub(crate) const NFT_MSG_DELCHAIN: u16 = 5;
pub(crate) const NFT_MSG_NEWRULE: u16 = 6;
pub(crate) const NFT_MSG_GETRULE: u16 = 7;
pub(crate) const NFT_MSG_DELRULE: u16 = 8;
pub(crate) const NFT_MSG_NEWSET: u16 = 9;
pub(crate) const NFT_MSG_GETSET: u16 = 10;
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

/// A message of any subsystem of nfnetlink.
pub(crate) fn raw(
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
    value(payload.get(NFGENMSG..)?, kind)
}

/// An attribute's value among others.
pub(crate) fn value(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    let mut all = NlasIterator::new(attributes).flatten();
    all.find(|nla| nla.kind() == kind).map(|nla| nla.value().to_vec())
}

/// The family of a received message.
pub(crate) fn is_inet(payload: &[u8]) -> bool {
    payload.first() == Some(&NFPROTO_INET)
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
        Some(Err(refusal)) => {
            channel.discard();
            Err(Error::Kernel { what: what.to_owned(), refusal })
        }
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
