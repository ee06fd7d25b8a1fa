//! What every fuzz target does, as functions, so that the corpus can be replayed on a stable
//! toolchain too (`tests/replay.rs` includes this file).
//!
//! Each takes any octets and asserts three things: the codec neither panics nor loops, what it
//! yields keeps its promises, and what was read without a fault is written and read back equal.

use bytes::BytesMut;
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::frame::{self, MAX_EXTENDED};
use flock_bgp_wire::{
    Attributes, Context, Disposition, Message, MpReach, MpUnreach, Net, NextHop, Nlri, Update,
    decode,
};

/// A name and what it runs.
pub type Target = (&'static str, fn(&[u8]));

/// All of them: one per message, one per attribute, and the capabilities.
pub const TARGETS: &[Target] = &[
    ("frame", frame_stream),
    ("open", |data| body(1, data)),
    ("update", |data| body(2, data)),
    ("notification", |data| body(3, data)),
    ("refresh", |data| body(5, data)),
    ("capabilities", capabilities),
    ("origin", |data| attribute(1, data)),
    ("as_path", |data| attribute_with(2, Some(true), data)),
    ("as_path_two_octets", |data| attribute_with(2, Some(false), data)),
    ("next_hop", |data| attribute(3, data)),
    ("med", |data| attribute(4, data)),
    ("local_pref", |data| attribute(5, data)),
    ("atomic_aggregate", |data| attribute(6, data)),
    ("aggregator", |data| attribute(7, data)),
    ("communities", |data| attribute(8, data)),
    ("originator_id", |data| attribute(9, data)),
    ("cluster_list", |data| attribute(10, data)),
    ("mp_reach_ipv4", |data| multiprotocol(14, 1, data)),
    ("mp_reach_ipv6", |data| multiprotocol(14, 2, data)),
    ("mp_unreach", |data| attribute(15, data)),
    ("extended_communities", |data| attribute(16, data)),
    ("as4_path", |data| attribute_with(17, Some(false), data)),
    ("as4_aggregator", |data| attribute_with(18, Some(false), data)),
    ("large_communities", |data| attribute(32, data)),
    ("only_to_customer", |data| attribute(35, data)),
    ("unknown", unknown),
];

/// Runs the target of that name; a name that is none is an error in the caller.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(each, _)| *each == name);
    let (_, run) = target.expect("a target of TARGETS");
    run(data);
}

/// The session's context, from one octet.
fn context(octet: u8) -> Context {
    Context {
        four_octet_as: octet & 1 != 0,
        add_path_ipv4: octet & 2 != 0,
        add_path_ipv6: octet & 4 != 0,
        extended_next_hop: octet & 8 != 0,
        internal: octet & 16 != 0,
    }
}

/// A stream of messages, as a connection yields it: the first octet is the context, its highest bit
/// whether extended messages were agreed on.
fn frame_stream(data: &[u8]) {
    let Some((octet, mut stream)) = data.split_first() else { return };
    let extended = octet & 0x80 != 0;
    while let Ok(Some(length)) = frame::length(stream, extended) {
        assert!((frame::HEADER..=MAX_EXTENDED).contains(&length));
        assert!(extended || length <= frame::MAX);
        let Some((message, rest)) = stream.split_at_checked(length) else { return };
        check(message, &context(*octet));
        stream = rest;
    }
}

/// A message of one type; the first octet is the context.
fn body(kind: u8, data: &[u8]) {
    let Some((octet, body)) = data.split_first() else { return };
    if let Some(message) = message(kind, body) {
        check(&message, &context(*octet));
    }
}

fn message(kind: u8, body: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(19 + body.len()).ok()?;
    Some([&[0xFF; 16][..], &length.to_be_bytes(), &[kind], body].concat())
}

/// An OPEN with these octets as its parameters, in the form of RFC 9072 where they are many.
fn capabilities(data: &[u8]) {
    let fixed = [4, 0xFD, 0xE9, 0, 90, 192, 0, 2, 9];
    let parameter = match u8::try_from(data.len() + 2) {
        Ok(length) => [&[length, 2, length - 2][..], data].concat(),
        Err(_) => {
            let Ok(length) = u16::try_from(data.len()) else { return };
            let Some(total) = length.checked_add(3) else { return };
            let [high, low] = total.to_be_bytes();
            let head = [255, 255, high, low, 2];
            [&head[..], &length.to_be_bytes(), data].concat()
        }
    };
    if let Some(message) = message(1, &[&fixed[..], &parameter].concat()) {
        check(&message, &Context::default());
    }
}

fn attribute(kind: u8, data: &[u8]) {
    attribute_with(kind, None, data);
}

