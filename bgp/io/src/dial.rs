//! Opening a connection and ending one: what takes time and runs beside the driver. Decides how a
//! connection ends so that the last words arrive; how long a dial may take is the speaker's.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flock_bgp::{ConnId, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::pace::Limiter;
use crate::transport;

/// A connection that ends is given this long ...
const LINGER: Duration = Duration::from_secs(2);
/// ... and this much to read, of which nothing is kept.
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// What a task of the driver came to.
#[derive(Debug)]
pub(crate) enum Finished {
    /// A dial succeeded, or failed.
    Dialled(ConnId, Result<Dialled, DialError>),
    /// A connection has ended.
    Lingered,
}

/// A connection that we opened.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) stream: TcpStream,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// The peer, or what is between, did not answer.
    #[error("no answer within {0:.1?}")]
    NoAnswer(Duration),
    /// The system's words.
    #[error(transparent)]
    System(io::Error),
}

/// A dial, as the speaker asked for it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) conn: ConnId,
    pub(crate) remote: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    pub(crate) transport: Transport,
    pub(crate) patience: Duration,
}

/// Connects, when its turn has come.
pub(crate) async fn dial(wanted: Wanted, limiter: Arc<Limiter>) -> Finished {
    limiter.wait().await;
    let outcome = match timeout(wanted.patience, connect(&wanted)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => {
            Err(DialError::NoAnswer(wanted.patience))
        }
        Ok(outcome) => outcome.map_err(DialError::System),
        Err(_) => Err(DialError::NoAnswer(wanted.patience)),
    };
    Finished::Dialled(wanted.conn, outcome)
}

async fn connect(wanted: &Wanted) -> io::Result<Dialled> {
    let Wanted { remote, local, ref transport, .. } = *wanted;
    let stream = transport::dialler(remote, local, transport)?.connect(remote).await?;
    Ok(Dialled { local: stream.local_addr()?, remote: stream.peer_addr()?, stream })
}

/// Ends a connection: the rest of what there is to say, the end of it, and then read on for a while
/// without listening. To close a socket while bytes of the peer are unread is to send a RST, and a
/// RST may overtake the NOTIFICATION in the peer's queue.
pub(crate) async fn linger(
    stream: TcpStream,
    rest: Bytes,
    seat: Option<OwnedSemaphorePermit>,
) -> Finished {
    // The peer may be gone by now, which is what was wanted.
    let _ = transport::give_up_after(&stream, LINGER * 2);
    let _ = timeout(LINGER, say_and_wait(stream, &rest)).await;
    drop(seat);
    Finished::Lingered
}

async fn say_and_wait(mut stream: TcpStream, rest: &[u8]) -> io::Result<()> {
    stream.write_all(rest).await?;
    stream.shutdown().await?;
    let mut ignored = [0; 4096];
    let mut left = LINGER_BYTES;
    loop {
        match stream.read(&mut ignored).await? {
            0 => return Ok(()),
            count if count > left => return Ok(()),
            count => left -= count,
        }
    }
}
