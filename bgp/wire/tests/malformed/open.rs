//! OPEN (RFC 4271 §6.2, RFC 5492, RFC 6286, RFC 7607, RFC 9072).

use std::net::Ipv4Addr;

use bytes::Bytes;
use flock_bgp_wire::{AddPathMode, Capability, Family, GracefulRestart, Message, Open, Role};

use crate::forge::*;
use crate::{Case, Expect};

const ID: [u8; 4] = [192, 0, 2, 9];

fn fixed(version: u8, asn: u16, hold_time: u16, id: [u8; 4]) -> Vec<u8> {
    [&[version][..], &asn.to_be_bytes(), &hold_time.to_be_bytes(), &id].concat()
}

/// An OPEN whose parameters are these octets, behind a length that fits.
fn open(parameters: &[u8]) -> Vec<u8> {
    let length = [u8::try_from(parameters.len()).unwrap()];
    message(1, &[&fixed(4, 65001, 90, ID)[..], &length, parameters].concat())
}

/// An OPEN with one parameter that holds these capabilities.
fn with(capabilities: &[u8]) -> Vec<u8> {
    let length = u8::try_from(capabilities.len()).unwrap();
    open(&[&[2, length][..], capabilities].concat())
}

fn extended(parameters: &[u8], short: u8) -> Vec<u8> {
    let body = [&fixed(4, 65001, 90, ID)[..], &[short, 255], &field(parameters)].concat();
    message(1, &body)
}

fn means(capabilities: Vec<Capability>) -> Expect {
    let id = Ipv4Addr::from(ID);
    Expect::Message(Message::Open(Open { wire_asn: 65001, hold_time: 90, id, capabilities }))
}

fn raw(code: u8, value: &'static [u8]) -> Capability {
    Capability::Other { code, value: Bytes::from_static(value) }
}

fn malformed() -> Expect {
    Expect::Reset(2, 0, vec![])
}

