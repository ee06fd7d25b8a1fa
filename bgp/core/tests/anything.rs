//! Anything in any order: events that make no sense, bytes that make none, and time. The speaker
//! stays whole, whatever comes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::BytesMut;
use flock_bgp::{
    Action, ConnId, Event, Farewell, Now, PeerConfig, PeerKey, Refusal, Speaker, State,
};
use proptest::collection::vec;
use proptest::prelude::*;
use world::script::{keepalive, modern, open};
use world::wishes::{everything, networks, number, originate, withdraw};
use world::{peer, speaker};

#[derive(Debug, Clone)]
enum Move {
    Peers(u8),
    Originate(u32, bool),
    Drain(bool),
    Networks(bool, bool),
    Refresh(u16),
    Retell(u16),
    Reset(u16),
    Complete,
    Farewell(bool),
    /// What a dial led to: the nth that was asked for.
    Dialled(usize),
    Refused(usize),
    Accepted(u8),
    Closed(usize),
    Say(usize, Speech),
    Sent(usize),
    Take(usize),
    Wait(u64),
}

#[derive(Debug, Clone)]
enum Speech {
    Open,
    Keepalive,
    Hello,
    Octets(Vec<u8>),
    Framed(u8, Vec<u8>),
}

fn speech() -> impl Strategy<Value = Speech> {
    prop_oneof![
        2 => Just(Speech::Open),
        2 => Just(Speech::Keepalive),
        6 => Just(Speech::Hello),
        1 => vec(any::<u8>(), 0..60).prop_map(Speech::Octets),
        3 => (0..7_u8, vec(any::<u8>(), 0..60)).prop_map(|(kind, body)| Speech::Framed(kind, body)),
    ]
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        1 => any::<u8>().prop_map(Move::Peers),
        2 => (0..50_u32, any::<bool>()).prop_map(|(n, on)| Move::Originate(n, on)),
        1 => any::<bool>().prop_map(Move::Drain),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(a, b)| Move::Networks(a, b)),
        1 => (0..4_u16).prop_map(Move::Refresh),
        1 => (0..4_u16).prop_map(Move::Retell),
        1 => (0..4_u16).prop_map(Move::Reset),
        1 => Just(Move::Complete),
        4 => (0..20_usize).prop_map(Move::Dialled),
        2 => (0..20_usize).prop_map(Move::Refused),
        6 => (0..4_u8).prop_map(Move::Accepted),
        3 => (0..20_usize).prop_map(Move::Closed),
        16 => ((0..20_usize), speech()).prop_map(|(conn, speech)| Move::Say(conn, speech)),
        2 => (0..20_usize).prop_map(Move::Sent),
        4 => (0..20_usize).prop_map(Move::Take),
        4 => (0..40_u64).prop_map(Move::Wait),
        1 => Just(Move::Wait(400)),
    ]
}

fn bytes(speech: &Speech) -> Vec<u8> {
    match speech {
        Speech::Open => open(modern()),
        Speech::Keepalive => keepalive(),
        Speech::Hello => [open(modern()), keepalive()].concat(),
        Speech::Octets(octets) => octets.clone(),
        Speech::Framed(kind, body) => {
            let length = u16::try_from(19 + body.len()).unwrap();
            [&[0xFF; 16][..], &length.to_be_bytes(), &[*kind], body].concat()
        }
    }
}

/// Three peers at most, in eight kinds each.
fn peers(bits: u8) -> Vec<PeerConfig> {
    (2..5_u8)
        .filter(|n| bits >> (n - 2) & 1 == 1)
        .map(|n| {
            let mut wish = peer(&format!("p{n}"), &format!("10.0.0.{n}"));
            wish.asn = flock_bgp::PeerAsn::Number(65_002);
            wish.passive = bits & 8 != 0;
            wish.hold_time = (bits & 16 != 0).then_some(Duration::from_secs(9));
            wish.shutdown = (bits & 32 != 0).then(|| "so".into());
            if bits & 64 != 0 {
                wish.graceful_restart = None;
                wish.import = Some(flock_bgp::Import { accept: everything(), max_prefixes: 1 });
            }
            wish.extended_messages = bits & 128 != 0;
            if bits & 192 == 192 {
                wish.connect_retry = Duration::ZERO;
            }
            wish
        })
        .collect()
}

struct Driver {
    speaker: Speaker,
    now: Now,
    known: Vec<ConnId>,
    /// Dials under way and connections: what the speaker may speak of.
    open: BTreeSet<ConnId>,
    next: u64,
}

