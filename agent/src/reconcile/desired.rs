//! What there should be, as pure functions of the world, one decision each: which node routes, and
//! which prefixes are announced. Who asks for a prefix is kept by `claims`; how much it may flap is
//! `pace`'s; doing it is the task's.
//!
//! Tell the world only what the kernel can deliver: a summary once its route is there, a pod's own
//! address while the pod is attached and its route is in place, an anycast address while somebody
//! who is Ready serves it and its route is in place.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use flock_bgp::{Community, LargeCommunity, Origination};
use flock_dataplane::{NextHop, NodeRoute};
use ipnet::IpNet;

use super::Routes;
use super::claims::{Claim, Holders};
use crate::config::{Communities, NodeConfig};
use crate::pods::book::{self, Attachment, Phase};
use crate::source::Behind;

/// What of the NodeConfig decides about routes and announcements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// The node's networks: those of the NodeConfig, and those that it no longer has but that
    /// still hold pods.
    pub summaries: BTreeSet<IpNet>,
    /// Their prefix lengths, few whatever the number of networks.
    lengths: BTreeSet<u8>,
    /// Each pod's own address beside the summary.
    pub announce_pods: bool,
    /// How everything is originated.
    pub origination: Origination,
}

impl Rules {
    /// Those of a configuration, with networks that still hold pods.
    pub fn new(config: Option<&NodeConfig>, still_held: &[IpNet]) -> Self {
        let bgp = config.and_then(|config| config.bgp.as_ref());
        let summaries: BTreeSet<IpNet> =
            configured(config).chain(still_held.iter().copied()).collect();
        Self {
            lengths: summaries.iter().map(IpNet::prefix_len).collect(),
            summaries,
            announce_pods: bgp.is_some_and(|bgp| bgp.announce_pods),
            origination: bgp.map(|bgp| origination(&bgp.communities)).unwrap_or_default(),
        }
    }

    fn covers(&self, address: IpAddr) -> bool {
        let network = |length: &u8| IpNet::new(address, *length).ok().map(|net| net.trunc());
        self.lengths.iter().filter_map(network).any(|net| self.summaries.contains(&net))
    }
}

fn origination(communities: &Communities) -> Origination {
    Origination {
        communities: standard(communities),
        large_communities: large(communities),
        med: None,
        local_pref: None,
    }
}

/// In the speaker's words.
pub(crate) fn standard(communities: &Communities) -> Vec<Community> {
    communities.standard.iter().map(|community| Community(community.0)).collect()
}

/// In the speaker's words.
pub(crate) fn large(communities: &Communities) -> Vec<LargeCommunity> {
    communities.large.iter().map(|c| LargeCommunity(c.0, c.1, c.2)).collect()
}

/// The networks of a NodeConfig.
pub fn configured(config: Option<&NodeConfig>) -> impl Iterator<Item = IpNet> + '_ {
    config.into_iter().flat_map(|config| {
        let six = config.cidr6.iter().copied().map(IpNet::V6);
        six.chain(config.cidr4.iter().copied().map(IpNet::V4))
    })
}

/// Installed summaries that the NodeConfig does not ask for: to be kept while they hold pods.
pub fn leftover_summaries(config: Option<&NodeConfig>, installed: &Routes) -> Vec<IpNet> {
    let wanted: BTreeSet<IpNet> = configured(config).collect();
    let is_summary = |route: &NodeRoute| matches!(route, NodeRoute::Blackhole { .. });
    let leftover =
        installed.iter().filter(|(prefix, route)| is_summary(route) && !wanted.contains(prefix));
    leftover.map(|(prefix, _)| *prefix).collect()
}

/// When an anycast address is served by a pod: attached, Ready and not terminating.
pub fn serves_anycast(phase: Phase, pod: Behind<'_>) -> bool {
    phase == Phase::Serving && pod.is_ready()
}

