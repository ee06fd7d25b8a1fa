//! Attributes one by one, but paths and prefixes (RFC 7606 §7, RFC 8092 §5, RFC 9234 §5).

use std::net::Ipv4Addr;

use flock_bgp_wire::{
    Attributes, Community, Context, ExtendedCommunity, LargeCommunity, Origin, Unknown,
};

use crate::forge::*;
use crate::{Case, Expect, discarded, sound, withdrawn};

const NETS: [&str; 1] = ["203.0.113.0/24"];

fn fine(change: impl FnOnce(&mut Attributes)) -> Expect {
    sound(plain_but(change), &NETS)
}

type Row = (&'static str, Context, Vec<Vec<u8>>, Expect);

fn mandatory() -> Vec<Row> {
    let origin = |flags, value: &[u8]| vec![attribute(flags, 1, value), path(), next_hop()];
    let hop = |flags, value: &[u8]| vec![self::origin(), path(), attribute(flags, 3, value)];
    vec![
        ("origin: EGP", EXTERNAL, origin(0x40, &[1]), fine(|a| a.origin = Origin::Egp)),
        (
            "origin: extended length",
            EXTERNAL,
            origin(0x50, &[2]),
            fine(|a| a.origin = Origin::Incomplete),
        ),
        (
            "origin: partial flag and unused bits are ignored",
            EXTERNAL,
            origin(0x6F, &[0]),
            fine(|_| ()),
        ),
        ("origin: value 3", EXTERNAL, origin(0x40, &[3]), withdrawn(&[1])),
        ("origin: empty", EXTERNAL, origin(0x40, &[]), withdrawn(&[1])),
        ("origin: 2 octets", EXTERNAL, origin(0x40, &[0, 0]), withdrawn(&[1])),
        ("origin: optional", EXTERNAL, origin(0xC0, &[0]), withdrawn(&[1])),
        ("origin: not transitive", EXTERNAL, origin(0x00, &[0]), withdrawn(&[1])),
        ("next hop: empty", EXTERNAL, hop(0x40, &[]), withdrawn(&[3])),
        ("next hop: 3 octets", EXTERNAL, hop(0x40, &[192, 0, 2]), withdrawn(&[3])),
        ("next hop: 5 octets", EXTERNAL, hop(0x40, &[192, 0, 2, 1, 0]), withdrawn(&[3])),
        ("next hop: 16 octets", EXTENDED_NEXT_HOP, hop(0x40, &HOP6), withdrawn(&[3])),
        ("next hop: zero", EXTERNAL, hop(0x40, &[0; 4]), withdrawn(&[3])),
        ("next hop: multicast", EXTERNAL, hop(0x40, &[224, 0, 0, 1]), withdrawn(&[3])),
        ("next hop: class E", EXTERNAL, hop(0x40, &[240, 0, 0, 1]), withdrawn(&[3])),
        ("next hop: broadcast", EXTERNAL, hop(0x40, &[255; 4]), withdrawn(&[3])),
        ("next hop: optional", EXTERNAL, hop(0xC0, &[192, 0, 2, 1]), withdrawn(&[3])),
    ]
}

fn numbers() -> Vec<Row> {
    let with = |flags, kind, value: &[u8]| base_and(&[attribute(flags, kind, value)]);
    let id = Ipv4Addr::new(192, 0, 2, 7);
    vec![
        ("med: sound", EXTERNAL, with(0x80, 4, &[0, 0, 1, 0]), fine(|a| a.med = Some(256))),
        ("med: empty", EXTERNAL, with(0x80, 4, &[]), withdrawn(&[4])),
        ("med: 3 octets", EXTERNAL, with(0x80, 4, &[0; 3]), withdrawn(&[4])),
        ("med: 5 octets", EXTERNAL, with(0x80, 4, &[0; 5]), withdrawn(&[4])),
        ("med: transitive", EXTERNAL, with(0xC0, 4, &[0; 4]), withdrawn(&[4])),
        ("med: well-known", EXTERNAL, with(0x00, 4, &[0; 4]), withdrawn(&[4])),
        (
            "local pref: internal",
            INTERNAL,
            with(0x40, 5, &[0, 0, 0, 100]),
            fine(|a| a.local_pref = Some(100)),
        ),
        ("local pref: internal, 3 octets", INTERNAL, with(0x40, 5, &[0; 3]), withdrawn(&[5])),
        ("local pref: internal, empty", INTERNAL, with(0x40, 5, &[]), withdrawn(&[5])),
        (
            "local pref: external",
            EXTERNAL,
            with(0x40, 5, &[0, 0, 0, 100]),
            discarded(&[5], plain()),
        ),
        (
            "local pref: external, 3 octets",
            EXTERNAL,
            with(0x40, 5, &[0; 3]),
            discarded(&[5], plain()),
        ),
        ("local pref: optional", INTERNAL, with(0xC0, 5, &[0, 0, 0, 100]), withdrawn(&[5])),
        (
            "atomic aggregate: sound",
            EXTERNAL,
            with(0x40, 6, &[]),
            fine(|a| a.atomic_aggregate = true),
        ),
        ("atomic aggregate: 1 octet", EXTERNAL, with(0x40, 6, &[0]), discarded(&[6], plain())),
        ("atomic aggregate: optional", EXTERNAL, with(0xC0, 6, &[]), withdrawn(&[6])),
        (
            "originator: internal",
            INTERNAL,
            with(0x80, 9, &[192, 0, 2, 7]),
            fine(|a| a.originator_id = Some(id)),
        ),
        ("originator: internal, 3 octets", INTERNAL, with(0x80, 9, &[192, 0, 2]), withdrawn(&[9])),
        ("originator: internal, empty", INTERNAL, with(0x80, 9, &[]), withdrawn(&[9])),
        (
            "originator: external",
            EXTERNAL,
            with(0x80, 9, &[192, 0, 2, 7]),
            discarded(&[9], plain()),
        ),
        (
            "originator: external, 3 octets",
            EXTERNAL,
            with(0x80, 9, &[192, 0, 2]),
            discarded(&[9], plain()),
        ),
        ("originator: transitive", INTERNAL, with(0xC0, 9, &[192, 0, 2, 7]), withdrawn(&[9])),
        (
            "cluster list: internal",
            INTERNAL,
            with(0x80, 10, &[192, 0, 2, 7, 192, 0, 2, 7]),
            fine(|a| a.cluster_list = vec![id, id]),
        ),
        ("cluster list: internal, empty", INTERNAL, with(0x80, 10, &[]), withdrawn(&[10])),
        ("cluster list: internal, 6 octets", INTERNAL, with(0x80, 10, &[0; 6]), withdrawn(&[10])),
        (
            "cluster list: external",
            EXTERNAL,
            with(0x80, 10, &[192, 0, 2, 7]),
            discarded(&[10], plain()),
        ),
        ("cluster list: well-known", INTERNAL, with(0x40, 10, &[192, 0, 2, 7]), withdrawn(&[10])),
        (
            "otc: sound",
            EXTERNAL,
            with(0xC0, 35, &[0, 1, 0, 0]),
            fine(|a| a.only_to_customer = Some(65536)),
        ),
        (
            "otc: partial",
            EXTERNAL,
            with(0xE0, 35, &[0, 1, 0, 0]),
            fine(|a| a.only_to_customer = Some(65536)),
        ),
        ("otc: empty", EXTERNAL, with(0xC0, 35, &[]), withdrawn(&[35])),
        ("otc: 8 octets", EXTERNAL, with(0xC0, 35, &[0; 8]), withdrawn(&[35])),
        ("otc: not transitive", EXTERNAL, with(0x80, 35, &[0; 4]), withdrawn(&[35])),
    ]
}

fn communities() -> Vec<Row> {
    let with = |flags, kind, value: &[u8]| base_and(&[attribute(flags, kind, value)]);
    let large = |last| [[0, 0, 0, 1, 0, 0, 0, 2].as_slice(), &[0, 0, 0, last]].concat();
    let twice = [large(9), large(3), large(9), large(1), large(3)].concat();
    let once = vec![LargeCommunity(1, 2, 9), LargeCommunity(1, 2, 3), LargeCommunity(1, 2, 1)];
    let both = vec![Community(0xFFFF_0000), Community(0xFFFF_0000)];
    let long: Vec<u8> = (0..64).flat_map(|n: u32| n.to_be_bytes()).collect();
    vec![
        (
            "communities: kept in order, twice if need be",
            EXTERNAL,
            with(0xC0, 8, &[255, 255, 0, 0, 255, 255, 0, 0]),
            fine(|a| a.communities = both),
        ),
        (
            "communities: extended length",
            EXTERNAL,
            with(0xD0, 8, &long),
            fine(|a| a.communities = (0..64).map(Community).collect()),
        ),
        ("communities: empty", EXTERNAL, with(0xC0, 8, &[]), withdrawn(&[8])),
        ("communities: 3 octets", EXTERNAL, with(0xC0, 8, &[0; 3]), withdrawn(&[8])),
        ("communities: 7 octets", EXTERNAL, with(0xC0, 8, &[0; 7]), withdrawn(&[8])),
        ("communities: not transitive", EXTERNAL, with(0x80, 8, &[0; 4]), withdrawn(&[8])),
        ("communities: well-known", EXTERNAL, with(0x40, 8, &[0; 4]), withdrawn(&[8])),
        (
            "extended communities: of any type",
            EXTERNAL,
            with(0xC0, 16, &[0x99; 8]),
            fine(|a| a.extended_communities = vec![ExtendedCommunity([0x99; 8])]),
        ),
        ("extended communities: empty", EXTERNAL, with(0xC0, 16, &[]), withdrawn(&[16])),
        ("extended communities: 9 octets", EXTERNAL, with(0xC0, 16, &[0; 9]), withdrawn(&[16])),
        (
            "extended communities: not transitive",
            EXTERNAL,
            with(0x80, 16, &[0; 8]),
            withdrawn(&[16]),
        ),
        (
            "large communities: redundant ones removed",
            EXTERNAL,
            with(0xC0, 32, &twice),
            fine(|a| a.large_communities = once),
        ),
        ("large communities: empty", EXTERNAL, with(0xC0, 32, &[]), withdrawn(&[32])),
        ("large communities: 8 octets", EXTERNAL, with(0xC0, 32, &[0; 8]), withdrawn(&[32])),
        ("large communities: 25 octets", EXTERNAL, with(0xC0, 32, &[0; 25]), withdrawn(&[32])),
        ("large communities: not transitive", EXTERNAL, with(0x80, 32, &[0; 12]), withdrawn(&[32])),
    ]
}

fn unknown() -> Vec<Row> {
    let with = |flags, kind, value: &[u8]| base_and(&[attribute(flags, kind, value)]);
    let kept = |kind, flags, value: &[u8]| {
        let unknown = Unknown { kind, flags, value: value.into() };
        fine(|attributes| attributes.unknown.push(unknown))
    };
    let unrecognized = |bytes: &[u8]| Expect::Reset(3, 2, bytes.to_vec());
    vec![
        (
            "unknown: transitive is kept",
            EXTERNAL,
            with(0xC0, 200, &[1, 2]),
            kept(200, 0xC0, &[1, 2]),
        ),
        ("unknown: partial is kept", EXTERNAL, with(0xE0, 200, &[1, 2]), kept(200, 0xE0, &[1, 2])),
        (
            "unknown: length flag and unused bits are not",
            EXTERNAL,
            with(0xDF, 200, &[1, 2]),
            kept(200, 0xC0, &[1, 2]),
        ),
        ("unknown: may be empty", EXTERNAL, with(0xC0, 255, &[]), kept(255, 0xC0, &[])),
        ("unknown: type 0", EXTERNAL, with(0xC0, 0, &[]), kept(0, 0xC0, &[])),
        ("unknown: not transitive is dropped", EXTERNAL, with(0x80, 200, &[1, 2]), fine(|_| ())),
        (
            "unknown: well-known",
            EXTERNAL,
            with(0x40, 200, &[1, 2]),
            unrecognized(&[0x40, 200, 2, 1, 2]),
        ),
        (
            "unknown: well-known, not transitive",
            EXTERNAL,
            with(0x00, 11, &[]),
            unrecognized(&[0x00, 11, 0]),
        ),
        (
            "unknown: well-known, extended length",
            EXTERNAL,
            with(0x50, 200, &[7]),
            unrecognized(&[0x50, 200, 0, 1, 7]),
        ),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    [mandatory(), numbers(), communities(), unknown()]
        .into_iter()
        .flatten()
        .map(|(name, context, attributes, expect)| Case {
            name,
            context,
            bytes: update(&[], &attributes, &NET),
            expect,
        })
        .collect()
}
