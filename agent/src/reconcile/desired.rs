//! Which node routes there should be: pure functions of the world, one decision each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use flock_dataplane::{NextHop, NodeRoute};
use ipnet::IpNet;

use super::Routes;
use crate::config::NodeConfig;
use crate::pods::book::{Attachment, Phase};
use crate::pods::pod_key;
use crate::source::{PodFacts, Pods};

/// When an anycast address is served by a pod: attached, Ready and not terminating. A pod that the
/// source does not know (standalone, no manifest) counts as Ready.
pub fn serves_anycast(phase: Phase, facts: Option<&PodFacts>) -> bool {
    phase == Phase::Serving && facts.is_none_or(|pod| pod.ready && !pod.terminating)
}

/// The next hops that this attachment serves now.
pub fn next_hops(attachment: &Attachment, pods: &Pods) -> Vec<(IpAddr, NextHop)> {
    let facts = pods.get(&pod_key(&attachment.record));
    if serves_anycast(attachment.phase, facts.map(AsRef::as_ref)) {
        attached_hops(attachment)
    } else {
        Vec::new()
    }
}

/// Each anycast address of an attachment by way of the pod's own address of that family.
fn attached_hops(attachment: &Attachment) -> Vec<(IpAddr, NextHop)> {
    let record = &attachment.record;
    record
        .anycast
        .iter()
        .filter_map(|address| {
            let via = match address {
                IpAddr::V6(_) => record.ip6.map(IpAddr::V6),
                IpAddr::V4(_) => record.ip4.map(IpAddr::V4),
            };
            let dev = attachment.host_ifname().to_owned();
            via.map(|via| (*address, NextHop { via, dev }))
        })
        .collect()
}

/// The routes of anycast addresses. An address that no pod serves any more but that was installed
/// lingers while `lingers` says so, by way of the pods that still are attached: the ToR has not
/// heard of it yet, and its packets are delivered, not looped.
pub fn anycast(
    attachments: &[Attachment],
    pods: &Pods,
    installed: &Routes,
    lingers: impl Fn(IpAddr) -> bool,
) -> Routes {
    let mut serving: BTreeMap<IpAddr, BTreeSet<NextHop>> = BTreeMap::new();
    let mut attached: BTreeMap<IpAddr, BTreeSet<NextHop>> = BTreeMap::new();
    for attachment in attachments {
        for (address, hop) in next_hops(attachment, pods) {
            serving.entry(address).or_default().insert(hop);
        }
        if attachment.phase == Phase::Serving {
            for (address, hop) in attached_hops(attachment) {
                attached.entry(address).or_default().insert(hop);
            }
        }
    }
    for (address, hops) in attached {
        // The hops that were there, as far as they still are: a pod that never was Ready gets none
        // of the packets.
        let left: BTreeSet<NextHop> = match installed.get(&IpNet::from(address)) {
            Some(NodeRoute::Anycast { next_hops, .. }) => {
                next_hops.iter().filter(|hop| hops.contains(hop)).cloned().collect()
            }
            _ => BTreeSet::new(),
        };
        if !left.is_empty() && !serving.contains_key(&address) && lingers(address) {
            serving.insert(address, left);
        }
    }
    serving
        .into_iter()
        .map(|(address, hops)| {
            let next_hops = hops.into_iter().collect();
            (IpNet::from(address), NodeRoute::Anycast { address, next_hops })
        })
        .collect()
}

/// The summaries: every network of the NodeConfig, and those that it no longer has but that still
/// hold pods, so that a packet for a dead pod never loops to the ToR.
pub fn summaries(config: Option<&NodeConfig>, still_held: &[IpNet]) -> Routes {
    configured(config)
        .chain(still_held.iter().copied())
        .map(|prefix| (prefix, NodeRoute::Blackhole { prefix }))
        .collect()
}

/// Installed summaries that the NodeConfig does not ask for: to be kept while they hold pods.
pub fn leftover_summaries(config: Option<&NodeConfig>, installed: &Routes) -> Vec<IpNet> {
    let wanted: BTreeSet<IpNet> = configured(config).collect();
    installed
        .iter()
        .filter(|(prefix, route)| {
            matches!(route, NodeRoute::Blackhole { .. }) && !wanted.contains(prefix)
        })
        .map(|(prefix, _)| *prefix)
        .collect()
}

fn configured(config: Option<&NodeConfig>) -> impl Iterator<Item = IpNet> + '_ {
    config.into_iter().flat_map(|config| {
        let six = config.cidr6.iter().copied().map(IpNet::V6);
        six.chain(config.cidr4.iter().copied().map(IpNet::V4))
    })
}

#[cfg(test)]
mod tests;
