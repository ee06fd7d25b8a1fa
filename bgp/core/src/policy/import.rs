//! Whether a received route is used. [`Judge::attributes`] looks once at what all routes of an
//! UPDATE share, [`Judge::net`] at each prefix, so it allocates nothing.
//!
//! Of several reasons against a route, the one that people look for is kept: where the prefix is
//! (`networks`), then what is wrong with the route, and last that no rule wants it. So a network that
//! two nodes have shows also where the route would be refused anyway.
//!
//! RFC 8212 (nothing without a rule), RFC 4271 §6.3 (first AS, next hop), §9.1.2 (AS loop),
//! RFC 4456 §8 (reflection loops), RFC 9234 §5 (leaks), RFC 8326 §4.1 (a peer about to go).
//! Malformed attributes are the codec's business, how many prefixes are too many the session's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use flock_bgp_wire::{Attributes, Community, Net, NextHop, Role};
use ipnet::{IpNet, Ipv6Net};

use super::Withheld;
use super::networks::{Networks, is_martian};
use crate::config::{AddressRule, Import};

/// What a judgement needs to know of the session and the node.
#[derive(Debug, Clone)]
pub(crate) struct Judge {
    /// `None`: nothing is believed.
    pub(crate) import: Option<Import>,
    pub(crate) local_asn: u32,
    pub(crate) local_id: Ipv4Addr,
    pub(crate) peer_asn: u32,
    pub(crate) peer_address: IpAddr,
    pub(crate) local_address: IpAddr,
    /// Ours on this session.
    pub(crate) role: Option<Role>,
    /// A peer that is not on a network of ours.
    pub(crate) multihop: bool,
    /// `None`: never said, every next hop is reachable and nothing is connected.
    pub(crate) networks: Option<Arc<Networks>>,
}

/// A route as it is kept: what it says where it is used, or why it is not.
pub(crate) type Kept<'a> = Result<&'a Attributes, Withheld>;

/// About what a set of attributes may take of our memory: a little more than the longest message
/// (RFC 8654) takes on the wire. Each prefix can have a set of its own, and a path of ten thousand segments takes ten
/// times more here than there.
const HEAVIEST: usize = 72 * 1024;

/// About what it takes of our memory: a segment is two allocations.
fn weight(attributes: &Attributes) -> usize {
    let segments = &attributes.as_path.segments;
    segments.iter().map(|segment| 48 + 4 * segment.asns.len()).sum::<usize>()
        + 4 * (attributes.communities.len() + attributes.cluster_list.len())
        + 8 * attributes.extended_communities.len()
        + 12 * attributes.large_communities.len()
        + attributes.unknown.iter().map(|unknown| 32 + unknown.value.len()).sum::<usize>()
}

impl Judge {
    /// What all routes of an UPDATE share: loops, first AS, next hop, leaks. May add Only To
    /// Customer (RFC 9234 §5) and takes away what an external peer has no say in.
    pub(crate) fn attributes(&self, attributes: &mut Attributes) -> Result<(), Withheld> {
        if weight(attributes) > HEAVIEST {
            return Err(Withheld::TooMuch);
        }
        self.check(attributes)?;
        if !self.internal() {
            self.adjust(attributes);
        }
        Ok(())
    }

    /// What is particular to a prefix: where it is, and the rules.
    #[inline]
    pub(crate) fn net<N: Net>(&self, net: N) -> Result<(), Withheld> {
        self.place(net)?;
        self.rules(net)
    }

    /// Why a prefix is refused whose UPDATE was refused for `whole`.
    pub(crate) fn refused<N: Net>(&self, net: N, whole: Withheld) -> Withheld {
        // Of a kept one, the reason may be about where it was.
        let whole = if whole == Withheld::OwnPodsLoop { Withheld::AsLoop } else { whole };
        match self.place(net) {
            Err(Withheld::OwnPods) if whole == Withheld::AsLoop => Withheld::OwnPodsLoop,
            Err(why) => why,
            Ok(()) => whole,
        }
    }

