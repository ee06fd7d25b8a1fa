//! Each case of each rule, by name: what an UPDATE shares here, prefixes in `nets`.

mod nets;

use std::net::IpAddr;
use std::sync::Arc;

use flock_bgp_wire::{AsPath, Attributes, Community, NextHop, Origin, Role, Segment, SegmentKind};
use ipnet::IpNet;

use super::{Judge, Networks, Withheld};
use crate::config::{AddressRule, Import};

const US: u32 = 65001;
const PEER: u32 = 65000;

fn rule(net: &str, min: u8, max: u8) -> AddressRule {
    AddressRule { net: net.parse().unwrap(), min, max }
}

fn everything() -> Import {
    Import { accept: vec![rule("0.0.0.0/0", 0, 32), rule("::/0", 0, 128)], max_prefixes: 1000 }
}

fn external() -> Judge {
    Judge {
        import: Some(everything()),
        local_asn: US,
        local_id: "10.0.0.11".parse().unwrap(),
        peer_asn: PEER,
        peer_address: "192.0.2.1".parse().unwrap(),
        local_address: "192.0.2.2".parse().unwrap(),
        role: None,
        multihop: false,
        networks: networks(&["192.0.2.0/24", "2001:db8:ffff::/64"], &[]),
    }
}

fn internal() -> Judge {
    Judge { peer_asn: US, ..external() }
}

/// Connected ones, and those of our pods.
fn networks(connected: &[&str], own: &[&str]) -> Option<Arc<Networks>> {
    let nets = |of: &[&str]| of.iter().map(|net| net.parse().unwrap()).collect();
    Some(Arc::new(Networks::new(nets(connected), nets(own), Vec::new())))
}

fn down(networks: &[&str]) -> Option<Arc<Networks>> {
    let nets = networks.iter().map(|net| net.parse().unwrap()).collect();
    Some(Arc::new(Networks::new(Vec::new(), Vec::new(), nets)))
}

fn v4(address: &str) -> NextHop {
    NextHop::V4(address.parse().unwrap())
}

fn v6(global: &str, link_local: Option<&str>) -> NextHop {
    NextHop::V6 {
        global: global.parse().unwrap(),
        link_local: link_local.map(|address| address.parse().unwrap()),
    }
}

fn route(path: &[u32]) -> Attributes {
    let mut attributes = Attributes::new(Origin::Igp, v4("192.0.2.1"));
    attributes.as_path = AsPath::sequence(path.iter().copied());
    attributes
}

fn judged(judge: &Judge, mut attributes: Attributes) -> Result<Attributes, Withheld> {
    judge.attributes(&mut attributes).map(|()| attributes)
}

fn net(judge: &Judge, prefix: &str) -> Result<(), Withheld> {
    match prefix.parse().unwrap() {
        IpNet::V4(net) => judge.net(net),
        IpNet::V6(net) => judge.net(net),
    }
}

#[test]
fn nothing_is_believed_without_a_rule() {
    for import in [None, Some(Import { accept: vec![], max_prefixes: 1000 })] {
        let judge = Judge { import, ..external() };
        assert_eq!(judged(&judge, route(&[PEER])), Err(Withheld::NotAccepted));
        assert_eq!(net(&judge, "198.51.100.0/24"), Err(Withheld::NotAccepted));
    }
}

#[test]
fn paths() {
    let set_first = |asns: Vec<u32>, rest: &[u32]| {
        let mut attributes = route(rest);
        attributes.as_path.segments.insert(0, Segment { kind: SegmentKind::Set, asns });
        attributes
    };
    let server = Judge { role: Some(Role::RouteServerClient), ..external() };
    let cases = [
        ("external, the peer alone", external(), route(&[PEER]), Ok(())),
        ("external, the peer first", external(), route(&[PEER, 1, 2]), Ok(())),
        ("external, prepended", external(), route(&[PEER, PEER, 1]), Ok(())),
        ("external, empty", external(), route(&[]), Err(Withheld::FirstAs)),
        ("external, another first", external(), route(&[1, PEER]), Err(Withheld::FirstAs)),
        ("external, a set first", external(), set_first(vec![PEER], &[]), Err(Withheld::FirstAs)),
        ("external, we at the end", external(), route(&[PEER, 1, US]), Err(Withheld::AsLoop)),
        ("external, we in a set", external(), set_first(vec![1, US], &[]), Err(Withheld::AsLoop)),
        ("route server, not in the path", server.clone(), route(&[1, 2]), Ok(())),
        ("route server, we in the path", server, route(&[1, US]), Err(Withheld::AsLoop)),
        ("internal, empty", internal(), route(&[]), Ok(())),
        ("internal, anyone first", internal(), route(&[1, 2]), Ok(())),
        ("internal, we in the path", internal(), route(&[1, US]), Err(Withheld::AsLoop)),
    ];
    for (name, judge, attributes, verdict) in cases {
        assert_eq!(judged(&judge, attributes).map(|_| ()), verdict, "{name}");
    }
}

