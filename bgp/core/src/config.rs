//! What a speaker is asked to be: validated wishes, in the core's own types. Decides only what can
//! be said at all; which difference forces a reset is `difference`.
//!
//! Off is `None`, never 0.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use flock_bgp_wire::{Community, Family, LargeCommunity, Role};
use ipnet::IpNet;

/// The speaker itself. A change of any of these is a new speaker.
#[derive(Debug, Clone)]
pub struct SpeakerConfig {
    /// Our AS number.
    pub asn: u32,
    /// Our BGP identifier, not zero (RFC 6286).
    pub id: Ipv4Addr,
    /// Jitter and hash keys are drawn from it: the driver's randomness, once.
    pub seed: u64,
    /// This process took over from one that died with sessions up: R is set (RFC 4724 §3) until
    /// each peer has been told once.
    pub restarted: bool,
    /// Forwarding state survived: F is set for each family (RFC 4724 §3).
    pub forwarding_kept: bool,
    /// End-of-RIB waits for [`crate::Event::OriginationsComplete`].
    pub hold_end_of_rib: bool,
    /// Learned routes are passed on. flock's agent never does; measurements do.
    pub transit: bool,
    /// Learned routes are offered by [`crate::Speaker::poll_route`].
    pub install: bool,
}

impl SpeakerConfig {
    /// A process that starts for the first time, passes nothing on and has no kernel to fill.
    pub fn new(asn: u32, id: Ipv4Addr, seed: u64) -> Self {
        Self {
            asn,
            id,
            seed,
            restarted: false,
            forwarding_kept: false,
            hold_end_of_rib: false,
            transit: false,
            install: false,
        }
    }
}

/// A peer as wished for. Peers are known by `name`, which is unique; so is `address`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// What people call it.
    pub name: Arc<str>,
    /// Where it is.
    pub address: IpAddr,
    /// For link-local peers, the link (unnumbered peering, later): part of where it is.
    pub scope: Option<u32>,
    /// Whose it is.
    pub asn: PeerAsn,
    /// Where it listens.
    pub port: u16,
    /// Our end.
    pub local_address: Option<IpAddr>,
    /// How packets to it look.
    pub transport: Transport,
    /// Never dial.
    pub passive: bool,
    /// Administratively down, with words for the peer (RFC 9003); `None` is up. What is still to be
    /// told when it goes down is not ([`crate::Speaker::settled`]).
    pub shutdown: Option<Arc<str>>,
    /// Why it must not be dialled (a password that is not there): shown as its last error.
    pub withheld: Option<Arc<str>>,
    /// At least one, without duplicates.
    pub families: Vec<Family>,
    /// Whole seconds, at least 3; `None` is a hold time of zero.
    pub hold_time: Option<Duration>,
    /// `None`: a third of the negotiated hold time.
    pub keepalive: Option<Duration>,
    /// Between attempts, before jitter.
    pub connect_retry: Duration,
    /// `None`: neither offered nor helped.
    pub graceful_restart: Option<GracefulRestart>,
    /// RFC 8654.
    pub extended_messages: bool,
    /// RFC 7911: take several paths of a prefix.
    pub add_path_receive: bool,
    /// Our role on this session (RFC 9234).
    pub role: Option<Role>,
    /// `None`: nothing is believed (RFC 8212).
    pub import: Option<Import>,
    /// What is added to what it is told.
    pub export: Export,
    /// What we say is the way to us.
    pub next_hops: NextHops,
}

impl PeerConfig {
    /// A peer on the same link, with the defaults that most want: port 179, both families, a hold
    /// time of 30 s, graceful restart of 120 s, nothing imported.
    pub fn new(name: &str, address: IpAddr, asn: PeerAsn) -> Self {
        Self {
            name: name.into(),
            address,
            scope: None,
            asn,
            port: 179,
            local_address: None,
            transport: Transport { md5: None, ttl: Ttl::Hops(1) },
            passive: false,
            shutdown: None,
            withheld: None,
            families: Family::ALL.to_vec(),
            hold_time: Some(Duration::from_secs(30)),
            keepalive: None,
            connect_retry: Duration::from_secs(5),
            graceful_restart: Some(GracefulRestart {
                time: Duration::from_secs(120),
                notification: false,
                stale_time: Duration::from_secs(360),
            }),
            extended_messages: true,
            add_path_receive: false,
            role: None,
            import: None,
            export: Export::default(),
            next_hops: NextHops::default(),
        }
    }
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

/// How a connection's packets look; the driver sets them on the socket and cannot do otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transport {
    /// TCP-MD5 (RFC 2385). A place for TCP-AO (RFC 5925) is beside it.
    pub md5: Option<Secret>,
    /// How far away the peer may be.
    pub ttl: Ttl,
}

/// How far away a peer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// Sent with this one.
    Hops(u8),
    /// Sent with 255, and nothing less than 255 is taken (RFC 5082 §3).
    Security,
}

/// A password; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Arc<[u8]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// RFC 4724, both roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GracefulRestart {
    /// How long the peer shall wait for us; whole seconds, at most 4095.
    pub time: Duration,
    /// N: NOTIFICATIONs do not end it (RFC 8538).
    pub notification: bool,
    /// How long stale routes are kept once the peer is back and sends no End-of-RIB.
    pub stale_time: Duration,
}

/// What is believed of what a peer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// One of these must match.
    pub accept: Vec<AddressRule>,
    /// Per family; more ends the session (Cease 6/1).
    pub max_prefixes: u32,
}

/// `net [ge G] [le L]`: prefixes within `net` with a length in `min..=max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRule {
    /// The prefix.
    pub net: IpNet,
    /// Shortest; the prefix's own where nothing was said.
    pub min: u8,
    /// Longest; the prefix's own where nothing was said, the family's for `ge` alone.
    pub max: u8,
}

/// What is added to what a peer is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Export {
    /// Beside the route's own.
    pub communities: Vec<Community>,
    /// Beside the route's own.
    pub large_communities: Vec<LargeCommunity>,
    /// To internal peers only; 100 where neither peer nor route say.
    pub local_pref: Option<u32>,
    /// Overridden by the route's own.
    pub med: Option<u32>,
    /// Our AS number this many times more, to external peers.
    pub prepend: u8,
}

/// What we say is the way to us, per family of routes. `None`: the session's own address where it
/// is of that family; else, for IPv4 over IPv6, that one by RFC 8950 where agreed; else the family
/// is not announced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextHops {
    /// For IPv4 routes.
    pub ipv4: Option<Ipv4Addr>,
    /// For IPv6 routes.
    pub ipv6: Option<Ipv6Addr>,
}

/// A route that we originate: what is particular to it. Equal ones are kept once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Origination {
    /// With the route to everyone.
    pub communities: Vec<Community>,
    /// With the route to everyone.
    pub large_communities: Vec<LargeCommunity>,
    /// Instead of the peer's own.
    pub med: Option<u32>,
    /// To internal peers only, instead of the peer's own.
    pub local_pref: Option<u32>,
}
