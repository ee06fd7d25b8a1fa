//! `decode(encode(x)) == x`, no message longer than agreed, every prefix told once.

use bytes::BytesMut;
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::frame::{self, MAX, MAX_EXTENDED};
use flock_bgp_wire::{
    AsPath, Attributes, Context, Family, Message, MpReach, MpUnreach, Net, NextHop, Open, Segment,
    SegmentKind, Update, decode,
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use proptest::prelude::*;

use crate::config;
use crate::generate::{self, EVERYTHING, Wants};

/// A reader that refuses nothing that we may write.
fn context(four_octet_as: bool) -> Context {
    Context { four_octet_as, extended_next_hop: true, internal: true, ..Context::default() }
}

fn form() -> impl Strategy<Value = Form> {
    let max = prop_oneof![
        3 => Just(MAX),
        1 => Just(MAX_EXTENDED),
        3 => 0..700_usize,
        1 => 700..=MAX_EXTENDED,
        1 => Just(usize::MAX),
    ];
    (any::<bool>(), max).prop_map(|(four_octet_as, max)| Form { four_octet_as, max })
}

fn read<'a>(bytes: &'a [u8], four_octet_as: bool) -> Box<Update<'a>> {
    assert_eq!(frame::length(bytes, true), Ok(Some(bytes.len())));
    match decode(bytes, &context(four_octet_as)) {
        Ok(Message::Update(update)) => update,
        other => panic!("{other:?}"),
    }
}

fn announced(update: &Update<'_>) -> Vec<IpNet> {
    let mut nets: Vec<IpNet> = update.announced.map(|received| received.net.into()).collect();
    match &update.mp_reach {
        Some(MpReach::V4(_, nlri)) => nets.extend(nlri.map(|received| IpNet::from(received.net))),
        Some(MpReach::V6(_, nlri)) => nets.extend(nlri.map(|received| IpNet::from(received.net))),
        None => {}
    }
    nets
}

fn withdrawn(update: &Update<'_>) -> Vec<IpNet> {
    let mut nets: Vec<IpNet> = update.withdrawn.map(|received| received.net.into()).collect();
    match &update.mp_unreach {
        Some(MpUnreach::V4(nlri)) => nets.extend(nlri.map(|received| IpNet::from(received.net))),
        Some(MpUnreach::V6(nlri)) => nets.extend(nlri.map(|received| IpNet::from(received.net))),
        None => {}
    }
    nets
}

/// Attribute types in the order of the wire.
fn kinds(message: &[u8]) -> Vec<u8> {
    let withdrawn = usize::from(u16::from_be_bytes([message[19], message[20]]));
    let at = 21 + withdrawn;
    let length = usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    let mut list = &message[at + 2..at + 2 + length];
    let mut kinds = Vec::new();
    while !list.is_empty() {
        let extended = list[0] & 0x10 != 0;
        let (head, size) = match extended {
            true => (4, usize::from(u16::from_be_bytes([list[2], list[3]]))),
            false => (3, usize::from(list[2])),
        };
        // RFC 4271 §4.3: two octets of length only where one is not enough.
        assert_eq!(extended, size > 255, "attribute {}", list[1]);
        kinds.push(list[1]);
        list = &list[head + size..];
    }
    kinds
}

/// Announces all of `nets`, message by message, and reads each back.
fn announce_all<N: Net>(attributes: &Attributes, nets: &[N], form: Form) {
    let mut out = BytesMut::from(&b"before"[..]);
    let mut told = Vec::new();
    let mut left = nets;
    while !left.is_empty() {
        let start = out.len();
        let count = encode::announce(attributes, left, form, &mut out);
        if count == 0 {
            assert_eq!(out.len(), start, "nothing is written");
            // It must be so: the same without a limit is too long.
            let alone = Form { max: usize::MAX, ..form };
            if encode::announce(attributes, &left[..1], alone, &mut out) == 1 {
                assert!(out.len() - start > form.max, "one would have fitted");
            }
            return;
        }
        let message = &out[start..];
        assert!(message.len() <= form.max);
        let update = read(message, form.four_octet_as);
        assert_eq!(update.faults, []);
        assert_eq!(update.attributes.as_ref(), Some(attributes));
        assert_eq!(update.end_of_rib, None);
        assert_eq!(withdrawn(&update), []);
        let got = announced(&update);
        assert_eq!(got.len(), count);
        told.extend(got);
        left = &left[count..];
        // The next one of at most 17 octets would not have fitted (nor an octet for the length).
        assert!(left.is_empty() || message.len() + 1 + 17 + 1 > form.max.min(MAX_EXTENDED));

        let kinds = kinds(message);
        let rest = kinds.strip_prefix(&[14]).unwrap_or(&kinds);
        assert!(rest.is_sorted_by(|a, b| a < b), "{kinds:?}");
        assert!(!rest.contains(&14));
        let lost = |asn: u32| !form.four_octet_as && asn > 65535;
        let confederated = |segment: &Segment| segment.kind.is_confederation();
        let path = attributes.as_path.segments.iter().filter(|segment| !confederated(segment));
        let path_lost = path.flat_map(|segment| &segment.asns).any(|asn| lost(*asn));
        assert_eq!(kinds.contains(&17), path_lost, "AS4_PATH only where a number is lost");
    }
    assert_eq!(told, nets.iter().map(|net| (*net).into()).collect::<Vec<IpNet>>());
    assert!(out.starts_with(b"before"));
}

