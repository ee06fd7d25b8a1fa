//! Policies change: decides whom that concerns. What they select or selected, whom their peers are or
//! were, and nobody else is looked at again.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use flock_dataplane::policy::{Element, Ports};

use super::Engine;
use super::attached::Attached;
use super::index;
use super::peers::Changed;
use super::profile::Item;
use crate::policy::labels::Selector;
use crate::policy::model::PolicyKey;
use crate::source::Cluster;

impl Engine {
    /// Policies of these names are others now, and perhaps labels of namespaces.
    pub(super) fn set_policies(
        &mut self,
        cluster: &Cluster,
        names: &[PolicyKey],
        namespaces: bool,
    ) {
        let was_crowded = !self.policies.crowded.is_empty();
        let mut changed = self.policies.set(names, &cluster.policies);
        let cut = match changed.ranges() {
            true => self.cut_ports(),
            false => BTreeSet::new(),
        };
        let known = namespaces.then_some(&*cluster.namespaces);
        let (kinds, looked_at) = self.kinds.rematch(&self.policies, &changed, known, &self.classes);
        self.effort.kinds += looked_at;
        let mut dirty: BTreeSet<IpAddr> =
            kinds.iter().flat_map(|kind| self.kinds.addresses(*kind)).collect();
        if changed.pieces.is_some() {
            // Without room, what is left out is not where the blocks are that changed.
            let everywhere = was_crowded || !self.policies.crowded.is_empty();
            dirty.extend(self.between(&changed, everywhere));
        }
        if !dirty.is_empty() || changed.pieces.is_some() {
            self.classify(&dirty, changed.pieces.take());
        }
        let links = self.concerned(&changed, &cut);
        self.isolate(&links);
    }

    /// Cuts the ranges of ports anew. Returns the numbers of those that are gone.
    fn cut_ports(&mut self) -> BTreeSet<u32> {
        let (removed, added) = self.ranges.set(self.policies.ranges());
        let number = |element: &Element| match element {
            Element::Range { number, .. } => Some(*number),
            _ => None,
        };
        let gone = removed.iter().filter_map(number).collect();
        removed.into_iter().for_each(|element| self.pending.remove(element));
        added.into_iter().for_each(|element| self.pending.add(element));
        gone
    }

    /// The addresses in blocks that came or went.
    fn between(&self, changed: &Changed, everywhere: bool) -> Vec<IpAddr> {
        if everywhere {
            return self.addresses.keys().copied().collect();
        }
        let fresh = changed.fresh.iter().map(|(_, peers)| peers);
        let spans = fresh.chain(changed.gone.values()).flat_map(|peers| &peers.spans);
        let within = spans.flat_map(|span| {
            let (first, last) = span.ends();
            self.addresses.range(first..=last)
        });
        within.map(|(address, _)| *address).collect()
    }

    /// The links whose pods policies select that changed, or selected before, and those that are held
    /// against ranges of ports that are cut otherwise now.
    fn concerned(&self, changed: &Changed, cut: &BTreeSet<u32>) -> Vec<Arc<str>> {
        let mut links = BTreeSet::new();
        for policy in changed.before.iter().chain(&changed.after).map(|known| &known.policy) {
            let namespace = &policy.key.namespace;
            links.extend(self.found.under(index::of_unknown(namespace)).cloned());
            let candidates = self.found.candidates(namespace, &policy.pods);
            links.extend(
                candidates.filter(|link| self.is_of(link, namespace, &policy.pods)).cloned(),
            );
        }
        if !cut.is_empty() {
            let gone = |(_, item): &(u32, Item)| match item {
                Item::Ports(Ports::Range(number)) => cut.contains(number),
                _ => false,
            };
            let profiles = self.profiles.iter().filter(|(_, rules)| rules.iter().any(gone));
            let profiles: BTreeSet<u32> = profiles.map(|(number, _)| number).collect();
            let held = |pod: &Attached| pod.profiles.iter().flatten().any(|p| profiles.contains(p));
            links.extend(
                self.attached.iter().filter(|(_, pod)| held(pod)).map(|(link, _)| link.clone()),
            );
        }
        links.into_iter().collect()
    }

    fn is_of(&self, link: &Arc<str>, namespace: &str, selector: &Selector) -> bool {
        let local = self.attached.get(link).map(|attached| &attached.local);
        local.is_some_and(|pod| *pod.key.namespace == *namespace && selector.matches(&pod.labels))
    }
}
