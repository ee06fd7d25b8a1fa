//! Values of every kind that the codec can carry, for the properties.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use flock_bgp_wire::{
    AddPathMode, Aggregator, AsPath, Attributes, Capability, Community, ExtendedCommunity, Family,
    GracefulRestart, LargeCommunity, Net, NextHop, Notification, Open, Origin, Refresh,
    RefreshKind, Role, Segment, SegmentKind, Unknown,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// What an attribute set may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants {
    /// Four-octet numbers inside confederation segments: lost on a session with two.
    pub(crate) four_octet_as: bool,
    pub(crate) confederations: bool,
    pub(crate) unknown: bool,
}

pub(crate) const EVERYTHING: Wants =
    Wants { four_octet_as: true, confederations: true, unknown: true };

pub(crate) fn asn() -> impl Strategy<Value = u32> {
    prop_oneof![1..=65535_u32, Just(23456), 65536..=u32::MAX]
}

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![Just(Origin::Igp), Just(Origin::Egp), Just(Origin::Incomplete)]
}

fn segment() -> impl Strategy<Value = Segment> {
    let kind = prop_oneof![4 => Just(SegmentKind::Sequence), 1 => Just(SegmentKind::Set)];
    let asns = prop_oneof![8 => vec(asn(), 1..8), 1 => vec(asn(), 255..=255)];
    (kind, asns).prop_map(|(kind, asns)| Segment { kind, asns })
}

fn confederation(four_octet_as: bool) -> impl Strategy<Value = Segment> {
    let kind = prop_oneof![Just(SegmentKind::ConfedSequence), Just(SegmentKind::ConfedSet)];
    let most = if four_octet_as { u32::MAX } else { 65535 };
    (kind, vec(1..=most, 1..4)).prop_map(|(kind, asns)| Segment { kind, asns })
}

/// Confederation segments lead, as RFC 5065 §5 has it.
fn as_path(wants: Wants) -> impl Strategy<Value = AsPath> {
    let most = if wants.confederations { 2 } else { 0 };
    (vec(confederation(wants.four_octet_as), 0..=most), vec(segment(), 0..4))
        .prop_map(|(lead, rest)| AsPath { segments: [lead, rest].concat() })
}

pub(crate) fn host() -> impl Strategy<Value = Ipv4Addr> {
    (1_u32..0xE000_0000).prop_map(Ipv4Addr::from)
}

fn global() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(|bits| Ipv6Addr::from(bits >> 3 | 1 << 125))
}

fn link_local() -> impl Strategy<Value = Ipv6Addr> {
    any::<u64>().prop_map(|bits| Ipv6Addr::from(0xFE80 << 112 | u128::from(bits)))
}

pub(crate) fn next_hop(v4: bool) -> BoxedStrategy<NextHop> {
    if v4 {
        return host().prop_map(NextHop::V4).boxed();
    }
    prop_oneof![
        (global(), option::of(link_local()))
            .prop_map(|(global, link_local)| NextHop::V6 { global, link_local }),
        link_local().prop_map(|address| NextHop::V6 {
            global: Ipv6Addr::UNSPECIFIED,
            link_local: Some(address)
        }),
    ]
    .boxed()
}

fn aggregator() -> impl Strategy<Value = Aggregator> {
    (asn(), any::<u32>()).prop_map(|(asn, id)| Aggregator { asn, id: id.into() })
}

/// Codes that nobody here knows, nor the oracles; ascending, Partial set, as they come back.
fn unknown() -> impl Strategy<Value = Vec<Unknown>> {
    let kind = prop_oneof![Just(11_u8), Just(12), Just(13), 19..=21_u8, 200..=254_u8];
    let value = prop_oneof![8 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 250..300)];
    proptest::collection::btree_map(kind, value, 0..3).prop_map(|map| {
        map.into_iter()
            .map(|(kind, value)| Unknown { kind, flags: 0xE0, value: value.into() })
            .collect()
    })
}

fn large() -> impl Strategy<Value = Vec<LargeCommunity>> {
    let one = any::<(u32, u32, u32)>().prop_map(|(a, b, c)| LargeCommunity(a, b, c));
    // Each once: redundant ones do not come back (RFC 8092 §2).
    proptest::collection::btree_set(one, 0..5).prop_map(|set| set.into_iter().rev().collect())
}

type First = (Origin, AsPath, NextHop, Option<u32>, Option<u32>, bool, Option<Aggregator>);
type Second =
    (Vec<u32>, Vec<[u8; 8]>, Vec<LargeCommunity>, Option<u32>, Vec<u32>, Option<u32>, Vec<Unknown>);

