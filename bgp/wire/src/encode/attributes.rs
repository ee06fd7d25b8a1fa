//! Path attributes written, in ascending order of their type (RFC 4271 §5), but the one that carries
//! prefixes, which goes first and is written by `prefixes`.

use std::net::Ipv4Addr;

use bytes::{BufMut, BytesMut};

use crate::attributes::{
    AS_TRANS, AsPath, Attributes, Origin, Segment, SegmentKind, Unknown, code, flag,
};

/// `next_hop`: NEXT_HOP, where the prefixes go into NLRI.
pub(super) fn write(
    attributes: &Attributes,
    next_hop: Option<Ipv4Addr>,
    four_octet_as: bool,
    out: &mut BytesMut,
) {
    let mut unknown = Unknowns::new(&attributes.unknown);
    unknown.below(code::ORIGIN, out);
    let origin = match attributes.origin {
        Origin::Igp => 0,
        Origin::Egp => 1,
        Origin::Incomplete => 2,
    };
    put(code::ORIGIN, &[origin], out);
    as_path(code::AS_PATH, &attributes.as_path, four_octet_as, out);
    if let Some(address) = next_hop {
        put(code::NEXT_HOP, &address.octets(), out);
    }
    if let Some(med) = attributes.med {
        put(code::MED, &med.to_be_bytes(), out);
    }
    if let Some(local_pref) = attributes.local_pref {
        put(code::LOCAL_PREF, &local_pref.to_be_bytes(), out);
    }
    if attributes.atomic_aggregate {
        put(code::ATOMIC_AGGREGATE, &[], out);
    }
    let aggregator = attributes.aggregator;
    if let Some(aggregator) = aggregator {
        head(code::AGGREGATOR, if four_octet_as { 8 } else { 6 }, out);
        put_asn(aggregator.asn, four_octet_as, out);
        out.extend_from_slice(&aggregator.id.octets());
    }
    list(code::COMMUNITIES, &attributes.communities, |item| item.0.to_be_bytes(), out);
    if let Some(id) = attributes.originator_id {
        put(code::ORIGINATOR_ID, &id.octets(), out);
    }
    list(code::CLUSTER_LIST, &attributes.cluster_list, Ipv4Addr::octets, out);
    unknown.below(code::EXTENDED_COMMUNITIES, out);
    list(code::EXTENDED_COMMUNITIES, &attributes.extended_communities, |item| item.0, out);
    if !four_octet_as {
        // RFC 6793 §4.2.2: only where a number was lost.
        if let Some(path) = as4_path(&attributes.as_path) {
            as_path(code::AS4_PATH, &path, true, out);
        }
        if let Some(lost) = aggregator.filter(|aggregator| u16::try_from(aggregator.asn).is_err()) {
            head(code::AS4_AGGREGATOR, 8, out);
            put_asn(lost.asn, true, out);
            out.extend_from_slice(&lost.id.octets());
        }
    }
    unknown.below(code::LARGE_COMMUNITIES, out);
    list(code::LARGE_COMMUNITIES, &attributes.large_communities, large, out);
    unknown.below(code::ONLY_TO_CUSTOMER, out);
    if let Some(asn) = attributes.only_to_customer {
        put(code::ONLY_TO_CUSTOMER, &asn.to_be_bytes(), out);
    }
    unknown.rest(out);
}

/// The attributes that we do not know, in their places between the others.
struct Unknowns<'a> {
    /// Those not written yet, ascending.
    left: Vec<&'a Unknown>,
}

impl<'a> Unknowns<'a> {
    fn new(unknown: &'a [Unknown]) -> Self {
        let mut left: Vec<_> = unknown.iter().collect();
        left.sort_by_key(|unknown| std::cmp::Reverse(unknown.kind));
        Self { left }
    }

    fn below(&mut self, kind: u8, out: &mut BytesMut) {
        while let Some(next) = self.left.pop_if(|next| next.kind < kind) {
            pass_on(next, out);
        }
    }

