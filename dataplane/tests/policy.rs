//! The policy's table is made, changed and removed as a whole, and nothing else is touched.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use flock_dataplane::policy::{Change, Direction, Dropped, Element, Layout, Ports};
use flock_dataplane::{Dataplane, Error, NodeSettings};
use lab::policy::{TCP, UDP, allowed, block, egress, ingress, member, members, own, range, some};
use lab::{Space, on_node};

const LAYOUT: Layout = Layout { log_drops: false };

const GARBAGE: &str = "
    table inet flock-policy {
        flags dormant
        set allowed { type ipv4_addr; elements = { 1.2.3.4 } }
        chain mine { counter; }
        chain forward { type filter hook input priority 7; policy drop; ip saddr @allowed jump mine; }
    }";

/// Other tables, also of names like ours.
const FOREIGN: &str = "
    table ip flock-policy { chain forward { type filter hook forward priority 0; counter; }; }
    table inet flock-policy2 {
        set allowed { type ipv4_addr; elements = { 1.2.3.4 } }
        chain forward { type filter hook forward priority 0; ip saddr @allowed accept; }
    }";

fn table(node: &Space) -> String {
    node.nft("list table inet flock-policy")
}

/// The same in an order that does not depend on when what came.
fn content(node: &Space) -> Vec<String> {
    let table = table(node);
    let words = table.split([',', '\n', '{', '}', '=']).map(|word| word.trim().to_owned());
    let mut words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    words.sort();
    words
}

fn tables(node: &Space) -> Vec<String> {
    let listed = node.nft("list tables");
    listed.lines().map(str::to_owned).collect()
}

/// The elements that are gone, and those that come for them.
fn instead(removed: Vec<Element>, added: Vec<Element>) -> Change {
    Change { removed, added }
}

#[test]
fn it_is_made_from_nothing_and_over_anything() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        assert!(!dataplane.policy_present(LAYOUT).await.unwrap());
        dataplane.replace_policy(some(), LAYOUT).await.unwrap();
        assert!(dataplane.policy_present(LAYOUT).await.unwrap());
        let made = table(&node);
        for said in [
            "\"flock00000001\" : 0x00000002",
            "10.1.0.0/24 : 0x00000003, 10.1.1.0/24 : 0x00000004",
            "240.0.0.0/4 : 0x00000004",
            "tcp . 100-200",
            "tcp . 201-65535",
            "0x00000003 . 0x00000002 . 0x00000002 . tcp . 80",
            "type filter hook forward priority filter; policy accept;",
        ] {
            assert!(made.contains(said), "{said} is not in {made}");
        }
        let made = content(&node);
        // The same again, and less; whatever came between.
        for before in ["", "flush table inet flock-policy", "delete table inet flock-policy"] {
            if !before.is_empty() {
                node.nft(before);
                assert!(!dataplane.policy_present(LAYOUT).await.unwrap(), "{before}");
            }
            dataplane.replace_policy(some(), LAYOUT).await.unwrap();
            assert_eq!(content(&node), made, "after {before:?}");
        }
        dataplane.replace_policy(Vec::new(), LAYOUT).await.unwrap();
        assert!(dataplane.policy_present(LAYOUT).await.unwrap());
        assert!(!table(&node).contains("elements"));
        node.nft("delete table inet flock-policy");
        node.nft(GARBAGE);
        assert!(!dataplane.policy_present(LAYOUT).await.unwrap());
        dataplane.replace_policy(some(), LAYOUT).await.unwrap();
        assert_eq!(content(&node), made);
        // Another layout is not this one.
        let logs = Layout { log_drops: true };
        assert!(!dataplane.policy_present(logs).await.unwrap());
        dataplane.replace_policy(some(), logs).await.unwrap();
        assert!(dataplane.policy_present(logs).await.unwrap());
        assert!(!dataplane.policy_present(LAYOUT).await.unwrap());
        // And every way of looking at it works.
        for command in ["list ruleset", "-j list ruleset", "-a list ruleset", "-n list ruleset"] {
            node.exec(&format!("nft {command}"));
        }
    });
}

#[test]
fn whatever_is_not_as_it_was_made_is_seen() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        for command in [
            "add table inet flock-policy { flags dormant; }",
            "add chain inet flock-policy forward { policy drop; }",
            "add rule inet flock-policy forward accept",
            "insert rule inet flock-policy ingress4 accept",
            "flush chain inet flock-policy egress-anybody",
            "flush chain inet flock-policy forward",
            "add set inet flock-policy more { type ipv4_addr; }",
            "delete table inet flock-policy",
        ] {
            dataplane.replace_policy(some(), LAYOUT).await.unwrap();
            assert!(dataplane.policy_present(LAYOUT).await.unwrap());
            node.nft(command);
            assert!(!dataplane.policy_present(LAYOUT).await.unwrap(), "{command}");
        }
    });
}

