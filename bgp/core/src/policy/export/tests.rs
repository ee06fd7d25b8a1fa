//! Each case of each attribute, by name.

use std::net::{IpAddr, Ipv6Addr};

use flock_bgp_wire::{
    AsPath, Attributes, Community, ExtendedCommunity, Family, LargeCommunity, NextHop, Origin,
    Role, Segment, SegmentKind, Unknown,
};

use super::{Exporter, From, Missing, Withheld, next_hops};
use crate::config::{AddressRule, Export, Import, NextHops};
use crate::event::PeerKey;
use crate::policy::import::Judge;

const US: u32 = 65001;
const THEM: u32 = 65000;
const OTHER: u32 = 65002;

/// Learned from some other peer, external or internal.
const OUTSIDE: From = From::Peer { key: PeerKey(2), internal: false };
const INSIDE: From = From::Peer { key: PeerKey(2), internal: true };

fn v4(address: &str) -> NextHop {
    NextHop::V4(address.parse().unwrap())
}

fn v6(global: &str, link_local: Option<&str>) -> NextHop {
    NextHop::V6 {
        global: global.parse().unwrap(),
        link_local: link_local.map(|address| address.parse().unwrap()),
    }
}

fn external() -> Exporter {
    Exporter {
        peer: PeerKey(1),
        local_asn: US,
        peer_asn: THEM,
        export: Export::default(),
        role: None,
        next_hops: [Some(v4("192.0.2.2")), Some(v6("2001:db8::2", None))],
        transit: true,
        drain: false,
    }
}

fn internal() -> Exporter {
    Exporter { peer_asn: US, ..external() }
}

/// As the RIB keeps what we originate.
fn originated() -> Attributes {
    Attributes::new(Origin::Igp, v4("0.0.0.0"))
}

fn learned() -> Attributes {
    Attributes {
        as_path: AsPath::sequence([OTHER, 7]),
        ..Attributes::new(Origin::Egp, v4("192.0.2.77"))
    }
}

fn told(exporter: &Exporter, attributes: &Attributes, from: From) -> Attributes {
    exporter.attributes(Family::Ipv4, attributes, from).unwrap()
}

fn verdict(exporter: &Exporter, attributes: &Attributes, from: From) -> Option<Withheld> {
    exporter.attributes(Family::Ipv4, attributes, from).err()
}

#[test]
fn who_is_told_what() {
    let closed = |exporter: Exporter| Exporter { transit: false, ..exporter };
    let teller = From::Peer { key: PeerKey(1), internal: false };
    let cases = [
        ("ours, external", closed(external()), From::Ourselves, None),
        ("ours, internal", closed(internal()), From::Ourselves, None),
        ("learned", closed(external()), OUTSIDE, Some(Withheld::NotOriginated)),
        ("learned, internal", closed(internal()), OUTSIDE, Some(Withheld::NotOriginated)),
        ("learned inside", closed(external()), INSIDE, Some(Withheld::NotOriginated)),
        ("transit, outside to outside", external(), OUTSIDE, None),
        ("transit, outside to inside", internal(), OUTSIDE, None),
        ("transit, inside to outside", external(), INSIDE, None),
        ("transit, inside to inside", internal(), INSIDE, Some(Withheld::SplitHorizon)),
        ("transit, back to its teller", external(), teller, Some(Withheld::SplitHorizon)),
    ];
    for (name, exporter, from, expected) in cases {
        assert_eq!(verdict(&exporter, &learned(), from), expected, "{name}");
    }
}

#[test]
fn well_known_communities_bind_learned_routes() {
    let cases = [
        (Community::NO_ADVERTISE, true, true),
        (Community::NO_EXPORT, true, false),
        (Community::NO_EXPORT_SUBCONFED, true, false),
        (Community::GRACEFUL_SHUTDOWN, false, false),
        (Community(0xFFFF_FF04), false, false),
    ];
    for (community, outside, inside) in cases {
        let communities = vec![Community(1), community];
        let attributes = Attributes { communities: communities.clone(), ..learned() };
        let expected = |bound: bool| bound.then_some(Withheld::WellKnownCommunity);
        assert_eq!(verdict(&external(), &attributes, OUTSIDE), expected(outside), "{community}");
        assert_eq!(verdict(&internal(), &attributes, OUTSIDE), expected(inside), "{community}");
        // An operator who puts it on our own route wants the router to hear it.
        let ours = Attributes { communities: communities.clone(), ..originated() };
        assert_eq!(told(&external(), &ours, From::Ourselves).communities, communities);
    }
}

