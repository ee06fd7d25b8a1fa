//! A pod may only send from its own addresses, in both families; its anycast and extra addresses
//! are its own.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use rack::manifests::{self, Writing};
use rack::node::{NODE_V4, NODE_V6, Node};
use rack::pod::Pod;

#[test]
fn forged_sources_are_dropped_and_own_ones_pass() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let annotations = [
        ("anycast", "2001:db8:cafe::1,192.0.2.1"),
        ("addresses", "2001:db8:77::7,192.0.2.77,2001:db8:77::8"),
    ];
    node.write_pod(&manifests::pod("default", "liar", &annotations), Writing::Renamed).unwrap();
    let (liar, victim) = (Pod::new("liar").unwrap(), Pod::new("victim").unwrap());
    plugin.add(&liar).unwrap();
    let other = rack::pod::addresses(&plugin.add(&victim).unwrap()).unwrap();
    let send = |from: &str, to: &str| {
        liar.netns.exec("ping", &["-n", "-c", "1", "-W", "1", "-I", from, to]).is_ok()
    };
    for (own, to) in [
        ("2001:db8:77::7", NODE_V6),
        ("2001:db8:77::8", NODE_V6),
        ("2001:db8:cafe::1", NODE_V6),
        ("192.0.2.77", NODE_V4),
        ("192.0.2.1", NODE_V4),
    ] {
        assert!(send(own, to), "{own} is the pod's own");
    }
    let forged = [
        "2001:db8:bad::1".to_owned(),
        "203.0.113.9".to_owned(),
        other[0].to_string(),
        other[1].to_string(),
        NODE_V4.replace(".2", ".77"),
    ];
    for address in &forged {
        let (length, to) =
            if address.contains(':') { ("/128 nodad", NODE_V6) } else { ("/32", NODE_V4) };
        liar.netns.ip(&format!("addr add {address}{length} dev eth0")).unwrap();
        let before = dropped(&node);
        assert!(!send(address, to), "{address} was let through");
        assert!(dropped(&node) > before, "{address} was lost, but not by the rule");
        liar.netns
            .ip(&format!("addr del {address}{} dev eth0", length.split(' ').next().unwrap()))
            .unwrap();
    }
}

/// The rule's own counter.
fn dropped(node: &Node) -> u64 {
    let rules = node.netns().exec("nft", &["list", "table", "inet", "flock"]).unwrap();
    let mut words = rules.split_whitespace().skip_while(|word| *word != "packets");
    words.nth(1).unwrap().parse().unwrap()
}
