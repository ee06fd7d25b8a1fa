//! The book against the kernel against the source: what is there without an entry, what an entry
//! promises and is not there, what is held twice, whose pod nobody knows any more. Pure: two looks a
//! moment apart are compared by the caller, because pods come and go meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use flock_dataplane::{HostLink, NodeRoute, PodRoute};
use ipnet::IpNet;

use super::name::{ADDRESSES, LEAKS, LINKS, ROUTES};
use super::shorten;
use crate::cli::check::Finding;
use crate::pods::book::{Attachment, Phase, own_addresses};
use crate::pods::called;
use crate::reconcile::Picture;
use crate::reconcile::desired;
use crate::source::Pods;

/// What the node's routes should be, by prefix. `None`: somebody asks for it, and it may be there
/// or not (a pod that is not Ready; an address that lingers).
pub(super) type Expected = BTreeMap<IpNet, Option<NodeRoute>>;

/// What the reconciler works towards.
pub(super) fn expected(picture: &Picture<'_>) -> Expected {
    let prefixes = picture.claims.prefixes().chain(&picture.rules.summaries);
    let route = |prefix: &IpNet| {
        let holders = picture.claims.of(prefix);
        (*prefix, desired::route(*prefix, holders, picture.rules, None, false))
    };
    prefixes.map(route).collect()
}

/// What the kernel has.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) links: Vec<HostLink>,
    pub(super) pod_routes: Vec<PodRoute>,
    pub(super) node_routes: Vec<NodeRoute>,
}

/// What does not agree, in words that are the same at every look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// Links that no entry knows.
    pub(super) strangers: BTreeSet<String>,
    /// Routes of ours that no entry explains.
    pub(super) unexplained: BTreeSet<String>,
    /// Routes that are promised and not there.
    pub(super) missing: BTreeSet<String>,
}

impl Differences {
    /// What was so before, too.
    pub(super) fn lasting(&self, before: &Self) -> Self {
        let both = |now: &BTreeSet<String>, then: &BTreeSet<String>| now & then;
        Self {
            strangers: both(&self.strangers, &before.strangers),
            unexplained: both(&self.unexplained, &before.unexplained),
            missing: both(&self.missing, &before.missing),
        }
    }
}

/// Compares.
pub(super) fn compare(book: &[Attachment], kernel: &Kernel, expected: &Expected) -> Differences {
    let known: BTreeSet<&str> = book.iter().map(Attachment::host_ifname).collect();
    let doomed: BTreeSet<&str> =
        kernel.links.iter().filter(|link| link.doomed).map(|link| link.name.as_str()).collect();
    let strange = |name: &str| !known.contains(name) && !doomed.contains(name);
    let strangers = kernel.links.iter().map(|link| link.name.as_str()).filter(|name| strange(name));
    let owned: BTreeSet<(IpNet, &str)> = book
        .iter()
        .flat_map(|a| own_addresses(&a.record).into_iter().map(|ip| (ip.into(), a.host_ifname())))
        .collect();
    // Those of a stranger's link are explained by it, and told with it.
    let unexplained = kernel.pod_routes.iter().filter(|route| {
        route.ours
            && known.contains(route.ifname.as_str())
            && !owned.contains(&(route.destination, route.ifname.as_str()))
    });
    let mut differences = Differences {
        strangers: strangers.map(str::to_owned).collect(),
        unexplained: unexplained.map(|r| format!("{} dev {}", r.destination, r.ifname)).collect(),
        missing: BTreeSet::new(),
    };
    let there: BTreeMap<IpNet, &NodeRoute> =
        kernel.node_routes.iter().map(|route| (destination(route), route)).collect();
    for (prefix, route) in &there {
        if !expected.contains_key(prefix) {
            differences.unexplained.insert(told(route));
        }
    }
    for (prefix, wanted) in expected {
        let Some(wanted) = wanted else { continue };
        match there.get(prefix) {
            Some(found) if *found == wanted => {}
            Some(found) => {
                differences.missing.insert(format!("{}, but {}", told(wanted), told(found)));
            }
            None => drop(differences.missing.insert(told(wanted))),
        }
    }
    differences
}

