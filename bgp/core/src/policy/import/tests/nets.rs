//! Prefixes: martians, connected networks, rules.

use flock_bgp_wire::Net;
use ipnet::{Ipv4Net, Ipv6Net};
use proptest::prelude::*;

use super::{Judge, Withheld, external, net, networks, rule};
use crate::config::{AddressRule, Import};

#[test]
fn martians() {
    let cases = [
        ("0.0.0.0/0", true),
        ("0.0.0.0/1", true),
        ("128.0.0.0/1", true),
        ("0.0.0.0/7", true),
        ("0.0.0.0/8", false),
        ("0.0.0.0/32", false),
        ("0.1.0.0/16", false),
        ("1.0.0.0/8", true),
        ("10.0.0.0/8", true),
        ("100.64.0.0/10", true),
        ("126.0.0.0/7", true),
        ("127.0.0.0/8", false),
        ("127.0.0.1/32", false),
        ("128.0.0.0/16", true),
        ("169.254.0.0/16", false),
        ("169.254.169.254/32", false),
        ("169.255.0.0/16", true),
        ("172.16.0.0/12", true),
        ("192.168.0.0/16", true),
        ("198.18.0.0/15", true),
        ("223.255.255.0/24", true),
        ("192.0.0.0/2", true),
        ("224.0.0.0/3", false),
        ("224.0.0.0/4", false),
        ("239.1.2.3/32", false),
        ("240.0.0.0/4", false),
        ("255.255.255.255/32", false),
        ("::/0", true),
        ("::/1", true),
        ("8000::/1", true),
        ("::/8", true),
        ("::/96", false),
        ("::/128", false),
        ("::1/128", false),
        ("::192.0.2.1/128", false),
        ("::ffff:0:0/96", false),
        ("::ffff:10.0.0.0/104", false),
        ("::fffe:0:0/96", true),
        ("64:ff9b::/96", true),
        ("100::/64", true),
        ("2000::/3", true),
        ("2001:db8::/32", true),
        ("fc00::/7", true),
        ("fe00::/8", true),
        ("fe80::/10", false),
        ("fe80::/64", false),
        ("fe80::1/128", false),
        ("febf::/16", false),
        ("fec0::/16", true),
        ("ff00::/8", false),
        ("ff02::1/128", false),
    ];
    let judge = Judge { networks: None, ..external() };
    for (prefix, routable) in cases {
        let verdict = if routable { Ok(()) } else { Err(Withheld::Martian) };
        assert_eq!(net(&judge, prefix), verdict, "{prefix}");
    }
}

#[test]
fn connected_networks() {
    let connected = ["192.0.2.0/24", "10.9.9.9/32", "2001:db8:ffff::5/64", "0.0.0.0/0"];
    let judge = Judge { networks: networks(&connected, &[]), ..external() };
    let cases = [
        ("192.0.2.0/24", false),
        ("192.0.2.128/25", false),
        ("192.0.2.1/32", false),
        ("192.0.2.0/23", true),
        ("192.0.3.0/24", true),
        ("10.9.9.9/32", false),
        ("10.9.9.8/32", true),
        ("10.9.9.8/31", true),
        ("0.0.0.0/0", true),
        ("2001:db8:ffff::/64", false),
        ("2001:db8:ffff::1/128", false),
        ("2001:db8:ffff::/63", true),
        ("2001:db8::/32", true),
        ("::/0", true),
    ];
    for (prefix, taken) in cases {
        let verdict = if taken { Ok(()) } else { Err(Withheld::Connected) };
        assert_eq!(net(&judge, prefix), verdict, "{prefix}");
    }
}

/// Their networks are the pods' of this node: no part of them is anybody else's to tell.
#[test]
fn networks_of_our_pods() {
    let own = ["10.244.1.0/24", "10.9.9.9/32", "2001:db8:a::5/64", "0.0.0.0/0"];
    let judge = Judge { networks: networks(&["10.244.0.0/16"], &own), ..external() };
    let cases = [
        ("10.244.1.0/24", Err(Withheld::OwnPods)),
        ("10.244.1.128/25", Err(Withheld::OwnPods)),
        ("10.244.1.7/32", Err(Withheld::OwnPods)),
        ("10.244.2.0/24", Err(Withheld::Connected)),
        ("10.244.0.0/23", Err(Withheld::Connected)),
        ("10.0.0.0/8", Ok(())),
        ("10.9.9.9/32", Err(Withheld::OwnPods)),
        ("10.9.9.8/31", Ok(())),
        ("0.0.0.0/0", Ok(())),
        ("2001:db8:a::/64", Err(Withheld::OwnPods)),
        ("2001:db8:a::1/128", Err(Withheld::OwnPods)),
        ("2001:db8:a::/63", Ok(())),
        ("::/0", Ok(())),
        // The bits of 10.244.1.0/24, but of the other family.
        ("af4:100::/24", Ok(())),
    ];
    for (prefix, verdict) in cases {
        assert_eq!(net(&judge, prefix), verdict, "{prefix}");
    }
}

