//! OPEN read (RFC 4271 §4.2, §6.2), its optional parameters in both forms (RFC 5492 §4, RFC 9072).

use std::net::Ipv4Addr;

use super::capability::capabilities;
use crate::cursor::Cursor;
use crate::notification::{Notification, Reset, code, open as subcode};
use crate::open::{CAPABILITIES, EXTENDED, Open, VERSION};

pub(super) fn open(body: &[u8]) -> Result<Open, Reset> {
    let mut cursor = Cursor::new(body);
    let (Some(version), Some(wire_asn), Some(hold_time), Some(id), Some(length)) =
        (cursor.u8(), cursor.u16(), cursor.u16(), cursor.u32(), cursor.u8())
    else {
        return Err(malformed());
    };
    if version != VERSION {
        // RFC 4271 §6.2: the data is the version that we would speak, in two octets.
        let data = u16::from(VERSION).to_be_bytes().to_vec();
        return Err(Reset(Notification::with(code::OPEN, subcode::VERSION, data)));
    }
    if wire_asn == 0 {
        return Err(error(subcode::PEER_AS)); // RFC 7607 §2
    }
    if matches!(hold_time, 1 | 2) {
        return Err(error(subcode::HOLD_TIME)); // RFC 4271 §6.2
    }
    if id == 0 {
        return Err(error(subcode::IDENTIFIER)); // RFC 6286 §2.2
    }
    let capabilities = parameters(length, cursor)?;
    let open = Open { wire_asn, hold_time, id: Ipv4Addr::from(id), capabilities };
    if open.asn() == 0 {
        return Err(error(subcode::PEER_AS)); // RFC 7607 §2: in the capability too
    }
    Ok(open)
}

fn error(subcode: u8) -> Reset {
    Reset(Notification::new(code::OPEN, subcode))
}

/// RFC 4271 §6.2: a parameter that is recognized but malformed is "unspecific".
pub(super) fn malformed() -> Reset {
    error(subcode::UNSPECIFIC)
}

fn parameters(length: u8, rest: Cursor<'_>) -> Result<Vec<crate::Capability>, Reset> {
    let mut cursor = rest;
    // RFC 9072 §2: a first parameter of type 255 says that lengths have two octets; the short
    // length is then ignored, but zero, which means that there are no parameters.
    let extended = length != 0 && rest.rest().first() == Some(&EXTENDED);
    let total = if extended {
        cursor.u8();
        cursor.u16().map(usize::from).ok_or_else(malformed)?
    } else {
        usize::from(length)
    };
    if total != cursor.len() {
        return Err(malformed());
    }
    let mut found = Vec::new();
    while !cursor.is_empty() {
        let kind = cursor.u8().ok_or_else(malformed)?;
        let length = match extended {
            true => cursor.u16().map(usize::from),
            false => cursor.u8().map(usize::from),
        };
        let value = length.and_then(|length| cursor.take(length)).ok_or_else(malformed)?;
        if kind != CAPABILITIES {
            // RFC 4271 §6.2; RFC 9072 §2: 255 anywhere but in front is as unknown as any.
            return Err(error(subcode::PARAMETER));
        }
        capabilities(value, &mut found)?;
    }
    Ok(found)
}
