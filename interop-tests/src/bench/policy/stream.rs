//! Probes that tell from when on packets obey: one UDP packet after the other,
//! each from a socket of its own, so that no connection that is known already
//! hides what new ones meet.
//!
//! A change counts as obeyed from the first probe on after which every one obeys.
//! Whoever judges empties the receiver's socket himself and looks only at probes
//! that are a while ago: no thread that had to wait for a processor can pass for a
//! packet that was dropped.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::netns::Netns;
use crate::wait::go_on;

/// Between two probes.
const INTERVAL: Duration = Duration::from_micros(200);
/// A packet that is not there after this was dropped.
const GRACE: Duration = Duration::from_millis(4);
/// So many in a row have to obey.
const ENOUGH: usize = 40;
/// The receiver holds seconds of probes.
const BUFFER: usize = 8 << 20;
const LIMIT: Duration = Duration::from_secs(20);

/// What is to become of the probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// They arrive.
    Pass,
    /// They do not.
    Drop,
}

/// Probes on their way until it is dropped.
#[derive(Debug)]
pub struct Stream {
    receiver: UdpSocket,
    shared: Arc<Shared>,
    sender: Option<JoinHandle<Result<()>>>,
    /// Of each probe, by its number.
    arrived: Vec<bool>,
}

#[derive(Debug, Default)]
struct Shared {
    /// When each probe was sent.
    sent: Mutex<Vec<Instant>>,
    over: AtomicBool,
}

impl Stream {
    /// From an address of one namespace to one of another.
    pub fn start(from: &Netns, source: IpAddr, to: &Netns, target: IpAddr) -> Result<Self> {
        let receiver = to.within(|| Ok(UdpSocket::bind((target, 0))?))?;
        set_socket_recv_buffer_size_force(&receiver, BUFFER)?;
        receiver.set_nonblocking(true)?;
        let target = receiver.local_addr()?;
        let shared = Arc::new(Shared::default());
        let (sending, from) = (Arc::clone(&shared), Netns::of_someone_else(&from.path())?);
        let sender = thread::spawn(move || {
            from.enter()?;
            sending.send(source, target)
        });
        Ok(Self { receiver, shared, sender: Some(sender), arrived: Vec::new() })
    }

    /// Does something and tells how many milliseconds later probes obey; `act`
    /// returns when it began. The probes must not have obeyed before.
    pub fn after(&mut self, fate: Fate, act: impl FnOnce() -> Result<Instant>) -> Result<f64> {
        let began = act()?;
        Ok(self.judge(fate, began)?.as_secs_f64() * 1000.0)
    }

    /// Awaits that probes obey.
    pub fn await_fate(&mut self, fate: Fate) -> Result<()> {
        self.judge(fate, Instant::now()).map(drop)
    }

    fn judge(&mut self, fate: Fate, began: Instant) -> Result<Duration> {
        let deadline = Instant::now() + LIMIT;
        loop {
            go_on()?;
            thread::sleep(GRACE);
            let now = Instant::now();
            self.empty()?;
            let sent = self.shared.sent.lock().unwrap_or_else(PoisonError::into_inner);
            let since = obeying_since(&sent, &self.arrived, fate, began, now - GRACE);
            drop(sent);
            match since {
                Some(since) => return Ok(since),
                None if now > deadline => {
                    self.sound()?;
                    bail!("after {LIMIT:?} the probes do not {fate:?} for good");
                }
                None => {}
            }
        }
    }

    /// Takes note of everything that arrived.
    fn empty(&mut self) -> Result<()> {
        let mut number = [0; 8];
        loop {
            match self.receiver.recv(&mut number) {
                Ok(_) => {
                    let at = usize::try_from(u64::from_be_bytes(number))?;
                    if self.arrived.len() <= at {
                        self.arrived.resize(at + 1, false);
                    }
                    self.arrived.iter_mut().skip(at).take(1).for_each(|known| *known = true);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("receiving probes"),
            }
        }
    }

    /// Fails with the sender's own failure, if it has ended.
    fn sound(&mut self) -> Result<()> {
        match self.sender.take() {
            Some(sender) if sender.is_finished() => {
                sender.join().unwrap_or_else(|_| Err(anyhow!("the sender panicked")))
            }
            sender => {
                self.sender = sender;
                Ok(())
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            let _told_already = sender.join();
        }
    }
}

impl Shared {
    fn send(&self, source: IpAddr, target: SocketAddr) -> Result<()> {
        let mut due = Instant::now();
        for number in 0_u64.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let socket = UdpSocket::bind((source, 0))?;
            let now = Instant::now();
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(now);
            // A firewall may answer an earlier one; that is no reason to stop.
            let _refused = socket.send_to(&number.to_be_bytes(), target);
            due = (due + INTERVAL).max(now);
        }
        Ok(())
    }
}

/// How long after `began` the first probe was sent from which on all met their
/// fate; none while too few did. Probes after `until` are too young to tell.
fn obeying_since(
    sent: &[Instant],
    arrived: &[bool],
    fate: Fate,
    began: Instant,
    until: Instant,
) -> Option<Duration> {
    let first = sent.partition_point(|at| *at < began);
    let last = sent.partition_point(|at| *at < until);
    let obeys = |probe: &usize| {
        let passed = arrived.get(*probe).copied().unwrap_or(false);
        passed == (fate == Fate::Pass)
    };
    let obedient = (first..last).rev().take_while(obeys).count();
    let since = sent.get(last.checked_sub(obedient)?)?;
    (obedient >= ENOUGH).then(|| since.saturating_duration_since(began))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_obeyed_from_the_first_on_after_which_all_obey() {
        let start = Instant::now();
        let at = |probe: u32| start + probe * INTERVAL;
        let sent: Vec<_> = (0..200).map(at).collect();
        // 70 obeys by chance and 71 does not.
        let arrived: Vec<_> = (0..200).map(|probe| probe == 70 || probe >= 72).collect();
        let since = |fate, until| obeying_since(&sent, &arrived, fate, at(50), at(until));
        assert_eq!(since(Fate::Pass, 200), Some(at(72) - at(50)));
        assert_eq!(since(Fate::Pass, 100), None, "too few to tell");
        assert_eq!(since(Fate::Drop, 200), None);
        // What the receiver never heard of did not arrive.
        let deaf = obeying_since(&sent, &[], Fate::Drop, at(50), at(100));
        assert_eq!(deaf, Some(Duration::ZERO));
    }
}
