//! Packets taken from the wire of real routers: each is read without a fault, written again and read
//! back equal, and what they say is what their configuration had them say.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use bytes::{Bytes, BytesMut};
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::{
    AddPathMode, AsPath, Attributes, Capability, Community, Context, Family, GracefulRestart,
    LargeCommunity, Message, MpReach, MpUnreach, NextHop, Open, Origin, RefreshKind, Update,
    decode, frame,
};
use ipnet::IpNet;

const ROUTERS: [&str; 5] = ["bird", "exabgp", "frr", "gobgp", "openbgpd"];

struct Packet {
    name: String,
    context: Context,
    extended_messages: bool,
    expect: String,
    bytes: Vec<u8>,
}

fn packet(name: String, text: &str) -> Packet {
    let line = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {key}: ")));
        line.unwrap_or_else(|| panic!("{name}: no {key}")).to_owned()
    };
    let context = line("context");
    let says = |what: &str| context.split(", ").any(|each| each == what);
    for each in context.split(", ") {
        let (key, _) = each.split_once('=').unwrap();
        let keys = ["as4", "add-path", "ext-next-hop", "peer", "ext-messages"];
        assert!(keys.contains(&key), "{name}: {key}");
    }
    let digits: String = text.lines().filter(|line| !line.starts_with('#')).collect();
    let digits: Vec<u32> = digits.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    let bytes = digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap());
    Packet {
        context: Context {
            four_octet_as: says("as4=yes"),
            add_path_ipv4: says("add-path=yes"),
            add_path_ipv6: says("add-path=yes"),
            extended_next_hop: says("ext-next-hop=yes"),
            internal: says("peer=ibgp"),
        },
        extended_messages: says("ext-messages=yes"),
        expect: line("expect"),
        bytes: bytes.collect(),
        name,
    }
}

/// All packets, by "router/name".
fn packets() -> BTreeMap<String, Packet> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut packets = BTreeMap::new();
    for router in ROUTERS {
        for entry in std::fs::read_dir(root.join(router)).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{router}/{}", path.file_stem().unwrap().to_str().unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            packets.insert(name.clone(), packet(name, &text));
        }
    }
    packets
}

fn read(packet: &Packet) -> Message<'_> {
    let length = frame::length(&packet.bytes, packet.extended_messages);
    assert_eq!(length, Ok(Some(packet.bytes.len())), "{}", packet.name);
    decode(&packet.bytes, &packet.context)
        .unwrap_or_else(|reset| panic!("{}: {reset}", packet.name))
}

fn nets(update: &Update<'_>) -> (Vec<IpNet>, Vec<IpNet>) {
    let mut announced: Vec<IpNet> = update.announced.map(|one| one.net.into()).collect();
    match &update.mp_reach {
        Some(MpReach::V4(_, nlri)) => announced.extend(nlri.map(|one| IpNet::from(one.net))),
        Some(MpReach::V6(_, nlri)) => announced.extend(nlri.map(|one| IpNet::from(one.net))),
        None => {}
    }
    let mut withdrawn: Vec<IpNet> = update.withdrawn.map(|one| one.net.into()).collect();
    match &update.mp_unreach {
        Some(MpUnreach::V4(nlri)) => withdrawn.extend(nlri.map(|one| IpNet::from(one.net))),
        Some(MpUnreach::V6(nlri)) => withdrawn.extend(nlri.map(|one| IpNet::from(one.net))),
        None => {}
    }
    (announced, withdrawn)
}

fn write_update(update: &Update<'_>, form: Form, out: &mut BytesMut) {
    if let Some(family) = update.end_of_rib {
        return encode::end_of_rib(family, out);
    }
    let (announced, withdrawn) = nets(update);
    let mut written = 0;
    for net in &withdrawn {
        written += match net {
            IpNet::V4(net) => encode::withdraw(&[*net], form, out),
            IpNet::V6(net) => encode::withdraw(&[*net], form, out),
        };
    }
    for net in &announced {
        let attributes = update.attributes.as_ref().unwrap();
        written += match net {
            IpNet::V4(net) => encode::announce(attributes, &[*net], form, out),
            IpNet::V6(net) => encode::announce(attributes, &[*net], form, out),
        };
    }
    assert_eq!(written, 1, "each of them says one thing");
}