#[test]
fn reflection_loops_are_for_internal_peers() {
    let originator = |judge: Judge, id: &str| {
        let mut attributes = route(&[PEER]);
        attributes.originator_id = Some(id.parse().unwrap());
        judged(&judge, attributes).map(|kept| kept.originator_id.is_some())
    };
    assert_eq!(originator(internal(), "10.0.0.11"), Err(Withheld::OriginatorLoop));
    assert_eq!(originator(internal(), "10.0.0.12"), Ok(true));
    assert_eq!(originator(external(), "10.0.0.11"), Ok(false), "discarded, not obeyed");

    let clusters = |judge: Judge, ids: &[&str]| {
        let mut attributes = route(&[PEER]);
        attributes.cluster_list = ids.iter().map(|id| id.parse().unwrap()).collect();
        judged(&judge, attributes).map(|kept| kept.cluster_list.len())
    };
    assert_eq!(clusters(internal(), &["10.0.0.1", "10.0.0.11"]), Err(Withheld::ClusterLoop));
    assert_eq!(clusters(internal(), &["10.0.0.1", "10.0.0.2"]), Ok(2));
    assert_eq!(clusters(external(), &["10.0.0.11"]), Ok(0), "discarded, not obeyed");
}

#[test]
fn next_hops() {
    let at = |judge: Judge, peer: &str, local: &str| Judge {
        peer_address: peer.parse().unwrap(),
        local_address: local.parse().unwrap(),
        ..judge
    };
    let unsaid = || Judge { networks: None, ..external() };
    let multihop = || Judge { multihop: true, ..external() };
    let over_v6 = || at(external(), "2001:db8:ffff::1", "2001:db8:ffff::2");
    let unnumbered = || at(external(), "fe80::1", "fe80::2");
    let lone = || Judge { networks: networks(&[], &[]), ..external() };
    let pods = || Judge { networks: networks(&[], &["198.51.100.0/24"]), ..external() };
    let link_down =
        |judge| Judge { networks: down(&["192.0.2.0/24", "2001:db8:ffff::/64"]), ..judge };
    let cases = [
        ("the peer, by a link that is down", link_down(external()), v4("192.0.2.1"), false),
        ("a third party, by a link that is down", link_down(external()), v4("192.0.2.77"), false),
        ("v6, by a link that is down", link_down(over_v6()), v6("2001:db8:ffff::1", None), false),
        (
            "v6, both halves, by a link that is down",
            link_down(over_v6()),
            v6("2001:db8:ffff::1", Some("fe80::1")),
            false,
        ),
        ("the peer", external(), v4("192.0.2.1"), true),
        ("the peer, on no network", lone(), v4("192.0.2.1"), true),
        ("a third party on the network", external(), v4("192.0.2.77"), true),
        ("elsewhere", external(), v4("198.51.100.1"), false),
        ("on a network of our pods", pods(), v4("198.51.100.1"), false),
        ("elsewhere, networks unknown", unsaid(), v4("198.51.100.1"), true),
        ("elsewhere, multihop", multihop(), v4("198.51.100.1"), true),
        ("elsewhere, internal", internal(), v4("198.51.100.1"), false),
        ("on the network, internal", internal(), v4("192.0.2.77"), true),
        ("ours", external(), v4("192.0.2.2"), false),
        ("ours, multihop", multihop(), v4("192.0.2.2"), false),
        ("ours, networks unknown", unsaid(), v4("192.0.2.2"), false),
        ("unspecified", unsaid(), v4("0.0.0.0"), false),
        ("this network", unsaid(), v4("0.1.2.3"), false),
        ("loopback", unsaid(), v4("127.0.0.1"), false),
        ("multicast", unsaid(), v4("224.0.0.5"), false),
        ("reserved", unsaid(), v4("240.0.0.1"), false),
        ("broadcast", unsaid(), v4("255.255.255.255"), false),
        ("link-local, as tunnels use it", unsaid(), v4("169.254.0.1"), true),
        ("v6, the peer", over_v6(), v6("2001:db8:ffff::1", None), true),
        ("v6, both halves", over_v6(), v6("2001:db8:ffff::1", Some("fe80::1")), true),
        ("v6, a third party", over_v6(), v6("2001:db8:ffff::7", None), true),
        ("v6, elsewhere", over_v6(), v6("2001:db8:1::1", None), false),
        ("v6, elsewhere but near", over_v6(), v6("2001:db8:1::1", Some("fe80::1")), true),
        ("v6, near half alone", over_v6(), v6("::", Some("fe80::1")), true),
        ("v6, near half as the only one", over_v6(), v6("fe80::1", None), true),
        ("v6, near half twice", over_v6(), v6("fe80::1", Some("fe80::1")), true),
        ("v6, no half", over_v6(), v6("::", None), false),
        ("v6, near half is none", over_v6(), v6("2001:db8:1::1", Some("2001:db8::1")), false),
        ("v6, ours", over_v6(), v6("2001:db8:ffff::2", None), false),
        ("v6, ours and near", over_v6(), v6("2001:db8:ffff::2", Some("fe80::1")), false),
        ("v6, loopback", over_v6(), v6("::1", None), false),
        ("v6, loopback and near", over_v6(), v6("::1", Some("fe80::1")), false),
        ("v6, multicast", over_v6(), v6("ff02::1", None), false),
        ("v6, mapped", over_v6(), v6("::ffff:192.0.2.1", None), false),
        ("unnumbered", unnumbered(), v6("::", Some("fe80::1")), true),
        ("unnumbered, ours", unnumbered(), v6("::", Some("fe80::2")), false),
    ];
    for (name, judge, next_hop, usable) in cases {
        let verdict = if usable { Ok(()) } else { Err(Withheld::NextHop) };
        let mut attributes = Attributes { next_hop, ..route(&[PEER]) };
        assert_eq!(judge.attributes(&mut attributes), verdict, "{name}");
    }
}

