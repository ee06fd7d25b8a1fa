//! Random clusters: the table says what the API says, and stays right through whatever happens.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::table::{Table, Way};
use super::world::{OUTSIDE, Pod, World};
use crate::policy::engine::Engine;
use crate::policy::judge::{End, Known, Packet, Side, judge};
use crate::policy::model::{PolicyKey, PortMatch};
use crate::source::Shards;

/// One side of a connection: an address, of whom, behind which link.
#[derive(Debug, Clone)]
struct Place {
    address: IpAddr,
    pod: Option<Pod>,
    link: Option<Arc<str>>,
}

fn place(world: &mut World) -> Option<Place> {
    if world.below(5) == 0 {
        let address = world.pick(&OUTSIDE).parse().unwrap();
        return Some(Place { address, pod: None, link: None });
    }
    let numbers: Vec<u8> = world.pods.keys().copied().collect();
    if numbers.is_empty() {
        return None;
    }
    let number = world.pick(&numbers);
    let pod = world.pods[&number].clone();
    let address = world.pick(&pod.addresses());
    // Whoever uses an address that is another's is not stopped here: that is anti-spoofing.
    world.holders(address).iter().find(|holder| holder.key == pod.key)?;
    let link = pod.links.first().cloned();
    Some(Place { address, pod: Some(pod), link })
}

fn packet(world: &mut World) -> Packet {
    let protocol = world.pick(&[6, 6, 6, 17, 132, 1]);
    let port = match world.below(8) {
        0 => 1 + u16::try_from(world.below(65535)).unwrap(),
        _ => world.pick(&[79, 80, 81, 82, 90, 91, 8080, 9000, 9001]),
    };
    Packet { protocol, port: (protocol != 1).then_some(port) }
}

/// The ends that an address may be, each alone.
fn ends(world: &World, address: IpAddr) -> Vec<End> {
    let holders = world.holders(address);
    if holders.is_empty() {
        return vec![End { pod: None, addresses: vec![address] }];
    }
    holders.iter().map(|pod| pod.end(address)).collect()
}

/// What one side says of a connection with any of the ends that the other may be: what certainly
/// passes, and what may pass.
fn expected(world: &World, sides: &[Side], egress: bool) -> (bool, bool) {
    let first = sides.first().unwrap();
    if first.isolated_by.is_empty() {
        return (true, true);
    }
    let rules = |side: &Side| -> BTreeSet<(PolicyKey, usize)> {
        side.allowed_by.iter().map(|reason| (reason.policy.clone(), reason.rule)).collect()
    };
    let mut common = rules(first);
    for side in sides {
        common = common.intersection(&rules(side)).cloned().collect();
    }
    // Of one who is certain there is nothing to be careful about; of several, two names of one rule
    // may lead to the same port, and the table does not see that.
    let plain = |(policy, rule): &(PolicyKey, usize)| {
        let policy = world.cluster.policies.get(policy).unwrap();
        let rules = if egress { &policy.egress } else { &policy.ingress };
        let ports = &rules.as_ref().unwrap()[*rule].ports;
        let named = |ports: &PortMatch| matches!(ports, PortMatch::Named(_));
        !egress || !ports.iter().flatten().any(|wish| named(&wish.ports))
    };
    (common.iter().any(|rule| sides.len() == 1 || plain(rule)), !common.is_empty())
}

