//! The small words that sentences are made of: names in a row, moments, attributes.

use std::net::IpAddr;

use flock_bgp::{Attributes, NextHop};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cli::bgp::ExplainedAttributes;
use crate::cli::elapsed::rough;

/// More names than these are counted.
const NAMED: usize = 8;
/// From then on, a time of day needs its day.
const DAY: u64 = 24 * 60 * 60;

/// `a`, `a and b`, `a, b and c`; of many, some, and how many more.
pub(super) fn list(names: &[&str]) -> String {
    let shown = if names.len() > NAMED + 1 { NAMED } else { names.len() };
    let (first, rest) = names.split_at_checked(shown).unwrap_or((names, &[]));
    match (first, rest.len()) {
        ([], _) => String::new(),
        ([one], 0) => (*one).to_owned(),
        ([most @ .., last], 0) => format!("{} and {last}", most.join(", ")),
        (first, more) => format!("{} and {more} more", first.join(", ")),
    }
}

/// `at 12:00:03 UTC (5m ago)`.
pub(super) fn at(moment: Timestamp, now: Timestamp) -> String {
    format!("at {} ({} ago)", clock(moment, now), rough(seconds_between(moment, now)))
}

/// `since 12:00:03 UTC (5m ago)`.
pub(super) fn since(moment: Timestamp, now: Timestamp) -> String {
    format!("since {} ({} ago)", clock(moment, now), rough(seconds_between(moment, now)))
}

/// `12:00:03 UTC`, with its day where that is not today's.
pub(super) fn clock(moment: Timestamp, now: Timestamp) -> String {
    let long_ago = seconds_between(moment, now) >= DAY;
    let form = if long_ago { "%Y-%m-%d %H:%M:%S UTC" } else { "%H:%M:%S UTC" };
    moment.to_zoned(TimeZone::UTC).strftime(form).to_string()
}

/// Whole seconds; none where the clock was set back.
pub(super) fn seconds_between(from: Timestamp, until: Timestamp) -> u64 {
    u64::try_from(until.as_second().saturating_sub(from.as_second())).unwrap_or(0)
}

/// RFC 3339 without fractions.
pub(super) fn rfc3339(moment: Timestamp) -> String {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment).to_string()
}

/// `in 3s`; the last second counts until it is over.
pub(super) fn within(seconds: u64) -> String {
    format!("in {}", rough(seconds))
}

/// What a route says; `ours` has no next hop before it is told.
pub(super) fn attributes(of: &Attributes, ours: bool) -> ExplainedAttributes {
    let path = of.as_path.segments.iter().flat_map(|segment| segment.asns.iter().copied());
    ExplainedAttributes {
        next_hop: (!ours).then(|| next_hop(&of.next_hop).to_string()),
        as_path: path.collect(),
        communities: of.communities.iter().map(ToString::to_string).collect(),
        large_communities: of.large_communities.iter().map(ToString::to_string).collect(),
        med: of.med,
        local_pref: of.local_pref,
    }
}

/// The address that all know, where there is one.
fn next_hop(next_hop: &NextHop) -> IpAddr {
    match next_hop {
        NextHop::V4(address) => IpAddr::V4(*address),
        NextHop::V6 { global, link_local: Some(near) } if global.is_unspecified() => {
            IpAddr::V6(*near)
        }
        NextHop::V6 { global, .. } => IpAddr::V6(*global),
    }
}

/// `next hop 10.0.0.1, AS path 65001, MED 50`.
pub(super) fn told(of: &ExplainedAttributes) -> String {
    let path: Vec<String> = of.as_path.iter().map(u32::to_string).collect();
    let mut parts: Vec<String> = of.next_hop.iter().map(|hop| format!("next hop {hop}")).collect();
    parts.push(match path.as_slice() {
        [] => "empty AS path".to_owned(),
        path => format!("AS path {}", path.join(" ")),
    });
    parts.extend(of.med.map(|med| format!("MED {med}")));
    parts.extend(of.local_pref.map(|preference| format!("LOCAL_PREF {preference}")));
    for (what, list) in
        [("communities", &of.communities), ("large communities", &of.large_communities)]
    {
        let texts: Vec<&str> = list.iter().map(|community| named(community)).collect();
        parts.extend((!texts.is_empty()).then(|| format!("{what} {}", self::list(&texts))));
    }
    parts.join(", ")
}

/// Those that every router obeys, by their names.
fn named(community: &str) -> &str {
    match community {
        "65535:0" => "65535:0 (GRACEFUL_SHUTDOWN)",
        "65535:666" => "65535:666 (BLACKHOLE)",
        "65535:65281" => "65535:65281 (NO_EXPORT)",
        "65535:65282" => "65535:65282 (NO_ADVERTISE)",
        "65535:65283" => "65535:65283 (NO_EXPORT_SUBCONFED)",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_row() {
        let names: Vec<String> = (1..=12).map(|n| format!("p{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (count, expected) in [
            (0, ""),
            (1, "p1"),
            (2, "p1 and p2"),
            (3, "p1, p2 and p3"),
            (9, "p1, p2, p3, p4, p5, p6, p7, p8 and p9"),
            (10, "p1, p2, p3, p4, p5, p6, p7, p8 and 2 more"),
        ] {
            assert_eq!(list(&names[..count]), expected);
        }
    }

    #[test]
    fn moments() {
        let parse = |text: &str| -> Timestamp { text.parse().unwrap() };
        let now = parse("2026-07-29T12:00:00.7Z");
        assert_eq!(at(parse("2026-07-29T11:59:48.9Z"), now), "at 11:59:48 UTC (12s ago)");
        assert_eq!(since(parse("2026-07-28T12:00:01Z"), now), "since 12:00:01 UTC (23h ago)");
        assert_eq!(at(parse("2026-07-27T12:00:00Z"), now), "at 2026-07-27 12:00:00 UTC (2d ago)");
        assert_eq!(at(parse("2026-07-29T12:00:09Z"), now), "at 12:00:09 UTC (0s ago)");
        assert_eq!(rfc3339(now), "2026-07-29T12:00:00Z");
    }

    #[test]
    fn attributes_in_a_row() {
        let mut route = ExplainedAttributes {
            next_hop: Some("10.0.0.1".into()),
            as_path: vec![65_001, 65_001],
            communities: vec!["65001:100".into(), "65535:0".into()],
            large_communities: vec!["65001:1:2".into()],
            med: Some(0),
            local_pref: Some(100),
        };
        assert_eq!(
            told(&route),
            "next hop 10.0.0.1, AS path 65001 65001, MED 0, LOCAL_PREF 100, communities 65001:100 \
             and 65535:0 (GRACEFUL_SHUTDOWN), large communities 65001:1:2"
        );
        route = ExplainedAttributes {
            next_hop: None,
            as_path: vec![],
            communities: vec![],
            large_communities: vec![],
            med: None,
            local_pref: None,
        };
        assert_eq!(told(&route), "empty AS path");
    }
}