fn write(message: &Message<'_>, packet: &Packet) -> BytesMut {
    let mut out = BytesMut::new();
    let max = if packet.extended_messages { frame::MAX_EXTENDED } else { frame::MAX };
    let form = Form { four_octet_as: packet.context.four_octet_as, max };
    match message {
        Message::Open(open) => encode::open(open, &mut out),
        Message::Update(update) => write_update(update, form, &mut out),
        Message::Notification(notification) => encode::notification(notification, &mut out),
        Message::Keepalive => encode::keepalive(&mut out),
        Message::Refresh(refresh) => encode::refresh(*refresh, &mut out),
    }
    out
}

/// What a message says, however it is written: prefixes by NLRI and by MP_REACH_NLRI are the same.
#[derive(Debug, PartialEq)]
enum Said {
    Update(Box<Option<Attributes>>, (Vec<IpNet>, Vec<IpNet>), Option<Family>),
    Other(String),
}

fn said(message: &Message<'_>) -> Said {
    match message {
        Message::Update(update) => {
            Said::Update(update.attributes.clone().into(), nets(update), update.end_of_rib)
        }
        other => Said::Other(format!("{other:?}")),
    }
}

#[test]
fn every_packet_reads_without_a_fault_and_reads_back_equal() {
    let packets = packets();
    for packet in packets.values() {
        let message = read(packet);
        if let Message::Update(update) = &message {
            assert_eq!(update.faults, [], "{}", packet.name);
        }
        let again = write(&message, packet);
        let back = decode(&again, &packet.context).unwrap();
        assert_eq!(said(&message), said(&back), "{}", packet.name);
    }
    assert!(packets.len() >= 140, "{} packets", packets.len());
    for router in ROUTERS {
        let count = packets.keys().filter(|name| name.starts_with(router)).count();
        assert!(count >= 20, "{count} of {router}");
    }
}

/// What the file says of itself: the kind of message, and code and subcode of a NOTIFICATION.
#[test]
fn every_packet_is_what_its_file_says() {
    for packet in packets().values() {
        let message = read(packet);
        let kind = match &message {
            Message::Open(_) => "OPEN",
            Message::Update(_) => "UPDATE",
            Message::Notification(_) => "NOTIFICATION",
            Message::Keepalive => "KEEPALIVE",
            Message::Refresh(_) => "ROUTE-REFRESH",
        };
        let (expected, detail) = packet.expect.split_once(": ").unwrap_or((&packet.expect, ""));
        assert_eq!(kind, expected, "{}", packet.name);
        match &message {
            Message::Notification(got) if !detail.starts_with("Cease") => {
                assert_eq!(format!("{}/{}", got.code, got.subcode), detail, "{}", packet.name);
            }
            Message::Refresh(got) => {
                let family = if detail.contains("ipv6") { Family::Ipv6 } else { Family::Ipv4 };
                let kind = match detail {
                    detail if detail.starts_with("beginning") => RefreshKind::Begin,
                    detail if detail.starts_with("end") => RefreshKind::End,
                    _ => RefreshKind::Request,
                };
                let expected = (family.afi(), family.safi(), kind);
                assert_eq!((got.afi, got.safi, got.kind), expected, "{}", packet.name);
            }
            Message::Update(got) => {
                let end = match detail {
                    "End-of-RIB for IPv4 unicast" => Some(Family::Ipv4),
                    "End-of-RIB for IPv6 unicast" => Some(Family::Ipv6),
                    _ => None,
                };
                assert_eq!(got.end_of_rib, end, "{}", packet.name);
            }
            _ => {}
        }
    }
}

const AS: u32 = 4_200_000_002;

fn restart(flags: (bool, bool), time: u16, kept: bool) -> Capability {
    Capability::GracefulRestart(GracefulRestart {
        restarted: flags.0,
        notification: flags.1,
        time,
        families: vec![(Family::Ipv4, kept), (Family::Ipv6, kept)],
    })
}

