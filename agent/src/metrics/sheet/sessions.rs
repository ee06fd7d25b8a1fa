//! The metrics of peers and their sessions.

use std::fmt;
use std::time::SystemTime;

use super::super::peers::{Peer, Routes, STATES};
use super::super::process::unix_seconds;
use super::{Labels, Sheet};

/// States, errors, and what was told.
pub(super) fn states(peers: &[Peer], at: SystemTime, sheet: &mut Sheet<'_>) -> fmt::Result {
    let names = STATES.map(|state| state.to_string());
    let states = peers.iter().flat_map(|peer| {
        let row = |(state, count)| ([("peer", peer.name.as_str()), ("state", state)], count);
        names.iter().map(String::as_str).zip(peer.states).map(row).collect::<Vec<_>>()
    });
    sheet.gauges(
        "flock_bgp_session_state",
        "The state of each session's machine (RFC 4271): 1 for the one that it is in",
        states,
    )?;
    sheet.gauges(
        "flock_bgp_session_up",
        "Whether the session is Established",
        of(peers, Peer::up),
    )?;
    sheet.gauges(
        "flock_bgp_session_uptime_seconds",
        "How long the session has been Established; 0 while it is not",
        of(peers, |peer| peer.uptime_seconds),
    )?;
    sheet.counters(
        "flock_bgp_session_flaps",
        "Sessions that ended, for whatever reason",
        of(peers, |peer| peer.flaps),
    )?;
    let errors = || peers.iter().filter_map(|peer| Some((peer, peer.last_error.as_ref()?)));
    sheet.gauges(
        "flock_bgp_session_last_error_info",
        "Why the last session or attempt ended: code and subcode of the NOTIFICATION (0: none) and who ended it",
        errors().map(|(peer, error)| {
            let labels = [
                ("peer", peer.name.as_str()),
                ("code", error.code.as_str()),
                ("subcode", error.subcode.as_str()),
                ("side", error.side),
            ];
            (labels, 1_u32)
        }),
    )?;
    let now = unix_seconds(at);
    sheet.gauges(
        "flock_bgp_session_last_error_timestamp_seconds",
        "When that was, in seconds of the epoch",
        errors().map(|(peer, error)| {
            ([("peer", peer.name.as_str())], (now - error.ago.as_secs_f64()).round())
        }),
    )?;
    let marks = peers.iter().flat_map(|peer| {
        let told = peer.routes().filter_map(|(family, routes)| Some((family, routes.end_of_rib?)));
        told.flat_map(move |(family, (sent, received))| {
            let row = |direction, done| {
                let peer = ("peer", peer.name.as_str());
                ([peer, ("family", family), ("direction", direction)], u32::from(done))
            };
            [row("sent", sent), row("received", received)]
        })
    });
    sheet.gauges(
        "flock_bgp_session_end_of_rib",
        "Whether everything was told in this session, to the peer and by it (RFC 4724)",
        marks,
    )
}

/// What was said, and what of it was strange.
pub(super) fn messages(peers: &[Peer], sheet: &mut Sheet<'_>) -> fmt::Result {
    let messages = peers.iter().flat_map(|peer| {
        let sent = peer.messages;
        let row = |direction, kind, count: u64| {
            ([("peer", peer.name.as_str()), ("direction", direction), ("type", kind)], count)
        };
        let others = |all: u64, updates: u64| all.saturating_sub(updates);
        [
            row("received", "update", sent.updates_received),
            row("received", "other", others(sent.received, sent.updates_received)),
            row("sent", "update", sent.updates_sent),
            row("sent", "other", others(sent.sent, sent.updates_sent)),
        ]
    });
    sheet.counters(
        "flock_bgp_messages",
        "BGP messages by peer, direction and type: UPDATEs, and all others",
        messages,
    )?;
    sheet.counters(
        "flock_bgp_malformed_updates",
        "UPDATEs with something wrong in them that was survived (RFC 7606)",
        of(peers, |peer| peer.faults),
    )?;
    sheet.counters(
        "flock_bgp_refused_prefixes",
        "Prefixes refused that overlap the node's networks or that a rule would have let in, each time",
        of(peers, |peer| peer.refused),
    )?;
    sheet.counters(
        "flock_bgp_contested_prefixes",
        "Prefixes told by a peer that this node announces itself, each time; everyday for anycast addresses",
        of(peers, |peer| peer.contested),
    )
}

