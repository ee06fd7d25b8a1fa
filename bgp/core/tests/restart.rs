//! Graceful restart in both roles (RFC 4724, RFC 8538): who keeps what, for how long, and which
//! bits say so.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use std::time::Duration;

use flock_bgp::{
    Capability, Event, Family, Farewell, GracefulRestart, Notice, PeerConfig, SpeakerConfig,
};
use world::script::{Said, Script, keepalive, modern, open};
use world::wishes::{networks, originate, withdraw};
use world::{Faults, World, peer, speaker};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn to_b() -> PeerConfig {
    peer("b", "10.0.0.2")
}

fn to_a() -> PeerConfig {
    peer("a", "10.0.0.1")
}

fn restarted() -> SpeakerConfig {
    SpeakerConfig {
        restarted: true,
        forwarding_kept: true,
        hold_end_of_rib: true,
        seed: 77,
        ..speaker(2)
    }
}

/// `a` and `b` are Established, and `b` has told two routes.
fn told(a_wishes: PeerConfig, b_wishes: PeerConfig) -> World {
    let mut world = World::new(1, Faults::default());
    world.add("10.0.0.1", speaker(1));
    world.add("10.0.0.2", speaker(2));
    world.tell(1, originate(&["10.1.0.0/24", "10.2.0.0/24"]));
    world.tell(0, Event::Peers(vec![a_wishes]));
    world.run(SECOND);
    world.tell(1, Event::Peers(vec![b_wishes]));
    world.until("told", MINUTE, |w| w.has(0, "10.1.0.0/24") && w.has(0, "10.2.0.0/24"));
    world.run(MINUTE);
    world
}

fn is_stale(world: &World, net: &str) -> bool {
    let route = world.nodes[0].speaker.route(net.parse().unwrap());
    route.is_some_and(|route| route.paths.iter().any(|path| path.stale))
}

/// The graceful restart capabilities of the OPENs that `b` sent on each connection.
fn offered(world: &World) -> Vec<flock_bgp_wire::GracefulRestart> {
    let context = flock_bgp_wire::Context::default();
    let mut found = Vec::new();
    for pipe in &world.pipes {
        let lane = if pipe.ends[0].0 == 1 { 0 } else { 1 };
        let log = &pipe.lanes[lane].log;
        let Ok(Some(length)) = flock_bgp_wire::frame::length(log, false) else { continue };
        let open = flock_bgp_wire::decode(&log[..length], &context);
        if let Ok(flock_bgp_wire::Message::Open(open)) = open {
            found.extend(open.capabilities.into_iter().filter_map(|capability| match capability {
                Capability::GracefulRestart(told) => Some(told),
                _ => None,
            }));
        }
    }
    found
}

#[test]
fn a_restart_loses_nothing_and_sweeps_what_is_gone() {
    let mut world = told(to_b(), to_a());
    world.kill(1);
    world.run(SECOND);
    assert!(is_stale(&world, "10.1.0.0/24") && is_stale(&world, "10.2.0.0/24"));
    assert_eq!(world.nodes[0].kernel.len(), 2, "the kernel keeps them");

    world.revive(1, restarted());
    world.tell(1, Event::Peers(vec![to_a()]));
    world.tell(1, originate(&["10.1.0.0/24"]));
    world.until("back", 10 * SECOND, |w| w.established(0, "b") && w.established(1, "a"));
    world.run(SECOND);
    assert!(!is_stale(&world, "10.1.0.0/24"), "the first advertisement does not wait");
    assert!(is_stale(&world, "10.2.0.0/24"), "End-of-RIB does, for all originations");
    assert_eq!(world.nodes[0].kernel.len(), 2);

    world.tell(1, Event::OriginationsComplete);
    world.run(SECOND);
    assert!(world.has(0, "10.1.0.0/24") && !world.has(0, "10.2.0.0/24"));
    let both: Vec<_> = Family::ALL.iter().map(|family| (*family, true)).collect();
    let last = offered(&world).pop().unwrap();
    assert_eq!((last.restarted, last.families), (true, both));
}

