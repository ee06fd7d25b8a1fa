//! Every combination of how a session ends and what was agreed on, and the lives of stale routes.

use std::time::Duration;

use flock_bgp_wire::notification::{cease, code};
use flock_bgp_wire::{Family, GracefulRestart, Notification};

use super::{
    Agreed, Fate, Fates, Loss, Past, Stale, capability, dress, end_of_rib_may_go, is_hard, undress,
};
use crate::config;
use crate::event::Now;

use Family::{Ipv4, Ipv6};
use Fate::{Forget, Mark, Sweep, SweepAndMark, Unchanged};

const BOTH: [Family; 2] = Family::ALL;
const HARD: Loss = Loss::Received(code::CEASE, cease::HARD_RESET);

/// Of a capability, each with F.
type Families = &'static [(Family, bool)];

fn at(seconds: u64) -> Now {
    Now(Duration::from_secs(seconds))
}

/// The peer waits for 120 s, we keep stale routes for 300 s after its return.
fn theirs(notification: bool, families: &[(Family, bool)]) -> GracefulRestart {
    GracefulRestart { restarted: false, notification, time: 120, families: families.to_vec() }
}

fn ours(notification: bool) -> config::GracefulRestart {
    config::GracefulRestart {
        time: Duration::from_secs(120),
        notification,
        stale_time: Duration::from_secs(300),
    }
}

fn agreed(theirs: &GracefulRestart, notification: bool) -> Option<Agreed<'_>> {
    Some(Agreed { theirs, ours: ours(notification) })
}

#[test]
fn what_survives_which_end() {
    let losses = [
        // (how, survives without N on both sides, with)
        (Loss::Closed, true, true),
        (Loss::Unwanted, false, false),
        (Loss::Sent(code::HOLD_TIMER, 0), false, true),
        (Loss::Sent(code::SEND_HOLD_TIMER, 0), false, true),
        (Loss::Sent(code::UPDATE, 3), false, true),
        (Loss::Sent(code::HEADER, 1), false, true),
        (Loss::Sent(code::FSM, 3), false, true),
        (Loss::Sent(code::CEASE, cease::MAX_PREFIXES), false, false),
        (Loss::Sent(code::CEASE, cease::SHUTDOWN), false, false),
        (Loss::Sent(code::CEASE, cease::DECONFIGURED), false, false),
        (Loss::Sent(code::CEASE, cease::RESET), false, true),
        (Loss::Sent(code::CEASE, cease::REJECTED), false, true),
        (Loss::Sent(code::CEASE, cease::CONFIGURATION), false, true),
        (Loss::Sent(code::CEASE, cease::COLLISION), false, true),
        (Loss::Sent(code::CEASE, cease::RESOURCES), false, true),
        (Loss::Sent(code::CEASE, cease::HARD_RESET), false, false),
        (Loss::Received(code::HOLD_TIMER, 0), false, true),
        (Loss::Received(code::UPDATE, 3), false, true),
        (Loss::Received(code::CEASE, cease::MAX_PREFIXES), false, true),
        (Loss::Received(code::CEASE, cease::SHUTDOWN), false, true),
        (HARD, false, false),
        // Subcode 9 of something else is no Hard Reset.
        (Loss::Received(code::UPDATE, cease::HARD_RESET), false, true),
    ];
    for (loss, plain, with_n) in losses {
        for (they, we) in [(false, false), (true, false), (false, true), (true, true)] {
            let theirs = theirs(they, &[(Ipv4, false), (Ipv6, true)]);
            let fates = Stale::default().lost(at(0), loss, agreed(&theirs, we), &BOTH);
            let survives = if they && we { with_n } else { plain };
            let expected = if survives { [Mark; 2] } else { [Forget; 2] };
            assert_eq!(fates, expected, "{loss:?}, N of them {they}, of us {we}");
        }
        assert_eq!(Stale::default().lost(at(0), loss, None, &BOTH), [Forget; 2], "{loss:?}");
    }
}

