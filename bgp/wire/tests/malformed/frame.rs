//! Headers (RFC 4271 §6.1, RFC 8654 §4).

use flock_bgp_wire::Reset;
use flock_bgp_wire::frame::length;

fn header(length: u16, kind: u8) -> Vec<u8> {
    [&[0xFF; 16][..], &length.to_be_bytes(), &[kind]].concat()
}

type Expected = Result<Option<usize>, (u8, u8, Vec<u8>)>;

fn bad_length(length: u16) -> Expected {
    Err((1, 2, length.to_be_bytes().to_vec()))
}

pub(crate) const COUNT: usize = 35;

/// Name, octets, whether extended messages were agreed on, what follows.
fn cases() -> Vec<(&'static str, Vec<u8>, bool, Expected)> {
    let mut broken_end = header(19, 4);
    broken_end[15] = 0xFE;
    let not_synchronized = || Err((1, 1, vec![]));
    vec![
        ("nothing", vec![], false, Ok(None)),
        ("one octet of marker", vec![0xFF], false, Ok(None)),
        ("all but one octet of header", header(19, 4)[..18].to_vec(), false, Ok(None)),
        ("first octet wrong", vec![0x00], false, not_synchronized()),
        ("http", b"GET / HTTP".to_vec(), false, not_synchronized()),
        (
            "last octet of marker wrong, header cut",
            broken_end[..16].to_vec(),
            false,
            not_synchronized(),
        ),
        ("last octet of marker wrong", broken_end.clone(), false, not_synchronized()),
        (
            "marker wrong and length wrong",
            {
                broken_end[17] = 0;
                broken_end
            },
            false,
            not_synchronized(),
        ),
        ("length 0", header(0, 4), false, bad_length(0)),
        ("length 18", header(18, 4), false, bad_length(18)),
        ("length 18 with an unknown type", header(18, 9), false, bad_length(18)),
        ("KEEPALIVE", header(19, 4), false, Ok(Some(19))),
        ("KEEPALIVE of 20", header(20, 4), false, bad_length(20)),
        ("KEEPALIVE of 20, extended", header(20, 4), true, bad_length(20)),
        ("OPEN of 28", header(28, 1), false, bad_length(28)),
        ("OPEN of 29", header(29, 1), false, Ok(Some(29))),
        ("OPEN of 4096", header(4096, 1), false, Ok(Some(4096))),
        ("OPEN of 4097, extended", header(4097, 1), true, bad_length(4097)),
        ("UPDATE of 22", header(22, 2), false, bad_length(22)),
        ("UPDATE of 23", header(23, 2), false, Ok(Some(23))),
        ("UPDATE of 4096", header(4096, 2), false, Ok(Some(4096))),
        ("UPDATE of 4097", header(4097, 2), false, bad_length(4097)),
        ("UPDATE of 4097, extended", header(4097, 2), true, Ok(Some(4097))),
        ("UPDATE of 65535", header(65535, 2), false, bad_length(65535)),
        ("UPDATE of 65535, extended", header(65535, 2), true, Ok(Some(65535))),
        ("NOTIFICATION of 20", header(20, 3), false, bad_length(20)),
        ("NOTIFICATION of 21", header(21, 3), false, Ok(Some(21))),
        ("NOTIFICATION of 65535, extended", header(65535, 3), true, Ok(Some(65535))),
        ("ROUTE-REFRESH of 23", header(23, 5), false, Ok(Some(23))),
        ("ROUTE-REFRESH of 65535, extended", header(65535, 5), true, Ok(Some(65535))),
        ("type 0", header(19, 0), false, Err((1, 3, vec![0]))),
        ("type 6", header(23, 6), false, Err((1, 3, vec![6]))),
        ("type 255", header(4096, 255), false, Err((1, 3, vec![255]))),
        ("type 6 too long", header(4097, 6), false, bad_length(4097)),
        ("whole header and more", [header(19, 4), vec![1, 2, 3]].concat(), false, Ok(Some(19))),
    ]
}

#[test]
fn every_header_has_its_exact_answer() {
    let cases = cases();
    assert_eq!(cases.len(), COUNT);
    for (name, bytes, extended, expected) in cases {
        let got = length(&bytes, extended)
            .map_err(|Reset(got)| (got.code, got.subcode, got.data.to_vec()));
        assert_eq!(got, expected, "{name}");
    }
}
