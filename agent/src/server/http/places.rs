//! Who is connected, and who has to go when everybody is: the one that would have to go first
//! anyway. So whoever comes is served, however many connections somebody else holds open: a probe
//! needs a few milliseconds, and until it would be its turn to go, as many others must have come.

use tokio::sync::watch;
use tokio::time::Instant;

/// Until when a connection may last; `None`: it has to go now, whatever it asked for.
pub(super) type Until = Option<Instant>;

/// Those of all connections. A sender whose connection has ended has no receiver.
#[derive(Default)]
pub(super) struct Places(Vec<watch::Sender<Until>>);

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
        until.send_replace(None);
        until.closed().await;
        true
    }

    /// One more.
    pub(super) fn take(&mut self, until: watch::Sender<Until>) {
        self.0.push(until);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A connection that ends when it is told to; the receiver says when it has.
    fn connect(places: &mut Places, seconds: u64) -> tokio::task::JoinHandle<()> {
        let (until, mut told) = watch::channel(Some(Instant::now() + Duration::from_secs(seconds)));
        places.take(until);
        tokio::spawn(async move {
            let _ = told.wait_for(Until::is_none).await;
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

    #[tokio::test]
    async fn one_that_has_to_go_cannot_ask_to_stay() {
        let (until, told) = watch::channel(Some(Instant::now()));
        let stay = super::super::Stay(until.clone());
        stay.for_another(Duration::from_secs(60));
        assert!(told.borrow().is_some_and(|until| until > Instant::now()));
        until.send_replace(None);
        stay.for_another(Duration::from_secs(60));
        assert!(told.borrow().is_none());
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
