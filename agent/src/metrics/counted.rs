//! What is counted as it happens. Decides names, help and buckets; what is worth counting is decided
//! by whoever does it. What can happen is there from the start as a zero: a series that begins with
//! its first failure hides that failure from whoever looks at increases.

use std::time::Duration;

use flock_cni::error::{self as code, CniError};
use flock_cni::words;
use flock_dataplane::Drift;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{
    ADDRESS_REASONS, Answer, Call, DRIFTS, Endpoint, Kind, Leak, OPS, Op, Outcome, ROUTED, Reason,
    Repair, Request,
};
use crate::pods::book::ReserveError;

type Counters<L> = Family<L, Counter>;

/// The seconds of a call: from what a pod takes to what a runtime waits.
const CALL: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 50.0];
/// The seconds of a write, on any disk.
const WRITE: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Adds one to a counter of a family.
fn count<L>(family: &Counters<L>, labels: &L)
where
    L: Clone + std::hash::Hash + Eq,
{
    family.get_or_create(labels).inc();
}

/// A family whose counters are there before anything happens.
pub(super) fn counters<L>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    first: &[L],
) -> Counters<L>
where
    L: Clone + std::hash::Hash + Eq + std::fmt::Debug + Send + Sync + 'static,
    L: prometheus_client::encoding::EncodeLabelSet,
{
    let family = Counters::<L>::default();
    for labels in first {
        drop(family.get_or_create(labels));
    }
    registry.register(name, help, family.clone());
    family
}

/// Calls of the runtime.
#[derive(Debug)]
pub struct Cni {
    calls: Counters<Call>,
    seconds: Family<Op, Histogram>,
    in_flight: Gauge,
    refused: Counters<Reason>,
}

/// A call that is under way, until it is dropped.
#[derive(Debug)]
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Those that are there from the beginning, so that the first failure is an increase.
fn known_calls() -> Vec<Call> {
    let well = OPS.map(|op| Call::of(op, None));
    let failed = [words::ADD, words::DEL, words::GC].into_iter().flat_map(|op| {
        let codes = [code::TRY_AGAIN_LATER, code::IO_FAILURE, code::INVALID_CONFIG, code::INTERNAL];
        codes.map(|code| Call::of(op, Some(code)))
    });
    well.into_iter().chain(failed).collect()
}

impl Cni {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let seconds = Family::<Op, Histogram>::new_with_constructor(|| Histogram::new(CALL));
        for op in OPS {
            drop(seconds.get_or_create(&Op { op }));
        }
        let this = Self {
            calls: counters(
                registry,
                "flock_cni_calls",
                "CNI calls by op, how they ended and the CNI error code (0: none)",
                &known_calls(),
            ),
            seconds,
            in_flight: Gauge::default(),
            refused: counters(
                registry,
                "flock_cni_refused",
                "CNI callers that were not listened to, because they are not root or sent what cannot be read",
                &["not_root", "undecodable"].map(|reason| Reason { reason }),
            ),
        };
        registry.register_with_unit(
            "flock_cni_call_duration",
            "How long CNI calls took inside the agent, by op",
            Unit::Seconds,
            this.seconds.clone(),
        );
        registry.register(
            "flock_cni_calls_in_flight",
            "CNI calls that are being carried out now",
            this.in_flight.clone(),
        );
        this
    }

    /// A call begins.
    pub fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// A call was answered.
    pub fn answered<T>(&self, op: &str, outcome: &Result<T, CniError>, took: Duration) {
        let code = outcome.as_ref().err().map(|error| error.code);
        count(&self.calls, &Call::of(op, code));
        // An op that is none is in the count; how long it took says nothing.
        if let Some(seconds) = self.seconds.get(&Op::of(op)) {
            seconds.observe(took.as_secs_f64());
        }
    }

    /// Somebody who may not call did.
    pub fn refused_stranger(&self) {
        count(&self.refused, &Reason { reason: "not_root" });
    }

    /// What was sent is no call.
    pub fn refused_nonsense(&self) {
        count(&self.refused, &Reason { reason: "undecodable" });
    }
}

/// Addresses that could not be given, and what belongs to nothing.
#[derive(Debug)]
pub struct Ipam {
    failures: Counters<Reason>,
    leaks: Counters<Kind>,
}

impl Ipam {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            failures: counters(
                registry,
                "flock_ipam_failures",
                "Addresses that a pod asked for and did not get, by reason; after `routed` another is tried",
                &ADDRESS_REASONS.map(|reason| Reason { reason }),
            ),
            leaks: counters(
                registry,
                "flock_leaks_found",
                "Pods without a link and links without a pod, as the start and repairs met them",
                &Leak::ALL.map(Kind::from),
            ),
        }
    }

    /// A pod gets no address.
    pub fn failed(&self, error: &ReserveError) {
        count(&self.failures, &Reason::of(error));
    }

    /// The kernel leads elsewhere with an address that seemed free.
    pub fn routed(&self) {
        count(&self.failures, &Reason { reason: ROUTED });
    }

    /// Something was found that belongs to nothing.
    pub fn leaked(&self, leak: Leak, found: usize) {
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        self.leaks.get_or_create(&leak.into()).inc_by(found);
    }
}