    /// A kept route once more, because a rule or a network changed. The attributes of one that was
    /// used are as [`Judge::attributes`] left them, and pass again what they passed; of one that was
    /// refused only the reason is left, and may change.
    pub(crate) fn again(&self, net: IpNet, kept: Kept<'_>) -> Result<(), Withheld> {
        match net {
            IpNet::V4(net) => self.once_more(net, kept),
            IpNet::V6(net) => self.once_more(net, kept),
        }
    }

    fn once_more<N: Net>(&self, net: N, kept: Kept<'_>) -> Result<(), Withheld> {
        let attributes = kept.map_err(|whole| self.refused(net, whole))?;
        self.place(net)?;
        self.check(attributes)?;
        self.rules(net)
    }

    /// Whether people should hear that a prefix was refused. An overlap with the node's own networks
    /// is news also where nothing is imported; anything else only where a rule would have let the
    /// prefix in. A loop is everyday where nodes share an AS number.
    #[inline]
    pub(crate) fn is_news(&self, net: IpNet, why: Withheld) -> bool {
        match why {
            Withheld::NotAccepted | Withheld::AsLoop => false,
            why if why.overlaps() => true,
            _ => match net {
                IpNet::V4(net) => self.rules(net).is_ok(),
                IpNet::V6(net) => self.rules(net).is_ok(),
            },
        }
    }

    /// What no rule can change. A router that re-announces the LAN must not draw it through the
    /// gateway, and nobody else has our pods; what is larger, such as a default route, may come.
    #[inline]
    fn place<N: Net>(&self, net: N) -> Result<(), Withheld> {
        if let Some(networks) = &self.networks {
            networks.refuse(net)?;
        }
        if is_martian(net) { Err(Withheld::Martian) } else { Ok(()) }
    }

    #[inline]
    fn rules<N: Net>(&self, net: N) -> Result<(), Withheld> {
        let rules = self.import.as_ref().map_or(&[][..], |import| &import.accept);
        if rules.iter().any(|rule| rule.matches(net)) {
            return Ok(());
        }
        Err(Withheld::NotAccepted)
    }

    fn internal(&self) -> bool {
        self.peer_asn == self.local_asn
    }

    fn check(&self, attributes: &Attributes) -> Result<(), Withheld> {
        if attributes.as_path.contains(self.local_asn) {
            return Err(Withheld::AsLoop); // RFC 4271 §9.1.2
        }
        if self.internal() {
            self.check_reflection(attributes)?;
        } else {
            self.check_first_as(attributes)?;
            self.check_leak(attributes)?;
        }
        self.check_next_hop(&attributes.next_hop)?;
        // RFC 8212 §2: without an import policy nothing of an external peer is eligible. Here the
        // same holds for internal ones.
        if self.import.as_ref().is_none_or(|import| import.accept.is_empty()) {
            return Err(Withheld::NotAccepted);
        }
        Ok(())
    }

    /// RFC 4456 §8; our cluster identifier would be our router ID, as we reflect nothing.
    fn check_reflection(&self, attributes: &Attributes) -> Result<(), Withheld> {
        if attributes.originator_id == Some(self.local_id) {
            return Err(Withheld::OriginatorLoop);
        }
        if attributes.cluster_list.contains(&self.local_id) {
            return Err(Withheld::ClusterLoop);
        }
        Ok(())
    }

    /// RFC 4271 §6.3. A route server does not put itself into the path (RFC 7947 §2.2.2).
    fn check_first_as(&self, attributes: &Attributes) -> Result<(), Withheld> {
        if self.role == Some(Role::RouteServerClient)
            || attributes.as_path.first() == Some(self.peer_asn)
        {
            return Ok(());
        }
        Err(Withheld::FirstAs)
    }

    /// RFC 9234 §5, ingress 1 and 2. `role` is ours: as a provider we hear a customer.
    fn check_leak(&self, attributes: &Attributes) -> Result<(), Withheld> {
        let leaks = match (self.role, attributes.only_to_customer) {
            (Some(Role::Provider | Role::RouteServer), Some(_)) => true,
            (Some(Role::Peer), Some(asn)) => asn != self.peer_asn,
            _ => false,
        };
        if leaks { Err(Withheld::RouteLeak) } else { Ok(()) }
    }

