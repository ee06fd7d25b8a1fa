//! Peers as they may be, and what is said of them.

use std::net::Ipv4Addr;

use flock_bgp::{Family, LastError, Messages, NegotiatedStatus, PeerAsn, PeerKey, Refusal};

use super::*;

const NOW: Now = Now(Duration::from_secs(7200));

fn family(family: Family) -> FamilyStatus {
    FamilyStatus {
        family,
        negotiated: true,
        not_announced: None,
        received: 2,
        accepted: 2,
        advertised: 3,
        pending: 0,
        end_of_rib_sent: true,
        end_of_rib_received: true,
        stale: false,
    }
}

/// Established for an hour.
fn up() -> PeerStatus {
    PeerStatus {
        key: PeerKey(1),
        name: "tor-a".into(),
        address: "192.0.2.1".parse().unwrap(),
        configured_asn: PeerAsn::External,
        asn: Some(65000),
        local_asn: 65001,
        state: State::Established,
        since: Now(Duration::from_secs(3600)),
        negotiated: Some(NegotiatedStatus {
            peer_id: Ipv4Addr::new(192, 0, 2, 1),
            internal: false,
            hold_time: None,
            keepalive: None,
            offered: Vec::new(),
            received: Vec::new(),
            refresh: true,
        }),
        families: [Family::Ipv6, Family::Ipv4].map(family).to_vec(),
        connection: None,
        next_attempt: None,
        session_ended: None,
        last_error: None,
        last_refusal: None,
        pending: None,
        faults: 0,
        refused: 0,
        contested: 0,
        flaps: 0,
        messages: Messages::default(),
    }
}

fn error(seconds: u64, reason: DownReason) -> Option<LastError> {
    Some(LastError { at: Now(Duration::from_secs(seconds)), reason })
}

fn refused(what: &str) -> DownReason {
    DownReason::Refused(Refusal { what: what.into() })
}

fn away(reason: DownReason) -> PeerStatus {
    let (state, negotiated) = (State::Active, None);
    PeerStatus { state, negotiated, last_error: error(7000, reason), ..up() }
}

const AROUND: Around = Around { now: NOW, drained: false, some_up: true };

#[test]
fn a_session_that_is_up_and_has_told_everything_is_well() {
    let found = judge(&up(), AROUND);
    assert_eq!(found, [Finding::ok(PEER, "tor-a: Established, 6 routes told")]);
    // One end, however long ago, is no trouble; nor are three in a long life.
    let mut once = up();
    (once.flaps, once.last_error) = (1, error(7100, DownReason::Closed(None)));
    assert_eq!(judge(&once, AROUND)[0].status, Status::Ok);
    let mut old = up();
    (old.flaps, old.last_error) = (3, error(90_000, DownReason::Closed(None)));
    let around = Around { now: Now(Duration::from_secs(90_060)), ..AROUND };
    assert_eq!(judge(&old, around)[0].status, Status::Ok);
}

#[test]
fn the_remedy_depends_on_the_reason() {
    let table = [
        (refused("Connection refused (os error 111)"), "start BGP at 192.0.2.1"),
        (refused("no answer within 3.9s"), "answers (ping)"),
        (
            refused(
                "no answer within 3s; segments with a wrong TCP-MD5 signature were dropped meanwhile (2): does the password match?",
            ),
            "compare the password",
        ),
        (
            refused("no answer within 3s; (1): has the peer a password?"),
            "configure the password at tor-a",
        ),
        (
            refused("no answer within 3s; (1): does the peer want a password?"),
            "give tor-a a password",
        ),
        (refused("Cannot assign requested address (os error 99)"), "localAddress"),
        (refused("Network is unreachable (os error 101)"), "bring up the link"),
        (refused("No route to host (os error 113)"), "bring up the link"),
        (refused("something new"), "can be reached"),
        (DownReason::Closed(Some("Connection reset by peer".into())), "without saying why"),
        (DownReason::Local("password: /p: No such file or directory".into()), "write the password"),
        (DownReason::Local("given up".into()), "spec.bgp.peers"),
        (DownReason::Sent(4, 0, Default::default()), "silent for the hold time"),
        (DownReason::Sent(8, 0, Default::default()), "takes nothing any more"),
        (DownReason::Sent(2, 2, Default::default()), "spec.bgp.peers[].asn"),
        (DownReason::Sent(2, 3, Default::default()), "router ID"),
        (DownReason::Sent(6, 1, Default::default()), "import.maxPrefixes"),
        (DownReason::Sent(6, 2, Default::default()), "on this node"),
        (DownReason::Received(4, 0, Default::default()), "did not hear this node"),
        (DownReason::Received(2, 2, Default::default()), "another AS number than 65001"),
        (DownReason::Received(2, 7, Default::default()), "families"),
        (DownReason::Received(6, 1, Default::default()), "takes no more prefixes"),
        (
            DownReason::Received(6, 2, b"\x05hello".to_vec().into()),
            "somebody shut it down at tor-a",
        ),
        (DownReason::Received(6, 3, Default::default()), "does not know this node"),
        (DownReason::Received(6, 5, Default::default()), "does not know this node"),
        (DownReason::Received(6, 8, Default::default()), "out of resources"),
        (DownReason::Received(99, 7, Default::default()), "see the log of tor-a"),
    ];
    for (reason, words) in table {
        let finding = &judge(&away(reason.clone()), AROUND)[0];
        assert_eq!(finding.status, Status::Warn, "{finding:?}");
        assert!(finding.message.contains(&reason.to_string()), "{finding:?}");
        assert!(finding.remedy.contains(words), "{reason}: {}", finding.remedy);
    }
}