#[test]
fn which_families_survive() {
    let cases: [(&str, Families, &[Family], Fates); 6] = [
        // F of the session that ended means nothing for its end.
        ("both", &[(Ipv4, true), (Ipv6, false)], &BOTH, [Mark, Mark]),
        ("one in the capability", &[(Ipv4, true)], &BOTH, [Mark, Forget]),
        ("one negotiated", &[(Ipv4, true), (Ipv6, true)], &[Ipv6], [Forget, Mark]),
        ("a helper only", &[], &BOTH, [Forget, Forget]),
        ("none in common", &[(Ipv4, true)], &[Ipv6], [Forget, Forget]),
        ("nothing negotiated", &[(Ipv4, true), (Ipv6, true)], &[], [Forget, Forget]),
    ];
    for (name, capability, negotiated, expected) in cases {
        let theirs = theirs(false, capability);
        let mut stale = Stale::default();
        let fates = stale.lost(at(0), Loss::Closed, agreed(&theirs, false), negotiated);
        assert_eq!(fates, expected, "{name}");
        assert_eq!(BOTH.map(|family| stale.is_stale(family)), expected.map(|fate| fate == Mark));
        assert_eq!(stale.deadline().is_some(), expected.contains(&Mark), "{name}");
    }
    let hasty = GracefulRestart { time: 0, ..theirs(false, &[(Ipv4, true), (Ipv6, true)]) };
    let fates = Stale::default().lost(at(0), Loss::Closed, agreed(&hasty, false), &BOTH);
    assert_eq!(fates, [Forget; 2], "a restart time of zero");
}

/// A peer of both families that was lost at 0.
fn away(notification: bool) -> Stale {
    let theirs = theirs(notification, &[(Ipv4, true), (Ipv6, true)]);
    let mut stale = Stale::default();
    let fates = stale.lost(at(0), Loss::Closed, agreed(&theirs, notification), &BOTH);
    assert_eq!(fates, [Mark; 2]);
    stale
}

#[test]
fn a_peer_that_stays_away() {
    let mut stale = away(false);
    assert_eq!(stale.deadline(), Some(at(120)), "its own restart time");
    assert_eq!(stale.expire(at(119)), [Unchanged; 2]);
    assert_eq!(stale.expire(at(120)), [Forget; 2]);
    assert_eq!(stale, Stale::default());
    assert_eq!(stale.expire(at(999)), [Unchanged; 2]);
}

#[test]
fn a_peer_that_comes_back() {
    const FULL: Families = &[(Ipv4, true), (Ipv6, true)];
    let cases: [(&str, Option<Families>, &[Family], Fates); 7] = [
        ("with F for both", Some(FULL), &BOTH, [Unchanged, Unchanged]),
        ("F clear for one", Some(&[(Ipv4, true), (Ipv6, false)]), &BOTH, [Unchanged, Forget]),
        ("one not in the capability", Some(&[(Ipv6, true)]), &BOTH, [Forget, Unchanged]),
        ("an empty capability", Some(&[]), &BOTH, [Forget, Forget]),
        ("no capability", None, &BOTH, [Forget, Forget]),
        ("one not negotiated", Some(FULL), &[Ipv4], [Unchanged, Forget]),
        ("none negotiated", Some(FULL), &[], [Forget, Forget]),
    ];
    for (name, capability, negotiated, expected) in cases {
        for n in [false, true] {
            let mut stale = away(true);
            let theirs = capability.map(|families| theirs(n, families));
            let agreed = theirs.as_ref().map(|theirs| Agreed { theirs, ours: ours(true) });
            let fates = stale.established(at(60), agreed, negotiated);
            assert_eq!(fates, expected, "{name}; RFC 8538 §4.1: N {n} changes nothing");
            for family in BOTH {
                let kept = expected[family.index()] == Unchanged;
                assert_eq!(stale.is_stale(family), kept, "{name}");
                let mut swept = [Unchanged; 2];
                swept[family.index()] = if kept { Sweep } else { Unchanged };
                assert_eq!(stale.end_of_rib(family), swept, "{name}");
            }
            assert_eq!(stale.deadline(), None, "{name}");
        }
    }
}

