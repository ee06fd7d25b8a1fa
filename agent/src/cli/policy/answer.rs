//! What the agent says about policies: `-o json` prints exactly these.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How policies stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyState {
    /// There is no policy: every pod is open.
    None,
    /// The kernel holds pods to what policies say.
    InForce,
    /// Not everything was told since the agent started: what was in force stays, and new pods that a
    /// policy isolates are closed.
    Waiting,
    /// The kernel refuses what follows from them: what was in force stays.
    Failing,
}

/// The answer of `policy show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyReport {
    /// How policies stand.
    pub state: PolicyState,
    /// Why they are not in force; null where there is nothing to say.
    pub reason: Option<String>,
    /// All policies that are known, by namespace and name.
    pub policies: Vec<PolicyRow>,
    /// The pods of this node, or the one that was asked for.
    pub pods: Vec<PolicyPod>,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it speaks of: `Ingress`, `Egress`, or both.
    pub types: Vec<String>,
    /// How many pods of this node it isolates.
    pub pods: usize,
}

/// A pod of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyPod {
    /// Its namespace; empty when the runtime named none.
    pub namespace: String,
    /// Its name; empty when the runtime named none.
    pub name: String,
    /// The host's end of its link.
    pub host_interface: String,
    /// What it may be sent.
    pub ingress: PolicySide,
    /// What it may send.
    pub egress: PolicySide,
}

/// One direction of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySide {
    /// Whether a policy isolates it: only what a rule allows passes.
    pub isolated: bool,
    /// The policies that do, as `namespace/name`.
    pub policies: Vec<String>,
    /// What they allow together.
    pub rules: Vec<PolicyRule>,
    /// Packets that were dropped, since its rules were last made anew.
    pub dropped_packets: u64,
    /// Bytes of these.
    pub dropped_bytes: u64,
}

/// A rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// The policy, as `namespace/name`.
    pub policy: String,
    /// Which of its rules for this direction, from 0.
    pub rule: usize,
    /// Who may, in words.
    pub peers: String,
    /// Which ports, in words.
    pub ports: String,
}

/// The answer of `policy explain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyExplanation {
    /// Who talks.
    pub from: ExplainedEnd,
    /// To whom.
    pub to: ExplainedEnd,
    /// `TCP`, `UDP`, `SCTP` or `ICMP`.
    pub protocol: String,
    /// The port; null for what has no ports.
    pub port: Option<u16>,
    /// Whether it is allowed.
    pub allowed: bool,
    /// The same in a sentence.
    pub verdict: String,
    /// What policies say about who talks.
    pub egress: ExplainedSide,
    /// What policies say about whom it talks to.
    pub ingress: ExplainedSide,
}

/// One of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedEnd {
    /// The pod, as `namespace/name`; null where it is an address that is no pod's.
    pub pod: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Whether it is a pod of this node: only its own pods are held to policies by a node.
    pub here: bool,
}

/// What policies say about one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedSide {
    /// Whether any policy isolates it in this direction.
    pub isolated: bool,
    /// Whether it is allowed as far as this side is concerned.
    pub allowed: bool,
    /// The policies that isolate it, as `namespace/name`.
    pub policies: Vec<String>,
    /// The rules that allow it.
    pub allowed_by: Vec<AllowedBy>,
    /// The same in a sentence.
    pub reason: String,
}

/// A rule that allows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedBy {
    /// The policy, as `namespace/name`.
    pub policy: String,
    /// Which of its rules for this direction, from 0.
    pub rule: usize,
    /// Why it matches, in words.
    pub reason: String,
}
