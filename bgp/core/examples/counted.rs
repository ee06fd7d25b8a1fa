//! A fixed amount of the speaker's work, for a counter of instructions: no socket, no clock, no chance, so
//! that the same build takes the same number of them each time.
//!
//! `counted change ORIGINATED TIMES`: a prefix is originated and told, withdrawn and told, so many times
//! while so many others are originated. `counted transit ROUTES TIMES`: so many routes are learned from one
//! peer and passed on to another, once or (TIMES 0) not at all. What one time costs is the difference
//! between two runs, divided: what setting up takes is in both.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it is run by a benchmark, and fails by panicking"
)]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::BytesMut;
use flock_bgp::{
    Action, AddressRule, Community, ConnId, Event, Import, NextHops, Now, Origination, PeerAsn,
    PeerConfig, Speaker, SpeakerConfig, Wishes,
};
use ipnet::{IpNet, Ipv4Net};

const ACCEPTED: ConnId = ConnId(1);
/// Of so many routes one has attributes of its own.
const ROUTES_A_SET: u32 = 10;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let scenario = arguments.next().expect("a scenario");
    let mut number = || arguments.next().expect("a number").parse::<u32>().unwrap();
    let (size, times) = (number(), number());
    match scenario.as_str() {
        "change" => change(size, times),
        "transit" => transit(size, times),
        other => panic!("there is no scenario {other}"),
    }
}

fn change(originated: u32, times: u32) {
    let (mut node, mut tor) = (speaker(1), speaker(2));
    let link = connect(&mut node, &mut tor, [1, 2]);
    node.handle(Now::default(), all(originated, |_| Origination::default()));
    exchange(&mut node, &mut tor, &link);
    let flapping = prefix(originated);
    for _ in 0..times {
        for wish in [Some(Origination::default()), None] {
            let wishes = Wishes::Some(vec![(flapping, wish)]);
            node.handle(Now::default(), Event::Originate(wishes));
            black_box(said(&mut node, link.0));
        }
    }
}

fn transit(routes: u32, times: u32) {
    let (mut feeder, mut middle, mut sink) = (speaker(1), speaker(2), speaker(3));
    let inward = connect(&mut feeder, &mut middle, [1, 2]);
    let outward = connect(&mut middle, &mut sink, [2, 3]);
    let with_set = |number: u32| Origination {
        communities: vec![Community((65_000 << 16) | (number / ROUTES_A_SET))],
        ..Origination::default()
    };
    feeder.handle(Now::default(), all(routes, with_set));
    let told = said(&mut feeder, inward.0);
    if times > 0 {
        middle.handle(Now::default(), Event::Received(inward.1, &told));
        let passed_on = said(&mut middle, outward.0);
        assert!(passed_on.len() > routes as usize, "nothing came out");
    }
}

fn speaker(number: u8) -> Speaker {
    let config =
        SpeakerConfig::new(65_000 + u32::from(number), [10, 0, 0, number].into(), number.into());
    Speaker::new(SpeakerConfig { transit: true, ..config })
}

fn peer(number: u8, passive: bool) -> PeerConfig {
    let everything = AddressRule { net: IpNet::default(), min: 0, max: 32 };
    PeerConfig {
        passive,
        hold_time: None,
        import: Some(Import { accept: vec![everything], max_prefixes: u32::MAX }),
        next_hops: NextHops { ipv4: Some([192, 0, 2, 1].into()), ipv6: None },
        ..PeerConfig::new(&number.to_string(), address(number), PeerAsn::External)
    }
}

fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, number).into()
}

/// Brings a session up; `numbers` are theirs. Returns what each of the two calls the connection.
fn connect(dialler: &mut Speaker, other: &mut Speaker, [from, to]: [u8; 2]) -> (ConnId, ConnId) {
    let now = Now::default();
    // One that has peers keeps them: the middle one accepts first and dials then.
    let known = if from == 2 { vec![peer(1, true)] } else { Vec::new() };
    other.handle(now, Event::Peers(vec![peer(from, true)]));
    dialler.handle(now, Event::Peers(known.into_iter().chain([peer(to, false)]).collect()));
    let mut dialled = None;
    while let Some(action) = dialler.poll() {
        if let Action::Dial { conn, remote, .. } = action {
            dialled = Some((conn, remote));
        }
    }
    let (conn, remote) = dialled.expect("nobody dials");
    let near = SocketAddr::new(address(from), 40_000);
    other.handle(now, Event::Accepted(ACCEPTED, remote, near));
    dialler.handle(now, Event::Dialled(conn, near, remote));
    let link = (conn, ACCEPTED);
    exchange(dialler, other, &link);
    link
}

/// Until neither has more to say.
fn exchange(one: &mut Speaker, other: &mut Speaker, link: &(ConnId, ConnId)) {
    loop {
        let (there, back) = (said(one, link.0), said(other, link.1));
        if there.is_empty() && back.is_empty() {
            return;
        }
        other.handle(Now::default(), Event::Received(link.1, &there));
        one.handle(Now::default(), Event::Received(link.0, &back));
    }
}

/// Everything that a speaker has for a connection.
fn said(speaker: &mut Speaker, conn: ConnId) -> BytesMut {
    while speaker.poll().is_some() {}
    let mut all = BytesMut::new();
    loop {
        let before = all.len();
        speaker.transmit(conn, &mut all);
        if all.len() == before {
            return all;
        }
    }
}

fn all(count: u32, origination: impl Fn(u32) -> Origination) -> Event<'static> {
    let wishes = (0..count).map(|number| (prefix(number), origination(number)));
    Event::Originate(Wishes::All(wishes.collect()))
}

/// A /24, one after the other.
fn prefix(number: u32) -> IpNet {
    Ipv4Net::new(Ipv4Addr::from((20 << 24) + (number << 8)), 24).unwrap().into()
}
