//! The shape of a NodeConfig as it is written: names, nesting and kinds of values. Decides what a
//! typo is (an unknown key inside `spec` is refused); leaves every question of meaning to
//! `validate`, which is why texts are texts here and numbers are wide.
//!
//! The CustomResourceDefinition is made from these types (`kubernetes/crd`), and the sentences about
//! fields are what `kubectl explain` says. The bounds and patterns are for the API server, which
//! refuses what can be told wrong without knowing much; they are never narrower than `validate`.

mod number_or_text;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::bounds;
pub use number_or_text::{PeerAsn, Span};

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

/// What is wanted of the node: which networks its pods have, and how it peers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Spec {
    /// IPv6 networks for pods, such as 2001:db8:0:1::/64. Where neither cidr6 nor cidr4 is given, the
    /// Node's podCIDRs are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NETWORKS), inner(regex(pattern = r":.*/[0-9]")))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cidr6: Option<Vec<String>>,
    /// IPv4 networks for pods, such as 10.244.1.0/24. Network, first host and broadcast are not given
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NETWORKS), inner(regex(pattern = r"[0-9]\.[0-9].*/[0-9]")))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cidr4: Option<Vec<String>>,
    /// Families of pods that do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Defaults>,
    /// Of pods' interfaces. Default: the uplink's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = bounds::LEAST_MTU, max = bounds::MOST_MTU))]
    pub mtu: Option<i64>,
    /// When the node may take pods. Default: as soon as the agent can serve them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// How NetworkPolicies are enforced on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicy>,
    /// The BGP speaker. Default: the node does not speak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bgp: Option<Bgp>,
}

/// `spec.defaults`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Defaults {
    /// Whether pods that do not say have IPv6. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<bool>,
    /// Whether pods that do not say have IPv4. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<bool>,
}

/// `spec.readiness`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Readiness {
    /// New pods wait until so many sessions are up and have been told everything. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = u32::MAX))]
    pub sessions: Option<i64>,
    /// After that new pods are served all the same, such as 60s; 1s to 1h. Default: 60s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// `spec.networkPolicy`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkPolicy {
    /// Log packets that policies drop, at most ten a second. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_drops: Option<bool>,
}

/// `spec.bgp`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["asn"]))]
pub struct Bgp {
    /// The node's AS number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = u32::MAX))]
    pub asn: Option<i64>,
    /// The BGP identifier, written like an IPv4 address. Default: from the node's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+"))]
    pub router_id: Option<String>,
    /// Where to listen; 0 never listens, and only this node dials. Default: 179.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = u16::MAX))]
    pub listen_port: Option<i64>,
    /// Announce also each pod's own /128 and /32, beside the networks. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announce_pods: Option<bool>,
    /// On everything that is announced: 65001:100, large ones such as 65001:1:2, and the names
    /// graceful-shutdown, blackhole, no-export, no-advertise, no-export-subconfed, no-peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::COMMUNITIES), inner(regex(pattern = COMMUNITY)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub communities: Option<Vec<String>>,
    /// The routers to speak with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::PEERS))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub peers: Option<Vec<Peer>>,
}

/// Two numbers, three, or a name.
const COMMUNITY: &str = "[0-9]:[0-9]|graceful-shutdown|blackhole|no-(export|advertise|peer)";