#[test]
fn what_failed_last_is_what_to_mend() {
    let mut peer = away(DownReason::Sent(4, 0, Default::default()));
    peer.last_refusal = error(7100, refused("Connection refused (os error 111)"));
    let finding = &judge(&peer, AROUND)[0];
    assert!(finding.message.contains("Hold Timer") && finding.message.contains("since then"));
    assert!(finding.remedy.contains("start BGP"), "{finding:?}");
    peer.last_refusal = error(6000, refused("Connection refused (os error 111)"));
    let finding = &judge(&peer, AROUND)[0];
    assert!(finding.remedy.contains("silent"), "the older one is past: {finding:?}");
    // It said why, and hangs up since then.
    let mut peer = away(DownReason::Received(6, 2, Default::default()));
    peer.last_refusal = error(7100, DownReason::Closed(None));
    let finding = &judge(&peer, AROUND)[0];
    assert!(finding.remedy.contains("somebody shut it down"), "{finding:?}");
}

#[test]
fn a_node_without_any_session_is_cut_off() {
    let peer = away(DownReason::Closed(None));
    let status = |around| judge(&peer, around)[0].status;
    assert_eq!(status(AROUND), Status::Warn);
    assert_eq!(status(Around { some_up: false, ..AROUND }), Status::Fail);
    assert_eq!(status(Around { some_up: false, drained: true, ..AROUND }), Status::Warn);
    let silent = PeerStatus { last_error: None, ..away(DownReason::Closed(None)) };
    let finding = &judge(&silent, Around { some_up: false, ..AROUND })[0];
    assert_eq!(finding.status, Status::Warn, "nothing has failed yet: {finding:?}");
}

#[test]
fn what_a_session_lacks_is_told() {
    type Change = fn(&mut PeerStatus);
    let table: [(Change, Option<&str>, &str); 7] = [
        (
            |peer| peer.pending = Some("holdTime".into()),
            Some("holdTime changed"),
            "bgp reset tor-a",
        ),
        (
            |peer| peer.families[0].not_announced = Some("the peer does not speak it".into()),
            Some("nothing of ipv6-unicast is told"),
            "enable ipv6-unicast",
        ),
        (
            |peer| peer.families[1].not_announced = Some("no IPv4 next hop is known".into()),
            Some("nothing of ipv4-unicast is told"),
            "set nextHop",
        ),
        (|peer| peer.families[0].end_of_rib_sent = false, Some("not everything of ipv6"), "reads"),
        // A peer that does not speak RFC 4724.
        (|peer| peer.families[0].end_of_rib_received = false, None, ""),
        (
            |peer| {
                peer.families[0].end_of_rib_sent = false;
                peer.since = Now(Duration::from_secs(7170));
            },
            None,
            "",
        ),
        (
            |peer| {
                peer.flaps = 5;
                peer.last_error = error(7100, DownReason::Received(4, 0, Default::default()));
            },
            Some("5 sessions have ended, the last one 100 s ago"),
            "did not hear this node",
        ),
    ];
    for (change, message, remedy) in table {
        let mut peer = up();
        change(&mut peer);
        let found = judge(&peer, AROUND);
        assert_eq!(found.len(), 1, "{found:?}");
        let wanted = if message.is_some() { Status::Warn } else { Status::Ok };
        assert_eq!(found[0].status, wanted, "{found:?}");
        assert!(found[0].message.contains(message.unwrap_or("Established")), "{found:?}");
        assert!(found[0].remedy.contains(remedy), "{found:?}");
    }
}

#[test]
fn who_says_when_all_is_told_is_waited_for() {
    let mut peer = up();
    peer.families[0].end_of_rib_received = false;
    assert_eq!(untold(&peer, NOW, false), []);
    let found = untold(&peer, NOW, true);
    assert!(found[0].message.contains("has not said that it told everything of ipv6"), "{found:?}");
    assert!(!found[0].remedy.is_empty());
}
