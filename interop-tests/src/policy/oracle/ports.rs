//! Ports of rules: numbers, ranges, names.

use std::fmt;

use serde_json::Value;

use super::{Asked, list, text};

/// What a probe speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// A connection.
    Tcp,
    /// A datagram and its answer.
    Udp,
    /// The first packet of an association and its answer.
    Sctp,
    /// An echo request and its answer, in either family.
    Icmp,
}

impl Protocol {
    /// As the API calls it; ICMP it does not know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Icmp => "ICMP",
        }
    }

    /// By its name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Sctp, Self::Icmp].into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether an entry of `ports` covers what is asked. ICMP has no port, so none ever does.
pub(super) fn allows(entry: &Value, asked: &Asked<'_>) -> bool {
    let protocol = protocol(entry);
    if protocol != asked.protocol.name() {
        return false;
    }
    match entry.get("port") {
        None | Some(Value::Null) => true,
        Some(Value::String(name)) => {
            // All of those that the address stands for have to have it at this number.
            !asked.destination.is_empty()
                && asked.destination.iter().all(|pod| has(pod, name, protocol, asked.port))
        }
        Some(number) => {
            let first = number.as_u64().unwrap_or(u64::MAX);
            let last = entry.get("endPort").and_then(Value::as_u64).unwrap_or(first);
            (first..=last).contains(&u64::from(asked.port))
        }
    }
}

/// Whether a container of the pod calls this port so.
fn has(pod: &Value, name: &str, protocol_wanted: &str, number: u16) -> bool {
    let containers = list(pod, "/spec/containers").iter();
    containers.flat_map(|container| list(container, "/ports")).any(|port| {
        text(port, "/name") == name
            && protocol(port) == protocol_wanted
            && port.get("containerPort").and_then(Value::as_u64) == Some(u64::from(number))
    })
}

/// TCP, unless something else is written.
fn protocol(entry: &Value) -> &str {
    entry.get("protocol").and_then(Value::as_str).unwrap_or("TCP")
}
