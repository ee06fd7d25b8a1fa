//! Deletes the links of detached pods. Deleting one veth costs the kernel as much as deleting
//! fifty in one request, so whatever was doomed while a deletion ran goes with the next.

use std::time::Duration;

use flock_dataplane::Dataplane;
use tokio::sync::{mpsc, oneshot};

use super::ledger::Ledger;

/// After the kernel refused.
const PAUSE: Duration = Duration::from_secs(1);

/// A wake-up, with somebody who waits for the outcome or without.
type Wish = Option<oneshot::Sender<Result<(), String>>>;

/// The handle on the task.
#[derive(Clone)]
pub struct Reaper {
    wishes: mpsc::Sender<Wish>,
}

impl Reaper {
    /// Starts the task.
    pub fn start(ledger: Ledger, dataplane: Dataplane) -> Self {
        let (wishes, mailbox) = mpsc::channel(64);
        tokio::spawn(run(ledger, dataplane, mailbox));
        Self { wishes }
    }

    /// There is something to delete. When the mailbox is full, somebody has said so already.
    pub fn wake(&self) {
        let _ = self.wishes.try_send(None);
    }

    /// Waits until everything that is doomed now is gone, or until the kernel has refused once: a
    /// caller holds its turn meanwhile and must not hold it for ever.
    pub async fn settle(&self) -> Result<(), String> {
        let stopping = || "the agent is shutting down".to_owned();
        let (reply, done) = oneshot::channel();
        self.wishes.send(Some(reply)).await.map_err(|_| stopping())?;
        done.await.map_err(|_| stopping())?
    }
}

async fn run(ledger: Ledger, dataplane: Dataplane, mut wishes: mpsc::Receiver<Wish>) {
    let mut refused: Option<String> = None;
    loop {
        // What was refused is tried again by itself; otherwise only a wish wakes us.
        let first = match refused.is_some() {
            true => tokio::time::timeout(PAUSE, wishes.recv()).await.unwrap_or(Some(None)),
            false => wishes.recv().await,
        };
        let Some(first) = first else { return };
        let mut waiting: Vec<_> = first.into_iter().collect();
        while let Ok(wish) = wishes.try_recv() {
            waiting.extend(wish);
        }
        let Ok(doomed) = ledger.ask(|book| book.doomed()).await else { return };
        let links = doomed.len();
        let outcome = dataplane.reap().await.map_err(|error| error.to_string());
        let before = std::mem::replace(&mut refused, outcome.as_ref().err().cloned());
        if let Err(error) = &outcome {
            // It is tried again every second; that is told once.
            if before.as_ref() != Some(error) {
                tracing::error!(
                    error,
                    links,
                    "cannot delete the links of detached pods; trying again"
                );
            }
        } else if ledger.ask(move |book| book.reaped(&doomed)).await.is_err() {
            return;
        }
        for reply in waiting {
            let _ = reply.send(outcome.clone());
        }
    }
}
