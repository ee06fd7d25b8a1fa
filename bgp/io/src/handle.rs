//! What the owner may ask of a running speaker. Every question goes through one bounded channel in
//! order; wishes are not answered, questions are.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use flock_bgp::{ConnId, Event, Farewell, Now, PeerConfig, PeerKey, Speaker, Wishes};
use ipnet::IpNet;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::listener::Arrivals;

/// The speaker has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the speaker has ended")]
pub struct Gone;

/// The speaker has ended, or has more to do than it can take on; the wishes come back.
#[derive(Debug, thiserror::Error)]
#[error("the speaker takes nothing on now")]
pub struct Full(pub Wishes);

/// To ask a running speaker. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) listening: Arc<[SocketAddr]>,
    pub(crate) began: Instant,
}

/// A question on its way.
pub(crate) enum Command {
    Tell(Event<'static>),
    Query(Box<dyn FnOnce(&Speaker) + Send>),
    Status(oneshot::Sender<Status>),
    Settled(oneshot::Sender<Heard>),
    Farewell(Farewell, oneshot::Sender<()>),
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tell(_) => "Tell",
            Self::Query(_) => "Query",
            Self::Status(_) => "Status",
            Self::Settled(_) => "Settled",
            Self::Farewell(..) => "Farewell",
        })
    }
}

/// Everything that was wished for is with the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Since then.
    pub at: Instant,
    /// So many sessions were told.
    pub sessions: usize,
}

/// The driver itself, for people and tests.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Connections, by number.
    pub connections: Vec<ConnectionStatus>,
    /// Dials that are under way.
    pub dialling: usize,
    /// Connections that came.
    pub arrivals: Arrivals,
    /// Bytes read.
    pub received: u64,
    /// Bytes that the kernel took.
    pub sent: u64,
}

/// A connection that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// Its number.
    pub conn: ConnId,
    /// Whose.
    pub remote: SocketAddr,
    /// Bytes that wait for the kernel to take them.
    pub unsent: usize,
}

impl Handle {
    /// Where it listens, with the ports that the system chose.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// The speaker's clock, to compare its times with.
    pub fn now(&self) -> Now {
        Now(self.began.elapsed())
    }

    /// These peers, and no others.
    pub async fn peers(&self, peers: Vec<PeerConfig>) -> Result<(), Gone> {
        self.tell(Event::Peers(peers)).await
    }

    /// These originations. Returns when the speaker has them before it, not when peers know.
    pub async fn originate(&self, wishes: Wishes) -> Result<(), Gone> {
        self.tell(Event::Originate(wishes)).await
    }

    /// The same without waiting at all.
    pub fn try_originate(&self, wishes: Wishes) -> Result<(), Full> {
        let command = Command::Tell(Event::Originate(wishes));
        self.commands.try_send(command).map_err(|error| {
            let (TrySendError::Full(command) | TrySendError::Closed(command)) = error;
            match command {
                Command::Tell(Event::Originate(wishes)) => Full(wishes),
                _ => Full(Wishes::Some(Vec::new())),
            }
        })
    }

    /// All that a restarted agent had is originated again: End-of-RIB may go out.
    pub async fn complete(&self) -> Result<(), Gone> {
        self.tell(Event::OriginationsComplete).await
    }

    /// GRACEFUL_SHUTDOWN on everything (RFC 8326), or no longer.
    pub async fn drain(&self, on: bool) -> Result<(), Gone> {
        self.tell(Event::Drain(on)).await
    }

    /// The networks that this node is connected to, where next hops can be, and those of its own
    /// pods. No peer may tell a part of either.
    pub async fn networks(
        &self,
        connected: Vec<IpNet>,
        own: Vec<IpNet>,
        down: Vec<IpNet>,
    ) -> Result<(), Gone> {
        self.tell(Event::Networks { connected, own, down }).await
    }

    /// Asks a peer for everything again (RFC 2918).
    pub async fn refresh(&self, peer: PeerKey) -> Result<(), Gone> {
        self.tell(Event::Refresh(peer)).await
    }

    /// Tells a peer everything again, as if it had asked.
    pub async fn retell(&self, peer: PeerKey) -> Result<(), Gone> {
        self.tell(Event::Retell(peer)).await
    }

    /// Ends a peer's session and begins anew, with words for it (RFC 9003).
    pub async fn reset(&self, peer: PeerKey, words: Arc<str>) -> Result<(), Gone> {
        self.tell(Event::Reset(peer, words)).await
    }

    /// Returns when every session has told its peer all that was wished for before, and the kernel
    /// has taken it. A peer that does not read is waited for as long as its session lasts, so give
    /// this a time of your own; whether it is so now is [`Speaker::settled`], by [`Handle::query`].
    ///
    /// A session's end drops what is still pending: whoever wants withdrawals to be heard before a
    /// shutdown waits for this in between.
    pub async fn settled(&self) -> Result<(), Gone> {
        self.hearing().await?.await.map(drop).map_err(|_| Gone)
    }

    /// The same without waiting for it: told when it is so, and since when. Nothing comes where the
    /// speaker has ended.
    pub async fn hearing(&self) -> Result<oneshot::Receiver<Heard>, Gone> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Settled(answer)).await?;
        Ok(answered)
    }

    /// Ends everything. Returns when the last words are out and all connections are closed, which
    /// takes two seconds at most.
    pub async fn farewell(&self, farewell: Farewell) -> Result<(), Gone> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Farewell(farewell, answer)).await?;
        answered.await.map_err(|_| Gone)
    }

    /// Asks the speaker itself. The question runs in the speaker's task: be brief.
    pub async fn query<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Speaker) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let (answer, answered) = oneshot::channel();
        let question = move |speaker: &Speaker| {
            // Whoever asked may have stopped waiting.
            let _ = answer.send(question(speaker));
        };
        self.send(Command::Query(Box::new(question))).await?;
        answered.await.map_err(|_| Gone)
    }

    /// The driver itself.
    pub async fn status(&self) -> Result<Status, Gone> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Status(answer)).await?;
        answered.await.map_err(|_| Gone)
    }

    async fn tell(&self, event: Event<'static>) -> Result<(), Gone> {
        self.send(Command::Tell(event)).await
    }

    async fn send(&self, command: Command) -> Result<(), Gone> {
        self.commands.send(command).await.map_err(|_| Gone)
    }
}
