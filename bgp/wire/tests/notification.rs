//! What a NOTIFICATION says to people (RFC 9003, RFC 8538, names of IANA).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flock_bgp_wire::notification::{cease, code};
use flock_bgp_wire::{Notification, Reset};

fn shutdown(data: &[u8]) -> Notification {
    Notification::with(code::CEASE, cease::SHUTDOWN, data.to_vec())
}

#[test]
fn words_go_there_and_back() {
    for text in ["x", "back at 17:00", "Grüße an alle, 再见"] {
        for subcode in [cease::SHUTDOWN, cease::RESET] {
            let notification = Notification::cease_with_text(subcode, text);
            assert_eq!((notification.code, notification.subcode), (6, subcode));
            assert_eq!(usize::from(*notification.data.first().unwrap()), text.len());
            assert_eq!(notification.text().unwrap(), text);
        }
    }
    assert_eq!(Notification::cease_with_text(2, ""), Notification::new(6, 2));
}

#[test]
fn long_words_are_cut_between_characters() {
    for (text, length) in [("a".repeat(300), 255), ("é".repeat(300), 254), ("再".repeat(99), 255)]
    {
        let notification = Notification::cease_with_text(cease::SHUTDOWN, &text);
        assert_eq!(notification.data.len(), 1 + length);
        let got = notification.text().unwrap();
        assert_eq!(got.len(), length);
        assert!(text.starts_with(&got));
    }
}

#[test]
fn bad_words_are_no_words() {
    assert_eq!(shutdown(b"").text(), None);
    assert_eq!(shutdown(b"\x00").text(), None);
    assert_eq!(shutdown(b"\x05four").text(), None, "longer than the data");
    assert_eq!(shutdown(b"\x02\xC3\x28").text(), None, "not UTF-8");
    assert_eq!(shutdown(b"\x02okmore").text().unwrap(), "ok");
    assert_eq!(Notification::with(6, 3, &b"\x02ok"[..]).text(), None, "another subcode");
    assert_eq!(Notification::with(4, 2, &b"\x02ok"[..]).text(), None, "another code");
}

#[test]
fn words_do_not_reach_the_terminal() {
    let nasty = "a\x1b[2Jb\nc\u{9b}d\u{202e}e\u{2028}f\u{2066}g\0";
    let got = Notification::cease_with_text(cease::SHUTDOWN, nasty).text().unwrap();
    let mark = char::REPLACEMENT_CHARACTER;
    assert_eq!(got, format!("a{mark}[2Jb{mark}c{mark}d{mark}e{mark}f{mark}g{mark}"));
}

#[test]
fn a_hard_reset_tells_what_it_carries() {
    let hard = Notification::with(6, 9, &b"\x06\x02\x02ok"[..]);
    assert_eq!(hard.hard_reset(), Some(Notification::with(6, 2, &b"\x02ok"[..])));
    assert_eq!(hard.text().unwrap(), "ok");
    assert_eq!(hard.describe(), "Cease: Hard Reset (Cease: Administrative Shutdown)");
    let empty = Notification::with(6, 9, &b"\x06"[..]);
    assert_eq!((empty.hard_reset(), empty.text()), (None, None));
    assert_eq!(empty.describe(), "Cease: Hard Reset");
    let twice = Notification::with(6, 9, &b"\x06\x09\x06\x02\x02ok"[..]);
    assert_eq!(twice.text(), None);
    assert_eq!(Notification::with(6, 2, &b"\x06\x02"[..]).hard_reset(), None);
}

#[test]
fn codes_have_the_names_of_their_rfcs() {
    for (code, subcode, words) in [
        (1, 1, "Message Header Error: Connection Not Synchronized"),
        (2, 0, "OPEN Message Error"),
        (2, 6, "OPEN Message Error: Unacceptable Hold Time"),
        (2, 11, "OPEN Message Error: Role Mismatch"),
        (3, 11, "UPDATE Message Error: Malformed AS_PATH"),
        (4, 0, "Hold Timer Expired"),
        (5, 3, "Finite State Machine Error: Receive Unexpected Message in Established State"),
        (6, 8, "Cease: Out of Resources"),
        (6, 10, "Cease: BFD Down"),
        (6, 77, "Cease: subcode 77"),
        (7, 1, "ROUTE-REFRESH Message Error: Invalid Message Length"),
        (8, 0, "Send Hold Timer Expired"),
        (99, 3, "error 99/3"),
    ] {
        let notification = Notification::new(code, subcode);
        assert_eq!(notification.describe(), words);
        assert_eq!(Reset(notification).to_string(), words);
    }
}