#[test]
fn next_hop_is_self_or_the_family_is_not_told() {
    let exporter = external();
    assert_eq!(told(&exporter, &originated(), From::Ourselves).next_hop, v4("192.0.2.2"));
    assert_eq!(told(&exporter, &learned(), OUTSIDE).next_hop, v4("192.0.2.2"));
    assert_eq!(told(&internal(), &learned(), OUTSIDE).next_hop, v4("192.0.2.2"));
    let told = exporter.attributes(Family::Ipv6, &originated(), From::Ourselves).unwrap();
    assert_eq!(told.next_hop, v6("2001:db8::2", None));

    let exporter = Exporter { next_hops: [None, Some(v6("2001:db8::2", None))], ..exporter };
    assert_eq!(verdict(&exporter, &originated(), From::Ourselves), Some(Withheld::NoNextHop));
    assert!(exporter.attributes(Family::Ipv6, &originated(), From::Ourselves).is_ok());
}

#[test]
fn as_path() {
    let prepending = |exporter: Exporter, prepend: u8| Exporter {
        export: Export { prepend, ..Export::default() },
        ..exporter
    };
    let path = |asns: &[u32]| AsPath::sequence(asns.iter().copied());
    let cases = [
        ("ours, external", external(), originated(), From::Ourselves, path(&[US])),
        ("ours, internal", internal(), originated(), From::Ourselves, path(&[])),
        ("prepend", prepending(external(), 2), originated(), From::Ourselves, path(&[US, US, US])),
        ("no prepend inside", prepending(internal(), 2), originated(), From::Ourselves, path(&[])),
        ("learned", external(), learned(), OUTSIDE, path(&[US, OTHER, 7])),
        ("learned, internal", internal(), learned(), OUTSIDE, path(&[OTHER, 7])),
    ];
    for (name, exporter, attributes, from, expected) in cases {
        assert_eq!(told(&exporter, &attributes, from).as_path, expected, "{name}");
    }
    let set = Segment { kind: SegmentKind::Set, asns: vec![7, 8] };
    let attributes = Attributes { as_path: AsPath { segments: vec![set.clone()] }, ..learned() };
    let ours = Segment { kind: SegmentKind::Sequence, asns: vec![US] };
    assert_eq!(told(&external(), &attributes, OUTSIDE).as_path.segments, [ours, set]);
    let most = told(&prepending(external(), u8::MAX), &originated(), From::Ourselves).as_path;
    assert_eq!(most.hops(), 256);
    assert!(most.segments.iter().all(|segment| segment.asns.len() <= 255));
}

#[test]
fn local_pref() {
    let cases = [
        // (internal, of the route, of the peer, drain) -> told
        (true, None, None, false, Some(100)),
        (true, None, Some(200), false, Some(200)),
        (true, Some(300), None, false, Some(300)),
        (true, Some(300), Some(200), false, Some(300)),
        (true, Some(0), Some(200), false, Some(0)),
        (true, Some(300), Some(200), true, Some(0)),
        (true, None, None, true, Some(0)),
        (false, None, None, false, None),
        (false, Some(300), Some(200), false, None),
        (false, Some(300), Some(200), true, None),
    ];
    for (inside, route, peer, drain, expected) in cases {
        let export = Export { local_pref: peer, ..Export::default() };
        let exporter = Exporter { export, drain, ..if inside { internal() } else { external() } };
        for (base, from) in [(originated(), From::Ourselves), (learned(), OUTSIDE)] {
            let attributes = Attributes { local_pref: route, ..base };
            let told = told(&exporter, &attributes, from).local_pref;
            assert_eq!(told, expected, "{inside} {route:?} {peer:?} {drain} {from:?}");
        }
    }
}

#[test]
fn med() {
    let cases = [
        // (internal, from, of the route, of the peer) -> told
        (false, From::Ourselves, None, None, None),
        (false, From::Ourselves, None, Some(20), Some(20)),
        (false, From::Ourselves, Some(10), Some(20), Some(10)),
        (false, From::Ourselves, Some(0), Some(20), Some(0)),
        (true, From::Ourselves, Some(10), Some(20), Some(10)),
        (true, From::Ourselves, None, Some(20), Some(20)),
        (false, OUTSIDE, Some(10), None, None),
        (false, OUTSIDE, Some(10), Some(20), Some(20)),
        (false, INSIDE, Some(10), None, None),
        (true, OUTSIDE, Some(10), None, Some(10)),
        (true, OUTSIDE, Some(10), Some(20), Some(10)),
        (true, OUTSIDE, None, None, None),
    ];
    for (inside, from, route, peer, expected) in cases {
        let export = Export { med: peer, ..Export::default() };
        let exporter = Exporter { export, ..if inside { internal() } else { external() } };
        let attributes = Attributes { med: route, ..learned() };
        let told = told(&exporter, &attributes, from).med;
        assert_eq!(told, expected, "{inside} {from:?} {route:?} {peer:?}");
    }
}

