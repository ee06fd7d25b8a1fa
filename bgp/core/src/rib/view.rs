//! The tables for people: routes with their paths and why one of them is best, and what a peer was
//! told. Decides nothing; made from the table as it is, one prefix at a time, while it is walked.

use flock_bgp_wire::{Attributes, Family, Net};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;

use super::Rib;
use super::decision::{Reason, decide};
use super::diary::Span;
use super::outlet::{Outlet, content};
use super::shared::Shared;
use super::table::Table;
use super::told::Content;
use crate::event::PeerKey;
use crate::policy::Withheld;
use crate::policy::export::From;

/// A prefix and all that is known of it.
#[derive(Debug, Clone)]
pub struct RouteView<'a> {
    /// The prefix.
    pub net: IpNet,
    /// The best first, refused ones last.
    pub paths: Vec<PathView<'a>>,
    /// The step that decided; `None`: no path is used.
    pub reason: Option<Reason>,
    /// Where it is in the table: a walk in pieces goes on behind it.
    pub position: u32,
}

/// One path of a prefix.
#[derive(Debug, Clone)]
pub struct PathView<'a> {
    /// Who told it; `None`: we originate it.
    pub peer: Option<PeerKey>,
    /// RFC 7911; 0 without.
    pub path_id: u32,
    /// `None`: it was refused.
    pub attributes: Option<&'a Attributes>,
    /// It is the one that is used and told.
    pub best: bool,
    /// It is as good as the best and shares the traffic.
    pub equal: bool,
    /// Kept from a peer that restarts (RFC 4724 §4.2).
    pub stale: bool,
    /// Why it was refused.
    pub withheld: Option<Withheld>,
    /// The step that excluded it; `None`: it is the best, or was refused.
    pub lost: Option<Reason>,
}

/// What a peer was told of a prefix.
#[derive(Debug, Clone)]
pub struct ToldView {
    /// The prefix.
    pub net: IpNet,
    /// In the words in which it was told. `None`: everything is being told anew, and this is still
    /// what it was before.
    pub attributes: Option<Attributes>,
}

/// What a peer that listens has heard of one prefix.
#[derive(Debug, Clone)]
pub struct Heard {
    /// It knows the prefix.
    pub told: bool,
    /// In the words in which it was told. `None`: it knows nothing, or everything is being told anew
    /// and this is still what it was before.
    pub attributes: Option<Attributes>,
    /// When it was told so; where it knows nothing, when it was told that there is nothing any more.
    /// `None`: it never knew it in this session, or that is too long ago.
    pub when: Option<Span>,
    /// It is still to be told otherwise.
    pub pending: Option<Pending>,
}

/// What a peer is still to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// The prefix, or what is new about it.
    Announcement,
    /// That there is no such prefix any more.
    Withdrawal,
}

impl Rib {
    /// Every prefix of a family, in no order, from behind `after` on.
    pub(crate) fn routes(
        &self,
        family: Family,
        after: Option<u32>,
    ) -> Box<dyn Iterator<Item = RouteView<'_>> + '_> {
        let from = after.map_or(0, |after| after.saturating_add(1));
        match family {
            Family::Ipv4 => Box::new(self.ipv4.routes(&self.shared, from)),
            Family::Ipv6 => Box::new(self.ipv6.routes(&self.shared, from)),
        }
    }

