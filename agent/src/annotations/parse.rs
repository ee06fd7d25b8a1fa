//! Reads a pod's annotations. Decides what each text means by itself; leaves to `plan` whether it
//! can be had on this node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::{Ipv4Net, Ipv6Net};

use super::AnnotationError;
use crate::ipam::{self, BadNetwork, IpAlgo};

/// What all our annotations begin with.
pub const PREFIX: &str = "flock.fritzlab.net/";
/// Readiness by hand, in standalone mode.
const READY: &str = "ready";
/// No list has more entries. A pod with more addresses is a mistake, and each costs a route.
const MAX_ENTRIES: usize = 64;
/// How much of a list that is too long an error repeats.
const SHOWN: usize = 64;

/// What a pod asks for; nothing asked for is the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodWishes {
    /// Whether the pod wants IPv6, where it says so.
    pub ipv6: Option<bool>,
    /// Whether the pod wants IPv4, where it says so.
    pub ipv4: Option<bool>,
    /// Narrows the node's IPv6 pools.
    pub cidr6: Vec<Ipv6Net>,
    /// Narrows the node's IPv4 pools.
    pub cidr4: Vec<Ipv4Net>,
    /// What its IPv6 address should say about it.
    pub ip_algo: Option<IpAlgo>,
    /// Addresses that it shares with others, announced while it is Ready.
    pub anycast: Vec<IpAddr>,
    /// Addresses of its own, instead of or beside allocated ones.
    pub addresses: Vec<IpAddr>,
    /// What was overlooked, for the log and the pod's events.
    pub warnings: Vec<String>,
}

/// Reads all annotations of a pod; those of others are skipped.
pub fn parse(annotations: &BTreeMap<String, String>) -> Result<PodWishes, AnnotationError> {
    let mut wishes = PodWishes::default();
    for (key, value) in annotations {
        let Some(name) = key.strip_prefix(PREFIX) else {
            continue;
        };
        match name {
            "ipv6" => wishes.ipv6 = Some(boolean(name, value)?),
            "ipv4" => wishes.ipv4 = Some(boolean(name, value)?),
            // Not a wish: the source reads it, and here it only has to be one.
            READY => {
                boolean(name, value)?;
            }
            "cidr6" => wishes.cidr6 = list(name, value, ipam::network6)?,
            "cidr4" => wishes.cidr4 = list(name, value, ipam::network4)?,
            "anycast" => wishes.anycast = list(name, value, ipam::address)?,
            "addresses" => wishes.addresses = list(name, value, ipam::address)?,
            "ip-algo" => match value.parse() {
                Ok(algo) => wishes.ip_algo = Some(algo),
                Err(error) => wishes
                    .warnings
                    .push(format!("annotation {key}: {value:?}: {error}; it is not followed")),
            },
            _ => wishes
                .warnings
                .push(format!("annotation {key}: {value:?}: there is no such annotation")),
        }
    }
    if let Some(both) = wishes.addresses.iter().find(|addr| wishes.anycast.contains(addr)) {
        return Err(AnnotationError::bad(
            "addresses",
            both,
            format!("the same address is in {PREFIX}anycast; keep it in one of them"),
        ));
    }
    Ok(wishes)
}

/// Whether the pod is Ready as far as its annotation says: without one it is.
pub(crate) fn ready(annotations: &BTreeMap<String, String>) -> Result<bool, AnnotationError> {
    match annotations.get(&format!("{PREFIX}{READY}")) {
        None => Ok(true),
        Some(value) => boolean(READY, value),
    }
}

/// The words that Go's `strconv.ParseBool` takes, because existing pods use them.
fn boolean(name: &str, value: &str) -> Result<bool, AnnotationError> {
    match value.trim() {
        "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(true),
        "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(false),
        _ => Err(AnnotationError::bad(name, value, "not a boolean; write \"true\" or \"false\"")),
    }
}

/// A comma-separated list. An empty value is an empty list (templates write that), an empty
/// element in a longer one is a slip.
fn list<T: PartialEq>(
    name: &str,
    value: &str,
    read: impl Fn(&str) -> Result<T, BadNetwork>,
) -> Result<Vec<T>, AnnotationError> {
    let mut found = Vec::new();
    if value.trim().is_empty() {
        return Ok(found);
    }
    // Before anything is read: what follows compares each entry with all before it.
    let entries = value.split(',').count();
    if entries > MAX_ENTRIES {
        let start: String = value.chars().take(SHOWN).chain(['…']).collect();
        let problem = format!("it has {entries} entries, and at most {MAX_ENTRIES} are allowed");
        return Err(AnnotationError::bad(name, start, problem));
    }
    for word in value.split(',').map(str::trim) {
        if word.is_empty() {
            return Err(AnnotationError::bad(name, value, "an element is empty; remove the comma"));
        }
        let item = read(word).map_err(|error| AnnotationError::bad(name, word, error))?;
        if found.contains(&item) {
            return Err(AnnotationError::bad(name, word, "it is listed twice; list it once"));
        }
        found.push(item);
    }
    Ok(found)
}
