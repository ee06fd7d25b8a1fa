//! Connections that nobody asked for: closed, counted, paced, and no trouble to anyone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flock_bgp_io::{Pace, Rate};

use crate::partner::Partner;
use crate::speakers::{Speaker, loopback, pair, peer, until};

/// Connects and hears nothing but the end, which may come before the handshake is seen to be over.
async fn is_turned_away(number: u8, speaker: &Speaker) -> bool {
    match Partner::connect(number, speaker.address()).await {
        Ok(mut partner) => partner.hear().await.is_err(),
        Err(_) => true,
    }
}

#[tokio::test]
async fn a_stranger_is_closed_at_accept() {
    let mut speaker = Speaker::start(1);
    let mut passive = peer(2, 1);
    passive.passive = true;
    speaker.peers(vec![passive]).await;
    assert!(is_turned_away(77, &speaker).await);
    let status = speaker.handle.status().await.unwrap();
    assert_eq!((status.arrivals.unknown, status.arrivals.taken), (1, 0));
    assert!(status.connections.is_empty());
    speaker.assert_undisturbed().await;
}

#[tokio::test]
async fn a_peer_that_is_no_longer_wanted_is_a_stranger() {
    let mut speaker = Speaker::start(1);
    let mut passive = peer(2, 1);
    passive.passive = true;
    speaker.peers(vec![passive]).await;
    let mut partner = Partner::establish(2, &mut speaker).await;
    speaker.peers(Vec::new()).await;
    // Cease, Peer De-configured (RFC 4486).
    assert_eq!(partner.end().await.unwrap()[..2], [6, 3]);
    assert!(is_turned_away(2, &speaker).await);
    assert_eq!(speaker.handle.status().await.unwrap().arrivals.unknown, 1);
}

#[tokio::test]
async fn a_peer_that_comes_too_often_is_paced() {
    let pace = Pace { accepts_of_peer: Rate::new(3, 1), ..Pace::default() };
    let speaker = Speaker::start_with(1, &[SocketAddr::new(loopback(1), 0)], pace);
    let mut passive = peer(2, 1);
    passive.passive = true;
    speaker.peers(vec![passive]).await;
    let ask = || async {
        drop(Partner::connect(2, speaker.address()).await);
        speaker.handle.status().await.unwrap().arrivals
    };
    let arrivals = until("some are turned away", ask, |arrivals| arrivals.paced >= 3).await;
    assert!(arrivals.taken >= 3, "{arrivals:?}");
}

#[tokio::test]
async fn a_peer_has_a_few_connections_at_most() {
    let speaker = Speaker::start(1);
    let mut passive = peer(2, 1);
    passive.passive = true;
    speaker.peers(vec![passive]).await;
    let mut silent = Vec::new();
    for _ in 0..10 {
        // The RST may be here before the handshake is seen to be over.
        silent.push(Partner::connect(2, speaker.address()).await);
    }
    let ask = || async { speaker.handle.status().await.unwrap() };
    let status = until("all came", ask, |s| s.arrivals.taken + s.arrivals.crowded == 10).await;
    assert!(status.arrivals.crowded > 0, "{status:?}");
    assert!(status.connections.len() <= 4, "{status:?}");
    assert_eq!(status.connections.iter().map(|connection| connection.unsent).sum::<usize>(), 0);
}

/// Strangers knock as fast as they can, while a session lives and passes routes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_connections_disturbs_nobody() {
    let (mut a, mut b) = pair(1, 2).await;
    let stop = Arc::new(AtomicBool::new(false));
    let floods: Vec<_> = [a.address(), b.address()]
        .into_iter()
        .map(|target| {
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut knocks = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    knocks += u32::from(Partner::connect(77, target).await.is_ok());
                }
                knocks
            })
        })
        .collect();
    let unknown = || async { a.handle.status().await.unwrap().arrivals.unknown };
    until("the flood is there", unknown, |&unknown| unknown > 300).await;
    for round in 0..20 {
        let prefix = format!("10.1.{round}.0/24");
        a.originate(&[&prefix]).await;
        b.route(&prefix, true).await;
    }
    stop.store(true, Ordering::Relaxed);
    for flood in floods {
        assert!(flood.await.unwrap() > 0);
    }
    a.assert_undisturbed().await;
    b.assert_undisturbed().await;
    let status = b.handle.status().await.unwrap();
    assert_eq!(status.connections.len(), 1, "{status:?}");
}
