//! Annotations: how each is read, and what a pod gets on a given node.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says that something is wrong by panicking"
)]

use std::collections::BTreeMap;
use std::net::IpAddr;

use flock_agent::annotations::{AddressPlan, AnnotationError, PodWishes, Primary, parse, resolve};
use flock_agent::config::{self, NodeConfig};
use flock_agent::ipam::FamilyPlan;

/// Annotations, on which node, and the words.
type Refusal<'a> = (&'a [(&'a str, &'a str)], &'a NodeConfig, String);

fn wishes(annotations: &[(&str, &str)]) -> Result<PodWishes, AnnotationError> {
    let all: BTreeMap<String, String> = annotations
        .iter()
        .map(|(name, value)| (format!("flock.fritzlab.net/{name}"), (*value).to_owned()))
        .collect();
    parse(&all)
}

fn refused(annotations: &[(&str, &str)]) -> String {
    wishes(annotations).expect_err("should be refused").to_string()
}

fn node(spec: &str) -> NodeConfig {
    let head = "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {name: a}\n";
    config::parse(&format!("{head}spec: {spec}")).unwrap()
}

fn dual() -> NodeConfig {
    node("{cidr6: ['2001:db8:a::/64'], cidr4: [10.244.1.0/24, 10.244.9.0/24]}")
}

fn plan(annotations: &[(&str, &str)], node: &NodeConfig) -> Result<AddressPlan, String> {
    let wishes = wishes(annotations).map_err(|error| error.to_string())?;
    resolve(&wishes, node).map_err(|error| error.to_string())
}

fn v4(pools: &[&str]) -> Option<Primary> {
    let pools = pools.iter().map(|pool| pool.parse().unwrap()).collect();
    Some(Primary::Allocate(FamilyPlan::V4 { pools }))
}

fn v6(pools: &[&str]) -> Option<Primary> {
    let pools = pools.iter().map(|pool| pool.parse().unwrap()).collect();
    Some(Primary::Allocate(FamilyPlan::V6 { pools, algo: None }))
}

fn addrs(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|addr| addr.parse().unwrap()).collect()
}

#[test]
fn all_of_them_are_read() {
    let wishes = wishes(&[
        ("ipv6", "true"),
        ("ipv4", "False"),
        ("cidr6", "2001:db8::/64 , 2001:db8:1::/64"),
        ("cidr4", "0.0.0.0/0"),
        ("ip-algo", "image, namespace"),
        ("anycast", "2001:db8::53/128,192.0.2.53/32"),
        ("addresses", "192.0.2.7"),
        ("ready", "0"),
    ])
    .unwrap();
    assert_eq!((wishes.ipv6, wishes.ipv4), (Some(true), Some(false)));
    assert_eq!(wishes.cidr6.len(), 2);
    assert_eq!(wishes.cidr4.len(), 1);
    assert_eq!(wishes.ip_algo.unwrap().to_string(), "image,namespace");
    assert_eq!(wishes.anycast, addrs(&["2001:db8::53", "192.0.2.53"]));
    assert_eq!(wishes.addresses, addrs(&["192.0.2.7"]));
    assert!(wishes.warnings.is_empty());
}

#[test]
fn others_are_skipped_and_nothing_is_nothing() {
    let all = BTreeMap::from([("example.com/ipv6".to_owned(), "maybe".to_owned())]);
    assert_eq!(parse(&all).unwrap(), PodWishes::default());
    assert_eq!(wishes(&[("anycast", " ")]).unwrap(), PodWishes::default());
}