    fn rest(mut self, out: &mut BytesMut) {
        while let Some(next) = self.left.pop() {
            pass_on(next, out);
        }
    }
}

/// RFC 4271 §5: passed on with Partial set.
fn pass_on(unknown: &Unknown, out: &mut BytesMut) {
    let flags = flag::OPTIONAL | flag::TRANSITIVE | flag::PARTIAL;
    raw_head(flags, unknown.kind, unknown.value.len(), out);
    out.extend_from_slice(&unknown.value);
}

fn put(kind: u8, value: &[u8], out: &mut BytesMut) {
    head(kind, value.len(), out);
    out.extend_from_slice(value);
}

fn head(kind: u8, length: usize, out: &mut BytesMut) {
    raw_head(flag::of(kind).unwrap_or(flag::OPTIONAL), kind, length, out);
}

/// RFC 4271 §4.3: two octets of length only where one is not enough. A value beyond that fills the
/// message, which is then not sent.
fn raw_head(flags: u8, kind: u8, length: usize, out: &mut BytesMut) {
    if let Ok(length) = u8::try_from(length) {
        out.extend_from_slice(&[flags, kind, length]);
    } else {
        let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
        out.extend_from_slice(&[flags | flag::EXTENDED_LENGTH, kind, high, low]);
    }
}

/// A list of items of `N` octets; no attribute where it is empty (RFC 7606 §4).
fn list<T, const N: usize>(
    kind: u8,
    items: &[T],
    octets: impl Fn(&T) -> [u8; N],
    out: &mut BytesMut,
) {
    if items.is_empty() {
        return;
    }
    head(kind, items.len().saturating_mul(N), out);
    for item in items {
        out.extend_from_slice(&octets(item));
    }
}

fn large(item: &crate::LargeCommunity) -> [u8; 12] {
    let mut octets = [0; 12];
    let numbers = [item.0, item.1, item.2];
    for (to, number) in octets.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
        *to = number.to_be_bytes();
    }
    octets
}

fn put_asn(asn: u32, four_octet_as: bool, out: &mut BytesMut) {
    match (four_octet_as, u16::try_from(asn)) {
        (true, _) => out.put_u32(asn),
        (false, Ok(asn)) => out.put_u16(asn),
        // RFC 6793 §4.2.2.
        (false, Err(_)) => out.extend_from_slice(&AS_TRANS.to_be_bytes()[2..]),
    }
}

/// RFC 4271 §4.3 b. A segment holds 255 numbers at most: longer ones become several.
fn as_path(kind: u8, path: &AsPath, four_octet_as: bool, out: &mut BytesMut) {
    let size = if four_octet_as { 4 } else { 2 };
    let length = |segment: &Segment| {
        segment.asns.chunks(255).map(|asns| 2 + size * asns.len()).sum::<usize>()
    };
    head(kind, path.segments.iter().map(length).sum(), out);
    for segment in &path.segments {
        let kind = match segment.kind {
            SegmentKind::Set => 1,
            SegmentKind::Sequence => 2,
            SegmentKind::ConfedSequence => 3,
            SegmentKind::ConfedSet => 4,
        };
        for asns in segment.asns.chunks(255) {
            out.extend_from_slice(&[kind, u8::try_from(asns.len()).unwrap_or(u8::MAX)]);
            for asn in asns {
                put_asn(*asn, four_octet_as, out);
            }
        }
    }
}

/// RFC 6793 §4.2.2: the path without confederation segments, where one of its numbers needs four
/// octets.
fn as4_path(path: &AsPath) -> Option<AsPath> {
    let kept = || path.segments.iter().filter(|segment| !segment.kind.is_confederation());
    let lost = kept().flat_map(|segment| &segment.asns).any(|asn| u16::try_from(*asn).is_err());
    lost.then(|| AsPath { segments: kept().cloned().collect() })
}
