//! What the rest of the agent holds of the policy task: pods are let in and out here, and questions
//! asked. Decides nothing but how long a pod waits for policies to be known.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::task::View;
use crate::pods::{book, pod_key};
use crate::source::{Cluster, PodKey};
use crate::store::Allocation;

/// Requests that wait for the task; callers wait.
const REQUESTS: usize = 256;
/// How long a pod waits until all policies were told; then those that are known decide.
const PATIENCE: Duration = Duration::from_secs(3);

/// An attachment as policies see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The host's end of its link.
    pub ifname: Arc<str>,
    /// Whose it is.
    pub pod: PodKey,
    /// The pod's uid, empty where the runtime gave none.
    pub uid: String,
    /// All addresses, shared ones too.
    pub addresses: Arc<[IpAddr]>,
    /// Those that other pods may have too: anycast.
    pub shared: Arc<[IpAddr]>,
}

impl Attached {
    /// Of a record.
    pub fn of(record: &Allocation) -> Self {
        let mut addresses = book::own_addresses(record);
        addresses.extend(&record.anycast);
        addresses.sort_unstable();
        addresses.dedup();
        Self {
            ifname: record.host_ifname.as_deref().unwrap_or_default().into(),
            pod: pod_key(record),
            uid: record.owner_uid.clone(),
            addresses: addresses.into(),
            shared: record.anycast.as_slice().into(),
        }
    }
}

/// How policies stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Standing {
    /// Not everything was told since the start: what is in the kernel stays, new pods that a policy
    /// isolates are closed.
    #[default]
    Waiting,
    /// There is no policy.
    Idle,
    /// The kernel has what follows from them.
    InForce {
        /// How many there are.
        policies: usize,
        /// How many pods of this node are isolated.
        isolated: usize,
        /// Namespaces whose rules by `ipBlock` allow nobody, because their blocks are too many.
        crowded: Vec<String>,
    },
    /// The kernel refuses it; what it had before stays.
    Failing(String),
}

/// What the task is asked.
pub(super) enum Request {
    /// These are there at the start.
    Begin(Vec<Attached>, oneshot::Sender<()>),
    /// One comes: answered once the kernel holds what it is to be held to.
    Admit(Attached, oneshot::Sender<Result<(), String>>),
    /// One is gone.
    Release(Arc<str>),
    /// Somebody changed what is in the kernel.
    Recheck,
    /// A question.
    Ask(Box<dyn FnOnce(&View<'_>) + Send>),
}

/// The handle.
#[derive(Clone)]
pub struct Gate {
    requests: mpsc::Sender<Request>,
    standing: watch::Receiver<Standing>,
    cluster: watch::Receiver<Arc<Cluster>>,
    /// Somebody waited in vain until everything is told.
    waited: Arc<AtomicBool>,
}

impl Gate {
    pub(super) fn new(
        standing: watch::Receiver<Standing>,
        cluster: watch::Receiver<Arc<Cluster>>,
    ) -> (Self, mpsc::Receiver<Request>) {
        let (requests, asked) = mpsc::channel(REQUESTS);
        (Self { requests, standing, cluster, waited: Arc::default() }, asked)
    }

    /// The pods that are there already. Before this nothing in the kernel is touched.
    pub async fn begin(&self, attached: Vec<Attached>) {
        let (done, is_done) = oneshot::channel();
        if self.requests.send(Request::Begin(attached, done)).await.is_ok() {
            let _ = is_done.await;
        }
    }

    /// A pod comes: when this returns well, its packets are held to what policies say, even before
    /// its link is made.
    pub async fn admit(&self, record: &Allocation) -> Result<(), String> {
        let mut cluster = self.cluster.clone();
        let patience = if self.waited.load(Ordering::Relaxed) { Duration::ZERO } else { PATIENCE };
        // Whether it came or the time is over: the task decides by what is known then. Where it did
        // not come in time, nobody waits for it again before it comes.
        let told = cluster.wait_for(|cluster| cluster.complete);
        let in_vain = tokio::time::timeout(patience, told).await.is_err();
        self.waited.store(in_vain, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let stopping = || "the agent is stopping".to_owned();
        let request = Request::Admit(Attached::of(record), answer);
        self.requests.send(request).await.map_err(|_| stopping())?;
        answered.await.map_err(|_| stopping())?
    }

    /// A pod's link is going, and nothing leads to it any more.
    pub async fn release(&self, host_ifname: &str) {
        let _ = self.requests.send(Request::Release(host_ifname.into())).await;
    }

    /// Somebody changed what is in the kernel.
    pub async fn recheck(&self) {
        let _ = self.requests.send(Request::Recheck).await;
    }

    /// How policies stand.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Asks the task; `None`: it has ended.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let ask = Request::Ask(Box::new(move |view| {
            let _ = answer.send(question(view));
        }));
        self.requests.send(ask).await.ok()?;
        answered.await.ok()
    }
}
