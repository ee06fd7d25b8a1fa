//! What is told and when: coalescing, packing, withdrawals first, telling anew.

use flock_bgp_wire::Community;

use super::*;

#[test]
fn what_is_known_is_told_once() {
    let mut rib = rib();
    learn(&mut rib, 1, v4("10.1.0.0/16"), said(1, 1));
    rib.originate(net("2001:db8:1::/48"), Some(&wish(5)));
    let mut ear = Ear::default();
    for family in Family::ALL {
        rib.open_outlet(key(2), family, exporter(2));
    }
    ear.hear(&mut rib, 2);
    assert_eq!(ear.announced, [net("10.1.0.0/16"), net("2001:db8:1::/48")]);
    assert_eq!(ear.routes[&net("10.1.0.0/16")].as_path, AsPath::sequence([US, 65_101, 64_001]));
    assert_eq!(ear.routes[&net("2001:db8:1::/48")].communities, [Community(5)]);
    ear.hear(&mut rib, 2);
    assert_eq!(ear.updates, 0);
    assert_eq!(rib.counts(key(2), Family::Ipv4).advertised, 1);
}

#[test]
fn a_peer_is_woken_when_there_is_something_for_it() {
    let mut rib = rib();
    rib.open_outlet(key(1), Family::Ipv4, exporter(1));
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    rib.open_outlet(key(2), Family::Ipv6, exporter(2));
    assert_eq!([rib.take_woken(), rib.take_woken()], [Some(key(1)), Some(key(2))]);
    assert_eq!(rib.take_woken(), None);
    for peer in [1, 2] {
        Ear::default().hear(&mut rib, peer);
    }
    learn(&mut rib, 1, nth(1), said(1, 1));
    learn(&mut rib, 1, nth(2), said(1, 1));
    // Not its teller.
    assert_eq!([rib.take_woken(), rib.take_woken()], [Some(key(2)), None]);
    // Nor anyone when nothing changes.
    Ear::default().hear(&mut rib, 2);
    learn(&mut rib, 1, nth(2), said(1, 1));
    assert_eq!(rib.take_woken(), None);
}

#[test]
fn flaps_are_told_as_they_end() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    ear.hear(&mut rib, 2);

    // Told nothing, then withdrawn: nothing is said.
    learn(&mut rib, 1, nth(1), said(1, 1));
    rib.unlearn(key(1), nth(1), 0);
    ear.hear(&mut rib, 2);
    assert_eq!(ear.updates, 0);

    // Announced, withdrawn, announced: once, as it is in the end.
    learn(&mut rib, 1, nth(1), said(1, 1));
    rib.unlearn(key(1), nth(1), 0);
    learn(&mut rib, 1, nth(1), said(1, 2));
    ear.hear(&mut rib, 2);
    assert_eq!((ear.updates, ear.announced.len()), (1, 1));
    assert_eq!(ear.routes[&nth(1).into()].as_path, AsPath::sequence([US, 65_101, 64_002]));

    // Gone and back as the peer knows it: nothing is said.
    for _ in 0..1_000 {
        rib.unlearn(key(1), nth(1), 0);
        learn(&mut rib, 1, nth(1), said(1, 2));
    }
    ear.hear(&mut rib, 2);
    assert_eq!(ear.updates, 0);

    // Changed and gone: a withdrawal.
    learn(&mut rib, 1, nth(1), said(1, 3));
    rib.unlearn(key(1), nth(1), 0);
    ear.hear(&mut rib, 2);
    assert_eq!((ear.updates, ear.withdrawn.len(), ear.routes.len()), (1, 1, 0));
}