fn withdraw_all<N: Net>(nets: &[N], form: Form) {
    let mut out = BytesMut::from(&b"before"[..]);
    let mut told = Vec::new();
    let mut left = nets;
    while !left.is_empty() {
        let start = out.len();
        let count = encode::withdraw(left, form, &mut out);
        if count == 0 {
            assert_eq!(out.len(), start);
            let alone = Form { max: usize::MAX, ..form };
            assert_eq!(encode::withdraw(&left[..1], alone, &mut out), 1);
            assert!(out.len() - start > form.max, "one would have fitted");
            return;
        }
        let message = &out[start..];
        assert!(message.len() <= form.max);
        let update = read(message, form.four_octet_as);
        assert_eq!((&update.faults[..], &update.attributes), (&[][..], &None));
        assert_eq!(update.end_of_rib, None);
        assert_eq!(announced(&update), []);
        let got = withdrawn(&update);
        assert_eq!(got.len(), count);
        told.extend(got);
        left = &left[count..];
        assert!(left.is_empty() || message.len() + 1 + 17 + 1 > form.max.min(MAX_EXTENDED));
    }
    assert_eq!(told, nets.iter().map(|net| (*net).into()).collect::<Vec<IpNet>>());
}

/// Attribute sets that survive either form of AS numbers.
fn attributes_for(v4: bool) -> impl Strategy<Value = Attributes> {
    generate::attributes(v4, Wants { four_octet_as: false, ..EVERYTHING })
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn ipv4_reads_back(
        attributes in attributes_for(true),
        nets in generate::nets::<Ipv4Net>(3000),
        form in form(),
    ) {
        announce_all(&attributes, &nets, form);
    }

    #[test]
    fn ipv4_by_ipv6_next_hop_reads_back(
        attributes in attributes_for(false),
        nets in generate::nets::<Ipv4Net>(3000),
        form in form(),
    ) {
        announce_all(&attributes, &nets, form);
    }

    #[test]
    fn ipv6_reads_back(
        attributes in attributes_for(false),
        nets in generate::nets::<Ipv6Net>(2000),
        form in form(),
    ) {
        announce_all(&attributes, &nets, form);
    }

    #[test]
    fn four_octet_numbers_read_back_anywhere(
        attributes in generate::attributes(true, EVERYTHING),
        nets in generate::nets::<Ipv4Net>(10),
    ) {
        announce_all(&attributes, &nets, Form { four_octet_as: true, max: MAX_EXTENDED });
    }

    #[test]
    fn withdrawals_read_back(
        nets in generate::nets::<Ipv4Net>(3000),
        nets6 in generate::nets::<Ipv6Net>(2000),
        form in form(),
    ) {
        withdraw_all(&nets, form);
        withdraw_all(&nets6, form);
    }

    #[test]
    fn open_reads_back(open in generate::open(60)) {
        let mut out = BytesMut::new();
        encode::open(&open, &mut out);
        prop_assert_eq!(frame::length(&out, false), Ok(Some(out.len())));
        prop_assert_eq!(decode(&out, &Context::default()), Ok(Message::Open(open)));
    }

    #[test]
    fn the_rest_reads_back(
        notification in generate::notification(),
        refresh in generate::refresh(),
    ) {
        let mut out = BytesMut::new();
        encode::notification(&notification, &mut out);
        prop_assert_eq!(decode(&out, &Context::default()), Ok(Message::Notification(notification)));
        out.clear();
        encode::refresh(refresh, &mut out);
        prop_assert_eq!(decode(&out, &Context::default()), Ok(Message::Refresh(refresh)));
    }

    /// A path that is too long for one segment keeps its numbers and their order.
    #[test]
    fn long_segments_are_split(count in 256..2000_u32, four_octet_as: bool) {
        let mut attributes =
            Attributes::new(flock_bgp_wire::Origin::Igp, NextHop::V4([192, 0, 2, 1].into()));
        attributes.as_path = AsPath::sequence(65000..65000 + count);
        let nets = [Ipv4Net::default()];
        let mut out = BytesMut::new();
        let form = Form { four_octet_as, max: MAX_EXTENDED };
        prop_assert_eq!(encode::announce(&attributes, &nets, form, &mut out), 1);
        let got = read(&out, four_octet_as).attributes.unwrap().as_path;
        prop_assert!(got.iter().eq(65000..65000 + count));
        let whole = |segment: &Segment| {
            segment.kind == SegmentKind::Sequence && (1..=255).contains(&segment.asns.len())
        };
        prop_assert!(got.segments.iter().all(whole));
        prop_assert_eq!(got.hops(), attributes.as_path.hops());
    }
}

