//! What becomes of network policies, counted as it happens.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::counted::counters;

/// The seconds of a change in the kernel: from one element to a hundred thousand.
const CHANGE: [f64; 12] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Update {
    result: &'static str,
}

const WELL: Update = Update { result: "ok" };
const REFUSED: Update = Update { result: "error" };

/// Changes that policies and pods led to.
#[derive(Debug)]
pub struct Policy {
    updates: Family<Update, Counter>,
    seconds: Histogram,
}

impl Policy {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let this = Self {
            updates: counters(
                registry,
                "flock_policy_updates",
                "Changes of the rules of network policies in the kernel, each one transaction, by how they ended; one that failed is tried again",
                &[WELL, REFUSED],
            ),
            seconds: Histogram::new(CHANGE),
        };
        registry.register_with_unit(
            "flock_policy_update_duration",
            "How long the kernel took for a change of the rules of network policies",
            Unit::Seconds,
            this.seconds.clone(),
        );
        this
    }

    /// The kernel took a change.
    pub fn updated(&self, took: Duration) {
        self.updates.get_or_create(&WELL).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// The kernel refused one.
    pub fn failed(&self) {
        self.updates.get_or_create(&REFUSED).inc();
    }
}
