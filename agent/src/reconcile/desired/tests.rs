//! Tables for the decisions about node routes and announcements.

use std::collections::BTreeMap;

use super::*;
use crate::reconcile::claims::Claims;
use crate::source::{PodFacts, PodKey};
use crate::store::{Allocation, Key};

const ADDRESS: &str = "192.0.2.1/32";

fn attachment(n: u8, phase: Phase) -> Attachment {
    let key = Key { container_id: format!("c{n}"), ifname: "eth0".into() };
    let mut record = Allocation::new(&key, jiff::Timestamp::UNIX_EPOCH);
    record.namespace = "d".into();
    record.pod_name = format!("p{n}");
    record.ip4 = Some([10, 0, 0, n].into());
    record.host_ifname = Some(format!("flock{n:08x}"));
    record.anycast = vec!["192.0.2.1".parse().unwrap()];
    Attachment { record, phase, wired: true }
}

fn facts(ready: bool, terminating: bool) -> PodFacts {
    PodFacts {
        key: PodKey { namespace: "d".into(), name: "p".into() },
        uid: String::new(),
        static_uid: None,
        annotations: BTreeMap::new(),
        app: std::sync::Arc::default(),
        image: std::sync::Arc::default(),
        ready,
        terminating,
        labels: std::sync::Arc::default(),
        ports: std::sync::Arc::default(),
    }
}

fn config(spec: &str) -> NodeConfig {
    let text = format!(
        "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {{name: n}}\nspec: {spec}\n"
    );
    crate::config::parse(&text).unwrap()
}

fn rules(spec: &str) -> Rules {
    Rules::new(Some(&config(spec)), &[])
}

/// Pods by number, and whether each is Ready.
fn claimed(pods: &[(u8, bool)]) -> Claims {
    let mut claims = Claims::default();
    for (n, ready) in pods {
        let attachment = attachment(*n, Phase::Serving);
        let asked = super::claims(&attachment, Behind::Pod(&facts(*ready, false)), &inside());
        claims.set(&attachment.record.key(), &format!("d/p{n}"), asked);
    }
    claims
}

