//! How it ends: the last words arrive, and nothing is left open.

use flock_bgp::{Farewell, Notice, Origination, Wishes};
use flock_bgp_io::Pace;
use ipnet::Ipv4Net;

use crate::partner::{Partner, keepalive};
use crate::speakers::{Speaker, connect, peer, until};

async fn speaker_with_partner() -> (Speaker, Partner) {
    let mut speaker = Speaker::start(1);
    let mut passive = peer(2, 1);
    passive.passive = true;
    speaker.peers(vec![passive]).await;
    let partner = Partner::establish(2, &mut speaker).await;
    (speaker, partner)
}

/// Much is still on its way to the peer, and the peer goes on talking: to close the socket now would
/// be to throw away the rest, and the last words with it.
#[tokio::test]
async fn words_arrive_behind_all_that_was_said_before() {
    let mut speaker = Speaker::start(1);
    let mut passive = peer(2, 1);
    passive.passive = true;
    speaker.peers(vec![passive]).await;
    let partner = Partner::connect_narrow(2, speaker.address()).await.unwrap();
    let mut partner = partner.come_up(&mut speaker).await;
    let wishes = (0..2_000_u32).map(|number| {
        let net = Ipv4Net::new((10 << 24 | number << 8).into(), 24).unwrap().into();
        (net, Some(Origination { med: Some(number), ..Origination::default() }))
    });
    speaker.handle.originate(Wishes::Some(wishes.collect())).await.unwrap();
    let sent = || async { speaker.handle.status().await.unwrap().sent };
    until("much is under way", sent, |&sent| sent > 90_000).await;
    let handle = speaker.handle.clone();
    let goodbye =
        tokio::spawn(async move { handle.farewell(Farewell::Shutdown("see you".into())).await });
    speaker.down("peer-2").await;
    partner.say(&keepalive().repeat(10)).await;
    // RFC 9003: Cease, Administrative Shutdown, length, text.
    assert_eq!(partner.end().await.unwrap(), [&[6, 2, 7][..], b"see you"].concat());
    drop(partner);
    goodbye.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_silent_farewell_says_nothing() {
    let (speaker, mut partner) = speaker_with_partner().await;
    let handle = speaker.handle.clone();
    let goodbye = tokio::spawn(async move { handle.farewell(Farewell::Silent).await });
    assert_eq!(partner.end().await, None);
    drop(partner);
    goodbye.await.unwrap().unwrap();
    // Nothing listens any more, and nothing answers.
    assert!(Partner::connect(2, speaker.address()).await.is_err());
    assert!(speaker.handle.status().await.is_err());
}

/// A changed AS number is a new speaker: it listens where the old one did, at once, although that
/// one had connections there and closed them first.
#[tokio::test]
async fn another_speaker_takes_the_place_of_one_that_ended() {
    // Nobody else is on this address, so its port stays free in between.
    let (mut old, mut b) = (Speaker::start(91), Speaker::start(2));
    let address = old.address();
    connect(&mut old, &mut b, |_| {}).await;
    old.originate(&["10.91.0.0/24"]).await;
    b.route("10.91.0.0/24", true).await;
    for number in [92, 93] {
        old.handle.farewell(Farewell::Silent).await.unwrap();
        let mut new = Speaker::start_with(number, &[address], Pace::default());
        assert_eq!(new.address(), address);
        let net = format!("10.{number}.0.0/24");
        new.originate(&[&net]).await;
        connect(&mut new, &mut b, |_| {}).await;
        b.route(&net, true).await;
        old = new;
    }
}

#[tokio::test]
async fn a_partner_that_does_not_close_is_not_waited_for_forever() {
    let (speaker, partner) = speaker_with_partner().await;
    speaker.handle.farewell(Farewell::Silent).await.unwrap();
    drop(partner);
}

#[tokio::test]
async fn it_ends_when_nobody_is_left_to_ask() {
    let (speaker, mut partner) = speaker_with_partner().await;
    drop(speaker);
    assert_eq!(partner.end().await, None);
}

#[tokio::test]
async fn the_other_speaker_hears_the_words() {
    let (mut a, mut b) = (Speaker::start(1), Speaker::start(2));
    connect(&mut a, &mut b, |_| {}).await;
    a.handle.farewell(Farewell::Shutdown("maintenance".into())).await.unwrap();
    let words = b
        .notice("words", |notice| match notice {
            Notice::Down(_, _, reason) => reason.words(),
            _ => None,
        })
        .await;
    assert_eq!(words, "maintenance");
}
