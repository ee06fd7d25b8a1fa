//! Speakers among themselves: sessions, routes, passwords, and an owner that is slow.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use flock_bgp::{DownReason, Family, Origination, Secret, State, Ttl, Wishes};
use flock_bgp_io::{Pace, Told};
use ipnet::{IpNet, Ipv4Net};

use crate::partner::{Partner, keepalive};
use crate::speakers::{Speaker, connect, net, pair, peer, until};

#[tokio::test]
async fn two_speakers_exchange_routes_of_both_families() {
    let (mut a, mut b) = pair(1, 2).await;
    a.originate(&["10.1.0.0/24", "2001:db8:1::/64"]).await;
    b.originate(&["10.2.0.0/24"]).await;
    b.route("10.1.0.0/24", true).await;
    b.route("2001:db8:1::/64", true).await;
    a.route("10.2.0.0/24", true).await;
    a.withdraw(&["10.1.0.0/24"]).await;
    b.route("10.1.0.0/24", false).await;
}

#[tokio::test]
async fn what_was_originated_before_the_session_is_told() {
    let (mut a, mut b) = (Speaker::start(1), Speaker::start(2));
    a.originate(&["10.1.0.0/24"]).await;
    connect(&mut a, &mut b, |_| {}).await;
    b.route("10.1.0.0/24", true).await;
}

