//! Partners that behave as nobody should: memory stays bounded and others are not disturbed.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flock_bgp::{Origination, Wishes};
use flock_bgp_io::{Pace, Rate};
use ipnet::{IpNet, Ipv4Net};
use tokio::io::AsyncWriteExt as _;

use crate::partner::{NOTIFICATION, OPEN, Partner, UPDATE, keepalive, message};
use crate::speakers::{Speaker, loopback, peer, until};

/// Speaker 1 with a healthy session to speaker 2, and peer 3 who may come.
async fn company() -> (Speaker, Speaker) {
    let pace = Pace {
        accepts_of_peer: Rate::new(100_000, 100_000),
        accepts: Rate::new(100_000, 100_000),
        ..Pace::default()
    };
    let mut speaker = Speaker::start_with(1, &[SocketAddr::new(loopback(1), 0)], pace);
    let mut healthy = Speaker::start(2);
    let mut third = peer(3, 1);
    third.passive = true;
    let (mut theirs, mut ours) = (speaker.as_peer(&healthy), healthy.as_peer(&speaker));
    // One waits for the other, so that there is never a second connection to be got rid of.
    ours.passive = true;
    // Whoever is kept from its work for long is found out.
    ours.hold_time = Some(Duration::from_secs(10));
    theirs.hold_time = Some(Duration::from_secs(10));
    speaker.peers(vec![ours, third]).await;
    healthy.peers(vec![theirs]).await;
    speaker.up("peer-2").await;
    healthy.up("peer-1").await;
    (speaker, healthy)
}

/// The healthy session lives, in both directions.
async fn assert_healthy(speaker: &mut Speaker, healthy: &mut Speaker) {
    speaker.originate(&["10.99.0.0/24"]).await;
    healthy.route("10.99.0.0/24", true).await;
    healthy.originate(&["10.98.0.0/24"]).await;
    speaker.route("10.98.0.0/24", true).await;
    healthy.assert_undisturbed().await;
}

#[tokio::test]
async fn one_byte_at_a_time() {
    let (mut speaker, mut healthy) = company().await;
    let mut partner = Partner::connect(3, speaker.address()).await.unwrap();
    let update = partner.announce(&[[10, 3, 0]]);
    for byte in [partner.open(), keepalive(), update].concat() {
        partner.say(&[byte]).await;
        // Each in a segment and a read of its own.
        tokio::task::yield_now().await;
    }
    speaker.route("10.3.0.0/24", true).await;
    assert_healthy(&mut speaker, &mut healthy).await;
}

/// Thirty thousand routes for a partner that reads none: what waits is one transmit here and a
/// bounded amount in the kernel. Whatever changes meanwhile reaches the others.
#[tokio::test]
async fn stops_reading() {
    const COUNT: u32 = 30_000;
    let (mut speaker, mut healthy) = company().await;
    let mut partner = Partner::connect(3, speaker.address()).await.unwrap();
    partner.say(&[partner.open(), keepalive()].concat()).await;
    speaker.up("peer-3").await;
    let nets = (0..COUNT).map(|number| {
        let address = (20 << 24 | number << 4).into();
        IpNet::V4(Ipv4Net::new(address, 28).unwrap())
    });
    // Each with a MED of its own, so that each is an UPDATE of its own and there is much to send.
    let wishes = nets.enumerate().map(|(med, net)| {
        let med = u32::try_from(med).ok();
        (net, Some(Origination { med, ..Origination::default() }))
    });
    speaker.handle.originate(Wishes::Some(wishes.collect())).await.unwrap();
    let handle = speaker.handle.clone();
    let stuck = || async {
        let status = handle.status().await.unwrap();
        status.connections.iter().map(|connection| connection.unsent).max().unwrap()
    };
    let unsent = until("the kernel takes no more", stuck, |&unsent| unsent > 0).await;
    assert!(unsent <= 128 * 1024, "{unsent}");
    // The prefix that comes last comes to the healthy one, also if it flaps.
    for _ in 0..50 {
        speaker.withdraw(&["10.97.0.0/24"]).await;
        speaker.originate(&["10.97.0.0/24"]).await;
    }
    healthy.route("10.97.0.0/24", true).await;
    assert_healthy(&mut speaker, &mut healthy).await;
    let unsent = stuck().await;
    assert!(unsent <= 128 * 1024, "{unsent}");
    // It reads again and is told everything, the flapping prefix once or twice and not fifty times.
    let mut seen = 0_u32;
    let mut flaps = 0;
    while seen < COUNT {
        let body = partner.hear_a(UPDATE).await.unwrap();
        let withdrawn = usize::from(u16::from_be_bytes([body[0], body[1]]));
        let attributes =
            usize::from(u16::from_be_bytes([body[2 + withdrawn], body[3 + withdrawn]]));
        let mut nlri = &body[4 + withdrawn + attributes..];
        while let Some((&length, rest)) = nlri.split_first() {
            seen += u32::from(length == 28);
            flaps += u32::from(rest[..2] == [10, 97]);
            nlri = &rest[usize::from(length.div_ceil(8))..];
        }
    }
    assert!(flaps <= 2, "{flaps}");
}

