//! The task that owns the book. Callers send it a closure and get its answer: the book is never
//! locked, never shared, and each closure is one step that nobody sees half done.
//!
//! The mailbox is bounded; when it is full, callers wait, which in turn slows the CNI server's
//! readers. Closures must not block.

use tokio::sync::{mpsc, oneshot};

use super::book::Book;

type Step = Box<dyn FnOnce(&mut Book) + Send>;

/// How many steps may wait.
const MAILBOX: usize = 256;

/// The agent is stopping and the book is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the agent is shutting down")]
pub struct Closed;

/// The handle on the book.
#[derive(Clone)]
pub struct Ledger {
    steps: mpsc::Sender<Step>,
}

impl Ledger {
    /// Starts the task that owns the book.
    pub fn start(mut book: Book) -> Self {
        let (steps, mut mailbox) = mpsc::channel::<Step>(MAILBOX);
        tokio::spawn(async move {
            while let Some(step) = mailbox.recv().await {
                step(&mut book);
            }
        });
        Self { steps }
    }

    /// Does one step on the book and returns what it says.
    pub async fn ask<R: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Book) -> R + Send + 'static,
    ) -> Result<R, Closed> {
        let (reply, answer) = oneshot::channel();
        let step: Step = Box::new(move |book| {
            // The caller may have gone; the step is done all the same.
            let _ = reply.send(step(book));
        });
        self.steps.send(step).await.map_err(|_| Closed)?;
        answer.await.map_err(|_| Closed)
    }
}
