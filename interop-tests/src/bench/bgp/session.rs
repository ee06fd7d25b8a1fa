//! A session over a plain blocking socket: enough of BGP to be let in, and then
//! bytes.
//!
//! Every wait ends when the user interrupts. The clock is the caller's.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::Family;
use super::count::Count;
use super::message::{self, HEADER, KEEPALIVE, LONGEST, NOTIFICATION, OPEN, UPDATE};
use crate::netns::Netns;
use crate::wait::{PATIENCE, go_on, until};

/// The port of BGP.
pub const PORT: u16 = 179;
/// How long a read or a write blocks before it looks for an interruption.
const GLANCE: Duration = Duration::from_millis(100);
/// How long a speaker may take to answer an OPEN.
const ANSWER: Duration = Duration::from_secs(5);
const BUFFER: usize = 256 * 1024;

/// Who we pretend to be.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// Our ASN.
    pub asn: u32,
    /// Our router id.
    pub id: Ipv4Addr,
    /// The family that we take.
    pub family: Family,
    /// Our hold time in seconds; zero is never (RFC 4271 §4.2).
    pub hold: u16,
}

/// An established session.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    reader: Reader,
    /// When both sides had said KEEPALIVE.
    pub established: Instant,
}

impl Session {
    /// Dials a speaker from a namespace until it lets us in.
    pub fn dial(netns: &Netns, to: IpAddr, identity: &Identity) -> Result<Self> {
        until(&format!("a session with {to}"), PATIENCE, || {
            let stream =
                netns.within(|| Ok(TcpStream::connect_timeout(&(to, PORT).into(), ANSWER)?));
            let session = Self::establish(stream?, identity);
            if session.is_err() {
                // A speaker that has just refused us does not like to be asked again at once.
                thread::sleep(Duration::from_millis(300));
            }
            session
        })
    }

    /// Awaits that a speaker dials us.
    pub fn accept(listener: &TcpListener, identity: &Identity, limit: Duration) -> Result<Self> {
        Self::establish(take(listener, limit)?, identity)
    }

    /// Says OPEN and KEEPALIVE and awaits both.
    pub fn establish(stream: TcpStream, identity: &Identity) -> Result<Self> {
        let mut greeting = Greeting::say(stream, identity)?;
        greeting.answer()?;
        greeting.established()
    }

    /// A way to end the connection from another thread.
    pub fn hang_up(&self) -> Result<impl FnOnce() + use<>> {
        let stream = self.stream.try_clone()?;
        Ok(move || drop(stream.shutdown(Shutdown::Both)))
    }

    /// Writes all of it, however slowly it is taken.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if is_pause(&error) => go_on()?,
                Err(error) => return Err(error).context("writing to the speaker"),
            }
        }
        Ok(())
    }

    /// Takes in whatever the speaker says until `enough`, and returns when that
    /// arrived.
    pub fn read_until(
        &mut self,
        count: &mut Count,
        limit: Duration,
        enough: impl Fn(&Count) -> bool,
    ) -> Result<Instant> {
        let deadline = Instant::now() + limit;
        while !enough(count) {
            self.take_update(count, deadline)?;
        }
        Ok(self.reader.read_at)
    }

    /// Takes the next UPDATE in, and returns when it arrived.
    pub fn take_update(&mut self, count: &mut Count, deadline: Instant) -> Result<Instant> {
        count.update(self.next_update(deadline)?)?;
        Ok(self.reader.read_at)
    }

    /// The body of the next UPDATE.
    pub fn next_update(&mut self, deadline: Instant) -> Result<&[u8]> {
        let (body, length) = loop {
            let (kind, body, length) = self.reader.next(deadline)?;
            match kind {
                UPDATE => break (body, length),
                NOTIFICATION => {
                    let said = self.reader.buffer.get(body..body + length);
                    bail!("the speaker says NOTIFICATION {said:?}");
                }
                _ => {}
            }
        };
        Ok(self.reader.buffer.get(body..body + length).unwrap_or_default())
    }

    /// Reads until nothing has come for a while.
    pub fn quiet(&mut self, count: &mut Count, silence: Duration) -> Result<()> {
        loop {
            match self.take_update(count, Instant::now() + silence) {
                Ok(_) => {}
                Err(error) if error.is::<Silence>() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A session in the making, step by step, for who has many to make.
#[derive(Debug)]
pub struct Greeting {
    stream: TcpStream,
    reader: Reader,
    deadline: Instant,
    said: Instant,
}

impl Greeting {
    /// Says OPEN.
    pub fn say(mut stream: TcpStream, identity: &Identity) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GLANCE))?;
        stream.set_write_timeout(Some(GLANCE))?;
        let reader = Reader::new(stream.try_clone()?);
        stream.write_all(&message::open(identity)?)?;
        let said = Instant::now();
        Ok(Self { stream, reader, deadline: said + ANSWER, said })
    }

    /// Awaits the other's OPEN and says KEEPALIVE.
    pub fn answer(&mut self) -> Result<()> {
        self.reader.expect(OPEN, self.deadline)?;
        self.stream.write_all(&message::keepalive()?)?;
        self.said = Instant::now();
        Ok(())
    }

    /// Awaits the other's KEEPALIVE.
    pub fn established(mut self) -> Result<Session> {
        self.reader.expect(KEEPALIVE, self.deadline)?;
        // Whatever comes later was sent when both had heard the other.
        let established = self.reader.read_at.max(self.said);
        Ok(Session { stream: self.stream, reader: self.reader, established })
    }
}