#[tokio::test]
async fn garbage() {
    let (mut speaker, mut healthy) = company().await;
    for bytes in [vec![0x42; 100_000], vec![0; 19], b"GET / HTTP/1.1\r\n\r\n".repeat(3)] {
        let Ok(mut partner) = Partner::connect(3, speaker.address()).await else { continue };
        let _ = partner.stream.write_all(&bytes).await;
        // Message Header Error, Connection Not Synchronized (RFC 4271 §6.1), or not even that: a
        // peer that comes back at once is not listened to.
        if let Some(words) = partner.end().await {
            assert_eq!(words[..2], [1, 1]);
        }
    }
    assert_healthy(&mut speaker, &mut healthy).await;
}

/// RFC 4271 §4.1: 4,096 octets are taken; RFC 8654: 65,535 where both sides said so.
#[tokio::test]
async fn long_messages() {
    let (mut speaker, mut healthy) = company().await;
    let mut partner = Partner::establish(3, &mut speaker).await;
    partner.say(&partner.announce_of(4_096, [10, 3, 1])).await;
    speaker.route("10.3.1.0/24", true).await;
    partner.say(&partner.announce_of(65_535, [10, 3, 2])).await;
    speaker.route("10.3.2.0/24", true).await;
    partner.say(&partner.announce(&[[10, 3, 3]])).await;
    speaker.route("10.3.3.0/24", true).await;
    assert_healthy(&mut speaker, &mut healthy).await;
}

#[tokio::test]
async fn a_long_message_that_was_not_agreed() {
    let (mut speaker, mut healthy) = company().await;
    let mut partner = Partner::connect(3, speaker.address()).await.unwrap();
    let mut open = partner.open();
    // Capability 6 becomes one that nobody knows.
    let place = open.windows(4).position(|four| four == [6, 0, 65, 4]).unwrap();
    open[place] = 0xEF;
    partner.say(&[open, keepalive()].concat()).await;
    speaker.up("peer-3").await;
    partner.say(&partner.announce_of(4_097, [10, 3, 1])).await;
    // Message Header Error, Bad Message Length, with the length.
    assert_eq!(partner.hear_a(NOTIFICATION).await.unwrap(), [1, 2, 0x10, 0x01]);
    assert!(partner.hear().await.is_err());
    assert_healthy(&mut speaker, &mut healthy).await;
}

/// A message that says it is long and never ends costs its length at most.
#[tokio::test]
async fn a_message_that_does_not_end() {
    let (mut speaker, mut healthy) = company().await;
    let mut partner = Partner::establish(3, &mut speaker).await;
    let update = partner.announce_of(65_535, [10, 3, 2]);
    partner.say(&update[..65_000]).await;
    assert_healthy(&mut speaker, &mut healthy).await;
    partner.say(&update[65_000..]).await;
    speaker.route("10.3.2.0/24", true).await;
}

/// Sends as fast as it can and never stops, while the others' hold time is short: they are served
/// all the same.
#[tokio::test]
async fn sends_without_end() {
    let (mut speaker, mut healthy) = company().await;
    let partner = Partner::establish(3, &mut speaker).await;
    let many: Vec<[u8; 3]> = (0..=255).map(|c| [10, 3, c]).collect();
    let updates = partner.announce(&many).repeat(100);
    let mut stream = partner.stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let sender = tokio::task::spawn_blocking({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) && stream.write_all(&updates).is_ok() {}
        }
    });
    let received = || async { speaker.handle.status().await.unwrap().received };
    until("it sends", received, |&bytes| bytes > 3_000_000).await;
    for round in 0..10 {
        let prefix = format!("10.1.{round}.0/24");
        speaker.originate(&[&prefix]).await;
        healthy.route(&prefix, true).await;
    }
    assert_healthy(&mut speaker, &mut healthy).await;
    speaker.assert_undisturbed().await;
    stop.store(true, Ordering::Relaxed);
    sender.await.unwrap();
}

/// Resident memory of this process.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Comes and goes a thousand times, in every way: nothing is left of it.
#[tokio::test]
async fn flaps_a_thousand_times() {
    let (mut speaker, mut healthy) = company().await;
    let before = memory();
    for round in 0..1_000 {
        let Ok(mut partner) = Partner::connect(3, speaker.address()).await else { continue };
        let words = match round % 4 {
            0 => Vec::new(),
            1 => partner.open(),
            2 => [partner.open(), keepalive(), partner.announce(&[[10, 3, 0]])].concat(),
            _ => message(OPEN, &[0; 5]),
        };
        let _ = partner.stream.write_all(&words).await;
        if round % 8 > 3 {
            let _ = partner.hear().await;
        }
    }
    let connections = || async { speaker.handle.status().await.unwrap().connections.len() };
    until("nothing is left", connections, |&count| count == 1).await;
    // A buffer that is left behind each time would be twice as much.
    let grown = memory().saturating_sub(before);
    assert!(grown < 32 * 1024 * 1024, "{grown}");
    assert_healthy(&mut speaker, &mut healthy).await;
}