#[test]
fn elements_come_and_go() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.replace_policy(Vec::new(), LAYOUT).await.unwrap();
        let empty = content(&node);
        let change = |removed, added| dataplane.change_policy(instead(removed, added));
        change(vec![], vec![]).await.unwrap();
        change(vec![], some()).await.unwrap();
        let full = content(&node);
        dataplane.replace_policy(some(), LAYOUT).await.unwrap();
        assert_eq!(content(&node), full);
        change(some(), vec![]).await.unwrap();
        assert_eq!(content(&node), empty);
        // In any order, and all of them at once instead of themselves.
        change(vec![], some().into_iter().rev().collect()).await.unwrap();
        change(some(), some().into_iter().rev().collect()).await.unwrap();
        assert_eq!(content(&node), full);
        // Values change; blocks are cut and joined.
        change(
            vec![
                ingress("flock00000001", 2),
                member("10.0.0.1", 2),
                block("10.1.0.0", "10.1.0.255", 3),
                block("10.1.1.0", "10.1.1.255", 4),
                block("240.0.0.0", "255.255.255.255", 4),
                range(TCP, 100, 200, 5),
            ],
            vec![
                ingress("flock00000001", 9),
                member("10.0.0.1", 8),
                block("10.1.0.0", "10.1.1.127", 7),
                block("10.1.1.128", "10.1.1.255", 6),
                block("240.0.0.0", "247.255.255.255", 5),
                block("248.0.0.0", "255.255.255.255", 4),
                range(TCP, 100, 149, 8),
                range(TCP, 150, 200, 7),
            ],
        )
        .await
        .unwrap();
        let now = table(&node);
        for said in [
            "\"flock00000001\" : 0x00000009",
            "10.0.0.1 : 0x00000008",
            "10.1.0.0-10.1.1.127 : 0x00000007, 10.1.1.128/25 : 0x00000006",
            "240.0.0.0/5 : 0x00000005",
            "248.0.0.0/5 : 0x00000004",
            "tcp . 100-149",
            "tcp . 150-200",
        ] {
            assert!(now.contains(said), "{said} is not in {now}");
        }
    });
}

#[test]
fn what_is_refused_changes_nothing() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.replace_policy(some(), LAYOUT).await.unwrap();
        let before = content(&node);
        let new = member("10.0.0.9", 2);
        for (removed, added) in [
            // There already, with the same value or another.
            (vec![], vec![new.clone(), member("10.0.0.1", 2)]),
            (vec![], vec![new.clone(), member("10.0.0.1", 3)]),
            (vec![], vec![new.clone(), allowed(2, 2, Ports::One(TCP, 80))]),
            (vec![], vec![new.clone(), own("10.0.0.1", "10.0.0.1")]),
            (vec![], vec![new.clone(), ingress("flock00000001", 2)]),
            (vec![], vec![new.clone(), new.clone()]),
            // Overlaps.
            (vec![], vec![new.clone(), block("10.1.0.128", "10.1.2.0", 4)]),
            (vec![], vec![new.clone(), range(TCP, 190, 195, 9)]),
            // Not there.
            (vec![member("10.0.0.1", 2), member("10.0.0.2", 2)], vec![new.clone()]),
            (vec![egress("flock00000002", 3)], vec![new.clone()]),
            (vec![block("10.1.0.0", "10.1.0.127", 3)], vec![new.clone()]),
            (vec![range(UDP, 1, 2, 3)], vec![new.clone()]),
            (vec![allowed(2, 2, Ports::One(UDP, 80))], vec![new.clone()]),
        ] {
            let what = format!("-{removed:?} +{added:?}");
            let error = dataplane.change_policy(instead(removed, added)).await.unwrap_err();
            assert!(matches!(error, Error::Kernel { .. }), "{what}: {error}");
            assert_eq!(content(&node), before, "{what}");
        }
        // What could not be said is not sent.
        for added in [
            block("10.2.0.9", "10.2.0.1", 3),
            block("10.2.0.9", "2001:db8::1", 3),
            own("10.2.0.9", "2001:db8::1"),
            range(TCP, 9, 8, 3),
            ingress("a name of more than fifteen", 2),
        ] {
            let error = dataplane.change_policy(instead(vec![], vec![added])).await.unwrap_err();
            assert!(matches!(error, Error::BadRequest { .. } | Error::BadName { .. }), "{error}");
        }
        let twice = vec![member("10.0.0.1", 2), member("10.0.0.1", 3)];
        dataplane.replace_policy(twice, LAYOUT).await.unwrap_err();
        // Many refusals at once, more than fit into a socket, and then it goes on.
        let again: Vec<Element> = members(60_000).into_iter().chain(members(60_000)).collect();
        let error = dataplane.replace_policy(again, LAYOUT).await.unwrap_err();
        assert!(matches!(error, Error::Kernel { .. }), "{error}");
        assert_eq!(content(&node), before);
        dataplane.change_policy(instead(vec![], vec![new.clone()])).await.unwrap();
        dataplane.change_policy(instead(vec![new], vec![])).await.unwrap();
        assert_eq!(content(&node), before);
    });
}