/// RFC 9234 §5: our role, what came, what follows.
#[test]
fn only_to_customer() {
    use Role::{Customer, Peer, Provider, RouteServer, RouteServerClient};
    const LEAK: Result<Option<u32>, Withheld> = Err(Withheld::RouteLeak);
    let cases = [
        (None, None, Ok(None)),
        (None, Some(7), Ok(Some(7))),
        (Some(Provider), None, Ok(None)),
        (Some(Provider), Some(PEER), LEAK),
        (Some(RouteServer), None, Ok(None)),
        (Some(RouteServer), Some(PEER), LEAK),
        (Some(Peer), None, Ok(Some(PEER))),
        (Some(Peer), Some(PEER), Ok(Some(PEER))),
        (Some(Peer), Some(7), LEAK),
        (Some(Customer), None, Ok(Some(PEER))),
        (Some(Customer), Some(7), Ok(Some(7))),
        (Some(RouteServerClient), None, Ok(Some(PEER))),
        (Some(RouteServerClient), Some(7), Ok(Some(7))),
    ];
    for (role, came, expected) in cases {
        let attributes = Attributes { only_to_customer: came, ..route(&[PEER]) };
        let judge = Judge { role, ..external() };
        let kept = judged(&judge, attributes.clone());
        assert_eq!(
            kept.as_ref().map(|kept| kept.only_to_customer).map_err(|reason| *reason),
            expected,
            "{role:?} {came:?}"
        );
        if let Ok(kept) = kept {
            let anew = judge.again("198.51.100.0/24".parse().unwrap(), Ok(&kept));
            assert_eq!(anew, Ok(()), "judged again: {role:?} {came:?}");
        }
        let inside = Judge { role, ..internal() };
        let kept = judged(&inside, attributes).map(|kept| kept.only_to_customer);
        assert_eq!(kept, Ok(came), "roles mean nothing inside an AS: {role:?} {came:?}");
    }
}

#[test]
fn local_pref_is_not_for_external_peers_to_say() {
    let shut = vec![Community(1), Community::GRACEFUL_SHUTDOWN];
    let cases = [
        ("external", external(), Some(500), vec![], None),
        ("external, going", external(), Some(500), shut.clone(), Some(0)),
        ("external, going, none said", external(), None, shut.clone(), Some(0)),
        ("internal", internal(), Some(500), vec![], Some(500)),
        ("internal, going", internal(), Some(500), shut, Some(500)),
    ];
    for (name, judge, local_pref, communities, expected) in cases {
        let attributes = Attributes { local_pref, communities, ..route(&[PEER]) };
        let kept = judged(&judge, attributes.clone()).unwrap();
        assert_eq!(kept.local_pref, expected, "{name}");
        assert_eq!(kept.communities, attributes.communities, "{name}");
    }
}