#[test]
fn a_bad_one_is_named_with_its_value() {
    let at = "annotation flock.fritzlab.net/";
    let table = [
        ("ipv6", "yes", "ipv6: \"yes\": not a boolean; write \"true\" or \"false\""),
        ("ipv4", "", "ipv4: \"\": not a boolean; write \"true\" or \"false\""),
        ("ready", "x", "ready: \"x\": not a boolean; write \"true\" or \"false\""),
        (
            "cidr6",
            "10.0.0.0/24",
            "cidr6: \"10.0.0.0/24\": this is an IPv4 network, and here belongs an IPv6 network; write for example 2001:db8:a::/64",
        ),
        (
            "cidr4",
            "10.0.0.1/24",
            "cidr4: \"10.0.0.1/24\": bits are set beyond the prefix length; the network is 10.0.0.0/24",
        ),
        (
            "cidr4",
            "10.0.0.0/32",
            "cidr4: \"10.0.0.0/32\": too small for pods: the smallest pool is a /30",
        ),
        ("cidr4", "10.0.0.0/24,", "cidr4: \"10.0.0.0/24,\": an element is empty; remove the comma"),
        (
            "anycast",
            "192.0.2.1,x",
            "anycast: \"x\": not an IP address; write for example 2001:db8::53 or 192.0.2.53",
        ),
        (
            "anycast",
            "192.0.2.1/24",
            "anycast: \"192.0.2.1/24\": this is a network, and here belongs one address; write 192.0.2.1, or /32 after it",
        ),
        (
            "anycast",
            "192.0.2.1, 192.0.2.1/32",
            "anycast: \"192.0.2.1/32\": it is listed twice; list it once",
        ),
        (
            "anycast",
            "ff02::1",
            "anycast: \"ff02::1\": multicast (ff00::/8) cannot be used here; use unicast address space of your own",
        ),
        (
            "addresses",
            "127.0.0.1",
            "addresses: \"127.0.0.1\": loopback (127.0.0.0/8) cannot be used here; use unicast address space of your own",
        ),
        (
            "addresses",
            "::",
            "addresses: \"::\": unspecified (::) cannot be used here; use unicast address space of your own",
        ),
        (
            "addresses",
            "fe80::1",
            "addresses: \"fe80::1\": link-local (fe80::/10) cannot be used here; use unicast address space of your own",
        ),
    ];
    for (name, value, wanted) in table {
        assert_eq!(refused(&[(name, value)]), format!("{at}{wanted}"));
    }
    assert_eq!(
        refused(&[("anycast", "192.0.2.1"), ("addresses", "192.0.2.1")]),
        format!(
            "{at}addresses: \"192.0.2.1\": the same address is in flock.fritzlab.net/anycast; keep it in one of them"
        )
    );
}

#[test]
fn a_list_is_bounded_before_it_is_read() {
    type Entry = fn(usize) -> String;
    let lists: [(&str, Entry); 4] = [
        ("anycast", |n| format!("192.0.2.{n}")),
        ("addresses", |n| format!("2001:db8::{n:x}")),
        ("cidr4", |n| format!("10.0.{n}.0/24")),
        ("cidr6", |n| format!("2001:db8:{n:x}::/64")),
    ];
    for (name, entry) in lists {
        let list = |n| (1..=n).map(entry).collect::<Vec<_>>().join(",");
        wishes(&[(name, &list(64))]).unwrap();
        // Not read: that the first entry is nonsense is not what is told.
        let error = refused(&[(name, &format!("nonsense,{}", list(64)))]);
        let at = format!("annotation flock.fritzlab.net/{name}: \"nonsense,");
        assert!(error.starts_with(&at), "{error}");
        assert!(error.ends_with("it has 65 entries, and at most 64 are allowed"), "{error}");
    }
    assert!(refused(&[("anycast", &",".repeat(600_000))]).len() < 300);
}

#[test]
fn a_bad_ip_algo_and_a_misspelt_name_only_warn() {
    let wishes = wishes(&[("ip-algo", "app,app"), ("anycats", "192.0.2.1")]).unwrap();
    assert_eq!(wishes.ip_algo, None);
    assert_eq!(
        wishes.warnings,
        [
            "annotation flock.fritzlab.net/anycats: \"192.0.2.1\": there is no such annotation",
            "annotation flock.fritzlab.net/ip-algo: \"app,app\": app is named twice; name each field once; it is not followed",
        ]
    );
}

