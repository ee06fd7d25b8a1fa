//! The NodeConfig's peers in the speaker's words.

use flock_dataplane::InterfaceAddress;

use super::*;

fn config(spec: &str) -> NodeConfig {
    let text = format!(
        "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {{name: n}}\nspec: {spec}\n"
    );
    crate::config::parse(&text).unwrap()
}

fn interface(index: u32, addresses: &[&str]) -> Interface {
    let on = |text: &&str| {
        // `~` marks an address that was given for a while.
        let permanent = !text.starts_with('~');
        let address = text.trim_start_matches('~').parse().unwrap();
        InterfaceAddress { address, peer: None, permanent }
    };
    Interface {
        name: format!("eth{index}"),
        index,
        mtu: 1500,
        usable: true,
        loopback: index == 1,
        addresses: addresses.iter().map(on).collect(),
    }
}

fn node() -> Facts {
    Facts {
        interfaces: vec![
            interface(1, &["127.0.0.1/8", "::1/128", "10.9.9.9/32", "2001:db8:9::9/128"]),
            interface(2, &["fe80::2/64", "10.0.1.2/24", "2001:db8:1::2/64", "2001:db8:1::1:2/64"]),
            interface(3, &["fe80::3/64", "10.0.3.2/24"]),
        ],
        ..Facts::default()
    }
}

/// The one peer of a configuration.
fn one(peer: &str, facts: &Facts) -> PeerConfig {
    let config = config(&format!(
        "{{cidr6: ['2001:db8:a::/64'], cidr4: [10.244.1.0/24], bgp: {{asn: 65001, peers: [{peer}]}}}}"
    ));
    let mut plan = plan(&config, config.bgp.as_ref().unwrap(), facts);
    assert_eq!((plan.peers.len(), plan.untold.len()), (1, 0));
    plan.peers.remove(0)
}

#[test]
fn what_is_not_said_has_the_documented_defaults() {
    let wish = one("{name: tor-a, address: '2001:db8:1::ff', asn: 65000}", &node());
    let mut expected =
        PeerConfig::new("tor-a", "2001:db8:1::ff".parse().unwrap(), PeerAsn::Number(65000));
    // Both families, IPv6 first; the IPv4 address on the same link is the way for IPv4.
    expected.families = vec![Family::Ipv6, Family::Ipv4];
    expected.next_hops.ipv4 = Some([10, 0, 1, 2].into());
    assert_eq!(wish, expected, "two addresses for good: from which one is the kernel's to say");
}

#[test]
fn everything_that_can_be_said_arrives() {
    let wish = one(
        "{name: t, address: 10.0.1.1, asn: internal, port: 1179, localAddress: 10.9.9.9,
          families: [ipv4-unicast], holdTime: 90s, keepalive: 30s, connectRetry: 1s, multihop: 4,
          passive: true, gracefulRestart: {time: 60s}, role: customer,
          import: {accept: ['0.0.0.0/0', '10.0.0.0/8 ge 16 le 24'], maxPrefixes: 7},
          export: {communities: ['65001:7', '65001:1:2'], localPref: 200, med: 5, prepend: 2},
          nextHop: {ipv6: '2001:db8::7'}}",
        &node(),
    );
    let mut expected = PeerConfig::new("t", [10, 0, 1, 1].into(), PeerAsn::Internal);
    expected.port = 1179;
    expected.local_address = Some([10, 9, 9, 9].into());
    expected.families = vec![Family::Ipv4];
    expected.hold_time = Some(Duration::from_secs(90));
    expected.keepalive = Some(Duration::from_secs(30));
    expected.connect_retry = Duration::from_secs(1);
    expected.transport.ttl = Ttl::Hops(4);
    expected.passive = true;
    expected.graceful_restart = Some(GracefulRestart {
        time: Duration::from_secs(60),
        notification: false,
        stale_time: STALE,
    });
    expected.role = Some(Role::Customer);
    let rule = |net: &str, min, max| AddressRule { net: net.parse().unwrap(), min, max };
    expected.import = Some(Import {
        accept: vec![rule("0.0.0.0/0", 0, 0), rule("10.0.0.0/8", 16, 24)],
        max_prefixes: 7,
    });
    expected.export = Export {
        communities: vec![flock_bgp::Community(65001 << 16 | 7)],
        large_communities: vec![flock_bgp::LargeCommunity(65001, 1, 2)],
        local_pref: Some(200),
        med: Some(5),
        prepend: 2,
    };
    expected.next_hops.ipv6 = "2001:db8::7".parse().ok();
    assert_eq!(wish, expected);
    let off =
        one("{name: t, address: 10.0.1.1, asn: 1, gracefulRestart: {enabled: false}}", &node());
    assert_eq!(off.graceful_restart, None);
}

