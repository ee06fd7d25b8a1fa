//! Two speakers in memory: a session, routes, wishes that change, and the end.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use std::time::Duration;

use flock_bgp::{
    Community, DownReason, Event, Family, Farewell, Import, Notice, Origination, PeerConfig, State,
    Wishes,
};
use world::wishes::{everything, networks, number, originate, withdraw};
use world::{Faults, World, peer, speaker};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// `b` is a moment later, so that only it gets through with its dial.
fn pair_of(a_wishes: PeerConfig, b_wishes: PeerConfig) -> World {
    let mut world = World::new(1, Faults::default());
    let a = world.add("10.0.0.1", speaker(1));
    let b = world.add("10.0.0.2", speaker(2));
    world.tell(a, Event::Peers(vec![a_wishes]));
    world.run(SECOND);
    world.tell(b, Event::Peers(vec![b_wishes]));
    world
}

fn to_b() -> PeerConfig {
    peer("b", "10.0.0.2")
}

fn to_a() -> PeerConfig {
    peer("a", "10.0.0.1")
}

fn up(world: &mut World) {
    world.until("both are Established", MINUTE, |w| w.established(0, "b") && w.established(1, "a"));
}

fn pair() -> World {
    let mut world = pair_of(to_b(), to_a());
    up(&mut world);
    world
}

fn downs(world: &World, node: usize) -> Vec<DownReason> {
    let notices = world.nodes[node].notices.iter();
    notices
        .filter_map(|(_, notice)| match notice {
            Notice::Down(_, _, reason) => Some(reason.clone()),
            _ => None,
        })
        .collect()
}

/// The words of the NOTIFICATION that `b` got.
fn heard(world: &World, code: u8, subcode: u8) -> Option<String> {
    let mut downs = downs(world, 1).into_iter();
    downs.find(|reason| reason.code() == Some((code, subcode)))?.words()
}

#[test]
fn a_route_goes_over_and_is_withdrawn() {
    let mut world = pair();
    world.tell(0, originate(&["10.1.0.0/24", "2001:db8:a::/64"]));
    world.until("learned", MINUTE, |w| w.has(1, "10.1.0.0/24") && w.has(1, "2001:db8:a::/64"));
    assert_eq!(world.nodes[1].kernel.len(), 2, "both are for the kernel");
    world.tell(0, withdraw(&["10.1.0.0/24"]));
    world.until("withdrawn", MINUTE, |w| !w.has(1, "10.1.0.0/24"));
    assert!(world.has(1, "2001:db8:a::/64"));
    world.run(10 * MINUTE);
    assert_eq!((world.flaps(0), world.flaps(1)), (0, 0), "KEEPALIVEs keep it up");
    let status = world.status(1, "a").unwrap();
    assert!(status.families.iter().all(|f| f.end_of_rib_sent && f.end_of_rib_received));
}

#[test]
fn two_that_dial_at_once_end_with_one_connection() {
    for seed in 0..200 {
        let mut world = World::new(seed, Faults { delay: seed % 40, ..Faults::default() });
        world.add("10.0.0.1", speaker(1));
        world.add("10.0.0.2", speaker(2));
        world.tell(0, Event::Peers(vec![to_b()]));
        world.tell(1, Event::Peers(vec![to_a()]));
        // At once, or, where each side chose another one (RFC 4271 §6.8 lets them), with one of the
        // next attempts.
        let both = |w: &World| w.established(0, "b") && w.established(1, "a");
        world.until(&format!("seed {seed}"), 5 * SECOND, both);
        world.run(MINUTE);
        let open = world.pipes.iter().filter(|pipe| !pipe.gone).count();
        assert_eq!(open, 1, "seed {seed}");
        assert!(world.established(0, "b") && world.established(1, "a"), "seed {seed}");
    }
}

#[test]
fn a_passive_peer_is_waited_for_and_never_dialled() {
    let mut world = pair_of(PeerConfig { passive: true, ..to_b() }, to_a());
    up(&mut world);
    assert!(world.pipes.iter().all(|pipe| pipe.ends[0].0 == 1), "only b dialled");
    let mut world =
        pair_of(PeerConfig { passive: true, ..to_b() }, PeerConfig { passive: true, ..to_a() });
    world.run(10 * MINUTE);
    assert!(world.pipes.is_empty());
    assert_eq!(world.status(0, "b").unwrap().state, State::Active);
}

