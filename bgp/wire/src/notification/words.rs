//! Codes and subcodes as RFCs name them, and what a peer may not put into our logs.

/// "Cease: Administrative Shutdown"; numbers where there is no name.
pub(super) fn describe(code: u8, subcode: u8) -> String {
    let Some(name) = name(code) else { return format!("error {code}/{subcode}") };
    match (subcode_name(code, subcode), subcode) {
        (Some(sub), _) => format!("{name}: {sub}"),
        (None, 0) => name.to_owned(),
        (None, other) => format!("{name}: subcode {other}"),
    }
}

fn name(code: u8) -> Option<&'static str> {
    Some(match code {
        1 => "Message Header Error",
        2 => "OPEN Message Error",
        3 => "UPDATE Message Error",
        4 => "Hold Timer Expired",
        5 => "Finite State Machine Error",
        6 => "Cease",
        7 => "ROUTE-REFRESH Message Error",
        8 => "Send Hold Timer Expired",
        _ => return None,
    })
}

fn subcode_name(code: u8, subcode: u8) -> Option<&'static str> {
    Some(match (code, subcode) {
        (1, 1) => "Connection Not Synchronized",
        (1, 2) => "Bad Message Length",
        (1, 3) => "Bad Message Type",
        (2, 1) => "Unsupported Version Number",
        (2, 2) => "Bad Peer AS",
        (2, 3) => "Bad BGP Identifier",
        (2, 4) => "Unsupported Optional Parameter",
        (2, 5) => "Authentication Failure",
        (2, 6) => "Unacceptable Hold Time",
        (2, 7) => "Unsupported Capability",
        (2, 11) => "Role Mismatch",
        (3, 1) => "Malformed Attribute List",
        (3, 2) => "Unrecognized Well-known Attribute",
        (3, 3) => "Missing Well-known Attribute",
        (3, 4) => "Attribute Flags Error",
        (3, 5) => "Attribute Length Error",
        (3, 6) => "Invalid ORIGIN Attribute",
        (3, 7) => "AS Routing Loop",
        (3, 8) => "Invalid NEXT_HOP Attribute",
        (3, 9) => "Optional Attribute Error",
        (3, 10) => "Invalid Network Field",
        (3, 11) => "Malformed AS_PATH",
        (5, 1) => "Receive Unexpected Message in OpenSent State",
        (5, 2) => "Receive Unexpected Message in OpenConfirm State",
        (5, 3) => "Receive Unexpected Message in Established State",
        (6, 1) => "Maximum Number of Prefixes Reached",
        (6, 2) => "Administrative Shutdown",
        (6, 3) => "Peer De-configured",
        (6, 4) => "Administrative Reset",
        (6, 5) => "Connection Rejected",
        (6, 6) => "Other Configuration Change",
        (6, 7) => "Connection Collision Resolution",
        (6, 8) => "Out of Resources",
        (6, 9) => "Hard Reset",
        (6, 10) => "BFD Down",
        (7, 1) => "Invalid Message Length",
        _ => return None,
    })
}

/// Replaces what moves a terminal's cursor, breaks a line or turns its direction.
pub(super) fn harmless(character: char) -> char {
    match character {
        '\u{2028}' | '\u{2029}' | '\u{200E}' | '\u{200F}' => char::REPLACEMENT_CHARACTER,
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        other if other.is_control() => char::REPLACEMENT_CHARACTER,
        other => other,
    }
}
