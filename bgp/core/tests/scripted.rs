//! One speaker against a peer played by hand: what it answers to whom, and when.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use std::time::Duration;

use flock_bgp::{AsPath, Attributes, Event, Family, Import, NextHop, Origin, PeerConfig, State};
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::{Capability, Notification, Refresh, RefreshKind, frame};
use ipnet::Ipv4Net;
use world::script::{Said, Script, keepalive, modern, open, written};
use world::wishes::{everything, number, originate};
use world::{peer, speaker};

fn wish() -> PeerConfig {
    PeerConfig { passive: true, ..peer("b", "10.0.0.2") }
}

fn script() -> Script {
    Script::new(speaker(1), wish())
}

fn announce(nets: &[&str]) -> Vec<u8> {
    let mut attributes = Attributes::new(Origin::Igp, NextHop::V4([10, 0, 0, 2].into()));
    attributes.as_path = AsPath::sequence([65_002]);
    let nets: Vec<Ipv4Net> = nets.iter().map(|net| net.parse().unwrap()).collect();
    let form = Form { four_octet_as: true, max: frame::MAX };
    written(|out| assert_eq!(encode::announce(&attributes, &nets, form, out), nets.len()))
}

fn refresh(family: Family, kind: RefreshKind) -> Vec<u8> {
    let refresh = Refresh { afi: family.afi(), safi: family.safi(), kind };
    written(|out| encode::refresh(refresh, out))
}

fn has(script: &Script, net: &str) -> bool {
    let route = script.speaker.route(net.parse().unwrap());
    route.is_some_and(|route| route.paths.iter().any(|path| path.best))
}

fn state(script: &Script) -> State {
    script.speaker.peers().next().unwrap().state
}

#[test]
fn from_connect_to_end_of_rib() {
    let mut script = script();
    script.tell(originate(&["10.1.0.0/24"]));
    script.connect();
    let said = script.hear();
    assert!(matches!(&said[..], [Said::Open(_)]), "{said:?}");
    assert_eq!(state(&script), State::OpenSent);
    script.say(&open(modern()));
    assert_eq!(script.hear(), [Said::Keepalive]);
    assert_eq!(state(&script), State::OpenConfirm);
    script.say(&keepalive());
    assert_eq!(state(&script), State::Established);
    let said = script.hear();
    let eor = [Said::EndOfRib(Family::Ipv4), Said::EndOfRib(Family::Ipv6)];
    assert!(matches!(&said[0], Said::Update(_)));
    assert_eq!(said[1..], eor);
    assert_eq!(script.hear(), []);
}

#[test]
fn what_is_out_of_place_is_named() {
    // RFC 6608: what is said when, and the answer.
    let update = || announce(&["10.2.0.0/24"]);
    let asks = || refresh(Family::Ipv4, RefreshKind::Request);
    let rows: [(usize, Vec<u8>, u8, u8); 7] = [
        (0, keepalive(), 1, 4),
        (0, update(), 1, 2),
        (0, asks(), 1, 5),
        (1, update(), 2, 2),
        (1, asks(), 2, 5),
        (1, open(modern()), 2, 1),
        (2, open(modern()), 3, 1),
    ];
    for (stage, message, subcode, kind) in rows {
        let mut script = script();
        script.connect();
        for say in [open(modern()), keepalive()].iter().take(stage) {
            script.say(say);
        }
        script.say(&message);
        let answer = Said::Notification(5, subcode, vec![kind]);
        assert_eq!(script.hear().pop(), Some(answer), "stage {stage}, type {kind}");
        assert_eq!(script.closed, [script.conn]);
        assert_eq!(state(&script), State::Idle);
    }
}

#[test]
fn garbage_is_answered_and_closed_at_every_stage() {
    for stage in 0..3 {
        let mut script = script();
        script.connect();
        for say in [open(modern()), keepalive()].iter().take(stage) {
            script.say(say);
        }
        script.say(&[0; 64]);
        assert_eq!(script.hear().pop(), Some(Said::Notification(1, 1, vec![])), "stage {stage}");
        assert_eq!(script.closed, [script.conn]);
        script.say(&announce(&["10.2.0.0/24"]));
        assert_eq!(script.hear(), [], "nothing more is heard");
    }
}