/// What an attachment asks for.
///
/// Its own addresses are announced where no summary leads here (or `announcePods` says so), Ready
/// or not: a pod has to be reached to become Ready.
pub fn claims(attachment: &Attachment, pod: Behind<'_>, rules: &Rules) -> Vec<Claim> {
    if attachment.phase != Phase::Serving {
        return Vec::new();
    }
    let own = book::own_addresses(&attachment.record).into_iter();
    let own = own
        .filter(|address| attachment.wired && (rules.announce_pods || !rules.covers(*address)))
        .map(|address| Claim::Own { prefix: address.into() });
    let serves = serves_anycast(attachment.phase, pod);
    let anycast = anycast_hops(attachment).map(|(address, hop)| Claim::Anycast {
        prefix: address.into(),
        hop,
        serves,
    });
    own.chain(anycast).collect()
}

/// Each anycast address of an attachment by way of the pod's own address of that family: one way for
/// all of them.
fn anycast_hops(attachment: &Attachment) -> impl Iterator<Item = (IpAddr, Arc<NextHop>)> + '_ {
    let record = &attachment.record;
    let way = |via| Arc::new(NextHop { via, dev: attachment.host_ifname().to_owned() });
    let six = record.ip6.map(|via| way(via.into()));
    let four = record.ip4.map(|via| way(via.into()));
    record.anycast.iter().filter_map(move |address| {
        let way = if address.is_ipv6() { six.clone() } else { four.clone() };
        way.map(|way| (*address, way))
    })
}

/// The next hops that this attachment serves now.
pub fn next_hops(attachment: &Attachment, pod: Behind<'_>) -> Vec<(IpAddr, Arc<NextHop>)> {
    if serves_anycast(attachment.phase, pod) {
        anycast_hops(attachment).collect()
    } else {
        Vec::new()
    }
}

/// The node's route for a prefix. An anycast address that nobody serves any more lingers while
/// `lingers` says so, over the next hops that it had, as far as their pods are still attached: the
/// ToR has not heard of it yet, and its packets are delivered, not looped. A pod that never was
/// Ready gets none of them.
pub fn route(
    prefix: IpNet,
    holders: Option<&Holders>,
    rules: &Rules,
    installed: Option<&NodeRoute>,
    lingers: bool,
) -> Option<NodeRoute> {
    if rules.summaries.contains(&prefix) {
        return Some(NodeRoute::Blackhole { prefix });
    }
    let holders = holders?;
    let mut next_hops: BTreeSet<Arc<NextHop>> = holders.serving().cloned().collect();
    if let Some(NodeRoute::Anycast { next_hops: had, .. }) = installed
        && next_hops.is_empty()
        && lingers
    {
        let attached: BTreeSet<&Arc<NextHop>> = holders.attached().collect();
        next_hops = had.iter().filter(|hop| attached.contains(hop)).cloned().collect();
    }
    let next_hops: Vec<Arc<NextHop>> = next_hops.into_iter().collect();
    (!next_hops.is_empty()).then(|| NodeRoute::Anycast { address: prefix.addr(), next_hops })
}

/// Whether a prefix is to be announced, kernel aside.
pub fn wants_announcement(prefix: IpNet, holders: Option<&Holders>, rules: &Rules) -> bool {
    rules.summaries.contains(&prefix)
        || holders.is_some_and(|holders| holders.is_own() || holders.serving().next().is_some())
}

/// Whether the kernel delivers what the announcement promises. The route to a pod's own address is
/// the pod's, and an attachment without it claims nothing.
pub fn is_delivered(
    prefix: IpNet,
    holders: Option<&Holders>,
    rules: &Rules,
    installed: Option<&NodeRoute>,
) -> bool {
    if rules.summaries.contains(&prefix) {
        return matches!(installed, Some(NodeRoute::Blackhole { .. }));
    }
    holders.is_some_and(Holders::is_own) || matches!(installed, Some(NodeRoute::Anycast { .. }))
}

#[cfg(test)]
mod tests;