#[test]
fn families() {
    let only6 = node("{cidr6: ['2001:db8:a::/64']}");
    let off4 =
        node("{cidr6: ['2001:db8:a::/64'], cidr4: [10.244.1.0/24], defaults: {ipv4: false}}");
    let table = [
        (&[][..], &dual(), true, true),
        (&[("ipv4", "false")], &dual(), true, false),
        (&[("ipv6", "false")], &dual(), false, true),
        (&[], &off4, true, false),
        (&[("ipv4", "true")], &off4, true, true),
        (&[("ipv4", "true"), ("ipv6", "false")], &off4, false, true),
        // Nobody asked for IPv4: without a pool it is simply not there.
        (&[], &only6, true, false),
    ];
    for (annotations, node, ipv6, ipv4) in table {
        let plan = plan(annotations, node).unwrap();
        assert_eq!((plan.ipv6.is_some(), plan.ipv4.is_some()), (ipv6, ipv4), "{annotations:?}");
    }
}

#[test]
fn families_that_cannot_be() {
    let only6 = node("{cidr6: ['2001:db8:a::/64']}");
    let none = "the pod would have no address: ";
    let table: [Refusal<'_>; 5] = [
        (&[("ipv4", "true")], &only6, "annotation flock.fritzlab.net/ipv4: \"true\": this node has no network for it; add one to spec.cidr4 of its NodeConfig, or give the pod an address with flock.fritzlab.net/addresses".into()),
        (&[("ipv4", "false"), ("ipv6", "false")], &dual(), format!("{none}IPv6 is off by flock.fritzlab.net/ipv6 and IPv4 is off by flock.fritzlab.net/ipv4; turn one of the families on")),
        (&[("ipv6", "false")], &only6, format!("{none}IPv6 is off by flock.fritzlab.net/ipv6 and the node has no network in spec.cidr4; add spec.cidr6 or spec.cidr4 to the NodeConfig of this node")),
        (&[], &node("{}"), format!("{none}the node has no network in spec.cidr6 and the node has no network in spec.cidr4; add spec.cidr6 or spec.cidr4 to the NodeConfig of this node")),
        (&[("ipv6", "false")], &node("{cidr6: ['2001:db8:a::/64'], cidr4: [10.1.0.0/24], defaults: {ipv4: false}}"), format!("{none}IPv6 is off by flock.fritzlab.net/ipv6 and IPv4 is off by spec.defaults.ipv4; turn one of the families on")),
    ];
    for (annotations, node, wanted) in table {
        assert_eq!(plan(annotations, node).unwrap_err(), wanted);
    }
}

#[test]
fn narrowing() {
    let both = ["10.244.1.0/24", "10.244.9.0/24"];
    let table = [
        ("10.244.1.0/24", &["10.244.1.0/24"][..]),
        ("10.244.9.16/28", &["10.244.9.16/28"]),
        ("10.0.0.0/8", &both),
        ("0.0.0.0/0", &both),
        // The first entry that meets this node decides.
        ("192.168.0.0/24,10.244.9.0/28,10.244.1.0/24", &["10.244.9.0/28"]),
        ("10.244.9.0/24,10.244.1.0/24", &["10.244.9.0/24"]),
    ];
    for (value, wanted) in table {
        let plan = plan(&[("cidr4", value)], &dual()).unwrap();
        assert_eq!(plan.ipv4, v4(wanted), "{value}");
        assert_eq!(plan.ipv6, v6(&["2001:db8:a::/64"]), "{value}");
    }
    assert_eq!(
        plan(&[("cidr4", "10.3.0.0/24,10.4.0.0/24")], &dual()).unwrap_err(),
        "annotation flock.fritzlab.net/cidr4: \"10.3.0.0/24,10.4.0.0/24\": outside this node's networks, which are 10.244.1.0/24,10.244.9.0/24; choose a network inside or around one of them"
    );
    let narrowed = plan(&[("cidr6", "2001:db8:a::f000/116")], &dual()).unwrap();
    assert_eq!(narrowed.ipv6, v6(&["2001:db8:a::f000/116"]));
    // A family that is off, or that has an address, has nothing to narrow.
    assert!(plan(&[("cidr4", "10.3.0.0/24"), ("ipv4", "false")], &dual()).is_ok());
    assert!(plan(&[("cidr4", "10.3.0.0/24"), ("addresses", "192.0.2.1")], &dual()).is_ok());
}