pub(crate) fn attributes(v4: bool, wants: Wants) -> impl Strategy<Value = Attributes> {
    let first = (
        origin(),
        as_path(wants),
        next_hop(v4),
        any::<Option<u32>>(),
        any::<Option<u32>>(),
        any::<bool>(),
        option::of(aggregator()),
    );
    let second = (
        prop_oneof![8 => vec(any::<u32>(), 0..6), 1 => vec(any::<u32>(), 60..70)],
        vec(any::<[u8; 8]>(), 0..4),
        large(),
        any::<Option<u32>>(),
        vec(any::<u32>(), 0..4),
        any::<Option<u32>>(),
        if wants.unknown { unknown().boxed() } else { Just(Vec::new()).boxed() },
    );
    (first, second).prop_map(|(first, second)| put_together(first, second))
}

fn put_together(first: First, second: Second) -> Attributes {
    let (origin, as_path, next_hop, med, local_pref, atomic_aggregate, aggregator) = first;
    let (communities, extended, large_communities, originator, clusters, otc, unknown) = second;
    Attributes {
        origin,
        as_path,
        next_hop,
        med,
        local_pref,
        atomic_aggregate,
        aggregator,
        communities: communities.into_iter().map(Community).collect(),
        extended_communities: extended.into_iter().map(ExtendedCommunity).collect(),
        large_communities,
        originator_id: originator.map(Ipv4Addr::from),
        cluster_list: clusters.into_iter().map(Ipv4Addr::from).collect(),
        only_to_customer: otc,
        unknown,
    }
}

/// Prefixes of any length, and runs of one length, as tables have them.
pub(crate) fn nets<N: Net>(most: usize) -> impl Strategy<Value = Vec<N>> {
    let any_length =
        (any::<u128>(), 0..=N::MAX_LEN).prop_map(|(bits, len)| N::from_bits(bits, len));
    let usual = if N::MAX_LEN == 32 { 24 } else { 48 };
    let one_length = any::<u128>().prop_map(move |bits| N::from_bits(bits, usual));
    prop_oneof![
        4 => vec(any_length, 1..most.min(40)),
        1 => vec(one_length, 1..most),
    ]
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        Just(Role::Provider),
        Just(Role::RouteServer),
        Just(Role::RouteServerClient),
        Just(Role::Customer),
        Just(Role::Peer),
    ]
}

fn restart() -> impl Strategy<Value = GracefulRestart> {
    let families = vec((family(), any::<bool>()), 0..4);
    (any::<bool>(), any::<bool>(), 0..=4095_u16, families).prop_map(
        |(restarted, notification, time, families)| GracefulRestart {
            restarted,
            notification,
            time,
            families,
        },
    )
}

fn add_path() -> impl Strategy<Value = Vec<(Family, AddPathMode)>> {
    let mode =
        prop_oneof![Just(AddPathMode::Receive), Just(AddPathMode::Send), Just(AddPathMode::Both)];
    vec((family(), mode), 1..4)
}

pub(crate) fn capability() -> impl Strategy<Value = Capability> {
    // Codes that nobody here knows, nor the oracles.
    let other = (prop_oneof![Just(3_u8), 200..=238_u8], vec(any::<u8>(), 0..60));
    prop_oneof![
        family().prop_map(Capability::Multiprotocol),
        Just(Capability::RouteRefresh),
        vec(family(), 1..3).prop_map(Capability::ExtendedNextHop),
        Just(Capability::ExtendedMessage),
        role().prop_map(Capability::Role),
        restart().prop_map(Capability::GracefulRestart),
        asn().prop_map(Capability::FourOctetAs),
        add_path().prop_map(Capability::AddPath),
        Just(Capability::EnhancedRouteRefresh),
        other.prop_map(|(code, value)| Capability::Other { code, value: Bytes::from(value) }),
    ]
}

pub(crate) fn open(most: usize) -> impl Strategy<Value = Open> {
    let hold_time = prop_oneof![Just(0), 3..=u16::MAX];
    (1..=u16::MAX, hold_time, 1..=u32::MAX, vec(capability(), 0..most)).prop_map(
        |(wire_asn, hold_time, id, capabilities)| Open {
            wire_asn,
            hold_time,
            id: id.into(),
            capabilities,
        },
    )
}

pub(crate) fn notification() -> impl Strategy<Value = Notification> {
    (any::<u8>(), any::<u8>(), vec(any::<u8>(), 0..80))
        .prop_map(|(code, subcode, data)| Notification::with(code, subcode, data))
}

pub(crate) fn refresh() -> impl Strategy<Value = Refresh> {
    let kind = prop_oneof![
        Just(RefreshKind::Request),
        Just(RefreshKind::Begin),
        Just(RefreshKind::End),
        (3..=u8::MAX).prop_map(RefreshKind::Unknown),
    ];
    (any::<u16>(), any::<u8>(), kind).prop_map(|(afi, safi, kind)| Refresh { afi, safi, kind })
}