#[test]
fn a_peer_that_says_nothing_is_given_up_after_four_minutes() {
    let mut script = script();
    script.connect();
    script.hear();
    script.wait(239);
    assert_eq!(script.closed, []);
    script.wait(1);
    assert_eq!(script.closed, [script.conn]);
    assert_eq!(script.hear(), [Said::Notification(4, 0, vec![])]);
}

#[test]
fn single_octets_are_a_session_too() {
    let mut script = script();
    script.connect();
    let all = [open(modern()), keepalive(), announce(&["10.2.0.0/24", "10.3.0.0/24"])].concat();
    for octet in all {
        script.say(&[octet]);
    }
    assert!(has(&script, "10.2.0.0/24") && has(&script, "10.3.0.0/24"));
}

#[test]
fn everything_in_one_piece_is_a_session_too() {
    let mut script = script();
    script.connect();
    script.say(&[open(modern()), keepalive(), announce(&["10.2.0.0/24"])].concat());
    assert!(has(&script, "10.2.0.0/24"));
}

#[test]
fn a_refresh_is_marked_and_answered_once_more_however_often_it_is_asked_for() {
    let mut script = script();
    script.tell(originate(&["10.1.0.0/24"]));
    script.establish(modern());
    for _ in 0..5 {
        script.say(&refresh(Family::Ipv4, RefreshKind::Request));
    }
    let said = script.hear();
    let round = [
        Said::Refresh(1, RefreshKind::Begin),
        Said::Update(vec![]),
        Said::Refresh(1, RefreshKind::End),
    ];
    let kinds: Vec<Said> = said
        .into_iter()
        .map(|said| if let Said::Update(_) = said { Said::Update(vec![]) } else { said })
        .collect();
    assert_eq!(kinds, [round.clone(), round].concat(), "the first, and one for all others");
}

#[test]
fn a_refresh_during_the_first_telling_waits_for_end_of_rib() {
    let mut script = script();
    script.connect();
    script.say(&[open(modern()), keepalive()].concat());
    script.say(&refresh(Family::Ipv6, RefreshKind::Request));
    let said = script.hear();
    let at = |what: &Said| said.iter().position(|said| said == what).unwrap();
    let begins = at(&Said::Refresh(2, RefreshKind::Begin));
    assert!(at(&Said::EndOfRib(Family::Ipv6)) < begins, "RFC 7313 §4");
    assert!(begins < at(&Said::Refresh(2, RefreshKind::End)));
}

#[test]
fn an_old_peer_is_refreshed_without_marks() {
    let mut script = script();
    script.tell(originate(&["10.1.0.0/24"]));
    script.establish(vec![Capability::RouteRefresh]);
    script.context.four_octet_as = false;
    script.say(&refresh(Family::Ipv4, RefreshKind::Request));
    assert!(matches!(&script.hear()[..], [Said::Update(_)]));
    script.say(&refresh(Family::Ipv6, RefreshKind::Request));
    assert_eq!(script.hear(), [], "a family that was not agreed on");
}

#[test]
fn what_a_refresh_does_not_say_again_goes() {
    let mut script = script();
    script.establish(modern());
    script.say(&announce(&["10.2.0.0/24", "10.3.0.0/24"]));
    script.say(&refresh(Family::Ipv4, RefreshKind::Begin));
    script.say(&announce(&["10.2.0.0/24"]));
    assert!(has(&script, "10.3.0.0/24"), "until the end");
    script.say(&refresh(Family::Ipv4, RefreshKind::End));
    assert!(has(&script, "10.2.0.0/24") && !has(&script, "10.3.0.0/24"));
}

