//! One TCP connection as the driver holds it: a socket, and what the kernel did not take yet. An
//! idle one holds no buffer. Decides nothing; when to read and write is `traffic`.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, Bytes};
use flock_bgp::ConnId;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::ready::{ReadyList, Who};

/// A TCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    waker: Waker,
    remote: SocketAddr,
    /// The rest of a transmit that the kernel did not take; the next one waits for it.
    unsent: Bytes,
    /// The last transmit may not have been all.
    pub(crate) owes: bool,
    /// Writing failed, with the system's words. What the peer said last may still be read.
    pub(crate) broken: Option<Arc<str>>,
    /// An accepted connection holds one of its peer's seats.
    seat: Option<OwnedSemaphorePermit>,
}

/// What became of bytes that were to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// The kernel took some.
    pub(crate) some: bool,
    /// The kernel took all.
    pub(crate) all: bool,
}

impl Connection {
    pub(crate) fn new(
        id: ConnId,
        stream: TcpStream,
        remote: SocketAddr,
        ready: &Arc<ReadyList>,
        seat: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let waker = ready.waker(Who::Connection(id));
        Self { stream, waker, remote, unsent: Bytes::new(), owes: false, broken: None, seat }
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// How much waits for the kernel.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Look at it again, after the others.
    pub(crate) fn come_again(&self) {
        self.waker.wake_by_ref();
    }

    /// Reads what there is; `Pending`: it will be listed when there is something.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let mut context = Context::from_waker(&self.waker);
        let outcome = Pin::new(&mut self.stream).poll_read(&mut context, &mut buffer);
        outcome.map_ok(|()| buffer.filled().len())
    }

    /// Writes these bytes after all earlier ones, and keeps what the kernel does not take.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<Written> {
        let (taken, all) = self.offer(bytes)?;
        if !all {
            self.unsent = Bytes::copy_from_slice(bytes.get(taken..).unwrap_or_default());
        }
        Ok(Written { some: taken > 0, all })
    }

    /// Writes what was kept.
    pub(crate) fn write_unsent(&mut self) -> io::Result<Written> {
        let mut unsent = std::mem::take(&mut self.unsent);
        let (taken, all) = self.offer(&unsent)?;
        if !all {
            unsent.advance(taken);
            self.unsent = unsent;
        }
        Ok(Written { some: taken > 0, all })
    }

    /// Its parts, to be closed: the socket, what was kept, the seat.
    pub(crate) fn into_parts(self) -> (TcpStream, Bytes, Option<OwnedSemaphorePermit>) {
        (self.stream, self.unsent, self.seat)
    }

    /// How much the kernel takes of it, and whether that is all; if not, it will be listed when the
    /// kernel takes more.
    fn offer(&mut self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        let mut context = Context::from_waker(&self.waker);
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut self.stream).poll_write(&mut context, rest) {
                Poll::Pending => return Ok((taken, false)),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => taken += count,
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        Ok((taken, true))
    }
}
