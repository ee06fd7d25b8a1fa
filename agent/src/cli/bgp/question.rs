//! What can be asked about BGP, in types that both ends of the admin socket share. A value is
//! checked where it is read: by clap before the agent is asked, and by serde in the agent.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Longer than any name that a person writes.
const LONGEST_NAME: usize = 255;
/// RFC 9003 §2.
const LONGEST_WORDS: usize = 255;
/// Longer than any text of a row that a person looks for.
const LONGEST_NEEDLE: usize = 64;

/// The arguments of `bgp.peers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PeersArgs {
    /// Only this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<PeerName>,
}

/// The arguments of `bgp.refresh`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefreshArgs {
    /// Whose session.
    pub peer: PeerName,
    /// Which way.
    #[serde(default)]
    pub direction: Direction,
}

/// Which way routes go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The peer is asked for everything, and told everything.
    #[default]
    Both,
    /// It is asked.
    In,
    /// It is told.
    Out,
}

/// The arguments of `bgp.reset`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResetArgs {
    /// Whose session.
    pub peer: PeerName,
    /// What the peer is told; `None`: that an operator wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Words>,
}

/// Words for a peer's operator, as long as RFC 9003 lets them be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Words(String);

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text.len() > LONGEST_WORDS {
            return Err(format!("a message has 1 to {LONGEST_WORDS} bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err("a message has no control characters".into());
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Words {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Words> for String {
    fn from(words: Words) -> Self {
        words.0
    }
}

/// The arguments of `bgp.routes`. What is given narrows the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoutesArgs {
    /// Only routes that this admits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Destination>,
    /// Which table.
    #[serde(default)]
    pub which: Which,
    /// Only what this peer told; of those advertised, what it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerName>,
    /// The prefix, and all routes within it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub within: bool,
    /// Only rows with this in their prefix, owner or peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<Needle>,
    /// So many rows, and the other paths of the last one's prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only routes behind this prefix, in the order in which they are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<IpNet>,
}

impl RoutesArgs {
    /// What no single value shows to be wrong.
    pub fn check(&self) -> Result<(), String> {
        match (self.within, self.prefix) {
            (true, None | Some(Destination::Address(_))) => {
                Err("what is within a prefix wants a prefix, for example 10.0.0.0/8".into())
            }
            _ => Ok(()),
        }
    }
}

/// Which routes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// Originated and received ones.
    #[default]
    All,
    /// What peers told, refused ones included.
    Received,
    /// What peers were told: a row per prefix and peer.
    Advertised,
    /// What this node originates.
    Originated,
}

/// The name of a peer, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PeerName(String);

impl PeerName {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PeerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // As the configuration reads it.
        let name = text.trim();
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Err(format!(
                "the name of a peer has 1 to {LONGEST_NAME} bytes; write for example tor-a"
            ));
        }
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for PeerName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PeerName> for String {
    fn from(name: PeerName) -> Self {
        name.0
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What is looked for in the text of a row, in letters of either case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Needle(String);

impl Needle {
    /// Whether a text has it.
    pub fn is_in(&self, text: &str) -> bool {
        let (needle, text) = (self.0.as_bytes(), text.as_bytes());
        text.windows(needle.len()).any(|part| part.eq_ignore_ascii_case(needle))
    }
}

impl FromStr for Needle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text.len() > LONGEST_NEEDLE {
            return Err(format!("what is looked for has 1 to {LONGEST_NEEDLE} bytes"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Needle {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Needle> for String {
    fn from(needle: Needle) -> Self {
        needle.0
    }
}

/// A prefix, or an address within prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Destination {
    /// The route of this very prefix, as routers mean it.
    Prefix(IpNet),
    /// The routes that hold this address.
    Address(IpAddr),
}

impl Destination {
    /// Whether a route of this prefix was asked for.
    pub fn admits(&self, prefix: &IpNet) -> bool {
        match self {
            Self::Prefix(wanted) => wanted == prefix,
            Self::Address(address) => prefix.contains(address),
        }
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let net: IpNet = text.parse().map_err(|_| {
            "neither a prefix nor an address; write for example 2001:db8::/64, 10.0.0.0/8 or \
             2001:db8::1"
        })?;
        if net != net.trunc() {
            return Err(format!(
                "bits are set beyond the prefix length; write the network {}, or the address {}",
                net.trunc(),
                net.addr()
            ));
        }
        Ok(Self::Prefix(net))
    }
}

impl TryFrom<String> for Destination {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|why| format!("{text:?}: {why}"))
    }
}

impl From<Destination> for String {
    fn from(destination: Destination) -> Self {
        destination.to_string()
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(net) => write!(f, "{net}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}