/// DELs that the plugin left while the agent was away.
#[derive(Debug)]
pub struct Spool {
    deletes: Counters<Outcome>,
    waiting: Gauge,
}

impl Spool {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let this = Self {
            deletes: counters(
                registry,
                "flock_spool_deletes",
                "DELs that the plugin left on disk, by what became of them; one that failed is tried again",
                &["done", "failed", "unreadable"].map(|result| Outcome { result }),
            ),
            waiting: Gauge::default(),
        };
        registry.register(
            "flock_spool_waiting",
            "DELs in the spool that could not be carried out yet",
            this.waiting.clone(),
        );
        this
    }

    /// A DEL was carried out, or not.
    pub fn carried_out(&self, well: bool) {
        count(&self.deletes, &Outcome { result: if well { "done" } else { "failed" } });
    }

    /// A file of the spool is no DEL.
    pub fn unreadable(&self) {
        count(&self.deletes, &Outcome { result: "unreadable" });
    }

    /// So many are left after a look.
    pub fn left(&self, waiting: usize) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }
}

/// What others do to the kernel, and what we do about it.
#[derive(Debug)]
pub struct Kernel {
    drifts: Counters<Kind>,
    repairs: Counters<Kind>,
    failures: Counters<Kind>,
}

impl Kernel {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let kinds = Repair::ALL.map(Kind::from);
        Self {
            drifts: counters(
                registry,
                "flock_kernel_drift",
                "Events of the kernel that something of flock's, or a network of the node, is not as it was; the deletion of a detached pod's link is one, too",
                &DRIFTS.map(|kind| Kind { kind }),
            ),
            repairs: counters(
                registry,
                "flock_kernel_repairs",
                "What was put back into the kernel because it had gone: pods, node routes, rules, learned routes",
                &kinds,
            ),
            failures: counters(
                registry,
                "flock_kernel_repair_failures",
                "What the kernel refused to take, each try; all of it is tried again",
                &kinds,
            ),
        }
    }

    /// The monitor told of something.
    pub fn drifted(&self, drift: &Drift) {
        count(&self.drifts, &drift.into());
    }

    /// Something had gone, and is there again.
    pub fn repaired(&self, what: Repair) {
        count(&self.repairs, &what.into());
    }

    /// The kernel refuses it.
    pub fn refused(&self, what: Repair) {
        count(&self.failures, &what.into());
    }
}

/// How long the disk takes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StoreTimes {
    write: Histogram,
    sync: Histogram,
}

impl Default for StoreTimes {
    fn default() -> Self {
        Self { write: Histogram::new(WRITE), sync: Histogram::new(WRITE) }
    }
}

impl StoreTimes {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        registry.register_with_unit(
            "flock_store_write_duration",
            "How long a write of the state file took, from the first step to the last sync",
            Unit::Seconds,
            this.write.clone(),
        );
        registry.register_with_unit(
            "flock_store_sync_duration",
            "How long the disk took of that: fsync of the file and of its directory",
            Unit::Seconds,
            this.sync.clone(),
        );
        this
    }

    /// A write ended.
    pub fn wrote(&self, whole: Duration, synced: Duration) {
        self.write.observe(whole.as_secs_f64());
        self.sync.observe(synced.as_secs_f64());
    }
}

/// Requests on the HTTP port.
#[derive(Debug)]
pub struct Http {
    requests: Counters<Answer>,
    evicted: Counter,
}

impl Http {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let this = Self {
            requests: counters(
                registry,
                "flock_http_requests",
                "HTTP requests by what was asked for and the status that was answered",
                &Endpoint::ALL.map(|endpoint| Answer::of(endpoint, 200)),
            ),
            evicted: Counter::default(),
        };
        registry.register(
            "flock_http_connections_evicted",
            "HTTP connections that were closed to make room for newer ones",
            this.evicted.clone(),
        );
        this
    }

    /// A request was answered.
    pub fn answered(&self, endpoint: Endpoint, status: u16) {
        count(&self.requests, &Answer::of(endpoint, status));
    }

    /// A connection had to go.
    pub fn evicted(&self) {
        self.evicted.inc();
    }
}

/// Requests on the admin socket.
#[derive(Debug)]
pub struct Admin {
    requests: Counters<Request>,
}

impl Admin {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let help = "Requests on the admin socket by op and how they ended";
        Self {
            requests: counters(
                registry,
                "flock_admin_requests",
                help,
                &[Request::of("pods", true)],
            ),
        }
    }

    /// A request was answered.
    pub fn answered(&self, op: &str, well: bool) {
        count(&self.requests, &Request::of(op, well));
    }
}
