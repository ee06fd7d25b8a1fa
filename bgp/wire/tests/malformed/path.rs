//! AS_PATH, AGGREGATOR and their four-octet companions (RFC 7606 §7.2, §7.7, RFC 6793, RFC 7607,
//! RFC 5065 §5).

use std::net::Ipv4Addr;

use flock_bgp_wire::{Aggregator, AsPath, Attributes, Context, Segment, SegmentKind};

use crate::forge::*;
use crate::{Case, Expect, discarded, sound, withdrawn};

const ID: [u8; 4] = [192, 0, 2, 7];

fn fine(change: impl FnOnce(&mut Attributes)) -> Expect {
    sound(plain_but(change), &["203.0.113.0/24"])
}

fn segment(kind: SegmentKind, asns: &[u32]) -> Segment {
    Segment { kind, asns: asns.to_vec() }
}

fn means(segments: Vec<Segment>) -> Expect {
    fine(|attributes| attributes.as_path = AsPath { segments })
}

fn aggregator(asn: u32) -> Option<Aggregator> {
    Some(Aggregator { asn, id: Ipv4Addr::from(ID) })
}

/// Segments of four-octet numbers as they are on the wire.
fn four(segments: &[(u8, &[u32])]) -> Vec<u8> {
    segments
        .iter()
        .flat_map(|(kind, asns)| {
            let numbers = asns.iter().flat_map(|asn| asn.to_be_bytes());
            [*kind, u8::try_from(asns.len()).unwrap()].into_iter().chain(numbers)
        })
        .collect()
}

/// The same of two-octet numbers.
fn two(segments: &[(u8, &[u16])]) -> Vec<u8> {
    segments
        .iter()
        .flat_map(|(kind, asns)| {
            let numbers = asns.iter().flat_map(|asn| asn.to_be_bytes());
            [*kind, u8::try_from(asns.len()).unwrap()].into_iter().chain(numbers)
        })
        .collect()
}