/// Awaits that somebody dials.
pub fn take(listener: &TcpListener, limit: Duration) -> Result<TcpStream> {
    // Blocking, so that nothing is added to what a watch shows.
    set_socket_timeout(listener, Timeout::Recv, Some(GLANCE))?;
    let deadline = Instant::now() + limit;
    loop {
        go_on()?;
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(error) if is_pause(&error) => {
                ensure!(Instant::now() < deadline, "nobody has dialled within {limit:?}");
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Nothing came in time.
#[derive(Debug)]
pub struct Silence;

impl std::fmt::Display for Silence {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the speaker says nothing more")
    }
}

impl std::error::Error for Silence {}

/// Cuts what arrives into messages.
#[derive(Debug)]
struct Reader {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// When the bytes of the last message were read.
    read_at: Instant,
}

impl Reader {
    fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: vec![0; BUFFER], start: 0, end: 0, read_at: Instant::now() }
    }

    /// The next message: its type, and where in the buffer its body is and how long.
    fn next(&mut self, deadline: Instant) -> Result<(u8, usize, usize)> {
        let length = loop {
            match self.whole()? {
                Some(length) => break length,
                None => self.fill(deadline)?,
            }
        };
        let body = self.start + HEADER;
        self.start += length;
        Ok((self.buffer.get(body - 1).copied().unwrap_or(0), body, length - HEADER))
    }

    /// The length of the first message, once all of it is here.
    fn whole(&self) -> Result<Option<usize>> {
        let here = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some([high, low]) = here.get(16..18) else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        ensure!((HEADER..=LONGEST).contains(&length), "a message of {length} octets");
        Ok((here.len() >= length).then_some(length))
    }

    fn fill(&mut self, deadline: Instant) -> Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.stream.read(room) {
                Ok(0) => bail!("the speaker has closed the connection"),
                Ok(read) => {
                    self.end += read;
                    self.read_at = Instant::now();
                    return Ok(());
                }
                Err(error) if is_pause(&error) => {
                    go_on()?;
                    if Instant::now() >= deadline {
                        bail!(Silence);
                    }
                }
                Err(error) => return Err(error).context("reading from the speaker"),
            }
        }
    }

    fn expect(&mut self, wanted: u8, deadline: Instant) -> Result<()> {
        let (kind, body, length) = self.next(deadline)?;
        let said = self.buffer.get(body..body + length);
        ensure!(kind == wanted, "message {kind} {said:?} and not {wanted}");
        Ok(())
    }
}

fn is_pause(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Listens inside a namespace on the port of BGP.
pub fn listen(netns: &Netns, at: IpAddr) -> Result<TcpListener> {
    netns.within(|| Ok(TcpListener::bind(SocketAddr::from((at, PORT)))?))
}
