//! What a router is told, in words that no router speaks; each driver turns it
//! into its own configuration language.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address family that a session carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4 unicast.
    Ipv4,
    /// IPv6 unicast.
    Ipv6,
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// The family of a prefix or address in text.
    pub fn of(text: &str) -> Self {
        if text.contains(':') { Self::Ipv6 } else { Self::Ipv4 }
    }

    /// `ipv4-unicast` or `ipv6-unicast`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4-unicast",
            Self::Ipv6 => "ipv6-unicast",
        }
    }
}

/// What a router is to its peer (RFC 9234).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It sells transit.
    Provider,
    /// It buys transit.
    Customer,
    /// Neither.
    Peer,
}

impl Role {
    /// The word that all routers use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Customer => "customer",
            Self::Peer => "peer",
        }
    }
}

/// A whole router.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its AS number.
    pub asn: u32,
    /// Its BGP identifier.
    pub router_id: Ipv4Addr,
    /// The next hop of the IPv4 routes that it originates.
    pub ipv4: Ipv4Addr,
    /// The next hop of the IPv6 routes that it originates.
    pub ipv6: Ipv6Addr,
    /// Whom it talks to.
    pub peers: Vec<Peer>,
    /// What it originates.
    pub routes: Vec<Route>,
    /// Whether it passes learned routes on to its other peers (it always does so
    /// where it cannot be told otherwise); for measurements.
    pub transit: bool,
    /// How many equal paths of a prefix it puts into its kernel as one route;
    /// without it, the best one. For routers that have kernel routes.
    pub max_paths: Option<u8>,
    /// Whether its log tells of every event; off for measurements.
    pub verbose: bool,
}

/// One session.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The other's address.
    pub address: IpAddr,
    /// Its own address on that session.
    pub local: IpAddr,
    /// The other's AS number.
    pub asn: u32,
    /// TCP-MD5.
    pub password: Option<String>,
    /// GTSM: TTL 255 out and in.
    pub ttl_security: bool,
    /// Awaits the connection instead of dialling.
    pub passive: bool,
    /// What the session carries.
    pub families: Vec<Family>,
    /// RFC 8950: IPv4 routes with an IPv6 next hop.
    pub extended_next_hop: bool,
    /// RFC 8654, where it has to be asked for.
    pub extended_messages: bool,
    /// RFC 6793; off for a router that knows two-byte AS numbers only.
    pub four_byte_asns: bool,
    /// Its role in this session (RFC 9234).
    pub role: Option<Role>,
    /// Graceful restart with this restart time in seconds.
    pub graceful_restart: Option<u16>,
    /// How many prefixes it takes before it ends the session.
    pub max_prefixes: Option<u32>,
    /// Its hold time in seconds.
    pub hold_time: u16,
}

/// A route that it originates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The prefix.
    pub prefix: String,
    /// `65001:100`.
    pub communities: Vec<String>,
    /// `65001:1:2`.
    pub large_communities: Vec<String>,
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
}

impl Config {
    /// A router that talks to nobody yet.
    pub fn new(asn: u32, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Self {
        Self {
            asn,
            router_id: ipv4,
            ipv4,
            ipv6,
            peers: Vec::new(),
            routes: Vec::new(),
            transit: false,
            max_paths: None,
            verbose: true,
        }
    }

    /// The next hop for a prefix.
    pub fn next_hop(&self, prefix: &str) -> IpAddr {
        match Family::of(prefix) {
            Family::Ipv4 => self.ipv4.into(),
            Family::Ipv6 => self.ipv6.into(),
        }
    }

    /// Adds routes, replacing those with the same prefix.
    pub(super) fn upsert(&mut self, routes: &[Route]) {
        for route in routes {
            self.remove(&route.prefix);
            self.routes.push(route.clone());
        }
    }

    /// Takes a route away, and returns it.
    pub(super) fn remove(&mut self, prefix: &str) -> Option<Route> {
        let at = self.routes.iter().position(|route| route.prefix == prefix)?;
        Some(self.routes.remove(at))
    }
}

impl Peer {
    /// A plain session with both families.
    pub fn new(address: IpAddr, local: IpAddr, asn: u32) -> Self {
        Self {
            address,
            local,
            asn,
            password: None,
            ttl_security: false,
            passive: false,
            families: Family::BOTH.to_vec(),
            extended_next_hop: false,
            extended_messages: false,
            four_byte_asns: true,
            role: None,
            graceful_restart: None,
            max_prefixes: None,
            hold_time: 90,
        }
    }
}

impl Route {
    /// A route without communities.
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            communities: Vec::new(),
            large_communities: Vec::new(),
            med: None,
        }
    }

    /// With these communities, plain (`a:b`) and large (`a:b:c`).
    pub fn with_communities(mut self, communities: &[&str]) -> Self {
        for community in communities {
            let large = community.matches(':').count() == 2;
            let list = if large { &mut self.large_communities } else { &mut self.communities };
            list.push((*community).to_owned());
        }
        self
    }

    /// With this MULTI_EXIT_DISC.
    pub fn with_med(mut self, med: u32) -> Self {
        self.med = Some(med);
        self
    }
}
