//! Which sockets can go on. Each has a waker that puts its name on one list and wakes the one task
//! that owns them all, so a byte that arrives costs neither a task nor a channel of its own, and a
//! connection that is dropped leaves nothing behind.
//!
//! A name is on the list once at most: the list is as long as there are sockets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use flock_bgp::ConnId;
use tokio::sync::Notify;

/// A socket's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Connection(ConnId),
    Listener(usize),
}

/// The sockets that can go on, first come first served.
#[derive(Debug, Default)]
pub(crate) struct ReadyList {
    queue: Mutex<VecDeque<Arc<Ready>>>,
    some: Notify,
}

#[derive(Debug)]
struct Ready {
    who: Who,
    listed: AtomicBool,
    list: Arc<ReadyList>,
}

impl ReadyList {
    /// A waker that lists `who`.
    pub(crate) fn waker(self: &Arc<Self>, who: Who) -> Waker {
        let ready = Ready { who, listed: AtomicBool::new(false), list: Arc::clone(self) };
        Waker::from(Arc::new(ready))
    }

    /// The next one, taken off the list. May be cancelled.
    pub(crate) async fn next(&self) -> Who {
        loop {
            if let Some(who) = self.take() {
                return who;
            }
            self.some.notified().await;
        }
    }

    /// The next one, if there is one by now.
    pub(crate) fn take(&self) -> Option<Who> {
        let ready = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        // Before the socket is looked at, so that what comes meanwhile lists it again.
        ready.listed.store(false, Ordering::Release);
        Some(ready.who)
    }
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            let list = Arc::clone(&self.list);
            list.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(self);
            list.some.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_is_listed_once_and_in_order() {
        let list = Arc::new(ReadyList::default());
        let first = list.waker(Who::Connection(ConnId(1)));
        let second = list.waker(Who::Listener(0));
        first.wake_by_ref();
        first.wake_by_ref();
        second.wake_by_ref();
        first.wake_by_ref();
        assert_eq!(list.next().await, Who::Connection(ConnId(1)));
        assert_eq!(list.next().await, Who::Listener(0));
        assert_eq!(list.take(), None);
        first.wake_by_ref();
        assert_eq!(list.take(), Some(Who::Connection(ConnId(1))));
    }

    #[tokio::test]
    async fn a_waiter_is_woken() {
        let list = Arc::new(ReadyList::default());
        let waiting = tokio::spawn({
            let list = Arc::clone(&list);
            async move { list.next().await }
        });
        tokio::task::yield_now().await;
        list.waker(Who::Listener(7)).wake();
        assert_eq!(waiting.await.unwrap(), Who::Listener(7));
    }
}
