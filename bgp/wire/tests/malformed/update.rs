//! UPDATE as a whole: lengths, prefixes, what is missing, what is there twice, what wins
//! (RFC 4271 §6.3, RFC 7606 §3, §4, §5, RFC 4724 §2, RFC 7911 §3).

use flock_bgp_wire::{Disposition, Family};

use crate::forge::*;
use crate::{Case, Expect, Remains, discarded, sound, withdrawn, withdrawn_nets};

fn reset(subcode: u8, data: &[u8]) -> Expect {
    Expect::Reset(3, subcode, data.to_vec())
}

fn gone(nets: &[&str]) -> Expect {
    let withdrawn = nets.iter().map(|net| net.to_string()).collect();
    Expect::Update(Remains { withdrawn, ..Remains::default() })
}

fn end_of_rib(family: Family) -> Expect {
    Expect::Update(Remains { end_of_rib: Some(family), ..Remains::default() })
}

fn lengths_and_prefixes() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let base = || base_and(&[]);
    vec![
        ("update: sound", update(&[], &base(), &NET), sound(plain(), &["203.0.113.0/24"])),
        ("update: withdrawn length beyond the message", message(2, &[0, 3, 0, 0]), reset(1, &[])),
        (
            "update: withdrawn length leaves no attribute length",
            message(2, &[0, 1, 0, 0]),
            reset(1, &[]),
        ),
        ("update: attribute length beyond the message", message(2, &[0, 0, 0, 1]), reset(1, &[])),
        ("update: both lengths at their most", message(2, &[255, 255, 255, 255]), reset(1, &[])),
        ("update: only withdrawn", update(&GONE, &[], &[]), gone(&["198.51.100.0/24"])),
        ("update: withdrawn of 33 bits", update(&[33, 1, 2, 3, 4, 5], &[], &[]), reset(10, &[])),
        ("update: withdrawn cut off", update(&[24, 198, 51], &[], &[]), reset(10, &[])),
        (
            "update: announced of 33 bits",
            update(&[], &base(), &[33, 1, 2, 3, 4, 5]),
            reset(10, &[]),
        ),
        ("update: announced of 255 bits", update(&[], &base(), &[255]), reset(10, &[])),
        ("update: announced cut off", update(&[], &base(), &[24, 203, 0]), reset(10, &[])),
        (
            "update: second announced cut off",
            update(&[], &base(), &[24, 203, 0, 113, 16, 10]),
            reset(10, &[]),
        ),
        ("update: announced length alone", update(&[], &base(), &[8]), reset(10, &[])),
        ("update: default route", update(&[], &base(), &[0]), sound(plain(), &["0.0.0.0/0"])),
        (
            "update: bits beyond the length are cut",
            update(&[], &base(), &[20, 203, 0, 0x7F, 32, 1, 2, 3, 4]),
            sound(plain(), &["203.0.112.0/20", "1.2.3.4/32"]),
        ),
        (
            "update: bad prefixes win over bad attributes",
            update(&[33], &[attribute(0x40, 1, &[9])], &NET),
            reset(10, &[]),
        ),
        ("update: end of RIB, IPv4", message(2, &[0, 0, 0, 0]), end_of_rib(Family::Ipv4)),
        (
            "update: end of RIB, IPv6",
            update(&[], &[attribute(0x80, 15, &unreach(2, 1, &[]))], &[]),
            end_of_rib(Family::Ipv6),
        ),
        (
            "update: end of RIB, IPv4 by MP",
            update(&[], &[attribute(0x80, 15, &unreach(1, 1, &[]))], &[]),
            end_of_rib(Family::Ipv4),
        ),
        (
            "update: no end of RIB with another attribute",
            update(&[], &[attribute(0x80, 15, &unreach(2, 1, &[])), origin()], &[]),
            gone(&[]),
        ),
        (
            "update: no end of RIB with withdrawn routes",
            update(&GONE, &[attribute(0x80, 15, &unreach(2, 1, &[]))], &[]),
            gone(&["198.51.100.0/24"]),
        ),
    ]
}

