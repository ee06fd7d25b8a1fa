//! Changes on their way into the kernel. One batch is with the kernel while the task prepares the
//! next: with a full table both take about as long. Decides what must wait for the verdicts of the
//! batch before: changes of the same prefixes, and everything that is not a change.

use std::sync::Arc;

use flock_dataplane::{Dataplane, Error, LearnedHop, LearnedRoute};
use ipnet::IpNet;
use tokio::task::JoinHandle;

use super::{PAUSE, Task};

/// A prefix and the ways that it is to have; none: it goes.
pub(super) type Change = (IpNet, Arc<[LearnedHop]>);

/// What the kernel said to each of a batch, or that it could not be spoken to.
type Verdicts = Result<Vec<Result<(), Error>>, Error>;

/// A batch that the kernel was given.
pub(super) struct Flight {
    /// In order of their prefixes.
    changes: Vec<Change>,
    verdicts: JoinHandle<Verdicts>,
}

impl Flight {
    /// `changes` are in order.
    pub(super) fn launch(dataplane: &Dataplane, changes: Vec<Change>) -> Self {
        let wish =
            |(prefix, hops): &Change| LearnedRoute { prefix: *prefix, next_hops: hops.to_vec() };
        let wishes = changes.iter().map(wish).collect();
        let dataplane = dataplane.clone();
        let verdicts = tokio::spawn(async move { dataplane.set_learned(wishes).await });
        Self { changes, verdicts }
    }

    /// Whether it changes one of these.
    fn concerns(&self, prefixes: &[IpNet]) -> bool {
        let known = |prefix: &IpNet| self.changes.binary_search_by_key(prefix, |(net, _)| *net);
        prefixes.iter().any(|prefix| known(prefix).is_ok())
    }

    /// Waits for the kernel; may be cancelled.
    pub(super) async fn arrival(&mut self) -> Verdicts {
        (&mut self.verdicts).await.unwrap_or(Err(Error::Stopped))
    }
}

impl Task {
    /// Makes the kernel's routes for these prefixes what they should be. Returns when the kernel has
    /// been given them, and not before it is through with those before.
    pub(super) async fn apply(&mut self, mut prefixes: Vec<IpNet>) {
        prefixes.sort_unstable();
        prefixes.dedup();
        if self.flight.as_ref().is_some_and(|flight| flight.concerns(&prefixes)) {
            self.land().await;
        }
        let mut changes = Vec::new();
        for prefix in prefixes {
            match self.change(prefix) {
                Some(next_hops) => changes.push((prefix, next_hops)),
                // As it should be: what the kernel once refused is refused no longer.
                None => drop(self.refused.remove(&prefix)),
            }
        }
        if changes.is_empty() {
            return;
        }
        let verdicts = match &mut self.flight {
            Some(flight) => Some(flight.arrival().await),
            None => None,
        };
        // The monitor passes over what we remove ourselves: no drift is seen in it.
        let landed = self.flight.replace(Flight::launch(&self.dataplane, changes));
        if let (Some(flight), Some(verdicts)) = (landed, verdicts) {
            self.note_all(flight.changes, verdicts);
        }
    }

    /// Waits until the kernel is through with what it was given.
    pub(super) async fn land(&mut self) {
        if let Some(flight) = &mut self.flight {
            let verdicts = flight.arrival().await;
            self.landed(verdicts);
        }
    }

    /// The kernel is.
    pub(super) fn landed(&mut self, verdicts: Verdicts) {
        if let Some(flight) = self.flight.take() {
            self.note_all(flight.changes, verdicts);
        }
    }

    fn note_all(&mut self, changes: Vec<Change>, verdicts: Verdicts) {
        match verdicts {
            Ok(verdicts) => {
                for ((prefix, next_hops), verdict) in changes.into_iter().zip(verdicts) {
                    self.note(prefix, next_hops, verdict);
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot change learned routes; trying again");
                self.try_again(PAUSE);
            }
        }
    }
}
