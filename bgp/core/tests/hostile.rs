//! A peer that plays tricks, or has bad luck at the worst moment: a session goes on, a rest is a rest,
//! and what it costs is bounded.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use std::time::Duration;

use flock_bgp::{
    AsPath, Attributes, Event, Family, Import, NextHop, Notice, Origin, PeerConfig, PeerStatus,
    State,
};
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::{
    Capability, GracefulRestart, Refresh, RefreshKind, Segment, SegmentKind, frame,
};
use ipnet::Ipv4Net;
use world::script::{Script, keepalive, modern, open, written};
use world::wishes::{everything, networks};
use world::{peer, speaker};

fn attributes(next_hop: [u8; 4]) -> Attributes {
    let mut attributes = Attributes::new(Origin::Igp, NextHop::V4(next_hop.into()));
    attributes.as_path = AsPath::sequence([65_002]);
    attributes
}

fn announce_with(attributes: &Attributes, nets: &[&str], max: usize) -> Vec<u8> {
    let nets: Vec<Ipv4Net> = nets.iter().map(|net| net.parse().unwrap()).collect();
    let form = Form { four_octet_as: true, max };
    written(|out| assert_eq!(encode::announce(attributes, &nets, form, out), nets.len()))
}

fn announce(nets: &[&str]) -> Vec<u8> {
    announce_with(&attributes([10, 0, 0, 2]), nets, frame::MAX)
}

fn refresh(kind: RefreshKind) -> Vec<u8> {
    written(|out| encode::refresh(Refresh { afi: 1, safi: 1, kind }, out))
}

fn end_of_rib(family: Family) -> Vec<u8> {
    written(|out| encode::end_of_rib(family, out))
}

fn graceful() -> Vec<Capability> {
    let mut capabilities = modern();
    capabilities.push(Capability::GracefulRestart(GracefulRestart {
        restarted: false,
        notification: false,
        time: 120,
        families: vec![(Family::Ipv4, true), (Family::Ipv6, true)],
    }));
    capabilities
}

fn passive() -> PeerConfig {
    PeerConfig { passive: true, ..peer("b", "10.0.0.2") }
}

fn limited(max_prefixes: u32) -> PeerConfig {
    PeerConfig { import: Some(Import { accept: everything(), max_prefixes }), ..passive() }
}

fn status(script: &Script) -> PeerStatus {
    script.speaker.peers().next().unwrap()
}

fn has(script: &Script, net: &str) -> bool {
    let route = script.speaker.route(net.parse().unwrap());
    route.is_some_and(|route| route.paths.iter().any(|path| path.best))
}

fn lose(script: &mut Script) {
    let conn = script.conn;
    script.tell(Event::Closed(conn, None));
}

#[test]
fn a_session_stands_in_a_collision_whatever_came_before() {
    for came_back_before in [false, true] {
        // We have the higher identifier, so that both connections may go on for a while.
        let mut script = Script::new(speaker(3), peer("b", "10.0.0.2"));
        script.establish(graceful());
        script.wait(29);
        if came_back_before {
            script.establish(graceful());
        }
        lose(&mut script);
        script.wait(3);
        let dial = *script.dials.last().unwrap();
        let (ours, theirs) = ("10.0.0.1:5000".parse().unwrap(), "10.0.0.2:179".parse().unwrap());
        script.tell(Event::Dialled(dial, ours, theirs));
        script.hear_on(dial);
        script.establish(graceful()); // The peer's own dial is faster.
        let before = status(&script).flaps;
        script.tell(Event::Received(dial, &open(graceful())));
        let after = status(&script);
        assert_eq!((after.state, after.flaps), (State::Established, before), "{came_back_before}");
    }
}

/// The peer dialled before it knew that our dial was a session: it has not lost it.
#[test]
fn a_dial_that_crosses_ours_ends_no_session() {
    for (seconds, ends) in [(0, false), (2, true)] {
        // We have the higher identifier: of the two, both sides keep our dial.
        let mut script = Script::new(speaker(3), peer("b", "10.0.0.2"));
        let dial = *script.dials.last().unwrap();
        let (ours, theirs) = ("10.0.0.1:5000".parse().unwrap(), "10.0.0.2:179".parse().unwrap());
        script.tell(Event::Dialled(dial, ours, theirs));
        script.hear_on(dial);
        script.tell(Event::Received(dial, &open(graceful())));
        script.tell(Event::Received(dial, &keepalive()));
        script.wait(seconds);
        let crossing = script.connect();
        script.say(&open(graceful()));
        // Later it is one that comes back (RFC 4724 §5).
        let closed = if ends { dial } else { crossing };
        assert_eq!(script.closed, [closed], "after {seconds} s");
        assert_eq!(status(&script).flaps, u64::from(ends), "after {seconds} s");
    }
}