/// Whoever originates everything before it has peers needs no word that all is there.
#[test]
fn a_restart_that_originates_first_ends_its_rib_at_once() {
    let mut world = told(to_b(), to_a());
    world.kill(1);
    world.run(SECOND);
    world.revive(1, SpeakerConfig { hold_end_of_rib: false, ..restarted() });
    world.tell(1, originate(&["10.1.0.0/24"]));
    world.tell(1, Event::Peers(vec![to_a()]));
    world.until("back", 10 * SECOND, |w| w.established(0, "b") && w.established(1, "a"));
    assert!(world.has(0, "10.1.0.0/24") && world.has(0, "10.2.0.0/24"), "kept meanwhile");
    world.run(SECOND);
    assert!(world.has(0, "10.1.0.0/24") && !world.has(0, "10.2.0.0/24"), "and swept at its end");
    assert!(!is_stale(&world, "10.1.0.0/24"));
    let both: Vec<_> = Family::ALL.iter().map(|family| (*family, true)).collect();
    let last = offered(&world).pop().unwrap();
    assert_eq!((last.restarted, last.families), (true, both));

    let pipe = world.pipes.last().unwrap();
    let lane = if pipe.ends[0].0 == 1 { 0 } else { 1 };
    let mut rest = &pipe.lanes[lane].log[..];
    let mut said = Vec::new();
    let context = flock_bgp_wire::Context { four_octet_as: true, ..Default::default() };
    while let Some(length) = flock_bgp_wire::frame::length(rest, false).unwrap() {
        let (message, behind) = rest.split_at(length);
        rest = behind;
        match flock_bgp_wire::decode(message, &context).unwrap() {
            flock_bgp_wire::Message::Update(update) => said.push(update.end_of_rib),
            _ => assert!(said.is_empty() || said.len() == 3, "nothing in between"),
        }
    }
    assert_eq!(said, [None, Some(Family::Ipv4), Some(Family::Ipv6)]);
}

#[test]
fn the_restart_bit_is_for_a_restart_and_said_once() {
    let mut world = told(to_b(), to_a());
    assert!(offered(&world).iter().all(|told| !told.restarted), "not at the first start");
    assert!(offered(&world).iter().all(|told| told.families.iter().all(|(_, kept)| !kept)));
    world.cut(world.pipes.len() - 1);
    world.until("again", MINUTE, |w| w.established(0, "b") && w.established(1, "a"));
    let lost = offered(&world).pop().unwrap();
    assert!(!lost.restarted, "a lost connection is no restart");
    assert!(lost.families.iter().all(|(_, kept)| *kept), "but nothing stopped forwarding");

    world.run(MINUTE);
    world.kill(1);
    world.run(SECOND);
    world.revive(1, restarted());
    world.tell(1, Event::Peers(vec![to_a()]));
    world.until("again", MINUTE, |w| w.established(0, "b") && w.established(1, "a"));
    assert!(offered(&world).pop().unwrap().restarted);
    world.run(MINUTE);
    world.cut(world.pipes.len() - 1);
    world.until("again", MINUTE, |w| w.established(0, "b") && w.established(1, "a"));
    assert!(!offered(&world).pop().unwrap().restarted, "it was told once");
}

#[test]
fn a_peer_that_stays_away_is_forgotten_in_time() {
    let mut world = told(to_b(), to_a());
    world.kill(1);
    world.run(119 * SECOND);
    assert!(world.has(0, "10.1.0.0/24"));
    world.run(2 * SECOND);
    assert!(!world.has(0, "10.1.0.0/24"));
    assert!(world.nodes[0].kernel.is_empty());
}

#[test]
fn a_rebooted_peer_has_kept_nothing() {
    let mut world = told(to_b(), to_a());
    world.kill(1);
    world.run(SECOND);
    world.revive(1, speaker(2));
    world.tell(1, Event::Peers(vec![to_a()]));
    world.until("back", MINUTE, |w| w.established(0, "b"));
    assert!(!world.has(0, "10.1.0.0/24") && !world.has(0, "10.2.0.0/24"), "F is clear: at once");
}

#[test]
fn without_graceful_restart_a_closed_connection_ends_it_all() {
    let plain = PeerConfig { graceful_restart: None, ..to_a() };
    let mut world = told(to_b(), plain);
    world.kill(1);
    world.run(SECOND);
    assert!(!world.has(0, "10.1.0.0/24"));
}

#[test]
fn a_silent_farewell_says_nothing_and_loses_nothing() {
    let mut world = told(to_b(), to_a());
    let said = |world: &World| -> usize {
        let lanes = world.pipes.iter().flat_map(|pipe| pipe.ends.iter().zip(&pipe.lanes));
        lanes.filter(|(end, _)| end.0 == 1).map(|(_, lane)| lane.log.len()).sum()
    };
    let before = said(&world);
    world.tell(1, Event::Farewell(Farewell::Silent));
    world.run(Duration::from_millis(1));
    assert_eq!(before, said(&world), "not a word");
    assert!(is_stale(&world, "10.1.0.0/24"));
    let down = world.nodes[0].notices.iter().rev().find_map(|(_, notice)| match notice {
        Notice::Down(_, _, reason) => Some(reason.to_string()),
        _ => None,
    });
    assert_eq!(down.as_deref(), Some("the connection closed"));
}