/// One number of a family.
type Figure = fn(&Routes) -> u64;

/// How many prefixes.
pub(super) fn prefixes(peers: &[Peer], sheet: &mut Sheet<'_>) -> fmt::Result {
    let figures: [(&str, &str, Figure); 4] = [
        (
            "flock_bgp_prefixes_received",
            "Prefixes that the peer tells, refused ones included",
            |routes| routes.received,
        ),
        (
            "flock_bgp_prefixes_accepted",
            "Prefixes that the peer tells and import.accept lets in",
            |routes| routes.accepted,
        ),
        ("flock_bgp_prefixes_advertised", "Prefixes that the peer was told", |routes| {
            routes.advertised
        }),
        (
            "flock_bgp_prefixes_pending",
            "Prefixes that are still to be looked at for the peer; more than none for long: it does not read",
            |routes| routes.pending,
        ),
    ];
    for (name, help, figure) in figures {
        let rows = peers.iter().flat_map(|peer| {
            let row = move |(family, routes)| {
                ([("peer", peer.name.as_str()), ("family", family)], figure(routes))
            };
            peer.routes().map(row)
        });
        sheet.gauges(name, help, rows)?;
    }
    sheet.gauges(
        "flock_bgp_prefix_limit",
        "import.maxPrefixes: more accepted prefixes of a family than this end the session",
        peers.iter().filter_map(|peer| Some(([("peer", peer.name.as_str())], peer.limit?))),
    )
}

/// A row for each peer.
fn of<V>(peers: &[Peer], figure: impl Fn(&Peer) -> V) -> impl Iterator<Item = (Labels<'_, 1>, V)> {
    peers.iter().map(move |peer| ([("peer", peer.name.as_str())], figure(peer)))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, text};
    use prometheus_client::registry::Registry;

    use super::super::super::peers::LastError;
    use super::*;

    #[derive(Debug)]
    struct Peers(Vec<Peer>);

    impl Collector for Peers {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let at = UNIX_EPOCH + Duration::from_millis(1_000_400);
            let mut sheet = Sheet(encoder);
            states(&self.0, at, &mut sheet)?;
            prefixes(&self.0, &mut sheet)
        }
    }

    fn text(peer: Peer) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Peers(vec![peer])));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn a_name_is_a_label_whatever_is_in_it() {
        let text = text(Peer::untold("a \"b\"\\\n# TYPE x"));
        let line = "flock_bgp_session_up{peer=\"a \\\"b\\\"\\\\\\n# TYPE x\"} 0\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn the_last_error_is_numbers_and_a_moment() {
        let mut peer = Peer::untold("tor-a");
        peer.last_error = Some(LastError {
            code: "6".into(),
            subcode: "2".into(),
            side: "received",
            ago: Duration::from_millis(300_300),
        });
        peer.families =
            [Some(Routes { end_of_rib: Some((true, false)), ..Routes::default() }), None];
        let text = text(peer);
        for line in [
            "last_error_info{peer=\"tor-a\",code=\"6\",subcode=\"2\",side=\"received\"} 1\n",
            "last_error_timestamp_seconds{peer=\"tor-a\"} 700.0\n",
            "end_of_rib{peer=\"tor-a\",family=\"ipv4\",direction=\"sent\"} 1\n",
            "end_of_rib{peer=\"tor-a\",family=\"ipv4\",direction=\"received\"} 0\n",
        ] {
            assert!(text.contains(&format!("flock_bgp_session_{line}")), "{line}{text}");
        }
        assert!(!text.contains("family=\"ipv6\""), "it is not wished for: {text}");
    }
}
