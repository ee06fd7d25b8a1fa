//! Changes on their way into the kernel. One batch is with the kernel while the task prepares the
//! next: with a full table both take about as long. Decides what must wait for the verdicts of the
//! batch before: changes of the same prefixes, and everything that is not a change.

use std::cmp::Ordering;
use std::sync::Arc;

use flock_dataplane::{Dataplane, Error, LearnedRoute};
use ipnet::IpNet;
use tokio::task::JoinHandle;

use super::{PAUSE, Task, known};

/// What the kernel said to each of a batch, or that it could not be spoken to.
type Verdicts = Result<Vec<Result<(), Error>>, Error>;

/// A batch that the kernel was given.
pub(super) struct Flight {
    /// In order of their prefixes. Without ways one goes.
    changes: Arc<[LearnedRoute]>,
    verdicts: JoinHandle<Verdicts>,
}

impl Flight {
    /// `changes` are in order.
    pub(super) fn launch(dataplane: &Dataplane, changes: Vec<LearnedRoute>) -> Self {
        let changes: Arc<[LearnedRoute]> = changes.into();
        let (dataplane, wishes) = (dataplane.clone(), Arc::clone(&changes));
        let verdicts = tokio::spawn(async move { dataplane.set_learned(wishes).await });
        Self { changes, verdicts }
    }

    /// Whether it changes one of these, which are in order, too.
    fn concerns(&self, prefixes: &[IpNet]) -> bool {
        let (mut ours, mut theirs) = (self.changes.iter(), prefixes.iter());
        let (mut our, mut their) = (ours.next(), theirs.next());
        while let (Some(change), Some(prefix)) = (our, their) {
            match change.prefix.cmp(prefix) {
                Ordering::Equal => return true,
                Ordering::Less => our = ours.next(),
                Ordering::Greater => their = theirs.next(),
            }
        }
        false
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
        let changes = self.changes(prefixes);
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
            self.note_all(&flight.changes, verdicts);
        }
    }

    /// What of these is not as it should be.
    fn changes(&mut self, prefixes: Vec<IpNet>) -> Vec<LearnedRoute> {
        let installed = Arc::clone(&self.installed);
        let installed = known(&installed);
        let mut changes = Vec::with_capacity(prefixes.len());
        for prefix in prefixes {
            match self.change(prefix, &installed) {
                Some(next_hops) => changes.push(LearnedRoute { prefix, next_hops }),
                // As it should be: what the kernel once refused is refused no longer.
                None => drop(self.refused.remove(&prefix)),
            }
        }
        changes
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
            self.note_all(&flight.changes, verdicts);
        }
    }

    fn note_all(&mut self, changes: &[LearnedRoute], verdicts: Verdicts) {
        match verdicts {
            Ok(verdicts) => {
                let installed = Arc::clone(&self.installed);
                let mut installed = known(&installed);
                for (change, verdict) in changes.iter().zip(verdicts) {
                    self.note(change, verdict, &mut installed);
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot change learned routes; trying again");
                self.try_again(PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flight_concerns_what_it_changes_and_nothing_else() {
        let nets = |texts: &[&str]| -> Vec<IpNet> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let change = |prefix| LearnedRoute { prefix, next_hops: Arc::default() };
        let changes = nets(&["10.1.0.0/16", "10.3.0.0/16", "2001:db8::/32"]);
        let flight = Flight {
            changes: changes.into_iter().map(change).collect(),
            verdicts: tokio::spawn(async { Ok(Vec::new()) }),
        };
        for (prefixes, concerned) in [
            (&[][..], false),
            (&["10.0.0.0/16", "10.1.0.0/17", "10.2.0.0/16", "2001:db8::/33"], false),
            (&["10.1.0.0/16"], true),
            (&["10.0.0.0/16", "10.3.0.0/16"], true),
            (&["10.2.0.0/16", "10.4.0.0/16", "2001:db8::/32"], true),
        ] {
            assert_eq!(flight.concerns(&nets(prefixes)), concerned, "{prefixes:?}");
        }
    }
}