#[test]
fn a_peer_that_falls_silent_is_given_up_at_the_hold_time() {
    let mut world = pair();
    world.tell(1, originate(&["10.2.0.0/24"]));
    world.until("learned", MINUTE, |w| w.has(0, "10.2.0.0/24"));
    // Silence, with TCP up: what is on its way does not arrive.
    for lane in &mut world.pipes[0].lanes {
        lane.moving = true;
    }
    let told = downs(&world, 0).len();
    world.until("given up", 31 * SECOND, |w| downs(w, 0).len() > told);
    assert_eq!(downs(&world, 0).last(), Some(&DownReason::Sent(4, 0, Default::default())));
    assert!(!world.has(0, "10.2.0.0/24"), "without N, a NOTIFICATION ends it all");
}

#[test]
fn without_hold_time_silence_is_fine() {
    let mut world = pair_of(PeerConfig { hold_time: None, ..to_b() }, to_a());
    up(&mut world);
    world.run(SECOND);
    let said = world.pipes[0].lanes.each_ref().map(|lane| lane.log.len());
    world.run(1_000 * MINUTE);
    assert_eq!(world.flaps(0) + world.flaps(1), 0);
    assert_eq!(said, world.pipes[0].lanes.each_ref().map(|lane| lane.log.len()));
}

#[test]
fn ten_thousand_changes_and_no_reset() {
    let mut world = pair();
    for n in 0..10_000_u32 {
        let net = number(n % 3_000);
        let wish = (n / 3_000 != 2).then(|| Origination { med: Some(n), ..Default::default() });
        world.tell(0, Event::Originate(Wishes::Some(vec![(net.parse().unwrap(), wish)])));
        if n % 7 == 0 {
            world.run(Duration::from_millis(1));
        }
    }
    world.run(SECOND);
    // The last round began at 9,000 and got to 1,000; the round before took everything away.
    let nets: Vec<String> = world.nodes[1].kernel.keys().cloned().collect();
    let mut expected: Vec<String> = (0..1_000).map(number).collect();
    expected.sort();
    assert_eq!(nets, expected);
    assert_eq!(world.flaps(0) + world.flaps(1), 0);
}

#[test]
fn export_changes_are_told_in_place() {
    let mut world = pair();
    world.tell(0, originate(&["10.1.0.0/24"]));
    world.until("learned", MINUTE, |w| w.has(1, "10.1.0.0/24"));
    let mut wish = to_b();
    wish.export.communities = vec![Community(7)];
    wish.export.med = Some(5);
    world.tell(0, Event::Peers(vec![wish]));
    world.run(SECOND);
    let route = world.nodes[1].speaker.route("10.1.0.0/24".parse().unwrap()).unwrap();
    let attributes = route.paths[0].attributes.unwrap();
    assert_eq!((attributes.med, &attributes.communities[..]), (Some(5), &[Community(7)][..]));
    assert_eq!(world.flaps(0) + world.flaps(1), 0);
}

#[test]
fn drain_is_told_in_place_and_taken_back() {
    let mut world = pair();
    world.tell(0, originate(&["10.1.0.0/24"]));
    let shuts_down = |world: &World| {
        let route = world.nodes[1].speaker.route("10.1.0.0/24".parse().unwrap()).unwrap();
        route.paths[0].attributes.unwrap().communities.contains(&Community::GRACEFUL_SHUTDOWN)
    };
    for on in [true, false] {
        world.tell(0, Event::Drain(on));
        world.run(SECOND);
        assert_eq!(shuts_down(&world), on);
    }
    assert_eq!(world.flaps(0) + world.flaps(1), 0);
}

