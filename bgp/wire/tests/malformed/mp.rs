//! MP_REACH_NLRI and MP_UNREACH_NLRI (RFC 4760, RFC 7606 §5.3, §7.11, RFC 2545 §3, RFC 8950).

use std::net::{Ipv4Addr, Ipv6Addr};

use flock_bgp_wire::{Attributes, Context, Disposition, NextHop};

use crate::forge::*;
use crate::{Case, Expect, Remains, discarded, sound, withdrawn_nets};

const NETS6: [&str; 1] = ["2001:db8:7::/48"];
const NETS: [&str; 1] = ["203.0.113.0/24"];

fn via(global: [u8; 16], link_local: Option<[u8; 16]>) -> Attributes {
    plain_but(|attributes| {
        attributes.next_hop =
            NextHop::V6 { global: global.into(), link_local: link_local.map(Ipv6Addr::from) };
    })
}

/// The attribute alone, with this value, which ends the session and is told back.
fn fatal(name: &'static str, context: Context, kind: u8, flags: u8, value: &[u8]) -> Case {
    let bad = attribute(flags, kind, value);
    let bytes = update(&[], &[bad.clone(), origin(), path()], &[]);
    Case { name, context, bytes, expect: Expect::Reset(3, 9, bad) }
}

/// An UPDATE with this MP_REACH_NLRI and what a route needs, NEXT_HOP not.
fn reaching(name: &'static str, context: Context, value: &[u8], expect: Expect) -> Case {
    let bytes = update(&[], &[attribute(0x80, 14, value), origin(), path()], &[]);
    Case { name, context, bytes, expect }
}

fn next_hops() -> Vec<Case> {
    let six = |hop: &[u8]| reach(2, 1, hop, &NET6);
    let four = |hop: &[u8]| reach(1, 1, hop, &NET);
    let both = [HOP6, LINK].concat();
    let mapped = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets();
    let multicast = {
        let mut group = HOP6;
        group[0] = 0xFF;
        group
    };
    vec![
        reaching("mp: global next hop", EXTERNAL, &six(&HOP6), sound(via(HOP6, None), &NETS6)),
        reaching(
            "mp: global and link-local",
            EXTERNAL,
            &six(&both),
            sound(via(HOP6, Some(LINK)), &NETS6),
        ),
        reaching(
            "mp: link-local alone",
            EXTERNAL,
            &six(&LINK),
            sound(via([0; 16], Some(LINK)), &NETS6),
        ),
        reaching(
            "mp: link-local twice",
            EXTERNAL,
            &six(&[LINK, LINK].concat()),
            sound(via([0; 16], Some(LINK)), &NETS6),
        ),
        reaching(
            "mp: link-local behind zeros",
            EXTERNAL,
            &six(&[[0; 16], LINK].concat()),
            sound(via([0; 16], Some(LINK)), &NETS6),
        ),
        reaching(
            "mp: second half not link-local",
            EXTERNAL,
            &six(&[HOP6, HOP6].concat()),
            sound(via(HOP6, None), &NETS6),
        ),
        reaching("mp: mapped next hop", EXTERNAL, &six(&mapped), sound(via(mapped, None), &NETS6)),
        reaching("mp: next hop zero", EXTERNAL, &six(&[0; 16]), withdrawn_nets(&[14], &NETS6)),
        reaching(
            "mp: next hop zero twice",
            EXTERNAL,
            &six(&[0; 32]),
            withdrawn_nets(&[14], &NETS6),
        ),
        reaching("mp: next hop a group", EXTERNAL, &six(&multicast), withdrawn_nets(&[14], &NETS6)),
        fatal("mp: no next hop", EXTERNAL, 14, 0x80, &six(&[])),
        fatal("mp: IPv4 next hop for IPv6", EXTERNAL, 14, 0x80, &six(&[192, 0, 2, 1])),
        fatal("mp: next hop of 15", EXTERNAL, 14, 0x80, &six(&HOP6[1..])),
        fatal("mp: next hop of 24", EXTERNAL, 14, 0x80, &six(&[0; 24])),
        fatal("mp: next hop of 33", EXTERNAL, 14, 0x80, &six(&[0; 33])),
        fatal("mp: next hop of 48", EXTERNAL, 14, 0x80, &six(&[0; 48])),
        reaching("mp: IPv4 by MP", EXTERNAL, &four(&[192, 0, 2, 1]), sound(plain(), &NETS)),
        reaching(
            "mp: IPv4 by MP, next hop zero",
            EXTERNAL,
            &four(&[0; 4]),
            withdrawn_nets(&[14], &NETS),
        ),
        reaching(
            "mp: IPv4 with IPv6 next hop",
            EXTENDED_NEXT_HOP,
            &four(&HOP6),
            sound(via(HOP6, None), &NETS),
        ),
        reaching(
            "mp: IPv4 with both IPv6 next hops",
            EXTENDED_NEXT_HOP,
            &four(&both),
            sound(via(HOP6, Some(LINK)), &NETS),
        ),
        reaching(
            "mp: IPv4 next hop though IPv6 was agreed",
            EXTENDED_NEXT_HOP,
            &four(&[192, 0, 2, 1]),
            sound(plain(), &NETS),
        ),
        fatal("mp: IPv6 next hop not agreed on", EXTERNAL, 14, 0x80, &four(&HOP6)),
        fatal("mp: IPv6 next hops not agreed on", EXTERNAL, 14, 0x80, &four(&both)),
        fatal("mp: IPv4 with a VPN next hop", EXTENDED_NEXT_HOP, 14, 0x80, &four(&[0; 24])),
        fatal("mp: IPv4 with next hop of 12", EXTENDED_NEXT_HOP, 14, 0x80, &four(&[0; 12])),
    ]
}

