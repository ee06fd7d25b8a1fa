//! What a peer is told of a route, if anything: RFC 4271 §5.1 and §9.2, RFC 8212 (only what is
//! originated), RFC 1997, RFC 4360 §6, RFC 8326 §4.2, RFC 9234 §5. The RIB asks once per run of
//! equal attribute sets. Whether the result fits into a message is the encoder's to say.
//!
//! We always name ourselves as the next hop, to internal peers too (RFC 4271 §5.1.3 lets us): a
//! node's pods are reached through the node.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flock_bgp_wire::{Attributes, Community, Family, NextHop, Role};

use super::Withheld;
use crate::config::{Export, NextHops};
use crate::event::PeerKey;

/// RFC 4271 §5.1.5 wants LOCAL_PREF inside the AS; the value that everyone takes for none.
const DEFAULT_LOCAL_PREF: u32 = 100;

/// RFC 4271 §4.3: the Partial bit of an attribute's flags.
const PARTIAL: u8 = 0x20;

/// Where a route came from, as far as telling it on is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// We originate it.
    Ourselves,
    /// Learned from this peer.
    Peer { key: PeerKey, internal: bool },
}

/// Everything that shapes what one peer is told. A difference in here is an UPDATE, not a reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exporter {
    pub(crate) peer: PeerKey,
    pub(crate) local_asn: u32,
    pub(crate) peer_asn: u32,
    pub(crate) export: Export,
    /// Ours on this session.
    pub(crate) role: Option<Role>,
    /// By `Family::index`; `None`: that family is not told to this peer.
    pub(crate) next_hops: [Option<NextHop>; 2],
    /// Learned routes are passed on.
    pub(crate) transit: bool,
    /// GRACEFUL_SHUTDOWN on everything (RFC 8326 §4.2).
    pub(crate) drain: bool,
}

impl Exporter {
    /// The attributes that the peer is told for a route with these.
    pub(crate) fn attributes(
        &self,
        family: Family,
        attributes: &Attributes,
        from: From,
    ) -> Result<Attributes, Withheld> {
        self.check(attributes, from)?;
        let [ipv4, ipv6] = self.next_hops;
        let next_hop = match family {
            Family::Ipv4 => ipv4,
            Family::Ipv6 => ipv6,
        };
        let next_hop = next_hop.ok_or(Withheld::NoNextHop)?;

        let mut told = attributes.clone();
        told.next_hop = next_hop;
        if !self.internal() {
            // RFC 4271 §5.1.2 b; to internal peers it stays as it is.
            told.as_path.prepend(self.local_asn, 1 + usize::from(self.export.prepend));
            // RFC 4360 §6: bit 0x40 of the type is "not beyond the AS".
            told.extended_communities.retain(|community| community.0[0] & 0x40 == 0);
        }
        told.local_pref = self.local_pref(attributes);
        told.med = self.med(attributes, from);
        self.add_communities(&mut told);
        // RFC 4456 §8: of reflection, which we do not do; never beyond the AS.
        told.originator_id = None;
        told.cluster_list.clear();
        // RFC 9234 §5, egress 1: to a customer, a peer, or a route server's client.
        if !self.internal()
            && let Some(Role::Provider | Role::Peer | Role::RouteServer) = self.role
        {
            told.only_to_customer.get_or_insert(self.local_asn);
        }
        // RFC 4271 §9: someone on the way did not know it.
        for unknown in &mut told.unknown {
            unknown.flags |= PARTIAL;
        }
        Ok(told)
    }

    fn internal(&self) -> bool {
        self.peer_asn == self.local_asn
    }

    fn check(&self, attributes: &Attributes, from: From) -> Result<(), Withheld> {
        let From::Peer { key, internal } = from else {
            // RFC 1997 speaks of received routes: an operator who puts NO_EXPORT on our own wants
            // it to be heard, not obeyed here. They carry no Only To Customer either.
            return Ok(());
        };
        if !self.transit {
            return Err(Withheld::NotOriginated); // RFC 8212 §2
        }
        // RFC 4271 §9.2: not from inside to inside. Back to its teller would only be a loop.
        if key == self.peer || (internal && self.internal()) {
            return Err(Withheld::SplitHorizon);
        }
        let bound = |community: &Community| match *community {
            Community::NO_ADVERTISE => true,
            Community::NO_EXPORT | Community::NO_EXPORT_SUBCONFED => !self.internal(),
            _ => false,
        };
        if attributes.communities.iter().any(bound) {
            return Err(Withheld::WellKnownCommunity); // RFC 1997
        }
        // RFC 9234 §5, egress 2: not to a provider, a peer or a route server.
        if attributes.only_to_customer.is_some()
            && !self.internal()
            && matches!(self.role, Some(Role::Customer | Role::Peer | Role::RouteServerClient))
        {
            return Err(Withheld::RouteLeak);
        }
        Ok(())
    }

