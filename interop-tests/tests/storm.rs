//! The storm itself: does it count right? Where these fail, no claim about lost
//! packets is worth anything.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::net::IpAddr;

use rack::link::{End, connect};
use rack::netns::Netns;
use rack::storm::Storm;
use serde_json::Value;

const SENDER: [&str; 2] = ["2001:db8:1::1/64", "192.0.2.1/24"];
const ANSWERER: [&str; 4] =
    ["2001:db8:1::2/64", "192.0.2.2/24", "2001:db8:1::3/64", "192.0.2.3/24"];

fn pair() -> (Netns, Netns) {
    let (sender, answerer) = (Netns::new("sender").unwrap(), Netns::new("answerer").unwrap());
    let near = End { netns: &sender, ifname: "eth0", addresses: &SENDER };
    connect(near, End { netns: &answerer, ifname: "eth0", addresses: &ANSWERER }).unwrap();
    (sender, answerer)
}

fn targets() -> [IpAddr; 4] {
    ANSWERER.map(|address| address.split('/').next().unwrap().parse().unwrap())
}

/// Puts rules into a chain of the namespace.
fn filter(netns: &Netns, hook: &str, rules: &[&str]) {
    let chain = format!("{{ type filter hook {hook} priority 0; }}");
    netns.exec("nft", &["add", "table", "inet", "test"]).unwrap();
    netns.exec("nft", &["add", "chain", "inet", "test", "test", &chain]).unwrap();
    for rule in rules {
        netns.exec("nft", &["add", "rule", "inet", "test", "test", rule]).unwrap();
    }
}

/// What the counters of the rules say, in their order.
fn counted(netns: &Netns) -> Vec<u64> {
    let shown = netns.exec("nft", &["-j", "list", "table", "inet", "test"]).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let rules = shown["nftables"].as_array().unwrap().iter();
    let expressions = rules.filter_map(|entry| entry.pointer("/rule/expr")?.as_array());
    let counter =
        |list: &Vec<Value>| list.iter().find_map(|one| one["counter"]["packets"].as_u64());
    expressions.map(|list| counter(list).unwrap()).collect()
}

#[test]
fn where_nothing_is_lost_every_probe_is_answered_once() {
    let (sender, _answerer) = pair();
    let storm = Storm::start(&sender, &targets(), 4000).unwrap();
    storm.await_answers(1000).unwrap();
    let outcome = storm.stop().unwrap();
    outcome.ensure_perfect().unwrap();
    assert!(outcome.sent() >= 4000, "{outcome}");
    assert_eq!(outcome.longest_loss(), 0, "{outcome}");
    let most = outcome.targets.iter().map(|tally| tally.sent).max().unwrap();
    let least = outcome.targets.iter().map(|tally| tally.sent).min().unwrap();
    assert!(most - least <= 1, "the targets take turns: {outcome}");
}

#[test]
fn what_a_filter_drops_is_what_is_lost() {
    let (sender, answerer) = pair();
    filter(
        &answerer,
        "input",
        &[
            "ip daddr 192.0.2.2 icmp type echo-request numgen inc mod 5 0 counter drop",
            "ip6 daddr 2001:db8:1::2 icmpv6 type echo-request numgen inc mod 3 0 counter drop",
        ],
    );
    let storm = Storm::start(&sender, &targets(), 2000).unwrap();
    storm.await_answers(300).unwrap();
    let outcome = storm.stop().unwrap();
    let [four, six] = counted(&answerer)[..] else { panic!("two rules") };
    assert!(four > 50 && six > 50, "the filter dropped {four} and {six}");
    let [six_2, four_2, six_3, four_3] = targets().map(|target| outcome.of(target).unwrap());
    assert_eq!((four_2.lost, six_2.lost), (four, six), "{outcome}");
    assert_eq!((four_3.lost, six_3.lost), (0, 0), "{outcome}");
    assert_eq!((four_2.longest_loss, six_2.longest_loss), (1, 1), "{outcome}");
    assert_eq!(outcome.answered() + outcome.lost(), outcome.sent());
    assert_eq!((outcome.duplicates(), outcome.strange), (0, 0), "{outcome}");
}

