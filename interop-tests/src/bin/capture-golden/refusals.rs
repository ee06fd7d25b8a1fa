//! What makes a router end the session: the NOTIFICATION that it sends.

use std::net::Ipv4Addr;

use anyhow::Result;
use rack::capture::{Kind, Message, Open, Wire, message};
use rack::router::Peer;

use crate::golden::{Album, Context};
use crate::stage::{OUR_ASN, Stage, THEM4, US4, config, open, peer4};

/// The NOTIFICATION that a router answers with.
fn refusal(wire: &mut Wire) -> Result<Message> {
    wire.receive_until(&mut Vec::new(), |one| one.kind() == Kind::Notification)
}

fn keep_refusal(album: &Album, name: &str, how: &str, message: &Message) -> Result<()> {
    let (code, subcode) = (message.body().first(), message.body().get(1));
    let numbers = format!("{}/{}", code.unwrap_or(&0), subcode.unwrap_or(&0));
    let expect = format!("NOTIFICATION: {numbers}");
    album.keep(&format!("notification-{name}"), how, Context::PLAIN, &expect, message)
}

pub(crate) fn refused_opens(album: &mut Album) -> Result<()> {
    let cases = [
        ("bad-peer-as", "an OPEN with another AS number", Open::new(65_099, US4)),
        ("unacceptable-hold-time", "an OPEN with hold time 1", Open { hold_time: 1, ..open() }),
        ("unsupported-version", "an OPEN with version 3", Open { version: 3, ..open() }),
        (
            "bad-identifier",
            "an OPEN with identifier 0.0.0.0",
            Open::new(OUR_ASN, Ipv4Addr::UNSPECIFIED),
        ),
    ];
    for (name, what, open) in cases {
        // A router of its own for each: some wait long after an error.
        let stage = Stage::new()?;
        let _router = stage.start(album, config(peer4()))?;
        let mut wire = stage.dial4()?;
        wire.send(&open.bytes())?;
        let kept = refusal(&mut wire).and_then(|message| {
            keep_refusal(album, name, &format!("its answer to {what}"), &message)
        });
        if let Err(error) = kept {
            eprintln!("{} / {name}: {error:#}", album.brand.name());
        }
    }
    Ok(())
}

pub(crate) fn refused_headers(album: &mut Album) -> Result<()> {
    let mut unmarked = message(4, &[]);
    if let Some(first) = unmarked.first_mut() {
        *first = 0;
    }
    let cases = [
        ("not-synchronized", "a header without its marker", unmarked),
        ("bad-length", "a KEEPALIVE of 20 bytes", message(4, &[0])),
        ("bad-type", "a message of type 9", message(9, &[])),
    ];
    after_established(album, &cases)
}

pub(crate) fn refused_updates(album: &mut Album) -> Result<()> {
    // ORIGIN, AS_PATH, and a list of attributes that is longer than the message.
    let mut overrun = vec![0, 0, 0, 200, 0x40, 1, 1, 0];
    overrun.extend([24, 203, 0, 113]);
    let cases = [
        ("malformed-attributes", "an UPDATE whose attributes overrun it", message(2, &overrun)),
        ("invalid-network", "an UPDATE with a prefix of 33 bits", {
            let mut body = vec![0, 0, 0, 20, 0x40, 1, 1, 0, 0x40, 2, 6, 2, 1];
            body.extend(OUR_ASN.to_be_bytes());
            body.extend([0x40, 3, 4, 192, 0, 2, 1]);
            body.extend([33, 203, 0, 113, 0, 0]);
            message(2, &body)
        }),
    ];
    after_established(album, &cases)
}

fn after_established(album: &Album, cases: &[(&str, &str, Vec<u8>)]) -> Result<()> {
    for (name, what, bytes) in cases {
        let stage = Stage::new()?;
        let _router = stage.start(album, config(peer4()))?;
        let (mut wire, _, _) = stage.session(THEM4.into(), &open().bytes())?;
        wire.send(bytes)?;
        let kept = refusal(&mut wire).and_then(|message| {
            keep_refusal(album, name, &format!("its answer to {what}"), &message)
        });
        if let Err(error) = kept {
            eprintln!("{} / {name}: {error:#}", album.brand.name());
        }
    }
    Ok(())
}

pub(crate) fn silence(album: &mut Album) -> Result<()> {
    let stage = Stage::new()?;
    let _router = stage.start(album, config(Peer { hold_time: 3, ..peer4() }))?;
    let (mut wire, _, _) = stage.session(THEM4.into(), &Open { hold_time: 3, ..open() }.bytes())?;
    let last = loop {
        let message = wire.receive()?;
        if message.kind() == Kind::Notification {
            break message;
        }
    };
    keep_refusal(album, "hold-timer-expired", "its answer to three seconds of silence", &last)
}

pub(crate) fn too_many(album: &mut Album) -> Result<()> {
    let stage = Stage::new()?;
    let _router = stage.start(album, config(Peer { max_prefixes: Some(2), ..peer4() }))?;
    let (mut wire, _, _) = stage.session(THEM4.into(), &open().bytes())?;
    let mut body = vec![0, 0, 0, 20, 0x40, 1, 1, 0, 0x40, 2, 6, 2, 1];
    body.extend(OUR_ASN.to_be_bytes());
    body.extend([0x40, 3, 4, 192, 0, 2, 1]);
    for third in 0..4 {
        body.extend([24, 203, 0, third]);
    }
    wire.send(&message(2, &body))?;
    let last = refusal(&mut wire)?;
    keep_refusal(album, "max-prefixes", "its answer to four prefixes where two are allowed", &last)
}

/// An operator clears the session.
pub(crate) fn cleared(album: &mut Album) -> Result<()> {
    let stage = Stage::new()?;
    let router = stage.start(album, config(peer4()))?;
    let (mut wire, _, _) = stage.session(THEM4.into(), &open().bytes())?;
    router.await_established(US4.into())?;
    router.clear(US4.into())?;
    let last = refusal(&mut wire)?;
    keep_refusal(album, "reset", "its session cleared by an operator", &last)
}