#[test]
fn communities_are_joined_sorted_and_distinct() {
    let export = Export {
        communities: vec![Community(5), Community(1)],
        large_communities: vec![LargeCommunity(1, 2, 3), LargeCommunity(1, 1, 1)],
        ..Export::default()
    };
    let attributes = Attributes {
        communities: vec![Community(9), Community(5), Community(9)],
        large_communities: vec![LargeCommunity(1, 2, 3)],
        ..originated()
    };
    for exporter in [external(), internal()] {
        let exporter = Exporter { export: export.clone(), ..exporter };
        let quiet = told(&exporter, &attributes, From::Ourselves);
        assert_eq!(quiet.communities, [Community(1), Community(5), Community(9)]);
        assert_eq!(quiet.large_communities, [LargeCommunity(1, 1, 1), LargeCommunity(1, 2, 3)]);

        // RFC 8326 §4.2.
        let drain = Exporter { drain: true, ..exporter };
        let going = told(&drain, &attributes, From::Ourselves);
        let expected = [Community(1), Community(5), Community(9), Community::GRACEFUL_SHUTDOWN];
        assert_eq!(going.communities, expected);
        let again = Attributes { communities: going.communities.clone(), ..originated() };
        assert_eq!(told(&drain, &again, From::Ourselves).communities, expected);
    }
}

#[test]
fn what_stays_inside_the_as() {
    let transitive = ExtendedCommunity([0x00, 2, 0, 0, 0, 0, 0, 1]);
    let inner = ExtendedCommunity([0x40, 2, 0, 0, 0, 0, 0, 1]);
    let opaque = ExtendedCommunity([0x83, 2, 0, 0, 0, 0, 0, 1]);
    let attributes = Attributes {
        originator_id: Some("10.0.0.1".parse().unwrap()),
        cluster_list: vec!["10.0.0.2".parse().unwrap()],
        extended_communities: vec![transitive, inner, opaque],
        ..learned()
    };
    let outside = told(&external(), &attributes, INSIDE);
    assert_eq!((outside.originator_id, outside.cluster_list.len()), (None, 0));
    assert_eq!(outside.extended_communities, [transitive, opaque]);
    let inside = told(&internal(), &attributes, OUTSIDE);
    assert_eq!((inside.originator_id, inside.cluster_list.len()), (None, 0));
    assert_eq!(inside.extended_communities, [transitive, inner, opaque]);
}

#[test]
fn what_is_passed_on_as_it_came() {
    let unknown = |flags| Unknown { kind: 99, flags, value: Box::from([1, 2, 3]) };
    let attributes = Attributes {
        origin: Origin::Incomplete,
        atomic_aggregate: true,
        aggregator: Some(flock_bgp_wire::Aggregator { asn: 7, id: "10.0.0.7".parse().unwrap() }),
        unknown: vec![unknown(0xC0), unknown(0xE0)],
        ..learned()
    };
    let told = told(&external(), &attributes, OUTSIDE);
    let expected = Attributes {
        as_path: AsPath::sequence([US, OTHER, 7]),
        next_hop: v4("192.0.2.2"),
        unknown: vec![unknown(0xE0), unknown(0xE0)],
        ..attributes
    };
    assert_eq!(told, expected);
}

/// RFC 9234 §5: our role, what the route has, what follows for learned and for own routes.
#[test]
fn only_to_customer() {
    use Role::{Customer, Peer, Provider, RouteServer, RouteServerClient};
    const LEAK: Result<Option<u32>, Withheld> = Err(Withheld::RouteLeak);
    let cases = [
        (None, None, Ok(None)),
        (None, Some(7), Ok(Some(7))),
        (Some(Provider), None, Ok(Some(US))),
        (Some(Provider), Some(7), Ok(Some(7))),
        (Some(RouteServer), None, Ok(Some(US))),
        (Some(RouteServer), Some(7), Ok(Some(7))),
        (Some(Peer), None, Ok(Some(US))),
        (Some(Peer), Some(7), LEAK),
        (Some(Customer), None, Ok(None)),
        (Some(Customer), Some(7), LEAK),
        (Some(RouteServerClient), None, Ok(None)),
        (Some(RouteServerClient), Some(7), LEAK),
    ];
    for (role, has, expected) in cases {
        let attributes = Attributes { only_to_customer: has, ..learned() };
        let tell = |exporter: Exporter, from| {
            Exporter { role, ..exporter }
                .attributes(Family::Ipv4, &attributes, from)
                .map(|told| told.only_to_customer)
        };
        assert_eq!(tell(external(), OUTSIDE), expected, "{role:?} {has:?}");
        assert_eq!(tell(internal(), OUTSIDE), Ok(has), "inside: {role:?} {has:?}");
        if has.is_none() {
            assert_eq!(tell(external(), From::Ourselves), expected, "ours: {role:?}");
        }
    }
}