#[test]
fn the_end_of_rib_of_one_family_is_not_that_of_the_other() {
    let theirs = theirs(false, &[(Ipv4, true), (Ipv6, true)]);
    let mut stale = away(false);
    stale.established(at(60), agreed(&theirs, false), &BOTH);
    assert_eq!(stale.end_of_rib(Ipv6), [Unchanged, Sweep]);
    assert_eq!(stale.end_of_rib(Ipv6), [Unchanged, Unchanged], "once");
    assert_eq!(stale.deadline(), Some(at(360)), "60 s and the stale time");
    assert_eq!(stale.expire(at(360)), [Sweep, Unchanged], "what was said again stays");
    assert_eq!(stale.deadline(), None);
}

#[test]
fn lost_again_before_end_of_rib() {
    let full = [(Ipv4, true), (Ipv6, true)];
    // RFC 4724 §4.2: what is stale from the first time goes.
    let plain = theirs(false, &full);
    let mut stale = away(false);
    stale.established(at(60), agreed(&plain, false), &BOTH);
    stale.end_of_rib(Ipv6);
    let fates = stale.lost(at(70), Loss::Closed, agreed(&plain, false), &BOTH);
    assert_eq!(fates, [SweepAndMark, Mark]);
    assert_eq!(stale.deadline(), Some(at(190)));

    // RFC 8538 §4.1: with N it stays, up to its first bound.
    let with_n = theirs(true, &full);
    let mut stale = away(true);
    stale.established(at(60), agreed(&with_n, true), &BOTH);
    for again in [70, 130, 200] {
        let fates = stale.lost(at(again), Loss::Closed, agreed(&with_n, true), &BOTH);
        assert_eq!(fates, [Mark; 2], "{again}");
        assert_eq!(stale.deadline(), Some(at(again + 120)), "{again}");
        stale.established(at(again + 10), agreed(&with_n, true), &BOTH);
        assert_eq!(stale.deadline(), Some(at(360)), "the bound of the first return");
    }
    let fates = stale.lost(at(250), Loss::Closed, agreed(&with_n, true), &BOTH);
    assert_eq!(fates, [SweepAndMark; 2], "the bound would not last");
    assert_eq!(stale.deadline(), Some(at(370)));

    // And a Hard Reset ends it.
    stale.established(at(260), agreed(&with_n, true), &BOTH);
    assert_eq!(stale.lost(at(261), HARD, agreed(&with_n, true), &BOTH), [Forget; 2]);
    assert_eq!(stale.deadline(), None);
}

#[test]
fn a_peer_that_is_not_wished_for_while_it_is_away() {
    let mut stale = away(true);
    assert_eq!(stale.lost(at(10), Loss::Unwanted, None, &[]), [Forget; 2]);
    assert_eq!(stale, Stale::default());
}

#[test]
fn enhanced_refresh() {
    let bound = Duration::from_secs(300);
    // Without graceful restart there is no End-of-RIB to wait for.
    let mut stale = Stale::default();
    assert_eq!(stale.established(at(0), None, &BOTH), [Unchanged; 2]);
    assert_eq!(stale.refresh_ends(Ipv4), [Unchanged; 2], "an end without a beginning");
    assert_eq!(stale.refresh_begins(at(10), bound, Ipv4), [Mark, Unchanged]);
    assert_eq!(stale.deadline(), Some(at(310)));
    assert_eq!(stale.end_of_rib(Ipv4), [Unchanged; 2], "not what ends a refresh");
    assert_eq!(stale.refresh_ends(Ipv4), [Sweep, Unchanged]);
    assert_eq!(stale.refresh_ends(Ipv4), [Unchanged; 2], "once");
    assert_eq!(stale.refresh_begins(at(20), bound, Ipv6), [Unchanged, Mark]);
    assert_eq!(stale.refresh_begins(at(30), bound, Ipv6), [Unchanged, Mark], "begun anew");
    assert_eq!(stale.expire(at(330)), [Unchanged, Sweep]);

    // With it, BoRR before End-of-RIB is ignored (RFC 7313 §4).
    let mut stale = Stale::default();
    let helper = theirs(false, &[]);
    stale.established(at(0), agreed(&helper, false), &BOTH);
    assert_eq!(stale.refresh_begins(at(1), bound, Ipv4), [Unchanged; 2]);
    let theirs = theirs(false, &[(Ipv4, false), (Ipv6, false)]);
    let mut stale = Stale::default();
    assert_eq!(stale.established(at(0), agreed(&theirs, false), &[Ipv4]), [Unchanged; 2]);
    assert_eq!(stale.refresh_begins(at(1), bound, Ipv4), [Unchanged; 2]);
    assert_eq!(stale.end_of_rib(Ipv4), [Unchanged; 2]);
    assert_eq!(stale.refresh_begins(at(2), bound, Ipv4), [Mark, Unchanged]);

    // A session that is lost in the middle: what was not said again was not withdrawn either.
    let fates = stale.lost(at(3), Loss::Closed, agreed(&theirs, false), &[Ipv4]);
    assert_eq!(fates, [Mark, Forget]);
    assert_eq!(stale.deadline(), Some(at(123)));
    assert_eq!(stale.refresh_begins(at(4), bound, Ipv4), [Unchanged; 2], "nobody is there");
}

