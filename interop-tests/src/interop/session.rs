//! How sessions begin and end: who dials, collisions, silence, farewells.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Tally;
use super::stage::{OUR4, Stage, THEM4, Transport, US4};
use crate::capture::Kind;
use crate::netns::Netns;
use crate::router::{Brand, Router};
use crate::sniffer::Sniffer;
use crate::speaker::Speaker;
use crate::story::Telling;
use crate::wait::{PATIENCE, until};

pub(super) const DIALLING_CELLS: &[&str] = &["they dial, we wait"];
pub(super) const COLLISION_CELLS: &[&str] = &[
    "both dial at once",
    "collision, our identifier lower",
    "collision, our identifier higher",
    "collision with a session",
];
pub(super) const HOLD_CELLS: &[&str] =
    &["hold timer: they fall silent", "hold timer: we fall silent"];
pub(super) const SHUTDOWN_CELLS: &[&str] =
    &["shutdown by us, with text", "shutdown by them, with text"];

pub(super) fn dialling(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::new(brand, Transport::Ipv4)?;
    stage.their_peer(|peer| peer.passive = false);
    stage.our_peer("passive", json!(true))?;
    // We first: whoever finds nobody waits before it tries again.
    let sniffer = Sniffer::start(&stage.us, "eth0")?;
    let mut speaker = stage.start_speaker()?;
    let router = stage.start_router()?;
    tally.cell("they dial, we wait", || {
        speaker.await_up(0).telling(|| router.log_tail())?;
        router.await_established(US4.into())?;
        let streams = sniffer.streams()?;
        let dialled = streams.iter().any(|one| one.from.ip() == US4 && one.to.port() == 179);
        ensure!(!dialled, "we dialled although we are passive");
        Ok(())
    });
    Ok(())
}

pub(super) fn collision(brand: Brand, tally: &mut Tally) -> Result<()> {
    tally.cell("both dial at once", || at_once(brand));
    tally.cell("collision, our identifier lower", || collide(brand, LOWER));
    tally.cell("collision, our identifier higher", || collide(brand, HIGHER));
    tally.cell("collision with a session", || collide_late(brand));
    Ok(())
}

/// Our identifier below and above the router's, which is its address.
const LOWER: &str = "192.0.2.1";
const HIGHER: &str = "203.0.113.1";

/// Two that dial each other on a network that holds things back.
struct Collision {
    stage: Stage,
    sniffer: Sniffer,
    router: Router,
    speaker: Speaker,
}

impl Collision {
    /// Both have dialled, and nothing came through yet.
    fn new(brand: Brand, identifier: &str) -> Result<Self> {
        let mut stage = Stage::new(brand, Transport::Ipv4)?;
        stage.their_peer(|peer| peer.passive = false);
        stage.ours("routerId", json!(identifier))?;
        stage.ours("originate", json!([{ "prefix": OUR4 }]))?;
        // One long attempt instead of many short ones.
        stage.our_peer("connectRetry", json!(30.0))?;
        let sniffer = Sniffer::start(&stage.us, "eth0")?;
        hold_back(&stage.us, &[Held::Everything])?;
        let router = stage.start_router()?;
        let speaker = stage.start_speaker()?;
        let both = Self { stage, sniffer, router, speaker };
        until("them to dial", PATIENCE, || {
            let streams = both.sniffer.streams()?;
            ensure!(streams.iter().any(|stream| stream.from.ip() == THEM4), "they have not");
            Ok(())
        })
        .telling(|| both.story())?;
        Ok(both)
    }

    /// Lets the connections be made, and awaits both; messages wait.
    fn connect(&self) -> Result<()> {
        hold_back(&self.stage.us, &[Held::OnOurs, Held::OnTheirs])?;
        until("two connections", PATIENCE, || {
            let connections = connections(&self.stage.us, THEM4.into())?;
            ensure!(connections.len() == 2, "there are {connections:?}");
            Ok(())
        })
        .telling(|| self.story())
    }

    fn story(&self) -> String {
        [self.router.log_tail(), self.speaker.story(), self.sniffer.story()].join("\n")
    }

    /// Awaits that there is one connection, and a session over it; returns the
    /// connection.
    fn one_session(&mut self) -> Result<String> {
        let Self { stage, speaker, router, .. } = self;
        router.await_path(OUR4, |_| true)?;
        until("one connection and one session", PATIENCE, || {
            let mut connections = connections(&stage.us, THEM4.into())?;
            ensure!(connections.len() == 1, "there are {connections:?}");
            ensure!(established(speaker)?, "we are not Established");
            connections.pop().context("no connection")
        })
    }
}

/// Everything is let through at once; in the end there is one session.
fn at_once(brand: Brand) -> Result<()> {
    let mut both = Collision::new(brand, LOWER)?;
    hold_back(&both.stage.us, &[])?;
    both.one_session().telling(|| both.story()).map(drop)
}

/// Two connections are there before anybody has said OPEN; in the end there is
/// one session. Which connection it has is up to the timers of the kernel, which
/// sends again what was held back: by RFC 4271 §6.8 the one that the higher
/// identifier dialled, unless the other was Established already.
fn collide(brand: Brand, identifier: &str) -> Result<()> {
    let mut both = Collision::new(brand, identifier)?;
    both.connect()?;
    hold_back(&both.stage.us, &[])?;
    both.one_session().telling(|| both.story())?;
    let opened = opened(&both.sniffer, US4.into())?;
    ensure!(opened >= 2, "there was no collision\n{}", both.story());
    Ok(())
}