#[test]
fn a_session_lost_within_a_refresh_loses_no_route() {
    let mut script = Script::new(speaker(1), passive());
    script.establish(graceful());
    script.say(&announce(&["10.1.0.0/24", "10.2.0.0/24"]));
    script.say(&end_of_rib(Family::Ipv4));
    script.say(&end_of_rib(Family::Ipv6));
    script.say(&refresh(RefreshKind::Begin));
    script.say(&announce(&["10.1.0.0/24"]));
    lose(&mut script);
    assert!(has(&script, "10.1.0.0/24"));
    assert!(has(&script, "10.2.0.0/24"), "it was never withdrawn");
}

#[test]
fn a_spare_connection_is_no_way_around_a_rest() {
    let mut script = Script::new(speaker(1), limited(1));
    script.establish(modern());
    let main = script.conn;
    script.connect(); // It says nothing yet.
    script.tell(Event::Received(main, &announce(&["10.1.0.0/24", "10.2.0.0/24"])));
    assert_eq!(status(&script).state, State::Idle);
}

#[test]
fn what_a_peer_told_before_it_left_is_judged_by_what_is_wished_now() {
    let mut script = Script::new(speaker(1), passive());
    script.establish(graceful());
    script.say(&announce(&["10.1.0.0/24"]));
    lose(&mut script);
    assert!(has(&script, "10.1.0.0/24"));
    script.tell(Event::Peers(vec![PeerConfig { import: None, ..passive() }]));
    assert!(!has(&script, "10.1.0.0/24"));
}

#[test]
fn an_attempt_of_ours_that_hangs_is_no_news_when_the_peer_comes() {
    let mut script = Script::new(speaker(1), peer("b", "10.0.0.2"));
    script.establish(modern());
    assert_eq!(status(&script).state, State::Established);
    assert!(!script.notices.iter().any(|notice| matches!(notice, Notice::Down(..))));
    assert_eq!(status(&script).last_error, None);
}

#[test]
fn end_of_rib_over_and_over_is_told_once() {
    let mut script = Script::new(speaker(1), passive());
    script.establish(modern());
    script.say(&end_of_rib(Family::Ipv4).repeat(2_000));
    let told = script.notices.iter().filter(|notice| matches!(notice, Notice::EndOfRib(..)));
    assert_eq!(told.count(), 1);
}

#[test]
fn a_restart_with_other_prefixes_is_within_the_limit_but_not_twice_over() {
    let mut script = Script::new(speaker(1), limited(3));
    script.establish(graceful());
    script.say(&announce(&["10.1.0.0/24", "10.2.0.0/24"]));
    script.say(&end_of_rib(Family::Ipv4));
    lose(&mut script);
    script.wait(2);
    script.establish(graceful());
    script.say(&announce(&["10.3.0.0/24", "10.4.0.0/24", "10.5.0.0/24"]));
    assert_eq!(status(&script).state, State::Established);
    script.say(&end_of_rib(Family::Ipv4));
    assert_eq!(status(&script).state, State::Established);
    script.say(&announce(&["10.6.0.0/24"]));
    assert_eq!(status(&script).state, State::Idle);
}

#[test]
fn a_refresh_is_no_news_to_the_kernel() {
    let mut script = Script::new(speaker(1), passive());
    script.establish(modern());
    script.say(&announce(&["10.1.0.0/24", "10.2.0.0/24"]));
    while script.speaker.poll_route().is_some() {}
    script.say(&refresh(RefreshKind::Begin));
    script.say(&announce(&["10.1.0.0/24", "10.2.0.0/24"]));
    script.say(&refresh(RefreshKind::End));
    assert_eq!(script.speaker.poll_route(), None);
}

