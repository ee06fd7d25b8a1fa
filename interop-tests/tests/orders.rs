//! What an operator wants of one session, with BIRD and FRR at its other end: everything again while
//! the session stays, or a new one with words for the peer.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::net::IpAddr;

use anyhow::{Context, ensure};
use rack::binaries::flock_agent;
use rack::capture::{Kind, Message};
use rack::fabric::Fabric;
use rack::link::Side;
use rack::router::Brand;
use rack::sniffer::Sniffer;
use rack::story::Telling;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

const TORS: [(&str, Brand); 2] = [("tor-a", Brand::Bird), ("tor-b", Brand::Frr)];
/// What the node originates.
const OWN: [&str; 2] = ["2001:db8:0:1::/64", "10.244.1.0/24"];
const WORDS: &str = "new line card, ticket 4711";

/// A cable, overheard.
struct Ear {
    sniffer: Sniffer,
    node: IpAddr,
    tor: IpAddr,
}

impl Ear {
    fn on(fabric: &Fabric, tor: &str) -> Self {
        let link = fabric.link(1, tor).unwrap();
        let (near, far) = (link.plug(Side::Near), link.plug(Side::Far));
        let sniffer = Sniffer::start(near.netns(), near.ifname()).unwrap();
        Self { sniffer, node: near.address(true).unwrap(), tor: far.address(true).unwrap() }
    }

    /// How often somebody said this.
    fn count(&self, speaker: IpAddr, is: impl Fn(&Message) -> bool) -> usize {
        self.sniffer.said_by(speaker).unwrap().iter().filter(|message| is(message)).count()
    }

    /// Requests of the node, UPDATEs with routes of the node and of the ToR.
    fn heard(&self) -> [usize; 3] {
        // RFC 7313: the subtype is between the two numbers of the family.
        let request = |m: &Message| m.kind() == Kind::Refresh && m.body().get(2) == Some(&0);
        let update = |m: &Message| m.kind() == Kind::Update && !m.is_end_of_rib();
        [
            self.count(self.node, request),
            self.count(self.node, update),
            self.count(self.tor, update),
        ]
    }

    /// Awaits that as many more were heard, at least; nothing more where it is nothing.
    fn await_more(&self, before: [usize; 3], more: [usize; 3]) {
        until("what was to be said", PATIENCE, || {
            let heard = self.heard();
            for (at, more) in more.into_iter().enumerate() {
                let grown = heard[at] - before[at];
                ensure!(grown >= more && (more > 0 || grown == 0), "{before:?} to {heard:?}");
            }
            Ok(())
        })
        .telling(|| self.sniffer.story())
        .unwrap();
    }
}

fn peer(fabric: &Fabric, name: &str) -> Value {
    let list = fabric.node(1).unwrap().cli_json(&["bgp", "show", "peers", name]).unwrap();
    list["peers"][0].clone()
}