#[test]
fn small_messages_are_as_small_as_they_can_be() {
    let mut out = BytesMut::new();
    encode::keepalive(&mut out);
    assert_eq!(out.len(), 19);
    assert_eq!(decode(&out, &Context::default()), Ok(Message::Keepalive));
    for (family, length) in [(Family::Ipv4, 23), (Family::Ipv6, 29)] {
        out.clear();
        encode::end_of_rib(family, &mut out);
        assert_eq!(out.len(), length);
        assert_eq!(read(&out, true).end_of_rib, Some(family));
    }
}

#[test]
fn attributes_that_fill_the_message_are_not_sent() {
    let mut attributes =
        Attributes::new(flock_bgp_wire::Origin::Igp, NextHop::V4([192, 0, 2, 1].into()));
    attributes.communities = vec![flock_bgp_wire::Community::NO_EXPORT; 100_000];
    let mut out = BytesMut::new();
    let form = Form { four_octet_as: true, max: MAX_EXTENDED };
    assert_eq!(encode::announce(&attributes, &[Ipv4Net::default()], form, &mut out), 0);
    assert_eq!(encode::announce(&attributes, &[Ipv6Net::default()], form, &mut out), 0);
    assert!(out.is_empty());
    assert_eq!(encode::announce::<Ipv4Net>(&attributes, &[], form, &mut out), 0);
    assert_eq!(encode::withdraw::<Ipv6Net>(&[], form, &mut out), 0);
    assert!(out.is_empty());
}

/// Host bits of a prefix that somebody made by hand do not travel beyond its length.
#[test]
fn unmasked_prefixes_come_back_masked() {
    let attributes =
        Attributes::new(flock_bgp_wire::Origin::Igp, NextHop::V4([192, 0, 2, 1].into()));
    let nets: [Ipv4Net; 2] = ["192.0.2.255/25".parse().unwrap(), "10.1.2.3/8".parse().unwrap()];
    let mut out = BytesMut::new();
    let form = Form { four_octet_as: true, max: MAX };
    assert_eq!(encode::announce(&attributes, &nets, form, &mut out), 2);
    let got: Vec<String> = announced(&read(&out, true)).iter().map(IpNet::to_string).collect();
    assert_eq!(got, ["192.0.2.128/25", "10.0.0.0/8"]);
}

#[test]
fn an_open_too_full_is_cut_and_still_an_open() {
    let capability = flock_bgp_wire::Capability::Other { code: 200, value: vec![7; 300].into() };
    let open = Open {
        wire_asn: 1,
        hold_time: 90,
        id: [192, 0, 2, 1].into(),
        capabilities: vec![capability; 40],
    };
    let mut out = BytesMut::new();
    encode::open(&open, &mut out);
    assert!(out.len() <= MAX);
    let Ok(Message::Open(got)) = decode(&out, &Context::default()) else { panic!() };
    assert_eq!(got.capabilities.len(), (4096 - 32) / 260);
    let flock_bgp_wire::Capability::Other { value, .. } = &got.capabilities[0] else { panic!() };
    assert_eq!(value.len(), 255);
}

#[test]
fn a_notification_too_long_is_cut() {
    let long = flock_bgp_wire::Notification::with(3, 9, vec![7; 70_000]);
    let mut out = BytesMut::new();
    encode::notification(&long, &mut out);
    assert_eq!(out.len(), MAX);
    assert_eq!(frame::length(&out, false), Ok(Some(MAX)));
}
