//! Other hands in the kernel's rules: ours are put back, and those of others are left alone.

use rack::node::Node;
use rack::policy::judge::Case;
use rack::policy::oracle::{Protocol, Verdict};
use rack::policy::people::Home;
use rack::policy::rig::Rig;
use rack::policy::round::Outcome;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

use super::{AJAR, SHUT, agree, nft, policies, rig};

/// The table of policies.
const TABLE: &str = "inet flock-policy";

/// The rules of somebody else: a chain that is asked before ours, sets, a map.
const FOREIGN: &str = "
table inet foreign {
    set friends {
        type ipv4_addr
        flags interval
        elements = { 192.0.2.0/24, 203.0.113.0/24 }
    }
    map marks {
        type inet_service : mark
        elements = { 80 : 0x1, 443 : 0x2 }
    }
    chain forward {
        type filter hook forward priority -5
        tcp dport 443 drop
        ip saddr @friends tcp dport 9009 accept
    }
    chain mine {
        meta mark set tcp dport map @marks
    }
}
";

fn listed(node: &Node, words: &str) -> Value {
    serde_json::from_str(&nft(node, &format!("-j list {words}")).unwrap()).unwrap()
}

/// All of a kind in the table of policies.
fn all_of(node: &Node, kind: &str) -> Vec<Value> {
    let all = listed(node, &format!("table {TABLE}"));
    let all = all["nftables"].as_array().unwrap().iter();
    all.filter_map(|one| one.get(kind)).cloned().collect()
}

#[test]
fn a_table_that_was_deleted_is_put_back() {
    let rig = rig(SHUT);
    for _ in 0..2 {
        nft(rig.node(Home::A), &format!("delete table {TABLE}")).unwrap();
        agree(&rig, "after the table was deleted");
    }
    nft(rig.node(Home::A), "flush ruleset").unwrap();
    agree(&rig, "after everything was flushed");
}

#[test]
fn chains_that_were_flushed_are_filled_again() {
    let rig = rig(AJAR);
    let node = rig.node(Home::A);
    let chains = all_of(node, "chain");
    assert!(!chains.is_empty());
    for chain in chains {
        let name = chain["name"].as_str().unwrap();
        nft(node, &format!("flush chain {TABLE} {name}")).unwrap();
        agree(&rig, &format!("after the chain {name} was flushed"));
    }
}

#[test]
fn elements_that_were_deleted_are_put_back() {
    let rig = rig(AJAR);
    let node = rig.node(Home::A);
    let mut emptied = 0;
    for kind in ["set", "map"] {
        for one in all_of(node, kind) {
            let name = one["name"].as_str().unwrap();
            let Some(first) = one["elem"].as_array().and_then(|all| all.first()) else { continue };
            emptied += 1;
            delete_element(node, name, first);
            agree(&rig, &format!("after an element of {name} was deleted"));
            nft(node, &format!("flush {kind} {TABLE} {name}")).unwrap();
            agree(&rig, &format!("after {name} was flushed"));
        }
    }
    assert!(emptied >= 3, "{emptied} sets and maps have elements");
}

fn delete_element(node: &Node, name: &str, element: &Value) {
    let (family, table) = TABLE.split_once(' ').unwrap();
    let delete = json!({ "nftables": [{ "delete": { "element": {
        "family": family, "table": table, "name": name, "elem": [element],
    } } }] });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), delete.to_string()).unwrap();
    node.netns().exec("nft", &["-j", "-f", file.path().to_str().unwrap()]).unwrap();
}

#[test]
fn the_rules_of_others_stay_and_hold() {
    let mut rig = rig(SHUT);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), FOREIGN).unwrap();
    let load = ["-f", file.path().to_str().unwrap()];
    rig.node(Home::A).netns().exec("nft", &load).unwrap();
    let before = nft(rig.node(Home::A), "-j list table inet foreign").unwrap();
    rig.set_policies(&policies(AJAR)).unwrap();
    agree(&rig, "beside the rules of others");
    rig.node_mut(Home::A).restart_with(&[]).unwrap();
    agree(&rig, "after a restart beside them");
    nft(rig.node(Home::A), &format!("delete table {TABLE}")).unwrap();
    agree(&rig, "after ours were deleted");
    rig.set_policies(&[]).unwrap();
    // What we allow they may still drop.
    let drops = |rig: &Rig| {
        let (from, to) = (rig.spot("front/web-2").unwrap(), rig.spot("back/db-1").unwrap());
        let case = |port| Case { from, to, ipv6: true, protocol: Protocol::Tcp, port };
        let told = |allowed| Verdict { allowed, reason: String::new() };
        let outcomes = rig.send(&[case(443), case(9005)], &[told(false), told(true)]).unwrap();
        outcomes[0] == Outcome::Silent && matches!(outcomes[1], Outcome::Answered(_))
    };
    assert!(drops(&rig));
    rig.node_mut(Home::A).terminate().unwrap();
    assert!(drops(&rig));
    assert_eq!(nft(rig.node(Home::A), "-j list table inet foreign").unwrap(), before);
}

/// With the last policy the table goes, and everything is open; with the first one it comes.
#[test]
fn without_policies_there_is_no_table() {
    let mut rig = rig(SHUT);
    for node in Home::BOTH {
        nft(rig.node(node), &format!("list table {TABLE}")).unwrap();
    }
    rig.write_policies(&[]).unwrap();
    rig.remove_gates().unwrap();
    for home in Home::BOTH {
        until("the table to go", PATIENCE, || {
            let tables = nft(rig.node(home), "list tables")?;
            anyhow::ensure!(!tables.contains(TABLE), "{tables}");
            Ok(())
        })
        .unwrap();
    }
    agree(&rig, "without any policy");
    rig.set_policies(&policies(SHUT)).unwrap();
    agree(&rig, "with policies again");
}
