//! Every field of a peer's wishes, changed alone, and exactly what follows.

use std::sync::Arc;
use std::time::Duration;

use flock_bgp_wire::{Community, Family, Role};

use super::{Difference, Field, Fields, difference};
use crate::config::{
    AddressRule, Export, GracefulRestart, Import, NextHops, PeerAsn, PeerConfig, Secret, Transport,
    Ttl,
};

fn rule(net: &str, min: u8, max: u8) -> AddressRule {
    AddressRule { net: net.parse().unwrap(), min, max }
}

fn peer() -> PeerConfig {
    PeerConfig {
        name: Arc::from("tor-a"),
        address: "192.0.2.1".parse().unwrap(),
        scope: None,
        asn: PeerAsn::Number(65000),
        port: 179,
        local_address: None,
        transport: Transport { md5: None, ttl: Ttl::Hops(1) },
        passive: false,
        shutdown: None,
        withheld: None,
        families: vec![Family::Ipv4, Family::Ipv6],
        hold_time: Some(Duration::from_secs(30)),
        keepalive: None,
        connect_retry: Duration::from_secs(5),
        graceful_restart: Some(GracefulRestart {
            time: Duration::from_secs(120),
            notification: false,
            stale_time: Duration::from_secs(360),
        }),
        extended_messages: true,
        add_path_receive: false,
        role: None,
        import: Some(Import { accept: vec![rule("10.0.0.0/8", 8, 24)], max_prefixes: 1000 }),
        export: Export::default(),
        next_hops: NextHops::default(),
    }
}

fn reset(field: Field) -> Difference {
    Difference { reset: Fields(vec![field]), ..Difference::default() }
}

fn live(field: Field) -> Difference {
    Difference { live: Fields(vec![field]), ..Difference::default() }
}

fn administrative(field: Field) -> Difference {
    Difference { administrative: Fields(vec![field]), ..Difference::default() }
}

