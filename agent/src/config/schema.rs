//! The shape of a NodeConfig as it is written: names, nesting and kinds of values. Decides what a
//! typo is (an unknown key inside `spec` is refused); leaves every question of meaning to
//! `validate`, which is why texts are texts here and numbers are wide.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The whole object. `status` is ours to write, never to read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfig {
    /// `flock.fritzlab.net/v1alpha1`.
    pub api_version: String,
    /// `NodeConfig`.
    pub kind: String,
    /// The name is the node's.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: Spec,
    /// Read past.
    #[serde(default, skip_serializing)]
    pub status: IgnoredAny,
}

/// What we read of the object's metadata; the API server's other keys are skipped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The node's name.
    pub name: String,
    /// May hold `flock.fritzlab.net/ip-algo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Counted by the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// `spec`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Spec {
    /// IPv6 pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr6: Option<Vec<String>>,
    /// IPv4 pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr4: Option<Vec<String>>,
    /// Families of pods that do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Defaults>,
    /// Of pod interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// When STATUS says that the node can take pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// The speaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bgp: Option<Bgp>,
}

/// `spec.defaults`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Defaults {
    /// IPv6 unless the pod says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<bool>,
    /// IPv4 unless the pod says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<bool>,
}

/// `spec.readiness`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Readiness {
    /// How many sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<i64>,
    /// How long to wait for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// `spec.bgp`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Bgp {
    /// The node's AS number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asn: Option<i64>,
    /// The BGP identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_id: Option<String>,
    /// Where to listen; 0 never listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_port: Option<i64>,
    /// Each pod's own address beside the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announce_pods: Option<bool>,
    /// On everything that is originated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communities: Option<Vec<String>>,
    /// The routers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peers: Option<Vec<Peer>>,
}

/// One of `spec.bgp.peers`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Peer {
    /// Unique on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its address, or else `interface`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The link of an unnumbered peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// A number, `external` or `internal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asn: Option<PeerAsn>,
    /// Where it listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Our end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_address: Option<String>,
    /// `ipv6-unicast`, `ipv4-unicast`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub families: Option<Vec<String>>,
    /// RFC 4271 §4.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_time: Option<Span>,
    /// RFC 4271 §4.4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<Span>,
    /// Between attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_retry: Option<Span>,
    /// TCP MD5 (RFC 2385).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
    /// GTSM (RFC 5082), or else `multihop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_security: Option<bool>,
    /// The TTL towards a peer that is not on the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multihop: Option<i64>,
    /// Wait for the peer to connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passive: Option<bool>,
    /// RFC 4724.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graceful_restart: Option<GracefulRestart>,
    /// RFC 5880.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bfd: Option<Bfd>,
    /// What is believed of what it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<Import>,
    /// What is added to what it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<Export>,
    /// Our role (RFC 9234).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Instead of our own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<NextHop>,
}

/// `password`: exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Password {
    /// A Secret in the agent's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// A file, in standalone mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// `password.secretRef`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SecretRef {
    /// Of the Secret.
    pub name: String,
    /// In its data.
    pub key: String,
}

/// `gracefulRestart`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GracefulRestart {
    /// On unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How long the peer keeps our routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
}

/// `bfd`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Bfd {
    /// Off unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Between packets, both ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
    /// Missed packets until down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<i64>,
}

/// `import`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Import {
    /// Rules such as `2001:db8::/32 le 64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<Vec<String>>,
    /// More than this ends the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_prefixes: Option<i64>,
}

/// `export`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Export {
    /// Beside those of `spec.bgp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communities: Option<Vec<String>>,
    /// To iBGP peers only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_pref: Option<i64>,
    /// RFC 4271 §5.1.4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub med: Option<i64>,
    /// Our AS number this many times more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepend: Option<i64>,
}

/// `nextHop`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NextHop {
    /// For IPv6 routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    /// For IPv4 routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
}

/// A length of time: `90s`, `300ms`, or a whole number of seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// As written.
    Text(String),
    /// Seconds.
    Seconds(i64),
}

/// A peer's AS number: a number, or which kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAsn {
    /// The number.
    Number(i64),
    /// `external` or `internal`.
    Word(String),
}

/// A number or a text, told apart without guessing and with an error that says what is wanted.
struct NumberOrText(&'static str);

enum Either {
    Number(i64),
    Text(String),
}

impl Visitor<'_> for NumberOrText {
    type Value = Either;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Either, E> {
        Ok(Either::Number(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Either, E> {
        i64::try_from(number)
            .map(Either::Number)
            .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Either, E> {
        Ok(Either::Text(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = "a duration such as 90s or 300ms, or whole seconds";
        Ok(match deserializer.deserialize_any(NumberOrText(wanted))? {
            Either::Number(seconds) => Self::Seconds(seconds),
            Either::Text(text) => Self::Text(text),
        })
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Seconds(seconds) => serializer.serialize_i64(*seconds),
        }
    }
}

impl<'de> Deserialize<'de> for PeerAsn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = "an AS number, external or internal";
        Ok(match deserializer.deserialize_any(NumberOrText(wanted))? {
            Either::Number(number) => Self::Number(number),
            Either::Text(text) => Self::Word(text),
        })
    }
}

impl Serialize for PeerAsn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Word(word) => serializer.serialize_str(word),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Seconds(seconds) => write!(f, "{seconds}"),
        }
    }
}

impl fmt::Display for PeerAsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}