/// A router to speak with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend(
    "required" = ["name", "asn"],
    "oneOf" = [{ "required": ["address"] }, { "required": ["interface"] }],
    "not" = {
        "properties": { "ttlSecurity": { "enum": [true] } },
        "required": ["ttlSecurity", "multihop"],
    },
))]
pub struct Peer {
    /// Unique on the node; what bgp show, the log and Events call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Where the router is; or else interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ADDRESS))]
    pub address: Option<String>,
    /// The link of an unnumbered peer, instead of address. Not followed in this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15), regex(pattern = r"^[^/:\s]+$"))]
    pub interface: Option<String>,
    /// The router's AS number, or external (any but ours), or internal (ours).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asn: Option<PeerAsn>,
    /// Where the router listens. Default: 179.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = u16::MAX))]
    pub port: Option<i64>,
    /// Our end of the session. Default: the node's address on the router's network, if there is just
    /// one; else the kernel's choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ADDRESS))]
    pub local_address: Option<String>,
    /// What is exchanged. Default: by what the node has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-list-type" = "set"))]
    #[schemars(extend("items" = { "type": "string", "enum": ["ipv6-unicast", "ipv4-unicast"] }))]
    pub families: Option<Vec<String>>,
    /// So long a silent router is believed to live, such as 30s: 0 (for ever) or 3s to 65535s; the
    /// lower of both sides' counts. Default: 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_time: Option<Span>,
    /// Between two signs of life. Default: a third of the hold time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<Span>,
    /// Between two attempts to connect, with jitter; 100ms to 1h. Default: 5s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_retry: Option<Span>,
    /// Where the password for TCP-MD5 (RFC 2385) is. While it is missing or empty the session stays
    /// down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
    /// Only packets of a neighbour on the link count (GTSM, RFC 5082); excludes multihop. Default:
    /// false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_security: Option<bool>,
    /// How many hops away the router may be; excludes ttlSecurity. Default: 1 outside our AS, 255
    /// inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = u8::MAX))]
    pub multihop: Option<i64>,
    /// Wait for the router's connection, never dial. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passive: Option<bool>,
    /// Routes are kept while one of the two restarts (RFC 4724).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graceful_restart: Option<GracefulRestart>,
    /// Liveness by BFD (RFC 5880). Not followed in this version: a dead router is noticed at its hold
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bfd: Option<Bfd>,
    /// What is learned. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<Import>,
    /// What is added to what the router is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<Export>,
    /// Our role on this session (RFC 9234).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["provider", "rs", "rs-client", "customer", "peer"]))]
    pub role: Option<String>,
    /// What our routes lead to. Default: our own address on the session, and for the other family one
    /// on the same link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<NextHop>,
}

/// Of either family.
const ADDRESS: &str = "[.:]";

/// `password`: exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("oneOf" = [{ "required": ["secretRef"] }, { "required": ["file"] }]))]
pub struct Password {
    /// A Secret in the agent's namespace; or else file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// A file on the node, by its absolute path; up to 80 bytes, and the newline at its end does not
    /// count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^/"))]
    pub file: Option<String>,
}

/// `password.secretRef`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "key"]))]
pub struct SecretRef {
    /// The Secret's name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The key in its data.
    #[schemars(length(min = 1))]
    pub key: String,
}

/// `gracefulRestart`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GracefulRestart {
    /// Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How long the router is asked to keep our routes; 1s to 4095s. Default: 120s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
}

/// `bfd`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Bfd {
    /// Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Between packets, both ways; 10ms to 60s. Default: 300ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
    /// Missed packets until down. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = u8::MAX))]
    pub multiplier: Option<i64>,
}

/// `import`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Import {
    /// What is learned: ::/0 is this very prefix, 2001:db8::/32 le 48 also longer ones, 10.0.0.0/8 ge
    /// 16 le 24 those of these lengths. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::RULES), inner(regex(pattern = r"[.:].*/[0-9]")))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub accept: Option<Vec<String>>,
    /// More end the session with Cease 6/1, for a minute, doubling to an hour. Default: 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = u32::MAX))]
    pub max_prefixes: Option<i64>,
}

/// `export`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Export {
    /// Beside those of spec.bgp.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::COMMUNITIES), inner(regex(pattern = COMMUNITY)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub communities: Option<Vec<String>>,
    /// Preference, told to internal routers alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = u32::MAX))]
    pub local_pref: Option<i64>,
    /// Multi-exit discriminator (RFC 4271 §5.1.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = u32::MAX))]
    pub med: Option<i64>,
    /// Our AS number so many times more. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = bounds::PREPENDS))]
    pub prepend: Option<i64>,
}

/// `nextHop`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NextHop {
    /// What IPv6 routes lead to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ":"))]
    pub ipv6: Option<String>,
    /// What IPv4 routes lead to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"[0-9]\.[0-9]"))]
    pub ipv4: Option<String>,
}
