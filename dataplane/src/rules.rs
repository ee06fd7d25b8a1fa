//! "A pod may only send from its own addresses", as nftables rules.
//!
//! Decides the table `inet flock` and two chains in it. `antispoof`
//! (prerouting, before conntrack) asks the routing table: what comes from a
//! pod's link and has a source that the node would not route back out of
//! that same link jumps to `forged`. It follows the host routes by itself, so
//! that a pod costs nothing here. `forged` lets anycast sources through (see
//! `admission`) and drops the rest, counted. Only these two chains and two
//! sets are touched; whatever else is in the table is others'.

use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NlasIterator};

use crate::admission::{SETS, new_set};
use crate::channel::Channel;
use crate::error::Error;
use crate::expression::{Base, Expression, Meta, Register};
use crate::nftables::{
    self as nft, Command, NFT_MSG_DELCHAIN, NFT_MSG_DELRULE, NFT_MSG_GETCHAIN, NFT_MSG_GETRULE,
    NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFT_MSG_NEWSET, NFT_MSG_NEWTABLE, attribute, nested, number,
    text,
};
use crate::reply::Reply;

pub(crate) const TABLE: &str = "flock";
/// The chain on the hook, and the one that it jumps to.
pub(crate) const CHAINS: [&str; 2] = [ANTISPOOF, FORGED];
const ANTISPOOF: &str = "antispoof";
const FORGED: &str = "forged";

/// Says in `nft list ruleset` whose a rule is, and to us that it is there;
/// raised when the meaning of any of them changes.
const COMMENT: &str = "flock: only a pod's own addresses (1)";

const FIRST: Register = Register(0);
/// A name takes four.
const BEHIND_NAME: Register = Register(4);

const PREROUTING: u32 = 0;
/// "raw": before conntrack spends anything on a forged packet.
const PRIORITY_RAW: i32 = -300;
const ACCEPT: u32 = 1;

const NFTA_TABLE_NAME: u16 = 1;
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

/// Installs the rules where they are not as they should be, in one
/// transaction. Where they are, nothing is changed: a change is an event, and
/// whoever watches for their removal would be told that they went and came.
pub(crate) fn install() -> Result<(), Error> {
    let mut channel = Channel::netfilter()?;
    let chain = find_chain(&mut channel)?;
    let hooked = chain.as_ref().is_some_and(is_hooked);
    if hooked && are_held(&mut channel)? {
        return Ok(());
    }
    let create = |kind, attributes| Command::new(kind, NLM_F_CREATE, attributes);
    let mut commands = vec![
        create(NFT_MSG_NEWTABLE, text(NFTA_TABLE_NAME, TABLE)),
        create(NFT_MSG_NEWCHAIN, chain_place(FORGED)),
    ];
    commands.extend(SETS.iter().map(|set| create(NFT_MSG_NEWSET, new_set(set))));
    if chain.is_some() {
        commands.push(Command::new(NFT_MSG_DELRULE, 0, rule_place(ANTISPOOF)));
    }
    if chain.is_some() && !hooked {
        commands.push(Command::new(NFT_MSG_DELCHAIN, 0, chain_place(ANTISPOOF)));
    }
    if !hooked {
        let attributes = [chain_place(ANTISPOOF), chain_hook()].concat();
        commands.push(create(NFT_MSG_NEWCHAIN, attributes));
    }
    commands.push(Command::new(NFT_MSG_DELRULE, 0, rule_place(FORGED)));
    let rules = forged().into_iter().map(|rule| (FORGED, rule)).chain([(ANTISPOOF, antispoof())]);
    commands.extend(rules.map(|(chain, rule)| {
        Command::new(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, encode(chain, &rule))
    }));
    nft::transact(&mut channel, &format!("install nftables table inet {TABLE}"), &commands)
}

/// Whether the rules are as [`install`] would leave them.
pub(crate) fn present() -> Result<bool, Error> {
    let mut channel = Channel::netfilter()?;
    let hooked = find_chain(&mut channel)?.as_ref().is_some_and(is_hooked);
    Ok(hooked && are_held(&mut channel)?)
}

