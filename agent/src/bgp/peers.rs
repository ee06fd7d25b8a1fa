//! From the NodeConfig's peers to the speaker's: a pure function of the configuration and of what
//! the node looks like (passwords, interfaces). What changes when a wish changes is the speaker's
//! to find out; it is told the whole set each time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use flock_bgp::{
    AddressRule, Export, Family, GracefulRestart, Import, NextHops, PeerAsn, PeerConfig, Role,
    Secret, Transport, Ttl,
};
use flock_dataplane::Interface;
use ipnet::IpNet;

use crate::config::{self, Bgp, Endpoint, NodeConfig};
use crate::reconcile::desired::{configured, large, standard};

/// How long stale routes of a peer are kept once it is back and sends no End-of-RIB.
const STALE: Duration = Duration::from_secs(360);
/// Between internal peers there may be routers (RFC 4271 has no word about it; everybody's value).
const INTERNAL_HOPS: u8 = 255;
const DIRECT_HOPS: u8 = 1;

/// What the node looks like.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Its interfaces, pods' aside.
    pub(super) interfaces: Vec<Interface>,
    /// The interface towards a peer that is on no network of ours, by index.
    pub(super) ways: BTreeMap<IpAddr, u32>,
    /// By peer: the address that it is dialled from, as it was chosen before.
    pub(super) sources: BTreeMap<String, IpAddr>,
    /// By peer: its password, or why there is none.
    pub(super) secrets: BTreeMap<String, Result<Secret, String>>,
    /// The node is drained: the words for the peers.
    pub(super) farewell: Option<Arc<str>>,
}

/// The speaker's peers, and those that it cannot have.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) peers: Vec<PeerConfig>,
    pub(super) untold: Vec<Untold>,
}

/// A peer that the speaker is not told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Untold {
    /// As configured.
    pub name: String,
    /// Where it would be.
    pub place: String,
    /// As configured, where it is a number.
    pub asn: Option<u32>,
    /// Why not.
    pub reason: String,
}

/// All peers.
pub(super) fn plan(config: &NodeConfig, bgp: &Bgp, facts: &Facts) -> Plan {
    let mut plan = Plan::default();
    for peer in &bgp.peers {
        match &peer.endpoint {
            Endpoint::Address(address) => {
                plan.peers.push(wished(config, bgp, peer, *address, facts));
            }
            Endpoint::Interface(interface) => plan.untold.push(Untold {
                name: peer.name.clone(),
                place: interface.clone(),
                asn: match peer.asn {
                    config::PeerAsn::Number(asn) => Some(asn),
                    config::PeerAsn::Internal => Some(bgp.asn),
                    config::PeerAsn::External => None,
                },
                reason: "unnumbered peering is not part of this version; write address instead of interface".to_owned(),
            }),
        }
    }
    plan
}

fn wished(
    config: &NodeConfig,
    bgp: &Bgp,
    peer: &config::Peer,
    address: IpAddr,
    facts: &Facts,
) -> PeerConfig {
    let (md5, withheld) = match facts.secrets.get(&peer.name) {
        Some(Ok(secret)) => (Some(secret.clone()), None),
        Some(Err(why)) => (None, Some(why.as_str().into())),
        // Asked for and not looked for: never without.
        None if peer.password.is_some() => (None, Some("password: not read yet".into())),
        None => (None, None),
    };
    let internal = match peer.asn {
        config::PeerAsn::Number(asn) => asn == bgp.asn,
        config::PeerAsn::Internal => true,
        config::PeerAsn::External => false,
    };
    let mut wish = PeerConfig::new(&peer.name, address, asn(peer.asn));
    wish.port = peer.port;
    wish.local_address = peer.local_address.or_else(|| source(peer, address, facts));
    wish.transport = Transport { md5, ttl: ttl(peer.ttl, internal) };
    wish.passive = peer.passive;
    wish.shutdown = facts.farewell.clone();
    wish.withheld = withheld;
    wish.families = families(config, peer);
    wish.hold_time = peer.hold_time;
    wish.keepalive = peer.keepalive;
    wish.connect_retry = peer.connect_retry;
    wish.graceful_restart = peer.graceful_restart.map(|time| GracefulRestart {
        time,
        // Without N: a dead node is dropped at its hold time, while a dead agent, whose TCP
        // closes, is kept.
        notification: false,
        stale_time: STALE,
    });
    wish.role = peer.role.map(role);
    wish.import = peer.import.as_ref().map(import);
    wish.export = export(&peer.export);
    wish.next_hops = next_hops(peer, address, facts);
    wish
}

/// Where to dial from, where nobody says: a router knows its neighbour by one address, and a node may
/// have taken others from advertisements or a lease since. So the one that was given for good, if
/// there is just one on the peer's network; and what was chosen before, as long as it is there or
/// nothing is in its place: a session is not moved because somebody added an address.
fn source(peer: &config::Peer, address: IpAddr, facts: &Facts) -> Option<IpAddr> {
    let addresses = facts.interfaces.iter().flat_map(|interface| &interface.addresses);
    let near = addresses.filter(|on| on.permanent && on.network().contains(&address));
    let near: Vec<IpAddr> =
        near.map(|on| on.address.addr()).filter(|own| *own != address).collect();
    let before = facts.sources.get(&peer.name).filter(|own| own.is_ipv6() == address.is_ipv6());
    match (near.as_slice(), before) {
        (near, Some(before)) if near.is_empty() || near.contains(before) => Some(*before),
        ([only], _) => Some(*only),
        _ => None,
    }
}

fn asn(asn: config::PeerAsn) -> PeerAsn {
    match asn {
        config::PeerAsn::Number(asn) => PeerAsn::Number(asn),
        config::PeerAsn::External => PeerAsn::External,
        config::PeerAsn::Internal => PeerAsn::Internal,
    }
}

