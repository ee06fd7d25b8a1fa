//! From values to bytes, appended to the caller's buffer, one message a call.
//!
//! Decides the form of a message (which attribute carries the prefixes, how many fit), never its
//! content: attributes are written as they are given. Room for prefixes is taken once a message and
//! written as a slice, because a call per prefix costs more than the prefix.

mod attributes;
mod open;
mod prefixes;

use bytes::{BufMut, BytesMut};

use crate::attributes::{Attributes, NextHop, code, flag};
use crate::family::{Family, Net};
use crate::frame::{HEADER, MAX, MAX_EXTENDED, kind};
use crate::notification::Notification;
use crate::open::Open;
use crate::refresh::{Refresh, RefreshKind};

/// How a session wants its UPDATEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Four-octet AS numbers (RFC 6793); otherwise AS_TRANS with AS4_PATH and AS4_AGGREGATOR.
    pub four_octet_as: bool,
    /// [`crate::frame::MAX`] or [`crate::frame::MAX_EXTENDED`].
    pub max: usize,
}

/// Writes an OPEN. Capabilities go into one optional parameter each, in the extended form of
/// RFC 9072 where they do not fit otherwise.
///
/// A list in a capability is cut to the 255 octets that a capability holds, and capabilities beyond
/// 4,096 octets of message are left out.
pub fn open(open: &Open, out: &mut BytesMut) {
    let start = begin(kind::OPEN, out);
    open::body(open, out);
    end(start, out);
}

/// Writes a KEEPALIVE.
pub fn keepalive(out: &mut BytesMut) {
    let start = begin(kind::KEEPALIVE, out);
    end(start, out);
}

/// Writes a NOTIFICATION, its data cut to what fits into 4,096 octets.
pub fn notification(notification: &Notification, out: &mut BytesMut) {
    let start = begin(kind::NOTIFICATION, out);
    out.extend_from_slice(&[notification.code, notification.subcode]);
    let data = &notification.data;
    out.extend_from_slice(data.get(..MAX - HEADER - 2).unwrap_or(data));
    end(start, out);
}

/// Writes a ROUTE-REFRESH.
pub fn refresh(refresh: Refresh, out: &mut BytesMut) {
    let start = begin(kind::ROUTE_REFRESH, out);
    let subtype = match refresh.kind {
        RefreshKind::Request => 0,
        RefreshKind::Begin => 1,
        RefreshKind::End => 2,
        RefreshKind::Unknown(other) => other,
    };
    out.put_u16(refresh.afi);
    out.extend_from_slice(&[subtype, refresh.safi]);
    end(start, out);
}

/// Writes an End-of-RIB marker (RFC 4724 §2).
pub fn end_of_rib(family: Family, out: &mut BytesMut) {
    let start = begin(kind::UPDATE, out);
    match family {
        Family::Ipv4 => out.extend_from_slice(&[0; 4]),
        Family::Ipv6 => {
            out.extend_from_slice(&[0, 0, 0, 6, flag::OPTIONAL, code::MP_UNREACH, 3]);
            out.put_u16(family.afi());
            out.put_u8(family.safi());
        }
    }
    end(start, out);
}

/// Writes one UPDATE that announces as many of `nets` as fit, from the first on, and returns how
/// many; 0 (and nothing written) where not even one fits beside these attributes.
///
/// IPv4 with an IPv4 next hop goes the classic way, everything else by MP_REACH_NLRI.
pub fn announce<N: Net>(
    attributes: &Attributes,
    nets: &[N],
    form: Form,
    out: &mut BytesMut,
) -> usize {
    let start = begin(kind::UPDATE, out);
    out.extend_from_slice(&[0; 4]); // No withdrawn routes; the attributes' length comes later.
    let list = out.len();
    let max = form.max.min(MAX_EXTENDED);
    let classic = match attributes.next_hop {
        NextHop::V4(address) if N::FAMILY == Family::Ipv4 => Some(address),
        _ => None,
    };
    // Attributes that fill the message leave no room, so a length that does not fit is never told.
    let count = if classic.is_some() {
        attributes::write(attributes, classic, form.four_octet_as, out);
        set_length(list, out.len() - list, out);
        let room = max.saturating_sub(out.len() - start);
        prefixes::append(nets, room, out)
    } else {
        // RFC 7606 §5.1: what carries prefixes goes first.
        out.extend_from_slice(&LATER);
        reach_head(N::FAMILY, attributes.next_hop, out);
        let head = list..out.len();
        attributes::write(attributes, None, form.four_octet_as, out);
        let count = prefixes::insert(code::MP_REACH, head, nets, start + max, out);
        set_length(list, out.len() - list, out);
        count
    };
    finish(start, count, out)
}

