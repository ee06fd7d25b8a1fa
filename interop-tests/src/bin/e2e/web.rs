//! HTTP from a namespace, by hand: one request, and a load of them with an account of each.
//!
//! A router or node that changes the ways of an anycast address moves connections that are under way to
//! another pod, which knows nothing of them and resets them. No announcement can prevent that, so a
//! request that is reset after it was accepted is asked once more, and counted. Everything else that gets
//! no answer is lost: nobody listens, nobody answers, no way.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rack::netns::Netns;
use rack::wait::{PATIENCE, until};

/// How long an answer may take before it counts as none.
const ANSWER: Duration = Duration::from_secs(5);

/// The pause of a client between two requests.
const PAUSE: Duration = Duration::from_millis(5);

/// GET from a namespace: what was answered with 200.
pub(crate) fn get(netns: &Netns, server: SocketAddr, path: &str) -> Result<String> {
    let said = netns.within(|| {
        request(server, path).map_err(Failure::error).with_context(|| format!("GET {server}{path}"))
    })?;
    let (head, body) = said.split_once("\r\n\r\n").with_context(|| format!("it said {said:?}"))?;
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200 "), "GET {server}{path}: {status}");
    Ok(body.to_owned())
}

/// How a request failed.
enum Failure {
    /// Nobody accepted it.
    Refused(io::Error),
    /// It was accepted, and then reset.
    Reset(io::Error),
    /// Anything else.
    Silent(io::Error),
}

impl Failure {
    fn error(self) -> io::Error {
        match self {
            Self::Refused(error) | Self::Reset(error) | Self::Silent(error) => error,
        }
    }

    fn of(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Reset(error),
            _ => Self::Silent(error),
        }
    }
}

fn request(server: SocketAddr, path: &str) -> std::result::Result<String, Failure> {
    let mut stream = TcpStream::connect_timeout(&server, ANSWER).map_err(Failure::Refused)?;
    stream.set_read_timeout(Some(ANSWER)).map_err(Failure::of)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n").map_err(Failure::of)?;
    let mut said = String::new();
    stream.read_to_string(&mut said).map_err(Failure::of)?;
    match said.is_empty() {
        // Ended by the other side without a word, as a reset that came late looks.
        true => Err(Failure::Reset(ErrorKind::UnexpectedEof.into())),
        false => Ok(said),
    }
}

/// A load that goes on until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    answered: AtomicU64,
    moved: AtomicU64,
    lost: Mutex<Vec<String>>,
}

/// What became of a load.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) answered: u64,
    /// Asked once more, because their connection was moved to a pod that did not know it.
    pub(crate) moved: u64,
    /// Why each of the lost was lost.
    pub(crate) lost: Vec<String>,
}

impl Load {
    /// Starts a client in a namespace for each of these servers.
    pub(crate) fn start(netns: &Netns, servers: &[SocketAddr]) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut load = Self { shared, clients: Vec::new() };
        for server in servers.iter().copied() {
            let shared = Arc::clone(&load.shared);
            let netns = Netns::of_someone_else(&netns.path())?;
            load.clients.push(thread::spawn(move || match netns.enter() {
                Ok(()) => shared.ask(server),
                Err(error) => shared.lose(format!("{error:#}")),
            }));
        }
        load.await_answers(10)?;
        Ok(load)
    }

    /// Awaits so many more answers.
    pub(crate) fn await_answers(&self, more: u64) -> Result<()> {
        let before = self.shared.answered.load(Ordering::Relaxed);
        until(&format!("{more} more answers"), PATIENCE, || {
            let came = self.shared.answered.load(Ordering::Relaxed) - before;
            ensure!(came >= more, "{came} came");
            Ok(())
        })
    }

    /// Ends it, and tells what became of all.
    pub(crate) fn stop(mut self) -> Account {
        self.end();
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Account {
            answered: count(&self.shared.answered),
            moved: count(&self.shared.moved),
            lost: self.shared.lost.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn end(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            let _ended = client.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn ask(&self, server: SocketAddr) {
        while !self.over.load(Ordering::Relaxed) {
            let outcome = match request(server, "/") {
                Err(Failure::Reset(_)) => {
                    self.moved.fetch_add(1, Ordering::Relaxed);
                    request(server, "/")
                }
                outcome => outcome,
            };
            match outcome {
                Ok(said) if said.starts_with("HTTP/1.1 200 ") => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
                Ok(said) => self.lose(format!("{server} answered {said:?}")),
                Err(failure) => self.lose(format!("{server}: {}", failure.error())),
            }
            thread::sleep(PAUSE);
        }
    }

    fn lose(&self, why: String) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(why);
    }
}

impl Account {
    /// Fails, with the reasons, when a request was lost.
    pub(crate) fn ensure_none_lost(&self) -> Result<()> {
        ensure!(self.lost.is_empty() && self.answered > 0, "{self}:\n{}", self.lost.join("\n"));
        Ok(())
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answered, moved, lost } = self;
        write!(f, "{answered} requests answered, {} lost", lost.len())?;
        write!(f, ", {moved} asked twice because their connection was moved")
    }
}