#[test]
fn a_table_that_is_not_there_is_told_apart() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let change = |removed, added| dataplane.change_policy(instead(removed, added));
        let gone = |result| assert!(matches!(result, Err(Error::PolicyGone)), "{result:?}");
        gone(change(vec![], vec![member("10.0.0.9", 2)]).await);
        node.nft(GARBAGE);
        gone(change(vec![], vec![member("10.0.0.9", 2)]).await);
        dataplane.replace_policy(some(), LAYOUT).await.unwrap();
        change(vec![], vec![member("10.0.0.9", 2)]).await.unwrap();
        node.nft("delete table inet flock-policy");
        gone(change(vec![member("10.0.0.9", 2)], vec![]).await);
        assert_eq!(dataplane.policy_drops().await.unwrap(), vec![]);
    });
}

#[test]
fn others_tables_stay_and_absent_is_removed() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        node.nft(FOREIGN);
        let before = node.exec("nft -a list ruleset");
        dataplane.remove_policy().await.unwrap();
        dataplane.replace_policy(some(), LAYOUT).await.unwrap();
        dataplane.replace_policy(some(), LAYOUT).await.unwrap();
        let change = instead(vec![member("10.0.0.1", 2)], vec![member("10.0.0.9", 2)]);
        dataplane.change_policy(change).await.unwrap();
        assert!(tables(&node).contains(&"table inet flock-policy".to_owned()));
        dataplane.remove_policy().await.unwrap();
        assert!(!tables(&node).contains(&"table inet flock-policy".to_owned()));
        assert_eq!(node.exec("nft -a list ruleset"), before);
        dataplane.remove_policy().await.unwrap();
        assert!(dataplane.rules_present().await.unwrap());
    });
}

/// A link's counter is there as long as it is isolated, whatever it is held against.
#[test]
fn counters_are_the_links() {
    on_node(|_node| async move {
        let dataplane = Dataplane::start().unwrap();
        let counted = async || {
            let mut drops = dataplane.policy_drops().await.unwrap();
            drops.sort_by(|a, b| (&a.ifname, a.direction).cmp(&(&b.ifname, b.direction)));
            drops
        };
        let nothing = |name: &str, direction| Dropped {
            ifname: name.to_owned(),
            direction,
            packets: 0,
            bytes: 0,
        };
        let (a, b) = ("flock0000000a", "flock0000000b");
        dataplane.replace_policy(vec![ingress(a, 2), egress(a, 2)], LAYOUT).await.unwrap();
        let both = vec![nothing(a, Direction::Ingress), nothing(a, Direction::Egress)];
        assert_eq!(counted().await, both);
        let change = instead(vec![ingress(a, 2), egress(a, 2)], vec![ingress(a, 3), ingress(b, 3)]);
        dataplane.change_policy(change).await.unwrap();
        let two = vec![nothing(a, Direction::Ingress), nothing(b, Direction::Ingress)];
        assert_eq!(counted().await, two);
        let change = instead(vec![ingress(a, 3), ingress(b, 3)], vec![]);
        dataplane.change_policy(change).await.unwrap();
        assert_eq!(counted().await, vec![]);
    });
}

#[test]
fn a_hundred_thousand_are_one_transaction() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let count = || {
            let set = node.nft("list map inet flock-policy members4");
            set.matches(" : 0x").count()
        };
        dataplane.replace_policy(members(100_000), LAYOUT).await.unwrap();
        assert_eq!(count(), 100_000);
        dataplane.change_policy(instead(members(50_000), vec![])).await.unwrap();
        assert_eq!(count(), 50_000);
        dataplane.replace_policy(members(100_000), LAYOUT).await.unwrap();
        assert_eq!(count(), 100_000);
        assert!(dataplane.policy_present(LAYOUT).await.unwrap());
    });
}

/// A fault before the message is sent leaves what was there.
#[cfg(debug_assertions)]
#[test]
fn a_fault_changes_nothing() {
    use flock_dataplane::fault::{self, Action};
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.replace_policy(some(), LAYOUT).await.unwrap();
        let before = content(&node);
        let armed = fault::inject("policy.replace", Action::Error, 1);
        let error = dataplane.replace_policy(vec![], LAYOUT).await.unwrap_err();
        assert!(matches!(error, Error::Fault(_)), "{error}");
        drop(armed);
        let armed = fault::inject("policy.change", Action::Error, 1);
        dataplane.change_policy(instead(some(), vec![])).await.unwrap_err();
        drop(armed);
        assert_eq!(content(&node), before);
    });
}
