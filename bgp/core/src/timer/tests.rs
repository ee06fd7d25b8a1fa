//! Timers: order, laziness, and the bounds of jitter.

use super::*;

fn at(seconds: u64) -> Now {
    Now(Duration::from_secs(seconds))
}

const PEER: PeerKey = PeerKey(3);

#[test]
fn the_earliest_comes_first_and_only_once() {
    let mut timers = Timers::default();
    timers.arm(PEER, Clock::Hold, at(90));
    timers.arm(PeerKey(0), Clock::Keepalive, at(30));
    assert_eq!(timers.next(), Some(at(30)));
    assert_eq!(timers.expired(at(29)), None);
    assert_eq!(timers.expired(at(100)), Some((PeerKey(0), Clock::Keepalive)));
    assert_eq!(timers.expired(at(100)), Some((PEER, Clock::Hold)));
    assert_eq!(timers.expired(at(100)), None);
    assert_eq!(timers.next(), None);
}

#[test]
fn a_timer_put_off_does_not_touch_the_set_until_it_comes_up() {
    let mut timers = Timers::default();
    timers.arm(PEER, Clock::Hold, at(90));
    for second in 1..=1_000 {
        timers.arm(PEER, Clock::Hold, at(90 + second));
        assert_eq!(timers.queue.len(), 1);
        assert_eq!(timers.next(), Some(at(90)), "early, never late");
    }
    assert_eq!(timers.expired(at(90)), None, "put off");
    assert_eq!(timers.next(), Some(at(1_090)));
    assert_eq!(timers.expired(at(1_090)), Some((PEER, Clock::Hold)));
}

#[test]
fn a_timer_brought_forward_moves() {
    let mut timers = Timers::default();
    timers.arm(PEER, Clock::Hold, at(240));
    timers.arm(PEER, Clock::Hold, at(9));
    assert_eq!(timers.next(), Some(at(9)));
    assert_eq!(timers.expired(at(9)), Some((PEER, Clock::Hold)));
    assert_eq!(timers.expired(at(500)), None);
}

#[test]
fn disarmed_never_fires_and_a_forgotten_peer_leaves_nothing() {
    let mut timers = Timers::default();
    timers.arm(PEER, Clock::Hold, at(90));
    timers.arm(PEER, Clock::Keepalive, at(30));
    timers.arm(PeerKey(4), Clock::Keepalive, at(31));
    timers.disarm(PEER, Clock::Keepalive);
    assert_eq!(timers.expired(at(30)), None);
    timers.forget(PEER);
    assert_eq!(timers.next(), Some(at(31)));
    assert_eq!(timers.expired(at(500)), Some((PeerKey(4), Clock::Keepalive)));
    assert_eq!(timers.expired(at(500)), None);
}

#[test]
fn handing_over_keeps_the_deadline() {
    let mut timers = Timers::default();
    timers.arm(PEER, Clock::Hold, at(10));
    timers.arm(PEER, Clock::RivalHold, at(90));
    timers.hand_over(PEER, Clock::RivalHold, Clock::Hold);
    assert_eq!(timers.due(PEER, Clock::Hold), Some(at(90)));
    assert_eq!(timers.due(PEER, Clock::RivalHold), None);
    timers.hand_over(PEER, Clock::RivalHold, Clock::Hold);
    assert_eq!(timers.due(PEER, Clock::Hold), None, "what did not run stops the other as well");
    assert_eq!(timers.expired(at(500)), None);
}

#[test]
fn jitter_stays_within_rfc_4271_10_and_varies() {
    let mut dice = Dice::new(7);
    let base = Duration::from_secs(40);
    let rolls: Vec<_> = (0..1_000).map(|_| dice.jitter(base)).collect();
    assert!(rolls.iter().all(|roll| (Duration::from_secs(30)..=base).contains(roll)));
    assert!(rolls.iter().any(|roll| *roll < Duration::from_secs(31)));
    assert!(rolls.iter().any(|roll| *roll > Duration::from_secs(39)));
    assert_eq!(Dice::new(7).jitter(base), rolls[0], "the seed decides");
    assert_eq!(dice.jitter(Duration::ZERO), Duration::ZERO);
}
