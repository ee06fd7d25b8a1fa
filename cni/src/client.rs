//! One call to the agent over its unix socket, within a time limit.
//!
//! Decides how long each step may take, how much is read, and whether a failure
//! means that the agent is away ([`CallError::Away`]) or that it answered with
//! something else than an answer. Leaves to the caller what either means for the
//! operation at hand: DEL is spooled, the others fail.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::{CniError, DECODE_FAILURE, INVALID_CONFIG};
use crate::words::{MAX_MESSAGE, Request, Response};

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until the agent has taken the connection. A full backlog uses it up.
    pub connect: Duration,
    /// From the start until the whole answer is there.
    pub answer: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody is there, or nobody answers: not started, gone, hung, unreachable.
    #[error("{0}")]
    Away(String),
    /// Somebody is there and speaks another language.
    #[error("the answer is not understood: {0}")]
    Garbled(String),
    /// The call itself does not fit into a message.
    #[error("the request has {0} bytes, more than the {MAX_MESSAGE} that the agent reads")]
    TooLarge(usize),
    /// The call cannot be written down.
    #[error(transparent)]
    Unsayable(#[from] CniError),
}

impl CallError {
    /// The CNI error of an operation that has no better idea; `away` is the code
    /// that an absent agent means for it.
    #[must_use]
    pub fn into_cni(self, socket: &Path, away: u32) -> CniError {
        let socket = socket.display();
        match self {
            Self::Away(why) => {
                CniError::new(away, format!("the flock agent does not answer on {socket}: {why}"))
                    .with_details(
                        "try again once flock-agent runs on this node: look at its DaemonSet pod \
                         or service and its log, and that its --socket is the config's socket",
                    )
            }
            Self::Garbled(_) => CniError::new(DECODE_FAILURE, format!("{socket}: {self}"))
                .with_details("is something else than flock-agent listening there?"),
            Self::TooLarge(_) => CniError::new(INVALID_CONFIG, self.to_string())
                .with_details("the network config on standard input is too long"),
            Self::Unsayable(error) => error,
        }
    }
}

/// Puts one request to the agent and waits for its answer.
pub fn call(socket: &Path, request: &Request, limits: Limits) -> Result<Response, CallError> {
    let started = Instant::now();
    let message = request.encode()?;
    if message.len() > MAX_MESSAGE {
        return Err(CallError::TooLarge(message.len()));
    }
    let mut stream = connect(socket, limits.connect.min(limits.answer))
        .map_err(|error| CallError::Away(told("connect", &error)))?;
    let deadline = started + limits.answer;
    // An agent that refuses to read on may still have said why, so that an
    // answer is looked for even when the request did not get through whole.
    let written = write(&mut stream, &message, deadline);
    match (read_line(&mut stream, deadline), written) {
        (Ok(answer), written) if !answer.is_empty() => understand(&answer, written.is_ok()),
        (_, Err(error)) => Err(CallError::Away(told("write", &error))),
        (Ok(_), _) => Err(CallError::Away("it closed the connection without an answer".into())),
        (Err(error), _) if error.kind() == ErrorKind::InvalidData => {
            Err(CallError::Garbled(error.to_string()))
        }
        (Err(error), _) => Err(CallError::Away(told("read", &error))),
    }
}

/// Connecting blocks while the agent's backlog is full; Linux bounds that
/// wait by the send timeout, which std cannot set before it has connected.
fn connect(socket: &Path, limit: Duration) -> io::Result<UnixStream> {
    let fd = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let stream = UnixStream::from(fd);
    stream.set_write_timeout(Some(limit))?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    Ok(stream)
}

fn write(stream: &mut UnixStream, mut message: &[u8], deadline: Instant) -> io::Result<()> {
    while !message.is_empty() {
        stream.set_write_timeout(Some(time_left(deadline)?))?;
        match stream.write(message) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => message = message.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until a newline, which is kept, or the end.
fn read_line(stream: &mut UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        stream.set_read_timeout(Some(time_left(deadline)?))?;
        let count = match stream.read(&mut chunk) {
            Ok(0) => return Ok(line),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let fresh = chunk.get(..count).unwrap_or_default();
        let (fresh, ended) = match fresh.iter().position(|byte| *byte == b'\n') {
            Some(end) => (fresh.get(..=end).unwrap_or_default(), true),
            None => (fresh, false),
        };
        if line.len() + fresh.len() > MAX_MESSAGE {
            let text = format!("it is longer than {MAX_MESSAGE} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        line.extend_from_slice(fresh);
        if ended {
            return Ok(line);
        }
    }
}

fn understand(answer: &[u8], heard_all: bool) -> Result<Response, CallError> {
    match Response::decode(answer) {
        Ok(response) => Ok(response),
        // Without its newline it was cut off on the way: the agent died.
        Err(_) if !answer.ends_with(b"\n") || !heard_all => {
            Err(CallError::Away("it closed the connection within its answer".into()))
        }
        Err(error) => Err(CallError::Garbled(error.to_string())),
    }
}

fn time_left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The kernel's EAGAIN of a timed-out socket says "temporarily unavailable",
/// which would send the reader looking in the wrong place.
fn told(step: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("{step}: no reaction in time"),
        _ => format!("{step}: {error}"),
    }
}
