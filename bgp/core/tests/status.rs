//! What people see of peers and routes, over both transports, inside and outside an AS.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use std::time::Duration;

use flock_bgp::{
    Capability, Event, Family, NextHop, NextHops, PeerAsn, PeerConfig, Speaker, State, Withheld,
};
use world::script::{Said, Script, modern};
use world::wishes::originate;
use world::{Faults, World, peer, speaker};

const MINUTE: Duration = Duration::from_secs(60);

fn own_address(wish: PeerConfig) -> PeerConfig {
    PeerConfig { next_hops: NextHops::default(), ..wish }
}

/// Two speakers, the second a moment later.
fn pair(addresses: [&str; 2], asns: [u32; 2], wish: impl Fn(PeerConfig) -> PeerConfig) -> World {
    let mut world = World::new(1, Faults::default());
    for (n, address) in addresses.iter().enumerate() {
        let mut config = speaker(u8::try_from(n).unwrap() + 1);
        config.asn = asns[n];
        world.add(address, config);
    }
    world.tell(0, Event::Peers(vec![wish(peer("b", addresses[1]))]));
    world.run(Duration::from_secs(1));
    world.tell(1, Event::Peers(vec![wish(peer("a", addresses[0]))]));
    world.until("Established", MINUTE, |w| w.established(0, "b") && w.established(1, "a"));
    world.tell(0, originate(&["10.1.0.0/24", "2001:db8:a::/64"]));
    world.run(Duration::from_secs(1));
    world
}

fn next_hop(world: &World, net: &str) -> NextHop {
    world.nodes[1].kernel[net].next_hops[0]
}

#[test]
fn both_families_over_ipv6_by_rfc_8950() {
    let world = pair(["2001:db8::1", "2001:db8::2"], [65_001, 65_002], own_address);
    let global = "2001:db8::1".parse().unwrap();
    let us = NextHop::V6 { global, link_local: None };
    assert_eq!(next_hop(&world, "10.1.0.0/24"), us);
    assert_eq!(next_hop(&world, "2001:db8:a::/64"), us);
}

#[test]
fn a_family_without_a_next_hop_says_so() {
    let world = pair(["10.0.0.1", "10.0.0.2"], [65_001, 65_002], own_address);
    assert!(world.has(1, "10.1.0.0/24") && !world.has(1, "2001:db8:a::/64"));
    let status = world.status(0, "b").unwrap();
    assert_eq!(status.families[0].not_announced, None);
    let why = status.families[1].not_announced.as_deref().unwrap();
    assert!(why.contains("no IPv6 next hop"), "{why}");
    assert!(status.families[1].negotiated && status.families[1].end_of_rib_sent);
    let explained = world.nodes[0].speaker.explain(status.key, "2001:db8:a::/64".parse().unwrap());
    assert_eq!(explained, Some(Err(Withheld::NoNextHop)));
}

#[test]
fn inside_an_as() {
    let world = pair(["10.0.0.1", "10.0.0.2"], [65_001, 65_001], |wish| PeerConfig {
        asn: PeerAsn::Internal,
        ..wish
    });
    let route = world.nodes[1].speaker.route("10.1.0.0/24".parse().unwrap()).unwrap();
    let attributes = route.paths[0].attributes.unwrap();
    assert_eq!((attributes.local_pref, attributes.as_path.hops()), (Some(100), 0));
    assert!(world.status(1, "a").unwrap().negotiated.unwrap().internal);
}

#[test]
fn four_octet_as_numbers() {
    let world = pair(["10.0.0.1", "10.0.0.2"], [4_200_000_001, 4_200_000_002], |wish| wish);
    let route = world.nodes[1].speaker.route("10.1.0.0/24".parse().unwrap()).unwrap();
    let path: Vec<u32> = route.paths[0].attributes.unwrap().as_path.iter().collect();
    assert_eq!(path, [4_200_000_001]);
    assert_eq!(world.status(1, "a").unwrap().asn, Some(4_200_000_001));
}

#[test]
fn a_peer_in_full() {
    let world = pair(["10.0.0.1", "10.0.0.2"], [65_001, 65_002], |wish| wish);
    let told = world.status(0, "b").unwrap();
    assert_eq!((&*told.name, told.state, told.asn), ("b", State::Established, Some(65_002)));
    assert_eq!((told.local_asn, told.flaps, told.next_attempt), (65_001, 0, None));
    assert_eq!(told.session_ended, None);
    assert_eq!(told.address.to_string(), "10.0.0.2");
    let negotiated = told.negotiated.unwrap();
    assert_eq!(negotiated.hold_time, Some(Duration::from_secs(30)));
    assert_eq!(negotiated.keepalive, Some(Duration::from_secs(10)));
    assert_eq!(negotiated.peer_id.to_string(), "10.0.0.2");
    assert_eq!(negotiated.offered.len(), negotiated.received.len());
    let connection = told.connection.unwrap();
    assert_eq!(connection.1.ip(), told.address);
    assert!(told.messages.sent >= 4 && told.messages.received >= 4, "{:?}", told.messages);
    let advertised: Vec<u32> = told.families.iter().map(|family| family.advertised).collect();
    assert_eq!(advertised, [1, 1]);

    let heard = world.status(1, "a").unwrap();
    let counts = heard.families.iter().map(|family| (family.received, family.accepted));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 1), (1, 1)]);
    assert!(heard.messages.updates_received >= 2);
    assert_eq!(told.messages.updates_sent, heard.messages.updates_received);
    assert!(told.families.iter().all(|family| family.pending == 0), "{:?}", told.families);
    assert_eq!((world.nodes[0].speaker.sessions(), world.nodes[1].speaker.sessions()), (1, 1));
}

