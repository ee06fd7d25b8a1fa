//! Many probes at once, and what became of each.
//!
//! What a policy denies is dropped without a word, so silence has to be waited for. It counts from when
//! probes that nothing may deny (between pods and their own nodes, and between the nodes) were answered,
//! which began in the same moment and took the same ways: a machine that is busy makes the wait longer, and
//! no verdict wrong. Silence where an answer is due is given more time.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol as Number, RecvFlags, SendFlags, SocketFlags, SocketType,
};
use rustix::net::{bind, connect, ipproto, recv, send, socket_with};

use super::oracle::Protocol;
use super::packets::{Sctp, echo, payload};
use super::station::{Station, raw_sctp};

/// How long nothing has to come after everything that is certain to come has come.
const SILENCE: Duration = Duration::from_millis(300);

/// How long an answer that is due may take within one round: longer than TCP waits before it sends again.
const DUE: Duration = Duration::from_millis(2500);

/// One probe.
#[derive(Debug, Clone, Copy)]
pub struct Shot<'a> {
    /// Where it is sent from.
    pub station: &'a Station,
    /// The address that it comes from.
    pub source: IpAddr,
    /// The address that it goes to.
    pub target: IpAddr,
    /// What it speaks.
    pub protocol: Protocol,
    /// The port that it goes to.
    pub port: u16,
    /// What is expected of it, which decides how long it is waited for.
    pub due: Due,
}

/// What is expected of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// An answer in any case: a round in which it does not come says nothing.
    Surely,
    /// An answer.
    Answer,
    /// None.
    Silence,
}

/// What became of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Somebody answered, and said this name where the protocol has room for it.
    Answered(String),
    /// Nothing came.
    Silent,
    /// The kernel, or somebody on the way, said that it does not work.
    Refused(String),
}

/// A probe that is on its way.
#[derive(Debug)]
struct Flying {
    index: usize,
    socket: OwnedFd,
    source_port: u16,
}

