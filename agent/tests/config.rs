//! The NodeConfig: what is accepted, what is refused and with which words, and the defaults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says that something is wrong by panicking"
)]

#[allow(dead_code, reason = "not all of it is needed here")]
mod apiserver;

use std::time::Duration;

use flock_agent::config::{
    Bfd, Communities, Community, Endpoint, Export, Families, FamilyDefaults, Import,
    LargeCommunity, NextHop, NodeConfig, Password, PeerAsn, PrefixRule, Readiness, Role, Ttl,
    parse, parse_object, schema,
};

const WHOLE: &str = include_str!("golden/nodeconfig.yaml");

fn with_spec(spec: &str) -> String {
    format!(
        "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {{name: a}}\nspec: {spec}\n"
    )
}

fn with_peer(peer: &str) -> String {
    with_spec(&format!("{{bgp: {{asn: 65001, peers: [{{{peer}}}]}}}}"))
}

fn good(yaml: &str) -> NodeConfig {
    apiserver::accepts(yaml);
    parse(yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"))
}

#[test]
fn the_whole_example() {
    let config = good(WHOLE);
    assert_eq!(config.name, "node-a");
    assert_eq!(config.generation, Some(3));
    assert_eq!(config.ip_algo.as_ref().unwrap().to_string(), "namespace,app,image");
    assert_eq!(config.cidr6, ["2001:db8:a::/64".parse().unwrap()]);
    assert_eq!(config.cidr4, ["10.244.1.0/24".parse().unwrap()]);
    assert_eq!(config.mtu, Some(9000));
    let minute = Duration::from_secs(60);
    assert_eq!(config.readiness, Some(Readiness { sessions: 1, timeout: minute }));
    assert!(config.warnings.is_empty());
    let bgp = config.bgp.unwrap();
    assert_eq!(bgp.asn, 65001);
    assert_eq!(bgp.router_id, Some("10.0.0.11".parse().unwrap()));
    assert_eq!(bgp.listen_port, Some(179));
    assert_eq!(
        bgp.communities,
        Communities {
            standard: vec![Community(65001 << 16 | 100), Community(0xffff_ff01)],
            large: vec![LargeCommunity(65001, 1, 2)],
        }
    );
    let [tor_a, tor_b] = &bgp.peers[..] else { panic!("{:?}", bgp.peers) };
    assert_eq!(tor_a.endpoint, Endpoint::Address("2001:db8:ffff::1".parse().unwrap()));
    assert_eq!(tor_a.asn, PeerAsn::Number(65000));
    assert_eq!(tor_a.local_address, Some("2001:db8:ffff::2".parse().unwrap()));
    assert_eq!(tor_a.families, Some(Families { ipv6: true, ipv4: true }));
    assert_eq!(tor_a.hold_time, Some(Duration::from_secs(90)));
    assert_eq!(tor_a.keepalive, Some(Duration::from_secs(30)));
    let secret = Password::Secret { name: "tor-a".into(), key: "password".into() };
    assert_eq!(tor_a.password, Some(secret));
    assert_eq!(tor_a.ttl, Ttl::Security);
    assert_eq!(tor_a.graceful_restart, Some(Duration::from_secs(120)));
    assert_eq!(tor_a.bfd, Some(Bfd { interval: Duration::from_millis(300), multiplier: 3 }));
    let rules = ["::/0", "0.0.0.0/0", "2001:db8::/32 le 64"];
    let accept = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    assert_eq!(tor_a.import, Some(Import { accept, max_prefixes: 1000 }));
    assert_eq!(
        tor_a.export,
        Export {
            communities: Communities { standard: vec![Community(65001 << 16 | 7)], large: vec![] },
            local_pref: Some(100),
            med: Some(0),
            prepend: 2,
        }
    );
    assert_eq!(tor_a.role, Some(Role::Customer));
    assert_eq!(tor_a.next_hop.ipv4, Some("192.0.2.2".parse().unwrap()));
    assert_eq!(tor_b.endpoint, Endpoint::Interface("eth0".into()));
    assert_eq!(tor_b.asn, PeerAsn::External);
    assert_eq!(tor_b.password, Some(Password::File("/etc/flock/tor-b".into())));
    assert_eq!(tor_b.ttl, Ttl::Multihop(4));
}

#[test]
fn the_documented_defaults() {
    let config = good(&with_peer("name: t, address: 192.0.2.1, asn: internal"));
    assert_eq!(config.defaults, FamilyDefaults { ipv6: true, ipv4: true });
    assert_eq!((config.mtu, config.readiness, config.generation), (None, None, None));
    let bgp = config.bgp.unwrap();
    assert_eq!((bgp.listen_port, bgp.announce_pods, bgp.router_id), (Some(179), false, None));
    let peer = &bgp.peers[0];
    assert_eq!(peer.port, 179);
    assert_eq!(peer.hold_time, Some(Duration::from_secs(30)));
    assert_eq!(peer.keepalive, None);
    assert_eq!(peer.connect_retry, Duration::from_secs(5));
    assert_eq!(peer.families, None);
    assert_eq!(peer.ttl, Ttl::Direct);
    assert_eq!(peer.graceful_restart, Some(Duration::from_secs(120)));
    assert_eq!((peer.bfd, &peer.import, peer.role), (None, &None, None));
    assert_eq!((&peer.export, peer.next_hop), (&Export::default(), NextHop::default()));
    assert!(!peer.passive);
}

#[test]
fn nothing_in_spec_is_enough() {
    let config = good(&with_spec("{}"));
    assert!(config.cidr6.is_empty() && config.cidr4.is_empty() && config.bgp.is_none());
}

#[test]
fn off_is_none() {
    let config = good(&with_spec("{readiness: {sessions: 0}, bgp: {asn: 1, listenPort: 0}}"));
    assert_eq!(config.readiness, None);
    assert_eq!(config.bgp.unwrap().listen_port, None);
    let peer = "name: t, address: 192.0.2.1, asn: 1, holdTime: 0, \
                gracefulRestart: {enabled: false, time: 5}, bfd: {interval: 1, multiplier: 5}, \
                import: {accept: []}";
    let bgp = good(&with_peer(peer)).bgp.unwrap();
    let peer = &bgp.peers[0];
    assert_eq!((peer.hold_time, peer.graceful_restart), (None, None));
    assert_eq!((peer.bfd, &peer.import), (None, &None));
}

#[test]
fn a_bad_ip_algo_only_warns() {
    let yaml = WHOLE.replace("namespace,app,image", "namespace,owner");
    let config = good(&yaml);
    assert_eq!(config.ip_algo, None);
    let place = "metadata.annotations[flock.fritzlab.net/ip-algo]";
    let wanted = format!(
        "{place}: \"namespace,owner\": \"owner\" is no field; use namespace, app, image, \
         comma-separated; it is not followed"
    );
    assert_eq!(config.warnings, [wanted]);
}

#[test]
fn more_sessions_than_peers_only_warn() {
    let config = good(&with_spec("{readiness: {sessions: 2}, bgp: {asn: 65001}}"));
    assert_eq!(config.readiness.map(|readiness| readiness.sessions), Some(2));
    assert_eq!(
        config.warnings,
        ["spec.readiness.sessions: 2: there are 0 peers in spec.bgp.peers, so the node becomes \
          ready only when the timeout is over"]
    );
}

#[test]
fn the_schema_survives_a_round_trip() {
    let object: serde_json::Value = serde_saphyr::from_str(WHOLE).unwrap();
    let schema: schema::NodeConfig = serde_json::from_value(object.clone()).unwrap();
    let written = serde_json::to_value(&schema).unwrap();
    assert_eq!(written["spec"], object["spec"]);
    assert!(written.get("status").is_none());
    let yaml = serde_saphyr::to_string(&schema).unwrap();
    assert_eq!(good(&yaml), good(WHOLE));
    assert_eq!(parse_object(&object).unwrap(), good(WHOLE));
}

#[test]
fn prefix_rules() {
    let table = [
        ("10.0.0.0/8", &["10.0.0.0/8"][..], &["10.0.0.0/9", "0.0.0.0/0", "11.0.0.0/8", "::/0"][..]),
        ("10.0.0.0/8 ge 9", &["10.0.0.0/9", "10.1.2.3/32"], &["10.0.0.0/8"]),
        ("10.0.0.0/8 le 9", &["10.0.0.0/8", "10.0.0.0/9"], &["10.0.0.0/10"]),
        ("10.0.0.0/8 le 32", &["10.0.0.0/8", "10.1.2.3/32"], &["11.0.0.0/8"]),
        (
            "::/0 ge 32 le 48",
            &["2001:db8::/32", "2001:db8::/48"],
            &["2001:db8::/64", "::/0", "10.0.0.0/8"],
        ),
    ];
    for (text, yes, no) in table {
        let rule: PrefixRule = text.parse().unwrap();
        assert_eq!(rule.to_string(), text);
        assert!(yes.iter().all(|prefix| rule.matches(&prefix.parse().unwrap())), "{text}");
        assert!(!no.iter().any(|prefix| rule.matches(&prefix.parse().unwrap())), "{text}");
    }
    assert_eq!(
        "10.0.0.0/8  le 24 ge 16".parse::<PrefixRule>().unwrap().to_string(),
        "10.0.0.0/8 ge 16 le 24"
    );
    for bad in [
        "",
        "x",
        "10.0.0.0/8 le",
        "10.0.0.0/8 le 9 le 9",
        "10.0.0.0/8 eq 9",
        "10.0.0.0/8 ge 7",
        "10.0.0.0/8 ge 20 le 16",
        "10.0.0.0/8 le 999",
    ] {
        assert!(bad.parse::<PrefixRule>().is_err(), "{bad}");
    }
}

#[test]
fn pod_cidrs_fill_in_where_nothing_is_named() {
    let cidrs = ["10.1.0.0/24".to_owned(), "2001:db8:9::/64".to_owned()];
    let mut config = good(&with_spec("{}"));
    config.use_pod_cidrs(&cidrs).unwrap();
    assert_eq!(config.cidr4, ["10.1.0.0/24".parse().unwrap()]);
    assert_eq!(config.cidr6, ["2001:db8:9::/64".parse().unwrap()]);
    let mut config = good(&with_spec("{cidr4: [10.2.0.0/24]}"));
    config.use_pod_cidrs(&cidrs).unwrap();
    assert!(config.cidr6.is_empty());
    let mut config = good(&with_spec("{}"));
    let error = config.use_pod_cidrs(&["10.1.0.1/24".to_owned()]).unwrap_err();
    assert_eq!(error.problems[0].path, "spec.podCIDRs[0]");
    assert!(config.cidr4.is_empty());
}