fn syntax() -> Vec<Case> {
    let good = reach(2, 1, &HOP6, &NET6);
    let with = |nlri: &[u8]| reach(2, 1, &HOP6, nlri);
    vec![
        fatal("mp reach: empty", EXTERNAL, 14, 0x80, &[]),
        fatal("mp reach: 4 octets", EXTERNAL, 14, 0x80, &[0, 2, 1, 0]),
        fatal("mp reach: family cut off", EXTERNAL, 14, 0x80, &[0, 2]),
        fatal("mp reach: next hop beyond the attribute", EXTERNAL, 14, 0x80, &[0, 2, 1, 16, 0]),
        fatal("mp reach: no reserved octet", EXTERNAL, 14, 0x80, &good[..20]),
        fatal("mp reach: foreign and cut off", EXTERNAL, 14, 0x80, &[0, 25, 70, 4, 0]),
        fatal("mp reach: prefix of 129 bits", EXTERNAL, 14, 0x80, &with(&[129; 18])),
        fatal("mp reach: prefix cut off", EXTERNAL, 14, 0x80, &with(&NET6[..6])),
        fatal(
            "mp reach: IPv4 prefix of 33 bits",
            EXTERNAL,
            14,
            0x80,
            &reach(1, 1, &[192, 0, 2, 1], &[33, 1, 2, 3, 4, 5]),
        ),
        fatal("mp reach: well-known", EXTERNAL, 14, 0x40, &good),
        fatal("mp reach: transitive", EXTERNAL, 14, 0xC0, &good),
        fatal("mp unreach: empty", EXTERNAL, 15, 0x80, &[]),
        fatal("mp unreach: 2 octets", EXTERNAL, 15, 0x80, &[0, 2]),
        fatal("mp unreach: prefix of 129 bits", EXTERNAL, 15, 0x80, &unreach(2, 1, &[129; 18])),
        fatal("mp unreach: prefix cut off", EXTERNAL, 15, 0x80, &unreach(2, 1, &NET6[..6])),
        fatal("mp unreach: transitive", EXTERNAL, 15, 0xC0, &unreach(2, 1, &NET6)),
        reaching(
            "mp reach: reserved octet is ignored",
            EXTERNAL,
            &{
                let mut odd = good.clone();
                odd[20] = 9;
                odd
            },
            sound(via(HOP6, None), &NETS6),
        ),
        reaching(
            "mp reach: 128 bits",
            EXTERNAL,
            &with(&[&[128][..], &HOP6].concat()),
            sound(via(HOP6, None), &["2001:db8::1/128"]),
        ),
        reaching(
            "mp reach: bits beyond the length are cut",
            EXTERNAL,
            &with(&[33, 0x20, 0x01, 0x0D, 0xB8, 0xFF]),
            sound(via(HOP6, None), &["2001:db8:8000::/33"]),
        ),
    ]
}