    /// RFC 4271 §6.3: not the receiver's own, and for a peer one hop away, the peer itself or on a
    /// network that we share, by an interface that is up. Behind a multihop peer the way to the next
    /// hop is the kernel's.
    fn check_next_hop(&self, next_hop: &NextHop) -> Result<(), Withheld> {
        let usable = match *next_hop {
            NextHop::V4(address) => {
                is_host_v4(address) && !self.is_ours(address) && self.on_link(address)
            }
            NextHop::V6 { global, link_local } => {
                // RFC 2545 §3: a link-local half is only sent on a link that we share. Peers that
                // have no other address send it alone, or in both places.
                let near = link_local
                    .filter(Ipv6Addr::is_unicast_link_local)
                    .or(global.is_unicast_link_local().then_some(global));
                let far = (!global.is_unspecified()).then_some(global);
                far.is_none_or(|far| is_host_v6(far) && !self.is_ours(far) && !self.is_down(far))
                    && match (near, far) {
                        (Some(near), _) => !self.is_ours(near),
                        (None, Some(far)) => self.on_link(far),
                        (None, None) => false,
                    }
            }
        };
        if usable { Ok(()) } else { Err(Withheld::NextHop) }
    }

    fn is_ours(&self, address: impl Into<IpAddr>) -> bool {
        self.local_address == address.into()
    }

    fn on_link(&self, address: impl Into<IpAddr>) -> bool {
        let address = address.into();
        let Some(networks) = &self.networks else { return true };
        self.multihop
            || networks.connected.iter().any(|network| network.contains(&address))
            || (address == self.peer_address && !self.is_down(address))
    }

    /// On a network of ours, and on none whose interface carries packets.
    fn is_down(&self, address: impl Into<IpAddr>) -> bool {
        let address = address.into();
        let holds = |networks: &[IpNet]| networks.iter().any(|network| network.contains(&address));
        let networks = self.networks.as_ref();
        networks.is_some_and(|networks| holds(&networks.down) && !holds(&networks.connected))
    }

    /// What an external peer has no say in goes, what we note of it comes.
    fn adjust(&self, attributes: &mut Attributes) {
        attributes.originator_id = None; // RFC 7606 §7.9
        attributes.cluster_list.clear(); // RFC 7606 §7.10
        // RFC 4271 §5.1.5: not from external peers. RFC 8326 §4.1: the last choice while it goes.
        let going = attributes.communities.contains(&Community::GRACEFUL_SHUTDOWN);
        attributes.local_pref = going.then_some(0);
        // RFC 9234 §5, ingress 3: from here on only to customers.
        if let Some(Role::Customer | Role::Peer | Role::RouteServerClient) = self.role {
            attributes.only_to_customer.get_or_insert(self.peer_asn);
        }
    }
}

impl AddressRule {
    /// Whether a prefix is within `net` and of a length in `min..=max`.
    #[inline]
    pub(crate) fn matches<N: Net>(&self, net: N) -> bool {
        (self.min..=self.max).contains(&net.len()) && covers(&self.net, net)
    }

    /// Whether every prefix that `other` matches is matched by this one.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let shortest = other.min.max(other.net.prefix_len());
        if shortest > other.max {
            return true; // `other` matches nothing
        }
        let inside = match other.net {
            IpNet::V4(net) => covers(&self.net, net),
            IpNet::V6(net) => covers(&self.net, net),
        };
        inside && self.min <= shortest && other.max <= self.max
    }
}

/// Whether `net` is `network` or a part of it.
#[inline]
fn covers<N: Net>(network: &IpNet, net: N) -> bool {
    N::from_ip_net(*network).is_some_and(|network| {
        network.len() <= net.len() && first_bits_equal(network.bits(), net.bits(), network.len())
    })
}

#[inline]
fn first_bits_equal(a: u128, b: u128, len: u8) -> bool {
    let tail = u128::MAX.checked_shr(u32::from(len)).unwrap_or(0);
    (a ^ b) & !tail == 0
}

/// An IPv4 address that can be a router. Link-local ones can: some tunnels peer over them.
fn is_host_v4(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}

/// An IPv6 address that can be a router.
fn is_host_v6(address: Ipv6Addr) -> bool {
    address.is_unicast_link_local() || !is_martian(Ipv6Net::from(address))
}

#[cfg(test)]
mod tests;