fn lists() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let raw = |list: &[u8]| vec![[&base_and(&[]).concat()[..], list].concat()];
    let with_withdrawn = Expect::Update(Remains {
        faults: vec![(1, Disposition::TreatAsWithdraw)],
        withdrawn: vec!["198.51.100.0/24".into()],
        announced: vec!["203.0.113.0/24".into()],
        ..Remains::default()
    });
    let med_then_overrun =
        [attribute(0x80, 4, &[0; 4]), attribute(0x80, 4, &[1; 4]), vec![0x80, 4, 9]];
    let graver = vec![[&base_and(&[]).concat()[..], &med_then_overrun.concat()].concat()];
    vec![
        // RFC 7606 §3 d.
        ("update: no attributes at all", update(&[], &[], &NET), withdrawn(&[1, 2, 3])),
        ("update: no ORIGIN", update(&[], &[path(), next_hop()], &NET), withdrawn(&[1])),
        ("update: no AS_PATH", update(&[], &[origin(), next_hop()], &NET), withdrawn(&[2])),
        ("update: no NEXT_HOP", update(&[], &[origin(), path()], &NET), withdrawn(&[3])),
        (
            "update: withdrawn routes stay withdrawn",
            update(&GONE, &[path(), next_hop()], &NET),
            with_withdrawn,
        ),
        ("update: nothing announced, nothing missing", update(&[], &[origin()], &[]), gone(&[])),
        // RFC 7606 §4.
        ("update: header of one octet", update(&[], &raw(&[0x80]), &NET), withdrawn(&[0])),
        ("update: header of two octets", update(&[], &raw(&[0x80, 4]), &NET), withdrawn(&[4])),
        (
            "update: extended header of three octets",
            update(&[], &raw(&[0x90, 4, 0]), &NET),
            withdrawn(&[4]),
        ),
        (
            "update: value longer than the list",
            update(&[], &raw(&[0x80, 4, 5, 0, 0, 0, 1]), &NET),
            withdrawn(&[4]),
        ),
        (
            "update: extended value longer than the list",
            update(&[], &raw(&[0x90, 4, 0, 5, 0, 0, 0, 1]), &NET),
            withdrawn(&[4]),
        ),
        (
            "update: overrun of an unknown attribute",
            update(&[], &raw(&[0xC0, 200, 1]), &NET),
            withdrawn(&[200]),
        ),
        ("update: overrun is graver than a duplicate", update(&[], &graver, &NET), withdrawn(&[4])),
        (
            "update: overrun of MP_REACH",
            update(&[], &raw(&[0x80, 14, 5, 0, 2]), &NET),
            reset(1, &[]),
        ),
        (
            "update: overrun of MP_UNREACH",
            update(&[], &raw(&[0x80, 15, 4, 0, 2, 1]), &NET),
            reset(1, &[]),
        ),
        // RFC 7606 §5.2: nothing to withdraw.
        ("update: overrun and no prefix", update(&[], &raw(&[0x80, 4]), &[]), reset(1, &[])),
        ("update: overrun and only withdrawn", update(&GONE, &raw(&[0x80, 4]), &[]), reset(1, &[])),
        (
            "update: bad ORIGIN and no prefix",
            update(&[], &[attribute(0x40, 1, &[3])], &[]),
            reset(6, &[0x40, 1, 1, 3]),
        ),
        (
            "update: bad length and no prefix",
            update(&[], &[attribute(0x80, 4, &[3])], &[]),
            reset(5, &[0x80, 4, 1, 3]),
        ),
        (
            "update: bad flags and no prefix",
            update(&[], &[attribute(0xC0, 4, &[0; 4])], &[]),
            reset(4, &[0xC0, 4, 4, 0, 0, 0, 0]),
        ),
        (
            "update: bad AS_PATH and no prefix",
            update(&[], &[attribute(0x40, 2, &[9])], &[]),
            reset(11, &[]),
        ),
        (
            "update: bad NEXT_HOP length and no prefix",
            update(&[], &[attribute(0x40, 3, &[1])], &[]),
            reset(5, &[0x40, 3, 1, 1]),
        ),
        (
            "update: the first fault is told",
            update(&[], &[attribute(0x40, 1, &[3]), attribute(0x40, 2, &[9])], &[]),
            reset(6, &[0x40, 1, 1, 3]),
        ),
        (
            "update: bad MED with withdrawals by MP only",
            update(
                &[],
                &[attribute(0x80, 15, &unreach(2, 1, &NET6)), attribute(0x80, 4, &[3])],
                &[],
            ),
            reset(5, &[0x80, 4, 1, 3]),
        ),
        (
            "update: discard and no prefix",
            update(&[], &[attribute(0x40, 6, &[1])], &[]),
            Expect::Update(Remains {
                faults: vec![(6, Disposition::Discard)],
                ..Remains::default()
            }),
        ),
        // RFC 7606 §3 h.
        (
            "update: several faults, each noted",
            update(
                &[],
                &[attribute(0x40, 1, &[3]), path(), next_hop(), attribute(0x80, 4, &[1])],
                &NET,
            ),
            withdrawn(&[1, 4]),
        ),
        (
            "update: reset wins over withdrawal",
            update(&[], &[attribute(0x40, 1, &[3]), attribute(0x80, 14, &[0, 2])], &NET),
            reset(9, &[0x80, 14, 2, 0, 2]),
        ),
        (
            "update: discard and withdrawal",
            update(&[], &base_and(&[attribute(0x40, 6, &[1]), attribute(0x80, 4, &[])]), &NET),
            Expect::Update(Remains {
                faults: vec![(6, Disposition::Discard), (4, Disposition::TreatAsWithdraw)],
                announced: vec!["203.0.113.0/24".into()],
                ..Remains::default()
            }),
        ),
    ]
}

