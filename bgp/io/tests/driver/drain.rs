//! A node that goes: everything is told before the session ends, where that is waited for.

use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Waker};

use flock_bgp::{Community, Farewell, Origination, PeerConfig, Wishes};
use flock_bgp_io::Gone;
use ipnet::Ipv4Net;
use tokio::time::timeout;

use crate::partner::{NOTIFICATION, Partner, UPDATE};
use crate::speakers::{LONG, Speaker, net, peer, until};

fn passive() -> PeerConfig {
    PeerConfig { passive: true, ..peer(2, 1) }
}

fn shut() -> PeerConfig {
    PeerConfig { shutdown: Some("bye".into()), ..passive() }
}

/// Routes with words of their own: a hundred of them are less than one transmit, two thousand more
/// than the kernel takes for a peer that has little room.
fn routes(numbers: Range<u32>) -> Wishes {
    let wishes = numbers.map(|number| {
        let net = Ipv4Net::new((10 << 24 | number << 8).into(), 24).unwrap().into();
        let communities = (0..100).map(|word| Community(number << 8 | word)).collect();
        (net, Some(Origination { communities, ..Origination::default() }))
    });
    Wishes::Some(wishes.collect())
}

async fn is_settled(speaker: &Speaker) -> bool {
    speaker.handle.query(flock_bgp::Speaker::settled).await.unwrap()
}

#[tokio::test]
async fn withdrawals_are_heard_before_the_cease() {
    let mut speaker = Speaker::start(1);
    speaker.peers(vec![passive()]).await;
    let mut partner = Partner::establish(2, &mut speaker).await;
    let wishes = vec![(net("10.1.0.0/24"), Origination::default())];
    speaker.handle.originate(Wishes::All(wishes)).await.unwrap();
    speaker.handle.drain(true).await.unwrap();
    speaker.handle.settled().await.unwrap();
    assert!(is_settled(&speaker).await);
    speaker.handle.originate(Wishes::All(vec![])).await.unwrap();
    speaker.handle.settled().await.unwrap();
    speaker.handle.peers(vec![shut()]).await.unwrap();
    let mut heard = Vec::new();
    while let Ok((kind, body)) = partner.hear().await {
        heard.push((kind, body));
    }
    let (last, words) = heard.pop().unwrap();
    assert_eq!((last, &words[..]), (NOTIFICATION, &b"\x06\x02\x03bye"[..]));
    // Four octets of withdrawn routes, 10.1.0.0/24, and no attributes.
    let withdrawal = vec![0, 4, 24, 10, 1, 0, 0, 0];
    assert_eq!(heard.pop(), Some((UPDATE, withdrawal)));
}

/// Also where the speaker itself has nothing left to say.
#[tokio::test]
async fn a_peer_that_does_not_read_is_waited_for() {
    let mut speaker = Speaker::start(1);
    speaker.peers(vec![passive()]).await;
    let partner = Partner::connect_narrow(2, speaker.address()).await.unwrap();
    let mut partner = partner.come_up(&mut speaker).await;
    let unsent = || async {
        // The first is answered before what came with it is sent, the second after.
        speaker.handle.status().await.unwrap();
        let status = speaker.handle.status().await.unwrap();
        status.connections.iter().map(|connection| connection.unsent).sum::<usize>()
    };
    let mut told = 0;
    while unsent().await == 0 {
        speaker.handle.originate(routes(told..told + 100)).await.unwrap();
        told += 100;
    }
    assert!(is_settled(&speaker).await, "it is in the driver's hands");
    for more in [0, 2_000] {
        speaker.handle.originate(routes(told..told + more)).await.unwrap();
        let mut waiting = pin!(speaker.handle.settled());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(unsent().await > 0);
        assert!(waiting.as_mut().poll(&mut context).is_pending(), "not all is told");
    }
    let reading = tokio::spawn(async move { while partner.hear().await.is_ok() {} });
    timeout(LONG, speaker.handle.settled()).await.expect("it never ends").unwrap();
    assert!(is_settled(&speaker).await);
    assert_eq!(unsent().await, 0);
    reading.abort();
}

#[tokio::test]
async fn nobody_is_waited_for_where_nobody_is() {
    let speaker = Speaker::start(1);
    speaker.peers(vec![passive()]).await;
    speaker.handle.originate(routes(0..2_000)).await.unwrap();
    speaker.handle.settled().await.unwrap();
}

#[tokio::test]
async fn who_waits_for_a_speaker_that_ends_hears_of_it() {
    let mut speaker = Speaker::start(1);
    speaker.peers(vec![passive()]).await;
    let partner = Partner::connect_narrow(2, speaker.address()).await.unwrap();
    let partner = partner.come_up(&mut speaker).await;
    speaker.handle.originate(routes(0..2_000)).await.unwrap();
    let handle = speaker.handle.clone();
    let waiting = tokio::spawn(async move { handle.settled().await });
    let asked = || async { is_settled(&speaker).await };
    until("it has much to say", asked, |settled| !settled).await;
    let handle = speaker.handle.clone();
    let goodbye = tokio::spawn(async move { handle.farewell(Farewell::Silent).await });
    assert_eq!(timeout(LONG, waiting).await.expect("it never ends").unwrap(), Err(Gone));
    drop(partner);
    goodbye.await.unwrap().unwrap();
}
