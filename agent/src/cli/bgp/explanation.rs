//! What is asked of and answered by `bgp explain`, in types that both ends of the admin socket share.
//! `-o json` prints exactly an [`Explanation`]; people are shown its verdict and its sentences, which
//! are made in the agent, so that every place that explains says the same.
//!
//! The keys are a contract. Every key is always there; what is not known is `null`. Times are RFC
//! 3339 in UTC.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::PeerState;
use super::question::{Destination, PeerName};

/// The arguments of `bgp.explain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExplainArgs {
    /// A prefix, or an address.
    #[schemars(with = "String")]
    pub destination: Destination,
    /// Only as far as this peer is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub peer: Option<PeerName>,
}

/// `bgp explain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// As it was asked: a prefix or an address.
    pub question: String,
    /// The prefix that is explained: the one that was asked for; for an address, its own where
    /// something is known of it, else the narrowest one that holds it.
    pub prefix: String,
    /// The peer that was asked about.
    pub peer: Option<String>,
    /// Something is known of it.
    pub known: bool,
    /// At least one peer was told of it; the one that was asked about.
    pub announced: bool,
    /// The answer in one line.
    pub verdict: String,
    /// And in full, the most important first.
    pub sentences: Vec<Sentence>,
    /// Who asks for it on this node; `null`: nobody.
    pub origin: Option<ExplainedOrigin>,
    /// What the kernel has for it; `null`: nothing, and nothing was to be there.
    pub kernel: Option<ExplainedKernel>,
    /// Every peer, or the one that was asked about.
    pub peers: Vec<ExplainedPeer>,
    /// What this node originates and what peers told, the best first.
    pub paths: Vec<ExplainedPath>,
    /// The step that chose the best path.
    pub decision: Option<String>,
    /// What leads here, or away, where the prefix itself does not.
    pub covering: Option<Covering>,
}

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sentence {
    /// Under which heading it stands.
    pub about: About,
    /// The sentence.
    pub text: String,
}

/// What a sentence is about, in the order in which they stand.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// Who asks for it on this node.
    Origin,
    /// What the kernel has.
    Kernel,
    /// Who was told.
    Peers,
    /// What peers told.
    Paths,
    /// What leads here, or away, where the prefix itself does not.
    Covering,
    /// What to do.
    Advice,
}

impl About {
    /// As a heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Origin => "Origin",
            Self::Kernel => "Kernel",
            Self::Peers => "Peers",
            Self::Paths => "Paths",
            Self::Covering => "Covering",
            Self::Advice => "Advice",
        }
    }
}

/// Who asks for a prefix on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedOrigin {
    /// The speaker originates it.
    pub originated: bool,
    /// Since then.
    pub since: Option<String>,
    /// Which field of the NodeConfig names it: `spec.cidr6[0]`; `null`: none, it is a pod's.
    pub field: Option<String>,
    /// The pods that have the address.
    pub pods: Vec<ExplainedPod>,
    /// When it was last withdrawn, where it is not originated now.
    pub withdrawn_at: Option<String>,
    /// And why.
    pub withdrawn_because: Option<String>,
    /// It flaps, and is announced again in so many seconds.
    pub paced_seconds: Option<u64>,
}

/// A pod that has an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPod {
    /// `namespace/name`, or the container.
    pub name: String,
    /// The annotation that gives it the address; `null`: the address is from the node's network.
    pub annotation: Option<String>,
    /// `attaching`, `attached`, `detaching` or `orphaned`.
    pub state: String,
    /// Ready and not being deleted; `null`: nothing is known of it beyond its attachment.
    pub ready: Option<bool>,
    /// It is being deleted.
    pub terminating: bool,
    /// The address is announced for it, as far as the pod is concerned.
    pub serves: bool,
    /// The host's end of its link.
    pub host_interface: String,
}

/// What the kernel has for a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedKernel {
    /// The route that is there, as `ip route` would put it.
    pub route: Option<String>,
    /// The route that the agent put there.
    pub expected: Option<String>,
    /// The kernel refuses it, in these words.
    pub refused: Option<String>,
    /// And is asked again in so many seconds.
    pub retry_seconds: Option<u64>,
    /// It was withdrawn, and the route stays for so many seconds.
    pub lingers_seconds: Option<u64>,
}

/// A peer, as far as the prefix is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPeer {
    /// As configured.
    pub name: String,
    /// Of its session, by the RFC's name.
    #[schemars(with = "String")]
    pub state: PeerState,
    /// It was told of the prefix.
    pub told: bool,
    /// When; where that is not known exactly, at the latest then.
    pub told_at: Option<String>,
    /// And not before then.
    pub told_not_before: Option<String>,
    /// To the second.
    pub told_exactly: bool,
    /// In these words.
    pub attributes: Option<ExplainedAttributes>,
    /// It is still to be told something about it.
    pub pending: bool,
    /// Why it was not told, or what it is still to be told.
    pub reason: Option<String>,
}

/// The attributes of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedAttributes {
    /// `null`: of our own route, which has none before it is told.
    pub next_hop: Option<String>,
    /// Nearest first; empty: of our own AS.
    pub as_path: Vec<u32>,
    /// `65001:100`, or a well-known name.
    pub communities: Vec<String>,
    /// `65001:1:2`.
    pub large_communities: Vec<String>,
    /// Multi-exit discriminator.
    pub med: Option<u32>,
    /// Local preference.
    pub local_pref: Option<u32>,
}

/// A path of the prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPath {
    /// Who told it; `null`: this node originates it.
    pub peer: Option<String>,
    /// `null`: it was refused.
    pub attributes: Option<ExplainedAttributes>,
    /// It is the one that is used.
    pub best: bool,
    /// It is as good as the best and shares its traffic.
    pub equal: bool,
    /// Kept from a peer that restarts.
    pub stale: bool,
    /// Why it is not used.
    pub refused: Option<String>,
    /// The step at which another was better.
    pub lost: Option<String>,
}

/// What covers a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Covering {
    /// The narrowest one that does.
    pub prefix: String,
    /// At least one peer was told of it.
    pub announced: bool,
    /// The answer for it, in one line.
    pub verdict: String,
}
