//! Prefixes written (RFC 4271 §4.3, RFC 4760 §5) into room that was taken before.
//!
//! Each prefix is written as its length and 16 octets, whatever it needs, and the next one begins
//! where it ends: one store of fixed size instead of a loop. So the room has some slack behind it,
//! which is cut off again.

use std::ops::Range;

use bytes::BytesMut;

use crate::attributes::flag;
use crate::family::Net;
use crate::nlri::octets;

/// A length octet and the longest address.
const WIDEST: usize = 17;

/// Room that `nets` can need at most.
fn most<N: Net>(nets: &[N]) -> usize {
    nets.len().saturating_mul(1 + octets(N::MAX_LEN))
}

/// Appends as many prefixes as fit into `room` octets; how many.
pub(super) fn append<N: Net>(nets: &[N], room: usize, out: &mut BytesMut) -> usize {
    let start = out.len();
    let room = room.min(most(nets));
    out.resize(start + room + WIDEST, 0);
    let (count, used) = match out.get_mut(start..) {
        Some(slot) => write(nets, slot, room),
        None => (0, 0),
    };
    out.truncate(start + used);
    count
}

/// Inserts as many prefixes as fit behind `head`, which is flags, type and length of an attribute
/// (four octets, filled in here) and the beginning of its value. What is written does not pass
/// `limit`; how many prefixes.
pub(super) fn insert<N: Net>(
    kind: u8,
    head: Range<usize>,
    nets: &[N],
    limit: usize,
    out: &mut BytesMut,
) -> usize {
    let before = head.len() - 4;
    // RFC 4271 §4.3: one octet of length where that is surely enough, which leaves one more here.
    let room = (limit + 1).saturating_sub(out.len());
    let short = before + room.min(most(nets)) <= 255;
    let room = if short { room } else { room - 1 }.min(most(nets));
    // What stands behind waits beyond the room, and closes up afterwards.
    let tail = head.end..out.len();
    let beyond = head.end + room + WIDEST;
    out.resize(beyond + tail.len(), 0);
    out.copy_within(tail.clone(), beyond);
    let (count, used) = match out.get_mut(head.end..) {
        Some(slot) => write(nets, slot, room),
        None => (0, 0),
    };
    let mut end = head.end + used;
    let value = before + used;
    if let Ok(length) = u8::try_from(value) {
        out.copy_within(head.start + 4..end, head.start + 3);
        end -= 1;
        put(head.start, [flag::OPTIONAL, kind, length], out);
    } else {
        let [high, low] = u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes();
        put(head.start, [flag::OPTIONAL | flag::EXTENDED_LENGTH, kind, high, low], out);
    }
    out.copy_within(beyond..beyond + tail.len(), end);
    out.truncate(end + tail.len());
    count
}

fn put<const N: usize>(at: usize, octets: [u8; N], out: &mut BytesMut) {
    if let Some(place) = out.get_mut(at..).and_then(|place| place.first_chunk_mut()) {
        *place = octets;
    }
}

/// Writes into the first `room` octets of `slot`, which has [`WIDEST`] more; how many prefixes, and
/// how many octets.
fn write<N: Net>(nets: &[N], slot: &mut [u8], room: usize) -> (usize, usize) {
    let (mut count, mut at) = (0, 0);
    for net in nets {
        let len = net.len();
        let next = at + 1 + octets(len);
        if next > room {
            break;
        }
        let Some(place) = slot.get_mut(at..).and_then(|slot| slot.first_chunk_mut::<WIDEST>())
        else {
            break;
        };
        let [first, address @ ..] = place;
        *first = len;
        *address = net.bits().to_be_bytes();
        (count, at) = (count + 1, next);
    }
    (count, at)
}
