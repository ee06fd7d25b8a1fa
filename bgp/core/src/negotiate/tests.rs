//! Offers and agreements, as tables.

use bytes::Bytes;

use super::*;
use crate::config;

fn speaker(asn: u32) -> SpeakerConfig {
    SpeakerConfig::new(asn, [10, 0, 0, 1].into(), 1)
}

fn peer(address: &str) -> PeerConfig {
    PeerConfig {
        graceful_restart: None,
        extended_messages: false,
        ..PeerConfig::new("tor", address.parse().unwrap(), PeerAsn::External)
    }
}

const NEW: Past = Past { restarted: false, forwarding_kept: false, met: false };

/// What the peer says, by default something that fits.
fn theirs(capabilities: Vec<Capability>) -> Open {
    Open { wire_asn: 65_000, hold_time: 90, id: [10, 0, 0, 2].into(), capabilities }
}

fn agree(peer: &PeerConfig, theirs: &Open) -> Result<Negotiated, Notification> {
    let speaker = speaker(65_001);
    negotiate(&speaker, peer, &offer(&speaker, peer, NEW), theirs)
}

fn refused(peer: &PeerConfig, theirs: &Open) -> (u8, u8) {
    let notification = agree(peer, theirs).unwrap_err();
    (notification.code, notification.subcode)
}

const MP4: Capability = Capability::Multiprotocol(Family::Ipv4);
const MP6: Capability = Capability::Multiprotocol(Family::Ipv6);

#[test]
fn the_offer_has_what_is_wished_for_and_nothing_else() {
    let mut config = peer("10.0.0.2");
    let plain = offer(&speaker(65_001), &config, NEW);
    assert_eq!((plain.wire_asn, plain.hold_time), (65_001, 30));
    let always = [
        MP4,
        MP6,
        Capability::RouteRefresh,
        Capability::EnhancedRouteRefresh,
        Capability::FourOctetAs(65_001),
    ];
    assert_eq!(plain.capabilities, always);

    config.address = "2001:db8::2".parse().unwrap();
    config.extended_messages = true;
    config.role = Some(Role::Customer);
    config.add_path_receive = true;
    config.hold_time = None;
    config.graceful_restart = Some(config::GracefulRestart {
        time: Duration::from_secs(120),
        notification: true,
        stale_time: Duration::from_secs(300),
    });
    let full = offer(&speaker(4_200_000_000), &config, NEW);
    assert_eq!((full.wire_asn, full.hold_time), (23_456, 0), "AS_TRANS, and off is zero");
    let both = [Family::Ipv4, Family::Ipv6];
    let more = [
        Capability::ExtendedNextHop(vec![Family::Ipv4]),
        Capability::ExtendedMessage,
        Capability::Role(Role::Customer),
        Capability::GracefulRestart(GracefulRestart {
            restarted: false,
            notification: true,
            time: 120,
            families: both.map(|family| (family, false)).to_vec(),
        }),
        Capability::AddPath(both.map(|family| (family, AddPathMode::Receive)).to_vec()),
    ];
    assert_eq!(full.capabilities[5..], more);

    config.families = vec![Family::Ipv6];
    config.asn = PeerAsn::Internal;
    let inside = offer(&speaker(65_001), &config, NEW).capabilities;
    assert!(!inside.iter().any(|c| matches!(c, Capability::Role(_))), "roles are for outside");
    assert!(!inside.iter().any(|c| matches!(c, Capability::ExtendedNextHop(_))), "no IPv4 here");
}

