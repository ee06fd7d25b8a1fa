//! What the agent answers about BGP: `-o json` prints exactly these, and the tables are drawn from
//! them. The keys of the first part of each row are a contract; those behind "Beyond the contract"
//! may grow, and keep their meaning. Every key is always there; what is not known is `null`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `bgp show`: the node and its peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// This node's name.
    pub node: String,
    /// Our AS number; `null`: the node does not speak BGP.
    pub asn: Option<u32>,
    /// Our BGP identifier.
    pub router_id: Option<String>,
    /// Addresses and ports that peers may dial; empty: only this node dials.
    pub listening: Vec<String>,
    /// In words (`draining, 12 s left`); `null`: the node is in service.
    pub drain: Option<String>,
    /// Prefixes that this node originates.
    pub originated: u32,
    /// Prefixes with a path that was learned and accepted.
    pub learned: u32,
    /// Of those, the ones that the kernel has.
    pub installed: u32,
    /// Sorted by name.
    pub peers: Vec<PeerRow>,
}

/// `bgp show peers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerList {
    /// Sorted by name. Asked for one that is not there: empty.
    pub peers: Vec<PeerRow>,
}

/// One peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerRow {
    /// As configured.
    pub name: String,
    /// Its address; for an unnumbered peer that is not found yet, the interface.
    pub address: String,
    /// Its AS number; `null`: any would do, and it has not said one.
    pub asn: Option<u32>,
    /// Ours.
    pub local_asn: u32,
    /// Where its machine is.
    pub state: PeerState,
    /// Seconds in Established; 0 in any other state.
    pub uptime_seconds: u64,
    /// `ipv6-unicast`, `ipv4-unicast`: those in use while Established, else those wished for.
    pub families: Vec<String>,
    /// Routes that it told, refused ones included; the sum over its families.
    pub received: u32,
    /// Of those, the ones that policy let in.
    pub accepted: u32,
    /// Routes that it was told.
    pub advertised: u32,
    /// Why the last session ended, or why there is none.
    pub last_error: Option<String>,

    // Beyond the contract.
    /// How long ago `last_error` happened.
    pub last_error_seconds_ago: Option<u64>,
    /// Seconds in the present state, whichever it is.
    pub state_seconds: u64,
    /// Until the next attempt, where one is waited for.
    pub next_attempt_seconds: Option<u64>,
    /// Its BGP identifier, once it said so.
    pub router_id: Option<String>,
    /// Our end of the connection, or as configured.
    pub local_address: Option<String>,
    /// Negotiated; `null`: no session, or silence is fine.
    pub hold_time_seconds: Option<u64>,
    /// Negotiated; `null`: no session, or none are sent.
    pub keepalive_seconds: Option<u64>,
    /// In every family in use, it was told all that we had (RFC 4724 §2).
    pub end_of_rib_sent: bool,
    /// In every family in use, it said that this was all.
    pub end_of_rib_received: bool,
    /// It restarts, and its routes are kept meanwhile (RFC 4724 §4.2).
    pub restarting: bool,
    /// Wishes that wait for the next session, by the names that operators write.
    pub pending: Option<String>,
    /// Families of which nothing is announced, and why.
    pub not_announced: Vec<NotAnnounced>,
    /// Sessions that ended.
    pub flaps: u64,
    /// Since it is known.
    pub messages_sent: u64,
    /// Since it is known.
    pub messages_received: u64,
    /// The families that are wished for, one by one.
    pub family_details: Vec<FamilyRow>,
}

/// A family of which a peer is told nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotAnnounced {
    /// `ipv6-unicast` or `ipv4-unicast`.
    pub family: String,
    /// In words.
    pub reason: String,
}

/// One family of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FamilyRow {
    /// `ipv6-unicast` or `ipv4-unicast`.
    pub family: String,
    /// Both speak it in this session.
    pub negotiated: bool,
    /// Routes that it told, refused ones included.
    pub received: u32,
    /// Of those, the ones that policy let in.
    pub accepted: u32,
    /// Routes that it was told.
    pub advertised: u32,
    /// It was told all that we had.
    pub end_of_rib_sent: bool,
    /// It said that this was all.
    pub end_of_rib_received: bool,
    /// Routes are kept from before its restart.
    pub stale: bool,
}

/// RFC 4271 §8.2.2, by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PeerState {
    /// Refuses all connections.
    Idle,
    /// Waits for its dial.
    Connect,
    /// Waits for the peer's dial, or for the next attempt.
    Active,
    /// Has sent OPEN.
    OpenSent,
    /// Has seen OPEN.
    OpenConfirm,
    /// Speaks.
    Established,
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Idle => "Idle",
            Self::Connect => "Connect",
            Self::Active => "Active",
            Self::OpenSent => "OpenSent",
            Self::OpenConfirm => "OpenConfirm",
            Self::Established => "Established",
        })
    }
}

/// `bgp refresh`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refreshed {
    /// Whose session.
    pub peer: String,
    /// It is asked for everything again.
    pub asked: bool,
    /// It is told everything again.
    pub told: bool,
    /// So many routes.
    pub advertised: u32,
    /// Why it is not asked, although that was wanted.
    pub refused: Option<String>,
}

/// `bgp reset`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WasReset {
    /// Whose session.
    pub peer: String,
    /// Where its machine was; one that was not `Established` is tried again at once.
    pub was: PeerState,
    /// How long the session that ended had lasted, in seconds.
    pub uptime_seconds: u64,
    /// What the peer was told.
    pub message: String,
}

/// `bgp show routes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteList {
    /// One row per path, in the order in which they are to be shown: by prefix, and of one prefix
    /// the best first, refused ones last.
    pub routes: Vec<RouteRow>,
}

/// One path of a prefix; of those advertised, what one peer was told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteRow {
    /// The prefix.
    pub prefix: String,
    /// Whose it is.
    pub source: RouteSource,
    /// For whom we originate it: a pod as `namespace/name`, or the node's own setting.
    pub owner: Option<String>,
    /// Who told it; of those advertised, who was told.
    pub peer: Option<String>,
    /// Empty: delivered here.
    pub next_hops: Vec<String>,
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
    /// It is the one that is used and told.
    pub best: bool,

    // Beyond the contract.
    /// It is as good as the best and shares its traffic.
    pub equal: bool,
    /// Kept from a peer that restarts.
    pub stale: bool,
    /// Why it is not used; `null`: policy let it in.
    pub refused: Option<String>,
    /// Whether the kernel has it; `null`: the kernel is not asked for it.
    pub installed: Option<bool>,
}

/// Where a route comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RouteSource {
    /// This node originates it.
    Local,
    /// A peer told it.
    Learned,
}