#[test]
fn refreshes_count_once_a_second() {
    let mut script = Script::new(speaker(1), passive());
    script.establish(modern());
    script.say(&announce(&["10.1.0.0/24"]));
    script.say(&refresh(RefreshKind::Begin));
    script.say(&announce(&["10.1.0.0/24"]));
    script.say(&refresh(RefreshKind::End));
    // Too soon to mean anything: nothing is swept.
    script.say(&refresh(RefreshKind::Begin));
    script.say(&refresh(RefreshKind::End));
    assert!(has(&script, "10.1.0.0/24"));
    script.wait(2);
    script.say(&refresh(RefreshKind::Begin));
    script.say(&refresh(RefreshKind::End));
    assert!(!has(&script, "10.1.0.0/24"));
}

#[test]
fn a_network_that_comes_up_brings_its_routes_also_without_route_refresh() {
    let mut script = Script::new(speaker(1), passive());
    script.tell(networks(&["10.0.0.0/24"], &[]));
    let refreshes =
        |c: &Capability| matches!(c, Capability::RouteRefresh | Capability::EnhancedRouteRefresh);
    script.establish(modern().into_iter().filter(|c| !refreshes(c)).collect());
    let far = attributes([10, 9, 0, 2]);
    script.say(&announce_with(&far, &["172.16.0.0/24"], frame::MAX));
    assert!(!has(&script, "172.16.0.0/24"));
    script.tell(networks(&["10.0.0.0/24", "10.9.0.0/24"], &[]));
    assert_ne!(status(&script).state, State::Established, "a new session brings it");
}

#[test]
fn endless_paths_are_not_kept() {
    let mut script = Script::new(speaker(1), passive());
    let mut capabilities = modern();
    capabilities.push(Capability::ExtendedMessage);
    script.establish(capabilities);
    let mut endless = attributes([10, 0, 0, 2]);
    let segment = Segment { kind: SegmentKind::Sequence, asns: vec![65_002] };
    endless.as_path = AsPath { segments: vec![segment; 10_900] };
    script.say(&announce_with(&endless, &["10.1.0.0/24"], frame::MAX_EXTENDED));
    assert_eq!(status(&script).state, State::Established);
    assert!(!has(&script, "10.1.0.0/24"));
}

#[test]
fn without_a_hold_time_a_peer_that_comes_back_is_taken() {
    let wish = PeerConfig { hold_time: None, graceful_restart: None, ..passive() };
    let mut script = Script::new(speaker(1), wish);
    script.establish(modern());
    script.wait(60);
    script.establish(modern()); // Its machine died, and nothing told us.
    assert_eq!((status(&script).state, status(&script).flaps), (State::Established, 1));
}

#[test]
fn without_a_hold_time_an_open_that_is_not_confirmed_is_not_waited_for_forever() {
    let wish = PeerConfig { hold_time: None, ..passive() };
    let mut script = Script::new(speaker(1), wish);
    script.connect();
    script.say(&open(modern()));
    assert_eq!(status(&script).state, State::OpenConfirm);
    for _ in 0..10 {
        script.tell(Event::Tick);
        script.wait(60);
    }
    assert_ne!(status(&script).state, State::OpenConfirm);
}

#[test]
fn a_pending_hold_time_stays_pending() {
    let mut script = Script::new(speaker(1), passive());
    script.establish(modern());
    let longer = PeerConfig { hold_time: Some(Duration::from_secs(60)), ..passive() };
    script.tell(Event::Peers(vec![longer.clone()]));
    let pending = status(&script).pending;
    assert!(pending.is_some());
    script.tell(Event::Peers(vec![PeerConfig { connect_retry: Duration::from_secs(9), ..longer }]));
    assert_eq!(status(&script).pending, pending);
}

#[test]
fn an_ipv4_address_is_one_however_it_is_written() {
    let mut script = Script::new(
        speaker(1),
        PeerConfig { address: "::ffff:10.0.0.2".parse().unwrap(), ..passive() },
    );
    script.establish(modern()); // It comes from 10.0.0.2.
    assert_eq!(status(&script).state, State::Established);
}

#[test]
fn a_wish_without_measure_is_no_danger() {
    let wish = PeerConfig { connect_retry: Duration::MAX, ..peer("b", "10.0.0.2") };
    let mut script = Script::new(speaker(1), wish);
    script.establish(modern());
    assert_eq!(status(&script).state, State::Established);
}

/// OpenBGPD begins each session with BoRR.
#[test]
fn the_limit_holds_within_a_refresh() {
    let mut script = Script::new(speaker(1), limited(2));
    script.establish(modern());
    script.say(&refresh(RefreshKind::Begin));
    script.say(&announce(&["10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24"]));
    assert_eq!(status(&script).state, State::Idle);
}