fn raw(code: u8, value: &'static [u8]) -> Capability {
    Capability::Other { code, value: Bytes::from_static(value) }
}

#[test]
fn opens_have_the_capabilities_that_each_router_has() {
    use Capability::{
        AddPath, EnhancedRouteRefresh, ExtendedMessage, ExtendedNextHop, FourOctetAs,
        Multiprotocol, RouteRefresh,
    };
    let [v4, v6] = Family::ALL;
    let both = [Multiprotocol(v4), Multiprotocol(v6)];
    let receive = vec![(v4, AddPathMode::Receive), (v6, AddPathMode::Receive)];
    let long_lived = &[0, 1, 1, 0x80, 0, 0, 0, 0, 2, 1, 0x80, 0, 0, 0];
    let host = || raw(73, b"\x02vm\x00");
    let restart_alone = Capability::GracefulRestart(GracefulRestart {
        restarted: true,
        ..GracefulRestart::default()
    });
    let expected: [(&str, Vec<Capability>); 5] = [
        ("bird", {
            let rest = [RouteRefresh, restart((false, false), 120, false), FourOctetAs(AS)];
            let more = [EnhancedRouteRefresh, raw(71, b"")];
            [&both[..], &rest, &more].concat()
        }),
        ("exabgp", {
            let rest = [FourOctetAs(AS), restart((true, false), 120, true)];
            [&both[..], &rest, &[RouteRefresh, EnhancedRouteRefresh]].concat()
        }),
        ("frr", {
            let rest = [raw(128, b""), RouteRefresh, EnhancedRouteRefresh, FourOctetAs(AS)];
            let more = [ExtendedMessage, AddPath(receive), host()];
            let last = [restart((true, true), 120, true), raw(71, long_lived)];
            [&both[..], &rest, &more, &last].concat()
        }),
        ("gobgp", {
            let first = [RouteRefresh, host()];
            let last = [FourOctetAs(AS), restart((false, false), 120, false)];
            [&first[..], &both, &last, &[ExtendedNextHop(vec![v4])]].concat()
        }),
        ("openbgpd", {
            let rest = [RouteRefresh, restart_alone, FourOctetAs(AS), EnhancedRouteRefresh];
            [&both[..], &rest].concat()
        }),
    ];
    let packets = packets();
    for (router, capabilities) in expected {
        let got = read(&packets[&format!("{router}/open")]);
        let id = Ipv4Addr::new(192, 0, 2, 2);
        let open = Open { wire_asn: 23456, hold_time: 90, id, capabilities };
        assert_eq!(got, Message::Open(open.clone()), "{router}");
        assert_eq!(open.asn(), AS);
    }
}

/// The route 198.51.100.0/24 as every router was told to announce it.
fn told(router: &str) -> Attributes {
    // GoBGP calls what it was given by hand "incomplete".
    let origin = if router == "gobgp" { Origin::Incomplete } else { Origin::Igp };
    let mut attributes = Attributes::new(origin, NextHop::V4(Ipv4Addr::new(192, 0, 2, 2)));
    attributes.as_path = AsPath::sequence([AS]);
    attributes.med = Some(50);
    attributes.communities = vec![Community(0xFDEA_0064), Community(0xFDEA_00C8)];
    attributes.large_communities = vec![LargeCommunity(AS, 1, 2), LargeCommunity(AS, 3, u32::MAX)];
    attributes
}

