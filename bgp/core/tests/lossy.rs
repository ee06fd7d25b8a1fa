//! Speakers in a world that cuts, delays, refuses, trickles and kills, by seed. Once it stops, all
//! of them must know the same.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use flock_bgp::{Event, Family, Origination, Wishes};
use world::wishes::number;
use world::{Faults, World, peer, speaker};

const NAMES: [(&str, &str); 3] = [("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3")];

/// What each node wants to originate.
type Wanted = [BTreeSet<u32>; 3];

fn peers_of(node: usize) -> Event<'static> {
    let others = NAMES.iter().enumerate().filter(|(other, _)| *other != node);
    Event::Peers(others.map(|(_, (name, address))| peer(name, address)).collect())
}

fn wish(world: &mut World, node: usize, nets: impl Iterator<Item = (u32, bool)>) {
    let med = u32::try_from(world.roll(5)).unwrap();
    let wishes = nets.map(|(n, on)| {
        let origination = Origination { med: Some(med), ..Origination::default() };
        (number(n).parse().unwrap(), on.then_some(origination))
    });
    let event = Event::Originate(Wishes::Some(wishes.collect()));
    world.tell(node, event);
}

/// Numbers of a node are its own: `node`, `node + 3`, ...
fn change(world: &mut World, node: usize, wanted: &mut Wanted) {
    let many = 1 + world.roll(40);
    let mut changes = Vec::new();
    for _ in 0..many {
        let n = u32::try_from(world.roll(400)).unwrap() * 3 + u32::try_from(node).unwrap();
        let on = world.roll(3) != 0;
        if on {
            wanted[node].insert(n);
        } else {
            wanted[node].remove(&n);
        }
        changes.push((n, on));
    }
    wish(world, node, changes.into_iter());
}

fn restart(world: &mut World, node: usize, wanted: &Wanted) {
    world.kill(node);
    let away = Duration::from_millis(world.roll(3_000));
    world.run(away);
    let mut config = speaker(u8::try_from(node).unwrap() + 1);
    config.seed = world.roll(u64::MAX);
    config.restarted = true;
    config.forwarding_kept = world.roll(2) == 0;
    config.hold_end_of_rib = true;
    world.revive(node, config);
    wish(world, node, wanted[node].clone().into_iter().map(|n| (n, true)));
    world.tell(node, peers_of(node));
    world.tell(node, Event::OriginationsComplete);
}

/// What a node knows, as the kernel would be told.
fn knows(world: &World, node: usize) -> BTreeSet<String> {
    world.nodes[node].kernel.keys().cloned().collect()
}

fn should_know(wanted: &Wanted, node: usize) -> BTreeSet<String> {
    let others = (0..3).filter(|other| *other != node);
    others.flat_map(|other| wanted[other].iter().map(|n| number(*n))).collect()
}

fn converges(seed: u64, faults: Faults) {
    let mut world = World::new(seed, faults);
    let mut wanted = Wanted::default();
    for (node, (_, address)) in NAMES.iter().enumerate() {
        world.add(address, speaker(u8::try_from(node).unwrap() + 1));
        world.tell(node, peers_of(node));
    }
    for _ in 0..40 {
        let node = usize::try_from(world.roll(3)).unwrap();
        match world.roll(12) {
            0 => restart(&mut world, node, &wanted),
            1 => {
                let key = world.nodes[node].speaker.peers().next().unwrap().key;
                world.tell(node, Event::Reset(key, "chaos".into()));
            }
            2 => {
                let key = world.nodes[node].speaker.peers().next().unwrap().key;
                world.tell(node, Event::Refresh(key));
            }
            3 => {
                let on = world.roll(2) == 0;
                world.tell(node, Event::Drain(on));
            }
            _ => change(&mut world, node, &mut wanted),
        }
        let pause = Duration::from_millis(world.roll(4_000));
        world.run(pause);
    }
    world.faults = Faults { delay: faults.delay, ..Faults::default() };
    for pipe in &mut world.pipes {
        pipe.cut = None;
    }
    // The longest rest, and the longest that stale routes are kept.
    let all = Duration::from_secs(600);
    world.until(&format!("seed {seed}"), all, |world| {
        (0..3).all(|node| knows(world, node) == should_know(&wanted, node))
    });
    world.run(Duration::from_secs(1_200));
    for node in 0..3 {
        assert_eq!(knows(&world, node), should_know(&wanted, node), "seed {seed}, node {node}");
        for peer in world.nodes[node].speaker.peers() {
            assert_eq!(peer.state, flock_bgp::State::Established, "seed {seed}");
            let told = world.nodes[node].speaker.advertised(peer.key, Family::Ipv4).count();
            assert_eq!(told, wanted[node].len(), "seed {seed}");
            assert!(peer.families.iter().all(|family| !family.stale), "seed {seed}");
        }
    }
}

#[test]
fn converges_with_cuts_and_failed_dials() {
    for seed in 1..=25 {
        let faults = Faults {
            failed_dials: 20,
            cuts: 40,
            cut_within: 8_000,
            delay: 300,
            piece: 1_000,
            socket: 4_000,
        };
        converges(seed, faults);
    }
}

#[test]
fn converges_in_single_octets() {
    for seed in 100..=112 {
        let faults = Faults { piece: 1, socket: 200, ..Faults::default() };
        converges(seed, faults);
    }
}

#[test]
fn converges_over_a_slow_and_narrow_way() {
    for seed in 200..=220 {
        let faults = Faults {
            cuts: 10,
            cut_within: 20_000,
            delay: 2_000,
            piece: 100,
            socket: 60,
            ..Faults::default()
        };
        converges(seed, faults);
    }
}