fn duplicates() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let med = |value| attribute(0x80, 4, &[0, 0, 0, value]);
    let reach = || attribute(0x80, 14, &reach(2, 1, &HOP6, &NET6));
    let unreach = || attribute(0x80, 15, &unreach(2, 1, &NET6));
    let first = plain_but(|attributes| attributes.med = Some(1));
    let many: Vec<_> = (0..300).map(|_| med(2)).collect();
    vec![
        (
            "update: MED twice, the first stands",
            update(&[], &base_and(&[med(1), med(2)]), &NET),
            discarded(&[4], first.clone()),
        ),
        (
            "update: MED 301 times, one fault",
            update(&[], &base_and(&[vec![med(1)], many].concat()), &NET),
            discarded(&[4], first.clone()),
        ),
        (
            "update: second MED malformed, the first stands",
            update(&[], &base_and(&[med(1), attribute(0x80, 4, &[1])]), &NET),
            discarded(&[4], first),
        ),
        (
            "update: first MED malformed, the second is no help",
            update(&[], &base_and(&[attribute(0x80, 4, &[1]), med(2)]), &NET),
            withdrawn(&[4]),
        ),
        (
            "update: ORIGIN twice",
            update(&[], &base_and(&[attribute(0x40, 1, &[2])]), &NET),
            discarded(&[1], plain()),
        ),
        (
            "update: unknown attribute twice",
            update(&[], &base_and(&[attribute(0xC0, 200, &[1]), attribute(0xC0, 200, &[2])]), &NET),
            discarded(
                &[200],
                plain_but(|attributes| {
                    attributes.unknown.push(flock_bgp_wire::Unknown {
                        kind: 200,
                        flags: 0xC0,
                        value: [1].into(),
                    });
                }),
            ),
        ),
        (
            "update: unknown non-transitive twice",
            update(&[], &base_and(&[attribute(0x80, 200, &[1]), attribute(0x80, 200, &[2])]), &NET),
            discarded(&[200], plain()),
        ),
        (
            "update: MP_REACH twice",
            update(&[], &[reach(), reach(), origin(), path()], &[]),
            reset(1, &[]),
        ),
        ("update: MP_UNREACH twice", update(&[], &[unreach(), unreach()], &[]), reset(1, &[])),
    ]
}

fn add_path() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let with_id = [&[0, 0, 0, 7][..], &NET].concat();
    let base = || base_and(&[]);
    vec![
        ("add-path: sound", update(&[], &base(), &with_id), sound(plain(), &["203.0.113.0/24"])),
        ("add-path: identifier cut off", update(&[], &base(), &[0, 0, 0]), reset(10, &[])),
        ("add-path: identifier alone", update(&[], &base(), &[0, 0, 0, 7]), reset(10, &[])),
        ("add-path: prefix cut off", update(&[], &base(), &with_id[..7]), reset(10, &[])),
        (
            "add-path: of 33 bits",
            update(&[], &base(), &[0, 0, 0, 7, 33, 1, 2, 3, 4, 5]),
            reset(10, &[]),
        ),
        ("add-path: withdrawn, identifier alone", update(&[0, 0, 0, 7], &[], &[]), reset(10, &[])),
        (
            "add-path: IPv6 without identifier",
            update(&[], &[attribute(0x80, 14, &reach(2, 1, &HOP6, &[1, 2, 3]))], &[]),
            {
                let value = attribute(0x80, 14, &reach(2, 1, &HOP6, &[1, 2, 3]));
                reset(9, &value)
            },
        ),
        (
            "add-path: still treated as withdrawn",
            update(&[], &[path(), next_hop()], &with_id),
            withdrawn_nets(&[1], &["203.0.113.0/24"]),
        ),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    let external = [lengths_and_prefixes(), lists(), duplicates()].concat_cases(EXTERNAL);
    external.into_iter().chain([add_path()].concat_cases(ADD_PATH)).collect()
}

trait Cases {
    fn concat_cases(self, context: flock_bgp_wire::Context) -> Vec<Case>;
}

impl<const N: usize> Cases for [Vec<(&'static str, Vec<u8>, Expect)>; N] {
    fn concat_cases(self, context: flock_bgp_wire::Context) -> Vec<Case> {
        self.into_iter()
            .flatten()
            .map(|(name, bytes, expect)| Case { name, context, bytes, expect })
            .collect()
    }
}
