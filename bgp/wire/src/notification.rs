//! NOTIFICATION (RFC 4271 §4.5), and [`Reset`], the error that is one: whoever fails with it says
//! which NOTIFICATION ends the session. Codes and subcodes are those of IANA, by name.

mod words;

use bytes::Bytes;

/// A NOTIFICATION as it is on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// RFC 4271 §4.5.
    pub code: u8,
    /// By code.
    pub subcode: u8,
    /// By code and subcode.
    pub data: Bytes,
}

/// The session cannot go on; this NOTIFICATION says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.describe())]
pub struct Reset(pub Notification);

/// Error codes (1 to 6: RFC 4271 §4.5; 7: RFC 7313 §5; 8: RFC 9687).
pub mod code {
    /// Message header error.
    pub const HEADER: u8 = 1;
    /// OPEN error.
    pub const OPEN: u8 = 2;
    /// UPDATE error.
    pub const UPDATE: u8 = 3;
    /// Hold timer expired.
    pub const HOLD_TIMER: u8 = 4;
    /// FSM error; subcodes of RFC 6608.
    pub const FSM: u8 = 5;
    /// Cease; subcodes of RFC 4486, RFC 8538.
    pub const CEASE: u8 = 6;
    /// ROUTE-REFRESH error (RFC 7313 §5).
    pub const ROUTE_REFRESH: u8 = 7;
    /// Send hold timer expired (RFC 9687).
    pub const SEND_HOLD_TIMER: u8 = 8;
}

/// Subcodes of a header error (RFC 4271 §6.1).
pub mod header {
    /// Connection not synchronized: the marker is wrong.
    pub const NOT_SYNCHRONIZED: u8 = 1;
    /// Bad message length; the data is the length.
    pub const BAD_LENGTH: u8 = 2;
    /// Bad message type; the data is the type.
    pub const BAD_TYPE: u8 = 3;
}

/// Subcodes of an OPEN error (RFC 4271 §6.2, RFC 5492 §5, RFC 9234 §4.2).
pub mod open {
    /// A parameter that we know is malformed.
    pub const UNSPECIFIC: u8 = 0;
    /// Unsupported version; the data is the one that we support.
    pub const VERSION: u8 = 1;
    /// Bad peer AS.
    pub const PEER_AS: u8 = 2;
    /// Bad BGP identifier.
    pub const IDENTIFIER: u8 = 3;
    /// Unsupported optional parameter.
    pub const PARAMETER: u8 = 4;
    /// Unacceptable hold time.
    pub const HOLD_TIME: u8 = 6;
    /// Unsupported capability; the data are those that are missing.
    pub const CAPABILITY: u8 = 7;
    /// Role mismatch.
    pub const ROLE: u8 = 11;
}

/// Subcodes of an UPDATE error (RFC 4271 §6.3).
pub mod update {
    /// Malformed attribute list.
    pub const MALFORMED_LIST: u8 = 1;
    /// Unrecognized well-known attribute.
    pub const UNRECOGNIZED: u8 = 2;
    /// Missing well-known attribute.
    pub const MISSING: u8 = 3;
    /// Attribute flags error.
    pub const FLAGS: u8 = 4;
    /// Attribute length error.
    pub const LENGTH: u8 = 5;
    /// Invalid ORIGIN attribute.
    pub const INVALID_ORIGIN: u8 = 6;
    /// Invalid NEXT_HOP attribute.
    pub const INVALID_NEXT_HOP: u8 = 8;
    /// Optional attribute error.
    pub const OPTIONAL: u8 = 9;
    /// Invalid network field.
    pub const INVALID_NETWORK: u8 = 10;
    /// Malformed AS_PATH.
    pub const MALFORMED_AS_PATH: u8 = 11;
}

/// Subcodes of an FSM error (RFC 6608 §3).
pub mod fsm {
    /// Unexpected message in OpenSent.
    pub const OPEN_SENT: u8 = 1;
    /// Unexpected message in OpenConfirm.
    pub const OPEN_CONFIRM: u8 = 2;
    /// Unexpected message in Established.
    pub const ESTABLISHED: u8 = 3;
}

