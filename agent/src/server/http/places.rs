//! Who is connected, and who has to go when everybody is: the one that would have to go first
//! anyway. So whoever comes is served, however many connections somebody else holds open: a probe
//! needs a few milliseconds, and until it would be its turn to go, as many others must have come.

use tokio::sync::watch;
use tokio::time::Instant;

/// Until when each connection may last. A sender whose connection has ended has no receiver.
#[derive(Default)]
pub(super) struct Places(Vec<watch::Sender<Instant>>);

impl Places {
    /// Makes room for one more of `most`. Returns whether somebody had to go, who has when this
    /// returns.
    pub(super) async fn make_room(&mut self, most: usize) -> bool {
        self.0.retain(|until| !until.is_closed());
        if self.0.len() < most {
            return false;
        }
        let first = self.0.iter().enumerate().min_by_key(|(_, until)| *until.borrow());
        let Some(at) = first.map(|(at, _)| at) else { return false };
        let until = self.0.swap_remove(at);
        until.send_replace(Instant::now());
        until.closed().await;
        true
    }

    /// One more.
    pub(super) fn take(&mut self, until: watch::Sender<Instant>) {
        self.0.push(until);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A connection that ends when it is told to; the receiver says when it has.
    fn connect(places: &mut Places, seconds: u64) -> tokio::task::JoinHandle<()> {
        let end = Instant::now() + Duration::from_secs(seconds);
        let (until, mut told) = watch::channel(end);
        places.take(until);
        tokio::spawn(async move {
            let _ = told.wait_for(|until| *until < end).await;
        })
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_would_end_first_makes_room() {
        let mut places = Places::default();
        let connections = [20, 10, 3600].map(|seconds| connect(&mut places, seconds));
        assert!(!places.make_room(4).await);
        assert!(places.make_room(3).await);
        let gone = connections.iter().map(|connection| connection.is_finished());
        assert_eq!(gone.collect::<Vec<_>>(), [false, true, false]);
        assert!(!places.make_room(3).await, "its place is free");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_ended_takes_no_place() {
        let mut places = Places::default();
        let ended = connect(&mut places, 10);
        ended.abort();
        let _ = ended.await;
        assert!(!places.make_room(1).await);
    }
}
