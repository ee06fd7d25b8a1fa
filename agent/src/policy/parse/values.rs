//! Single values of a NetworkPolicy: ports, blocks, requirements, labels.

use ipnet::IpNet;
use serde_json::Value;

use super::shape::{BlockSpec, PortSpec, RequirementSpec};
use crate::policy::labels::Requirement;
use crate::policy::model::{Peer, PortMatch, PortWish, Protocol};

/// The longest name of a port, as IANA wants it.
const MAX_PORT_NAME: usize = 15;
/// Of a label's value, and of the part of a key behind its `/`.
const MAX_LABEL: usize = 63;
/// Of the part before it.
const MAX_PREFIX: usize = 253;

/// One entry of `ports`.
pub(super) fn port(spec: &PortSpec, path: &str) -> Result<PortWish, String> {
    let protocol = match spec.protocol.as_deref() {
        None | Some("TCP") => Protocol::Tcp,
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        Some(other) => {
            return Err(format!("{path}.protocol: {other:?} is none of TCP, UDP and SCTP"));
        }
    };
    let ports = match &spec.port {
        None => PortMatch::All,
        Some(Value::String(name)) => port_name(name, &format!("{path}.port"))?,
        Some(value) => {
            let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
            let number = number.filter(|number| *number > 0).ok_or_else(|| {
                format!("{path}.port: {value} is not a port; write 1 to 65535, or a name")
            })?;
            PortMatch::Numbers(number, number)
        }
    };
    let Some(end) = spec.end_port else { return Ok(PortWish { protocol, ports }) };
    let PortMatch::Numbers(first, _) = ports else {
        return Err(format!("{path}.endPort: {end} needs a port that is a number"));
    };
    let last = u16::try_from(end).ok().filter(|last| *last >= first);
    let last =
        last.ok_or_else(|| format!("{path}.endPort: {end} is not between {first} and 65535"))?;
    Ok(PortWish { protocol, ports: PortMatch::Numbers(first, last) })
}

fn port_name(name: &str, path: &str) -> Result<PortMatch, String> {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = name.len() <= MAX_PORT_NAME
        && name.chars().all(known)
        && name.contains(|c: char| c.is_ascii_lowercase())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if good {
        return Ok(PortMatch::Named(name.into()));
    }
    let remedy = match name.parse::<u16>() {
        Ok(_) => "write a number without quotes",
        Err(_) => "it has up to 15 of a-z, 0-9 and single -, with a letter among them",
    };
    Err(format!("{path}: {name:?} is not the name of a port; {remedy}"))
}

/// An `ipBlock`.
pub(super) fn block(spec: &BlockSpec, path: &str) -> Result<Peer, String> {
    let cidr = network(&spec.cidr, &format!("{path}.cidr"))?;
    let mut except = Vec::new();
    for (n, text) in spec.except.iter().flatten().enumerate() {
        let path = format!("{path}.except[{n}]");
        let part = network(text, &path)?;
        if !cidr.contains(&part) {
            return Err(format!("{path}: {part} is not inside {cidr}"));
        }
        if part == cidr {
            return Err(format!("{path}: {part} is all of {cidr}; nothing would be left"));
        }
        except.push(part);
    }
    Ok(Peer::Block { cidr, except })
}

/// Bits of the host are not looked at: the API server accepts them.
fn network(text: &str, path: &str) -> Result<IpNet, String> {
    let network = text.parse::<IpNet>().map_err(|_| {
        format!("{path}: {text:?} is not a network such as 10.0.0.0/8 or 2001:db8::/32")
    })?;
    Ok(network.trunc())
}

/// One of `matchExpressions`.
pub(super) fn requirement(
    spec: &RequirementSpec,
    path: &str,
    labels_are_checked: bool,
) -> Result<Requirement, String> {
    if labels_are_checked {
        label_key(&spec.key, &format!("{path}.key"))?;
    }
    let key: Box<str> = spec.key.as_str().into();
    let said = spec.values.as_deref().unwrap_or_default();
    let operator = spec.operator.as_str();
    if !matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist") {
        return Err(format!(
            "{path}.operator: {operator:?} is none of In, NotIn, Exists and DoesNotExist"
        ));
    }
    let wants_values = matches!(operator, "In" | "NotIn");
    if wants_values && said.is_empty() {
        return Err(format!("{path}.values: is empty; {operator} needs a value"));
    }
    if let Some(value) = said.first().filter(|_| !wants_values) {
        return Err(format!("{path}.values: has {value:?}; {operator} has no values"));
    }
    if labels_are_checked {
        for (n, value) in said.iter().enumerate() {
            label_value(value, &format!("{path}.values[{n}]"))?;
        }
    }
    let values = said.iter().map(|value| value.as_str().into()).collect();
    Ok(match operator {
        "In" => Requirement::In(key, values),
        "NotIn" => Requirement::NotIn(key, values),
        "Exists" => Requirement::Exists(key),
        _ => Requirement::DoesNotExist(key),
    })
}

/// The key of a label: a name, perhaps behind a domain and a `/`.
pub(super) fn label_key(key: &str, path: &str) -> Result<(), String> {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(p, name)| (Some(p), name));
    let domain = |prefix: &str| {
        let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        (1..=MAX_PREFIX).contains(&prefix.len()) && prefix.chars().all(known)
    };
    if name.is_empty() || !is_word(name) || !prefix.is_none_or(domain) {
        return Err(format!("{path}: {key:?} is not the key of a label"));
    }
    Ok(())
}

/// The value of a label.
pub(super) fn label_value(value: &str, path: &str) -> Result<(), String> {
    if !is_word(value) {
        return Err(format!("{path}: {value:?} is not the value of a label"));
    }
    Ok(())
}

fn is_word(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= MAX_LABEL
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && edge(text.chars().next())
        && edge(text.chars().next_back())
}
