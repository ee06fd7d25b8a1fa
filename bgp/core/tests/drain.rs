//! A node that goes: when everything is told, and what its peers hear in which order.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use std::time::Duration;

use bytes::BytesMut;
use flock_bgp::{Event, Family, Origination, PeerConfig, SpeakerConfig, Wishes};
use flock_bgp_wire::{Context, Message, Refresh, RefreshKind, decode, encode, frame};
use world::script::{Said, Script, keepalive, modern, open, written};
use world::wishes::{number, originate, withdraw};
use world::{Faults, World, peer, speaker};

const MINUTE: Duration = Duration::from_secs(60);

/// More than goes into one transmit.
const COUNT: u32 = 20_000;

fn passive() -> PeerConfig {
    PeerConfig { passive: true, ..peer("b", "10.0.0.2") }
}

fn shut(wish: PeerConfig) -> Event<'static> {
    Event::Peers(vec![PeerConfig { shutdown: Some("bye".into()), ..wish }])
}

/// What `a` said, in short.
fn said(world: &World) -> Vec<&'static str> {
    let [pipe] = &world.pipes[..] else { panic!("one connection was enough") };
    let lane = (0..2).find(|end| pipe.ends[*end].0 == 0).unwrap();
    let mut rest = &pipe.lanes[lane].log[..];
    let context = Context { four_octet_as: true, ..Context::default() };
    let mut said = Vec::new();
    while let Some(length) = frame::length(rest, true).unwrap() {
        let (message, behind) = rest.split_at(length);
        rest = behind;
        said.push(match decode(message, &context).unwrap() {
            Message::Update(update) if update.end_of_rib.is_some() => "end",
            Message::Update(update) if !update.withdrawn.is_empty() => "withdraw",
            Message::Update(_) => "announce",
            Message::Notification(n) if (n.code, n.subcode) == (6, 2) => "cease",
            Message::Notification(_) => "error",
            Message::Open(_) | Message::Keepalive | Message::Refresh(_) => continue,
        });
    }
    said
}

/// The whole walk over a socket that takes little at a time: the community, time, withdrawals,
/// everything told, the Cease.
#[test]
fn withdrawals_are_heard_before_the_cease_where_they_are_waited_for() {
    let mut world = World::new(1, Faults { socket: 5_000, delay: 20, ..Faults::default() });
    world.add("10.0.0.1", speaker(1));
    world.add("10.0.0.2", speaker(2));
    let nets: Vec<String> = (0..COUNT).map(number).collect();
    let nets: Vec<&str> = nets.iter().map(String::as_str).collect();
    world.tell(0, originate(&nets));
    world.tell(1, Event::Peers(vec![PeerConfig { passive: true, ..peer("a", "10.0.0.1") }]));
    world.tell(0, Event::Peers(vec![peer("b", "10.0.0.2")]));
    world.until("told", MINUTE, |w| w.nodes[1].kernel.len() == 20_000);
    world.tell(0, Event::Drain(true));
    world.until("drained", MINUTE, |w| w.nodes[0].speaker.settled());
    world.tell(0, Event::Originate(Wishes::All(vec![])));
    assert!(!world.nodes[0].speaker.settled());
    world.until("withdrawn", MINUTE, |w| w.nodes[0].speaker.settled());
    world.tell(0, shut(peer("b", "10.0.0.2")));
    world.run(MINUTE);
    assert!(world.nodes[1].kernel.is_empty());
    let said = said(&world);
    assert_eq!(said.last(), Some(&"cease"));
    let withdrawals = said.iter().rev().skip(1).take_while(|what| **what == "withdraw").count();
    assert!(withdrawals > 1, "{withdrawals}");
    assert_eq!(withdrawals, said.iter().filter(|what| **what == "withdraw").count());
    let all = world.nodes[0].speaker.advertised(flock_bgp::PeerKey(0), Family::Ipv4).count();
    assert_eq!((all, world.flaps(1)), (0, 1));
}

/// The Cease itself takes everything back: what is pending then is not said.
#[test]
fn a_shutdown_that_does_not_wait_says_the_cease_alone() {
    let mut script = Script::new(speaker(1), passive());
    script.tell(originate(&["10.1.0.0/24"]));
    script.establish(modern());
    script.tell(withdraw(&["10.1.0.0/24"]));
    script.tell(shut(passive()));
    assert_eq!(script.hear(), [Said::Notification(6, 2, b"\x03bye".to_vec())]);
    assert!(script.speaker.settled(), "nobody is left to be told");
}

/// Something that is to be told, in words and done.
type Step<'a> = (&'a str, &'a dyn Fn(&mut Script));

#[test]
fn settled_is_when_everything_was_pulled() {
    let mut script = Script::new(speaker(1), passive());
    script.tell(originate(&["10.1.0.0/24"]));
    assert!(script.speaker.settled(), "nobody is there to be told");
    script.connect();
    script.say(&[open(modern()), keepalive()].concat());
    assert!(!script.speaker.settled(), "a session begins");
    script.hear();
    assert!(script.speaker.settled());
    let refresh = |kind| written(|out| encode::refresh(Refresh { afi: 2, safi: 1, kind }, out));
    let steps: [Step<'_>; 5] = [
        ("a route", &|script| script.tell(originate(&["10.2.0.0/24"]))),
        ("a withdrawal", &|script| script.tell(withdraw(&["10.2.0.0/24"]))),
        ("a community on everything", &|script| script.tell(Event::Drain(true))),
        ("a refresh of nothing", &|script| script.say(&refresh(RefreshKind::Request))),
        ("routes for more than a transmit, in one batch", &|script| {
            let wishes = (0..5_000).map(|n| {
                let origination = Origination { med: Some(n), ..Origination::default() };
                (number(n).parse().unwrap(), Some(origination))
            });
            script.tell(Event::Originate(Wishes::Some(wishes.collect())));
            script.speaker.transmit(script.conn, &mut BytesMut::new());
        }),
    ];
    for (what, step) in steps {
        step(&mut script);
        assert!(!script.speaker.settled(), "{what}");
        script.hear();
        assert!(script.speaker.settled(), "{what}");
    }
    script.tell(originate(&["10.1.0.0/24"]));
    assert!(script.speaker.settled(), "nothing changed");
    script.tell(withdraw(&["10.1.0.0/24"]));
    script.tell(Event::Closed(script.conn, None));
    assert!(script.speaker.settled(), "the session is over");
}

#[test]
fn an_end_of_rib_that_is_held_back_is_not_waited_for() {
    let config = SpeakerConfig { hold_end_of_rib: true, ..speaker(1) };
    let mut script = Script::new(config, passive());
    script.tell(originate(&["10.1.0.0/24"]));
    script.connect();
    script.say(&[open(modern()), keepalive()].concat());
    assert!(!script.speaker.settled());
    script.hear();
    assert!(script.speaker.settled(), "the rest waits for us");
    script.tell(Event::OriginationsComplete);
    assert!(!script.speaker.settled());
    let both = [Said::EndOfRib(Family::Ipv4), Said::EndOfRib(Family::Ipv6)];
    assert_eq!(script.hear(), both);
    assert!(script.speaker.settled());
}