#[test]
fn withdrawals_go_first() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    for n in 0..10 {
        learn(&mut rib, 1, nth(n), said(1, 1));
    }
    ear.hear(&mut rib, 2);
    for n in 10..10_000 {
        learn(&mut rib, 1, nth(n), said(1, n));
    }
    rib.unlearn(key(1), nth(3), 0);
    // One message is all that there is room for.
    let mut out = BytesMut::new();
    assert!(!rib.transmit(key(2), Family::Ipv4, FORM, 1, &mut out));
    ear.announced.clear();
    ear.read(&out, FORM);
    assert_eq!((ear.withdrawn.as_slice(), ear.announced.len()), ([nth(3).into()].as_slice(), 0));

    // In the middle of a batch too.
    out.clear();
    assert!(!rib.transmit(key(2), Family::Ipv4, FORM, 1, &mut out));
    ear.read(&out, FORM);
    assert_eq!(ear.announced.len(), 1);
    rib.unlearn(key(1), nth(4), 0);
    out.clear();
    assert!(!rib.transmit(key(2), Family::Ipv4, FORM, 1, &mut out));
    ear.read(&out, FORM);
    assert_eq!(ear.withdrawn.last(), Some(&nth(4).into()));
    ear.hear(&mut rib, 2);
    assert_eq!(ear.routes.len(), 9_998);
}

/// Prefixes of three attribute sets arrive by turns and leave together.
#[test]
fn prefixes_are_packed_by_attributes() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    for n in 0..3_000 {
        learn(&mut rib, 1, nth(n), said(1, n % 3));
    }
    let mut ear = Ear::default();
    ear.hear(&mut rib, 2);
    // 1,000 prefixes of 5 octets are two messages of at most 4,096.
    assert_eq!((ear.updates, ear.announced.len(), ear.routes.len()), (6, 3_000, 3_000));
    for n in 0..3_000 {
        assert_eq!(
            ear.routes[&nth(n).into()].as_path,
            AsPath::sequence([US, 65_101, 64_000 + n % 3])
        );
    }
    // Extended messages take more (RFC 8654).
    rib.retell(key(2), Family::Ipv4, exporter(2));
    let form = Form { max: frame::MAX_EXTENDED, ..FORM };
    ear.hear_in(&mut rib, 2, form, 1);
    assert_eq!((ear.updates, ear.announced.len()), (3, 3_000));
    rib.forget(key(1), Family::Ipv4);
    ear.hear_in(&mut rib, 2, form, 1);
    assert_eq!((ear.updates, ear.withdrawn.len()), (1, 3_000));
    assert_eq!(rib.shared.sets.len(), 0);
}

#[test]
fn a_batch_outlasts_the_room() {
    for room in [1, 5_000, 50_000] {
        let mut rib = rib();
        for n in 0..5_000 {
            learn(&mut rib, 1, nth(n), said(1, n / 1_500));
        }
        rib.open_outlet(key(2), Family::Ipv4, exporter(2));
        let mut ear = Ear::default();
        ear.hear_in(&mut rib, 2, FORM, room);
        assert_eq!((ear.announced.len(), ear.routes.len()), (5_000, 5_000));
        assert!(ear.updates <= 9, "{} messages", ear.updates);
        rib.forget(key(1), Family::Ipv4);
        ear.hear_in(&mut rib, 2, FORM, room);
        assert_eq!((ear.withdrawn.len(), ear.routes.len()), (5_000, 0));
        assert!(ear.updates <= 7, "{} messages", ear.updates);
    }
}

/// What changes while it waits in a batch is told once, as it is when its turn comes.
#[test]
fn a_batch_holds_nothing_outdated() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    for n in 0..8 {
        learn(&mut rib, 1, nth(n), said(1, n / 2));
    }
    let mut out = BytesMut::new();
    assert!(!rib.transmit(key(2), Family::Ipv4, FORM, 1, &mut out));
    ear.read(&out, FORM);
    assert_eq!(ear.announced.len(), 2);
    learn(&mut rib, 1, nth(3), said(1, 9));
    ear.hear(&mut rib, 2);
    assert_eq!(ear.announced.len(), 6);
    assert_eq!(ear.routes[&nth(3).into()].as_path, AsPath::sequence([US, 65_101, 64_009]));
}