pub(crate) fn cases() -> Vec<Case> {
    let plain = |fixed: Vec<u8>| message(1, &[&fixed[..], &[0]].concat());
    let four = Expect::Reset(2, 1, vec![0, 4]);
    let four_again = Expect::Reset(2, 1, vec![0, 4]);
    let bad_as = || Expect::Reset(2, 2, vec![]);
    let hold_time = || Expect::Reset(2, 6, vec![]);
    let parameter = || Expect::Reset(2, 4, vec![]);
    let refresh = || vec![Capability::RouteRefresh];
    let families =
        || vec![Capability::Multiprotocol(Family::Ipv4), Capability::Multiprotocol(Family::Ipv6)];
    let list = vec![
        ("open: bare", open(&[]), means(vec![])),
        ("open: version 3", plain(fixed(3, 65001, 90, ID)), four),
        ("open: version 5", plain(fixed(5, 65001, 90, ID)), four_again),
        (
            "open: version before anything else",
            plain(fixed(3, 0, 1, [0; 4])),
            Expect::Reset(2, 1, vec![0, 4]),
        ),
        ("open: AS 0", plain(fixed(4, 0, 90, ID)), bad_as()),
        ("open: AS 0 in the capability", with(&[65, 4, 0, 0, 0, 0]), bad_as()),
        ("open: hold time 1", plain(fixed(4, 65001, 1, ID)), hold_time()),
        ("open: hold time 2", plain(fixed(4, 65001, 2, ID)), hold_time()),
        ("open: identifier zero", plain(fixed(4, 65001, 90, [0; 4])), Expect::Reset(2, 3, vec![])),
        (
            "open: parameters longer than the message",
            message(1, &[&fixed(4, 65001, 90, ID)[..], &[4, 2, 2]].concat()),
            malformed(),
        ),
        (
            "open: parameters shorter than the message",
            message(1, &[&fixed(4, 65001, 90, ID)[..], &[4, 2, 2, 2, 0, 9]].concat()),
            malformed(),
        ),
        (
            "open: octets behind no parameters",
            message(1, &[&fixed(4, 65001, 90, ID)[..], &[0, 2, 0]].concat()),
            malformed(),
        ),
        ("open: parameter without a length", open(&[2]), malformed()),
        ("open: parameter cut off", open(&[2, 4, 2, 0]), malformed()),
        ("open: authentication parameter", open(&[1, 1, 0]), parameter()),
        ("open: unknown parameter", open(&[77, 0]), parameter()),
        ("open: unknown parameter behind a good one", open(&[2, 2, 2, 0, 3, 0]), parameter()),
        ("open: 255 not in front", open(&[2, 2, 2, 0, 255, 0]), parameter()),
        ("open: empty capabilities parameter", open(&[2, 0]), means(vec![])),
        ("open: capability without a length", with(&[2]), malformed()),
        ("open: capability cut off", with(&[65, 4, 0, 0, 0]), malformed()),
        (
            "open: two in one parameter",
            with(&[2, 0, 70, 0]),
            means(vec![Capability::RouteRefresh, Capability::EnhancedRouteRefresh]),
        ),
        (
            "open: duplicates are kept in order",
            open(&[2, 2, 2, 0, 2, 2, 2, 0]),
            means(vec![Capability::RouteRefresh, Capability::RouteRefresh]),
        ),
        ("open: both families", with(&[1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1]), means(families())),
        (
            "open: reserved octet of multiprotocol is ignored",
            with(&[1, 4, 0, 1, 9, 1]),
            means(vec![Capability::Multiprotocol(Family::Ipv4)]),
        ),
        (
            "open: family not ours",
            with(&[1, 4, 0, 25, 0, 70]),
            means(vec![raw(1, &[0, 25, 0, 70])]),
        ),
        ("open: multiprotocol of 3 octets", with(&[1, 3, 0, 1, 0]), malformed()),
        ("open: multiprotocol of 5 octets", with(&[1, 5, 0, 1, 0, 1, 0]), malformed()),
        ("open: route refresh with a value", with(&[2, 1, 0]), malformed()),
        ("open: enhanced refresh with a value", with(&[70, 1, 0]), malformed()),
        ("open: extended message with a value", with(&[6, 1, 0]), malformed()),
        ("open: four-octet AS of 2 octets", with(&[65, 2, 0, 9]), malformed()),
        ("open: four-octet AS of 5 octets", with(&[65, 5, 0, 0, 0, 9, 9]), malformed()),
        ("open: role", with(&[9, 1, 3]), means(vec![Capability::Role(Role::Customer)])),
        ("open: role not assigned", with(&[9, 1, 5]), means(vec![raw(9, &[5])])),
        ("open: role of no octets", with(&[9, 0]), malformed()),
        ("open: role of 2 octets", with(&[9, 2, 3, 3]), malformed()),
        ("open: restart of 1 octet", with(&[64, 1, 0]), malformed()),
        ("open: restart with half a family", with(&[64, 4, 0, 90, 0, 1]), malformed()),
        (
            "open: restart, reserved flags ignored",
            with(&[64, 6, 0xF0, 90, 0, 1, 1, 0xFF]),
            means(vec![Capability::GracefulRestart(GracefulRestart {
                restarted: true,
                notification: true,
                time: 90,
                families: vec![(Family::Ipv4, true)],
            })]),
        ),
        (
            "open: restart, family not ours left out",
            with(&[64, 10, 0x0F, 0xFF, 0, 25, 70, 0, 0, 2, 1, 0]),
            means(vec![Capability::GracefulRestart(GracefulRestart {
                restarted: false,
                notification: false,
                time: 4095,
                families: vec![(Family::Ipv6, false)],
            })]),
        ),
        (
            "open: extended next hop",
            with(&[5, 6, 0, 1, 0, 1, 0, 2]),
            means(vec![Capability::ExtendedNextHop(vec![Family::Ipv4])]),
        ),
        (
            "open: extended next hop, other pairs left out",
            with(&[5, 18, 0, 1, 0, 128, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 1]),
            means(vec![Capability::ExtendedNextHop(vec![Family::Ipv4])]),
        ),
        ("open: extended next hop with half a pair", with(&[5, 3, 0, 1, 0]), malformed()),
        (
            "open: add-path",
            with(&[69, 8, 0, 1, 1, 1, 0, 2, 1, 3]),
            means(vec![Capability::AddPath(vec![
                (Family::Ipv4, AddPathMode::Receive),
                (Family::Ipv6, AddPathMode::Both),
            ])]),
        ),
        (
            "open: add-path mode 0 is not understood",
            with(&[69, 4, 0, 1, 1, 0]),
            means(vec![raw(69, &[0, 1, 1, 0])]),
        ),
        ("open: add-path with half an entry", with(&[69, 5, 0, 1, 1, 1, 0]), malformed()),
        (
            "open: unknown capability kept raw",
            with(&[73, 3, 1, b'x', 0]),
            means(vec![raw(73, &[1, b'x', 0])]),
        ),
        ("open: extended form", extended(&[2, 0, 2, 2, 0], 255), means(refresh())),
        (
            "open: extended form, short length ignored",
            extended(&[2, 0, 2, 2, 0], 1),
            means(refresh()),
        ),
        ("open: extended form, no parameters", extended(&[], 255), means(vec![])),
        ("open: extended form, short length 0", extended(&[2, 0, 2, 2, 0], 0), malformed()),
        ("open: extended form, length missing", open(&[255, 0]), malformed()),
        (
            "open: extended form, length too large",
            message(1, &[&fixed(4, 65001, 90, ID)[..], &[255, 255, 0, 6, 2, 0, 2, 2, 0]].concat()),
            malformed(),
        ),
        (
            "open: extended form, length too small",
            message(1, &[&fixed(4, 65001, 90, ID)[..], &[255, 255, 0, 4, 2, 0, 2, 2, 0]].concat()),
            malformed(),
        ),
        ("open: extended form, parameter cut off", extended(&[2, 0, 9, 2, 0], 255), malformed()),
        ("open: extended form, short parameter length", extended(&[2, 2, 2, 0], 255), malformed()),
        ("open: extended form, unknown parameter", extended(&[9, 0, 0], 255), parameter()),
    ];
    list.into_iter()
        .map(|(name, bytes, expect)| Case { name, context: EXTERNAL, bytes, expect })
        .collect()
}