#[test]
fn keepalives_go_out_every_third_of_the_hold_time_and_not_beside_updates() {
    let mut script = script();
    script.establish(modern());
    let mut silence = 0;
    for n in 0..100 {
        script.wait(1);
        script.say(&keepalive());
        silence = if script.hear().contains(&Said::Keepalive) { 0 } else { silence + 1 };
        assert!(silence <= 10, "second {n}");
    }
    script.tell(originate(&["10.1.0.0/24"]));
    script.hear();
    for n in 0..100 {
        script.wait(1);
        script.say(&keepalive());
        script.tell(originate(&[&number(n)]));
        let said = script.hear();
        assert!(matches!(&said[..], [Said::Update(_)]), "second {n}: {said:?}");
    }
}

#[test]
fn a_peer_that_takes_nothing_costs_one_keepalive_and_ends_by_rfc_9687() {
    let mut script = script();
    script.establish(modern());
    // The last transmit is not taken: no `Sent` follows.
    script.tell(originate(&["10.1.0.0/24"]));
    let mut out = bytes::BytesMut::new();
    script.speaker.transmit(script.conn, &mut out);
    assert!(!out.is_empty());
    for _ in 0..479 {
        script.wait(1);
        script.say(&keepalive());
    }
    assert_eq!(script.closed, [], "it speaks, so it is alive");
    script.wait(1);
    assert_eq!(script.closed, [script.conn]);
    let said = script.hear();
    assert_eq!(said, [Said::Keepalive, Said::Notification(8, 0, vec![])], "none piled up");
}

#[test]
fn progress_keeps_a_slow_peer() {
    let mut script = script();
    script.establish(modern());
    script.tell(originate(&["10.1.0.0/24"]));
    script.speaker.transmit(script.conn, &mut bytes::BytesMut::new());
    for second in 0..2_000 {
        script.wait(1);
        script.say(&keepalive());
        if second % 400 == 0 {
            script.tell(Event::Sent(script.conn));
        }
    }
    assert_eq!(script.closed, []);
}

#[test]
fn an_idle_session_has_no_send_hold_timer() {
    let mut script = script();
    script.establish(modern());
    for _ in 0..2_000 {
        script.wait(1);
        script.say(&keepalive());
        script.hear();
    }
    assert_eq!(script.closed, []);
}

#[test]
fn the_limit_counts_what_is_accepted_and_names_family_and_number() {
    let rule = flock_bgp::AddressRule { net: "10.0.0.0/8".parse().unwrap(), min: 24, max: 24 };
    let import = Some(Import { accept: vec![rule], max_prefixes: 2 });
    let mut script = Script::new(speaker(1), PeerConfig { import, ..wish() });
    script.establish(modern());
    script.say(&announce(&["10.2.0.0/24", "10.3.0.0/24", "11.0.0.0/24", "12.0.0.0/24"]));
    assert_eq!(script.closed, [], "what is refused does not count");
    script.say(&announce(&["10.4.0.0/24"]));
    assert_eq!(script.hear().pop(), Some(Said::Notification(6, 1, vec![0, 1, 1, 0, 0, 0, 2])));
    script.connect();
    assert_eq!(script.closed.len(), 2, "refused while it rests");
}

#[test]
fn a_lowered_limit_counts_at_once() {
    let limit = |max_prefixes| PeerConfig {
        import: Some(Import { accept: everything(), max_prefixes }),
        ..wish()
    };
    let mut script = Script::new(speaker(1), limit(10));
    script.establish(modern());
    script.say(&announce(&["10.2.0.0/24", "10.3.0.0/24"]));
    script.tell(Event::Peers(vec![limit(1)]));
    assert_eq!(script.closed, [script.conn]);
}

#[test]
fn a_second_connection_does_not_disturb_a_session() {
    let mut script = script();
    script.establish(modern());
    let first = script.conn;
    for _ in 0..10 {
        script.connect();
    }
    assert_eq!(script.closed.len(), 9, "one rival at a time");
    script.say(&[0; 30]);
    assert_eq!(script.closed.len(), 10);
    script.connect();
    script.say(&open(modern()));
    assert_eq!(script.hear().pop(), Some(Said::Notification(6, 7, vec![])), "RFC 4271 §6.8");
    script.conn = first;
    script.say(&announce(&["10.2.0.0/24"]));
    assert!(has(&script, "10.2.0.0/24"));
    let notices = script.notices.iter();
    assert_eq!(notices.filter(|n| matches!(n, flock_bgp::Notice::Down(..))).count(), 0);
}