/// A slot that waits in a batch is freed and is another prefix's when its turn comes.
#[test]
fn a_slot_in_a_queue_may_become_another_prefix() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    ear.hear(&mut rib, 2);
    for n in 0..4 {
        learn(&mut rib, 1, nth(n), said(1, n));
    }
    let mut out = BytesMut::new();
    assert!(!rib.transmit(key(2), Family::Ipv4, FORM, 1, &mut out));
    ear.read(&out, FORM);
    for n in 0..4 {
        rib.unlearn(key(1), nth(n), 0);
    }
    for n in 10..14 {
        learn(&mut rib, 1, nth(n), said(1, n % 2));
    }
    ear.hear(&mut rib, 2);
    let known: Vec<IpNet> = ear.routes.keys().copied().collect();
    assert_eq!(known, [10, 11, 12, 13].map(|n| nth(n).into()));
}

#[test]
fn everything_is_told_anew_on_request() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    rib.originate(nth(1).into(), Some(&wish(1)));
    rib.originate(nth(2).into(), Some(&wish(2)));
    ear.hear(&mut rib, 2);

    // A refresh: the same again (RFC 2918).
    rib.retell(key(2), Family::Ipv4, exporter(2));
    rib.retell(key(2), Family::Ipv4, exporter(2));
    assert_eq!(rib.counts(key(2), Family::Ipv4).advertised, 2);
    ear.hear(&mut rib, 2);
    assert_eq!(ear.announced.len(), 2);

    // Another policy: the same with other attributes.
    let mut drained = exporter(2);
    drained.drain = true;
    rib.retell(key(2), Family::Ipv4, drained.clone());
    ear.hear(&mut rib, 2);
    assert_eq!(
        ear.routes[&nth(1).into()].communities,
        [Community(1), Community::GRACEFUL_SHUTDOWN]
    );

    // Told anew, and gone before it was its turn.
    rib.retell(key(2), Family::Ipv4, drained);
    rib.originate(nth(1).into(), None);
    ear.hear(&mut rib, 2);
    assert_eq!((ear.withdrawn.len(), ear.announced.len()), (1, 1));
    assert_eq!(rib.counts(key(2), Family::Ipv4).advertised, 1);
}

#[test]
fn what_may_not_be_told_any_more_is_withdrawn() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    for n in 0..3 {
        learn(&mut rib, 1, nth(n), said(1, 1));
    }
    ear.hear(&mut rib, 2);
    assert_eq!(ear.routes.len(), 3);

    // By the route's own word.
    let mut secret = said(1, 1);
    secret.communities = vec![Community::NO_EXPORT];
    learn(&mut rib, 1, nth(0), secret);
    ear.hear(&mut rib, 2);
    assert_eq!((ear.withdrawn.as_slice(), ear.announced.len()), ([nth(0).into()].as_slice(), 0));

    // Because the best path is now the peer's own.
    let mut short = said(2, 1);
    short.as_path = AsPath::sequence([65_102]);
    learn(&mut rib, 2, nth(1), short);
    ear.hear(&mut rib, 2);
    assert_eq!(ear.withdrawn, [nth(1).into()]);

    // By policy.
    let mut closed = exporter(2);
    closed.transit = false;
    rib.retell(key(2), Family::Ipv4, closed);
    ear.hear(&mut rib, 2);
    assert_eq!((ear.withdrawn.as_slice(), ear.routes.len()), ([nth(2).into()].as_slice(), 0));
    assert_eq!(rib.counts(key(2), Family::Ipv4).advertised, 0);
}

/// What must go is not held up by what is to come, although it is found out in the same batch.
#[test]
fn what_may_not_be_told_goes_before_what_is_new() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    learn(&mut rib, 1, nth(0), said(1, 0));
    ear.hear(&mut rib, 2);
    for n in 1..100 {
        learn(&mut rib, 1, nth(n), said(1, n));
    }
    let mut secret = said(1, 1);
    secret.communities = vec![Community::NO_ADVERTISE];
    learn(&mut rib, 1, nth(0), secret);
    let mut out = BytesMut::new();
    assert!(!rib.transmit(key(2), Family::Ipv4, FORM, 1, &mut out));
    ear.announced.clear();
    ear.read(&out, FORM);
    assert_eq!((ear.withdrawn.len(), ear.announced.len()), (1, 0));
}

