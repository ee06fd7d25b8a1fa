//! What can be asked about policies, in types that both ends of the admin socket share. A value is
//! checked where it is read: by clap before the agent is asked, and by serde in the agent.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::policy::Protocol;
use crate::source::PodKey;

/// Longer than any name that Kubernetes has.
const LONGEST_NAME: usize = 253;

/// `NAMESPACE/NAME`, or `NAME` of the namespace `default`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PodName(pub PodKey);

impl FromStr for PodName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
        let good = |part: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            (1..=LONGEST_NAME).contains(&part.len()) && part.chars().all(plain)
        };
        // A network is a slip of the hand, not a pod.
        let network = text.parse::<ipnet::IpNet>().is_ok();
        if good(namespace) && good(name) && !network {
            return Ok(Self(PodKey { namespace: namespace.into(), name: name.into() }));
        }
        Err(format!("{text:?}: write a pod as NAMESPACE/NAME, or NAME for the namespace default"))
    }
}

impl TryFrom<String> for PodName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PodName> for String {
    fn from(name: PodName) -> Self {
        name.0.to_string()
    }
}

/// Somebody who talks or is talked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Who {
    /// Whoever has this address.
    Address(IpAddr),
    /// This pod.
    Pod(PodName),
}

impl FromStr for Who {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => text.parse().map(Self::Pod).map_err(|_| {
                format!("{text:?}: neither an address nor a pod; write a pod as NAMESPACE/NAME")
            }),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Pod(pod) => pod.0.fmt(f),
        }
    }
}

impl TryFrom<String> for Who {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Who> for String {
    fn from(who: Who) -> Self {
        who.to_string()
    }
}

/// What is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "UPPERCASE")]
pub enum Spoken {
    /// TCP.
    #[default]
    #[value(alias = "TCP")]
    Tcp,
    /// UDP.
    #[value(alias = "UDP")]
    Udp,
    /// SCTP.
    #[value(alias = "SCTP")]
    Sctp,
    /// A ping, or whatever else has no ports.
    #[value(alias = "ICMP")]
    Icmp,
}

impl Spoken {
    /// As policies call it; `None`: they do not speak of it.
    pub fn protocol(self) -> Option<Protocol> {
        match self {
            Self::Tcp => Some(Protocol::Tcp),
            Self::Udp => Some(Protocol::Udp),
            Self::Sctp => Some(Protocol::Sctp),
            Self::Icmp => None,
        }
    }
}

/// The arguments of `policy.show`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyShowArgs {
    /// Only this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodName>,
}

/// The arguments of `policy.explain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyExplainArgs {
    /// Who talks.
    pub from: Who,
    /// To whom.
    pub to: Who,
    /// What is spoken.
    #[serde(default)]
    pub protocol: Spoken,
    /// To which port; none for what has no ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_is_an_address_or_a_pod() {
        let who = |text: &str| text.parse::<Who>().map(|who| who.to_string());
        assert_eq!(who("10.0.0.1").unwrap(), "10.0.0.1");
        assert_eq!(who("2001:db8::1").unwrap(), "2001:db8::1");
        assert_eq!(who("shop/web-0").unwrap(), "shop/web-0");
        assert_eq!(who("web-0").unwrap(), "default/web-0");
        for bad in ["", "/", "a/", "/a", "a/b/c", "a b", "10.0.0.0/8"] {
            let refused = who(bad).unwrap_err();
            assert!(refused.contains("neither an address nor a pod"), "{refused}");
        }
        let read: Result<PolicyShowArgs, _> = serde_json::from_str(r#"{"pod":"a b"}"#);
        assert!(read.unwrap_err().to_string().contains("NAMESPACE/NAME"));
    }
}
