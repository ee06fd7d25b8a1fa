//! The queue between the async side and the threads: bounded, and one job
//! wakes one thread. (A channel behind a lock wakes the next waiter with every
//! job, before that job is done: a context switch on the way of each route.)

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The threads' end.
pub(crate) struct Jobs<J> {
    waiting: Mutex<Waiting<J>>,
    came: Condvar,
}

struct Waiting<J> {
    jobs: VecDeque<(J, OwnedSemaphorePermit)>,
    /// The last caller, or the last thread, has gone.
    closed: bool,
}

/// The callers' end: the threads hear of its going.
pub(crate) struct Callers<J> {
    jobs: Arc<Jobs<J>>,
    room: Arc<Semaphore>,
}

/// A queue for `room` jobs.
pub(crate) fn queue<J>(room: usize) -> (Callers<J>, Arc<Jobs<J>>) {
    let waiting = Waiting { jobs: VecDeque::new(), closed: false };
    let jobs = Arc::new(Jobs { waiting: Mutex::new(waiting), came: Condvar::new() });
    (Callers { jobs: Arc::clone(&jobs), room: Arc::new(Semaphore::new(room)) }, jobs)
}

impl<J> Jobs<J> {
    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next one; `None` when there are no callers any more.
    pub(crate) fn next(&self) -> Option<J> {
        let mut waiting = self.lock();
        loop {
            if let Some((job, _room)) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.closed {
                return None;
            }
            waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<J> Jobs<J> {
    /// There is no thread any more: what waits, and what comes, is dropped.
    pub(crate) fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.jobs.clear();
    }
}

impl<J> Callers<J> {
    /// Waits for room, and adds a job; dropped where nobody would do it.
    pub(crate) async fn add(&self, job: J) {
        let Ok(room) = Arc::clone(&self.room).acquire_owned().await else { return };
        let mut waiting = self.jobs.lock();
        if waiting.closed {
            return;
        }
        waiting.jobs.push_back((job, room));
        // First, or the thread that is woken waits for us at once: two switches (7 us) for nothing.
        drop(waiting);
        self.jobs.came.notify_one();
    }
}

impl<J> fmt::Debug for Jobs<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} jobs", self.lock().jobs.len())
    }
}

impl<J> fmt::Debug for Callers<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.jobs.fmt(f)
    }
}

impl<J> Drop for Callers<J> {
    fn drop(&mut self) {
        self.jobs.lock().closed = true;
        self.jobs.came.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn jobs_come_in_order_wait_for_room_and_end_with_the_last_caller() {
        let (callers, jobs) = queue(2);
        callers.add(1).await;
        callers.add(2).await;
        {
            let third = callers.add(3);
            tokio::pin!(third);
            let full = tokio::time::timeout(std::time::Duration::ZERO, &mut third).await;
            assert!(full.is_err(), "there is room for two");
            assert_eq!(jobs.next(), Some(1));
            third.await;
        }
        drop(callers);
        assert_eq!((jobs.next(), jobs.next(), jobs.next()), (Some(2), Some(3), None));
    }

    #[tokio::test]
    async fn without_threads_jobs_are_dropped_and_nobody_waits() {
        let (callers, jobs) = queue(1);
        let (first, mut told_first) = tokio::sync::oneshot::channel::<()>();
        callers.add(first).await;
        jobs.abandon();
        assert!(told_first.try_recv().is_err());
        let (second, told_second) = tokio::sync::oneshot::channel::<()>();
        callers.add(second).await;
        assert!(told_second.await.is_err());
    }

    #[test]
    fn a_thread_that_waits_hears_of_the_end() {
        let (callers, jobs) = queue::<u8>(1);
        let thread = std::thread::spawn(move || jobs.next());
        drop(callers);
        assert_eq!(thread.join().unwrap(), None);
    }
}
