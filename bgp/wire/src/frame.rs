//! Where a message ends (RFC 4271 §4.1, §6.1; RFC 8654 §4 for messages over 4,096 octets).
//!
//! Decides marker, type and the bounds of a length, before any memory is spent on a body. What the
//! body means is left to `decode`.

use crate::notification::{Notification, Reset, code, header};

/// Octets of the header: marker, length, type.
pub const HEADER: usize = 19;
/// The longest message (RFC 4271 §4).
pub const MAX: usize = 4_096;
/// The longest message between speakers that agreed on it, OPEN and KEEPALIVE excepted (RFC 8654 §3).
pub const MAX_EXTENDED: usize = 65_535;

/// Message types (RFC 4271 §4.1, RFC 2918 §3).
pub(crate) mod kind {
    pub(crate) const OPEN: u8 = 1;
    pub(crate) const UPDATE: u8 = 2;
    pub(crate) const NOTIFICATION: u8 = 3;
    pub(crate) const KEEPALIVE: u8 = 4;
    pub(crate) const ROUTE_REFRESH: u8 = 5;
}

/// All ones (RFC 4271 §4.1).
const MARKER: [u8; 16] = [0xFF; 16];

/// The length of the message that `bytes` begin with, header included; `None` while the header is
/// not complete. The message itself may not be: compare with `bytes.len()`.
///
/// Checks marker, type, and length against the type's bounds. `extended`: RFC 8654 was negotiated.
/// A wrong marker is told from its first wrong octet on, so that a stranger is not waited for.
pub fn length(bytes: &[u8], extended: bool) -> Result<Option<usize>, Reset> {
    let Some((head, _)) = bytes.split_first_chunk::<HEADER>() else {
        return match bytes.iter().zip(MARKER).all(|(octet, expected)| *octet == expected) {
            true => Ok(None),
            false => Err(not_synchronized()),
        };
    };
    let [marker @ .., high, low, kind] = head;
    if *marker != MARKER {
        return Err(not_synchronized());
    }
    let length = u16::from_be_bytes([*high, *low]);
    let max = if extended { MAX_EXTENDED } else { MAX };
    let size = usize::from(length);
    if size < HEADER || size > max {
        return Err(bad_length(length));
    }
    let fits = match *kind {
        // RFC 8654 §4: these two stay within 4,096 octets, whatever was agreed.
        kind::OPEN => (29..=MAX).contains(&size),
        kind::KEEPALIVE => size == HEADER,
        kind::UPDATE => size >= 23,
        kind::NOTIFICATION => size >= 21,
        // RFC 7313 §5 has an error of its own, which needs the body: `decode` says.
        kind::ROUTE_REFRESH => true,
        // RFC 4271 §6.1: the data is the type.
        unknown => {
            let data = vec![unknown];
            return Err(Reset(Notification::with(code::HEADER, header::BAD_TYPE, data)));
        }
    };
    if fits { Ok(Some(size)) } else { Err(bad_length(length)) }
}

fn not_synchronized() -> Reset {
    Reset(Notification::new(code::HEADER, header::NOT_SYNCHRONIZED))
}

/// RFC 4271 §6.1: the data is the length field.
pub(crate) fn bad_length(length: u16) -> Reset {
    let data = length.to_be_bytes().to_vec();
    Reset(Notification::with(code::HEADER, header::BAD_LENGTH, data))
}
