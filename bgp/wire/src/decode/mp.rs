//! MP_REACH_NLRI and MP_UNREACH_NLRI (RFC 4760 §3, §4, next hops of RFC 2545 §3 and RFC 8950 §3).
//!
//! A fault that leaves the place or the extent of the prefixes in doubt ends the session
//! (RFC 7606 §5.3, §7.11) with the subcode of RFC 4760 §7, Optional Attribute Error. The other way
//! that RFC 7606 allows, to disable the family, is not taken: a session that half works is harder to
//! see than one that is down.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Context;
use super::attributes::Bad;
use crate::attributes::NextHop;
use crate::cursor::Cursor;
use crate::family::{Family, Net};
use crate::nlri::Nlri;
use crate::notification::update as subcode;
use crate::update::{MpReach, MpUnreach};

const INCORRECT: Bad = Bad::Reset(subcode::OPTIONAL);

/// The parts of MP_REACH_NLRI: family, next hop, prefixes.
fn parts(value: &[u8]) -> Option<(Option<Family>, &[u8], &[u8])> {
    let mut cursor = Cursor::new(value);
    let (afi, safi) = (cursor.u16()?, cursor.u8()?);
    let length = cursor.u8()?;
    let next_hop = cursor.take(usize::from(length))?;
    cursor.u8()?; // RFC 4760 §3: reserved, ignored.
    Some((Family::from_wire(afi, safi), next_hop, cursor.rest()))
}

/// `None` where the family is not ours.
pub(super) fn reach<'a>(value: &'a [u8], context: &Context) -> Result<Option<MpReach<'a>>, Bad> {
    let (family, next_hop, nlri) = parts(value).ok_or(INCORRECT)?;
    Ok(match family {
        None => None,
        Some(Family::Ipv4) => {
            // RFC 8950 §4: an IPv6 next hop only where it was agreed on. Where it was not, its
            // length is not the expected one (RFC 7606 §7.11).
            let next_hop = match next_hop.len() {
                4 => next_hop_v4(next_hop),
                _ if context.extended_next_hop => next_hop_v6(next_hop),
                _ => None,
            };
            let next_hop = next_hop.ok_or(INCORRECT)?;
            Some(MpReach::V4(next_hop, prefixes(nlri, context.add_path_ipv4)?))
        }
        Some(Family::Ipv6) => {
            let next_hop = next_hop_v6(next_hop).ok_or(INCORRECT)?;
            Some(MpReach::V6(next_hop, prefixes(nlri, context.add_path_ipv6)?))
        }
    })
}

/// `None` where the family is not ours.
pub(super) fn unreach<'a>(
    value: &'a [u8],
    context: &Context,
) -> Result<Option<MpUnreach<'a>>, Bad> {
    let mut cursor = Cursor::new(value);
    let (Some(afi), Some(safi)) = (cursor.u16(), cursor.u8()) else { return Err(INCORRECT) };
    Ok(match Family::from_wire(afi, safi) {
        None => None,
        Some(Family::Ipv4) => Some(MpUnreach::V4(prefixes(cursor.rest(), context.add_path_ipv4)?)),
        Some(Family::Ipv6) => Some(MpUnreach::V6(prefixes(cursor.rest(), context.add_path_ipv6)?)),
    })
}

/// Whether an MP_REACH_NLRI of whatever family has prefixes.
pub(super) fn announces(value: &[u8]) -> bool {
    parts(value).is_some_and(|(_, _, nlri)| !nlri.is_empty())
}

fn prefixes<N: Net>(bytes: &[u8], add_path: bool) -> Result<Nlri<'_, N>, Bad> {
    Nlri::check(bytes, add_path).ok_or(INCORRECT)
}

fn next_hop_v4(bytes: &[u8]) -> Option<NextHop> {
    let octets: [u8; 4] = bytes.try_into().ok()?;
    Some(NextHop::V4(octets.into()))
}

/// RFC 2545 §3: 16 octets, or 32 with the address on the link behind. Speakers without a global
/// address send the link-local one alone, twice, or behind zeros: all three come out the same.
fn next_hop_v6(bytes: &[u8]) -> Option<NextHop> {
    let (first, second) = match bytes.len() {
        16 => (bytes, None),
        32 => {
            let (first, second) = bytes.split_at_checked(16)?;
            (first, Some(second))
        }
        // 24 and 48 are those of VPN families (RFC 8950 §3), not ours.
        _ => return None,
    };
    let address = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).ok().map(Ipv6Addr::from);
    let mut global = address(first)?;
    // What is not link-local in the second half is not what RFC 2545 §3 puts there: left out.
    let mut link_local = second.and_then(address).filter(Ipv6Addr::is_unicast_link_local);
    if global.is_unicast_link_local() {
        link_local = link_local.or(Some(global));
        global = Ipv6Addr::UNSPECIFIED;
    }
    Some(NextHop::V6 { global, link_local })
}

/// Whether an address is that of a host (RFC 4271 §6.3): not nothing, not a group, not reserved.
pub(super) fn usable(next_hop: &NextHop) -> bool {
    match next_hop {
        NextHop::V4(address) => {
            let [first, ..] = address.octets();
            *address != Ipv4Addr::UNSPECIFIED && first < 224
        }
        NextHop::V6 { global, link_local } => {
            !global.is_multicast() && (!global.is_unspecified() || link_local.is_some())
        }
    }
}
