//! The second oracle, zettabgp, which reads what we write, sound messages only.
//!
//! What it is known to get wrong is not asked of it:
//! - a damaged message may panic it or make it allocate without end, so it sees none;
//! - it compares AS 65536 equal to 1 and keeps sets ordered by that, so there are no AS_SETs here;
//! - it knows no confederation segments, AS4_PATH or AS4_AGGREGATOR;
//! - it keeps communities as sets: order and repetition are lost;
//! - it loses the link-local half of a next hop of 32 octets;
//! - it reads the IPv6 next hop of IPv4 prefixes (RFC 8950) wrongly, without an error;
//! - it guesses at path identifiers (RFC 7911) unless told not to.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use bytes::BytesMut;
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::frame::MAX_EXTENDED;
use flock_bgp_wire::{Attributes, NextHop, Origin, SegmentKind};
use ipnet::{Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use zettabgp::prelude::*;
use zettabgp::{BgpSessionParams, BgpTransportMode};

use crate::config;
use crate::generate::{self, EVERYTHING, Wants};

const WANTS: Wants = Wants { confederations: false, unknown: false, ..EVERYTHING };

fn attributes(v4: bool) -> impl Strategy<Value = Attributes> {
    generate::attributes(v4, WANTS).prop_map(|mut attributes| {
        attributes.as_path.segments.retain(|segment| segment.kind == SegmentKind::Sequence);
        if let NextHop::V6 { link_local, .. } = &mut attributes.next_hop {
            *link_local = None;
        }
        attributes
    })
}

fn read(message: &[u8]) -> BgpUpdateMessage {
    let mut session =
        BgpSessionParams::new(65001, 180, BgpTransportMode::IPv4, Ipv4Addr::LOCALHOST, vec![]);
    session.fuzzy_pathid = false;
    let mut update = BgpUpdateMessage::new();
    update.decode_from(&session, &message[19..]).unwrap();
    update
}

fn same_origin(ours: Origin, theirs: &BgpAttrOrigin) -> bool {
    matches!(
        (ours, theirs),
        (Origin::Igp, BgpAttrOrigin::Igp)
            | (Origin::Egp, BgpAttrOrigin::Egp)
            | (Origin::Incomplete, BgpAttrOrigin::Incomplete)
    )
}

/// Compares everything but prefixes and the next hop of MP_REACH_NLRI; returns how many attributes
/// it had.
fn compare(ours: &Attributes, update: &BgpUpdateMessage) -> usize {
    for attribute in &update.attrs {
        match attribute {
            BgpAttrItem::Origin(one) => assert!(same_origin(ours.origin, &one.value)),
            BgpAttrItem::ASPath(path) => {
                let theirs = path.value.iter().flat_map(|item| match item {
                    BgpASitem::Seq(list) => list.value.iter().map(|asn| asn.value),
                    BgpASitem::Set(set) => panic!("a set: {set:?}"),
                });
                assert!(theirs.eq(ours.as_path.iter()));
            }
            BgpAttrItem::NextHop(hop) => {
                let IpAddr::V4(address) = hop.value else { panic!() };
                assert_eq!(NextHop::V4(address), ours.next_hop);
            }
            BgpAttrItem::MED(med) => assert_eq!(Some(med.value), ours.med),
            BgpAttrItem::LocalPref(one) => assert_eq!(Some(one.value), ours.local_pref),
            BgpAttrItem::AtomicAggregate(_) => assert!(ours.atomic_aggregate),
            BgpAttrItem::AggregatorAS(one) => {
                let ours = ours.aggregator.unwrap();
                assert_eq!((one.asn, one.addr), (ours.asn, ours.id));
            }
            BgpAttrItem::CommunityList(list) => {
                let theirs: BTreeSet<u32> = list.value.iter().map(|one| one.value).collect();
                assert_eq!(theirs, ours.communities.iter().map(|one| one.0).collect());
            }
            BgpAttrItem::LargeCommunityList(list) => {
                let theirs: BTreeSet<_> =
                    list.value.iter().map(|one| (one.ga, one.ldp1, one.ldp2)).collect();
                let ours = ours.large_communities.iter();
                assert_eq!(theirs, ours.map(|one| (one.0, one.1, one.2)).collect());
            }
            BgpAttrItem::ExtCommunityList(list) => {
                let octets = |one: &BgpExtCommunity| {
                    let head = [one.ctype, one.subtype];
                    let all = [&head[..], &one.a.to_be_bytes(), &one.b.to_be_bytes()].concat();
                    <[u8; 8]>::try_from(all).unwrap()
                };
                let theirs: BTreeSet<[u8; 8]> = list.value.iter().map(octets).collect();
                assert_eq!(theirs, ours.extended_communities.iter().map(|one| one.0).collect());
            }
            BgpAttrItem::OriginatorID(one) => {
                assert_eq!(Some(one.value), ours.originator_id.map(IpAddr::V4));
            }
            BgpAttrItem::ClusterList(list) => {
                let ours = ours.cluster_list.iter().map(|id| IpAddr::V4(*id));
                assert!(list.value.iter().copied().eq(ours));
            }
            BgpAttrItem::OTC(one) => assert_eq!(Some(one.value), ours.only_to_customer),
            BgpAttrItem::MPUpdates(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    update.attrs.len()
}

/// How many attributes there must be.
fn count(ours: &Attributes) -> usize {
    3 + usize::from(ours.med.is_some())
        + usize::from(ours.local_pref.is_some())
        + usize::from(ours.atomic_aggregate)
        + usize::from(ours.aggregator.is_some())
        + usize::from(!ours.communities.is_empty())
        + usize::from(!ours.extended_communities.is_empty())
        + usize::from(!ours.large_communities.is_empty())
        + usize::from(ours.originator_id.is_some())
        + usize::from(!ours.cluster_list.is_empty())
        + usize::from(ours.only_to_customer.is_some())
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn reads_our_ipv4(attributes in attributes(true), nets in generate::nets::<Ipv4Net>(60)) {
        let form = Form { four_octet_as: true, max: MAX_EXTENDED };
        let mut out = BytesMut::new();
        prop_assert_eq!(encode::announce(&attributes, &nets, form, &mut out), nets.len());
        let update = read(&out);
        prop_assert_eq!(compare(&attributes, &update), count(&attributes));
        let BgpAddrs::IPV4U(theirs) = update.updates else { panic!() };
        let theirs = theirs.iter().map(|one| Ipv4Net::new(one.addr, one.prefixlen).unwrap());
        prop_assert!(theirs.eq(nets));
    }

    #[test]
    fn reads_our_ipv6(attributes in attributes(false), nets in generate::nets::<Ipv6Net>(60)) {
        let form = Form { four_octet_as: true, max: MAX_EXTENDED };
        let mut out = BytesMut::new();
        prop_assert_eq!(encode::announce(&attributes, &nets, form, &mut out), nets.len());
        let update = read(&out);
        prop_assert_eq!(compare(&attributes, &update), count(&attributes));
        let reach = update.get_mpupdates().unwrap();
        let BgpAddr::V6(hop) = reach.nexthop else { panic!() };
        prop_assert_eq!(NextHop::V6 { global: hop, link_local: None }, attributes.next_hop);
        let BgpAddrs::IPV6U(theirs) = &reach.addrs else { panic!() };
        let theirs = theirs.iter().map(|one| Ipv6Net::new(one.addr, one.prefixlen).unwrap());
        prop_assert!(theirs.eq(nets));
    }

    #[test]
    fn reads_our_withdrawals(
        nets in generate::nets::<Ipv4Net>(60),
        nets6 in generate::nets::<Ipv6Net>(60),
    ) {
        let form = Form { four_octet_as: true, max: MAX_EXTENDED };
        let mut out = BytesMut::new();
        prop_assert_eq!(encode::withdraw(&nets, form, &mut out), nets.len());
        let BgpAddrs::IPV4U(theirs) = read(&out).withdraws else { panic!() };
        let theirs = theirs.iter().map(|one| Ipv4Net::new(one.addr, one.prefixlen).unwrap());
        prop_assert!(theirs.eq(nets));
        out.clear();
        prop_assert_eq!(encode::withdraw(&nets6, form, &mut out), nets6.len());
        let update = read(&out);
        let BgpAddrs::IPV6U(theirs) = &update.get_mpwithdraws().unwrap().addrs else { panic!() };
        let theirs = theirs.iter().map(|one| Ipv6Net::new(one.addr, one.prefixlen).unwrap());
        prop_assert!(theirs.eq(nets6));
    }
}