#[test]
fn a_reset_by_a_changed_wish_is_under_graceful_restart() {
    let mut world = told(to_b(), to_a());
    let mut wish = to_a();
    wish.extended_messages = false;
    world.tell(1, Event::Peers(vec![wish]));
    world.until("gone", SECOND, |w| !w.established(0, "b"));
    assert!(world.has(0, "10.1.0.0/24") && world.has(0, "10.2.0.0/24"));
    world.until("back", MINUTE, |w| w.established(0, "b"));
    assert!(world.has(0, "10.1.0.0/24") && world.has(0, "10.2.0.0/24"), "F is set");
    world.run(SECOND);
    assert!(!is_stale(&world, "10.1.0.0/24"));
}

#[test]
fn with_n_a_notification_keeps_routes_but_a_shutdown_does_not() {
    let with_n = |mut wish: PeerConfig| {
        wish.graceful_restart =
            wish.graceful_restart.map(|restart| GracefulRestart { notification: true, ..restart });
        wish
    };
    let mut world = told(with_n(to_b()), with_n(to_a()));
    let key = world.nodes[1].speaker.peer_by_name("a").unwrap();
    world.tell(1, Event::Reset(key, "soft".into()));
    world.until("gone", SECOND, |w| !w.established(0, "b"));
    assert!(is_stale(&world, "10.1.0.0/24"), "RFC 8538 §4");
    world.until("back", MINUTE, |w| w.established(0, "b"));
    world.run(MINUTE);
    let shut = PeerConfig { shutdown: Some("bye".into()), ..with_n(to_a()) };
    world.tell(1, Event::Peers(vec![shut]));
    world.run(SECOND);
    assert!(!world.has(0, "10.1.0.0/24"), "a Hard Reset");
    let error = world.status(0, "b").unwrap().last_error.unwrap();
    assert_eq!(error.reason.code(), Some((6, 2)), "what it carries, not what it is");
    assert_eq!(error.reason.words().as_deref(), Some("bye"));
}

/// We stay down for want of a password: the peer must not keep our routes as if we came back.
#[test]
fn with_n_a_withheld_peer_hears_a_hard_reset() {
    let with_n = |mut wish: PeerConfig| {
        wish.graceful_restart =
            wish.graceful_restart.map(|restart| GracefulRestart { notification: true, ..restart });
        wish
    };
    let mut world = told(with_n(to_b()), with_n(to_a()));
    let withheld = PeerConfig { withheld: Some("no password".into()), ..with_n(to_a()) };
    world.tell(1, Event::Peers(vec![withheld]));
    world.run(SECOND);
    assert!(!world.has(0, "10.1.0.0/24"));
}

#[test]
fn stale_routes_are_judged_too() {
    let mut world = told(to_b(), to_a());
    world.kill(1);
    world.run(SECOND);
    world.tell(0, networks(&["10.1.0.0/16", "192.0.2.0/24"], &[]));
    assert!(!world.has(0, "10.1.0.0/24") && world.has(0, "10.2.0.0/24"));
}

#[test]
fn a_withdrawal_while_away_is_seen() {
    let mut world = told(to_b(), to_a());
    world.cut(world.pipes.len() - 1);
    world.tell(1, withdraw(&["10.2.0.0/24"]));
    world.until("back", MINUTE, |w| w.established(0, "b") && w.established(1, "a"));
    world.run(SECOND);
    assert!(world.has(0, "10.1.0.0/24") && !world.has(0, "10.2.0.0/24"));
}

/// RFC 4724 §5: the peer is back before we noticed that it was gone.
#[test]
fn a_new_connection_replaces_a_session_that_the_peer_has_lost() {
    let mut capabilities = modern();
    let families = vec![(Family::Ipv4, true), (Family::Ipv6, true)];
    capabilities.push(Capability::GracefulRestart(flock_bgp_wire::GracefulRestart {
        restarted: true,
        notification: false,
        time: 60,
        families,
    }));
    let wish = PeerConfig { passive: true, ..to_b() };
    let mut script = Script::new(speaker(1), wish);
    script.tell(originate(&["10.9.0.0/24"]));
    script.establish(capabilities.clone());
    let old = script.conn;
    script.connect();
    assert_eq!(script.closed, [], "a connection alone ends nothing");
    script.say(&open(capabilities));
    assert_eq!(script.closed, [old]);
    assert_eq!(script.hear_on(old), [], "as if TCP had failed");
    script.say(&keepalive());
    let said = script.hear();
    assert!(said.iter().any(|said| matches!(said, Said::Update(_))), "told anew: {said:?}");
    let status = script.speaker.peers().next().unwrap();
    assert_eq!((status.state, status.flaps), (flock_bgp::State::Established, 1));
}