fn ttl(ttl: config::Ttl, internal: bool) -> Ttl {
    match ttl {
        config::Ttl::Security => Ttl::Security,
        config::Ttl::Multihop(hops) => Ttl::Hops(hops),
        config::Ttl::Direct if internal => Ttl::Hops(INTERNAL_HOPS),
        config::Ttl::Direct => Ttl::Hops(DIRECT_HOPS),
    }
}

/// As configured, else by what the node has: the families of its networks, and of what it wants to
/// hear. A node that has neither offers both.
fn families(config: &NodeConfig, peer: &config::Peer) -> Vec<Family> {
    let (ipv6, ipv4) = match peer.families {
        Some(wish) => (wish.ipv6, wish.ipv4),
        None => {
            let rules = || peer.import.iter().flat_map(|import| &import.accept);
            let hears = |six: bool| rules().any(|rule| rule.net.addr().is_ipv6() == six);
            let ipv6 = !config.cidr6.is_empty() || hears(true);
            let ipv4 = !config.cidr4.is_empty() || hears(false);
            (ipv6 || !ipv4, ipv4 || !ipv6)
        }
    };
    let both = [(Family::Ipv6, ipv6), (Family::Ipv4, ipv4)];
    both.into_iter().filter(|(_, wanted)| *wanted).map(|(family, _)| family).collect()
}

fn role(role: config::Role) -> Role {
    match role {
        config::Role::Provider => Role::Provider,
        config::Role::RouteServer => Role::RouteServer,
        config::Role::RouteServerClient => Role::RouteServerClient,
        config::Role::Customer => Role::Customer,
        config::Role::Peer => Role::Peer,
    }
}

fn import(import: &config::Import) -> Import {
    let rule =
        |rule: &config::PrefixRule| AddressRule { net: rule.net, min: rule.ge, max: rule.le };
    Import { accept: import.accept.iter().map(rule).collect(), max_prefixes: import.max_prefixes }
}

fn export(export: &config::Export) -> Export {
    Export {
        communities: standard(&export.communities),
        large_communities: large(&export.communities),
        local_pref: export.local_pref,
        med: export.med,
        prepend: export.prepend,
    }
}

/// What we say is the way to us: as configured; the session's own address is the speaker's to know;
/// for the other family, an address of that family on the same link.
fn next_hops(peer: &config::Peer, address: IpAddr, facts: &Facts) -> NextHops {
    let link = link(peer, address, facts);
    NextHops {
        ipv4: peer.next_hop.ipv4.or_else(|| link.filter(|_| address.is_ipv6()).and_then(global_v4)),
        ipv6: peer.next_hop.ipv6.or_else(|| link.filter(|_| address.is_ipv4()).and_then(global_v6)),
    }
}

/// The link of a session: the one that has our configured end, else the one whose network the peer
/// is on, else the one that leads to it.
fn link<'a>(peer: &config::Peer, address: IpAddr, facts: &'a Facts) -> Option<&'a Interface> {
    let mut all = facts.interfaces.iter();
    if let Some(local) = peer.local_address {
        return all
            .find(|interface| interface.addresses.iter().any(|on| on.address.addr() == local));
    }
    let near = |interface: &&Interface| {
        !interface.loopback && interface.addresses.iter().any(|on| on.network().contains(&address))
    };
    let index = facts.ways.get(&address);
    let leads = |interface: &&Interface| Some(&interface.index) == index;
    facts.interfaces.iter().find(near).or_else(|| facts.interfaces.iter().find(leads))
}

/// The lowest, so that it is the same whatever the order in which the kernel tells them.
fn global_v4(interface: &Interface) -> Option<Ipv4Addr> {
    let addresses = interface.addresses.iter().filter_map(|on| match on.address {
        IpNet::V4(net) => Some(net.addr()),
        IpNet::V6(_) => None,
    });
    addresses.filter(|address| !address.is_link_local() && !address.is_loopback()).min()
}

fn global_v6(interface: &Interface) -> Option<Ipv6Addr> {
    let addresses = interface.addresses.iter().filter_map(|on| match on.address {
        IpNet::V6(net) => Some(net.addr()),
        IpNet::V4(_) => None,
    });
    addresses.filter(|address| !address.is_unicast_link_local() && !address.is_loopback()).min()
}

/// The networks of the node, each list sorted and without duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Networks {
    /// Those that it is connected to, its own addresses included.
    pub(super) connected: Vec<IpNet>,
    /// Those of its pods.
    pub(super) own: Vec<IpNet>,
    /// Those that it is connected to by interfaces that carry no packets now.
    pub(super) down: Vec<IpNet>,
}

pub(super) fn networks(config: &NodeConfig, interfaces: &[Interface]) -> Networks {
    let usable = |wanted: bool| interfaces.iter().filter(move |on| on.usable == wanted);
    let (mut connected, mut down) = (connected(usable(true)), connected(usable(false)));
    let mut own: Vec<IpNet> = configured(Some(config)).collect();
    for list in [&mut connected, &mut own, &mut down] {
        list.sort_unstable();
        list.dedup();
    }
    Networks { connected, own, down }
}

fn connected<'a>(interfaces: impl Iterator<Item = &'a Interface>) -> Vec<IpNet> {
    let narrow = |net: &IpNet| match net.addr() {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local(),
    };
    let addresses = interfaces.flat_map(|interface| &interface.addresses);
    let networks = addresses.flat_map(|on| [on.network(), on.address.trunc()]);
    networks.filter(|net| !narrow(net)).collect()
}

#[cfg(test)]
mod tests;
