//! A route as a router shows it, whoever printed it.

use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::Value;

/// One path of a prefix in a router's BGP table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path {
    /// Next hops: the global one first, then a link-local one if it was sent.
    pub next_hops: Vec<IpAddr>,
    /// AS_PATH, sequences flattened.
    pub as_path: Vec<u32>,
    /// `65001:100`, as it saw them, sorted.
    pub communities: Vec<String>,
    /// `65001:1:2`, as it saw them, sorted.
    pub large_communities: Vec<String>,
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// LOCAL_PREF, where it tells.
    pub local_pref: Option<u32>,
    /// Kept for a peer that restarts (RFC 4724), where it tells.
    pub stale: bool,
}

/// What comes in an array under a key; empty when there is none.
pub(super) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A number that fits, under a key.
pub(super) fn number(value: &Value, key: &str) -> Option<u32> {
    value.get(key)?.as_u64()?.try_into().ok()
}

/// A string under a key.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// The numbers of an AS path in text; what is no number (braces of a set) is
/// left out.
pub(super) fn as_path(text: &str) -> Vec<u32> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// The numbers of a community with colons between: `1:2:3`.
pub(super) fn community(numbers: &[Value]) -> String {
    let words: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    words.join(":")
}

/// A list of communities, as numbers whatever they are called, sorted.
pub(super) fn communities(list: &[Value]) -> Vec<String> {
    let number = |name: &str| match name {
        "gracefulShutdown" | "GRACEFUL_SHUTDOWN" => "65535:0".to_owned(),
        other => other.to_owned(),
    };
    let mut all: Vec<_> = list.iter().filter_map(Value::as_str).map(number).collect();
    all.sort();
    all
}

/// Parses JSON that a router printed.
pub(super) fn parsed(what: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("{what} printed: {text}"))
}

/// The gateways of a route that `ip -j` printed; one of the other family than
/// the route's stands under `via`.
pub(super) fn gateways(route: &Value) -> Vec<IpAddr> {
    let each = std::iter::once(route).chain(items(route, "nexthops"));
    let hop = |one: &Value| {
        let other_family = one.get("via").and_then(|via| text(via, "host"));
        text(one, "gateway").or(other_family)?.parse().ok()
    };
    each.filter_map(hop).collect()
}
