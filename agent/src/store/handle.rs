//! The store as the agent holds it: a cheap handle, and a future per change. Decides how a change
//! is handed over; leaves writing to the writer's thread.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::allocation::{Allocation, Key};
use super::decode::{self, Decoded};
use super::disk::{Disk, Gate, Step};
use super::error::StoreError;
use super::writer::{Change, Writer};
use crate::metrics::StoreTimes;

/// Changes that may wait for the disk. Each CNI call has at most one on the way.
const WAITING: usize = 4096;

/// A handle on the state file. When the last one is dropped, the writer finishes what was handed
/// over and ends.
#[derive(Debug, Clone)]
pub struct Store {
    changes: mpsc::Sender<Change>,
    tally: Arc<Tally>,
}

/// What the store has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Writes that became durable.
    pub writes: u64,
    /// Writes that failed.
    pub failures: u64,
    /// Whether the last write did: what is in memory is what was written before it.
    pub last_failed: bool,
    /// How long the last write took, from the first step to the last sync.
    pub last_write: Duration,
    /// Entries in the file.
    pub entries: u64,
}

/// Resolves when a change is on disk, or why it is not. Dropping it does not take the change back.
#[derive(Debug)]
#[must_use = "a change is durable only when this has resolved to Ok"]
pub struct Durable(Outcome);

#[derive(Debug)]
enum Outcome {
    Coming(oneshot::Receiver<Result<(), StoreError>>),
    Refused(StoreError),
}

impl Store {
    /// Reads the file and starts the writer. A missing file is an empty state (and stays missing
    /// until the first change); one that cannot be read as ours is refused and left alone.
    pub fn open(path: &Path, node: &str) -> Result<(Self, Vec<Allocation>), StoreError> {
        Self::open_timed(path, node, StoreTimes::default())
    }

    /// The same, and tells how long writes take.
    pub fn open_timed(
        path: &Path,
        node: &str,
        times: StoreTimes,
    ) -> Result<(Self, Vec<Allocation>), StoreError> {
        Self::start(path, node, Box::new(|_| Ok(())), times)
    }

    /// The same with a [`Gate`] before each step of a write, to inject faults.
    pub fn open_with(
        path: &Path,
        node: &str,
        gate: Gate,
    ) -> Result<(Self, Vec<Allocation>), StoreError> {
        Self::start(path, node, gate, StoreTimes::default())
    }

    fn start(
        path: &Path,
        node: &str,
        gate: Gate,
        times: StoreTimes,
    ) -> Result<(Self, Vec<Allocation>), StoreError> {
        let disk = Disk::new(path, gate)?;
        let Decoded { allocations, extra } = match disk.read()? {
            Some(bytes) => decode::decode(&bytes, node)
                .map_err(|problem| StoreError::refused(path, problem))?,
            None => Decoded::default(),
        };
        let lines = allocations
            .iter()
            .map(|allocation| Ok((allocation.key(), allocation.line()?)))
            .collect::<Result<_, StoreError>>()?;
        let tally = Arc::new(Tally::default());
        let writer = Writer::new(node, &extra, lines, disk, Arc::clone(&tally), times);
        let (changes, receiver) = mpsc::channel(WAITING);
        std::thread::Builder::new()
            .name("flock-store".to_owned())
            .spawn(move || writer.run(receiver))
            .map_err(|error| StoreError::system(path, Step::Create, &error))?;
        Ok((Self { changes, tally }, allocations))
    }

    /// Adds or replaces an entry. The change is on its way when this returns; changes become
    /// durable in the order of the calls.
    pub fn put(&self, allocation: Allocation) -> Durable {
        match allocation.line() {
            Ok(line) => self.send(allocation.key(), Some(line)),
            Err(error) => Durable(Outcome::Refused(error)),
        }
    }

    /// Removes an entry; one that is not there is removed already, and still waits for what was
    /// handed over before.
    pub fn remove(&self, key: &Key) -> Durable {
        self.send(key.clone(), None)
    }

    /// Writes the file as it is, to learn whether the disk takes it again after a failure.
    pub fn probe(&self) -> Durable {
        // Nobody has this key, so that nothing changes.
        self.send(Key { container_id: String::new(), ifname: String::new() }, None)
    }

    /// What the store has done so far.
    pub fn counters(&self) -> Counters {
        let Tally { writes, failures, last_failed, last_write_nanos, entries } = &*self.tally;
        Counters {
            writes: writes.load(Ordering::Relaxed),
            failures: failures.load(Ordering::Relaxed),
            last_failed: last_failed.load(Ordering::Relaxed),
            last_write: Duration::from_nanos(last_write_nanos.load(Ordering::Relaxed)),
            entries: entries.load(Ordering::Relaxed),
        }
    }

    fn send(&self, key: Key, line: Option<Box<[u8]>>) -> Durable {
        let (done, outcome) = oneshot::channel();
        Durable(match self.changes.try_send(Change { key, line, done }) {
            Ok(()) => Outcome::Coming(outcome),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Outcome::Refused(StoreError::Busy { waiting: WAITING })
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Outcome::Refused(StoreError::Stopped),
        })
    }
}

impl Future for Durable {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Outcome::Coming(outcome) => Pin::new(outcome)
                .poll(context)
                .map(|outcome| outcome.unwrap_or(Err(StoreError::Stopped))),
            Outcome::Refused(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

/// The counters as the writer keeps them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    writes: AtomicU64,
    failures: AtomicU64,
    last_failed: AtomicBool,
    last_write_nanos: AtomicU64,
    entries: AtomicU64,
}

impl Tally {
    pub(super) fn wrote(&self, well: bool, took: Duration) {
        let counter = if well { &self.writes } else { &self.failures };
        counter.fetch_add(1, Ordering::Relaxed);
        self.last_failed.store(!well, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.last_write_nanos.store(nanos, Ordering::Relaxed);
    }

    pub(super) fn entries(&self, count: usize) {
        self.entries.store(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