/// An attribute in an UPDATE that is otherwise sound. The first octet is the context, the second the
/// flags: 0 stands for the right ones, so that the fuzzer gets beyond them.
fn attribute_with(kind: u8, four_octet_as: Option<bool>, data: &[u8]) {
    let [octet, flags, value @ ..] = data else { return };
    let mut context = context(*octet);
    context.four_octet_as = four_octet_as.unwrap_or(context.four_octet_as);
    put(kind, *flags, value, &context);
}

/// MP_REACH_NLRI of unicast of one family, whatever the fuzzer says.
fn multiprotocol(kind: u8, afi: u8, data: &[u8]) {
    let [octet, flags, rest @ ..] = data else { return };
    put(kind, *flags, &[&[0, afi, 1][..], rest].concat(), &context(*octet));
}

/// An attribute that we do not know; the third octet is its type.
fn unknown(data: &[u8]) {
    let [octet, flags, kind, value @ ..] = data else { return };
    put(*kind, if *flags == 0 { 0xC0 } else { *flags }, value, &context(*octet));
}

fn put(kind: u8, flags: u8, value: &[u8], context: &Context) {
    let right = match kind {
        1 | 2 | 3 | 5 | 6 => 0x40,
        4 | 9 | 10 | 14 | 15 => 0x80,
        _ => 0xC0,
    };
    let flags = if flags == 0 { right } else { flags } | 0x10;
    let Ok(length) = u16::try_from(value.len()) else { return };
    let mut list = Vec::new();
    let path: &[u8] = match context.four_octet_as {
        true => &[0x40, 2, 6, 2, 1, 0, 0, 0xFD, 0xE9],
        false => &[0x40, 2, 6, 2, 2, 0xFD, 0xE9, 0x5B, 0xA0],
    };
    let aggregator: &[u8] = match context.four_octet_as {
        true => &[0xC0, 7, 8, 0, 0, 0xFD, 0xE9, 192, 0, 2, 9],
        false => &[0xC0, 7, 6, 0x5B, 0xA0, 192, 0, 2, 9],
    };
    for (each, sound) in
        [(1, &[0x40, 1, 1, 0][..]), (2, path), (3, &[0x40, 3, 4, 192, 0, 2, 1]), (7, aggregator)]
    {
        if each != kind {
            list.extend_from_slice(sound);
        }
    }
    list.extend_from_slice(&[flags, kind]);
    list.extend_from_slice(&length.to_be_bytes());
    list.extend_from_slice(value);
    let Ok(total) = u16::try_from(list.len()) else { return };
    let nlri: &[u8] = match context.add_path_ipv4 {
        true => &[0, 0, 0, 7, 24, 203, 0, 113],
        false => &[24, 203, 0, 113],
    };
    let body = [&[0, 0][..], &total.to_be_bytes(), &list, nlri].concat();
    if let Some(message) = message(2, &body) {
        check(&message, context);
    }
}

/// Reads a message and holds it to its promises.
fn check(bytes: &[u8], context: &Context) {
    let mut out = BytesMut::new();
    match decode(bytes, context) {
        Err(reset) => {
            assert!((1..=8).contains(&reset.0.code));
            encode::notification(&reset.0, &mut out);
            assert!(out.len() <= frame::MAX);
        }
        Ok(Message::Update(update)) => {
            promises(&update, bytes.len());
            round_trip(&update, context);
        }
        Ok(Message::Open(open)) => {
            encode::open(&open, &mut out);
            assert_eq!(frame::length(&out, false), Ok(Some(out.len())));
            let full = out.len() + 260 > frame::MAX;
            let again = decode(&out, context);
            assert!(full || again == Ok(Message::Open(open)));
        }
        Ok(Message::Notification(notification)) => {
            let _ = (notification.describe(), notification.text());
            encode::notification(&notification, &mut out);
            let again = decode(&out, context);
            assert!(bytes.len() > frame::MAX || again == Ok(Message::Notification(notification)));
        }
        Ok(Message::Refresh(refresh)) => {
            encode::refresh(refresh, &mut out);
            assert_eq!(decode(&out, context), Ok(Message::Refresh(refresh)));
        }
        Ok(Message::Keepalive) => assert_eq!(bytes.len(), frame::HEADER),
    }
}

fn promises(update: &Update<'_>, size: usize) {
    let mut kinds = [false; 256];
    for fault in &update.faults {
        let seen = &mut kinds[usize::from(fault.attribute)];
        assert!(!*seen, "two faults of attribute {}", fault.attribute);
        *seen = true;
    }
    let reached = match &update.mp_reach {
        Some(MpReach::V4(_, nlri)) => masked(*nlri),
        Some(MpReach::V6(_, nlri)) => masked(*nlri),
        None => 0,
    };
    let unreached = match &update.mp_unreach {
        Some(MpUnreach::V4(nlri)) => masked(*nlri),
        Some(MpUnreach::V6(nlri)) => masked(*nlri),
        None => 0,
    };
    let announced = masked(update.announced) + reached;
    assert!(announced + masked(update.withdrawn) + unreached <= size);
    let grave = update.faults.iter().any(|fault| fault.disposition == Disposition::TreatAsWithdraw);
    assert_eq!(update.attributes.is_some(), announced > 0 && !grave);
    if let Some(attributes) = &update.attributes {
        let segments = &attributes.as_path.segments;
        assert!(segments.iter().all(|segment| !segment.asns.is_empty()));
        assert!(!attributes.as_path.contains(0));
    }
    if update.end_of_rib.is_some() {
        assert_eq!(announced + masked(update.withdrawn) + unreached, 0);
        assert!(update.faults.is_empty());
    }
}

