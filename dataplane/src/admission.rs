//! Which anycast sources a pod may use, as two nftables sets.
//!
//! Decides (interface, address) pairs for a pod's anycast addresses. The
//! routing table cannot answer for them: a pod that is not Ready has no
//! anycast route but may still finish its connections, and for a multipath
//! IPv6 route the kernel's fib expression looks at one next hop only. Pods
//! without anycast have nothing here. A pod's pairs go when its link is
//! retired; those of links that went without that are pruned when the node is
//! prepared.

use std::collections::HashSet;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NlasIterator};
use rustix::io::Errno;

use crate::channel::Channel;
use crate::error::Error;
use crate::nftables::{
    self as nft, Command, NFT_MSG_DELSETELEM, NFT_MSG_GETSETELEM, NFT_MSG_NEWSETELEM,
    NFTA_LIST_ELEM, attribute, nested, number, text, value,
};
use crate::rules::{self, TABLE};

/// Elements in one message: all are inside one attribute, whose length is 16
/// bits, so that some 1,400 would be too many.
const ELEMENTS: usize = 256;

/// The kernel's IFNAMSIZ: an interface's name in a key, padded with zeros.
const NAME: usize = 16;

const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_TYPE: u16 = 4;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_ID: u16 = 10;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_DATA_VALUE: u16 = 1;

/// One family's set.
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) family: u8,
    /// Names the set inside the transaction that makes it.
    pub(crate) id: u32,
    /// Where the source address is in the network header.
    pub(crate) source_offset: u32,
    pub(crate) address_length: u32,
    /// `ifname . ipv4_addr` or `ifname . ipv6_addr`, for `nft` to read.
    key_type: u32,
}

const SET6: Set = Set {
    name: "anycast6",
    family: 10,
    id: 1,
    source_offset: 8,
    address_length: 16,
    key_type: 41 << 6 | 8,
};

const SET4: Set = Set {
    name: "anycast4",
    family: 2,
    id: 2,
    source_offset: 12,
    address_length: 4,
    key_type: 41 << 6 | 7,
};

pub(crate) const SETS: [Set; 2] = [SET6, SET4];

/// The attributes that make a set.
pub(crate) fn new_set(set: &Set) -> Vec<u8> {
    let length = u32::try_from(NAME).unwrap_or_default() + set.address_length;
    [
        text(NFTA_SET_TABLE, TABLE),
        text(NFTA_SET_NAME, set.name),
        number(NFTA_SET_FLAGS, 0),
        number(NFTA_SET_KEY_TYPE, set.key_type),
        number(NFTA_SET_KEY_LEN, length),
        number(NFTA_SET_ID, set.id),
    ]
    .concat()
}

/// Lets these sources through from that interface.
pub(crate) fn admit(ifname: &str, addresses: &[IpAddr]) -> Result<(), Error> {
    if addresses.is_empty() {
        return Ok(());
    }
    let mut channel = Channel::netfilter()?;
    let what = format!("admit anycast sources from {ifname}");
    let commands = change(NFT_MSG_NEWSETELEM, NLM_F_CREATE, ifname, addresses);
    match nft::transact(&mut channel, &what, &commands) {
        // No table yet, or no longer: it is made as at the node's start.
        Err(Error::Kernel { refusal, .. }) if refusal.is(Errno::NOENT) => {
            rules::install()?;
            nft::transact(&mut channel, &what, &commands)
        }
        other => other,
    }
}

/// No longer lets them through. All at once; only where a pair is not there,
/// which keeps the others, one by one.
pub(crate) fn revoke(ifname: &str, addresses: &[IpAddr]) -> Result<(), Error> {
    if addresses.is_empty() {
        return Ok(());
    }
    let mut channel = Channel::netfilter()?;
    if remove(&mut channel, ifname, addresses)? {
        return Ok(());
    }
    for address in addresses {
        remove(&mut channel, ifname, &[*address])?;
    }
    Ok(())
}