/// Subcodes of Cease (RFC 4486 §4, RFC 8538 §3, RFC 9384).
pub mod cease {
    /// Maximum number of prefixes reached.
    pub const MAX_PREFIXES: u8 = 1;
    /// Administrative shutdown, with text (RFC 9003).
    pub const SHUTDOWN: u8 = 2;
    /// Peer de-configured.
    pub const DECONFIGURED: u8 = 3;
    /// Administrative reset, with text (RFC 9003).
    pub const RESET: u8 = 4;
    /// Connection rejected.
    pub const REJECTED: u8 = 5;
    /// Other configuration change.
    pub const CONFIGURATION: u8 = 6;
    /// Connection collision resolution.
    pub const COLLISION: u8 = 7;
    /// Out of resources.
    pub const RESOURCES: u8 = 8;
    /// Hard reset (RFC 8538): the real one is in the data.
    pub const HARD_RESET: u8 = 9;
    /// BFD down (RFC 9384).
    pub const BFD_DOWN: u8 = 10;
}

/// Subcodes of a ROUTE-REFRESH error (RFC 7313 §5).
pub mod route_refresh {
    /// Invalid message length; the data is the message.
    pub const INVALID_LENGTH: u8 = 1;
}

impl Notification {
    /// Without data.
    pub fn new(code: u8, subcode: u8) -> Self {
        Self { code, subcode, data: Bytes::new() }
    }

    /// With data.
    pub fn with(code: u8, subcode: u8, data: impl Into<Bytes>) -> Self {
        Self { code, subcode, data: data.into() }
    }

    /// Cease with a shutdown communication (RFC 9003 §2): cut to 255 octets at a character's
    /// boundary; empty text is no text.
    pub fn cease_with_text(subcode: u8, text: &str) -> Self {
        let end = text.floor_char_boundary(usize::from(u8::MAX));
        match text.get(..end).map(|text| (text, u8::try_from(text.len()))) {
            Some((text, Ok(length @ 1..))) => {
                let mut data = Vec::with_capacity(1 + text.len());
                data.push(length);
                data.extend_from_slice(text.as_bytes());
                Self::with(code::CEASE, subcode, data)
            }
            _ => Self::new(code::CEASE, subcode),
        }
    }

    /// The NOTIFICATION that a Hard Reset carries (RFC 8538 §3.1), where this is one.
    pub fn hard_reset(&self) -> Option<Self> {
        if (self.code, self.subcode) != (code::CEASE, cease::HARD_RESET) {
            return None;
        }
        let [code, subcode, ..] = *self.data else { return None };
        Some(Self { code, subcode, data: self.data.slice(2..) })
    }

    /// The peer's words (RFC 9003 §2), where there are some and they are UTF-8: control characters
    /// replaced, because they end up in logs and terminals. Those inside a Hard Reset count.
    pub fn text(&self) -> Option<String> {
        if let Some(inner) = self.hard_reset() {
            // One level: a Hard Reset in a Hard Reset has nothing to say.
            return inner.words();
        }
        self.words()
    }

    fn words(&self) -> Option<String> {
        if self.code != code::CEASE || !matches!(self.subcode, cease::SHUTDOWN | cease::RESET) {
            return None;
        }
        let (length, text) = self.data.split_first()?;
        let text = text.get(..usize::from(*length)).filter(|text| !text.is_empty())?;
        let text = std::str::from_utf8(text).ok()?;
        Some(text.chars().map(words::harmless).collect())
    }

    /// Code and subcode in words, as RFCs name them: "Cease: Administrative Shutdown".
    pub fn describe(&self) -> String {
        let text = words::describe(self.code, self.subcode);
        match self.hard_reset() {
            Some(inner) => format!("{text} ({})", words::describe(inner.code, inner.subcode)),
            None => text,
        }
    }
}