fn destination(route: &NodeRoute) -> IpNet {
    match route {
        NodeRoute::Blackhole { prefix } => *prefix,
        NodeRoute::Anycast { address, .. } => IpNet::from(*address),
    }
}

fn told(route: &NodeRoute) -> String {
    match route {
        NodeRoute::Blackhole { prefix } => format!("unreachable {prefix}"),
        NodeRoute::Anycast { address, next_hops } => {
            let hops: Vec<String> =
                next_hops.iter().map(|hop| format!("{} dev {}", hop.via, hop.dev)).collect();
            format!("{address} via {}", hops.join(", "))
        }
    }
}

/// What is to be said about differences that last.
pub(super) fn judge(differences: &Differences, pods: usize, routes: usize) -> Vec<Finding> {
    let listed = |set: &BTreeSet<String>| shorten(set.iter().map(String::as_str));
    let Differences { strangers, unexplained, missing } = differences;
    let mut findings = vec![match strangers.len() {
        0 => Finding::ok(LINKS, format!("{pods} pod link(s), all known")),
        count => Finding::warn(
            LINKS,
            format!("{count} link(s) that no entry knows: {}", listed(strangers)),
            "their pods were attached under another state file: delete these pods; where they are \
             gone already, `ip link del` the links",
        ),
    }];
    if !missing.is_empty() {
        findings.push(Finding::fail(
            ROUTES,
            format!("missing in the kernel: {}", listed(missing)),
            "see the agent's log for why they cannot be installed (another program's route to the \
             same place?)",
        ));
    }
    if !unexplained.is_empty() {
        findings.push(Finding::warn(
            ROUTES,
            format!("of flock's making, and no entry explains them: {}", listed(unexplained)),
            "see which program uses protocol 241 (`ip route show proto 241`), and remove what is \
             nobody's with `ip route del`",
        ));
    }
    if missing.is_empty() && unexplained.is_empty() {
        findings.push(Finding::ok(ROUTES, format!("{routes} of the node, as they should be")));
    }
    findings
}

/// Addresses that are the own of more than one pod.
pub(super) fn held_twice(book: &[Attachment]) -> Finding {
    let mut holders: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    for attachment in book {
        for address in own_addresses(&attachment.record) {
            holders.entry(address).or_default().push(called(&attachment.record));
        }
    }
    let count = holders.len();
    holders.retain(|_, pods| pods.len() > 1);
    holders.values_mut().for_each(|pods| pods.sort());
    if holders.is_empty() {
        return Finding::ok(ADDRESSES, format!("{count} held, each once"));
    }
    let each: Vec<String> =
        holders.iter().map(|(ip, pods)| format!("{ip} by {}", pods.join(" and "))).collect();
    Finding::fail(
        ADDRESSES,
        format!("held twice: {}", shorten(each.iter().map(String::as_str))),
        "delete one of the pods of each, and start it again: it gets another address",
    )
}

/// Attachments whose pod the source does not know any more. Where pods need no manifest, only those
/// that surely had one: annotations are in their record.
pub(super) fn leaked(book: &[Attachment], pods: &Pods, manifests_required: bool) -> Finding {
    let had_manifest = |a: &Attachment| {
        manifests_required || !a.record.anycast.is_empty() || !a.record.addresses.is_empty()
    };
    let unknown = |a: &&Attachment| {
        a.phase == Phase::Serving
            && !a.record.pod_name.is_empty()
            && had_manifest(a)
            && pods.behind(&a.record).facts().is_none()
    };
    let names: BTreeSet<String> =
        book.iter().filter(unknown).map(|attachment| called(&attachment.record)).collect();
    if names.is_empty() {
        return Finding::ok(LEAKS, "every pod that is attached is known");
    }
    Finding::warn(
        LEAKS,
        format!(
            "{} pod(s) are attached and not known any more: {}",
            names.len(),
            shorten(names.iter().map(String::as_str))
        ),
        "where the pod still runs, put its manifest back; where it is gone, the runtime owes a DEL \
         or a GC",
    )
}

#[cfg(test)]
mod tests;