#[test]
fn a_hold_time_waits_for_the_next_session_and_shows() {
    let mut world = pair(["10.0.0.1", "10.0.0.2"], [65_001, 65_002], |wish| wish);
    let mut wish = peer("b", "10.0.0.2");
    wish.hold_time = Some(Duration::from_secs(9));
    wish.keepalive = Some(Duration::from_secs(2));
    world.tell(0, Event::Peers(vec![wish]));
    let status = world.status(0, "b").unwrap();
    assert_eq!((status.flaps, status.pending.as_deref()), (0, Some("holdTime")));
    let keepalive = status.negotiated.unwrap().keepalive;
    assert_eq!(keepalive, Some(Duration::from_secs(2)), "how often we speak is ours");
    let key = status.key;
    world.tell(0, Event::Reset(key, "now".into()));
    world.run(MINUTE);
    let status = world.status(0, "b").unwrap();
    assert_eq!(status.pending, None);
    assert!(status.session_ended.is_some_and(|at| at < status.since), "{status:?}");
    assert_eq!(status.negotiated.unwrap().hold_time, Some(Duration::from_secs(9)));
}

#[test]
fn what_was_told_and_what_would_be() {
    let mut script = Script::new(speaker(1), PeerConfig { passive: true, ..peer("b", "10.0.0.2") });
    let key = script.speaker.peer_by_name("b").unwrap();
    let net = "10.1.0.0/24".parse().unwrap();
    script.tell(originate(&["10.1.0.0/24"]));
    assert_eq!(script.speaker.explain(key, net), None, "no session");
    script.establish(modern());
    let told: Vec<_> = script.speaker.advertised(key, Family::Ipv4).collect();
    assert_eq!((told.len(), told[0].net), (1, net));
    assert_eq!(
        told[0].attributes.clone().unwrap(),
        script.speaker.explain(key, net).unwrap().unwrap()
    );
    let heard = script.speaker.heard(key, net).unwrap();
    assert!(heard.told && heard.pending.is_none() && heard.attributes == told[0].attributes);
    let now = script.speaker.peer(key).unwrap().since;
    assert!(heard.when.is_some_and(|when| when.from == now && when.until == now), "{heard:?}");
    assert!(script.speaker.heard(key, "10.9.0.0/24".parse().unwrap()).is_some_and(|h| !h.told));
    assert_eq!(script.speaker.routes(Family::Ipv4, None).count(), 1);
    assert_eq!(script.speaker.routes_within("10.0.0.0/8".parse().unwrap()).count(), 1);
    assert!(script.speaker.route_to("10.1.0.7".parse().unwrap()).is_some());
    assert!(script.speaker.route_to("10.2.0.7".parse().unwrap()).is_none());
}

#[test]
fn everything_is_told_again_when_somebody_wants_it() {
    let old = vec![Capability::FourOctetAs(65_002)];
    for (capabilities, can_refresh, updates) in [(modern(), true, 2), (old, false, 1)] {
        let wish = PeerConfig { passive: true, ..peer("b", "10.0.0.2") };
        let mut script = Script::new(speaker(1), wish);
        let key = script.speaker.peer_by_name("b").unwrap();
        script.tell(originate(&["10.1.0.0/24", "2001:db8:1::/64"]));
        script.tell(Event::Retell(key));
        assert!(script.hear().is_empty(), "there is no session");
        script.establish(capabilities);
        let status = script.speaker.peer(key).unwrap();
        assert_eq!(status.negotiated.unwrap().refresh, can_refresh);
        for _ in 0..2 {
            script.tell(Event::Retell(key));
            script.tell(Event::Retell(key));
            let said = script.hear();
            let told = |said: &&Said| matches!(said, Said::Update(_));
            assert_eq!(said.iter().filter(told).count(), updates, "each once: {said:?}");
        }
        assert_eq!(script.speaker.peer(key).unwrap().flaps, 0);
    }
}

/// A driver may move it to a thread of its own.
#[test]
fn it_can_be_sent() {
    fn is_send<T: Send + 'static>() {}
    is_send::<Speaker>();
    is_send::<flock_bgp::PeerStatus>();
}