#[test]
fn networks_in_other_words_are_the_same() {
    let networks = |connected, own| networks(connected, own).unwrap();
    let said = networks(&["10.0.0.0/24", "10.1.0.0/24"], &["10.2.0.0/24"]);
    let order = ["10.1.0.7/24", "10.0.0.0/24", "10.1.0.0/24"];
    assert_eq!(said, networks(&order, &["10.2.0.9/24", "10.2.0.0/24"]));
    assert_ne!(said, networks(&["10.0.0.0/24"], &["10.2.0.0/24"]));
    assert_ne!(said, networks(&["10.0.0.0/24", "10.1.0.0/24", "10.2.0.0/24"], &[]));
    assert_ne!(networks(&["0.0.0.0/0"], &[]), networks(&[], &[]), "next hops are there");
}

#[test]
fn rules() {
    let accept = vec![
        rule("0.0.0.0/0", 0, 0),
        rule("10.0.0.0/8", 16, 24),
        rule("172.16.5.9/12", 12, 12),
        rule("198.51.100.7/32", 32, 32),
        rule("2001:db8::/32", 32, 64),
    ];
    let import = Some(Import { accept, max_prefixes: 1 });
    let judge = Judge { import, networks: None, ..external() };
    let cases = [
        ("0.0.0.0/0", true),
        ("1.0.0.0/8", false),
        ("10.0.0.0/8", false),
        ("10.1.0.0/15", false),
        ("10.1.0.0/16", true),
        ("10.255.255.0/24", true),
        ("10.1.1.0/25", false),
        ("11.1.0.0/16", false),
        ("172.16.0.0/12", true),
        ("172.16.0.0/13", false),
        ("198.51.100.7/32", true),
        ("198.51.100.6/32", false),
        ("198.51.100.6/31", false),
        ("::/0", false),
        ("2001:db8::/32", true),
        ("2001:db8:1::/64", true),
        ("2001:db8:1::/65", false),
        ("2001:db9::/48", false),
        // The bits of 10.1.0.0/16, but of the other family.
        ("a01::/16", false),
    ];
    for (prefix, accepted) in cases {
        let verdict = if accepted { Ok(()) } else { Err(Withheld::NotAccepted) };
        assert_eq!(net(&judge, prefix), verdict, "{prefix}");
    }
}

#[test]
fn a_rule_includes_another() {
    let cases = [
        ("itself", rule("10.0.0.0/8", 8, 24), rule("10.0.0.0/8", 8, 24), true),
        ("a part", rule("10.0.0.0/8", 8, 24), rule("10.1.0.0/16", 16, 24), true),
        ("a larger one", rule("10.1.0.0/16", 16, 24), rule("10.0.0.0/8", 8, 24), false),
        ("longer", rule("10.0.0.0/8", 8, 24), rule("10.0.0.0/8", 8, 25), false),
        ("shorter", rule("10.0.0.0/8", 9, 24), rule("10.0.0.0/8", 8, 24), false),
        ("min below its own length", rule("10.0.0.0/8", 8, 24), rule("10.0.0.0/8", 0, 24), true),
        ("beside", rule("10.0.0.0/8", 8, 24), rule("11.0.0.0/8", 8, 24), false),
        ("the other family", rule("0.0.0.0/0", 0, 32), rule("::/0", 0, 0), false),
        ("one that matches nothing", rule("10.0.0.0/8", 8, 8), rule("11.0.0.0/8", 9, 8), true),
    ];
    for (name, wide, narrow, expected) in cases {
        assert_eq!(wide.includes(&narrow), expected, "{name}");
    }
}

/// The bit arithmetic says what `ipnet` says.
#[test]
fn within_is_what_ipnet_says() {
    let bits = [0, 1 << 127, u128::MAX, 0x0A01_0000 << 96, 0x2001_0DB8 << 96, 0x2001_0DB9 << 96];
    for a in bits {
        for b in bits {
            for (long, short) in [(32, 0), (32, 8), (24, 24), (15, 16), (1, 0), (0, 0), (31, 31)] {
                let (outer, inner) = (Ipv4Net::from_bits(a, short), Ipv4Net::from_bits(b, long));
                let rule = AddressRule { net: outer.into(), min: 0, max: 32 };
                assert_eq!(rule.matches(inner), outer.contains(&inner), "{inner} in {outer}");
                let (outer, inner) =
                    (Ipv6Net::from_bits(a, short * 4), Ipv6Net::from_bits(b, long * 4));
                let rule = AddressRule { net: outer.into(), min: 0, max: 128 };
                assert_eq!(rule.matches(inner), outer.contains(&inner), "{inner} in {outer}");
            }
        }
    }
}

/// Rules over few bits, so that they meet.
fn few_bits() -> impl Strategy<Value = AddressRule> {
    (0u32..4, 0u8..=4, 0u8..=5, 0u8..=5).prop_map(|(bits, len, min, max)| {
        let net = Ipv4Net::from_bits(u128::from(bits) << 126, len).into();
        AddressRule { net, min, max }
    })
}

proptest! {
    /// A rule that includes another matches all that the other matches.
    #[test]
    fn what_is_included_is_matched(wide in few_bits(), narrow in few_bits(), bits: u32, len in 0u8..=6) {
        let net = Ipv4Net::from_bits(u128::from(bits) << 96, len);
        if wide.includes(&narrow) && narrow.matches(net) {
            prop_assert!(wide.matches(net), "{net} by {narrow:?} but not by {wide:?}");
        }
    }
}