#[test]
fn import_changes_judge_again_and_ask_again() {
    let mut world = pair();
    world.tell(1, originate(&["10.1.0.0/24", "10.2.0.0/24"]));
    world.until("learned", MINUTE, |w| w.has(0, "10.1.0.0/24") && w.has(0, "10.2.0.0/24"));
    let narrow = |net: &str| {
        let mut wish = to_b();
        let rule = everything()[0];
        let net = net.parse().unwrap();
        wish.import = Some(Import {
            accept: vec![flock_bgp::AddressRule { net, min: 24, ..rule }],
            max_prefixes: 10,
        });
        Event::Peers(vec![wish])
    };
    world.tell(0, narrow("10.1.0.0/24"));
    assert!(world.has(0, "10.1.0.0/24") && !world.has(0, "10.2.0.0/24"), "at once");
    world.tell(0, narrow("10.2.0.0/24"));
    assert!(!world.has(0, "10.1.0.0/24"), "at once");
    world.run(SECOND);
    assert!(world.has(0, "10.2.0.0/24"), "the peer was asked for it");
    world.tell(0, networks(&["10.2.0.0/16"], &[]));
    assert!(!world.has(0, "10.2.0.0/24"), "a connected network is refused");
    assert_eq!(world.flaps(0) + world.flaps(1), 0);
}

#[test]
fn only_the_peer_that_must_is_reset() {
    let mut world = World::new(1, Faults::default());
    world.add("10.0.0.1", speaker(1));
    world.add("10.0.0.2", speaker(2));
    world.add("10.0.0.3", speaker(3));
    world.tell(1, Event::Peers(vec![to_a()]));
    world.tell(2, Event::Peers(vec![to_a()]));
    world.run(SECOND);
    let to_c = peer("c", "10.0.0.3");
    world.tell(0, Event::Peers(vec![to_b(), to_c.clone()]));
    world.until("all are Established", MINUTE, |w| w.established(0, "b") && w.established(0, "c"));
    world.run(SECOND);
    let mut six_only = to_b();
    six_only.families = vec![Family::Ipv6];
    world.tell(0, Event::Peers(vec![six_only, to_c]));
    world.run(10 * SECOND);
    assert!(world.established(0, "b") && world.established(0, "c"));
    assert_eq!((world.flaps(1), world.flaps(2)), (1, 0));
    assert!(!world.status(1, "a").unwrap().families[0].negotiated);
    let why = downs(&world, 0).into_iter().find(|r| r.to_string().contains("families"));
    assert!(why.is_some(), "the field is named");
}

#[test]
fn shutdown_says_why_and_comes_back() {
    let mut world = pair();
    world.tell(0, originate(&["10.1.0.0/24"]));
    world.until("learned", MINUTE, |w| w.has(1, "10.1.0.0/24"));
    let shut = PeerConfig { shutdown: Some("back at 5".into()), ..to_b() };
    world.tell(0, Event::Peers(vec![shut]));
    world.run(SECOND);
    assert_eq!(heard(&world, 6, 2).as_deref(), Some("back at 5"));
    assert!(!world.has(1, "10.1.0.0/24"));
    assert!(world.nodes[0].admitted.is_empty(), "nobody is let in");
    world.run(10 * MINUTE);
    assert_eq!(world.status(0, "b").unwrap().state, State::Idle);
    world.tell(0, Event::Peers(vec![to_b()]));
    up(&mut world);
}

#[test]
fn a_withheld_peer_stays_down_and_says_why() {
    let mut world = pair();
    let withheld = PeerConfig { withheld: Some("no Secret tor-a".into()), ..to_b() };
    world.tell(0, Event::Peers(vec![withheld]));
    world.run(10 * MINUTE);
    let status = world.status(0, "b").unwrap();
    assert_eq!(status.state, State::Idle);
    assert_eq!(status.last_error.unwrap().reason.to_string(), "no Secret tor-a");
    world.tell(0, Event::Peers(vec![to_b()]));
    world.until("back", 2 * MINUTE, |w| w.established(0, "b"));
}

#[test]
fn a_removed_peer_is_told_and_forgotten() {
    let mut world = pair();
    world.tell(1, originate(&["10.1.0.0/24"]));
    world.until("learned", MINUTE, |w| w.has(0, "10.1.0.0/24"));
    world.tell(0, Event::Peers(vec![]));
    assert!(!world.has(0, "10.1.0.0/24"));
    assert_eq!(world.nodes[0].speaker.peers().count(), 0);
    world.run(SECOND);
    assert!(downs(&world, 1).iter().any(|reason| reason.code() == Some((6, 3))));
    world.run(10 * MINUTE);
    assert_eq!(world.nodes[0].speaker.next_deadline(), None, "nothing runs for nobody");
}