fn find_chain(channel: &mut Channel) -> Result<Option<Reply>, Error> {
    let what = format!("look up nftables chain {ANTISPOOF}");
    nft::look_up(channel, &what, NFT_MSG_GETCHAIN, &chain_place(ANTISPOOF))
}

fn are_held(channel: &mut Channel) -> Result<bool, Error> {
    Ok(holds(channel, ANTISPOOF, 1)? && holds(channel, FORGED, forged().len())?)
}

/// `iifname "flock*" fib saddr . iif oif 0 jump forged`
fn antispoof() -> Vec<Expression> {
    vec![
        Expression::Meta { what: Meta::InputName, to: FIRST },
        Expression::Equals { from: FIRST, value: b"flock".to_vec() },
        Expression::FibSourceThroughInput { to: FIRST },
        Expression::Equals { from: FIRST, value: vec![0; 4] },
        Expression::Jump(FORGED),
    ]
}

/// `iifname . ip6 saddr @anycast6 return`, the same for IPv4, `counter drop`
fn forged() -> Vec<Vec<Expression>> {
    let mut rules: Vec<Vec<Expression>> = SETS
        .iter()
        .map(|set| {
            vec![
                Expression::Meta { what: Meta::Family, to: FIRST },
                Expression::Equals { from: FIRST, value: vec![set.family] },
                Expression::Meta { what: Meta::InputName, to: FIRST },
                Expression::Header {
                    base: Base::Network,
                    offset: set.source_offset,
                    length: set.address_length,
                    to: BEHIND_NAME,
                },
                Expression::InSet { name: set.name, from: FIRST },
                Expression::Return,
            ]
        })
        .collect();
    rules.push(vec![Expression::Counter, Expression::Drop]);
    rules
}

fn encode(chain: &str, expressions: &[Expression]) -> Vec<u8> {
    let expressions: Vec<u8> = expressions.iter().flat_map(Expression::encode).collect();
    [
        rule_place(chain),
        nested(NFTA_RULE_EXPRESSIONS, &expressions),
        attribute(NFTA_RULE_USERDATA, &nft::comment(COMMENT)),
    ]
    .concat()
}

fn is_hooked(chain: &Reply) -> bool {
    let Some(hook) = nft::find(&chain.payload, NFTA_CHAIN_HOOK) else { return false };
    let value = |kind| {
        NlasIterator::new(hook.as_slice())
            .flatten()
            .find(|nla| nla.kind() == kind)
            .and_then(|nla| nla.value().first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes)))
    };
    value(NFTA_HOOK_HOOKNUM) == i32::try_from(PREROUTING).ok()
        && value(NFTA_HOOK_PRIORITY) == Some(PRIORITY_RAW)
}

/// Whether a chain holds `count` rules of ours and nothing else.
fn holds(channel: &mut Channel, chain: &str, count: usize) -> Result<bool, Error> {
    let rules = nft::list(channel, "list nftables rules", NFT_MSG_GETRULE, &rule_place(chain))?;
    let comment = Some(nft::comment(COMMENT));
    let ours = rules.iter().all(|rule| nft::find(&rule.payload, NFTA_RULE_USERDATA) == comment);
    Ok(ours && rules.len() == count)
}

fn chain_place(chain: &str) -> Vec<u8> {
    [text(NFTA_CHAIN_TABLE, TABLE), text(NFTA_CHAIN_NAME, chain)].concat()
}

fn chain_hook() -> Vec<u8> {
    let hook = [
        number(NFTA_HOOK_HOOKNUM, PREROUTING),
        attribute(NFTA_HOOK_PRIORITY, &PRIORITY_RAW.to_be_bytes()),
    ];
    [
        nested(NFTA_CHAIN_HOOK, &hook.concat()),
        number(NFTA_CHAIN_POLICY, ACCEPT),
        text(NFTA_CHAIN_TYPE, "filter"),
    ]
    .concat()
}

fn rule_place(chain: &str) -> Vec<u8> {
    [text(NFTA_RULE_TABLE, TABLE), text(NFTA_RULE_CHAIN, chain)].concat()
}
