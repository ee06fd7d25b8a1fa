//! What is sent to the kernel about the table, each time as one transaction.
//!
//! Decides that all of it is made anew or only elements change, and what
//! counts as all being there. What rules and elements look like is found in
//! the rooms beside.

use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NlasIterator};
use rustix::io::Errno;

use super::rules::{self, CHAINS, FORWARD, Rule};
use super::sets::{self, TABLE};
use super::{Change, Element, Layout, elements};
use crate::channel::Channel;
use crate::error::Error;
use crate::expression::Expression;
use crate::fault;
use crate::nftables::{
    self as nft, Command, NFT_MSG_DELTABLE, NFT_MSG_GETCHAIN, NFT_MSG_GETRULE, NFT_MSG_GETSET,
    NFT_MSG_GETTABLE, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFT_MSG_NEWSET, NFT_MSG_NEWTABLE,
    attribute, nested, number, text,
};

const HOOK_FORWARD: u32 = 2;
/// "filter": behind address translation, so that the destination is the real one.
const PRIORITY_FILTER: u32 = 0;
const ACCEPT: u32 = 1;

const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_FLAGS: u16 = 2;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_RULE_USERDATA: u16 = 7;

/// Makes the table anew with exactly these elements, whatever was there.
pub(crate) fn replace(
    channel: &mut Channel,
    layout: Layout,
    elements: &[Element],
) -> Result<(), Error> {
    let create = |kind, attributes| Command::new(kind, NLM_F_CREATE, attributes);
    // Made first where it is not there, because a removal wants something to remove.
    let mut commands = vec![
        create(NFT_MSG_NEWTABLE, table()),
        Command::new(NFT_MSG_DELTABLE, 0, table()),
        create(NFT_MSG_NEWTABLE, table()),
    ];
    let sets = sets::ALL.iter().zip(1..);
    commands.extend(sets.map(|(set, id)| create(NFT_MSG_NEWSET, set.describe(id))));
    commands.extend(CHAINS.iter().map(|name| create(NFT_MSG_NEWCHAIN, chain(name))));
    commands.extend(
        rules::all(layout)
            .iter()
            .map(|rule| Command::new(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, describe(rule))),
    );
    commands.extend(elements::all(elements)?);
    fault::point("policy.replace")?;
    nft::transact(channel, &format!("make nftables table inet {TABLE} anew"), &commands)
}

/// Carries out a change, all of it or nothing.
pub(crate) fn change(channel: &mut Channel, change: &Change) -> Result<(), Error> {
    let commands = elements::changed(change)?;
    if commands.is_empty() {
        return Ok(());
    }
    fault::point("policy.change")?;
    let what = format!("change elements of nftables table inet {TABLE}");
    match nft::transact(channel, &what, &commands) {
        // An element that is not there, or all of it.
        Err(Error::Kernel { refusal, .. })
            if refusal.is(Errno::NOENT) && !sets_present(channel)? =>
        {
            Err(Error::PolicyGone)
        }
        other => other,
    }
}