/// Sends all of them at once and returns what became of each, in their order.
pub fn fire(shots: &[Shot<'_>]) -> Result<Vec<Outcome>> {
    fire_within(shots, DUE)
}

/// The same for who looks again and again: an answer that is due is not waited for longer than this.
pub(super) fn fire_within(shots: &[Shot<'_>], limit: Duration) -> Result<Vec<Outcome>> {
    let mut flying = launch(shots)?;
    let began = Instant::now();
    let mut outcomes = vec![Outcome::Silent; shots.len()];
    let mut quiet_since = began;
    loop {
        let waits_for = |due: Due| {
            let awaited = |one: &Flying| shots.get(one.index).is_some_and(|shot| shot.due == due);
            flying.iter().any(awaited)
        };
        let late = began.elapsed() >= limit;
        if waits_for(Due::Surely) {
            quiet_since = Instant::now();
            ensure!(!late, "no answer to what nothing denies: {}", unanswered(shots, &flying));
        }
        // Where nobody is to be silent there is nothing to be waited for.
        let enough = quiet_since.elapsed() >= SILENCE || !waits_for(Due::Silence);
        if enough && !waits_for(Due::Surely) && (late || !waits_for(Due::Answer)) {
            return Ok(outcomes);
        }
        look(shots, &mut flying, &mut outcomes)?;
    }
}

fn unanswered(shots: &[Shot<'_>], flying: &[Flying]) -> String {
    let lost = flying.iter().filter_map(|one| shots.get(one.index));
    let lost = lost.filter(|shot| shot.due == Due::Surely).map(|shot| shot.to_string());
    lost.collect::<Vec<_>>().join("; ")
}

/// Waits for a moment, and notes what came.
fn look(shots: &[Shot<'_>], flying: &mut Vec<Flying>, outcomes: &mut [Outcome]) -> Result<()> {
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let ready: Vec<bool> = {
        let polled = flying.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN));
        let mut polled: Vec<_> = polled.collect();
        match poll(&mut polled, Some(&moment)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("awaiting answers"),
        }
        polled.iter().map(|one| !one.revents().is_empty()).collect()
    };
    let mut ready = ready.into_iter();
    flying.retain(|one| {
        let (Some(true), Some(shot)) = (ready.next(), shots.get(one.index)) else { return true };
        let Some(outcome) = one.read(shot) else { return true };
        if let Some(place) = outcomes.get_mut(one.index) {
            *place = outcome;
        }
        false
    });
    Ok(())
}

/// Opens all sockets, each in its namespace, and sends.
fn launch(shots: &[Shot<'_>]) -> Result<Vec<Flying>> {
    let mut by_station: Vec<(&Station, Vec<usize>)> = Vec::new();
    for (index, shot) in shots.iter().enumerate() {
        match by_station.iter_mut().find(|(station, _)| std::ptr::eq(*station, shot.station)) {
            Some((_, own)) => own.push(index),
            None => by_station.push((shot.station, vec![index])),
        }
    }
    let all = thread::scope(|scope| {
        let launch_from = |(station, own): (&Station, Vec<usize>)| -> Result<Vec<Flying>> {
            station.netns().enter()?;
            let open = |index: usize| {
                let shot = shots.get(index).context("no such probe")?;
                Flying::open(index, shot).with_context(|| shot.to_string())
            };
            own.into_iter().map(open).collect()
        };
        let threads: Vec<_> =
            by_station.into_iter().map(|one| scope.spawn(move || launch_from(one))).collect();
        let joined = |thread: thread::ScopedJoinHandle<'_, Result<Vec<Flying>>>| {
            thread.join().map_err(|_| anyhow!("a prober panicked"))?
        };
        threads.into_iter().map(joined).collect::<Result<Vec<_>>>()
    })?;
    Ok(all.into_iter().flatten().collect())
}

impl Flying {
    fn open(index: usize, shot: &Shot<'_>) -> Result<Self> {
        let ipv6 = shot.target.is_ipv6();
        let (kind, number): (_, Option<Number>) = match shot.protocol {
            Protocol::Tcp => (SocketType::STREAM, None),
            Protocol::Udp => (SocketType::DGRAM, None),
            Protocol::Icmp if ipv6 => (SocketType::DGRAM, Some(ipproto::ICMPV6)),
            Protocol::Icmp => (SocketType::DGRAM, Some(ipproto::ICMP)),
            Protocol::Sctp => return Self::open_sctp(index, shot),
        };
        let family = if ipv6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, kind, flags, number)?;
        let source_port = loop {
            let port = shot.station.source_port();
            match bind(&socket, &SocketAddr::new(shot.source, port)) {
                Ok(()) => break port,
                Err(Errno::ADDRINUSE) => {}
                Err(error) => return Err(error).with_context(|| format!("from {}", shot.source)),
            }
        };
        let port = if shot.protocol == Protocol::Icmp { 0 } else { shot.port };
        match connect(&socket, &SocketAddr::new(shot.target, port)) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let said = match shot.protocol {
            Protocol::Udp => send(&socket, b"hello", SendFlags::empty()),
            Protocol::Icmp => send(&socket, &echo(ipv6), SendFlags::empty()),
            _ => Ok(0),
        };
        tolerant(said)?;
        Ok(Self { index, socket, source_port })
    }

    fn open_sctp(index: usize, shot: &Shot<'_>) -> Result<Self> {
        let socket = raw_sctp(shot.source)?;
        connect(&socket, &SocketAddr::new(shot.target, 0))?;
        let source_port = shot.station.source_port();
        let packet =
            Sctp { ports: (source_port, shot.port), answer: false, tag: u32::from(source_port) };
        tolerant(send(&socket, &packet.bytes(0), SendFlags::empty()))?;
        Ok(Self { index, socket, source_port })
    }

    /// What came, if it is an answer to this probe.
    fn read(&self, shot: &Shot<'_>) -> Option<Outcome> {
        let mut heard = [0; 512];
        loop {
            let length = match recv(self.socket.as_fd(), &mut heard[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => length,
                Err(Errno::AGAIN | Errno::INTR) => return None,
                Err(error) => return Some(Outcome::Refused(error.to_string())),
            };
            let bytes = heard.get(..length).unwrap_or_default();
            if shot.protocol != Protocol::Sctp {
                let name = match shot.protocol {
                    Protocol::Icmp => String::new(),
                    _ => String::from_utf8_lossy(bytes).into_owned(),
                };
                return Some(Outcome::Answered(name));
            }
            let packet = Sctp::read(payload(bytes, shot.target.is_ipv6()));
            let ours =
                |packet: Sctp| packet.answer && packet.ports == (shot.port, self.source_port);
            if packet.is_some_and(ours) {
                return Some(Outcome::Answered(String::new()));
            }
        }
    }
}

/// A queue that is full loses a packet as a wire does.
fn tolerant(sent: std::result::Result<usize, Errno>) -> Result<()> {
    match sent {
        Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::CONNREFUSED) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl std::fmt::Display for Shot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { station, source, target, protocol, port, .. } = self;
        write!(f, "{} ({source}) to {target} {protocol} {port}", station.name())
    }
}
