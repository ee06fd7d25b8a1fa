//! What the task knows, for people: whole, and of one prefix. Decides nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;

use flock_dataplane::NodeRoute;
use ipnet::IpNet;
use tokio::time::Instant;

use super::Routes;
use super::agenda::Agenda;
use super::claims::Claims;
use super::desired::{self, Rules};
use super::past::{Past, Withdrawal};

/// What the task knows.
pub struct Picture<'a> {
    /// Who asks for what.
    pub claims: &'a Claims,
    /// What of the NodeConfig decides.
    pub rules: &'a Rules,
    /// What the speaker was told to originate, and since when.
    pub originated: &'a BTreeMap<IpNet, Instant>,
    /// What was put into the kernel.
    pub installed: &'a Routes,
    /// Until when the route of a withdrawn address stays.
    pub lingering: &'a BTreeMap<IpNet, Instant>,
    /// When a prefix is looked at again: the end of its lingering or of its pacing, another try.
    pub(super) again: &'a Agenda,
    /// What the kernel refuses, with its words.
    pub refused: &'a BTreeMap<IpNet, String>,
    /// Networks that are kept only for the pods in them.
    pub leftover: &'a [IpNet],
    /// The node is drained: nothing is announced.
    pub hushed: bool,
    pub(super) past: &'a Past,
}

/// What the task knows of one prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Originated, since then.
    pub since: Option<Instant>,
    /// Somebody wants it to be announced, a drain aside.
    pub wanted: bool,
    /// The node is drained.
    pub hushed: bool,
    /// A network of the node.
    pub summary: bool,
    /// Kept only for the pods in it.
    pub leftover: bool,
    /// What was put into the kernel for it.
    pub installed: Option<NodeRoute>,
    /// The route of a withdrawn address stays until then.
    pub lingers_until: Option<Instant>,
    /// It flaps, and is announced again then.
    pub paced_until: Option<Instant>,
    /// The kernel refuses its route, in these words, and is asked again then.
    pub refused: Option<(String, Option<Instant>)>,
    /// Not announced any more.
    pub withdrawn: Option<Withdrawal>,
}

impl Picture<'_> {
    /// Why a prefix is originated, for people.
    pub fn owner(&self, prefix: &IpNet) -> Option<String> {
        if self.rules.summaries.contains(prefix) {
            return Some("summary".to_owned());
        }
        self.claims.told(prefix)
    }

    /// One prefix.
    pub fn standing(&self, prefix: IpNet) -> Standing {
        let (holders, installed) = (self.claims.of(&prefix), self.installed.get(&prefix));
        let since = self.originated.get(&prefix).copied();
        let again = self.again.of(&prefix);
        let wanted = desired::wants_announcement(prefix, holders, self.rules);
        let delivered = desired::is_delivered(prefix, holders, self.rules, installed);
        // Whatever is wanted and delivered is announced, unless it flaps.
        let waits = wanted && delivered && since.is_none() && !self.hushed;
        Standing {
            since,
            wanted,
            hushed: self.hushed,
            summary: self.rules.summaries.contains(&prefix),
            leftover: self.leftover.contains(&prefix),
            installed: installed.cloned(),
            lingers_until: self.lingering.get(&prefix).copied(),
            paced_until: again.filter(|_| waits),
            refused: self.refused.get(&prefix).map(|words| (words.clone(), again)),
            withdrawn: self.past.last(&prefix).filter(|_| since.is_none()).cloned(),
        }
    }

    /// The narrowest network of the node that holds an address.
    pub fn network_of(&self, address: IpAddr) -> Option<IpNet> {
        let networks = self.rules.summaries.iter().filter(|network| network.contains(&address));
        networks.max_by_key(|network| network.prefix_len()).copied()
    }

    /// Some of what is originated inside a prefix, itself aside.
    pub fn within(&self, prefix: IpNet, most: usize) -> Vec<IpNet> {
        let inside = self.originated.keys().filter(|net| prefix.contains(*net) && **net != prefix);
        inside.take(most).copied().collect()
    }
}
