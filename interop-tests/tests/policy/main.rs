//! NetworkPolicy with real packets: each feature of the API in force on two nodes, everybody with
//! everybody over both families, TCP, UDP, SCTP and ICMP, held against an oracle that knows nothing of
//! the agent. What a person expects of a set of policies is written beside it, and the oracle has to say
//! the same before any packet is sent.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

mod addresses;
mod blocks;
mod isolation;
mod ports;
mod random;
mod selectors;
mod services;

use rack::policy::judge::{Case, USUAL};
use rack::policy::oracle::Verdict;
use rack::policy::people::Home;
use rack::policy::rig::Rig;
use rack::policy::round::Outcome;

/// Policies by `NAMESPACE/NAME` with their specs, under the name of what they show, and what is expected
/// of them.
type Set = (&'static str, &'static [(&'static str, &'static str)], &'static str);

/// Plays sets one after the other in a rig of their own, and afterwards none: everything is open then.
fn play(sets: &[Set]) {
    let mut rig = Rig::start().unwrap();
    play_in(&mut rig, sets);
}

fn play_in(rig: &mut Rig, sets: &[Set]) {
    for (name, policies, lines) in sets {
        rig.try_set(name, policies, lines).unwrap_or_else(|error| panic!("{error:#}"));
    }
    rig.try_set("nothing any more", &[], "").unwrap_or_else(|error| panic!("{error:#}"));
}

/// Without a policy every case is answered, and by who was asked: the rig itself is right.
#[test]
fn without_policies_everything_is_open() {
    let mut rig = Rig::start().unwrap();
    let cases = rig.try_set("nothing", &[], "").unwrap_or_else(|error| panic!("{error:#}"));
    assert!(cases >= 1000, "{cases} cases");
}

/// The rig sees what somebody drops, and nothing else.
#[test]
fn a_drop_is_seen() {
    let rig = Rig::start().unwrap();
    let node = rig.node(Home::A).netns();
    let db = rig.spot("back/db-1").unwrap();
    node.exec("nft", &["add", "table", "inet", "mine"]).unwrap();
    let chain = "{ type filter hook forward priority 0 ; }";
    node.exec("nft", &["add", "chain", "inet", "mine", "forward", chain]).unwrap();
    for (family, address) in ["ip", "ip6"].iter().zip(db.addresses) {
        let rule = format!("add rule inet mine forward {family} daddr {address} th dport 80 drop");
        node.exec("nft", &rule.split(' ').collect::<Vec<_>>()).unwrap();
    }
    let cases = rig.everybody(&USUAL);
    let dropped = |case: &Case<'_>| {
        let forwarded = !["node-a", "back/db-1"].contains(&case.from.name.as_str());
        case.to.name == "back/db-1" && case.port == 80 && forwarded
    };
    let verdicts: Vec<_> = cases
        .iter()
        .map(|case| Verdict { allowed: !dropped(case), reason: String::new() })
        .collect();
    let outcomes = rig.send(&cases, &verdicts).unwrap();
    for (case, outcome) in cases.iter().zip(&outcomes) {
        match dropped(case) {
            true => assert_eq!(*outcome, Outcome::Silent, "{case}"),
            false => assert!(matches!(outcome, Outcome::Answered(_)), "{case}: {outcome:?}"),
        }
    }
    let silent = outcomes.iter().filter(|outcome| **outcome == Outcome::Silent).count();
    assert!(silent >= 30, "{silent} of {}", outcomes.len());
}
