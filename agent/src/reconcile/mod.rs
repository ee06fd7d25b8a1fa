//! Node routes that follow from the world: summaries and anycast addresses.
//!
//! A signal without content wakes the task; it looks at the whole world, asks `desired` what
//! should be, and gives the kernel the difference. Whoever needs the kernel to be there before
//! going on (ADD, DEL) waits with `settle`.

pub mod desired;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flock_dataplane::{Dataplane, NodeRoute};
use ipnet::IpNet;
use tokio::sync::{Notify, watch};

use crate::pods::book::Attachment;
use crate::pods::ledger::Ledger;
use crate::source::Source;

/// Routes by their destination.
pub type Routes = BTreeMap<IpNet, NodeRoute>;

/// The handle on the task.
#[derive(Clone)]
pub struct Reconciler {
    signal: Arc<Signal>,
    done: watch::Receiver<u64>,
    dataplane: Dataplane,
    source: Source,
}

/// What wakes the task.
#[derive(Default)]
struct Signal {
    wake: Notify,
    /// How many passes have been asked for; a pass answers all asked for before it began.
    asked: AtomicU64,
    /// The kernel is no longer what we remember: read it again first.
    recheck: AtomicBool,
    /// What the task has installed, for those who hear that a route went.
    installed: Mutex<BTreeSet<IpNet>>,
    /// The book is complete: before that, every route of a living pod would seem unwanted.
    begun: Notify,
}

impl Reconciler {
    /// Starts the task; it does nothing until `begin`.
    pub fn start(ledger: Ledger, dataplane: Dataplane, source: Source) -> Self {
        let signal = Arc::new(Signal::default());
        signal.recheck.store(true, Ordering::Release);
        let (publish, done) = watch::channel(0);
        let task = task::Task::new(ledger, dataplane.clone(), source.clone(), signal.clone());
        tokio::spawn(task.run(publish));
        Self { signal, done, dataplane, source }
    }

    /// The pods are recovered: from now on the kernel follows the world.
    pub fn begin(&self) {
        self.signal.begun.notify_one();
    }

    /// Something changed.
    pub fn wake(&self) {
        self.signal.wake.notify_one();
    }

    /// Somebody else changed the kernel.
    pub fn recheck(&self) {
        self.signal.recheck.store(true, Ordering::Release);
        self.wake();
    }

    /// A route went: if it is one of these, the kernel is read again.
    pub fn recheck_if_installed(&self, destination: &IpNet) {
        let installed = self.signal.installed.lock().unwrap_or_else(PoisonError::into_inner);
        if installed.contains(destination) {
            self.recheck();
        }
    }

    /// Waits until the kernel follows the world as it is at this call.
    pub async fn settle(&self) {
        let mine = self.signal.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake();
        let mut done = self.done.clone();
        let _ = done.wait_for(|done| *done >= mine).await;
    }

    /// For CHECK: which anycast routes of this attachment the kernel lacks.
    pub async fn missing_for(&self, attachment: &Attachment) -> Vec<String> {
        let world = self.source.world();
        let wanted = desired::next_hops(attachment, &world.pods);
        if wanted.is_empty() {
            return Vec::new();
        }
        let installed = match self.dataplane.our_routes().await {
            Ok(routes) => routes,
            Err(error) => return vec![format!("the kernel's routes cannot be read: {error}")],
        };
        wanted
            .into_iter()
            .filter(|(address, hop)| {
                !installed.iter().any(|route| match route {
                    NodeRoute::Anycast { address: there, next_hops } => {
                        there == address && next_hops.contains(hop)
                    }
                    NodeRoute::Blackhole { .. } => false,
                })
            })
            .map(|(address, hop)| {
                format!(
                    "anycast route {address} via {} dev {} is missing on the host",
                    hop.via, hop.dev
                )
            })
            .collect()
    }
}