fn update<'a>(packets: &'a BTreeMap<String, Packet>, name: &str) -> Box<Update<'a>> {
    match read(&packets[name]) {
        Message::Update(update) => update,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn ipv4_routes_have_the_attributes_that_were_configured() {
    let packets = packets();
    for router in ROUTERS {
        for (packet, change) in [
            ("update-ipv4", None),
            // The path is put together from AS_PATH and AS4_PATH.
            ("update-ipv4-two-byte-as", None),
            ("update-ipv4-internal", Some(100)),
        ] {
            let got = update(&packets, &format!("{router}/{packet}"));
            let mut expected = told(router);
            if change.is_some() {
                expected.local_pref = change;
                expected.as_path = AsPath::default();
            }
            assert_eq!(got.attributes, Some(expected), "{router}/{packet}");
            let nets: Vec<String> = got.announced.map(|one| one.net.to_string()).collect();
            assert_eq!(nets, ["198.51.100.0/24"], "{router}/{packet}");
            assert_eq!(got.mp_reach, None);
        }
        let replaced = update(&packets, &format!("{router}/update-ipv4-replaced"));
        let communities = replaced.attributes.unwrap().communities;
        assert_eq!(communities, [Community(0xFDEA_012C)], "{router}");
        let gone = update(&packets, &format!("{router}/withdraw-ipv4"));
        let nets: Vec<String> = gone.withdrawn.map(|one| one.net.to_string()).collect();
        assert_eq!(nets, ["198.51.100.0/24"], "{router}");
        assert_eq!(gone.attributes, None);
    }
}

#[test]
fn ipv4_routes_by_an_ipv6_next_hop() {
    let packets = packets();
    let global: Ipv6Addr = "2001:db8::2".parse().unwrap();
    for router in ["bird", "exabgp", "frr", "gobgp"] {
        let got = update(&packets, &format!("{router}/update-ipv4-ext-next-hop"));
        let Some(MpReach::V4(next_hop, nlri)) = got.mp_reach else { panic!("{router}") };
        assert_eq!(next_hop, NextHop::V6 { global, link_local: None }, "{router}");
        let nets: Vec<String> = nlri.map(|one| one.net.to_string()).collect();
        assert_eq!(nets, ["198.51.100.0/24"], "{router}");
        let expected = Attributes { next_hop, ..told(router) };
        assert_eq!(got.attributes, Some(expected), "{router}");
    }
}

#[test]
fn ipv6_routes_have_the_next_hop_that_each_router_finds() {
    let packets = packets();
    for router in ROUTERS {
        // Over IPv4 FRR sends its IPv4 address mapped, and OpenBGPD its loopback.
        let over_ipv4 = match router {
            "frr" => "::ffff:192.0.2.2",
            "openbgpd" => "::1",
            _ => "2001:db8::2",
        };
        for (packet, hop) in [("update-ipv6", over_ipv4), ("update-ipv6-over-ipv6", "2001:db8::2")]
        {
            let got = update(&packets, &format!("{router}/{packet}"));
            let global: Ipv6Addr = hop.parse().unwrap();
            let Some(MpReach::V6(next_hop, nlri)) = got.mp_reach else { panic!("{router}") };
            assert_eq!(next_hop, NextHop::V6 { global, link_local: None }, "{router}/{packet}");
            let nets: Vec<String> = nlri.map(|one| one.net.to_string()).collect();
            assert_eq!(nets, ["2001:db8:100::/48"], "{router}/{packet}");
            let attributes = got.attributes.unwrap();
            assert_eq!(attributes.next_hop, next_hop);
            assert_eq!(attributes.communities, [Community(0xFDEA_0258)], "{router}/{packet}");
            assert_eq!(attributes.as_path, AsPath::sequence([AS]), "{router}/{packet}");
            let med = if router == "frr" { Some(0) } else { None };
            assert_eq!(attributes.med, med, "{router}/{packet}");
        }
        let gone = update(&packets, &format!("{router}/withdraw-ipv6"));
        let Some(MpUnreach::V6(nlri)) = gone.mp_unreach else { panic!("{router}") };
        assert_eq!(nlri.map(|one| one.net.to_string()).collect::<Vec<_>>(), ["2001:db8:100::/48"]);
    }
}

#[test]
fn shutdowns_come_with_their_words() {
    let packets = packets();
    for router in ["bird", "frr", "gobgp", "openbgpd"] {
        let got = read(&packets[&format!("{router}/notification-shutdown")]);
        let Message::Notification(got) = got else { panic!("{router}") };
        assert_eq!(got.describe(), "Cease: Administrative Shutdown", "{router}");
        assert_eq!(got.text().unwrap(), "maintenance, back at 17:00 é", "{router}");
    }
}
