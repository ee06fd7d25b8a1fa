//! The shape of a NodeConfig's `status`. The CustomResourceDefinition has it from here, and the
//! sentences are what `kubectl explain` says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cli::bgp::PeerState;

/// What the node's agent makes of the NodeConfig; written by it alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The metadata.generation that is in force. It is less than the newest while that one is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: new pods are served. Degraded: something is wrong, and the message says what.
    /// PendingReset: some settings wait for a session's next beginning.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// How many sessions are Established, of how many peers, such as 2/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<String>,
    /// The networks that pods have addresses of.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub networks: Vec<String>,
    /// One row for each peer.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub peers: Vec<Peer>,
}

/// A peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// As configured.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Its AS number; absent where any would do and it has not said one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asn: Option<i64>,
    /// Of its session (RFC 4271 §8.2.2).
    pub state: PeerState,
    /// Since when it is Established, or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// What is exchanged: those in use while Established, else those wished for.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub families: Vec<String>,
    /// Routes that it told, refused ones included.
    #[serde(default)]
    pub received: i64,
    /// Of those, the ones that policy let in.
    #[serde(default)]
    pub accepted: i64,
    /// Routes that it was told.
    #[serde(default)]
    pub advertised: i64,
    /// Why the last session ended, or why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}