#[test]
fn ip_algo_pod_before_node() {
    let yaml = "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {name: a, \
                annotations: {flock.fritzlab.net/ip-algo: app}}\nspec: {cidr6: ['2001:db8:a::/62']}";
    let node = config::parse(yaml).unwrap();
    let algo = |plan: AddressPlan| match plan.ipv6 {
        Some(Primary::Allocate(FamilyPlan::V6 { algo, .. })) => algo.map(|algo| algo.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(algo(plan(&[("ip-algo", "image")], &node).unwrap()), Some("image".into()));
    assert_eq!(algo(plan(&[("ip-algo", "bad")], &node).unwrap()), Some("app".into()));
    assert_eq!(algo(plan(&[], &dual()).unwrap()), None);
    assert_eq!(
        plan(&[], &node).unwrap().warnings,
        [
            "ip-algo \"app\" is not followed in 2001:db8:a::/62: it needs a prefix length that is a multiple of 4"
        ]
    );
}

#[test]
fn addresses_and_anycast() {
    let list = "192.0.2.1,2001:db8::1,192.0.2.2,2001:db8::2";
    let found = plan(&[("addresses", list), ("anycast", "192.0.2.53")], &dual()).unwrap();
    assert_eq!(found.ipv6, Some(Primary::Fixed("2001:db8::1".parse().unwrap())));
    assert_eq!(found.ipv4, Some(Primary::Fixed("192.0.2.1".parse().unwrap())));
    assert_eq!(found.extra, addrs(&["192.0.2.2", "2001:db8::2"]));
    assert_eq!(found.anycast, addrs(&["192.0.2.53"]));

    // Its own address makes a family that the node has no pool for.
    let only6 = node("{cidr6: ['2001:db8:a::/64']}");
    let found =
        plan(&[("addresses", "192.0.2.1"), ("ipv4", "true"), ("anycast", "192.0.2.53")], &only6);
    assert_eq!(found.unwrap().ipv4, Some(Primary::Fixed("192.0.2.1".parse().unwrap())));
    assert!(plan(&[("addresses", "192.0.2.1")], &node("{}")).is_ok());
}

#[test]
fn an_address_of_a_family_that_is_off() {
    let only6 = node("{cidr6: ['2001:db8:a::/64']}");
    let off4 = node("{cidr6: ['2001:db8:a::/64'], cidr4: [10.1.0.0/24], defaults: {ipv4: false}}");
    let at = "annotation flock.fritzlab.net/";
    let by_annotation = "IPv4 is off for this pod by flock.fritzlab.net/ipv4; remove the address, or that annotation";
    let by_node = "IPv4 is off on this node by spec.defaults.ipv4; remove the address, or set flock.fritzlab.net/ipv4: \"true\"";
    let table: [Refusal<'_>; 4] = [
        (
            &[("ipv4", "false"), ("addresses", "192.0.2.1")],
            &dual(),
            format!("{at}addresses: \"192.0.2.1\": {by_annotation}"),
        ),
        (
            &[("ipv4", "false"), ("anycast", "192.0.2.1")],
            &dual(),
            format!("{at}anycast: \"192.0.2.1\": {by_annotation}"),
        ),
        (&[("addresses", "192.0.2.1")], &off4, format!("{at}addresses: \"192.0.2.1\": {by_node}")),
        (
            &[("anycast", "192.0.2.1")],
            &only6,
            format!(
                "{at}anycast: \"192.0.2.1\": the pod has no IPv4, because this node has no network for it; add one to spec.cidr4 of its NodeConfig"
            ),
        ),
    ];
    for (annotations, node, wanted) in table {
        assert_eq!(plan(annotations, node).unwrap_err(), wanted);
    }
}
