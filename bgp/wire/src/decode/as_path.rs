//! AS_PATH and AGGREGATOR in both sizes (RFC 4271 §4.3 b, RFC 7606 §7.2, §7.7), AS4_PATH and
//! AS4_AGGREGATOR of speakers with two-octet numbers (RFC 6793 §4.2.3, §6), and AS 0 in any of them
//! (RFC 7607 §2).

use super::Context;
use super::attributes::Bad;
use crate::attributes::{AS_TRANS, Aggregator, AsPath, Attributes, Segment, SegmentKind};
use crate::cursor::Cursor;
use crate::notification::update as subcode;

/// How many octets a number has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    Two,
    Four,
}

fn malformed(what: &'static str) -> Bad {
    Bad::Withdraw(subcode::MALFORMED_AS_PATH, what)
}

/// RFC 7606 §7.2. `confederation`: segments of RFC 5065 are allowed, which they are from our own
/// AS only (RFC 5065 §5).
pub(super) fn read(value: &[u8], numbers: Numbers, confederation: bool) -> Result<AsPath, Bad> {
    let mut cursor = Cursor::new(value);
    // Nearly every path is one sequence, and is kept as long as its routes: no room for more.
    let mut segments = Vec::with_capacity(usize::from(!value.is_empty()));
    while !cursor.is_empty() {
        let kind = match cursor.u8() {
            Some(1) => SegmentKind::Set,
            Some(2) => SegmentKind::Sequence,
            Some(3 | 4) if !confederation => {
                return Err(malformed("confederation segment of an external peer"));
            }
            Some(3) => SegmentKind::ConfedSequence,
            Some(4) => SegmentKind::ConfedSet,
            _ => return Err(malformed("unknown segment type in AS_PATH")),
        };
        let count = match cursor.u8() {
            Some(0) => return Err(malformed("empty segment in AS_PATH")),
            Some(count) => usize::from(count),
            None => return Err(malformed("segment without a length in AS_PATH")),
        };
        let asns = asns(&mut cursor, count, numbers)
            .ok_or_else(|| malformed("segment longer than AS_PATH"))?;
        // RFC 7607 §2.
        if asns.contains(&0) {
            return Err(malformed("AS 0 in AS_PATH"));
        }
        segments.push(Segment { kind, asns });
    }
    Ok(AsPath { segments })
}

fn asns(cursor: &mut Cursor<'_>, count: usize, numbers: Numbers) -> Option<Vec<u32>> {
    Some(match numbers {
        Numbers::Two => {
            let (asns, _) = cursor.take(count * 2)?.as_chunks::<2>();
            asns.iter().map(|asn| u32::from(u16::from_be_bytes(*asn))).collect()
        }
        Numbers::Four => {
            let (asns, _) = cursor.take(count * 4)?.as_chunks::<4>();
            asns.iter().map(|asn| u32::from_be_bytes(*asn)).collect()
        }
    })
}

/// RFC 7606 §7.7: of a wrong length, discarded; so with AS 0 (RFC 7607 §2).
pub(super) fn aggregator(value: &[u8], four_octet_as: bool) -> Result<Aggregator, Bad> {
    let mut cursor = Cursor::new(value);
    let asn = if four_octet_as { cursor.u32() } else { cursor.u16().map(u32::from) };
    match (asn, cursor.u32(), cursor.is_empty()) {
        (Some(0), Some(_), true) => Err(Bad::Discard("AS 0 in AGGREGATOR")),
        (Some(asn), Some(id), true) => Ok(Aggregator { asn, id: id.into() }),
        _ => Err(Bad::Discard("AGGREGATOR of a wrong length")),
    }
}

/// RFC 6793 §6: malformed or from a speaker with four-octet numbers it is discarded; confederation
/// segments are taken out. `None`: nothing was left.
pub(super) fn as4_path(value: &[u8], context: &Context) -> Result<Option<AsPath>, Bad> {
    if context.four_octet_as {
        return Err(Bad::Discard("AS4_PATH of a speaker with four-octet numbers"));
    }
    let mut path =
        read(value, Numbers::Four, true).map_err(|_| Bad::Discard("AS4_PATH is malformed"))?;
    if path.segments.is_empty() {
        return Err(Bad::Discard("AS4_PATH is malformed"));
    }
    path.segments.retain(|segment| !segment.kind.is_confederation());
    Ok((!path.segments.is_empty()).then_some(path))
}

/// RFC 6793 §6, as above; AS 0 is malformed (RFC 7607 §2).
pub(super) fn as4_aggregator(value: &[u8], context: &Context) -> Result<Aggregator, Bad> {
    if context.four_octet_as {
        return Err(Bad::Discard("AS4_AGGREGATOR of a speaker with four-octet numbers"));
    }
    aggregator(value, true).map_err(|_| Bad::Discard("AS4_AGGREGATOR is malformed"))
}

/// RFC 6793 §4.2.3: makes one truth of the two-octet and the four-octet attributes.
pub(super) fn merge(
    attributes: &mut Attributes,
    as4_path: Option<AsPath>,
    as4_aggregator: Option<Aggregator>,
) {
    if let (Some(old), Some(new)) = (attributes.aggregator, as4_aggregator) {
        if old.asn != AS_TRANS {
            // Somebody with two-octet numbers has aggregated since: both new ones are outdated.
            return;
        }
        attributes.aggregator = Some(new);
    }
    let Some(as4_path) = as4_path else { return };
    let Some(lead) = attributes.as_path.hops().checked_sub(as4_path.hops()) else {
        return; // Shorter than its own tail: the new one is ignored.
    };
    let old = std::mem::take(&mut attributes.as_path);
    attributes.as_path = join(leading(old, lead), as4_path);
}

/// The first `hops` of a path. Confederation segments count nothing and go with what they lead or
/// follow.
fn leading(path: AsPath, mut hops: usize) -> AsPath {
    let mut lead = AsPath::default();
    for mut segment in path.segments {
        if !segment.kind.is_confederation() {
            if hops == 0 {
                break;
            }
            if segment.kind == SegmentKind::Sequence && segment.asns.len() > hops {
                segment.asns.truncate(hops);
                lead.segments.push(segment);
                break;
            }
            hops -= if segment.kind == SegmentKind::Set { 1 } else { segment.asns.len() };
        }
        lead.segments.push(segment);
    }
    lead
}

/// One path behind the other; a sequence that was cut in two is one again.
fn join(mut lead: AsPath, tail: AsPath) -> AsPath {
    let mut tail = tail.segments.into_iter().peekable();
    if let (Some(last), Some(first)) = (lead.segments.last_mut(), tail.peek())
        && last.kind == SegmentKind::Sequence
        && first.kind == SegmentKind::Sequence
        && last.asns.len() + first.asns.len() <= 255
    {
        last.asns.extend(&first.asns);
        tail.next();
    }
    lead.segments.extend(tail);
    lead
}