    /// This very prefix.
    pub(crate) fn route(&self, net: IpNet) -> Option<RouteView<'_>> {
        match net.trunc() {
            IpNet::V4(net) => self.ipv4.exact(&self.shared, net),
            IpNet::V6(net) => self.ipv6.exact(&self.shared, net),
        }
    }

    /// The longest prefix that holds an address and has a path that is used.
    pub(crate) fn route_to(&self, address: IpAddr) -> Option<RouteView<'_>> {
        match address {
            IpAddr::V4(address) => self.ipv4.longest(&self.shared, Ipv4Net::from(address)),
            IpAddr::V6(address) => self.ipv6.longest(&self.shared, Ipv6Net::from(address)),
        }
    }

    /// The longest prefix around one, itself aside, that has a path that is used.
    pub(crate) fn route_around(&self, net: IpNet) -> Option<RouteView<'_>> {
        match net.trunc() {
            IpNet::V4(net) => self.ipv4.around(&self.shared, net),
            IpNet::V6(net) => self.ipv6.around(&self.shared, net),
        }
    }

    /// This prefix and those within it. A walk through the whole table.
    pub(crate) fn routes_within(&self, net: IpNet) -> impl Iterator<Item = RouteView<'_>> {
        let family = if net.addr().is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
        self.routes(family, None).filter(move |route| net.contains(&route.net))
    }

    /// What a peer was told.
    pub(crate) fn told(
        &self,
        peer: PeerKey,
        family: Family,
    ) -> Box<dyn Iterator<Item = ToldView> + '_> {
        match family {
            Family::Ipv4 => Box::new(self.ipv4.told(&self.shared, peer)),
            Family::Ipv6 => Box::new(self.ipv6.told(&self.shared, peer)),
        }
    }

    /// What a peer has heard of a prefix; `None`: it has no session with that family.
    pub(crate) fn heard(&self, peer: PeerKey, net: IpNet) -> Option<Heard> {
        match net.trunc() {
            IpNet::V4(net) => self.ipv4.heard(&self.shared, peer, net),
            IpNet::V6(net) => self.ipv6.heard(&self.shared, peer, net),
        }
    }

    /// What a peer was told of this very prefix; `None`: nothing.
    pub(crate) fn told_of(&self, peer: PeerKey, net: IpNet) -> Option<ToldView> {
        match net.trunc() {
            IpNet::V4(net) => self.ipv4.told_of(&self.shared, peer, net),
            IpNet::V6(net) => self.ipv6.told_of(&self.shared, peer, net),
        }
    }

    /// What a peer is to be told of a prefix, or why it is not; `None`: it has no route, or the
    /// peer no session. (Whether it fits into a message is found out by telling it.)
    pub(crate) fn export(&self, peer: PeerKey, net: IpNet) -> Option<Result<Attributes, Withheld>> {
        match net.trunc() {
            IpNet::V4(net) => self.ipv4.export(&self.shared, peer, net),
            IpNet::V6(net) => self.ipv6.export(&self.shared, peer, net),
        }
    }
}

