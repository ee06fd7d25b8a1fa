//! The queue between the async side and the threads: bounded, and one job
//! wakes one thread. (A channel behind a lock wakes the next waiter with every
//! job, before that job is done: a context switch on the way of each route.)

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A job that a thread has taken. It has its place in the queue until it is done, so that who asks
/// knows whether anybody is at work.
pub(crate) struct Taken<J> {
    pub(crate) job: J,
    pub(crate) place: OwnedSemaphorePermit,
}

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
    places: usize,
}

/// A queue for `room` jobs, those that are being done included.
pub(crate) fn queue<J>(room: usize) -> (Callers<J>, Arc<Jobs<J>>) {
    let waiting = Waiting { jobs: VecDeque::new(), closed: false };
    let jobs = Arc::new(Jobs { waiting: Mutex::new(waiting), came: Condvar::new() });
    (Callers { jobs: Arc::clone(&jobs), room: Arc::new(Semaphore::new(room)), places: room }, jobs)
}

impl<J> Jobs<J> {
    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next one; `None` when there are no callers any more.
    pub(crate) fn next(&self) -> Option<Taken<J>> {
        let mut waiting = self.lock();
        loop {
            if let Some((job, place)) = waiting.jobs.pop_front() {
                return Some(Taken { job, place });
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
    /// Whether no job waits, and none is being done.
    pub(crate) fn are_idle(&self) -> bool {
        self.room.available_permits() == self.places
    }

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
            let first = jobs.next().unwrap();
            assert_eq!(first.job, 1);
            let full = tokio::time::timeout(std::time::Duration::ZERO, &mut third).await;
            assert!(full.is_err(), "the first is being done");
            drop(first.place);
            third.await;
        }
        drop(callers);
        let next = || jobs.next().map(|taken| taken.job);
        assert_eq!((next(), next(), next()), (Some(2), Some(3), None));
    }

    #[tokio::test]
    async fn nobody_is_idle_while_a_job_waits_or_is_being_done() {
        let (callers, jobs) = queue(2);
        assert!(callers.are_idle());
        callers.add(1).await;
        assert!(!callers.are_idle(), "it waits");
        let taken = jobs.next().unwrap();
        assert!(!callers.are_idle(), "it is being done");
        drop(taken.place);
        assert!(callers.are_idle());
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
        assert!(thread.join().unwrap().is_none());
    }
}
