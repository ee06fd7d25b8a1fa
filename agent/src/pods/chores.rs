//! What calls leave for a quiet moment: links of detached pods are deleted, links of new ones
//! finished.
//!
//! Both make the kernel walk all IPv6 routes of the node with its lock held, and the next call would
//! wait for it. Deleting one veth costs as much as deleting fifty in one request, too. So it is done
//! when no more calls come, or after a moment however many come, or as soon as somebody waits for a
//! link to be gone.

use std::time::Duration;

use flock_dataplane::Dataplane;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::ledger::Ledger;

/// After the kernel refused a deletion.
const PAUSE: Duration = Duration::from_secs(1);
/// No call left anything for so long: it is quiet.
const QUIET: Duration = Duration::from_millis(10);
/// And however many come: it is done after so long.
const LONGEST: Duration = Duration::from_millis(100);
/// Chores that wait. When there are more, that is well: who deletes a link deletes all of them, and a
/// new link is finished by the kernel itself within a second.
const MAILBOX: usize = 256;

type Outcome = Result<(), String>;

enum Chore {
    /// Links are to be deleted; which, the book knows.
    Delete,
    /// The same, and somebody waits for it.
    DeleteNow(oneshot::Sender<Outcome>),
    /// A new link is to be finished, by its index.
    Finish(u32),
}

/// The handle on the task.
#[derive(Clone)]
pub struct Chores {
    mailbox: mpsc::Sender<Chore>,
}

impl Chores {
    /// Starts the task.
    pub fn start(ledger: Ledger, dataplane: Dataplane) -> Self {
        let (mailbox, chores) = mpsc::channel(MAILBOX);
        tokio::spawn(run(ledger, dataplane, chores));
        Self { mailbox }
    }

    /// There is something to delete.
    pub fn delete(&self) {
        let _ = self.mailbox.try_send(Chore::Delete);
    }

    /// Waits until everything that is doomed now is gone, or until the kernel has refused once: a
    /// caller holds its turn meanwhile and must not hold it for ever.
    pub async fn settle(&self) -> Outcome {
        let stopping = || "the agent is shutting down".to_owned();
        let (reply, done) = oneshot::channel();
        self.mailbox.send(Chore::DeleteNow(reply)).await.map_err(|_| stopping())?;
        done.await.map_err(|_| stopping())?
    }

    /// This link serves a pod; what is left to do for it can wait.
    pub fn finish(&self, index: u32) {
        let _ = self.mailbox.try_send(Chore::Finish(index));
    }
}

/// What has come together.
#[derive(Default)]
struct Heap {
    delete: bool,
    waiting: Vec<oneshot::Sender<Outcome>>,
    finish: Vec<u32>,
}

impl Heap {
    fn add(&mut self, chore: Chore) {
        match chore {
            Chore::Delete => self.delete = true,
            Chore::DeleteNow(reply) => self.waiting.push(reply),
            Chore::Finish(index) => self.finish.push(index),
        }
    }

    fn is_empty(&self) -> bool {
        !self.delete && self.waiting.is_empty() && self.finish.is_empty()
    }

    fn take_in(&mut self, chores: &mut mpsc::Receiver<Chore>) {
        while let Ok(chore) = chores.try_recv() {
            self.add(chore);
        }
    }

    /// Lets more come until it is quiet, unless somebody waits.
    async fn gather(&mut self, chores: &mut mpsc::Receiver<Chore>) {
        let end = Instant::now() + LONGEST;
        while self.waiting.is_empty() {
            let quiet = (Instant::now() + QUIET).min(end);
            match timeout_at(quiet, chores.recv()).await {
                Ok(Some(chore)) => self.add(chore),
                Ok(None) | Err(_) => break,
            }
        }
        self.take_in(chores);
    }
}

async fn run(ledger: Ledger, dataplane: Dataplane, mut chores: mpsc::Receiver<Chore>) {
    let mut refused: Option<String> = None;
    let mut heap = Heap::default();
    loop {
        if heap.is_empty() {
            // What was refused is tried again by itself; otherwise only a chore wakes us.
            let first = match refused {
                Some(_) => timeout(PAUSE, chores.recv()).await.unwrap_or(Some(Chore::Delete)),
                None => chores.recv().await,
            };
            let Some(first) = first else { return };
            heap.add(first);
        }
        heap.gather(&mut chores).await;
        if std::mem::take(&mut heap.delete) || !heap.waiting.is_empty() {
            let outcome = delete(&ledger, &dataplane, &mut refused).await;
            for reply in heap.waiting.drain(..) {
                let _ = reply.send(outcome.clone());
            }
        }
        while heap.waiting.is_empty()
            && let Some(index) = heap.finish.pop()
        {
            if let Err(error) = dataplane.finish_attach(index).await {
                tracing::debug!(%error, index, "a new link is left to the kernel");
            }
            heap.take_in(&mut chores);
        }
    }
}

async fn delete(ledger: &Ledger, dataplane: &Dataplane, refused: &mut Option<String>) -> Outcome {
    let closed = |_| "the agent is shutting down".to_owned();
    let doomed = ledger.ask(|book| book.doomed()).await.map_err(closed)?;
    let links = doomed.len();
    let outcome = dataplane.reap().await.map_err(|error| error.to_string());
    let before = std::mem::replace(refused, outcome.as_ref().err().cloned());
    match &outcome {
        Ok(()) => ledger.ask(move |book| book.reaped(&doomed)).await.map_err(closed)?,
        // It is tried again every second; that is told once.
        Err(error) if before.as_ref() != Some(error) => {
            tracing::error!(error, links, "cannot delete the links of detached pods; trying again");
        }
        Err(_) => {}
    }
    outcome
}