#[test]
fn the_families_are_those_that_the_node_has() {
    let peer = |spec: &str, import: &str| {
        let config = config(&format!(
            "{{{spec}bgp: {{asn: 65001, peers: [{{name: t, address: 10.0.1.1, asn: 1{import}}}]}}}}"
        ));
        plan(&config, config.bgp.as_ref().unwrap(), &node()).peers.remove(0).families
    };
    use Family::{Ipv4, Ipv6};
    let six = "cidr6: ['2001:db8::/64'], ";
    let four = "cidr4: [10.1.0.0/24], ";
    assert_eq!(peer(six, ""), [Ipv6]);
    assert_eq!(peer(four, ""), [Ipv4]);
    assert_eq!(peer(&format!("{six}{four}"), ""), [Ipv6, Ipv4]);
    assert_eq!(peer("", ""), [Ipv6, Ipv4], "nothing is said: both");
    let hears = ", import: {accept: ['0.0.0.0/0']}";
    assert_eq!(peer(six, hears), [Ipv6, Ipv4], "it wants to hear IPv4");
    assert_eq!(peer(six, ", families: [ipv4-unicast]"), [Ipv4], "as configured");
}

#[test]
fn how_far_a_peer_may_be() {
    for (words, ttl) in [
        ("asn: 65000", Ttl::Hops(1)),
        ("asn: external", Ttl::Hops(1)),
        ("asn: 65001", Ttl::Hops(255)),
        ("asn: internal", Ttl::Hops(255)),
        ("asn: 65000, ttlSecurity: true", Ttl::Security),
        ("asn: internal, multihop: 3", Ttl::Hops(3)),
    ] {
        let wish = one(&format!("{{name: t, address: 10.0.1.1, {words}}}"), &node());
        assert_eq!(wish.transport.ttl, ttl, "{words}");
    }
}

#[test]
fn the_way_to_us_in_the_other_family_is_on_the_same_link() {
    let mut facts = node();
    facts.ways.insert([192, 0, 2, 1].into(), 2);
    let none = NextHops::default();
    let four = |text: &str| NextHops { ipv4: text.parse().ok(), ..none };
    let six = |text: &str| NextHops { ipv6: text.parse().ok(), ..none };
    for (words, expected) in [
        ("address: '2001:db8:1::ff'", four("10.0.1.2")),
        ("address: 10.0.1.1", six("2001:db8:1::2")),
        ("address: 10.0.3.1", none), // that link has no IPv6 address but a link-local one
        ("address: 192.0.2.1", six("2001:db8:1::2")), // by the link that leads there
        ("address: 198.51.100.1", none),
        ("address: 10.0.1.1, localAddress: 10.9.9.9", six("2001:db8:9::9")),
        ("address: 10.0.1.1, nextHop: {ipv6: '2001:db8::7'}", six("2001:db8::7")),
        ("address: 10.0.1.1, localAddress: 10.5.5.5", none),
    ] {
        let wish = one(&format!("{{name: t, asn: 65000, {words}}}"), &facts);
        assert_eq!(wish.next_hops, expected, "{words}");
    }
}