/// RFC 9234 §5 as a whole: what came from above or from beside goes only down.
#[test]
fn no_valleys() {
    use Role::{Customer, Peer, Provider, RouteServer, RouteServerClient};
    let rule = AddressRule { net: "0.0.0.0/0".parse().unwrap(), min: 0, max: 32 };
    for heard_as in [Customer, Peer, Provider, RouteServer, RouteServerClient] {
        let judge = Judge {
            import: Some(Import { accept: vec![rule], max_prefixes: 1 }),
            local_asn: US,
            local_id: "10.0.0.1".parse().unwrap(),
            peer_asn: OTHER,
            peer_address: "192.0.2.77".parse().unwrap(),
            local_address: "192.0.2.2".parse().unwrap(),
            role: Some(heard_as),
            multihop: false,
            networks: None,
        };
        let mut attributes = learned();
        judge.attributes(&mut attributes).unwrap();
        for told_as in [Customer, Peer, Provider, RouteServer, RouteServerClient] {
            let exporter = Exporter { role: Some(told_as), ..external() };
            let from_below = matches!(heard_as, Provider | RouteServer);
            let to_below = matches!(told_as, Provider | RouteServer);
            let expected = (!from_below && !to_below).then_some(Withheld::RouteLeak);
            let found = verdict(&exporter, &attributes, OUTSIDE);
            assert_eq!(found, expected, "heard as {heard_as:?}, told as {told_as:?}");
        }
    }
}

#[test]
fn next_hop_per_family() {
    const NO4: Result<NextHop, Missing> = Err(Missing::Ipv4OverIpv6);
    const NO6: Result<NextHop, Missing> = Err(Missing::Ipv6OverIpv4);
    let none = NextHops::default();
    let four = NextHops { ipv4: Some("10.0.0.5".parse().unwrap()), ..none };
    let six = NextHops { ipv6: Some("2001:db8:5::5".parse().unwrap()), ..none };
    let both = NextHops { ipv4: four.ipv4, ipv6: six.ipv6 };
    let near = Some("fe80::2");
    let s4 = "192.0.2.2";
    let s6 = "2001:db8::2";
    let (own4, own6) = (v4("10.0.0.5"), |near| v6("2001:db8:5::5", near));
    let cases = [
        // (session, wished, link-local, RFC 8950) -> IPv4, IPv6
        (s4, none, None, false, Ok(v4(s4)), NO6),
        (s4, none, None, true, Ok(v4(s4)), NO6),
        (s4, none, near, false, Ok(v4(s4)), NO6),
        (s4, four, None, false, Ok(own4), NO6),
        (s4, six, None, false, Ok(v4(s4)), Ok(own6(None))),
        (s4, six, near, true, Ok(v4(s4)), Ok(own6(near))),
        (s4, both, None, false, Ok(own4), Ok(own6(None))),
        ("::ffff:192.0.2.2", none, None, true, Ok(v4(s4)), NO6),
        (s6, none, None, false, NO4, Ok(v6(s6, None))),
        (s6, none, near, false, NO4, Ok(v6(s6, near))),
        (s6, none, None, true, Ok(v6(s6, None)), Ok(v6(s6, None))),
        (s6, none, near, true, Ok(v6(s6, near)), Ok(v6(s6, near))),
        (s6, four, None, false, Ok(own4), Ok(v6(s6, None))),
        (s6, four, None, true, Ok(own4), Ok(v6(s6, None))),
        (s6, six, None, true, Ok(own6(None)), Ok(own6(None))),
        (s6, six, None, false, NO4, Ok(own6(None))),
        (s6, both, near, true, Ok(own4), Ok(own6(near))),
        ("fe80::2", none, None, false, NO4, Ok(v6("::", near))),
        ("fe80::2", none, None, true, Ok(v6("::", near)), Ok(v6("::", near))),
        ("fe80::2", six, None, true, Ok(own6(near)), Ok(own6(near))),
    ];
    for (session, wished, near, extended, ipv4, ipv6) in cases {
        let session: IpAddr = session.parse().unwrap();
        let near: Option<Ipv6Addr> = near.map(|near| near.parse().unwrap());
        let chosen = next_hops(wished, session, near, extended);
        assert_eq!(chosen, [ipv4, ipv6], "{session} {wished:?} {near:?} {extended}");
    }
    assert!(Missing::Ipv4OverIpv6.to_string().contains("RFC 8950"));
    assert!(Missing::Ipv6OverIpv4.to_string().contains("IPv6"));
}
