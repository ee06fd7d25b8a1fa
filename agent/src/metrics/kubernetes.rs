//! What is written to the API server, counted as it happens. All zero in standalone mode.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::counted::counters;

/// What was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The NodeConfig's status.
    Status,
    /// The Node's condition.
    Condition,
    /// An Event.
    Event,
}

impl Written {
    const ALL: [Self; 3] = [Self::Status, Self::Condition, Self::Event];

    fn word(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Condition => "condition",
            Self::Event => "event",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    kind: &'static str,
    result: &'static str,
}

impl Write {
    fn of(what: Written, well: bool) -> Self {
        Self { kind: what.word(), result: if well { "ok" } else { "error" } }
    }
}

/// What is written to the API server.
#[derive(Debug)]
pub struct Kubernetes {
    writes: Family<Write, Counter>,
    left_out: Counter,
}

impl Kubernetes {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let known: Vec<Write> = Written::ALL
            .iter()
            .flat_map(|what| [true, false].map(|well| Write::of(*what, well)))
            .collect();
        let this = Self {
            writes: counters(
                registry,
                "flock_kubernetes_writes",
                "Writes to the API server by what was written and how it ended; one that failed is tried again",
                &known,
            ),
            left_out: Counter::default(),
        };
        registry.register(
            "flock_kubernetes_events_left_out",
            "Events that were not written, because there were too many or the API server was away",
            this.left_out.clone(),
        );
        this
    }

    /// A write ended.
    pub fn wrote<T, E>(&self, what: Written, outcome: &Result<T, E>) {
        self.writes.get_or_create(&Write::of(what, outcome.is_ok())).inc();
    }

    /// An Event was not even tried.
    pub fn left_out(&self) {
        self.left_out.inc();
    }
}