type Row = (&'static str, Context, Vec<Vec<u8>>, Expect);

fn paths() -> Vec<Row> {
    use SegmentKind::{ConfedSequence, ConfedSet, Sequence, Set};
    let with = |flags, value: &[u8]| vec![origin(), attribute(flags, 2, value), next_hop()];
    let long: Vec<u32> = (1..=255).collect();
    vec![
        ("as path: empty", INTERNAL, with(0x40, &[]), means(vec![])),
        (
            "as path: set kept",
            EXTERNAL,
            with(0x40, &four(&[(2, &[1]), (1, &[3, 2])])),
            means(vec![segment(Sequence, &[1]), segment(Set, &[3, 2])]),
        ),
        (
            "as path: 255 in one segment",
            EXTERNAL,
            with(0x50, &four(&[(2, &long)])),
            means(vec![segment(Sequence, &long)]),
        ),
        (
            "as path: two octets",
            OLD,
            with(0x40, &two(&[(2, &[1, 2])])),
            means(vec![segment(Sequence, &[1, 2])]),
        ),
        ("as path: empty segment", EXTERNAL, with(0x40, &[2, 0]), withdrawn(&[2])),
        (
            "as path: empty segment behind a good one",
            EXTERNAL,
            with(0x40, &[&four(&[(2, &[1])])[..], &[1, 0]].concat()),
            withdrawn(&[2]),
        ),
        ("as path: segment type 0", EXTERNAL, with(0x40, &four(&[(0, &[1])])), withdrawn(&[2])),
        ("as path: segment type 5", EXTERNAL, with(0x40, &four(&[(5, &[1])])), withdrawn(&[2])),
        ("as path: type alone", EXTERNAL, with(0x40, &[2]), withdrawn(&[2])),
        (
            "as path: trailing octet",
            EXTERNAL,
            with(0x40, &[&four(&[(2, &[1])])[..], &[2]].concat()),
            withdrawn(&[2]),
        ),
        (
            "as path: segment cut off",
            EXTERNAL,
            with(0x40, &[2, 2, 0, 0, 0, 1, 0, 0, 0]),
            withdrawn(&[2]),
        ),
        (
            "as path: count of 255 and one number",
            EXTERNAL,
            with(0x40, &[2, 255, 0, 0, 0, 1]),
            withdrawn(&[2]),
        ),
        (
            "as path: two-octet numbers where four were agreed",
            EXTERNAL,
            with(0x40, &two(&[(2, &[1, 2, 3])])),
            withdrawn(&[2]),
        ),
        (
            "as path: four-octet numbers where two were agreed",
            OLD,
            with(0x40, &four(&[(2, &[1])])),
            withdrawn(&[2]),
        ),
        ("as path: AS 0", EXTERNAL, with(0x40, &four(&[(2, &[1, 0])])), withdrawn(&[2])),
        (
            "as path: AS 0 in a set",
            EXTERNAL,
            with(0x40, &four(&[(2, &[1]), (1, &[0])])),
            withdrawn(&[2]),
        ),
        ("as path: AS 0 of two octets", OLD, with(0x40, &two(&[(2, &[0])])), withdrawn(&[2])),
        (
            "as path: confederation sequence of an external peer",
            EXTERNAL,
            with(0x40, &four(&[(3, &[1])])),
            withdrawn(&[2]),
        ),
        (
            "as path: confederation set of an external peer",
            EXTERNAL,
            with(0x40, &four(&[(2, &[1]), (4, &[1])])),
            withdrawn(&[2]),
        ),
        (
            "as path: confederation of an internal peer",
            INTERNAL,
            with(0x40, &four(&[(3, &[1]), (4, &[2])])),
            means(vec![segment(ConfedSequence, &[1]), segment(ConfedSet, &[2])]),
        ),
        ("as path: optional", EXTERNAL, with(0xC0, &four(&[(2, &[1])])), withdrawn(&[2])),
        ("as path: not transitive", EXTERNAL, with(0x00, &four(&[(2, &[1])])), withdrawn(&[2])),
    ]
}

fn aggregators() -> Vec<Row> {
    let four = |value: &[u8]| base_and(&[attribute(0xC0, 7, value)]);
    let two = |value: &[u8]| base2_and(&[attribute(0xC0, 7, value)]);
    let id = |asn: &[u8]| [asn, &ID].concat();
    vec![
        (
            "aggregator: four octets",
            EXTERNAL,
            four(&id(&[0, 1, 0, 0])),
            fine(|a| a.aggregator = aggregator(65536)),
        ),
        (
            "aggregator: two octets",
            OLD,
            two(&id(&[1, 0])),
            fine(|a| a.aggregator = aggregator(256)),
        ),
        (
            "aggregator: 6 octets where four were agreed",
            EXTERNAL,
            four(&id(&[1, 0])),
            discarded(&[7], plain()),
        ),
        (
            "aggregator: 8 octets where two were agreed",
            OLD,
            two(&id(&[0, 1, 0, 0])),
            discarded(&[7], plain()),
        ),
        ("aggregator: empty", EXTERNAL, four(&[]), discarded(&[7], plain())),
        ("aggregator: 9 octets", EXTERNAL, four(&[1; 9]), discarded(&[7], plain())),
        ("aggregator: AS 0", EXTERNAL, four(&id(&[0; 4])), discarded(&[7], plain())),
        ("aggregator: AS 0 of two octets", OLD, two(&id(&[0; 2])), discarded(&[7], plain())),
        (
            "aggregator: not transitive",
            EXTERNAL,
            base_and(&[attribute(0x80, 7, &id(&[0, 0, 0, 1]))]),
            withdrawn(&[7]),
        ),
        (
            "as4 aggregator: of a new speaker",
            EXTERNAL,
            base_and(&[attribute(0xC0, 18, &id(&[0, 0, 0, 1]))]),
            discarded(&[18], plain()),
        ),
        (
            "as4 aggregator: 6 octets",
            OLD,
            base2_and(&[attribute(0xC0, 18, &id(&[0, 1]))]),
            discarded(&[18], plain()),
        ),
        (
            "as4 aggregator: AS 0",
            OLD,
            base2_and(&[attribute(0xC0, 18, &id(&[0; 4]))]),
            discarded(&[18], plain()),
        ),
        (
            "as4 aggregator: alone it says nothing",
            OLD,
            base2_and(&[attribute(0xC0, 18, &id(&[0, 1, 0, 0]))]),
            fine(|_| ()),
        ),
        (
            "as4 aggregator: takes the place of AS_TRANS",
            OLD,
            base2_and(&[
                attribute(0xC0, 7, &id(&[0x5B, 0xA0])),
                attribute(0xC0, 18, &id(&[0, 1, 0, 0])),
            ]),
            fine(|a| a.aggregator = aggregator(65536)),
        ),
        (
            "as4 aggregator: not that of another number",
            OLD,
            base2_and(&[attribute(0xC0, 7, &id(&[1, 0])), attribute(0xC0, 18, &id(&[0, 1, 0, 0]))]),
            fine(|a| a.aggregator = aggregator(256)),
        ),
        (
            "as4 aggregator: wrong flags",
            OLD,
            base2_and(&[attribute(0x40, 18, &id(&[0, 1, 0, 0]))]),
            withdrawn(&[18]),
        ),
    ]
}

/// RFC 6793 §4.2.3.
fn merged() -> Vec<Row> {
    use SegmentKind::{ConfedSequence, Sequence, Set};
    const T: u16 = 23456;
    let with = |path: &[u8], as4: &[u8]| {
        vec![origin(), attribute(0x40, 2, path), next_hop(), attribute(0xC0, 17, as4)]
    };
    let broken = |as4: &[u8]| base2_and(&[attribute(0xC0, 17, as4)]);
    let aggregated = [
        origin(),
        attribute(0x40, 2, &two(&[(2, &[1, T])])),
        next_hop(),
        attribute(0xC0, 7, &[1, 0, 192, 0, 2, 7]),
        attribute(0xC0, 17, &four(&[(2, &[70000])])),
        attribute(0xC0, 18, &[0, 1, 0, 0, 192, 0, 2, 7]),
    ];
    vec![
        (
            "as4 path: same length",
            OLD,
            with(&two(&[(2, &[1, T])]), &four(&[(2, &[1, 70000])])),
            means(vec![segment(Sequence, &[1, 70000])]),
        ),
        (
            "as4 path: shorter, lead kept",
            OLD,
            with(&two(&[(2, &[5, 6, T, T])]), &four(&[(2, &[70000, 70001])])),
            means(vec![segment(Sequence, &[5, 6, 70000, 70001])]),
        ),
        (
            "as4 path: longer is ignored",
            OLD,
            with(&two(&[(2, &[5])]), &four(&[(2, &[70000, 70001])])),
            means(vec![segment(Sequence, &[5])]),
        ),
        (
            "as4 path: a set counts one",
            OLD,
            with(&two(&[(2, &[5]), (1, &[T, T])]), &four(&[(1, &[70000, 70001])])),
            means(vec![segment(Sequence, &[5]), segment(Set, &[70000, 70001])]),
        ),
        (
            "as4 path: whole segments of the lead",
            OLD,
            with(&two(&[(2, &[5]), (1, &[6, 7]), (2, &[T])]), &four(&[(2, &[70000])])),
            means(vec![
                segment(Sequence, &[5]),
                segment(Set, &[6, 7]),
                segment(Sequence, &[70000]),
            ]),
        ),
        (
            "as4 path: confederation leads",
            OLD_INTERNAL,
            with(&two(&[(3, &[9]), (2, &[5, T])]), &four(&[(2, &[70000])])),
            means(vec![segment(ConfedSequence, &[9]), segment(Sequence, &[5, 70000])]),
        ),
        (
            "as4 path: confederation inside is taken out",
            OLD,
            with(&two(&[(2, &[5, T])]), &four(&[(3, &[9]), (2, &[70000])])),
            means(vec![segment(Sequence, &[5, 70000])]),
        ),
        (
            "as4 path: confederation alone is nothing",
            OLD,
            with(&two(&[(2, &[5, T])]), &four(&[(3, &[9])])),
            means(vec![segment(Sequence, &[5, 23456])]),
        ),
        (
            "as4 path: outdated by an aggregator",
            OLD,
            aggregated.to_vec(),
            fine(|attributes| {
                attributes.as_path = AsPath::sequence([1, 23456]);
                attributes.aggregator = aggregator(256);
            }),
        ),
        (
            "as4 path: of a new speaker",
            EXTERNAL,
            base_and(&[attribute(0xC0, 17, &four(&[(2, &[70000])]))]),
            discarded(&[17], plain()),
        ),
        ("as4 path: empty", OLD, broken(&[]), discarded(&[17], plain())),
        ("as4 path: cut off", OLD, broken(&[2, 1, 0, 0, 1]), discarded(&[17], plain())),
        ("as4 path: two-octet numbers", OLD, broken(&[2, 1, 0, 1]), discarded(&[17], plain())),
        (
            "as4 path: unknown segment",
            OLD,
            broken(&four(&[(7, &[70000])])),
            discarded(&[17], plain()),
        ),
        ("as4 path: empty segment", OLD, broken(&[2, 0, 2, 0, 2, 0]), discarded(&[17], plain())),
        ("as4 path: AS 0", OLD, broken(&four(&[(2, &[0])])), discarded(&[17], plain())),
        (
            "as4 path: wrong flags",
            OLD,
            base2_and(&[attribute(0x80, 17, &four(&[(2, &[70000])]))]),
            withdrawn(&[17]),
        ),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    [paths(), aggregators(), merged()]
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
