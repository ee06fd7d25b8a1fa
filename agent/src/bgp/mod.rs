//! The agent's side of the speaker: which peers there should be, when it lives, what it says of
//! them. What is originated is decided by `reconcile`; what is learned goes to `fib`.
//!
//! | room | what it decides |
//! |---|---|
//! | `peers` | the NodeConfig's peers in the speaker's words: pure |
//! | `password`, `identity` | passwords from files, fail closed; who we are where nobody says |
//! | `marker` | whether this start is a restart (R and F of RFC 4724) |
//! | `drain` | whether the node is going away, and how far it is |
//! | `task` | the order of it all: start, peers, networks, drain, sweep |
//! | `journal` | what is worth a line in the log |
//! | `conflicts` | what two nodes claim: pure |
//! | `view` | what `flock-agent bgp show` is answered |
//! | `orders` | what an operator wants of one session: `bgp refresh`, `bgp reset` |
//! | `standing` | peers as they are, for the doctor, for metrics and for the NodeConfig's status |
//! | `figures` | what the sockets did, for metrics |

mod conflicts;
mod drain;
mod figures;
mod identity;
mod journal;
mod marker;
mod orders;
mod password;
mod peers;
mod standing;
mod task;
mod view;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flock_bgp_io::Handle;
use flock_dataplane::Dataplane;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::fib::Fib;
use crate::incidents::Incidents;
use crate::metrics::Metrics;
use crate::news::News;
use crate::reconcile::Reconciler;
use crate::source::Source;
pub use conflicts::{Conflict, Kind as ConflictKind};
use drain::{DrainFile, Stage};
use marker::Marker;
use peers::Untold;
pub(crate) use standing::Sessions;
pub use view::{PAGE, Routes};

/// Requests that may wait for the task; callers wait when it is full.
const REQUESTS: usize = 8;

/// What the task is asked to do.
enum Request {
    /// Drain, with so long a wait.
    Drain(Duration, oneshot::Sender<Result<(), String>>),
    /// Back into service.
    Undo(oneshot::Sender<Result<(), String>>),
    /// The agent stops, and comes back.
    Silence(oneshot::Sender<()>),
}

/// A speaker that lives, for those who want to ask it.
#[derive(Clone)]
struct Live {
    handle: Handle,
    asn: u32,
    id: Ipv4Addr,
    /// Peers that it is not told of.
    untold: Arc<[Untold]>,
}

/// What the task publishes.
#[derive(Clone)]
struct Published {
    live: watch::Sender<Option<Live>>,
    /// Sessions that are up and have been told everything.
    ready: watch::Sender<u32>,
    stage: watch::Sender<Option<Stage>>,
    /// The generation of the NodeConfig that the speaker was last made to follow.
    following: watch::Sender<Option<i64>>,
    /// What two nodes claim, and have claimed for a while.
    conflicts: watch::Sender<Arc<[Conflict]>>,
}

/// The handle on the speaker and what is around it.
#[derive(Clone)]
pub struct Bgp {
    node: Arc<str>,
    published: Published,
    wake: Arc<Notify>,
    requests: mpsc::Sender<Request>,
    reconciler: Reconciler,
    fib: Fib,
}

/// What [`Bgp`] is made of.
#[allow(missing_docs, reason = "each is what its type says")]
pub struct Parts<'a> {
    pub node: &'a str,
    pub state_dir: &'a Path,
    pub source: Source,
    pub dataplane: Dataplane,
    pub reconciler: Reconciler,
    pub news: News,
    pub incidents: Incidents,
    pub metrics: Arc<Metrics>,
}

impl Bgp {
    /// Prepares it all; nothing is said to anybody before `begin`.
    pub fn prepare(parts: Parts<'_>) -> Result<(Self, Starting), String> {
        let Parts { node, state_dir, source, dataplane, reconciler, news, incidents, metrics } =
            parts;
        let drain_file = DrainFile::new(state_dir);
        let stage = drain_file.read()?;
        let published = Published {
            live: watch::Sender::new(None),
            ready: watch::Sender::new(0),
            stage: watch::Sender::new(stage),
            following: watch::Sender::new(None),
            conflicts: watch::Sender::new(Arc::default()),
        };
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let wake = Arc::new(Notify::new());
        let fib = Fib::start(dataplane.clone(), metrics);
        let task = task::Task::new(
            task::Around {
                node: node.into(),
                source,
                dataplane,
                reconciler: reconciler.clone(),
                fib: fib.clone(),
                published: published.clone(),
                wake: wake.clone(),
                news,
                incidents,
            },
            Marker::new(state_dir),
            drain_file,
        );
        let bgp = Self { node: node.into(), published, wake, requests, reconciler, fib };
        Ok((bgp, Starting { task, inbox }))
    }

    /// The node's networks changed: next hops, connected networks and ways out may differ.
    pub async fn networks_changed(&self) {
        self.wake.notify_one();
        self.fib.recheck().await;
    }

    /// Learned routes in the kernel.
    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// How many sessions are up and have been told everything that this node has.
    pub fn ready_sessions(&self) -> watch::Receiver<u32> {
        self.published.ready.subscribe()
    }

    /// Ends the speaker as a restart: connections close without a word, and peers keep our routes
    /// (RFC 4724).
    pub async fn fall_silent(&self) {
        let (answer, answered) = oneshot::channel();
        if self.requests.send(Request::Silence(answer)).await.is_ok() {
            let _ = answered.await;
        }
    }
}

/// The task before it runs.
pub struct Starting {
    task: task::Task,
    inbox: mpsc::Receiver<Request>,
}

impl Starting {
    /// Pods are recovered and the reconciler has begun: the speaker may speak.
    pub fn begin(self) {
        tokio::spawn(self.task.run(self.inbox));
    }
}