/// Writes one UPDATE that withdraws as many of `nets` as fit, from the first on, and returns how
/// many. IPv4 goes the classic way, IPv6 by MP_UNREACH_NLRI.
pub fn withdraw<N: Net>(nets: &[N], form: Form, out: &mut BytesMut) -> usize {
    let start = begin(kind::UPDATE, out);
    let max = form.max.min(MAX_EXTENDED);
    out.extend_from_slice(&[0; 2]);
    let count = match N::FAMILY {
        Family::Ipv4 => {
            let list = out.len();
            let room = max.saturating_sub(out.len() - start + 2);
            let count = prefixes::append(nets, room, out);
            set_length(list, out.len() - list, out);
            out.extend_from_slice(&[0; 2]); // No attributes.
            count
        }
        Family::Ipv6 => {
            out.extend_from_slice(&[0; 2]);
            let list = out.len();
            out.extend_from_slice(&LATER);
            out.put_u16(N::FAMILY.afi());
            out.put_u8(N::FAMILY.safi());
            let head = list..out.len();
            let count = prefixes::insert(code::MP_UNREACH, head, nets, start + max, out);
            set_length(list, out.len() - list, out);
            count
        }
    };
    finish(start, count, out)
}

/// Writes a header whose length comes later; where the message begins.
fn begin(kind: u8, out: &mut BytesMut) -> usize {
    let start = out.len();
    let mut header = [0xFF; HEADER];
    let [_marker @ .., high, low, last] = &mut header;
    [*high, *low, *last] = [0, 0, kind];
    out.extend_from_slice(&header);
    start
}

/// Sets the length of the message that began at `start`.
fn end(start: usize, out: &mut BytesMut) {
    set_length(start + 18, out.len() - start, out);
}

/// The same, or takes back a message that says nothing.
fn finish(start: usize, count: usize, out: &mut BytesMut) -> usize {
    match count {
        0 => out.truncate(start),
        _ => end(start, out),
    }
    count
}

/// Sets the two octets that end at `at`.
fn set_length(at: usize, length: usize, out: &mut BytesMut) {
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    if let Some(field) = out.get_mut(at - 2..at) {
        field.copy_from_slice(&length);
    }
}

/// Room for flags, type and length of an attribute with prefixes, which come last.
const LATER: [u8; 4] = [0; 4];

/// What stands before the prefixes in MP_REACH_NLRI (RFC 4760 §3).
fn reach_head(family: Family, next_hop: NextHop, out: &mut BytesMut) {
    out.put_u16(family.afi());
    out.put_u8(family.safi());
    match (next_hop, family) {
        (NextHop::V4(address), Family::Ipv4) => {
            out.put_u8(4);
            out.extend_from_slice(&address.octets());
        }
        (NextHop::V4(address), Family::Ipv6) => {
            // IPv6 routes have no IPv4 next hop (RFC 2545 §3): the mapped form is what others send.
            out.put_u8(16);
            out.extend_from_slice(&address.to_ipv6_mapped().octets());
        }
        (NextHop::V6 { global, link_local: None }, _) => {
            out.put_u8(16);
            out.extend_from_slice(&global.octets());
        }
        (NextHop::V6 { global, link_local: Some(link_local) }, _) => {
            // A link-local address alone goes into both halves: who reads only one finds it.
            let first = if global.is_unspecified() { link_local } else { global };
            out.put_u8(32);
            out.extend_from_slice(&first.octets());
            out.extend_from_slice(&link_local.octets());
        }
    }
    out.put_u8(0);
}