#[tokio::test]
async fn a_session_over_ipv6() {
    let here: [SocketAddr; 1] = ["[::1]:0".parse().unwrap()];
    let mut a = Speaker::start_with(1, &here, Pace::default());
    let mut b = Speaker::start_with(2, &here, Pace::default());
    a.originate(&["2001:db8:1::/64"]).await;
    connect(&mut a, &mut b, |_| {}).await;
    b.route("2001:db8:1::/64", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_of_several_threads_does_as_well() {
    let (a, mut b) = pair(1, 2).await;
    a.originate(&["10.1.0.0/24"]).await;
    b.route("10.1.0.0/24", true).await;
}

/// RFC 4271 §6.8: two connections may come of it, and one session.
#[tokio::test]
async fn both_sides_may_dial() {
    let (a, mut b) = (Speaker::start(1), Speaker::start(2));
    a.peers(vec![b.as_peer(&a)]).await;
    b.peers(vec![a.as_peer(&b)]).await;
    a.originate(&["10.1.0.0/24"]).await;
    b.route("10.1.0.0/24", true).await;
    for speaker in [&a, &b] {
        let connections = || async { speaker.handle.status().await.unwrap().connections.len() };
        until("one connection is left", connections, |&count| count == 1).await;
    }
}

#[tokio::test]
async fn ttl_security_on_both_sides() {
    let (mut a, mut b) = (Speaker::start(1), Speaker::start(2));
    connect(&mut a, &mut b, |peer| peer.transport.ttl = Ttl::Security).await;
}

#[tokio::test]
async fn the_same_password_on_both_sides() {
    let (mut a, mut b) = (Speaker::start(1), Speaker::start(2));
    let secret = Secret(Arc::from(&b"open sesame"[..]));
    connect(&mut a, &mut b, |peer| peer.transport.md5 = Some(secret.clone())).await;
}

#[tokio::test]
async fn a_wrong_password_is_told_apart_from_silence() {
    let (mut a, b) = (Speaker::start(1), Speaker::start(2));
    let (mut to_b, mut to_a) = (b.as_peer(&a), a.as_peer(&b));
    to_b.transport.md5 = Some(Secret(Arc::from(&b"open sesame"[..])));
    to_a.transport.md5 = Some(Secret(Arc::from(&b"open barley"[..])));
    a.peers(vec![to_b]).await;
    b.peers(vec![to_a]).await;
    // The first attempt may have been over before the other side's came.
    for _ in 0..20 {
        let reason = a.down("peer-2").await.to_string();
        assert!(!reason.contains("sesame"), "{reason}");
        if reason.contains("wrong TCP-MD5 signature") {
            return;
        }
    }
    panic!("the kernel's word is not passed on");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_in_the_systems_words() {
    let mut a = Speaker::start(1);
    let mut to_b = peer(2, 1);
    let nobody = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    to_b.port = nobody.local_addr().unwrap().port();
    drop(nobody);
    a.peers(vec![to_b]).await;
    let reason = a.down("peer-2").await;
    assert!(matches!(&reason, DownReason::Refused(r) if r.what.contains("refused")), "{reason}");
}

/// Routes are pulled only while there is room, and a prefix that came and went while there was none
/// is offered as it is then.
#[tokio::test]
async fn an_owner_that_takes_no_routes_stops_nobody() {
    const COUNT: u32 = 5_000;
    let (a, mut b) = pair(1, 2).await;
    let nets = || {
        (0..COUNT).map(|number| {
            let address = (10 << 24 | number << 8).into();
            IpNet::V4(Ipv4Net::new(address, 24).unwrap())
        })
    };
    let wishes = nets().map(|net| (net, Origination::default())).collect();
    a.handle.originate(Wishes::All(wishes)).await.unwrap();
    // All of them arrive though nobody takes them on.
    let known = || async {
        b.handle.query(|speaker| speaker.routes(Family::Ipv4, None).count()).await.unwrap()
    };
    until("all routes arrive", known, |&count| count >= usize::try_from(COUNT).unwrap()).await;
    // The first and the last go again: one was offered already, the other was not.
    let (first, last) = (nets().next().unwrap(), nets().next_back().unwrap());
    a.handle.originate(Wishes::Some(vec![(first, None), (last, None)])).await.unwrap();
    until("two routes go", known, |&count| count == usize::try_from(COUNT).unwrap() - 2).await;
    let mut there = HashSet::new();
    let mut offers = 0;
    a.originate(&["10.255.0.0/24"]).await;
    loop {
        let change = b.routes.recv().await.unwrap();
        offers += 1;
        if change.next_hops.is_empty() {
            there.remove(&change.net);
        } else {
            there.insert(change.net);
        }
        if there.len() == usize::try_from(COUNT).unwrap() - 1
            && there.contains(&net("10.255.0.0/24"))
        {
            break;
        }
    }
    assert!(!there.contains(&first) && !there.contains(&last));
    assert!(offers <= COUNT + 2, "{offers}");
}

/// Notices that nobody reads are dropped, the oldest first, and the reader is told how many.
#[tokio::test]
async fn an_owner_that_reads_no_notices_stops_nobody() {
    let mut a = Speaker::start(1);
    let (mut to_partner, mut to_nobody) = (peer(2, 1), peer(3, 1));
    (to_partner.passive, to_nobody.passive) = (true, true);
    a.peers(vec![to_partner, to_nobody]).await;
    let mut partner = Partner::establish(2, &mut a).await;
    let nobody = a.handle.query(|speaker| speaker.peer_by_name("peer-3")).await.unwrap().unwrap();
    for _ in 0..2_000 {
        // An end, noticed each time.
        a.handle.reset(nobody, "again".into()).await.unwrap();
    }
    partner.say(&partner.announce(&[[10, 3, 0]])).await;
    a.route("10.3.0.0/24", true).await;
    assert!(matches!(a.notices.next().await, Some(Told::Missed(count)) if count > 1_000));
    assert!(matches!(a.notices.next().await, Some(Told::Notice(_))));
}

#[tokio::test]
async fn wishes_can_be_told_without_waiting() {
    let (a, mut b) = pair(1, 2).await;
    let wish = vec![(net("10.1.0.0/24"), Some(Origination::default()))];
    a.handle.try_originate(Wishes::Some(wish)).unwrap();
    b.route("10.1.0.0/24", true).await;
}

/// The KEEPALIVEs that came while we were kept from running count before the clock does.
#[tokio::test]
async fn a_pause_of_ours_is_not_the_peers_silence() {
    let mut speaker = Speaker::start(1);
    let mut third = peer(3, 1);
    third.passive = true;
    third.hold_time = Some(Duration::from_secs(3));
    speaker.peers(vec![third]).await;
    let partner = Partner::establish(3, &mut speaker).await;
    let mut stream = partner.stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    let (alive, ended) = mpsc::channel::<()>();
    let talker = thread::spawn(move || {
        // Until the test is over.
        while ended.recv_timeout(Duration::from_millis(300)) == Err(RecvTimeoutError::Timeout) {
            if stream.write_all(&keepalive()).is_err() {
                return;
            }
        }
    });
    // Runs on this thread, as the speaker does: nothing else happens meanwhile.
    thread::sleep(Duration::from_millis(3_500));
    let clock = speaker.handle.clone();
    let due = || clock.query(|speaker| speaker.next_deadline());
    until("the clock to be looked at", due, |due| {
        (*due).unwrap().is_none_or(|due| due > clock.now())
    })
    .await
    .unwrap();
    let status = speaker.handle.query(|speaker| speaker.peers().next()).await.unwrap().unwrap();
    assert_eq!((status.state, status.flaps), (State::Established, 0), "{:?}", status.last_error);
    drop(alive);
    talker.join().unwrap();
}
