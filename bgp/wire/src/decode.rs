//! From a whole message to a [`Message`]: which reader a type has, and what the session told it.
//!
//! Decides nothing of its own beyond RFC 4271 §6.1; each message has its file below.

mod as_path;
mod attributes;
mod capability;
mod mp;
mod open;
mod update;

use bytes::Bytes;

use crate::Message;
use crate::cursor::Cursor;
use crate::frame::{self, HEADER, kind};
use crate::notification::{Notification, Reset, code, route_refresh};
use crate::refresh::{Refresh, RefreshKind};

/// What a session has agreed on and what a reader must know of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Context {
    /// Four-octet AS numbers in AS_PATH and AGGREGATOR (RFC 6793).
    pub four_octet_as: bool,
    /// The peer may send several paths of an IPv4 prefix (RFC 7911).
    pub add_path_ipv4: bool,
    /// The same for IPv6.
    pub add_path_ipv6: bool,
    /// IPv4 prefixes may have an IPv6 next hop (RFC 8950).
    pub extended_next_hop: bool,
    /// The peer is in our AS: LOCAL_PREF, ORIGINATOR_ID and CLUSTER_LIST mean something
    /// (RFC 7606 §7.5, §7.9, §7.10).
    pub internal: bool,
}

/// Reads one whole message, of the length that [`crate::frame::length`] gave.
///
/// Bytes that are not exactly one message are a header error too (RFC 4271 §6.1). Whether a message
/// over 4,096 octets was agreed on is not asked again here.
pub fn decode<'a>(message: &'a [u8], context: &Context) -> Result<Message<'a>, Reset> {
    let size = u16::try_from(message.len()).unwrap_or(u16::MAX);
    if frame::length(message, true)? != Some(message.len()) {
        return Err(frame::bad_length(size));
    }
    let mut cursor = Cursor::new(message);
    let (Some(head), body) = (cursor.array::<HEADER>(), cursor.rest()) else {
        return Err(frame::bad_length(size));
    };
    let [.., kind] = head;
    match kind {
        kind::OPEN => open::open(body).map(Message::Open),
        kind::UPDATE => Ok(Message::Update(Box::new(update::update(body, context)?))),
        kind::NOTIFICATION => notification(body, size).map(Message::Notification),
        kind::KEEPALIVE => Ok(Message::Keepalive),
        _ => refresh(message, body, size).map(Message::Refresh),
    }
}

/// RFC 4271 §4.5. There is no answer to a bad one but closing, so nothing in it is an error.
fn notification(body: &[u8], size: u16) -> Result<Notification, Reset> {
    let mut cursor = Cursor::new(body);
    let [code, subcode] = cursor.array().ok_or_else(|| frame::bad_length(size))?;
    Ok(Notification { code, subcode, data: Bytes::copy_from_slice(cursor.rest()) })
}

/// RFC 2918 §3, RFC 7313 §5.
fn refresh(message: &[u8], body: &[u8], size: u16) -> Result<Refresh, Reset> {
    let subtype = body.get(2).copied();
    if let (Some(1 | 2), true) = (subtype, body.len() != 4) {
        // RFC 7313 §5: begin and end have four octets, and an error of their own that carries the
        // complete message (cut, should it be so long that it fits no NOTIFICATION).
        let data = message.get(..frame::MAX - HEADER - 2).unwrap_or(message).to_vec();
        return Err(Reset(Notification::with(
            code::ROUTE_REFRESH,
            route_refresh::INVALID_LENGTH,
            data,
        )));
    }
    let mut cursor = Cursor::new(body);
    let (Some(afi), Some([subtype, safi])) = (cursor.u16(), cursor.array()) else {
        return Err(frame::bad_length(size));
    };
    let kind = match subtype {
        0 => RefreshKind::Request,
        1 => RefreshKind::Begin,
        2 => RefreshKind::End,
        // RFC 7313 §5: ignored, whatever follows.
        other => RefreshKind::Unknown(other),
    };
    if kind == RefreshKind::Request && !cursor.is_empty() {
        // Only a route filter (RFC 5291) makes a request longer, and we never agree on one.
        return Err(frame::bad_length(size));
    }
    Ok(Refresh { afi, safi, kind })
}
