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
/// Chores that wait. When there are more, that is well: whatever the chore, links that are doomed are
/// deleted, and a new link is finished by the kernel itself within a second.
const MAILBOX: usize = 256;

type Outcome = Result<(), String>;

enum Chore {
    /// Links are to be deleted. Which, and whether, the book knows.
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
    /// How the last deletion was refused.
    refused: Option<String>,
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

    /// Deletes what is doomed; where somebody waits, also what only the kernel knows to be.
    async fn delete(&mut self, ledger: &Ledger, dataplane: &Dataplane) -> Outcome {
        self.delete = false;
        let closed = |_| "the agent is shutting down".to_owned();
        let doomed = ledger.ask(|book| book.doomed()).await.map_err(closed)?;
        if doomed.is_empty() && self.waiting.is_empty() && self.refused.is_none() {
            return Ok(());
        }
        let links = doomed.len();
        let outcome = dataplane.reap().await.map_err(|error| error.to_string());
        let before = std::mem::replace(&mut self.refused, outcome.as_ref().err().cloned());
        match &outcome {
            Ok(()) => ledger.ask(move |book| book.reaped(&doomed)).await.map_err(closed)?,
            // It is tried again every second; that is told once.
            Err(error) if before.as_ref() != Some(error) => {
                tracing::error!(
                    error,
                    links,
                    "cannot delete the links of detached pods; trying again"
                );
            }
            Err(_) => {}
        }
        outcome
    }
}

async fn run(ledger: Ledger, dataplane: Dataplane, mut chores: mpsc::Receiver<Chore>) {
    let mut heap = Heap::default();
    loop {
        if heap.is_empty() {
            // What was refused is tried again by itself; otherwise only a chore wakes us.
            let first = match heap.refused {
                Some(_) => timeout(PAUSE, chores.recv()).await.unwrap_or(Some(Chore::Delete)),
                None => chores.recv().await,
            };
            let Some(first) = first else { return };
            heap.add(first);
        }
        heap.gather(&mut chores).await;
        let outcome = heap.delete(&ledger, &dataplane).await;
        for reply in heap.waiting.drain(..) {
            let _ = reply.send(outcome.clone());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox() -> (Chores, mpsc::Receiver<Chore>) {
        let (mailbox, chores) = mpsc::channel(MAILBOX);
        (Chores { mailbox }, chores)
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_done_when_no_more_come() {
        let (calls, mut chores) = mailbox();
        let mut heap = Heap::default();
        let start = Instant::now();
        let coming = async {
            for index in 0..3 {
                calls.finish(index);
                tokio::time::sleep(QUIET / 2).await;
            }
        };
        tokio::join!(coming, heap.gather(&mut chores));
        assert_eq!((heap.finish.len(), heap.delete), (3, false));
        assert_eq!(start.elapsed(), QUIET * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_done_however_many_come() {
        let (calls, mut chores) = mailbox();
        let mut heap = Heap::default();
        let start = Instant::now();
        let stream = async {
            loop {
                calls.delete();
                tokio::time::sleep(QUIET / 2).await;
            }
        };
        tokio::select! {
            () = stream => {}
            () = heap.gather(&mut chores) => {}
        }
        assert_eq!(start.elapsed(), LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_does_not_wait_for_quiet() {
        let (calls, mut chores) = mailbox();
        let mut heap = Heap::default();
        heap.add(Chore::Finish(7));
        let start = Instant::now();
        tokio::select! {
            _ = calls.settle() => {}
            () = heap.gather(&mut chores) => {}
        }
        assert_eq!((heap.waiting.len(), start.elapsed()), (1, Duration::ZERO));
    }

    /// A deletion that comes while links are finished is among what is left to do.
    #[test]
    fn a_deletion_is_not_forgotten() {
        let (calls, mut chores) = mailbox();
        let mut heap = Heap::default();
        assert!(heap.is_empty());
        calls.delete();
        heap.take_in(&mut chores);
        assert!(!heap.is_empty());
    }
}