/// How many prefixes, each of which must be masked and within its family.
fn masked<N: Net>(nlri: Nlri<'_, N>) -> usize {
    let mut count = 0;
    for received in nlri {
        let net = received.net;
        assert!(net.len() <= N::MAX_LEN);
        assert_eq!(N::from_bits(net.bits(), net.len()), net);
        count += 1;
    }
    assert_eq!(count == 0, nlri.is_empty());
    count
}

/// Writes what was read and reads it again.
fn round_trip(update: &Update<'_>, context: &Context) {
    if let Some(attributes) = &update.attributes {
        announce(attributes, update.announced, context);
        match update.mp_reach.clone() {
            Some(MpReach::V4(next_hop, nlri)) => announce_by(attributes, next_hop, nlri, context),
            Some(MpReach::V6(next_hop, nlri)) => announce_by(attributes, next_hop, nlri, context),
            None => {}
        }
    }
    withdraw(update.withdrawn);
    match &update.mp_unreach {
        Some(MpUnreach::V4(nlri)) => withdraw(*nlri),
        Some(MpUnreach::V6(nlri)) => withdraw(*nlri),
        None => {}
    }
}

fn announce_by<N: Net>(
    attributes: &Attributes,
    next_hop: NextHop,
    nlri: Nlri<'_, N>,
    context: &Context,
) {
    announce(&Attributes { next_hop, ..attributes.clone() }, nlri, context);
}

fn announce<N: Net>(attributes: &Attributes, nlri: Nlri<'_, N>, context: &Context) {
    let nets: Vec<N> = nlri.map(|received| received.net).collect();
    let mut expected = attributes.clone();
    expected.unknown.sort_by_key(|unknown| unknown.kind);
    for unknown in &mut expected.unknown {
        unknown.flags |= 0x20; // Passed on with Partial set.
    }
    // Two octets lose what confederation segments have behind the first others (RFC 6793 §4.2.2).
    let confederated =
        attributes.as_path.segments.iter().any(|segment| segment.kind.is_confederation());
    for four_octet_as in [true, context.four_octet_as || confederated] {
        let reader = Context {
            four_octet_as,
            extended_next_hop: true,
            internal: true,
            ..Context::default()
        };
        let form = Form { four_octet_as, max: MAX_EXTENDED };
        let mut left = &nets[..];
        while !left.is_empty() {
            let mut out = BytesMut::new();
            let count = encode::announce(&expected, left, form, &mut out);
            if count == 0 {
                return; // Four octets may need more room than two did.
            }
            let Ok(Message::Update(again)) = decode(&out, &reader) else {
                panic!("our own UPDATE is refused")
            };
            assert_eq!(again.faults, []);
            assert_eq!(again.attributes.as_ref(), Some(&expected));
            let got: Vec<u128> = match &again.mp_reach {
                Some(MpReach::V4(_, nlri)) => bits(*nlri),
                Some(MpReach::V6(_, nlri)) => bits(*nlri),
                None => bits(again.announced),
            };
            assert!(got.iter().copied().eq(left[..count].iter().map(|net| net.bits())));
            left = &left[count..];
        }
    }
}

fn withdraw<N: Net>(nlri: Nlri<'_, N>) {
    let nets: Vec<N> = nlri.map(|received| received.net).collect();
    let mut left = &nets[..];
    while !left.is_empty() {
        let mut out = BytesMut::new();
        let form = Form { four_octet_as: true, max: frame::MAX };
        let count = encode::withdraw(left, form, &mut out);
        assert!(count > 0 && out.len() <= frame::MAX);
        let Ok(Message::Update(again)) = decode(&out, &Context::default()) else {
            panic!("our own UPDATE is refused")
        };
        let got = match &again.mp_unreach {
            Some(MpUnreach::V4(nlri)) => bits(*nlri),
            Some(MpUnreach::V6(nlri)) => bits(*nlri),
            None => bits(again.withdrawn),
        };
        assert!(got.iter().copied().eq(left[..count].iter().map(|net| net.bits())));
        left = &left[count..];
    }
}

fn bits<N: Net>(nlri: Nlri<'_, N>) -> Vec<u128> {
    nlri.map(|received| received.net.bits()).collect()
}
