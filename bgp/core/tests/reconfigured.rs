//! Three speakers whose wishes change all the time, over connections that break: in the end everyone
//! knows what it should, as its teller says that it was told.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use flock_bgp::{
    Community, Event, Family, GracefulRestart, Origination, PeerAsn, PeerConfig, PeerKey, State,
    Wishes,
};
use world::wishes::number;
use world::{Faults, World, peer, speaker};

const NAMES: [(&str, &str); 3] = [("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3")];

fn others(node: usize) -> impl Iterator<Item = usize> {
    (0..3).filter(move |other| *other != node)
}

fn pick(world: &mut World, below: u64) -> usize {
    usize::try_from(world.roll(below)).unwrap()
}

fn small(world: &mut World, below: u64) -> u32 {
    u32::try_from(world.roll(below)).unwrap()
}

fn restarts(notification: bool) -> GracefulRestart {
    let (time, stale_time) = (Duration::from_secs(20), Duration::from_secs(30));
    GracefulRestart { time, notification, stale_time }
}

/// One wish about a peer becomes another.
fn change(world: &mut World, peer: &mut PeerConfig, at: usize) {
    let name = NAMES[at].0;
    let seconds = Duration::from_secs(1 + world.roll(5));
    match world.roll(14) {
        0 => peer.export.med = Some(small(world, 5)),
        1 => peer.export.communities = vec![Community(70_000 + small(world, 5))],
        2 => {
            let spans = [None, Some(Duration::from_secs(9)), Some(Duration::from_secs(30))];
            peer.hold_time = spans[pick(world, 3)];
        }
        3 => {
            let ways = [None, Some(restarts(false)), Some(restarts(true))];
            peer.graceful_restart = ways[pick(world, 3)];
        }
        4 => peer.extended_messages ^= true,
        5 => peer.add_path_receive ^= true,
        6 => peer.shutdown = peer.shutdown.is_none().then(|| "for a while".into()),
        7 => peer.withheld = peer.withheld.is_none().then(|| "no password".into()),
        8 if peer.families.len() == 2 => peer.families = vec![Family::Ipv4],
        8 => peer.families = Family::ALL.to_vec(),
        9 if &*peer.name == name => peer.name = format!("{name}2").into(),
        9 => peer.name = name.into(),
        10 => peer.connect_retry = seconds,
        11 => {
            let rule = &mut peer.import.as_mut().unwrap().accept[0];
            rule.max = if rule.max == 32 { 20 } else { 32 };
        }
        12 => peer.keepalive = Some(seconds),
        _ if peer.asn == PeerAsn::External => {
            peer.asn = PeerAsn::Number(65_001 + u32::try_from(at).unwrap());
        }
        _ => peer.asn = PeerAsn::External,
    }
}

fn originate(world: &mut World, node: usize, wanted: &mut BTreeSet<u32>) {
    let mut wishes = Vec::new();
    for _ in 0..30 {
        let n = small(world, 300) * 3 + u32::try_from(node).unwrap();
        let on = world.roll(3) != 0;
        if on {
            wanted.insert(n);
        } else {
            wanted.remove(&n);
        }
        let origination = Origination { med: Some(small(world, 3)), ..Origination::default() };
        wishes.push((number(n).parse().unwrap(), on.then_some(origination)));
    }
    world.tell(node, Event::Originate(Wishes::Some(wishes)));
}

fn settles(seed: u64) {
    let delay = if seed.is_multiple_of(2) { 5 } else { 200 };
    let socket = if seed.is_multiple_of(3) { 300 } else { 0 };
    let faults =
        Faults { failed_dials: 10, cuts: 20, cut_within: 4_000, delay, piece: 700, socket };
    let mut world = World::new(seed, faults);
    let mut wanted: [BTreeSet<u32>; 3] = Default::default();
    let mut wishes: Vec<Vec<PeerConfig>> =
        (0..3).map(|n| others(n).map(|o| peer(NAMES[o].0, NAMES[o].1)).collect()).collect();
    for (node, (_, address)) in NAMES.iter().enumerate() {
        world.add(address, speaker(u8::try_from(node).unwrap() + 1));
        world.tell(node, Event::Peers(wishes[node].clone()));
    }
    for _ in 0..60 {
        let node = pick(&mut world, 3);
        let key = PeerKey(u16::try_from(world.roll(2)).unwrap());
        match world.roll(10) {
            0..=3 => originate(&mut world, node, &mut wanted[node]),
            4..=6 => {
                let which = pick(&mut world, 2);
                let at = others(node).nth(which).unwrap();
                change(&mut world, &mut wishes[node][which], at);
                if world.roll(10) == 0 {
                    let mut fewer = wishes[node].clone();
                    fewer.remove(which);
                    world.tell(node, Event::Peers(fewer));
                    let pause = Duration::from_millis(world.roll(4_000));
                    world.run(pause);
                }
                world.tell(node, Event::Peers(wishes[node].clone()));
            }
            7 => world.tell(node, Event::Reset(key, "now and then".into())),
            8 => world.tell(node, Event::Refresh(key)),
            _ => {
                let on = world.roll(2) == 0;
                world.tell(node, Event::Drain(on));
            }
        }
        let pause = Duration::from_millis(world.roll(6_000));
        world.run(pause);
    }
    world.faults = Faults::default();
    for pipe in &mut world.pipes {
        pipe.cut = None;
    }
    for (node, peers) in wishes.iter_mut().enumerate() {
        world.tell(node, Event::Drain(false));
        for peer in peers.iter_mut() {
            (peer.shutdown, peer.withheld) = (None, None);
            peer.import.as_mut().unwrap().accept[0].max = 32;
        }
        world.tell(node, Event::Peers(peers.clone()));
    }
    world.run(Duration::from_secs(400));
    for node in 0..3 {
        check(&world, node, &wanted, seed);
    }
}

fn check(world: &World, node: usize, wanted: &[BTreeSet<u32>; 3], seed: u64) {
    let speaker = &world.nodes[node].speaker;
    assert!(speaker.settled(), "seed {seed}");
    for peer in speaker.peers() {
        assert_eq!(peer.state, State::Established, "seed {seed}: {:?}", peer.last_error);
        for family in peer.families.iter().filter(|family| family.negotiated) {
            assert!(!family.stale, "seed {seed}");
            assert!(family.end_of_rib_sent && family.end_of_rib_received, "seed {seed}");
        }
    }
    let knows: BTreeSet<String> = world.nodes[node].kernel.keys().cloned().collect();
    let should: BTreeSet<String> =
        others(node).flat_map(|other| wanted[other].iter().map(|n| number(*n))).collect();
    assert_eq!(knows, should, "seed {seed}, node {node}");
    for other in others(node) {
        let teller = &world.nodes[other].speaker;
        let at = |speaker: &flock_bgp::Speaker, of: usize| {
            let address: std::net::IpAddr = NAMES[of].1.parse().unwrap();
            speaker.peers().find(|peer| peer.address == address).unwrap().key
        };
        let (us, them) = (at(teller, node), at(speaker, other));
        for told in teller.advertised(us, Family::Ipv4) {
            let route = speaker.route(told.net).unwrap();
            let path = route.paths.iter().find(|path| path.peer == Some(them)).unwrap();
            let mut attributes = told.attributes.clone().unwrap();
            let learned = path.attributes.unwrap();
            attributes.local_pref = learned.local_pref; // Draining is heard as a preference.
            assert_eq!(&attributes, learned, "seed {seed}");
        }
    }
}

#[test]
fn wishes_that_change_all_the_time_come_true() {
    for seed in 1..=40 {
        settles(seed);
    }
}
