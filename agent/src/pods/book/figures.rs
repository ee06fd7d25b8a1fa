//! The book in figures, for metrics. Costs as much as there are attachments.

use ipnet::IpNet;

use super::{Book, Phase};
use crate::ipam::PoolCounters;

/// What is in the book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// How many attachments are where in their life.
    pub phases: [(Phase, usize); 4],
    /// Of those that serve, the ones that a repair failed for.
    pub unwired: usize,
    /// Links that are about to be deleted.
    pub doomed: usize,
    /// Links of our kind that no entry knows.
    pub strangers: usize,
    /// How full pools are, in the order in which they were asked for.
    pub pools: Vec<PoolCounters>,
}

impl Book {
    /// As it is now, with these pools.
    pub fn figures(&self, pools: &[IpNet]) -> Figures {
        let all = [Phase::Wiring, Phase::Serving, Phase::Leaving, Phase::Orphaned];
        let mut phases = all.map(|phase| (phase, 0));
        for attachment in self.attachments.values() {
            for (phase, count) in &mut phases {
                *count += usize::from(*phase == attachment.phase);
            }
        }
        Figures {
            phases,
            unwired: self.unwired.len(),
            doomed: self.doomed.len(),
            strangers: self.strangers.len(),
            pools: pools.iter().map(|pool| self.counters(*pool)).collect(),
        }
    }
}
