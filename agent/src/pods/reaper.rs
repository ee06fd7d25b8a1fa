//! Deletes the links of detached pods. Deleting one veth costs the kernel as much as deleting
//! fifty in one request, so whatever was doomed while a deletion ran goes with the next.

use std::time::Duration;

use flock_dataplane::Dataplane;
use tokio::sync::{mpsc, oneshot};

use super::ledger::Ledger;

/// After the kernel refused.
const PAUSE: Duration = Duration::from_secs(1);

/// The handle on the task.
#[derive(Clone)]
pub struct Reaper {
    wishes: mpsc::Sender<Option<oneshot::Sender<()>>>,
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

    /// Waits until everything that is doomed now is gone.
    pub async fn settle(&self) {
        let (reply, done) = oneshot::channel();
        if self.wishes.send(Some(reply)).await.is_ok() {
            let _ = done.await;
        }
    }
}

async fn run(
    ledger: Ledger,
    dataplane: Dataplane,
    mut wishes: mpsc::Receiver<Option<oneshot::Sender<()>>>,
) {
    while let Some(first) = wishes.recv().await {
        let mut waiting: Vec<oneshot::Sender<()>> = first.into_iter().collect();
        while let Ok(wish) = wishes.try_recv() {
            waiting.extend(wish);
        }
        let Ok(doomed) = ledger.ask(|book| book.doomed()).await else { return };
        while let Err(error) = dataplane.reap().await {
            tracing::error!(%error, links = doomed.len(), "cannot delete the links of detached pods; trying again");
            tokio::time::sleep(PAUSE).await;
        }
        if ledger.ask(move |book| book.reaped(&doomed)).await.is_err() {
            return;
        }
        for reply in waiting {
            let _ = reply.send(());
        }
    }
}