#[test]
fn it_dials_from_the_address_that_was_given_for_good() {
    let peer = "{name: t, address: '2001:db8:5::1', asn: 65000}";
    let with = |addresses: &[&str], before: Option<&str>| Facts {
        interfaces: vec![interface(2, addresses)],
        sources: before.map(|text| ("t".to_owned(), text.parse().unwrap())).into_iter().collect(),
        ..Facts::default()
    };
    let (own, more, lease) = ("2001:db8:5::2/64", "2001:db8:5::3/64", "~2001:db8:5::9/64");
    for (addresses, before, source) in [
        (vec![own], None, Some("2001:db8:5::2")),
        (vec![lease, own], None, Some("2001:db8:5::2")), // whatever a router advertised since
        (vec![lease], None, None),                       // the kernel's choice
        (vec![own, more], None, None),
        (vec![own, more], Some("2001:db8:5::3"), Some("2001:db8:5::3")), // a session is not moved
        (vec![own], Some("2001:db8:5::3"), Some("2001:db8:5::2")),
        (vec!["fe80::1/64"], Some("2001:db8:5::2"), Some("2001:db8:5::2")), // the link is down
        (vec!["10.0.0.1/24"], None, None),
    ] {
        let facts = with(&addresses, before);
        let found = one(peer, &facts).local_address;
        assert_eq!(found, source.map(|text| text.parse().unwrap()), "{addresses:?} {before:?}");
    }
    let said = "{name: t, address: '2001:db8:5::1', asn: 65000, localAddress: '2001:db8:5::9'}";
    let wish = one(said, &with(&[own, lease], None));
    assert_eq!(wish.local_address, "2001:db8:5::9".parse().ok(), "as configured");
}

#[test]
fn a_password_that_is_missing_keeps_the_peer_down() {
    let peer = "{name: t, address: 10.0.1.1, asn: 1, password: {file: /secret}}";
    let with = |secret| Facts { secrets: BTreeMap::from([("t".into(), secret)]), ..node() };
    let good = one(peer, &with(Ok(Secret(b"x".as_slice().into()))));
    assert_eq!((good.transport.md5.is_some(), good.withheld), (true, None));
    let bad = one(peer, &with(Err("password: /secret is empty".into())));
    assert_eq!(bad.withheld.as_deref(), Some("password: /secret is empty"));
    assert_eq!(bad.transport.md5, None);
    assert!(one(peer, &node()).withheld.is_some(), "not looked for: never without");
}

#[test]
fn a_drained_node_says_goodbye_to_everybody() {
    let facts = Facts { farewell: Some("flock: n is drained".into()), ..node() };
    let wish = one("{name: t, address: 10.0.1.1, asn: 1}", &facts);
    assert_eq!(wish.shutdown.as_deref(), Some("flock: n is drained"));
}

#[test]
fn an_unnumbered_peer_is_not_told_and_shown_with_its_reason() {
    let config = config("{bgp: {asn: 65001, peers: [{name: t, interface: eth0, asn: 65000}]}}");
    let plan = plan(&config, config.bgp.as_ref().unwrap(), &node());
    assert!(plan.peers.is_empty());
    let [untold] = plan.untold.as_slice() else { panic!("{plan:?}") };
    assert_eq!((untold.name.as_str(), untold.place.as_str()), ("t", "eth0"));
    assert!(untold.reason.contains("unnumbered"), "{}", untold.reason);
}

#[test]
fn the_networks_of_the_node() {
    let spec = config("{cidr4: [10.244.1.0/24]}");
    let mut interfaces = node().interfaces;
    let found = networks(&spec, &interfaces);
    let nets =
        ["10.0.1.0/24", "10.0.3.0/24", "10.9.9.9/32", "2001:db8:1::/64", "2001:db8:9::9/128"];
    let nets: Vec<IpNet> = nets.iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!((found.connected.as_slice(), found.down.len()), (nets.as_slice(), 0));
    assert_eq!(found.own, ["10.244.1.0/24".parse::<IpNet>().unwrap()]);
    interfaces[2].usable = false;
    let found = networks(&spec, &interfaces);
    assert_eq!(found.down, ["10.0.3.0/24".parse::<IpNet>().unwrap()]);
    assert!(!found.connected.contains(&found.down[0]));
    let ends = InterfaceAddress {
        address: "10.7.0.1/32".parse().unwrap(),
        peer: Some("10.7.0.2/32".parse().unwrap()),
        permanent: true,
    };
    let two = Interface { addresses: vec![ends], ..interface(4, &[]) };
    assert_eq!(connected([&two].into_iter()).len(), 2, "both ends of a link of two");
}