#[test]
fn reset_says_why_and_is_up_again_soon() {
    let mut world = pair();
    let key = world.nodes[0].speaker.peer_by_name("b").unwrap();
    world.tell(0, Event::Reset(key, "please".into()));
    world.run(Duration::from_millis(10));
    assert_eq!(heard(&world, 6, 4).as_deref(), Some("please"));
    world.until("again", 30 * SECOND, |w| w.established(0, "b") && w.established(1, "a"));
}

#[test]
fn farewell_with_words() {
    let mut world = pair();
    world.tell(0, Event::Farewell(Farewell::Shutdown("bye".into())));
    world.run(SECOND);
    assert_eq!(heard(&world, 6, 2).as_deref(), Some("bye"));
    world.run(10 * MINUTE);
    assert_eq!(world.status(0, "b").unwrap().state, State::Idle);
}

#[test]
fn too_many_prefixes_end_the_session_and_it_rests_ever_longer() {
    let mut wish = to_b();
    wish.import = Some(Import { accept: everything(), max_prefixes: 3 });
    let mut world = pair_of(wish, to_a());
    up(&mut world);
    world.tell(1, originate(&["10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24"]));
    world.run(SECOND);
    assert_eq!(world.flaps(0), 0, "as many as allowed");
    world.tell(1, originate(&["10.4.0.0/24"]));
    world.run(SECOND);
    let limit = vec![0, 1, 1, 0, 0, 0, 3];
    assert_eq!(downs(&world, 0).pop(), Some(DownReason::Sent(6, 1, limit.into())));
    assert!(!world.has(0, "10.1.0.0/24"));
    world.run(4 * 60 * MINUTE);
    let times: Vec<Duration> = world.nodes[0]
        .notices
        .iter()
        .filter(|(_, notice)| matches!(notice, Notice::Up(..)))
        .map(|(now, _)| now.0)
        .collect();
    let rests: Vec<Duration> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(rests[0] >= MINUTE && rests[1] >= 2 * MINUTE && rests[2] >= 4 * MINUTE, "{rests:?}");
    assert!(rests.len() < 10, "{rests:?}");
    world.tell(1, withdraw(&["10.4.0.0/24"]));
    world.until("within the limit again", 70 * MINUTE, |w| w.has(0, "10.1.0.0/24"));
}

#[test]
fn a_wrong_as_is_refused_ever_more_rarely() {
    let wish = PeerConfig { asn: flock_bgp::PeerAsn::Number(64_999), ..to_b() };
    let mut world = pair_of(wish, to_a());
    world.run(60 * MINUTE);
    let refusals = downs(&world, 0).iter().filter(|r| r.code() == Some((2, 2))).count();
    assert!((10..=130).contains(&refusals), "{refusals} in an hour");
    let error = world.status(0, "b").unwrap().last_error.unwrap().reason.to_string();
    assert!(error.contains("2/2"), "{error}");
}

#[test]
fn a_peer_that_does_not_read_costs_a_bounded_amount() {
    let mut world = pair();
    // b takes nothing any more, while a's routes go on changing.
    let stuck = (0..2).find(|lane| world.pipes[0].ends[*lane].0 == 0).unwrap();
    world.pipes[0].lanes[stuck].moving = true;
    world.faults.socket = 1_000;
    for n in 0..20_000 {
        let wish = Origination { med: Some(n), ..Default::default() };
        let net = number(n % 2_000).parse().unwrap();
        world.tell(0, Event::Originate(Wishes::Some(vec![(net, Some(wish))])));
    }
    assert!(world.pipes[0].lanes[stuck].bytes.len() < 10_000, "nothing queues");
    // It reads again, and hears each as it is now, once.
    let sent = |world: &World| world.pipes[0].lanes[stuck].log.len();
    let before = sent(&world);
    world.pipes[0].lanes[stuck].moving = false;
    world.move_on(0, stuck);
    world.tell(0, originate(&["10.1.0.0/24"]));
    world.run(20 * SECOND);
    assert_eq!(world.nodes[1].kernel.len(), 2_001);
    assert!(sent(&world) - before < 2_001 * 60, "{}", sent(&world) - before);
    assert_eq!(world.flaps(0) + world.flaps(1), 0);
}