/// Where the pods' own addresses are covered.
fn inside() -> Rules {
    rules("{cidr4: [10.0.0.0/24]}")
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn hops(route: Option<&NodeRoute>) -> Vec<String> {
    match route {
        Some(NodeRoute::Anycast { next_hops, .. }) => {
            next_hops.iter().map(|hop| hop.via.to_string()).collect()
        }
        Some(NodeRoute::Blackhole { .. }) => vec!["unreachable".to_owned()],
        None => Vec::new(),
    }
}

#[test]
fn when_an_anycast_address_is_served() {
    for (phase, ready, terminating, served) in [
        (Phase::Serving, true, false, true),
        (Phase::Serving, false, false, false),
        (Phase::Serving, true, true, false),
        (Phase::Wiring, true, false, false),
        (Phase::Leaving, true, false, false),
        (Phase::Orphaned, true, false, false),
    ] {
        let pod = facts(ready, terminating);
        assert_eq!(
            serves_anycast(phase, Behind::Pod(&pod)),
            served,
            "{phase:?} {ready} {terminating}"
        );
    }
    let unmentioned = serves_anycast(Phase::Serving, Behind::Unmentioned);
    assert!(unmentioned, "a pod without a manifest counts as Ready");
    assert!(!serves_anycast(Phase::Serving, Behind::Gone), "one that the API server lost does not");
}

#[test]
fn when_a_pods_own_address_is_announced() {
    let outside = "{cidr4: [10.9.0.0/24]}";
    let within = "{cidr4: [10.0.0.0/24]}";
    let each = "{cidr4: [10.0.0.0/24], bgp: {asn: 65001, announcePods: true}}";
    for (spec, phase, wired, announced) in [
        (outside, Phase::Serving, true, true),
        (within, Phase::Serving, true, false),
        (each, Phase::Serving, true, true),
        (each, Phase::Serving, false, false),
        (outside, Phase::Serving, false, false),
        (outside, Phase::Wiring, true, false),
        (outside, Phase::Leaving, true, false),
        (outside, Phase::Orphaned, true, false),
    ] {
        let attachment = Attachment { wired, ..attachment(7, phase) };
        // Not Ready: a pod has to be reached to become so.
        let claims = claims(&attachment, Behind::Pod(&facts(false, false)), &rules(spec));
        let own = claims.contains(&Claim::Own { prefix: net("10.0.0.7/32") });
        assert_eq!(own, announced, "{spec} {phase:?} {wired}");
    }
}

#[test]
fn named_addresses_outside_the_summaries_are_announced() {
    let mut attachment = attachment(7, Phase::Serving);
    attachment.record.addresses =
        vec![[10, 0, 0, 7].into(), [198, 51, 100, 1].into(), "2001:db8::1".parse().unwrap()];
    attachment.record.anycast.clear();
    let found = claims(&attachment, Behind::Unmentioned, &inside());
    let own = |text| Claim::Own { prefix: net(text) };
    assert_eq!(found, [own("198.51.100.1/32"), own("2001:db8::1/128")]);
}

#[test]
fn several_ready_pods_are_one_sorted_route() {
    let claims = claimed(&[(3, true), (1, true), (2, false)]);
    let prefix = net(ADDRESS);
    let route = route(prefix, claims.of(&prefix), &inside(), None, false);
    assert_eq!(hops(route.as_ref()), ["10.0.0.1", "10.0.0.3"]);
}

#[test]
fn a_withdrawn_address_lingers_over_the_hops_that_it_had() {
    let prefix = net(ADDRESS);
    let before = claimed(&[(1, true), (2, true), (3, false)]);
    let installed = route(prefix, before.of(&prefix), &inside(), None, false);
    let after = claimed(&[(1, false), (3, false)]);
    let of = |lingers| route(prefix, after.of(&prefix), &inside(), installed.as_ref(), lingers);
    assert_eq!(hops(of(true).as_ref()), ["10.0.0.1"], "2 is gone, 3 never had it");
    assert_eq!(hops(of(false).as_ref()), [""; 0]);
    let still = claimed(&[(1, false), (3, true)]);
    let route = route(prefix, still.of(&prefix), &inside(), installed.as_ref(), true);
    assert_eq!(hops(route.as_ref()), ["10.0.0.3"], "somebody serves it: nothing lingers");
}

#[test]
fn what_is_announced_and_delivered() {
    let (prefix, summary) = (net(ADDRESS), net("10.0.0.0/24"));
    let anycast = NodeRoute::Anycast { address: prefix.addr(), next_hops: vec![] };
    let blackhole = NodeRoute::Blackhole { prefix: summary };
    let (ready, unready) = (claimed(&[(1, true)]), claimed(&[(1, false)]));
    let rules = inside();
    for (claims, prefix, installed, wanted, delivered) in [
        (&ready, prefix, Some(&anycast), true, true),
        (&ready, prefix, None, true, false),
        (&unready, prefix, Some(&anycast), false, true),
        (&unready, prefix, None, false, false),
        (&ready, summary, Some(&blackhole), true, true),
        (&ready, summary, None, true, false),
        (&ready, net("192.0.2.9/32"), None, false, false),
    ] {
        let holders = claims.of(&prefix);
        assert_eq!(wants_announcement(prefix, holders, &rules), wanted, "{prefix}");
        let found = is_delivered(prefix, holders, &rules, installed);
        assert_eq!(found, delivered, "{prefix} {installed:?}");
    }
}

#[test]
fn summaries_are_the_networks_of_the_configuration_and_those_that_hold_pods() {
    let config = config("{cidr4: [10.1.0.0/24], cidr6: ['2001:db8::/64']}");
    let held = net("10.9.0.0/24");
    let rules = Rules::new(Some(&config), &[held]);
    let wanted = ["10.1.0.0/24", "10.9.0.0/24", "2001:db8::/64"].map(net);
    assert_eq!(rules.summaries, BTreeSet::from(wanted));
    let installed = |list: &[&str]| -> Routes {
        list.iter().map(|text| (net(text), NodeRoute::Blackhole { prefix: net(text) })).collect()
    };
    let there = installed(&["10.1.0.0/24", "10.9.0.0/24"]);
    assert_eq!(leftover_summaries(Some(&config), &there), [held]);
    assert_eq!(leftover_summaries(None, &there).len(), 2);
    let unreachable = route(held, None, &rules, None, false);
    assert_eq!(hops(unreachable.as_ref()), ["unreachable"]);
}

#[test]
fn communities_of_the_configuration_are_on_everything() {
    let rules = rules("{bgp: {asn: 65001, communities: ['65001:100', '65001:1:2']}}");
    let standard: Vec<String> =
        rules.origination.communities.iter().map(|c| c.to_string()).collect();
    let large: Vec<String> =
        rules.origination.large_communities.iter().map(|c| c.to_string()).collect();
    assert_eq!((standard, large), (vec!["65001:100".into()], vec!["65001:1:2".into()]));
}