/// Removes the table; absent is success.
pub(crate) fn remove(channel: &mut Channel) -> Result<(), Error> {
    let what = format!("remove nftables table inet {TABLE}");
    match nft::transact(channel, &what, &[Command::new(NFT_MSG_DELTABLE, 0, table())]) {
        Err(Error::Kernel { refusal, .. }) if refusal.is(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Whether all is as [`replace`] leaves it, but for elements.
pub(crate) fn present(channel: &mut Channel, layout: Layout) -> Result<bool, Error> {
    Ok(is_awake(channel)?
        && is_hooked(channel)?
        && sets_present(channel)?
        && rules_present(channel, layout)?)
}

/// Whether the table is there and none that sleeps (`flags dormant`).
fn is_awake(channel: &mut Channel) -> Result<bool, Error> {
    let found = nft::look_up(channel, "look up a nftables table", NFT_MSG_GETTABLE, &table())?;
    Ok(found.is_some_and(|found| {
        let flags = nft::find(&found.payload, NFTA_TABLE_FLAGS);
        flags.is_none_or(|flags| flags.iter().all(|byte| *byte == 0))
    }))
}

fn is_hooked(channel: &mut Channel) -> Result<bool, Error> {
    let place = chain_place(FORWARD);
    let found = nft::look_up(channel, "look up a nftables chain", NFT_MSG_GETCHAIN, &place)?;
    let Some(found) = found else { return Ok(false) };
    let Some(hook) = nft::find(&found.payload, NFTA_CHAIN_HOOK) else { return Ok(false) };
    let says = |kind, wanted: u32| {
        let mut all = NlasIterator::new(hook.as_slice()).flatten();
        all.any(|nla| nla.kind() == kind && nla.value() == wanted.to_be_bytes())
    };
    let policy = nft::find(&found.payload, NFTA_CHAIN_POLICY);
    Ok(says(NFTA_HOOK_HOOKNUM, HOOK_FORWARD)
        && says(NFTA_HOOK_PRIORITY, PRIORITY_FILTER)
        && policy == Some(ACCEPT.to_be_bytes().to_vec()))
}

fn sets_present(channel: &mut Channel) -> Result<bool, Error> {
    let what = "list nftables sets";
    let listed = nft::list(channel, what, NFT_MSG_GETSET, &sets::place_of_all())?;
    let mut found: Vec<_> = listed.iter().filter_map(|set| sets::read(&set.payload)).collect();
    let mut wanted: Vec<_> =
        sets::ALL.iter().map(|set| (terminated(set.name), set.shape())).collect();
    found.sort();
    wanted.sort();
    Ok(found == wanted)
}

fn rules_present(channel: &mut Channel, layout: Layout) -> Result<bool, Error> {
    let place = text(NFTA_RULE_TABLE, TABLE);
    let listed = nft::list(channel, "list nftables rules", NFT_MSG_GETRULE, &place)?;
    let mut found: Vec<_> = listed
        .iter()
        .filter(|rule| nft::find(&rule.payload, NFTA_RULE_TABLE) == Some(terminated(TABLE)))
        .map(|rule| {
            let value = |kind| nft::find(&rule.payload, kind).unwrap_or_default();
            (value(NFTA_RULE_CHAIN), value(NFTA_RULE_USERDATA))
        })
        .collect();
    let mut wanted: Vec<_> = rules::all(layout)
        .iter()
        .map(|rule| (terminated(rule.chain), nft::comment(&rule.comment)))
        .collect();
    // Chains may come in any order, the rules of one may not.
    found.sort_by(|one, other| one.0.cmp(&other.0));
    wanted.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found == wanted)
}

/// A name as the kernel says it.
fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

fn table() -> Vec<u8> {
    text(NFTA_TABLE_NAME, TABLE)
}

fn chain_place(name: &str) -> Vec<u8> {
    [text(NFTA_CHAIN_TABLE, TABLE), text(NFTA_CHAIN_NAME, name)].concat()
}

fn chain(name: &str) -> Vec<u8> {
    if name != FORWARD {
        return chain_place(name);
    }
    let hook =
        [number(NFTA_HOOK_HOOKNUM, HOOK_FORWARD), number(NFTA_HOOK_PRIORITY, PRIORITY_FILTER)];
    [
        chain_place(name),
        nested(NFTA_CHAIN_HOOK, &hook.concat()),
        number(NFTA_CHAIN_POLICY, ACCEPT),
        text(NFTA_CHAIN_TYPE, "filter"),
    ]
    .concat()
}

fn describe(rule: &Rule) -> Vec<u8> {
    let expressions: Vec<u8> = rule.expressions.iter().flat_map(Expression::encode).collect();
    [
        text(NFTA_RULE_TABLE, TABLE),
        text(NFTA_RULE_CHAIN, rule.chain),
        nested(NFTA_RULE_EXPRESSIONS, &expressions),
        attribute(NFTA_RULE_USERDATA, &nft::comment(&rule.comment)),
    ]
    .concat()
}