impl Driver {
    fn tell(&mut self, event: Event<'_>) {
        self.speaker.handle(self.now, event);
        while let Some(action) = self.speaker.poll() {
            match action {
                Action::Dial { conn, patience, .. } => {
                    assert!(conn.0 % 2 == 0 && patience <= Duration::from_secs(5));
                    assert!(!self.known.contains(&conn), "numbers are not reused");
                    self.known.push(conn);
                    self.open.insert(conn);
                }
                Action::Wake(conn) => assert!(self.open.contains(&conn), "a wake for no one"),
                Action::Close(conn) => {
                    assert!(self.open.remove(&conn), "closed twice, or never open");
                    let mut out = BytesMut::new();
                    self.speaker.transmit(conn, &mut out);
                    let mut more = BytesMut::new();
                    self.speaker.transmit(conn, &mut more);
                    assert!(more.is_empty(), "last words are said once");
                }
                Action::Admit { .. } | Action::Expel { .. } | Action::Notice(_) => {}
            }
        }
    }

    fn make(&mut self, what: Move) {
        let conn = |at: usize, known: &[ConnId]| {
            known.get(known.len().wrapping_sub(1 + at)).copied().unwrap_or(ConnId(4_000_000))
        };
        let at = |n: u8| format!("10.0.0.{n}:179").parse().unwrap();
        match what {
            Move::Peers(bits) => self.tell(Event::Peers(peers(bits))),
            Move::Originate(n, true) => self.tell(originate(&[&number(n)])),
            Move::Originate(n, false) => self.tell(withdraw(&[&number(n)])),
            Move::Drain(on) => self.tell(Event::Drain(on)),
            Move::Networks(connected, own) => {
                let some = |net: &'static str, on: bool| if on { vec![net] } else { vec![] };
                let own = some("100.64.0.0/18", own);
                self.tell(networks(&some("10.0.0.0/24", connected), &own));
            }
            Move::Refresh(key) => self.tell(Event::Refresh(PeerKey(key))),
            Move::Retell(key) => self.tell(Event::Retell(PeerKey(key))),
            Move::Reset(key) => self.tell(Event::Reset(PeerKey(key), "so".into())),
            Move::Complete => self.tell(Event::OriginationsComplete),
            Move::Farewell(true) => self.tell(Event::Farewell(Farewell::Silent)),
            Move::Farewell(false) => self.tell(Event::Farewell(Farewell::Shutdown("so".into()))),
            Move::Dialled(n) => {
                let conn = conn(n, &self.known);
                if self.open.contains(&conn) && conn.0 % 2 == 0 {
                    self.tell(Event::Dialled(conn, at(1), at(2)));
                }
            }
            Move::Refused(n) => {
                let conn = conn(n, &self.known);
                if conn.0 % 2 == 0 {
                    self.open.remove(&conn);
                    self.tell(Event::Refused(conn, Refusal { what: "so".into() }));
                }
            }
            Move::Accepted(n) => {
                let conn = ConnId(self.next);
                self.next += 2;
                self.known.push(conn);
                self.open.insert(conn);
                self.tell(Event::Accepted(conn, at(1), at(2 + n)));
            }
            Move::Closed(n) => {
                let conn = conn(n, &self.known);
                self.open.remove(&conn);
                self.tell(Event::Closed(conn, None));
            }
            Move::Say(n, speech) => {
                self.tell(Event::Received(conn(n, &self.known), &bytes(&speech)));
            }
            Move::Sent(n) => self.tell(Event::Sent(conn(n, &self.known))),
            Move::Take(n) => {
                let conn = conn(n, &self.known);
                for _ in 0..1_000 {
                    let mut out = BytesMut::new();
                    self.speaker.transmit(conn, &mut out);
                    if out.is_empty() {
                        return;
                    }
                }
                panic!("it never stops talking");
            }
            Move::Wait(seconds) => {
                let until = Now(self.now.0 + Duration::from_secs(seconds));
                // A deadline that is due must go away by a tick.
                for _ in 0..60_000 {
                    match self.speaker.next_deadline() {
                        Some(due) if due <= until => {
                            self.now = self.now.max(due);
                            self.tell(Event::Tick);
                        }
                        _ => {
                            self.now = until;
                            return;
                        }
                    }
                }
                panic!("time does not pass");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn stays_whole(first in any::<u8>(), made in vec(moves(), 0..100), silent in any::<bool>()) {
        let mut driver = Driver {
            speaker: Speaker::new(speaker(1)),
            now: Now::default(),
            known: Vec::new(),
            open: BTreeSet::new(),
            next: 1,
        };
        driver.make(Move::Peers(first | 7));
        for one in made {
            driver.make(one);
        }
        // Whatever was: all goes, and nothing is left.
        driver.make(Move::Farewell(silent));
        for status in driver.speaker.peers() {
            assert_eq!(status.state, State::Idle);
        }
        driver.tell(Event::Peers(vec![]));
        prop_assert!(driver.open.is_empty(), "left open: {:?}", driver.open);
        prop_assert_eq!(driver.speaker.next_deadline(), None);
        prop_assert!(driver.speaker.routes(flock_bgp::Family::Ipv4, None)
            .all(|route| route.paths.iter().all(|path| path.peer.is_none())));
    }
}