    /// RFC 4271 §5.1.5: inside always, outside never. While we drain 0, because internal peers
    /// need not heed the community (RFC 8326 §4.1 asks it of external sessions).
    fn local_pref(&self, attributes: &Attributes) -> Option<u32> {
        if !self.internal() {
            return None;
        }
        if self.drain {
            return Some(0);
        }
        attributes.local_pref.or(self.export.local_pref).or(Some(DEFAULT_LOCAL_PREF))
    }

    /// RFC 4271 §5.1.4: one AS's MED is not told to another.
    fn med(&self, attributes: &Attributes, from: From) -> Option<u32> {
        let own = match from {
            From::Peer { .. } if !self.internal() => None,
            _ => attributes.med,
        };
        own.or(self.export.med)
    }

    /// Sorted and without duplicates (RFC 8092 §3), so that equal wishes make equal sets.
    fn add_communities(&self, told: &mut Attributes) {
        told.communities.extend_from_slice(&self.export.communities);
        if self.drain {
            told.communities.push(Community::GRACEFUL_SHUTDOWN);
        }
        told.communities.sort_unstable();
        told.communities.dedup();
        told.large_communities.extend_from_slice(&self.export.large_communities);
        told.large_communities.sort_unstable();
        told.large_communities.dedup();
    }
}

/// Why a family is not announced to a peer, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// IPv4 routes, an IPv6 session, and the peer has not agreed to RFC 8950.
    Ipv4OverIpv6,
    /// IPv6 routes and an IPv4 session.
    Ipv6OverIpv4,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4OverIpv6 => {
                "no IPv4 next hop is known for this peer, and it has not agreed to IPv4 routes with \
                 an IPv6 one (RFC 8950): give one for IPv4"
            }
            Self::Ipv6OverIpv4 => "no IPv6 next hop is known for this peer: give one for IPv6",
        })
    }
}

/// The way to us, by `Family::index`: what was wished for; else our end of the session, where it
/// is of that family; else, for IPv4, an IPv6 one where RFC 8950 was agreed on; else none.
///
/// `session` is our end, `link_local` our address of that kind on the link, where known: the
/// second half of an IPv6 next hop (RFC 2545 §3). `extended` is RFC 8950 for IPv4 routes.
pub(crate) fn next_hops(
    wished: NextHops,
    session: IpAddr,
    link_local: Option<Ipv6Addr>,
    extended: bool,
) -> [Result<NextHop, Missing>; 2] {
    // A listener of both families sees IPv4 peers as IPv4-mapped ones.
    let session = session.to_canonical();
    let ipv6 = ipv6_next_hop(wished.ipv6, session, link_local);
    let own_v4: Option<Ipv4Addr> = wished.ipv4.or(match session {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    let ipv4 = match (own_v4, ipv6) {
        (Some(address), _) => Ok(NextHop::V4(address)),
        (None, Some(next_hop)) if extended => Ok(next_hop),
        (None, _) => Err(Missing::Ipv4OverIpv6),
    };
    [ipv4, ipv6.ok_or(Missing::Ipv6OverIpv4)]
}

fn ipv6_next_hop(
    wished: Option<Ipv6Addr>,
    session: IpAddr,
    link_local: Option<Ipv6Addr>,
) -> Option<NextHop> {
    let near = |address: Ipv6Addr| address.is_unicast_link_local().then_some(address);
    match (wished, session) {
        (Some(global), IpAddr::V4(_)) => Some(NextHop::V6 { global, link_local }),
        (Some(global), IpAddr::V6(session)) => {
            Some(NextHop::V6 { global, link_local: near(session).or(link_local) })
        }
        (None, IpAddr::V6(session)) => Some(match near(session) {
            // An unnumbered session has no other address. Elsewhere a link-local one alone is not
            // offered: some routers refuse it.
            Some(own) => NextHop::V6 { global: Ipv6Addr::UNSPECIFIED, link_local: Some(own) },
            None => NextHop::V6 { global: session, link_local },
        }),
        (None, IpAddr::V4(_)) => None,
    }
}

#[cfg(test)]
mod tests;
