//! What follows from the world: node routes (summaries, anycast addresses) in the kernel, and what
//! the speaker originates.
//!
//! A signal without content wakes the task; it looks at what is not as it was, asks `desired` what
//! should be, and gives the kernel and the speaker the difference: withdrawals first, then routes,
//! then announcements. Whoever needs that to have happened before going on (ADD, DEL) waits with
//! `settle`.

mod agenda;
pub mod claims;
pub mod desired;
mod pace;
mod past;
mod picture;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flock_bgp_io::Handle;
use flock_dataplane::{Dataplane, NodeRoute};
use ipnet::IpNet;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::metrics::Metrics;
use crate::news::News;
use crate::pods::book::{Attachment, own_addresses};
use crate::pods::ledger::Ledger;
use crate::source::Source;
use crate::store::Allocation;
pub use past::{Cause, Why, Withdrawal};
pub use picture::{Picture, Standing};

/// Routes by their destination.
pub type Routes = BTreeMap<IpNet, NodeRoute>;

/// Questions that may wait for the task.
const QUESTIONS: usize = 32;

type Question = Box<dyn FnOnce(&Picture<'_>) + Send>;

/// The handle on the task.
#[derive(Clone)]
pub struct Reconciler {
    signal: Arc<Signal>,
    done: watch::Receiver<u64>,
    questions: mpsc::Sender<Question>,
    dataplane: Dataplane,
    source: Source,
    metrics: Arc<Metrics>,
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
    /// Whom to tell what is originated, and the how many-eth that is.
    speaker: Mutex<(u64, Option<Handle>)>,
    /// The node is drained: nothing is announced.
    hushed: AtomicBool,
    /// More is announced than before.
    more: Notify,
    /// Rung after each pass: the world, a pod or what follows from them changed.
    news: News,
    /// The book is complete: before that, every route of a living pod would seem unwanted.
    begun: Notify,
}

impl Signal {
    fn installed(&self) -> MutexGuard<'_, BTreeSet<IpNet>> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn speaker(&self) -> MutexGuard<'_, (u64, Option<Handle>)> {
        self.speaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconciler {
    /// Starts the task; it does nothing until `begin`.
    pub fn start(
        ledger: Ledger,
        dataplane: Dataplane,
        source: Source,
        metrics: Arc<Metrics>,
        news: News,
    ) -> Self {
        let signal = Arc::new(Signal { news, ..Signal::default() });
        signal.recheck.store(true, Ordering::Release);
        let (publish, done) = watch::channel(0);
        let (questions, asked) = mpsc::channel(QUESTIONS);
        let (kernel, world) = (dataplane.clone(), source.clone());
        let task = task::Task::new(ledger, kernel, world, signal.clone(), metrics.clone());
        tokio::spawn(task.run(publish, asked));
        Self { signal, done, questions, dataplane, source, metrics }
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
        if self.signal.installed().contains(destination) {
            self.recheck();
        }
    }

    /// From now on this speaker is told what is originated; when this returns, it has been told
    /// everything.
    pub async fn speak_to(&self, speaker: Option<Handle>) {
        {
            let mut known = self.signal.speaker();
            *known = (known.0 + 1, speaker);
        }
        self.settle().await;
    }

    /// Returns when more is announced than at the last call. For one who asks again and again.
    pub async fn announces_more(&self) {
        self.signal.more.notified().await;
    }

    /// Announces nothing any more, or everything again; when this returns, the speaker knows.
    pub async fn hush(&self, hushed: bool) {
        if self.signal.hushed.swap(hushed, Ordering::AcqRel) != hushed {
            self.settle().await;
        }
    }

    /// The same as `settle`, for what just happened to a pod: how long peers take to hear of it is
    /// measured.
    pub async fn settle_pod(&self) {
        self.metrics.latency.event();
        self.settle().await;
    }

    /// Waits until kernel and speaker follow the world as it is at this call.
    pub async fn settle(&self) {
        let mine = self.signal.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake();
        let mut done = self.done.clone();
        let _ = done.wait_for(|done| *done >= mine).await;
    }

    /// Whether an attachment has routes or announcements beyond its own wiring, which are to be
    /// there before ADD answers, and gone before DEL takes its link.
    pub fn concerns(&self, record: &Allocation) -> bool {
        let world = self.source.world();
        let config = world.node.config().map(AsRef::as_ref);
        let bgp = config.and_then(|config| config.bgp.as_ref());
        let is_covered =
            |address: &IpAddr| desired::configured(config).any(|net| net.contains(address));
        !record.anycast.is_empty()
            || bgp.is_some_and(|bgp| bgp.announce_pods)
            || !own_addresses(record).iter().all(is_covered)
    }

    /// Asks the task; `None` when it has ended.
    pub async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Picture<'_>) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |picture| {
            // Whoever asked may have stopped waiting.
            let _ = answer.send(question(picture));
        });
        self.questions.send(question).await.ok()?;
        answered.await.ok()
    }

    /// Of these addresses, the ones that are originated; none where nobody speaks.
    pub async fn announced(&self, mut addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        if addresses.is_empty() || self.signal.speaker().1.is_none() {
            return BTreeSet::new();
        }
        let announced = self.ask(move |picture| {
            addresses.retain(|address| picture.originated.contains_key(&IpNet::from(*address)));
            addresses
        });
        announced.await.unwrap_or_default()
    }

    /// For CHECK: which anycast routes of this attachment the kernel lacks.
    pub async fn missing_for(&self, attachment: &Attachment) -> Vec<String> {
        let world = self.source.world();
        let wanted = desired::next_hops(attachment, world.pods.behind(&attachment.record));
        if wanted.is_empty() {
            return Vec::new();
        }
        let addresses = wanted.iter().map(|(address, _)| *address).collect();
        let installed = match self.dataplane.anycast_routes(addresses).await {
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