/// Two connections are there, and then only ours is let speak: it becomes a
/// session. When the OPEN of the other comes through, that other one is closed,
/// although the higher identifier dialled it, and the session goes on
/// (RFC 4271 §6.8, last paragraph).
fn collide_late(brand: Brand) -> Result<()> {
    let mut both = Collision::new(brand, LOWER)?;
    both.connect()?;
    hold_back(&both.stage.us, &[Held::OnTheirs])?;
    both.router.await_path(OUR4, |_| true).telling(|| both.story())?;
    hold_back(&both.stage.us, &[])?;
    let survivor = both.one_session().telling(|| both.story())?;
    let dialled_by_us = survivor.contains(&format!("{THEM4}:179"));
    let ups = both.speaker.events(0, "up").len();
    ensure!(
        dialled_by_us && ups == 1,
        "the session came up {ups} times; {survivor} survived\n{}",
        both.story()
    );
    Ok(())
}

/// On how many connections an address has said OPEN.
fn opened(sniffer: &Sniffer, speaker: IpAddr) -> Result<usize> {
    let streams = sniffer.streams()?;
    let opened = streams.iter().filter(|stream| {
        let said = stream.messages.iter().any(|message| message.kind() == Kind::Open);
        stream.from.ip() == speaker && said
    });
    Ok(opened.count())
}

/// What the network holds back.
#[derive(Clone, Copy)]
enum Held {
    Everything,
    /// Messages on the connection that we dialled.
    OnOurs,
    /// Messages on the connection that they dialled.
    OnTheirs,
}

/// Drops such packets on their way in and out, and no others any more.
fn hold_back(netns: &Netns, held: &[Held]) -> Result<()> {
    let mut rules =
        String::from("add table inet hold; delete table inet hold; add table inet hold;");
    for (hook, (ours, theirs)) in [("input", ("sport", "dport")), ("output", ("dport", "sport"))] {
        rules += &format!("add chain inet hold {hook} {{ type filter hook {hook} priority 0; }};");
        for held in held {
            // An acknowledgement fits into 64 bytes, an OPEN does not.
            let such = match held {
                Held::Everything => "meta l4proto tcp".to_owned(),
                Held::OnOurs => format!("tcp {ours} 179 ip length > 64"),
                Held::OnTheirs => format!("tcp {theirs} 179 ip length > 64"),
            };
            rules += &format!("add rule inet hold {hook} {such} drop;");
        }
    }
    netns.exec("nft", &[&rules]).map(drop)
}

fn established(speaker: &mut Speaker) -> Result<bool> {
    let peers = speaker.peers()?;
    let state = peers.first().and_then(|peer| peer.get("state")).and_then(Value::as_str);
    Ok(state == Some("Established"))
}

/// The established TCP connections to an address, as the kernel lists them.
fn connections(netns: &Netns, with: IpAddr) -> Result<Vec<String>> {
    let shown = netns.exec("ss", &["-Htn", "state", "established"])?;
    let with = format!("{with}:");
    Ok(shown.lines().filter(|line| line.contains(&with)).map(str::to_owned).collect())
}

pub(super) fn hold_timer(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::new(brand, Transport::Ipv4)?;
    stage.their_peer(|peer| peer.hold_time = 3);
    stage.our_peer("holdTime", json!(3))?;
    let (router, mut speaker) = stage.establish()?;
    tally.cell("hold timer: they fall silent", || {
        let mark = speaker.mark();
        router.freeze()?;
        let down = speaker.await_down(mark)?;
        code(&down, 4, 0)?;
        ensure!(down.get("sent") == Some(&json!(true)), "it was not we who ended it: {down}");
        router.thaw()?;
        speaker.await_up(mark).telling(|| router.log_tail())?;
        router.await_established(US4.into())
    });
    tally.cell("hold timer: we fall silent", || {
        speaker.freeze()?;
        router.await_state(US4.into(), |state| state != "Established")?;
        let mark = speaker.mark();
        speaker.thaw()?;
        // Ours has expired as well by now; either may be told.
        let down = speaker.await_down(mark)?;
        code(&down, 4, 0)
    });
    Ok(())
}

pub(super) fn shutdown(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::new(brand, Transport::Ipv4)?;
    stage.ours("originate", json!([{ "prefix": OUR4 }]))?;
    let (router, mut speaker) = stage.establish()?;
    tally.cell("shutdown by us, with text", || {
        router.await_path(OUR4, |_| true)?;
        let status = speaker.farewell(&json!({ "text": "node drained for kernel 6.12" }))?;
        ensure!(status.success(), "the speaker ended with {status}");
        router.await_log("node drained for kernel 6.12")?;
        router.await_no_path(OUR4)
    });
    tally.cell("shutdown by them, with text", || {
        let mut speaker = stage.start_speaker()?;
        speaker.await_up(0).telling(|| router.log_tail())?;
        router.await_established(US4.into())?;
        let mark = speaker.mark();
        router.shutdown(US4.into(), "rack 12 is moved")?;
        let down = speaker.await_down(mark)?;
        code(&down, 6, 2)?;
        let text = down.get("text").and_then(Value::as_str).unwrap_or_default();
        ensure!(text == "rack 12 is moved", "we heard {text:?}: {down}");
        Ok(())
    });
    Ok(())
}

/// Whether a session ended with this NOTIFICATION.
pub(super) fn code(down: &Value, code: u64, subcode: u64) -> Result<()> {
    let number = |key: &str| down.get(key).and_then(Value::as_u64);
    ensure!(
        number("code") == Some(code) && number("subcode") == Some(subcode),
        "not {code}/{subcode}: {down}"
    );
    Ok(())
}
