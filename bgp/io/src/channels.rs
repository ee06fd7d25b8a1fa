//! Every channel of the driver, in one place.
//!
//! | channel | from | to | holds | when it is full |
//! |---|---|---|--:|---|
//! | commands | [`crate::Handle`] | driver | 256 | the caller waits; `try_originate` gives the wishes back |
//! | routes | driver | owner | 1,024 | the speaker is not asked for more: a prefix that flaps meanwhile is offered once, as it is then |
//! | notices | driver | owner | 512 | the oldest are dropped, and the reader is told how many ([`Told::Missed`]) |
//!
//! Answers travel by oneshot. Sockets that are ready are on a list of their own (`ready`), as long
//! as there are sockets.

use flock_bgp::{Notice, RouteChange};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

use crate::handle::Command;

const COMMANDS: usize = 256;
const ROUTES: usize = 1024;
const NOTICES: usize = 512;

pub(crate) fn commands() -> (mpsc::Sender<Command>, mpsc::Receiver<Command>) {
    mpsc::channel(COMMANDS)
}

pub(crate) fn routes() -> (mpsc::Sender<RouteChange>, mpsc::Receiver<RouteChange>) {
    mpsc::channel(ROUTES)
}

pub(crate) fn notices() -> (broadcast::Sender<Notice>, Notices) {
    let (sender, receiver) = broadcast::channel(NOTICES);
    (sender, Notices(receiver))
}

/// What happens, as it happens. A reader that is slow does not stop the speaker.
#[derive(Debug)]
pub struct Notices(broadcast::Receiver<Notice>);

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// This.
    Notice(Notice),
    /// So many that were dropped because nobody read them: ask for the status.
    Missed(u64),
}

impl Notices {
    /// The next one; `None` when the speaker has ended. May be cancelled.
    pub async fn next(&mut self) -> Option<Told> {
        match self.0.recv().await {
            Ok(notice) => Some(Told::Notice(notice)),
            Err(RecvError::Lagged(count)) => Some(Told::Missed(count)),
            Err(RecvError::Closed) => None,
        }
    }

    /// One more reader, from now on.
    #[must_use]
    pub fn another(&self) -> Self {
        Self(self.0.resubscribe())
    }
}

#[cfg(test)]
mod tests {
    use flock_bgp::PeerKey;

    use super::*;

    #[tokio::test]
    async fn the_newest_notices_are_kept_and_the_dropped_are_counted() {
        let (sender, mut notices) = notices();
        let notice = |number: usize| Notice::Up(PeerKey(0), number.to_string().into());
        for number in 0..NOTICES + 100 {
            sender.send(notice(number)).unwrap();
        }
        assert_eq!(notices.next().await, Some(Told::Missed(100)));
        assert_eq!(notices.next().await, Some(Told::Notice(notice(100))));
        let mut another = notices.another();
        sender.send(notice(7)).unwrap();
        assert_eq!(another.next().await, Some(Told::Notice(notice(7))));
        drop(sender);
        assert_eq!(another.next().await, None);
    }
}