#[test]
fn a_kept_route_is_judged_again_by_what_changed() {
    let prefix: IpNet = "198.51.100.0/24".parse().unwrap();
    let kept = judged(&external(), route(&[PEER])).unwrap();
    let again = |judge: Judge| judge.again(prefix, Ok(&kept));
    assert_eq!(again(external()), Ok(()));
    let narrower = Import { accept: vec![rule("10.0.0.0/8", 8, 32)], max_prefixes: 1 };
    let judge = Judge { import: Some(narrower), ..external() };
    assert_eq!(again(judge), Err(Withheld::NotAccepted));
    let judge = Judge { networks: networks(&["198.51.100.0/24"], &[]), ..external() };
    assert_eq!(again(judge), Err(Withheld::Connected));
    let judge = Judge { networks: networks(&[], &["198.51.0.0/16"]), ..external() };
    assert_eq!(again(judge), Err(Withheld::OwnPods));
    let elsewhere: IpAddr = "192.0.2.9".parse().unwrap();
    let judge = Judge { networks: networks(&[], &[]), peer_address: elsewhere, ..external() };
    assert_eq!(again(judge), Err(Withheld::NextHop));
}

/// Of a refused one only the reason is left: it stays refused, and a better reason replaces it.
#[test]
fn a_refused_route_is_judged_again_by_where_it_is() {
    let prefix: IpNet = "198.51.100.0/24".parse().unwrap();
    let again = |judge: Judge| judge.again(prefix, Err(Withheld::AsLoop));
    assert_eq!(again(external()), Err(Withheld::AsLoop));
    let judge = Judge { networks: networks(&[], &["198.51.100.0/22"]), ..external() };
    assert_eq!(again(judge), Err(Withheld::OwnPodsLoop));
    let judge = Judge { import: None, ..external() };
    assert_eq!(again(judge), Err(Withheld::AsLoop));
    let was_ours = external().again(prefix, Err(Withheld::OwnPodsLoop));
    assert_eq!(was_ours, Err(Withheld::AsLoop), "the network is no longer ours");
}

/// Each reason beside all that say less.
#[test]
fn the_reason_that_says_most_is_kept() {
    let networks = networks(&["10.0.0.0/8", "127.0.0.0/8"], &["10.1.0.0/16", "127.1.0.0/16"]);
    let judge = Judge { import: None, networks, ..external() };
    let looped = judged(&judge, route(&[US])).unwrap_err();
    assert_eq!(looped, Withheld::AsLoop, "it has a wrong first AS number and no rule, too");
    let far = Attributes { next_hop: v4("203.0.113.1"), ..route(&[PEER]) };
    assert_eq!(judged(&judge, far), Err(Withheld::NextHop), "there is no rule, too");
    assert_eq!(judged(&judge, route(&[PEER])), Err(Withheld::NotAccepted));
    for (prefix, why) in [
        ("127.1.2.0/24", Withheld::OwnPodsLoop),
        ("10.1.0.0/16", Withheld::OwnPodsLoop),
        ("127.2.0.0/16", Withheld::Connected),
        ("10.0.0.0/8", Withheld::Connected),
        ("169.254.0.0/16", Withheld::Martian),
        ("198.51.100.0/24", Withheld::AsLoop),
        ("0.0.0.0/0", Withheld::AsLoop),
    ] {
        let prefix: ipnet::Ipv4Net = prefix.parse().unwrap();
        assert_eq!(judge.refused(prefix, looped), why, "{prefix}");
        let alone = match why {
            Withheld::AsLoop => Withheld::NotAccepted,
            Withheld::OwnPodsLoop => Withheld::OwnPods,
            why => why,
        };
        assert_eq!(judge.net(prefix), Err(alone), "{prefix}");
    }
    // They are in this order, so that the least of several is the one to tell of.
    use Withheld::{AsLoop, Connected, Martian, NextHop, NotAccepted, OwnPods, OwnPodsLoop};
    assert!([OwnPods, OwnPodsLoop, Connected, Martian, AsLoop, NextHop, NotAccepted].is_sorted());
}

#[test]
fn which_refusals_are_news() {
    let ten: IpNet = "10.0.0.0/16".parse().unwrap();
    let narrow = Import { accept: vec![rule("10.0.0.0/8", 8, 32)], max_prefixes: 1 };
    let judge = Judge { import: Some(narrow), ..external() };
    let closed = Judge { import: None, ..external() };
    for (why, wanted, unwanted) in [
        (Withheld::OwnPods, true, true),
        (Withheld::OwnPodsLoop, true, true),
        (Withheld::Connected, true, true),
        (Withheld::Martian, true, false),
        (Withheld::NextHop, true, false),
        (Withheld::FirstAs, true, false),
        (Withheld::AsLoop, false, false),
        (Withheld::NotAccepted, false, false),
    ] {
        assert_eq!(judge.is_news(ten, why), wanted, "{why:?}");
        assert_eq!(judge.is_news("172.16.0.0/12".parse().unwrap(), why), unwanted, "{why:?}");
        assert_eq!(judge.is_news("2001:db8::/32".parse().unwrap(), why), unwanted, "{why:?}");
        assert_eq!(closed.is_news(ten, why), unwanted, "{why:?}");
    }
}