#[test]
fn an_outage_is_a_gap_and_a_row_of_losses() {
    let (sender, answerer) = pair();
    let storm = Storm::start(&sender, &targets(), 2000).unwrap();
    storm.await_answers(50).unwrap();
    filter(&answerer, "input", &["meta l4proto { icmp, icmpv6 } counter drop"]);
    storm.await_sent(500).unwrap();
    answerer.exec("nft", &["flush", "ruleset"]).unwrap();
    storm.await_answers(50).unwrap();
    let outcome = storm.stop().unwrap();
    for tally in &outcome.targets {
        assert!(tally.lost >= 490 && tally.longest_loss == tally.lost, "{outcome}");
        // 500 turns of four probes at 2000 a second; the receiver may have been late.
        assert!(tally.longest_gap.as_millis() >= 250, "{outcome}");
    }
}

#[test]
fn answers_that_come_twice_are_told_apart_from_answers() {
    let (sender, answerer) = pair();
    let dup = "icmp type echo-reply counter dup to 192.0.2.1 device eth0";
    answerer.exec("nft", &["add", "table", "ip", "test"]).unwrap();
    let chain = "{ type filter hook output priority 0; }";
    answerer.exec("nft", &["add", "chain", "ip", "test", "test", chain]).unwrap();
    answerer.exec("nft", &["add", "rule", "ip", "test", "test", dup]).unwrap();
    let storm = Storm::start(&sender, &targets()[1..2], 1000).unwrap();
    storm.await_answers(200).unwrap();
    let outcome = storm.stop().unwrap();
    assert_eq!(outcome.lost(), 0, "{outcome}");
    // The copy of the very last answer may come after the storm has gone.
    let (answered, twice) = (outcome.answered(), outcome.duplicates());
    assert!(twice == answered || twice + 1 == answered, "{outcome}");
}

#[test]
fn a_probe_that_cannot_leave_is_lost_and_the_reason_is_told() {
    let (sender, _answerer) = pair();
    let reached: IpAddr = targets()[0];
    let nowhere: IpAddr = "198.51.100.1".parse().unwrap();
    let storm = Storm::start(&sender, &[reached, nowhere], 1000).unwrap();
    storm.await_sent(100).unwrap();
    let outcome = storm.stop().unwrap();
    let tally = outcome.of(nowhere).unwrap();
    assert_eq!((tally.lost, tally.refused, tally.answered), (tally.sent, tally.sent, 0));
    assert_eq!(outcome.of(reached).unwrap().lost, 0, "{outcome}");
    let reason = outcome.refusal.unwrap();
    assert!(reason.contains("198.51.100.1") && reason.contains("unreachable"), "{reason}");
}

#[test]
fn two_storms_from_one_place_do_not_hear_each_other() {
    let (sender, _answerer) = pair();
    let storms = [(); 2].map(|()| Storm::start(&sender, &targets(), 1000).unwrap());
    for storm in &storms {
        storm.await_answers(100).unwrap();
    }
    for storm in storms {
        storm.stop().unwrap().ensure_perfect().unwrap();
    }
}

#[test]
fn the_source_is_what_was_asked_for() {
    let (sender, answerer) = pair();
    sender.ip("address add 2001:db8:1::9/64 dev eth0 nodad").unwrap();
    sender.ip("address add 192.0.2.9/24 dev eth0").unwrap();
    filter(
        &answerer,
        "input",
        &[
            "ip saddr != 192.0.2.9 icmp type echo-request counter drop",
            "ip6 saddr != 2001:db8:1::9 icmpv6 type echo-request counter drop",
        ],
    );
    let sources = ["2001:db8:1::9".parse().unwrap(), "192.0.2.9".parse().unwrap()];
    let storm = Storm::start_from(&sender, &sources, &targets(), 1000).unwrap();
    storm.await_answers(50).unwrap();
    storm.stop().unwrap().ensure_perfect().unwrap();
    let nobodys = ["2001:db8:9::9".parse().unwrap()];
    let refused = Storm::start_from(&sender, &nobodys, &targets(), 1000).unwrap_err();
    assert!(format!("{refused:#}").contains("2001:db8:9::9"), "{refused:#}");
}
