//! Learned routes in the kernel: what the speaker learned and chose, by way of the interfaces that
//! work, with our protocol number and metric, and only ours are ever touched.
//!
//! The speaker offers changes; the task remembers what is wanted and what the kernel has, and gives
//! it the difference. What a former life installed stays until the peers have told everything
//! (End-of-RIB): until then it is as good as ours. After drift the kernel is read again.

mod resolve;
mod routes;
mod task;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flock_bgp::RouteChange;
use flock_dataplane::{Dataplane, LearnedHop};
use ipnet::IpNet;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::metrics::Metrics;
use routes::Routes;

/// Commands that may wait; callers wait when it is full.
const COMMANDS: usize = 32;

/// What the task is told.
enum Command {
    /// From now on these are the learned routes; what is installed is from before.
    Follow(mpsc::Receiver<RouteChange>),
    /// Nobody tells anything any more; what is installed is from before.
    Forget,
    /// Everybody has told everything: what is still from before goes.
    Sweep,
    /// Nothing is removed because a session ended, or it is again.
    Hold(bool),
    /// Interfaces or routes are not what they were.
    Recheck,
    /// What there is to say of one prefix.
    Standing(IpNet, oneshot::Sender<Standing>),
    /// The routes that the kernel was given.
    Routes(oneshot::Sender<Learned>),
    /// What it has not.
    Lacking(oneshot::Sender<Lacking>),
    /// How many there are.
    Counts(oneshot::Sender<Counts>),
}

/// What the task knows of one prefix, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// What was put into the kernel: `via ADDRESS dev INTERFACE`.
    pub installed: Option<Vec<String>>,
    /// Next hops of the speaker's choice that cannot be used now, and why.
    pub unusable: Vec<String>,
    /// The kernel refuses the route, in these words, and is asked again then.
    pub refused: Option<(String, Option<Instant>)>,
    /// Installed by a former life or speaker, and not told again yet.
    pub stale: bool,
    /// What was wanted when sessions began to end on purpose stays: the node is drained.
    pub held: bool,
}

/// The routes that the kernel has, which the task keeps and others look at.
type Installed = Routes<LearnedHop>;

/// Learned routes, by destination.
pub type Learned = BTreeMap<IpNet, Vec<LearnedHop>>;

/// Learned routes that the kernel has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lacking {
    /// It refuses them, in its words.
    pub refused: BTreeMap<IpNet, String>,
    /// No interface that carries packets leads to their next hops.
    pub unreachable: Vec<IpNet>,
}

/// Learned routes in figures, IPv4 and IPv6.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that the speaker chose.
    pub wanted: [usize; 2],
    /// Those that the kernel has.
    pub installed: [usize; 2],
    /// Those that it refuses.
    pub refused: usize,
}

/// The handle on the task.
#[derive(Clone)]
pub struct Fib {
    commands: mpsc::Sender<Command>,
    /// What the kernel has of ours, for those who hear that a route went, and for people.
    installed: Arc<Mutex<Installed>>,
}

impl Fib {
    /// Starts the task. It begins with what the kernel has.
    pub fn start(dataplane: Dataplane, metrics: Arc<Metrics>) -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let installed = Arc::new(Mutex::default());
        tokio::spawn(task::Task::new(dataplane, Arc::clone(&installed), metrics).run(inbox));
        Self { commands, installed }
    }

    /// A speaker's learned routes, from now on.
    pub async fn follow(&self, routes: mpsc::Receiver<RouteChange>) {
        self.tell(Command::Follow(routes)).await;
    }

    /// Every peer has told everything, and the speaker has offered it: what nobody told again goes.
    pub async fn sweep(&self) {
        self.tell(Command::Sweep).await;
    }

    /// There is no speaker any more: everything goes.
    pub async fn clear(&self) {
        self.tell(Command::Forget).await;
        self.tell(Command::Sweep).await;
    }

    /// Keeps what is there although sessions end: a drained node stays reachable.
    pub async fn hold(&self, hold: bool) {
        self.tell(Command::Hold(hold)).await;
    }

    /// The node's networks changed, or the kernel's routes may have.
    pub async fn recheck(&self) {
        self.tell(Command::Recheck).await;
    }

    /// A route went: if it is one of these, the kernel is read again.
    pub async fn recheck_if_installed(&self, destination: &IpNet) {
        if known(&self.installed).contains(destination) {
            self.recheck().await;
        }
    }

    /// How many routes the kernel has.
    pub fn installed(&self) -> usize {
        known(&self.installed).len()
    }

    /// Which of these prefixes the kernel has, one by one.
    pub fn installed_of<'a>(&self, prefixes: impl Iterator<Item = &'a IpNet>) -> Vec<bool> {
        let installed = known(&self.installed);
        prefixes.map(|prefix| installed.contains(prefix)).collect()
    }

    /// What there is to say of one prefix.
    pub async fn standing(&self, prefix: IpNet) -> Standing {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Standing(prefix, answer)).await;
        answered.await.unwrap_or_default()
    }

    /// The routes that the kernel was given.
    pub async fn routes(&self) -> Learned {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Routes(answer)).await;
        answered.await.unwrap_or_default()
    }

    /// The learned routes that it has not, and why.
    pub async fn lacking(&self) -> Lacking {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Lacking(answer)).await;
        answered.await.unwrap_or_default()
    }

    /// How many there are; costs nothing however many that is. `None`: the task has ended.
    pub async fn counts(&self) -> Option<Counts> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Counts(answer)).await;
        answered.await.ok()
    }

    /// A task that has ended takes the agent with it; nothing to do about here.
    async fn tell(&self, command: Command) {
        let _ = self.commands.send(command).await;
    }
}

fn known(installed: &Mutex<Installed>) -> MutexGuard<'_, Installed> {
    installed.lock().unwrap_or_else(PoisonError::into_inner)
}
