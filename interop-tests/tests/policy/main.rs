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

use rack::policy::rig::Rig;

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
