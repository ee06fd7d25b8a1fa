//! Does traffic flow? Ping for the path, TCP where a port matters.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::netns::Netns;
use crate::wait::{PATIENCE, until};

/// Sends one echo request and returns the round trip in milliseconds.
pub fn ping(from: &Netns, to: IpAddr) -> Result<f64> {
    let target = to.to_string();
    let said = from.exec("ping", &["-n", "-c", "1", "-W", "2", &target])?;
    said.split_once("time=")
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .and_then(|time| time.parse().ok())
        .with_context(|| format!("ping said no time:\n{said}"))
}

/// Awaits an answer to a ping.
pub fn await_ping(from: &Netns, to: IpAddr) -> Result<f64> {
    until(&format!("{to} to answer {}", from.name()), PATIENCE, || ping(from, to))
}

/// A TCP server in a namespace that answers every connection with its greeting
/// and the address that it saw. It lives until it is dropped.
#[derive(Debug)]
pub struct Greeter {
    address: SocketAddr,
    netns: Netns,
    worker: Option<JoinHandle<()>>,
}

/// What ends a [`Greeter`].
const LAST_WORDS: &[u8] = b"stop";

impl Greeter {
    /// Listens at an address of the namespace; port 0 chooses a free one.
    pub fn start(netns: &Netns, address: SocketAddr) -> Result<Self> {
        let listener = netns.within(|| Ok(TcpListener::bind(address)?))?;
        let address = listener.local_addr()?;
        let worker = thread::spawn(move || {
            while let Ok((mut stream, peer)) = listener.accept() {
                let _give_up_on_silence = stream.set_read_timeout(Some(PATIENCE));
                let mut said = [0; LAST_WORDS.len()];
                if stream.read_exact(&mut said).is_ok() && said == LAST_WORDS {
                    return;
                }
                let _peer_may_be_gone = write!(stream, "hello {}", peer.ip());
            }
        });
        let netns = Netns::of_someone_else(&netns.path())?;
        Ok(Self { address, netns, worker: Some(worker) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Greeter {
    fn drop(&mut self) {
        let address = self.address;
        let told = self.netns.within(|| {
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
            Ok(stream.write_all(LAST_WORDS)?)
        });
        if let (Ok(()), Some(worker)) = (told, self.worker.take()) {
            let _finished = worker.join();
        }
    }
}

/// Connects from a namespace, and returns the client address that the
/// [`Greeter`] at the other end saw.
pub fn greet(from: &Netns, to: SocketAddr) -> Result<IpAddr> {
    from.within(|| {
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))
            .with_context(|| format!("connecting to {to}"))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"here")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("hello "), "{to} answered {answer:?}");
        Ok(answer.trim_start_matches("hello ").parse()?)
    })
}

/// Awaits that a connection succeeds.
pub fn await_greeting(from: &Netns, to: SocketAddr) -> Result<IpAddr> {
    until(&format!("{to} to greet {}", from.name()), PATIENCE, || greet(from, to))
}
