//! Capabilities read (RFC 5492 §4). What we do not know is kept raw; a capability that we know and
//! that is malformed makes its parameter malformed (RFC 4271 §6.2). Entries of families that are not
//! ours are left out of a list.

use bytes::Bytes;

use super::open::malformed;
use crate::capability::{AddPathMode, Capability, GracefulRestart, Role, code};
use crate::cursor::Cursor;
use crate::family::Family;
use crate::notification::Reset;

/// Reads the capabilities of one parameter; there may be several in it.
pub(super) fn capabilities(value: &[u8], found: &mut Vec<Capability>) -> Result<(), Reset> {
    let mut cursor = Cursor::new(value);
    while !cursor.is_empty() {
        let (kind, length) = (cursor.u8(), cursor.u8());
        let value = length.and_then(|length| cursor.take(usize::from(length)));
        let (Some(kind), Some(value)) = (kind, value) else { return Err(malformed()) };
        found.push(capability(kind, value).ok_or_else(malformed)?);
    }
    Ok(())
}

/// `None`: malformed.
fn capability(kind: u8, value: &[u8]) -> Option<Capability> {
    let known = match kind {
        code::MULTIPROTOCOL => multiprotocol(value)?,
        code::EXTENDED_NEXT_HOP => Some(extended_next_hop(value)?),
        code::ROLE => role(value)?,
        code::GRACEFUL_RESTART => Some(graceful_restart(value)?),
        code::FOUR_OCTET_AS => {
            Some(Capability::FourOctetAs(u32::from_be_bytes(value.try_into().ok()?)))
        }
        code::ADD_PATH => add_path(value)?,
        code::ROUTE_REFRESH => Some(empty(value, Capability::RouteRefresh)?),
        code::EXTENDED_MESSAGE => Some(empty(value, Capability::ExtendedMessage)?),
        code::ENHANCED_ROUTE_REFRESH => Some(empty(value, Capability::EnhancedRouteRefresh)?),
        _ => None,
    };
    let raw = || Capability::Other { code: kind, value: Bytes::copy_from_slice(value) };
    Some(known.unwrap_or_else(raw))
}

fn empty(value: &[u8], capability: Capability) -> Option<Capability> {
    value.is_empty().then_some(capability)
}

/// RFC 4760 §8.
fn multiprotocol(value: &[u8]) -> Option<Option<Capability>> {
    let [afi_high, afi_low, _reserved, safi] = *value else { return None };
    let family = Family::from_wire(u16::from_be_bytes([afi_high, afi_low]), safi);
    Some(family.map(Capability::Multiprotocol))
}

/// RFC 8950 §4: families whose next hop may be IPv6 (AFI 2); other pairs say nothing to us.
fn extended_next_hop(value: &[u8]) -> Option<Capability> {
    let (entries, []) = value.as_chunks::<6>() else { return None };
    let families =
        entries.iter().filter_map(|&[afi_high, afi_low, zero, safi, by_high, by_low]| {
            let ours = zero == 0 && u16::from_be_bytes([by_high, by_low]) == Family::Ipv6.afi();
            let family = Family::from_wire(u16::from_be_bytes([afi_high, afi_low]), safi);
            family.filter(|_| ours)
        });
    Some(Capability::ExtendedNextHop(families.collect()))
}

/// RFC 9234 §4.1. A role that is not assigned stays raw: the session may refuse it (§4.2).
fn role(value: &[u8]) -> Option<Option<Capability>> {
    let [role] = *value else { return None };
    Some(Role::from_wire(role).map(Capability::Role))
}

/// RFC 4724 §3, RFC 8538 §2.
fn graceful_restart(value: &[u8]) -> Option<Capability> {
    let mut cursor = Cursor::new(value);
    let head = cursor.u16()?;
    let (entries, []) = cursor.rest().as_chunks::<4>() else { return None };
    let families = entries.iter().filter_map(|&[afi_high, afi_low, safi, flags]| {
        let family = Family::from_wire(u16::from_be_bytes([afi_high, afi_low]), safi);
        family.map(|family| (family, flags & 0x80 != 0))
    });
    Some(Capability::GracefulRestart(GracefulRestart {
        restarted: head & 0x8000 != 0,
        notification: head & 0x4000 != 0,
        time: head & 0x0FFF,
        families: families.collect(),
    }))
}

/// RFC 7911 §4: a mode that is none of the three makes the capability not understood, so it stays
/// raw.
fn add_path(value: &[u8]) -> Option<Option<Capability>> {
    let (entries, []) = value.as_chunks::<4>() else { return None };
    let mut families = Vec::new();
    for &[afi_high, afi_low, safi, mode] in entries {
        let mode = match mode {
            1 => AddPathMode::Receive,
            2 => AddPathMode::Send,
            3 => AddPathMode::Both,
            _ => return Some(None),
        };
        let family = Family::from_wire(u16::from_be_bytes([afi_high, afi_low]), safi);
        families.extend(family.map(|family| (family, mode)));
    }
    Some(Some(Capability::AddPath(families)))
}
