//! One call at a time per container: kubelet repeats an ADD that it thinks lost, and sends DEL
//! while an ADD still runs. They queue here, in order of arrival.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// The queues of all containers that have a call under way.
#[derive(Default)]
pub(super) struct Turns {
    queues: Mutex<HashMap<String, Weak<Turn<()>>>>,
}

impl Turns {
    /// Waits until no other call for this container runs. The turn ends when the guard is dropped.
    pub(super) async fn take(&self, container_id: &str) -> OwnedMutexGuard<()> {
        let queue = {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            // Containers without a call leave nothing behind: swept when the map would grow.
            if queues.len() == queues.capacity() {
                queues.retain(|_, queue| queue.strong_count() > 0);
            }
            match queues.get(container_id).and_then(Weak::upgrade) {
                Some(queue) => queue,
                None => {
                    let queue = Arc::new(Turn::new(()));
                    queues.insert(container_id.to_owned(), Arc::downgrade(&queue));
                    queue
                }
            }
        };
        queue.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_container_queues_others_do_not() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        let _other = turns.take("b").await;
        assert!(
            tokio::time::timeout(std::time::Duration::from_millis(20), turns.take("a"))
                .await
                .is_err()
        );
        drop(first);
        turns.take("a").await;
    }

    #[tokio::test]
    async fn a_thousand_containers_leave_few_queues() {
        let turns = Turns::default();
        for n in 0..1000 {
            turns.take(&n.to_string()).await;
        }
        assert!(turns.queues.lock().unwrap().len() < 64);
    }
}