#[test]
fn families() {
    let other = Capability::Other { code: 1, value: Bytes::from_static(&[0, 25, 0, 65]) };
    let (both, four, six) = ([true, true], [true, false], [false, true]);
    let rows = [
        (vec![Family::Ipv4, Family::Ipv6], vec![MP4, MP6], Some(both)),
        (vec![Family::Ipv4, Family::Ipv6], vec![MP4], Some(four)),
        (vec![Family::Ipv6], vec![MP4, MP6], Some(six)),
        // RFC 4760 §8: who says nothing speaks IPv4.
        (vec![Family::Ipv4, Family::Ipv6], vec![], Some(four)),
        (vec![Family::Ipv6], vec![], None),
        // But a family that is not ours is something said.
        (vec![Family::Ipv4], vec![other.clone()], None),
        (vec![Family::Ipv4], vec![other, MP4], Some(four)),
        (vec![Family::Ipv6], vec![MP4], None),
    ];
    for (ours, capabilities, expected) in rows {
        let mut config = peer("10.0.0.2");
        config.families = ours.clone();
        let got = agree(&config, &theirs(capabilities.clone()));
        match expected {
            Some(families) => assert_eq!(got.unwrap().families, families),
            None => {
                let notification = got.unwrap_err();
                assert_eq!((notification.code, notification.subcode), (2, 7));
                assert_eq!(notification.data.len(), 6 * ours.len(), "{capabilities:?}");
            }
        }
    }
    let mut config = peer("10.0.0.2");
    config.families = vec![Family::Ipv6];
    let wanted = agree(&config, &theirs(vec![])).unwrap_err().data;
    assert_eq!(&wanted[..], [1, 4, 0, 2, 0, 1], "RFC 5492 §3: what we cannot do without");
}

#[test]
fn hold_and_keepalive() {
    let s = Duration::from_secs;
    // Ours, theirs, keepalive asked for: hold, keepalive.
    let rows = [
        (Some(30), 90, None, Some((s(30), s(10)))),
        (Some(90), 9, None, Some((s(9), s(3)))),
        (Some(90), 3, None, Some((s(3), s(1)))),
        (None, 90, None, None),
        (Some(90), 0, Some(10), None),
        (Some(90), 90, Some(10), Some((s(90), s(10)))),
        // A third is the most (RFC 4271 §4.4).
        (Some(90), 90, Some(80), Some((s(90), s(30)))),
    ];
    for (ours, hold_time, keepalive, expected) in rows {
        let mut config = peer("10.0.0.2");
        config.hold_time = ours.map(Duration::from_secs);
        config.keepalive = keepalive.map(Duration::from_secs);
        let got = agree(&config, &Open { hold_time, ..theirs(vec![]) }).unwrap();
        assert_eq!(got.hold.zip(got.keepalive), expected);
        assert_eq!(got.hold.is_none(), got.keepalive.is_none());
        assert_eq!(got.send_hold(), expected.map(|_| s(480)), "RFC 9687 §5");
    }
}

#[test]
fn who_the_peer_may_be() {
    let four = |asn| vec![Capability::FourOctetAs(asn)];
    // Wished for, said: agreed.
    let rows = [
        (PeerAsn::Number(65_000), 65_000, true),
        (PeerAsn::Number(65_000), 65_002, false),
        (PeerAsn::Number(4_200_000_000), 4_200_000_000, true),
        (PeerAsn::External, 65_000, true),
        (PeerAsn::External, 65_001, false),
        (PeerAsn::Internal, 65_001, true),
        (PeerAsn::Internal, 65_000, false),
    ];
    for (asn, said, right) in rows {
        let config = PeerConfig { asn, ..peer("10.0.0.2") };
        let wire_asn = u16::try_from(said).unwrap_or(23_456);
        let open = Open { wire_asn, ..theirs(four(said)) };
        match right {
            true => {
                let got = agree(&config, &open).unwrap();
                assert_eq!((got.peer_asn, got.internal), (said, said == 65_001));
            }
            false => assert_eq!(refused(&config, &open), (2, 2), "{asn:?} {said}"),
        }
    }
}

#[test]
fn identifiers_differ_inside_an_as_only() {
    let same = Open { id: [10, 0, 0, 1].into(), ..theirs(vec![]) };
    assert!(agree(&peer("10.0.0.2"), &same).is_ok(), "RFC 6286 §2.2: AS and identifier together");
    let config = PeerConfig { asn: PeerAsn::Internal, ..peer("10.0.0.2") };
    assert_eq!(refused(&config, &Open { wire_asn: 65_001, ..same }), (2, 3));
}