#[test]
fn what_does_not_fit_is_not_told() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    learn(&mut rib, 1, nth(1), said(1, 1));
    ear.hear(&mut rib, 2);
    let mut long = said(1, 1);
    long.communities = (0..1_100).map(Community).collect();
    learn(&mut rib, 1, nth(1), long.clone());
    learn(&mut rib, 1, nth(2), long);
    learn(&mut rib, 1, nth(3), said(1, 1));
    ear.hear(&mut rib, 2);
    assert_eq!(
        (ear.withdrawn.as_slice(), ear.announced.as_slice()),
        ([nth(1).into()].as_slice(), [nth(3).into()].as_slice())
    );
    // Where messages may be longer it is told.
    rib.retell(key(2), Family::Ipv4, exporter(2));
    ear.hear_in(&mut rib, 2, Form { max: frame::MAX_EXTENDED, ..FORM }, 1 << 16);
    assert_eq!(ear.routes.len(), 3);
}

/// There is room for a short prefix beside the attributes, not for a long one.
#[test]
fn what_just_fits_is_told() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    let texts = ["10.0.0.0/28", "10.0.0.16/28", "20.0.0.0/8", "10.0.0.32/28", "30.0.0.0/8"];
    // Longer and longer, until nothing fits.
    let mut known = Vec::new();
    for octets in 3_950..4_050 {
        let mut long = said(1, 1);
        let value = vec![0; octets].into_boxed_slice();
        long.unknown = vec![flock_bgp_wire::Unknown { kind: 200, flags: 0xD0, value }];
        for text in texts {
            learn(&mut rib, 1, v4(text), long.clone());
        }
        ear.hear(&mut rib, 2);
        known.push(ear.routes.len());
    }
    known.dedup();
    assert_eq!(known, [5, 2, 0]);
}

/// Two peers say the same of a prefix; what is told on changes with the kind of peer only.
#[test]
fn another_teller_of_the_same_is_no_news() {
    let mut rib = rib();
    rib.source(key(5), source(5, true));
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut inside = exporter(6);
    inside.peer_asn = US;
    rib.open_outlet(key(6), Family::Ipv4, inside);
    let (mut outer, mut inner) = (Ear::default(), Ear::default());
    for peer in [1, 3, 5] {
        learn(&mut rib, peer, nth(1), said(1, 1));
    }
    outer.hear(&mut rib, 2);
    inner.hear(&mut rib, 6);
    rib.forget(key(1), Family::Ipv4);
    outer.hear(&mut rib, 2);
    inner.hear(&mut rib, 6);
    assert_eq!((outer.updates, inner.updates), (0, 0));
    // The internal peer's is not told inside (RFC 4271 §9.2.1).
    rib.forget(key(3), Family::Ipv4);
    outer.hear(&mut rib, 2);
    inner.hear(&mut rib, 6);
    assert_eq!((outer.routes.len(), inner.withdrawn.len()), (1, 1));
}

#[test]
fn a_session_that_ends_leaves_nothing() {
    let mut rib = rib();
    let mut ear = Ear::default();
    for n in 0..2_000 {
        rib.originate(nth(n).into(), Some(&wish(n % 7)));
    }
    for _ in 0..50 {
        rib.open_outlet(key(2), Family::Ipv4, exporter(2));
        let mut out = BytesMut::new();
        rib.transmit(key(2), Family::Ipv4, FORM, 1_000, &mut out);
        rib.close_outlet(key(2), Family::Ipv4);
        assert_eq!(rib.counts(key(2), Family::Ipv4).advertised, 0);
    }
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    ear.hear(&mut rib, 2);
    assert_eq!(ear.routes.len(), 2_000);
    rib.originate_all(&[]);
    // The peer has still to hear of it, so the prefixes are still there; its end is theirs.
    assert_eq!(rib.ipv4.prefixes.len(), 2_000);
    rib.close_outlet(key(2), Family::Ipv4);
    assert_empty(&rib);
    assert!(rib.transmit(key(2), Family::Ipv4, FORM, 1, &mut BytesMut::new()));
}
