//! UPDATE (RFC 4271 §4.3, §6.3) read so that as much as possible survives (RFC 7606).
//!
//! The order matters: the three fields are split by their lengths, prefixes are checked first,
//! because nothing can be treated as withdrawn that cannot be read (RFC 7606 §3 j), and then the
//! attributes are walked. This file decides what the sum of the faults comes to; what a single
//! attribute comes to is `attributes`'s business.

use ipnet::Ipv4Net;

use super::Context;
use super::as_path;
use super::attributes::{Found, Walk};
use crate::attributes::{Attributes, NextHop, code};
use crate::cursor::Cursor;
use crate::family::Family;
use crate::nlri::Nlri;
use crate::notification::{Notification, Reset, code as error, update as subcode};
use crate::update::{Disposition, Fault, MpReach, MpUnreach, Update};

pub(super) fn update<'a>(body: &'a [u8], context: &Context) -> Result<Update<'a>, Reset> {
    // RFC 4271 §6.3: lengths that point beyond the message are a malformed attribute list.
    let beyond = || Reset(Notification::new(error::UPDATE, subcode::MALFORMED_LIST));
    let mut cursor = Cursor::new(body);
    let withdrawn = field(&mut cursor).ok_or_else(beyond)?;
    let attributes = field(&mut cursor).ok_or_else(beyond)?;
    let withdrawn = prefixes(withdrawn, context)?;
    let announced = prefixes(cursor.rest(), context)?;

    let mut walk = Walk::new(context, !announced.is_empty());
    walk.run(attributes)?;
    let (found, mut faults, grave) = walk.finish();

    let reachable = !announced.is_empty() || found.reaches();
    if let (Some(grave), false) = (grave, reachable) {
        // RFC 7606 §5.2: attributes in error and no prefix at all: who knows what was lost.
        return Err(Reset(grave));
    }
    let end_of_rib = end_of_rib(&found, withdrawn.is_empty(), &announced, &faults);
    let Found { mp_reach, mp_unreach, .. } = &found;
    let (mp_reach, mp_unreach) = (mp_reach.clone(), mp_unreach.clone());
    let announces =
        !announced.is_empty() || mp_reach.as_ref().is_some_and(|reach| !reach.is_empty());
    let attributes = if announces { share(found, &announced, &mut faults) } else { None };
    Ok(Update { withdrawn, mp_unreach, announced, mp_reach, attributes, faults, end_of_rib })
}

/// A field behind its length in two octets.
fn field<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = cursor.u16()?;
    cursor.take(usize::from(length))
}

/// RFC 7606 §5.3, §3 i: a run of prefixes in error cannot be survived.
fn prefixes<'a>(bytes: &'a [u8], context: &Context) -> Result<Nlri<'a, Ipv4Net>, Reset> {
    Nlri::check(bytes, context.add_path_ipv4)
        .ok_or_else(|| Reset(Notification::new(error::UPDATE, subcode::INVALID_NETWORK)))
}

/// RFC 4724 §2: no prefix and no attribute but, for other families than IPv4, an empty
/// MP_UNREACH_NLRI.
fn end_of_rib(
    found: &Found<'_>,
    nothing_withdrawn: bool,
    announced: &Nlri<'_, Ipv4Net>,
    faults: &[Fault],
) -> Option<Family> {
    if !nothing_withdrawn || !announced.is_empty() || !faults.is_empty() {
        return None;
    }
    match (&found.mp_unreach, found.count) {
        (None, 0) => Some(Family::Ipv4),
        (Some(MpUnreach::V4(nlri)), 1) if nlri.is_empty() => Some(Family::Ipv4),
        (Some(MpUnreach::V6(nlri)), 1) if nlri.is_empty() => Some(Family::Ipv6),
        _ => None,
    }
}

/// What the announced routes share, or `None` where they are treated as withdrawn.
fn share(
    mut found: Found<'_>,
    announced: &Nlri<'_, Ipv4Net>,
    faults: &mut Vec<Fault>,
) -> Option<Attributes> {
    // RFC 7606 §3 d. NEXT_HOP belongs to NLRI alone (RFC 4760 §3).
    let needs_next_hop = !announced.is_empty();
    for (kind, needed, what) in [
        (code::ORIGIN, true, "ORIGIN is missing"),
        (code::AS_PATH, true, "AS_PATH is missing"),
        (code::NEXT_HOP, needs_next_hop, "NEXT_HOP is missing"),
    ] {
        if needed && !found.seen.has(kind) {
            let disposition = Disposition::TreatAsWithdraw;
            faults.push(Fault { attribute: kind, disposition, what });
        }
    }
    if faults.iter().any(|fault| fault.disposition == Disposition::TreatAsWithdraw) {
        return None;
    }
    let mut attributes = found.attributes;
    match &found.mp_reach {
        // RFC 4760 §3: without NLRI a NEXT_HOP is ignored.
        Some(MpReach::V4(next_hop, _) | MpReach::V6(next_hop, _)) if !needs_next_hop => {
            attributes.next_hop = *next_hop;
        }
        _ => attributes.next_hop = NextHop::V4(found.next_hop),
    }
    as_path::merge(&mut attributes, found.as4_path.take(), found.as4_aggregator);
    Some(attributes)
}