/// Removes all of the pairs, or none: false where one of them is not there.
fn remove(channel: &mut Channel, ifname: &str, addresses: &[IpAddr]) -> Result<bool, Error> {
    let what = format!("revoke anycast sources from {ifname}");
    let commands = change(NFT_MSG_DELSETELEM, 0, ifname, addresses);
    match nft::transact(channel, &what, &commands) {
        Ok(()) => Ok(true),
        Err(Error::Kernel { refusal, .. }) if refusal.is(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Those of the addresses that are not let through.
pub(crate) fn not_admitted(ifname: &str, addresses: &[IpAddr]) -> Result<Vec<IpAddr>, Error> {
    let mut missing = Vec::new();
    if addresses.is_empty() {
        return Ok(missing);
    }
    let mut channel = Channel::netfilter()?;
    for address in addresses {
        let what = format!("look up anycast source {address} from {ifname}");
        let place = elements(set_of(*address), &[key(ifname.as_bytes(), *address)]);
        if nft::look_up(&mut channel, &what, NFT_MSG_GETSETELEM, &place)?.is_none() {
            missing.push(*address);
        }
    }
    Ok(missing)
}

/// Clears the pairs of interfaces that are not among these.
pub(crate) fn prune(keep: &HashSet<String>) -> Result<(), Error> {
    let mut channel = Channel::netfilter()?;
    for set in &SETS {
        let stale: Vec<Vec<u8>> =
            keys(&mut channel, set)?.into_iter().filter(|key| !keep.contains(&name(key))).collect();
        if stale.is_empty() {
            continue;
        }
        let commands = in_parts(NFT_MSG_DELSETELEM, 0, set, &stale);
        nft::transact(&mut channel, "clear anycast sources of links that are gone", &commands)?;
    }
    Ok(())
}

fn keys(channel: &mut Channel, set: &Set) -> Result<Vec<Vec<u8>>, Error> {
    let listed = nft::list(channel, "list anycast sources", NFT_MSG_GETSETELEM, &set_place(set))?;
    let mut keys = Vec::new();
    for reply in &listed {
        let Some(elements) = nft::find(&reply.payload, NFTA_SET_ELEM_LIST_ELEMENTS) else {
            continue;
        };
        keys.extend(NlasIterator::new(elements.as_slice()).flatten().filter_map(|element| {
            let key = value(element.value(), NFTA_SET_ELEM_KEY)?;
            value(&key, NFTA_DATA_VALUE)
        }));
    }
    Ok(keys)
}

fn change(kind: u16, flags: u16, ifname: &str, addresses: &[IpAddr]) -> Vec<Command> {
    let mut commands = Vec::new();
    for set in &SETS {
        let keys: Vec<Vec<u8>> = addresses
            .iter()
            .filter(|address| set_of(**address).name == set.name)
            .map(|address| key(ifname.as_bytes(), *address))
            .collect();
        commands.extend(in_parts(kind, flags, set, &keys));
    }
    commands
}

fn in_parts(kind: u16, flags: u16, set: &Set, keys: &[Vec<u8>]) -> Vec<Command> {
    let parts = keys.chunks(ELEMENTS);
    parts.map(|keys| Command::new(kind, flags, elements(set, keys))).collect()
}

fn set_of(address: IpAddr) -> &'static Set {
    if address.is_ipv6() { &SET6 } else { &SET4 }
}

fn set_place(set: &Set) -> Vec<u8> {
    [text(NFTA_SET_ELEM_LIST_TABLE, TABLE), text(NFTA_SET_ELEM_LIST_SET, set.name)].concat()
}

fn elements(set: &Set, keys: &[Vec<u8>]) -> Vec<u8> {
    let list: Vec<u8> = keys
        .iter()
        .flat_map(|key| {
            let key = nested(NFTA_SET_ELEM_KEY, &attribute(NFTA_DATA_VALUE, key));
            nested(NFTA_LIST_ELEM, &key)
        })
        .collect();
    [set_place(set), nested(NFTA_SET_ELEM_LIST_ELEMENTS, &list)].concat()
}

fn key(ifname: &[u8], address: IpAddr) -> Vec<u8> {
    let mut key = ifname.to_vec();
    key.resize(NAME, 0);
    match address {
        IpAddr::V4(address) => key.extend(address.octets()),
        IpAddr::V6(address) => key.extend(address.octets()),
    }
    key
}

fn name(key: &[u8]) -> String {
    let name = key.iter().take(NAME).take_while(|byte| **byte != 0).copied().collect();
    String::from_utf8(name).unwrap_or_default()
}
