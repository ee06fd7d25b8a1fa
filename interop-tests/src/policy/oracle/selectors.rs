//! Label selectors, and blocks of addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::{list, text};

/// Labels by key.
pub(super) type Labels = BTreeMap<String, String>;

/// The labels of an object.
pub(super) fn labels(object: &Value) -> Labels {
    pairs(object.pointer("/metadata/labels"))
}

fn pairs(map: Option<&Value>) -> Labels {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    let pair = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    entries.filter_map(pair).collect()
}

/// Whether labels fulfil everything that a selector asks for; an empty one asks for nothing.
pub(super) fn matches(selector: &Value, labels: &Labels) -> bool {
    let exactly = pairs(selector.get("matchLabels"));
    exactly.iter().all(|(key, value)| labels.get(key) == Some(value))
        && list(selector, "/matchExpressions").iter().all(|one| fulfils(one, labels))
}

fn fulfils(expression: &Value, labels: &Labels) -> bool {
    let value = labels.get(text(expression, "/key"));
    let among =
        || value.is_some_and(|own| list(expression, "/values").iter().any(|one| one == own));
    match text(expression, "/operator") {
        "In" => among(),
        // Who does not have the key at all has none of the values either.
        "NotIn" => !among(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// Whether an address is in a block.
pub(super) fn contains(cidr: &str, address: IpAddr) -> bool {
    let Some((network, length)) = cidr.split_once('/') else { return false };
    let (Ok(network), Ok(length)) = (network.parse::<IpAddr>(), length.parse::<u32>()) else {
        return false;
    };
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differing = network.to_bits() ^ address.to_bits();
            differing.leading_zeros() >= length
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differing = network.to_bits() ^ address.to_bits();
            differing.leading_zeros() >= length
        }
        _ => false,
    }
}
