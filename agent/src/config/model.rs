//! The configuration that the agent works with. Decides nothing: its values are what `validate`
//! let through, with the defaults filled in. Off is `None`, never 0.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{Ipv4Net, Ipv6Net};

use super::community::Communities;
use super::prefix_rule::PrefixRule;
use crate::ipam::IpAlgo;

/// One node's configuration, good as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// The node's name.
    pub name: String,
    /// What `status.observedGeneration` will say.
    pub generation: Option<i64>,
    /// For pods that have none of their own.
    pub ip_algo: Option<IpAlgo>,
    /// IPv6 pools, disjoint; empty where the Node's podCIDRs are to be used.
    pub cidr6: Vec<Ipv6Net>,
    /// IPv4 pools, disjoint; empty where the Node's podCIDRs are to be used.
    pub cidr4: Vec<Ipv4Net>,
    /// Families of pods that do not say.
    pub defaults: FamilyDefaults,
    /// Of pod interfaces; `None` takes the uplink's.
    pub mtu: Option<u32>,
    /// What STATUS waits for beside the agent itself.
    pub readiness: Option<Readiness>,
    /// Packets that policies drop are logged.
    pub log_drops: bool,
    /// The speaker; `None` does not speak.
    pub bgp: Option<Bgp>,
    /// What was overlooked.
    pub warnings: Vec<String>,
}

/// Which families a pod has unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyDefaults {
    /// IPv6.
    pub ipv6: bool,
    /// IPv4.
    pub ipv4: bool,
}

/// When the node may take pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// So many sessions up, at least one.
    pub sessions: u32,
    /// Or so long waited.
    pub timeout: Duration,
}

/// The speaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bgp {
    /// Our AS number.
    pub asn: u32,
    /// The BGP identifier; `None` derives one.
    pub router_id: Option<Ipv4Addr>,
    /// `None` never listens.
    pub listen_port: Option<u16>,
    /// Each pod's own address beside the summary.
    pub announce_pods: bool,
    /// On everything that is originated.
    pub communities: Communities,
    /// Names and endpoints are unique.
    pub peers: Vec<Peer>,
}

/// A router to speak with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// Whose it is.
    pub asn: PeerAsn,
    /// Where it listens.
    pub port: u16,
    /// Our end; of the same family as the peer's address.
    pub local_address: Option<IpAddr>,
    /// `None`: by what the node has.
    pub families: Option<Families>,
    /// Whole seconds; `None`: the session never times out (a hold time of zero).
    pub hold_time: Option<Duration>,
    /// Whole seconds; `None`: a third of the negotiated hold time.
    pub keepalive: Option<Duration>,
    /// Between attempts, before jitter.
    pub connect_retry: Duration,
    /// Where the TCP MD5 password is.
    pub password: Option<Password>,
    /// How far away it is.
    pub ttl: Ttl,
    /// Never connect, wait.
    pub passive: bool,
    /// How long the peer keeps our routes, whole seconds; `None`: no graceful restart.
    pub graceful_restart: Option<Duration>,
    /// `None`: no BFD.
    pub bfd: Option<Bfd>,
    /// `None`: nothing is imported.
    pub import: Option<Import>,
    /// What is added to what it is told.
    pub export: Export,
    /// Our role on this session (RFC 9234).
    pub role: Option<Role>,
    /// Instead of our own address.
    pub next_hop: NextHop,
}

/// Where a peer is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// At this address, which is global.
    Address(IpAddr),
    /// Whoever speaks on this link (unnumbered).
    Interface(String),
}

/// Whose a peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAsn {
    /// This AS number's.
    Number(u32),
    /// Any but ours.
    External,
    /// Ours.
    Internal,
}

/// The families of a session, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Families {
    /// IPv6 unicast.
    pub ipv6: bool,
    /// IPv4 unicast.
    pub ipv4: bool,
}

/// Where a password is; never the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Password {
    /// In a Secret of the agent's namespace.
    Secret {
        /// Of the Secret.
        name: String,
        /// In its data.
        key: String,
    },
    /// In a file.
    File(PathBuf),
}

/// How far away a peer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// On the link: TTL 1 for eBGP.
    Direct,
    /// On the link, and proven to be (RFC 5082).
    Security,
    /// This many hops.
    Multihop(u8),
}

/// Liveness by BFD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bfd {
    /// Between packets, both ways.
    pub interval: Duration,
    /// Missed packets until down.
    pub multiplier: u8,
}

/// What is believed of what a peer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// At least one rule.
    pub accept: Vec<PrefixRule>,
    /// More than this ends the session.
    pub max_prefixes: u32,
}

/// What is added to what a peer is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Export {
    /// Beside the speaker's.
    pub communities: Communities,
    /// To iBGP peers only.
    pub local_pref: Option<u32>,
    /// Multi-exit discriminator.
    pub med: Option<u32>,
    /// Our AS number this many times more.
    pub prepend: u8,
}

/// Our role on a session (RFC 9234 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We are its provider.
    Provider,
    /// We are a route server.
    RouteServer,
    /// We are a route server's client.
    RouteServerClient,
    /// We are its customer.
    Customer,
    /// Neither.
    Peer,
}

/// Next hops to say instead of our own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextHop {
    /// For IPv6 routes.
    pub ipv6: Option<Ipv6Addr>,
    /// For IPv4 routes.
    pub ipv4: Option<Ipv4Addr>,
}