fn together() -> Vec<Case> {
    let case = |name, bytes, expect| Case { name, context: EXTERNAL, bytes, expect };
    let good = || attribute(0x80, 14, &reach(2, 1, &HOP6, &NET6));
    let foreign = |nlri: &[u8]| attribute(0x80, 14, &reach(25, 70, &[192, 0, 2, 1], nlri));
    let zero_hop = attribute(0x40, 3, &[0; 4]);
    let foreign_gone = attribute(0x80, 15, &unreach(25, 70, &[1, 2, 3]));
    let nothing =
        |kind| Remains { faults: vec![(kind, Disposition::Discard)], ..Remains::default() };
    vec![
        case(
            "mp: last is as good as first",
            update(&[], &[origin(), path(), good()], &[]),
            sound(via(HOP6, None), &NETS6),
        ),
        case(
            "mp: NEXT_HOP is ignored without NLRI",
            update(&[], &[good(), origin(), path(), next_hop()], &[]),
            sound(via(HOP6, None), &NETS6),
        ),
        case(
            "mp: NEXT_HOP zero is ignored without NLRI",
            update(&[], &[good(), origin(), path(), zero_hop], &[]),
            sound(via(HOP6, None), &NETS6),
        ),
        case(
            "mp: with NLRI, NEXT_HOP is NLRI's",
            update(&[], &base_and(&[good()]), &NET),
            sound(plain(), &["203.0.113.0/24", "2001:db8:7::/48"]),
        ),
        case(
            "mp: with NLRI, NEXT_HOP is missed",
            update(&[], &[good(), origin(), path()], &NET),
            withdrawn_nets(&[3], &["203.0.113.0/24", "2001:db8:7::/48"]),
        ),
        case(
            "mp: fault withdraws both families",
            update(&[], &base_and(&[good(), attribute(0x80, 4, &[])]), &NET),
            withdrawn_nets(&[4], &["203.0.113.0/24", "2001:db8:7::/48"]),
        ),
        case("mp: no ORIGIN", update(&[], &[good(), path()], &[]), withdrawn_nets(&[1], &NETS6)),
        case("mp: no attributes", update(&[], &[good()], &[]), withdrawn_nets(&[1, 2], &NETS6)),
        case(
            "mp: reach without prefixes",
            update(&[], &[attribute(0x80, 14, &reach(2, 1, &HOP6, &[])), origin(), path()], &[]),
            Expect::Update(Remains::default()),
        ),
        case(
            "mp: reach without prefixes and a fault",
            update(
                &[],
                &[attribute(0x80, 14, &reach(2, 1, &HOP6, &[])), attribute(0x40, 1, &[7])],
                &[],
            ),
            Expect::Reset(3, 6, vec![0x40, 1, 1, 7]),
        ),
        case(
            "mp: foreign family is ignored",
            update(&[], &[foreign(&[1, 2, 3]), origin(), path()], &[]),
            Expect::Update(nothing(14)),
        ),
        case(
            "mp: foreign family and a fault",
            update(&[], &[foreign(&[1, 2, 3]), attribute(0x40, 1, &[7])], &[]),
            Expect::Update(Remains {
                faults: vec![(14, Disposition::Discard), (1, Disposition::TreatAsWithdraw)],
                ..Remains::default()
            }),
        ),
        case(
            "mp: foreign family, empty, and a fault",
            update(&[], &[foreign(&[]), attribute(0x40, 1, &[7])], &[]),
            Expect::Reset(3, 6, vec![0x40, 1, 1, 7]),
        ),
        case(
            "mp: foreign family beside NLRI",
            update(&[], &base_and(&[foreign(&[1])]), &NET),
            discarded(&[14], plain()),
        ),
        case(
            "mp: foreign family withdrawn",
            update(&[], &[foreign_gone], &[]),
            Expect::Update(nothing(15)),
        ),
        case(
            "mp: foreign family, end of RIB",
            update(&[], &[attribute(0x80, 15, &unreach(1, 128, &[]))], &[]),
            Expect::Update(nothing(15)),
        ),
        case(
            "mp: withdrawn",
            update(&[], &[attribute(0x80, 15, &unreach(2, 1, &NET6))], &[]),
            Expect::Update(Remains {
                withdrawn: vec!["2001:db8:7::/48".into()],
                ..Remains::default()
            }),
        ),
        case(
            "mp: withdrawn IPv4 by MP",
            update(&GONE, &[attribute(0x80, 15, &unreach(1, 1, &NET))], &[]),
            Expect::Update(Remains {
                withdrawn: vec!["198.51.100.0/24".into(), "203.0.113.0/24".into()],
                ..Remains::default()
            }),
        ),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    [next_hops(), syntax(), together()].into_iter().flatten().collect()
}