impl<N: Net> Table<N> {
    fn routes<'a>(
        &'a self,
        shared: &'a Shared,
        from: u32,
    ) -> impl Iterator<Item = RouteView<'a>> + 'a {
        (from..self.prefixes.end()).filter_map(|slot| self.view(shared, slot))
    }

    fn exact<'a>(&'a self, shared: &'a Shared, net: N) -> Option<RouteView<'a>> {
        self.view(shared, self.prefixes.find(net)?)
    }

    fn longest<'a>(&'a self, shared: &'a Shared, host: N) -> Option<RouteView<'a>> {
        let used = |slot: &u32| self.prefixes.best(*slot).is_some();
        match self.prefixes.find(host).filter(used) {
            Some(slot) => self.view(shared, slot),
            None => self.around(shared, host),
        }
    }

    fn around<'a>(&'a self, shared: &'a Shared, net: N) -> Option<RouteView<'a>> {
        (0..net.len())
            .rev()
            .filter_map(|len| self.prefixes.find(N::from_bits(net.bits(), len)))
            .find(|&slot| self.prefixes.best(slot).is_some())
            .and_then(|slot| self.view(shared, slot))
    }

    /// `None`: nothing is known of it but that a listener has to be told so.
    fn view<'a>(&'a self, shared: &'a Shared, slot: u32) -> Option<RouteView<'a>> {
        let net = self.prefixes.net(slot)?;
        let paths = self.prefixes.paths(slot);
        let mut field = Vec::new();
        shared.candidates(paths, &mut field);
        let reason = decide(&mut field);
        let mut views: Vec<PathView<'a>> = paths
            .iter()
            .enumerate()
            .map(|(at, path)| {
                let candidate = field.iter().find(|candidate| candidate.at == at);
                PathView {
                    peer: path.peer(),
                    path_id: path.path_id,
                    attributes: path
                        .attributes()
                        .and_then(|id| shared.sets.get(id))
                        .map(|set| &set.attributes),
                    best: candidate.is_some_and(|candidate| candidate.lost.is_none()),
                    equal: candidate.is_some_and(super::decision::Candidate::equal),
                    stale: path.stale(),
                    withheld: path.withheld,
                    lost: candidate.and_then(|candidate| candidate.lost),
                }
            })
            .collect();
        views.sort_by_key(|view| {
            // Of those that are alike, in the order of their peers, not of their arrival.
            let rank = (!view.best, view.withheld.is_some(), std::cmp::Reverse(view.lost));
            (rank, view.peer, view.path_id)
        });
        let reason = (!field.is_empty()).then_some(reason);
        (!views.is_empty()).then(|| RouteView {
            net: net.into(),
            paths: views,
            reason,
            position: slot,
        })
    }

    fn told<'a>(
        &'a self,
        shared: &'a Shared,
        peer: PeerKey,
    ) -> impl Iterator<Item = ToldView> + 'a {
        let outlet = self.outlet(peer);
        let mut from = 0;
        std::iter::from_fn(move || {
            let outlet = outlet?;
            let (slot, content) = outlet.told.next(from)?;
            from = slot + 1;
            let net = self.prefixes.net(slot)?.into();
            Some(ToldView { net, attributes: as_told::<N>(outlet, content, shared) })
        })
    }

    fn heard(&self, shared: &Shared, peer: PeerKey, net: N) -> Option<Heard> {
        let outlet = self.outlet(peer)?;
        let prefix = self.prefixes.fingerprint(net);
        let slot = self.prefixes.find(net);
        let known = slot.and_then(|slot| outlet.told.get(slot).content());
        let wanted = match self.export(shared, peer, net) {
            Some(Ok(_)) => slot.and_then(|slot| content(&self.prefixes.best(slot)?, shared)),
            _ => None,
        };
        let queued = slot.is_some_and(|slot| outlet.is_queued(slot));
        let pending = match (known, wanted) {
            (Some(_), None) => Some(Pending::Withdrawal),
            // One that is neither told nor queued does not fit into a message.
            (known, Some(_)) if queued && known != wanted => Some(Pending::Announcement),
            _ => None,
        };
        let when = match known {
            Some(content) => {
                Some(outlet.diary.when_told(prefix, content != Content::OUTDATED, shared.now))
            }
            None => outlet.diary.when_withdrawn(prefix),
        };
        Some(Heard {
            told: known.is_some(),
            attributes: known.and_then(|content| as_told::<N>(outlet, content, shared)),
            when,
            pending,
        })
    }

    fn told_of(&self, shared: &Shared, peer: PeerKey, net: N) -> Option<ToldView> {
        let outlet = self.outlet(peer)?;
        let content = outlet.told.get(self.prefixes.find(net)?).content()?;
        Some(ToldView { net: net.into(), attributes: as_told::<N>(outlet, content, shared) })
    }

    fn export(
        &self,
        shared: &Shared,
        peer: PeerKey,
        net: N,
    ) -> Option<Result<Attributes, Withheld>> {
        let path = self.prefixes.best(self.prefixes.find(net)?)?;
        let set = shared.sets.get(path.attributes()?)?;
        let outlet = self.outlet(peer)?;
        Some(outlet.exporter.attributes(N::FAMILY, &set.attributes, shared.from(&path)))
    }
}

/// What was told is kept as what it was made from.
fn as_told<N: Net>(outlet: &Outlet, content: Content, shared: &Shared) -> Option<Attributes> {
    let set = shared.sets.get(content.number()?)?;
    let from = match content.kind() {
        0 => From::Ourselves,
        // Who it came from does not matter, as long as it is not the peer itself.
        kind => From::Peer { key: PeerKey(!outlet.peer.0), internal: kind == 2 },
    };
    outlet.exporter.attributes(N::FAMILY, &set.attributes, from).ok()
}
