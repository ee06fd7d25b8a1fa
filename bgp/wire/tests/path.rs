//! What an AS path answers, and how it grows (RFC 4271 §5.1.2, §9.1.2.2 a).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flock_bgp_wire::{AsPath, Segment, SegmentKind};

fn path(segments: &[(SegmentKind, &[u32])]) -> AsPath {
    let segment =
        |(kind, asns): &(SegmentKind, &[u32])| Segment { kind: *kind, asns: asns.to_vec() };
    AsPath { segments: segments.iter().map(segment).collect() }
}

#[test]
fn hops_count_sets_once_and_confederations_not() {
    use SegmentKind::{ConfedSequence, ConfedSet, Sequence, Set};
    assert_eq!(AsPath::default().hops(), 0);
    let mixed = path(&[
        (ConfedSequence, &[1, 2]),
        (ConfedSet, &[3]),
        (Sequence, &[4, 5, 4]),
        (Set, &[6, 7]),
    ]);
    assert_eq!(mixed.hops(), 4);
    assert_eq!(mixed.first(), None);
    assert!(mixed.contains(3) && mixed.contains(7) && !mixed.contains(8));
    assert_eq!(mixed.iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 4, 6, 7]);
    assert_eq!(path(&[(Sequence, &[9, 8])]).first(), Some(9));
    assert_eq!(path(&[(Set, &[9, 8])]).first(), None);
    assert_eq!(AsPath::sequence([]), AsPath::default());
}

#[test]
fn prepending_starts_a_segment_where_it_must() {
    let mut grown = AsPath::default();
    grown.prepend(1, 2);
    assert_eq!(grown, AsPath::sequence([1, 1]));
    let mut behind_set = path(&[(SegmentKind::Set, &[5, 6])]);
    behind_set.prepend(1, 1);
    assert_eq!(behind_set, path(&[(SegmentKind::Sequence, &[1]), (SegmentKind::Set, &[5, 6])]));
    let mut full = AsPath::sequence(1..=255);
    full.prepend(9, 2);
    assert_eq!(full.segments.len(), 2);
    assert_eq!(full.segments.first().unwrap().asns, [9, 9]);
    assert_eq!(full.hops(), 257);
}
