//! Answers for tests: a peer that is up and one that is not, and a route of each kind.

use super::answer::*;
use crate::cli::output::Look;

pub(super) const NARROW: Look = Look::PIPE;
pub(super) const WIDE: Look = Look { wide: true, ..Look::PIPE };

pub(super) fn summary() -> Summary {
    Summary {
        node: "node-a".into(),
        asn: Some(65001),
        router_id: Some("10.0.0.11".into()),
        listening: vec!["[::]:179".into()],
        drain: Some("draining, 12 s left".into()),
        originated: 3,
        learned: 12,
        installed: 11,
        peers: peers().into(),
    }
}

pub(crate) fn peers() -> [PeerRow; 2] {
    [up(), down()]
}

fn up() -> PeerRow {
    let family = |family: &str, is_used: bool, received, accepted, advertised| FamilyRow {
        family: family.into(),
        negotiated: is_used,
        received,
        accepted,
        advertised,
        end_of_rib_sent: is_used,
        end_of_rib_received: is_used,
        stale: false,
    };
    PeerRow {
        name: "tor-a".into(),
        address: "2001:db8:ffff::1".into(),
        asn: Some(65000),
        local_asn: 65001,
        state: PeerState::Established,
        uptime_seconds: 8253,
        families: vec!["ipv6-unicast".into()],
        received: 12,
        accepted: 11,
        advertised: 3,
        last_error: Some("received Cease / Administrative Reset (6/4)".into()),
        last_error_seconds_ago: Some(8260),
        state_seconds: 8254,
        next_attempt_seconds: None,
        router_id: Some("10.0.0.1".into()),
        local_address: Some("2001:db8:ffff::2".into()),
        hold_time_seconds: Some(30),
        keepalive_seconds: Some(10),
        end_of_rib_sent: true,
        end_of_rib_received: true,
        restarting: false,
        pending: Some("holdTime".into()),
        not_announced: vec![NotAnnounced {
            family: "ipv4-unicast".into(),
            reason: "no IPv4 address for a next hop".into(),
        }],
        flaps: 1,
        messages_sent: 831,
        messages_received: 830,
        family_details: vec![
            family("ipv6-unicast", true, 12, 11, 3),
            family("ipv4-unicast", false, 0, 0, 0),
        ],
    }
}

fn down() -> PeerRow {
    PeerRow {
        name: "tor-b".into(),
        address: "192.0.2.2".into(),
        asn: Some(4_200_000_001),
        local_asn: 65001,
        state: PeerState::Active,
        uptime_seconds: 0,
        families: vec!["ipv4-unicast".into()],
        received: 0,
        accepted: 0,
        advertised: 0,
        last_error: Some("cannot connect: Connection refused".into()),
        last_error_seconds_ago: Some(5),
        state_seconds: 5,
        next_attempt_seconds: Some(3),
        router_id: None,
        local_address: None,
        hold_time_seconds: None,
        keepalive_seconds: None,
        end_of_rib_sent: false,
        end_of_rib_received: false,
        restarting: false,
        pending: None,
        not_announced: vec![],
        flaps: 0,
        messages_sent: 0,
        messages_received: 0,
        family_details: vec![],
    }
}

/// Two of our own, one prefix with a best, an equal and a lesser path, and one refused.
pub(crate) fn routes() -> [RouteRow; 6] {
    let summary = RouteRow {
        communities: vec!["65001:100".into(), "no-export".into()],
        large_communities: vec!["65001:1:2".into()],
        ..local("2001:db8:a::/64", "spec.cidr6")
    };
    let best = learned("::/0", "tor-a", "2001:db8:ffff::1");
    let equal = learned("::/0", "tor-b", "2001:db8:ffff::3");
    let lesser = learned("::/0", "tor-c", "2001:db8:ffff::5");
    let refused = learned("10.0.0.0/8", "tor-a", "192.0.2.1");
    [
        summary,
        local("192.0.2.53/32", "shop/dns-0"),
        RouteRow { best: true, med: Some(10), ..best },
        RouteRow { equal: true, stale: true, installed: Some(false), ..equal },
        RouteRow { as_path: vec![65000, 65010], installed: None, ..lesser },
        RouteRow {
            refused: Some("no rule of import.accept matches".into()),
            local_pref: None,
            installed: None,
            ..refused
        },
    ]
}

fn local(prefix: &str, owner: &str) -> RouteRow {
    RouteRow {
        prefix: prefix.into(),
        source: RouteSource::Local,
        owner: Some(owner.into()),
        peer: None,
        next_hops: vec![],
        as_path: vec![],
        communities: vec![],
        large_communities: vec![],
        med: None,
        local_pref: None,
        best: true,
        equal: false,
        stale: false,
        refused: None,
        installed: None,
    }
}

fn learned(prefix: &str, peer: &str, next_hop: &str) -> RouteRow {
    RouteRow {
        source: RouteSource::Learned,
        owner: None,
        peer: Some(peer.into()),
        next_hops: vec![next_hop.into()],
        as_path: vec![65000],
        local_pref: Some(100),
        best: false,
        installed: Some(true),
        ..local(prefix, "")
    }
}
