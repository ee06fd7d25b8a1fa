//! Connections that come. Decides whose is taken: only those of addresses that the speaker admits,
//! a few at a time, and no faster than [`Pace`]; everyone else's is closed at once and counted. What
//! is said on a connection is nothing to it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use flock_bgp::Transport;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::pace::{Limiter, Pace, Rate};
use crate::ready::{ReadyList, Who};
use crate::{Listen, StartError, sockopt, transport};

/// Accepted connections that a peer may have at a time, those that are just ending included: its
/// session, one that rivals it, and some more for a peer that lost its own side and comes again.
const SEATS: usize = 4;
/// Connections taken in one turn; then it is the others' turn.
const ACCEPTS_PER_TURN: usize = 16;
/// After an error that is not of one connection (no descriptors left).
const PAUSE: Duration = Duration::from_millis(200);

/// Connections that came, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Given to the speaker.
    pub taken: u64,
    /// From an address that is no peer's: closed.
    pub unknown: u64,
    /// From a peer that comes too often: closed.
    pub paced: u64,
    /// From a peer that has too many connections open: closed.
    pub crowded: u64,
}

/// A connection that was taken.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) stream: TcpStream,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) seat: OwnedSemaphorePermit,
}

/// All listening sockets, and who may come.
#[derive(Debug)]
pub(crate) struct Listeners {
    sockets: Vec<Listener>,
    admitted: HashMap<IpAddr, Admitted>,
    pace: Pace,
    limiter: Limiter,
    /// Strangers are logged no more often than this.
    log: Limiter,
    pub(crate) arrivals: Arrivals,
    /// Nothing is taken before.
    resume_at: Option<Instant>,
    /// What keeps connections from being taken, as was told.
    trouble: Option<io::ErrorKind>,
}

#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    waker: Waker,
}

#[derive(Debug)]
struct Admitted {
    transport: Transport,
    limiter: Limiter,
    seats: Arc<Semaphore>,
}

impl Listeners {
    pub(crate) fn open(listen: &Listen, ready: &Arc<ReadyList>) -> Result<Self, StartError> {
        let mut sockets = Vec::with_capacity(listen.addresses.len());
        for (index, &address) in listen.addresses.iter().enumerate() {
            let refused = |source| StartError { address, source };
            let socket = transport::listen(address).map_err(refused)?;
            let address = socket.local_addr().map_err(refused)?;
            let waker = ready.waker(Who::Listener(index));
            waker.wake_by_ref();
            sockets.push(Listener { socket, address, waker });
        }
        Ok(Self {
            sockets,
            admitted: HashMap::new(),
            pace: listen.pace,
            limiter: Limiter::new(listen.pace.accepts),
            log: Limiter::new(Rate::new(5, 1)),
            arrivals: Arrivals::default(),
            resume_at: None,
            trouble: None,
        })
    }

    /// Where it listens, with the port that the system chose where none was given.
    pub(crate) fn addresses(&self) -> Arc<[SocketAddr]> {
        self.sockets.iter().map(|listener| listener.address).collect()
    }

    /// Takes connections from `remote` from now on. Not if its key cannot be set: without it anyone
    /// could come in its name.
    pub(crate) fn admit(&mut self, remote: IpAddr, transport: Transport) {
        if let Err(error) = self.set_key(remote, Some(&transport)) {
            warn!(%remote, %error, "peer not admitted: its password cannot be set");
            self.admitted.remove(&remote);
            return;
        }
        if let Some(admitted) = self.admitted.get_mut(&remote) {
            admitted.transport = transport;
        } else {
            let limiter = Limiter::new(self.pace.accepts_of_peer);
            let seats = Arc::new(Semaphore::new(SEATS));
            self.admitted.insert(remote, Admitted { transport, limiter, seats });
        }
    }

    /// No longer.
    pub(crate) fn expel(&mut self, remote: IpAddr) {
        self.admitted.remove(&remote);
        if let Err(error) = self.set_key(remote, None) {
            warn!(%remote, %error, "password of a former peer not removed");
        }
    }

    /// Listens no more.
    pub(crate) fn close(&mut self) {
        self.sockets.clear();
        self.resume_at = None;
    }

    /// When it goes on after a pause.
    pub(crate) fn resume_at(&self) -> Option<Instant> {
        self.resume_at
    }

    /// Goes on after a pause, if it is over.
    pub(crate) fn resume(&mut self, now: Instant) {
        if self.resume_at.is_some_and(|at| at <= now) {
            self.resume_at = None;
            for listener in &self.sockets {
                listener.waker.wake_by_ref();
            }
        }
    }

    /// Takes what waits at one of the sockets, one turn of it.
    pub(crate) fn accept(&mut self, index: usize, taken: &mut Vec<Arrived>) {
        for _ in 0..ACCEPTS_PER_TURN {
            if self.resume_at.is_some() {
                return;
            }
            let Some(listener) = self.sockets.get(index) else { return };
            let mut context = Context::from_waker(&listener.waker);
            match listener.socket.poll_accept(&mut context) {
                Poll::Pending => return,
                Poll::Ready(Ok((stream, remote))) => {
                    self.trouble = None;
                    taken.extend(self.judge(stream, remote));
                }
                // That connection was gone before it was taken: accept(2).
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Poll::Ready(Err(error)) => {
                    // It is tried again five times a second; that is told once.
                    if self.trouble.replace(error.kind()) != Some(error.kind()) {
                        let address = listener.address;
                        warn!(%address, %error, "BGP connections cannot be taken; trying again");
                    }
                    self.resume_at = Some(Instant::now() + PAUSE);
                    return;
                }
            }
            if let Err(wait) = self.limiter.check() {
                self.resume_at = Some(Instant::now() + wait);
            }
        }
        if let Some(listener) = self.sockets.get(index) {
            listener.waker.wake_by_ref();
        }
    }

    fn judge(&mut self, stream: TcpStream, remote: SocketAddr) -> Option<Arrived> {
        let Some(admitted) = self.admitted.get(&remote.ip()) else {
            self.arrivals.unknown += 1;
            if self.log.check().is_ok() {
                let unknown = self.arrivals.unknown;
                info!(%remote, unknown, "BGP connection of a stranger closed");
            }
            return turn_away(&stream);
        };
        if admitted.limiter.check().is_err() {
            self.arrivals.paced += 1;
            debug!(%remote, "connection closed: the peer comes too often");
            return turn_away(&stream);
        }
        let Ok(seat) = Arc::clone(&admitted.seats).try_acquire_owned() else {
            self.arrivals.crowded += 1;
            debug!(%remote, "connection closed: the peer has too many");
            return turn_away(&stream);
        };
        let local = transport::accepted(&stream, remote.ip(), &admitted.transport)
            .and_then(|()| stream.local_addr());
        match local {
            Ok(local) => {
                self.arrivals.taken += 1;
                Some(Arrived { stream, local, remote, seat })
            }
            Err(error) => {
                debug!(%remote, %error, "connection closed: its options cannot be set");
                turn_away(&stream)
            }
        }
    }

    fn set_key(&self, remote: IpAddr, transport: Option<&Transport>) -> io::Result<()> {
        let key = transport.and_then(|transport| transport.md5.as_ref());
        for listener in &self.sockets {
            if listener.address.is_ipv4() == remote.is_ipv4() {
                sockopt::set_md5(&listener.socket, remote, key.map(|secret| &*secret.0))?;
            }
        }
        Ok(())
    }
}

/// Closed with a RST, so that a flood leaves nothing in TIME_WAIT.
fn turn_away(stream: &TcpStream) -> Option<Arrived> {
    let _ = stream.set_zero_linger();
    None
}