#[test]
fn notifications_are_kept_with_the_words_of_the_peer() {
    let mut script = script();
    script.establish(modern());
    let cease = Notification::cease_with_text(2, "maintenance \u{7}until 6");
    script.say(&written(|out| encode::notification(&cease, out)));
    assert_eq!(script.hear(), [], "a NOTIFICATION is not answered");
    let error = script.speaker.peers().next().unwrap().last_error.unwrap();
    assert_eq!(error.reason.code(), Some((6, 2)));
    let words = error.reason.words().unwrap();
    assert!(words.starts_with("maintenance") && !words.contains('\u{7}'), "{words:?}");
    assert_eq!(error.at, script.now);
    // A router that has shut us down takes our connections and hangs up.
    script.wait(61);
    script.connect();
    script.tell(Event::Closed(script.conn, None));
    let status = script.speaker.peers().next().unwrap();
    assert_eq!(status.last_error.unwrap().reason, error.reason);
    assert_eq!(status.last_refusal.unwrap().reason.to_string(), "the connection closed");
}

#[test]
fn a_thousand_flaps_leave_nothing_behind() {
    let mut script = script();
    script.tell(originate(&["10.1.0.0/24"]));
    let mut sizes = Vec::new();
    for flap in 0..1_000 {
        script.wait(61);
        script.establish(modern());
        assert_eq!(state(&script), State::Established, "flap {flap}");
        script.say(&announce(&["10.2.0.0/24"]));
        match flap % 3 {
            0 => script.tell(Event::Closed(script.conn, None)),
            1 => script.say(&[0; 19]),
            _ => script.say(&written(|out| encode::notification(&Notification::new(6, 4), out))),
        }
        script.hear();
        assert!(!has(&script, "10.2.0.0/24"));
        script.notices.clear();
        // All that it holds, as text: what grows shows.
        sizes.push(format!("{:?}", script.speaker).len());
    }
    let early = sizes[..30].iter().max().unwrap();
    let late = sizes[970..].iter().max().unwrap();
    assert!(late < &(early + early / 10), "{early} became {late}");
}

#[test]
fn a_dial_that_was_given_up_is_closed_when_it_succeeds_after_all() {
    let mut script = Script::new(speaker(1), peer("b", "10.0.0.2"));
    let first = script.dials[0];
    script.wait(6);
    assert!(script.dials.len() > 1, "the next attempt");
    assert_eq!(script.closed, [first]);
    let (ours, theirs) = ("10.0.0.1:5".parse().unwrap(), "10.0.0.2:179".parse().unwrap());
    script.tell(Event::Dialled(first, ours, theirs));
    assert_eq!(script.closed, [first, first]);
}

#[test]
fn refused_dials_come_at_connect_retry_with_jitter() {
    let mut script = Script::new(speaker(1), peer("b", "10.0.0.2"));
    let mut seen = 0;
    for _ in 0..600 {
        while seen < script.dials.len() {
            let what = "Connection refused".into();
            script.tell(Event::Refused(script.dials[seen], flock_bgp::Refusal { what }));
            seen += 1;
        }
        script.wait(1);
    }
    assert!((120..=160).contains(&seen), "{seen} in ten minutes, 5 s apart with jitter");
    let status = script.speaker.peers().next().unwrap();
    assert_eq!(status.last_error.unwrap().reason.to_string(), "cannot connect: Connection refused");
    assert!(status.next_attempt.is_some_and(|at| at.0 > Duration::ZERO));
}

#[test]
fn strangers_are_closed() {
    let mut script = script();
    let (ours, theirs) = ("10.0.0.1:179".parse().unwrap(), "10.9.9.9:5".parse().unwrap());
    script.tell(Event::Accepted(flock_bgp::ConnId(99), ours, theirs));
    assert_eq!(script.closed, [flock_bgp::ConnId(99)]);
}