/// What is expected of a change, and the change.
type Case = (Difference, &'static str, fn(&mut PeerConfig));

fn restart(peer: &mut PeerConfig) -> &mut GracefulRestart {
    peer.graceful_restart.as_mut().unwrap()
}

#[test]
fn every_field() {
    let cases: [Case; 29] = [
        (Difference::default(), "nothing", |_| {}),
        (live(Field::Name), "name", |peer| peer.name = Arc::from("tor-b")),
        (Difference { readmit: true, ..reset(Field::Address) }, "address", |peer| {
            peer.address = "192.0.2.9".parse().unwrap();
        }),
        (Difference { readmit: true, ..reset(Field::Scope) }, "scope", |peer| peer.scope = Some(2)),
        (reset(Field::Asn), "asn", |peer| peer.asn = PeerAsn::Number(65009)),
        (reset(Field::Asn), "asn, kind", |peer| peer.asn = PeerAsn::External),
        (Difference { redial: true, ..live(Field::Port) }, "port", |peer| peer.port = 1790),
        (reset(Field::LocalAddress), "local address", |peer| {
            peer.local_address = Some("192.0.2.2".parse().unwrap());
        }),
        (Difference { readmit: true, ..reset(Field::Password) }, "password", |peer| {
            peer.transport.md5 = Some(Secret(Arc::from(*b"secret")));
        }),
        (Difference { readmit: true, ..reset(Field::Ttl) }, "ttl", |peer| {
            peer.transport.ttl = Ttl::Security;
        }),
        (Difference { redial: true, ..live(Field::Passive) }, "passive", |peer| {
            peer.passive = true;
        }),
        (administrative(Field::Shutdown), "shutdown", |peer| {
            peer.shutdown = Some(Arc::from("maintenance"));
        }),
        (administrative(Field::Withheld), "withheld", |peer| {
            peer.withheld = Some(Arc::from("the Secret is missing"));
        }),
        (reset(Field::Families), "families", |peer| peer.families = vec![Family::Ipv4]),
        (Difference::default(), "families in another order", |peer| peer.families.reverse()),
        (
            Difference { next_session: Fields(vec![Field::HoldTime]), ..Difference::default() },
            "hold time",
            |peer| peer.hold_time = None,
        ),
        (live(Field::Keepalive), "keepalive", |peer| peer.keepalive = Some(Duration::from_secs(3))),
        (live(Field::ConnectRetry), "connect retry", |peer| {
            peer.connect_retry = Duration::from_secs(9);
        }),
        (reset(Field::GracefulRestart), "graceful restart", |peer| peer.graceful_restart = None),
        (reset(Field::GracefulRestart), "restart time", |peer| {
            restart(peer).time = Duration::from_secs(60);
        }),
        (reset(Field::GracefulRestart), "N", |peer| restart(peer).notification = true),
        (live(Field::StaleTime), "stale time", |peer| {
            restart(peer).stale_time = Duration::from_secs(60);
        }),
        (reset(Field::ExtendedMessages), "extended messages", |peer| {
            peer.extended_messages = false;
        }),
        (reset(Field::AddPath), "add path", |peer| peer.add_path_receive = true),
        (reset(Field::Role), "role", |peer| peer.role = Some(Role::Customer)),
        (live(Field::MaxPrefixes), "max prefixes", |peer| {
            peer.import.as_mut().unwrap().max_prefixes = 5;
        }),
        (Difference { retell: true, ..live(Field::Export) }, "export", |peer| {
            peer.export.communities = vec![Community(1)];
        }),
        (Difference { retell: true, ..live(Field::NextHop) }, "next hops", |peer| {
            peer.next_hops.ipv4 = Some("192.0.2.3".parse().unwrap());
        }),
        (
            Difference {
                live: Fields(vec![Field::Accept, Field::MaxPrefixes]),
                rejudge: true,
                ..Difference::default()
            },
            "import",
            |peer| peer.import = None,
        ),
    ];
    for (expected, name, change) in cases {
        let mut changed = peer();
        change(&mut changed);
        let found = difference(&peer(), &changed);
        assert_eq!(found, expected, "{name}");
        assert_eq!(found.is_none(), expected == Difference::default(), "{name}");
        // The way back forces the same, but for what import lets in.
        let back = difference(&changed, &peer());
        assert_eq!(back.reset, expected.reset, "{name}, back");
        assert_eq!(back.refresh, expected.rejudge, "{name}, back");
        assert_eq!(back.rejudge, expected.refresh, "{name}, back");
    }
}

#[test]
fn import_rules_ask_for_as_little_as_they_can() {
    let eight = || rule("10.0.0.0/8", 8, 24);
    let cases = [
        // (from, to) -> (rejudge, refresh)
        ("the same", vec![eight()], vec![eight()], false, false),
        ("one more", vec![eight()], vec![eight(), rule("0.0.0.0/0", 0, 0)], false, true),
        ("one less", vec![eight(), rule("0.0.0.0/0", 0, 0)], vec![eight()], true, false),
        (
            "another order",
            vec![eight(), rule("::/0", 0, 0)],
            vec![rule("::/0", 0, 0), eight()],
            false,
            false,
        ),
        ("longer", vec![eight()], vec![rule("10.0.0.0/8", 8, 28)], false, true),
        ("not so long", vec![eight()], vec![rule("10.0.0.0/8", 8, 20)], true, false),
        ("larger", vec![eight()], vec![rule("10.0.0.0/7", 7, 24)], false, true),
        ("another", vec![eight()], vec![rule("172.16.0.0/12", 12, 12)], true, true),
        (
            "a part beside the whole",
            vec![eight()],
            vec![eight(), rule("10.1.0.0/16", 16, 16)],
            false,
            false,
        ),
        ("from nothing", vec![], vec![eight()], false, true),
    ];
    for (name, from, to, rejudge, refresh) in cases {
        let with =
            |accept| PeerConfig { import: Some(Import { accept, max_prefixes: 1000 }), ..peer() };
        let found = difference(&with(from), &with(to));
        assert_eq!((found.rejudge, found.refresh), (rejudge, refresh), "{name}");
        assert!(found.reset.is_empty() && !found.retell, "{name}");
    }
}

#[test]
fn a_shutdown_with_other_words_is_still_the_same() {
    let down = |words: &str| PeerConfig { shutdown: Some(Arc::from(words)), ..peer() };
    assert!(difference(&down("a"), &down("b")).is_none());
    let withheld = |words: &str| PeerConfig { withheld: Some(Arc::from(words)), ..peer() };
    let found = difference(&withheld("a"), &withheld("b"));
    assert_eq!(found, administrative(Field::Withheld), "shown as the last error");
}

#[test]
fn what_forces_a_reset_is_named() {
    let changed = PeerConfig {
        asn: PeerAsn::Internal,
        transport: Transport { md5: Some(Secret(Arc::from(*b"secret"))), ttl: Ttl::Hops(1) },
        hold_time: None,
        ..peer()
    };
    let found = difference(&peer(), &changed);
    assert_eq!(found.reset.to_string(), "asn, password");
    assert_eq!(found.next_session.to_string(), "holdTime");
}
