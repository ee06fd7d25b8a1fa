//! No input is too much: random octets, and sound messages with damage, give a message or a
//! NOTIFICATION, and what they give keeps its promises.

use std::collections::BTreeSet;

use bytes::BytesMut;
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::{Context, Disposition, Message, MpReach, MpUnreach, Update, decode, frame};
use ipnet::{Ipv4Net, Ipv6Net};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::config;
use crate::generate::{self, EVERYTHING};

fn context() -> impl Strategy<Value = Context> {
    any::<[bool; 5]>().prop_map(|[a, b, c, d, e]| Context {
        four_octet_as: a,
        add_path_ipv4: b,
        add_path_ipv6: c,
        extended_next_hop: d,
        internal: e,
    })
}

fn promises(update: &Update<'_>, size: usize) {
    let v4 = update.withdrawn.count() + update.announced.count();
    let reached = match update.mp_reach {
        Some(MpReach::V4(_, nlri)) => nlri.count(),
        Some(MpReach::V6(_, nlri)) => nlri.count(),
        None => 0,
    };
    let unreached = match update.mp_unreach {
        Some(MpUnreach::V4(nlri)) => nlri.count(),
        Some(MpUnreach::V6(nlri)) => nlri.count(),
        None => 0,
    };
    assert!(v4 + reached + unreached <= size);
    let kinds: BTreeSet<u8> = update.faults.iter().map(|fault| fault.attribute).collect();
    assert_eq!(kinds.len(), update.faults.len(), "one fault per kind: {:?}", update.faults);
    let grave = update.faults.iter().any(|fault| fault.disposition == Disposition::TreatAsWithdraw);
    let announces = !update.announced.is_empty() || reached > 0;
    assert_eq!(update.attributes.is_some(), announces && !grave);
    if let Some(attributes) = &update.attributes {
        assert!(attributes.as_path.segments.iter().all(|segment| !segment.asns.is_empty()));
        assert!(!attributes.as_path.contains(0));
    }
}

fn check(bytes: &[u8], context: &Context) {
    match decode(bytes, context) {
        Ok(Message::Update(update)) => promises(&update, bytes.len()),
        Ok(_) => {}
        Err(reset) => assert!((1..=8).contains(&reset.0.code), "{reset:?}"),
    }
}

/// A sound UPDATE with every kind of content.
fn sound() -> impl Strategy<Value = Vec<u8>> {
    let form = Form { four_octet_as: true, max: 4096 };
    let classic = (generate::attributes(true, EVERYTHING), generate::nets::<Ipv4Net>(20)).prop_map(
        move |(attributes, nets)| {
            let mut out = BytesMut::new();
            encode::announce(&attributes, &nets, form, &mut out);
            out.to_vec()
        },
    );
    let mp = (generate::attributes(false, EVERYTHING), generate::nets::<Ipv6Net>(20)).prop_map(
        move |(attributes, nets)| {
            let mut out = BytesMut::new();
            encode::announce(&attributes, &nets, form, &mut out);
            out.to_vec()
        },
    );
    let open = generate::open(20).prop_map(|open| {
        let mut out = BytesMut::new();
        encode::open(&open, &mut out);
        out.to_vec()
    });
    prop_oneof![3 => classic, 3 => mp, 1 => open]
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn any_octets_are_survived(bytes in vec(any::<u8>(), 0..200), context in context()) {
        let _ = frame::length(&bytes, true);
        check(&bytes, &context);
    }

    #[test]
    fn any_body_is_survived(kind in 1..=5_u8, body in vec(any::<u8>(), 0..300), context in context()) {
        let length = u16::try_from(19 + body.len()).unwrap();
        let bytes = [&[0xFF; 16][..], &length.to_be_bytes(), &[kind], &body].concat();
        check(&bytes, &context);
    }

    #[test]
    fn damage_is_survived(
        mut bytes in sound(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        context in context(),
    ) {
        if bytes.len() > 19 {
            for (at, octet) in damage {
                let at = 19 + at.index(bytes.len() - 19);
                bytes[at] = octet;
            }
        }
        check(&bytes, &context);
    }

    /// Octets taken out or put in, the length field made to fit.
    #[test]
    fn shifts_are_survived(
        mut bytes in sound(),
        at in any::<prop::sample::Index>(),
        put in vec(any::<u8>(), 0..4),
        cut in 0..4_usize,
        context in context(),
    ) {
        if bytes.len() > 19 {
            let at = 19 + at.index(bytes.len() - 19);
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, put);
            let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
            bytes[16..18].copy_from_slice(&length);
        }
        check(&bytes, &context);
    }
}