#[test]
fn time_does_not_overflow() {
    let theirs = theirs(false, &[(Ipv4, true), (Ipv6, true)]);
    let mut stale = Stale::default();
    let end = Now(Duration::MAX);
    assert_eq!(stale.lost(end, Loss::Closed, agreed(&theirs, false), &BOTH), [Mark; 2]);
    assert_eq!(stale.deadline(), Some(end));
}

#[test]
fn hard_resets_are_dressed_where_n_was_agreed_on() {
    let with_n = theirs(true, &[]);
    let shutdown = Notification::with(code::CEASE, cease::SHUTDOWN, &b"\x03bye"[..]);
    let dressed = dress(shutdown.clone(), agreed(&with_n, true));
    let inside = [&[code::CEASE, cease::SHUTDOWN][..], b"\x03bye"].concat();
    assert_eq!(dressed, Notification::with(code::CEASE, cease::HARD_RESET, inside));
    assert_eq!(undress(&dressed), shutdown);
    assert_eq!(dress(dressed.clone(), agreed(&with_n, true)), dressed, "once");

    assert_eq!(dress(shutdown.clone(), agreed(&with_n, false)), shutdown);
    assert_eq!(dress(shutdown.clone(), None), shutdown);
    let hold = Notification::new(code::HOLD_TIMER, 0);
    assert_eq!(dress(hold.clone(), agreed(&with_n, true)), hold, "not a hard one");

    for short in [&[][..], &[6]] {
        let cut = Notification::with(code::CEASE, cease::HARD_RESET, short);
        assert_eq!(undress(&cut), cut, "nothing inside");
    }
    assert_eq!(undress(&shutdown), shutdown);
    assert!(!is_hard(code::UPDATE, cease::SHUTDOWN));
}

#[test]
fn what_we_offer() {
    let past = |restarted, forwarding_kept, met| Past { restarted, forwarding_kept, met };
    let cases = [
        // (restarted, kept, met) -> (R, F)
        ("first boot", past(false, false, false), (false, false)),
        ("first boot, session lost", past(false, false, true), (false, true)),
        ("restart", past(true, true, false), (true, true)),
        ("restart, kernel lost it", past(true, false, false), (true, false)),
        ("restart, session lost", past(true, true, true), (false, true)),
    ];
    for (name, past, (restarted, kept)) in cases {
        let offered = capability(ours(true), &[Ipv6, Ipv4], past);
        let expected = GracefulRestart {
            restarted,
            notification: true,
            time: 120,
            families: vec![(Ipv6, kept), (Ipv4, kept)],
        };
        assert_eq!(offered, expected, "{name}");
    }
    let long = config::GracefulRestart { time: Duration::from_secs(1 << 40), ..ours(false) };
    let offered = capability(long, &[], past(false, false, false));
    assert_eq!((offered.time, offered.notification), (4095, false), "twelve bits");
}

#[test]
fn end_of_rib_goes_when_all_is_true_again_and_told() {
    let cases = [
        // (held, complete, told)
        (false, false, false, false),
        (false, false, true, true),
        (true, false, true, false),
        (true, true, false, false),
        (true, true, true, true),
    ];
    for (held, complete, told, expected) in cases {
        assert_eq!(end_of_rib_may_go(held, complete, told), expected, "{held} {complete} {told}");
    }
}