/// Compares one packet; returns whether it passed, if there was one.
fn compare(world: &mut World, table: &Table, seed: u64) -> Option<bool> {
    let (from, to) = (place(world)?, place(world)?);
    let here = from.link.is_some() || to.link.is_some();
    if !here || from.address.is_ipv4() != to.address.is_ipv4() {
        return None;
    }
    let packet = packet(world);
    let way = Way {
        source: from.address,
        input: from.link.as_deref(),
        destination: to.address,
        output: to.link.as_deref(),
        packet,
    };
    let passes = table.passes(way);
    let policies = world.cluster.policies.in_order();
    let known = Known { policies: &policies, namespaces: &world.cluster.namespaces };
    let (senders, receivers) = (ends(world, from.address), ends(world, to.address));
    let key = |place: &Place| place.pod.as_ref().map(|pod| pod.key.clone());
    if key(&from).is_some() && key(&from) == key(&to) {
        let certain = senders.len() == 1 && receivers.len() == 1 && from.link.is_some();
        assert!(!certain || passes, "seed {seed}: to itself {way:?}");
        return Some(passes);
    }
    let own = |place: &Place| match &place.pod {
        Some(pod) => pod.end(place.address),
        None => End { pod: None, addresses: vec![place.address] },
    };
    let mut least = true;
    let mut most = true;
    if from.link.is_some() {
        let sides: Vec<Side> =
            receivers.iter().map(|to| judge(known, &own(&from), to, packet).egress).collect();
        let (certain, possible) = expected(world, &sides, true);
        least &= certain;
        most &= possible;
    }
    if to.link.is_some() {
        let sides: Vec<Side> =
            senders.iter().map(|from| judge(known, from, &own(&to), packet).ingress).collect();
        let (certain, possible) = expected(world, &sides, false);
        least &= certain;
        most &= possible;
    }
    assert!(!least || passes, "seed {seed}: stopped, and should not be: {way:?} {from:?} {to:?}");
    assert!(most || !passes, "seed {seed}: passed, and should not: {way:?} {from:?} {to:?}");
    Some(passes)
}

#[test]
fn the_table_says_what_the_api_says() {
    let (mut passed, mut stopped) = (0, 0);
    for seed in 0..1000 {
        let mut world = World::new(seed);
        world.fill();
        let mut engine = Engine::default();
        world.tell(&mut engine);
        let table = Table::of(engine.elements());
        for _ in 0..50 {
            match compare(&mut world, &table, seed) {
                Some(true) => passed += 1,
                Some(false) => stopped += 1,
                None => {}
            }
        }
    }
    assert!(passed > 2_000 && stopped > 2_000, "{passed} {stopped}");
}

#[test]
fn changes_lead_to_what_a_fresh_start_does() {
    for seed in 0..100 {
        let mut world = World::new(seed + 1_000_000);
        let mut engine = Engine::default();
        let mut table = Table::default();
        if seed % 2 == 0 {
            world.fill();
            world.tell(&mut engine);
            table = Table::of(engine.elements());
            engine.forget_changes();
        }
        for _ in 0..25 {
            for _ in 0..=world.below(3) {
                world.happen();
                world.tell(&mut engine);
            }
            table.apply(engine.take_change());
            let all = engine.elements();
            assert_eq!(all.len(), table.elements.len(), "seed {seed}");
            assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), table.elements, "seed {seed}");
            assert!(engine.take_change().is_empty());
            let fresh = Table::of(world.fresh().elements());
            assert_eq!(table.meaning(), fresh.meaning(), "seed {seed}");
            for _ in 0..20 {
                compare(&mut world, &table, seed);
            }
            same_verdicts(&mut world, &table, &fresh, seed);
            assert_eq!(engine.is_active(), !world.cluster.policies.is_empty());
        }
    }
}

fn same_verdicts(world: &mut World, one: &Table, other: &Table, seed: u64) {
    assert_eq!(one.elements.len(), other.elements.len(), "seed {seed}");
    for _ in 0..30 {
        let (Some(from), Some(to)) = (place(world), place(world)) else { continue };
        let way = Way {
            source: from.address,
            input: from.link.as_deref(),
            destination: to.address,
            output: to.link.as_deref(),
            packet: packet(world),
        };
        assert_eq!(one.passes(way), other.passes(way), "seed {seed}: {way:?}");
    }
}

#[test]
fn without_policies_there_is_nothing() {
    let mut world = World::new(7);
    world.fill();
    let mut engine = Engine::default();
    world.tell(&mut engine);
    assert!(engine.is_active() && !engine.elements().is_empty());
    let mut table = Table::of(engine.elements());
    engine.forget_changes();
    world.cluster.policies = Shards::default();
    world.tell(&mut engine);
    table.apply(engine.take_change());
    assert!(table.elements.is_empty() && engine.elements().is_empty() && !engine.is_active());
}