#[test]
fn roles_must_fit() {
    use Role::{Customer, Peer, Provider, RouteServer, RouteServerClient};
    let all = [Provider, RouteServer, RouteServerClient, Customer, Peer];
    let fit = [
        (Provider, Customer),
        (Customer, Provider),
        (RouteServer, RouteServerClient),
        (RouteServerClient, RouteServer),
        (Peer, Peer),
    ];
    for ours in all {
        let config = PeerConfig { role: Some(ours), ..peer("10.0.0.2") };
        for told in all {
            let open = theirs(vec![Capability::Role(told)]);
            if fit.contains(&(ours, told)) {
                assert_eq!(agree(&config, &open).unwrap().peer_role, Some(told));
            } else {
                assert_eq!(refused(&config, &open), (2, 11), "{ours:?} {told:?}");
            }
        }
        assert_eq!(agree(&config, &theirs(vec![])).unwrap().peer_role, None, "not strict");
    }
    let config = PeerConfig { role: Some(Provider), ..peer("10.0.0.2") };
    let twice = |one, other| theirs(vec![Capability::Role(one), Capability::Role(other)]);
    assert_eq!(refused(&config, &twice(Customer, Peer)), (2, 11));
    assert!(agree(&config, &twice(Customer, Customer)).is_ok());
}

#[test]
fn how_to_read_and_write() {
    let mut config = peer("2001:db8::2");
    config.extended_messages = true;
    config.add_path_receive = true;
    let nothing = agree(&config, &theirs(vec![])).unwrap();
    let context = Context { extended_next_hop: true, ..Context::default() };
    assert_eq!(nothing.context, context, "what we offered to read, we read");
    assert_eq!(nothing.form, Form { four_octet_as: false, max: frame::MAX });
    assert!(!nothing.send_extended_next_hop && !nothing.refresh && !nothing.enhanced_refresh);

    let everything = theirs(vec![
        MP4,
        MP6,
        Capability::FourOctetAs(65_000),
        Capability::ExtendedMessage,
        Capability::ExtendedNextHop(vec![Family::Ipv4]),
        Capability::AddPath(vec![
            (Family::Ipv4, AddPathMode::Both),
            (Family::Ipv6, AddPathMode::Receive),
        ]),
        Capability::RouteRefresh,
        Capability::EnhancedRouteRefresh,
    ]);
    let got = agree(&config, &everything).unwrap();
    assert!(got.context.four_octet_as && got.context.add_path_ipv4 && !got.context.add_path_ipv6);
    assert_eq!(got.form, Form { four_octet_as: true, max: frame::MAX_EXTENDED });
    assert!(got.send_extended_next_hop && got.refresh && got.enhanced_refresh);

    config.extended_messages = false;
    config.add_path_receive = false;
    let got = agree(&config, &everything).unwrap();
    assert_eq!(got.form.max, frame::MAX, "both must offer it");
    assert!(!got.context.add_path_ipv4);
}

#[test]
fn restarts_are_helped_where_both_say_so() {
    let told =
        GracefulRestart { time: 60, families: vec![(Family::Ipv4, true)], ..Default::default() };
    let older = GracefulRestart { time: 1, ..Default::default() };
    let open =
        theirs(vec![Capability::GracefulRestart(older), Capability::GracefulRestart(told.clone())]);
    let mut config = peer("10.0.0.2");
    assert_eq!(agree(&config, &open).unwrap().graceful_restart, None);
    config.graceful_restart = Some(config::GracefulRestart {
        time: Duration::from_secs(120),
        notification: false,
        stale_time: Duration::from_secs(300),
    });
    assert_eq!(agree(&config, &open).unwrap().graceful_restart, Some(told), "the last one counts");
    assert_eq!(agree(&config, &theirs(vec![])).unwrap().graceful_restart, None);
}