/// The exit status of a command, what it printed, and its complaint.
fn run(fabric: &Fabric, words: &[&str]) -> (Option<i32>, String, String) {
    let node = fabric.node(1).unwrap();
    let mut command = node.netns().command(flock_agent().unwrap()).unwrap();
    command.args(words).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Awaits that everything is told, both ways, and known at the ToR.
fn await_complete(fabric: &Fabric, name: &str) {
    until(&format!("everything told to {name}"), PATIENCE, || {
        let row = peer(fabric, name);
        let told = |key: &str| row[key] == true;
        ensure!(told("endOfRibSent") && told("endOfRibReceived"), "{row}");
        ensure!(row["advertised"] == 2 && row["accepted"] == 2, "{row}");
        for prefix in OWN {
            let paths = fabric.tor(name)?.router.paths(prefix)?;
            ensure!(paths.iter().any(|path| !path.stale), "{prefix}: {paths:?}");
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn everything_again_or_everything_anew() {
    let builder =
        TORS.iter().fold(Fabric::builder(), |builder, (name, brand)| builder.tor(name, *brand));
    let mut fabric = builder.nodes(1).build().unwrap();
    let ears = TORS.map(|(name, _)| Ear::on(&fabric, name));
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    for (name, _) in TORS {
        await_complete(&fabric, name);
    }
    for ((name, _), ear) in TORS.iter().zip(&ears) {
        refresh(&fabric, name, ear);
        reset(&fabric, name, ear);
    }
    refusals(&fabric);
}

/// The session stays, and says what it is to say.
fn refresh(fabric: &Fabric, name: &str, ear: &Ear) {
    let flaps = peer(fabric, name)["flaps"].clone();
    for (flag, more, words) in [
        ("--in", [2, 0, 2], "is asked for everything again"),
        ("--out", [0, 2, 0], "is told everything again: 2 routes told"),
        ("", [2, 2, 2], "is told everything again"),
    ] {
        let before = ear.heard();
        let words_of_command = ["bgp", "refresh", name, flag];
        let (status, said, _) = run(fabric, &words_of_command[..3 + usize::from(!flag.is_empty())]);
        assert_eq!((status, said.contains(words)), (Some(0), true), "{name} {flag}: {said}");
        ear.await_more(before, more);
        await_complete(fabric, name);
    }
    assert_eq!(peer(fabric, name)["flaps"], flaps, "the session is the same");
    let log = fabric.node(1).unwrap().log().unwrap();
    assert_eq!(
        log.matches(&format!("refreshed, as the operator wants peer=\"{name}\"")).count(),
        3
    );
}

/// The session ends with the words, and everything is back.
fn reset(fabric: &Fabric, name: &str, ear: &Ear) {
    let flaps = peer(fabric, name)["flaps"].as_u64().unwrap();
    let (status, said, _) = run(fabric, &["bgp", "reset", name, "--yes", "--message", WORDS]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(
        said,
        format!("The session with {name} ended and begins anew; it was told {WORDS:?}.\n")
    );
    let mut wanted = vec![6, 4, u8::try_from(WORDS.len()).unwrap()];
    wanted.extend(WORDS.bytes());
    until("Cease with words", PATIENCE, || {
        let said = ear.sniffer.said_by(ear.node)?;
        let mut ends = said.iter().filter(|message| message.kind() == Kind::Notification);
        let end = ends.next_back().context("no NOTIFICATION")?;
        ensure!(end.body() == wanted, "{end:?}");
        Ok(())
    })
    .telling(|| ear.sniffer.story())
    .unwrap();
    fabric.await_session(1, name).unwrap();
    await_complete(fabric, name);
    let row = peer(fabric, name);
    assert_eq!(row["flaps"], flaps + 1, "{row}");
    let error = row["lastError"].as_str().unwrap();
    assert!(error.contains("Administrative Reset (6/4)") && error.contains(WORDS), "{error}");
    let router = &fabric.tor(name).unwrap().router;
    let log = router.log();
    let heard = log.to_lowercase();
    assert!(heard.contains("administrative reset"), "{}", router.log_tail());
}

fn refusals(fabric: &Fabric) {
    let table: [(&[&str], i32, &str); 6] = [
        (&["bgp", "refresh", "tor-x"], 1, "no peer is called \"tor-x\"; there are: tor-a, tor-b"),
        (&["bgp", "reset", "tor-x", "--yes"], 1, "there are: tor-a, tor-b"),
        (&["bgp", "reset", "tor-a"], 2, "say --yes"),
        (&["bgp", "reset", "tor-x"], 1, "there are: tor-a, tor-b"),
        (&["bgp", "reset"], 2, "required"),
        (&["bgp", "refresh", "tor-a", "--in", "--out"], 2, "cannot be used with"),
    ];
    let before = TORS.map(|(name, _)| peer(fabric, name)["flaps"].clone());
    for (words, code, complaint) in table {
        let (status, said, error) = run(fabric, words);
        assert_eq!((status, said.as_str()), (Some(code), ""), "{words:?}: {error}");
        assert!(error.contains(complaint), "{words:?}: {error}");
    }
    assert_eq!(TORS.map(|(name, _)| peer(fabric, name)["flaps"].clone()), before);
}
