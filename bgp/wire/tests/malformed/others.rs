//! NOTIFICATION, KEEPALIVE and ROUTE-REFRESH (RFC 4271 §4.4, §4.5, RFC 2918, RFC 7313 §5).

use flock_bgp_wire::{Message, Notification, Refresh, RefreshKind};

use crate::forge::*;
use crate::{Case, Expect};

fn refresh(afi: u16, safi: u8, kind: RefreshKind) -> Expect {
    Expect::Message(Message::Refresh(Refresh { afi, safi, kind }))
}

fn notification(code: u8, subcode: u8, data: &[u8]) -> Expect {
    Expect::Message(Message::Notification(Notification::with(code, subcode, data.to_vec())))
}

fn invalid(bytes: &[u8]) -> Expect {
    Expect::Reset(7, 1, bytes.to_vec())
}

pub(crate) fn cases() -> Vec<Case> {
    let begin_long = message(5, &[0, 1, 1, 1, 0]);
    let end_long = message(5, &[0, 1, 2, 1, 0]);
    let begin_short = message(5, &[0, 1, 1]);
    let length = |length: u8| Expect::Reset(1, 2, vec![0, length]);
    let list = vec![
        ("refresh: request", message(5, &[0, 1, 0, 1]), refresh(1, 1, RefreshKind::Request)),
        ("refresh: begin", message(5, &[0, 2, 1, 1]), refresh(2, 1, RefreshKind::Begin)),
        ("refresh: end", message(5, &[0, 2, 2, 1]), refresh(2, 1, RefreshKind::End)),
        (
            "refresh: family not ours",
            message(5, &[0x40, 4, 0, 71]),
            refresh(16388, 71, RefreshKind::Request),
        ),
        (
            "refresh: unknown subtype",
            message(5, &[0, 1, 255, 1]),
            refresh(1, 1, RefreshKind::Unknown(255)),
        ),
        (
            "refresh: unknown subtype, more behind",
            message(5, &[0, 1, 3, 1, 9, 9]),
            refresh(1, 1, RefreshKind::Unknown(3)),
        ),
        ("refresh: no body", message(5, &[]), length(19)),
        ("refresh: request cut off", message(5, &[0, 1, 0]), length(22)),
        ("refresh: request with a filter", message(5, &[0, 1, 0, 1, 1, 64, 0, 0]), length(27)),
        ("refresh: begin too short", begin_short.clone(), invalid(&begin_short)),
        ("refresh: begin too long", begin_long.clone(), invalid(&begin_long)),
        ("refresh: end too long", end_long.clone(), invalid(&end_long)),
        ("keepalive", message(4, &[]), Expect::Message(Message::Keepalive)),
        ("keepalive: with a body", message(4, &[0]), length(20)),
        ("notification: bare", message(3, &[6, 2]), notification(6, 2, &[])),
        ("notification: with data", message(3, &[1, 2, 0, 18]), notification(1, 2, &[0, 18])),
        (
            "notification: codes that nobody knows",
            message(3, &[99, 255, 1]),
            notification(99, 255, &[1]),
        ),
        ("notification: code 0", message(3, &[0, 0]), notification(0, 0, &[])),
        ("notification: no subcode", message(3, &[6]), length(20)),
        ("notification: no body", message(3, &[]), length(19)),
        ("type 6", message(6, &[0, 0]), Expect::Reset(1, 3, vec![6])),
    ];
    list.into_iter()
        .map(|(name, bytes, expect)| Case { name, context: EXTERNAL, bytes, expect })
        .collect()
}
