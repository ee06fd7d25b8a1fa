//! A storm: echo requests at a steady rate from one namespace to many targets of
//! both families, and an account of every single one.
//!
//! One thread sends, the targets in turn; one thread receives. The receiver must
//! never lose an answer itself, or the account would be of the storm and not of
//! the network: its sockets hold seconds of answers, hear nothing but answers to
//! their own requests, and [`Storm::stop`] asks the kernel whether they ever
//! overflowed. A request that could not leave counts as lost.
//!
//! ```no_run
//! # use rack::netns::Netns;
//! # use rack::storm::Storm;
//! # fn main() -> anyhow::Result<()> {
//! # let (netns, targets) = (Netns::new("tor")?, ["2001:db8::1".parse()?, "192.0.2.1".parse()?]);
//! let storm = Storm::start(&netns, &targets, 1000)?;
//! storm.await_answers(100)?; // Everything flows; now do something to it.
//! storm.await_answers(100)?;
//! storm.stop()?.ensure_perfect()?;
//! # Ok(())
//! # }
//! ```

mod echo;
mod tally;

use std::net::IpAddr;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::echo::{EchoSocket, Probe};
use self::tally::{Notes, Sent};
pub use self::tally::{Outcome, Tally};
use crate::netns::Netns;
use crate::wait::{PATIENCE, until};

/// The most probes a second; beyond it two cores measure themselves.
const MOST: u32 = 20_000;

/// How late the sender may be and still make up for it. A sender that was not
/// scheduled for longer leaves those probes out: a burst is no steady rate.
const CATCH_UP: Duration = Duration::from_millis(10);

/// How long the last answers are awaited; waited out only when some are lost.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How often the receiver looks whether it is over, in nanoseconds.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A storm that rages until it is stopped or dropped.
#[derive(Debug)]
pub struct Storm {
    netns: Netns,
    shared: Arc<Shared>,
    sender: Option<JoinHandle<Told>>,
    receiver: Option<JoinHandle<Result<Heard>>>,
}

/// What the sender knows at its end.
#[derive(Debug)]
struct Told {
    /// Of each target.
    sent: Vec<Sent>,
    /// Why the last of those that could not leave could not.
    refusal: Option<String>,
}

/// What the receiver knows at its end.
#[derive(Debug)]
struct Heard {
    /// Of each target.
    notes: Vec<Notes>,
    /// Answers to none of our probes.
    strange: u64,
}

/// What both threads and the test see while it rages.
#[derive(Debug)]
struct Shared {
    id: u64,
    lanes: Vec<Lane>,
    sockets: Vec<(bool, EchoSocket)>,
    /// The sender is to end.
    calm: AtomicBool,
    /// The sender has ended, and the receiver awaits the last answers.
    ebbing: AtomicBool,
}

/// One target and how it stands with it.
#[derive(Debug)]
struct Lane {
    target: IpAddr,
    sent: AtomicU64,
    refused: AtomicU64,
    answered: AtomicU64,
}

impl Storm {
    /// Starts with `rate` probes a second in all, from whichever address the
    /// kernel takes.
    pub fn start(netns: &Netns, targets: &[IpAddr], rate: u32) -> Result<Self> {
        Self::start_from(netns, &[], targets, rate)
    }

    /// The same from these source addresses, at most one of each family.
    pub fn start_from(
        netns: &Netns,
        sources: &[IpAddr],
        targets: &[IpAddr],
        rate: u32,
    ) -> Result<Self> {
        ensure!((1..=MOST).contains(&rate), "{rate} probes a second: take 1 to {MOST}");
        ensure!(!targets.is_empty(), "a storm without targets: name at least one");
        let mut sockets = Vec::new();
        for ipv6 in [false, true] {
            if targets.iter().any(|target| target.is_ipv6() == ipv6) {
                let source = sources.iter().copied().find(|source| source.is_ipv6() == ipv6);
                sockets.push((ipv6, netns.within(|| EchoSocket::open(ipv6, source))?));
            }
        }
        let shared = Arc::new(Shared {
            id: unique(),
            lanes: targets.iter().map(|target| Lane::new(*target)).collect(),
            sockets,
            calm: AtomicBool::new(false),
            ebbing: AtomicBool::new(false),
        });
        let (hearing, sending) = (Arc::clone(&shared), Arc::clone(&shared));
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let receiver = named("storm-receiver").spawn(move || hearing.receive())?;
        // Whole from here on: should the sender not start, it is taken down again.
        let netns = Netns::of_someone_else(&netns.path())?;
        let mut storm = Self { netns, shared, sender: None, receiver: Some(receiver) };
        storm.sender = Some(named("storm-sender").spawn(move || sending.send(rate))?);
        Ok(storm)
    }

    /// How many probes were sent so far.
    pub fn sent(&self) -> u64 {
        self.shared.sum(|lane| &lane.sent)
    }

    /// How many were answered so far.
    pub fn answered(&self) -> u64 {
        self.shared.sum(|lane| &lane.answered)
    }

    /// Awaits that every target has answered so many more probes.
    pub fn await_answers(&self, more: u64) -> Result<()> {
        self.await_each("answers", more, |lane| &lane.answered)
    }

    /// Awaits that every target was sent so many more probes, answered or not.
    pub fn await_sent(&self, more: u64) -> Result<()> {
        self.await_each("probes", more, |lane| &lane.sent)
    }

    fn await_each(&self, what: &str, more: u64, count: fn(&Lane) -> &AtomicU64) -> Result<()> {
        let now = |lane| count(lane).load(Ordering::Relaxed);
        let before: Vec<_> = self.shared.lanes.iter().map(now).collect();
        until(&format!("{more} more {what} of every target"), PATIENCE, || {
            for (lane, before) in self.shared.lanes.iter().zip(&before) {
                let came = now(lane) - before;
                ensure!(came >= more, "{came} of {}", lane.target);
            }
            Ok(())
        })
    }

    /// Stops sending, awaits the last answers, and tells what became of all.
    pub fn stop(mut self) -> Result<Outcome> {
        self.shared.calm.store(true, Ordering::Relaxed);
        let Told { sent, refusal } = ended(self.sender.take())?;
        self.shared.ebbing.store(true, Ordering::Release);
        let Heard { notes, strange } = ended(self.receiver.take())??;
        let sockets = &self.shared.sockets;
        let overflowed = self.netns.within(|| {
            sockets.iter().map(|(_, socket)| socket.overflowed()).sum::<Result<u64>>()
        })?;
        ensure!(overflowed == 0, "the storm lost {overflowed} answers itself: take a lower rate");
        let targets = notes.iter().zip(sent).map(|(notes, sent)| notes.tally(sent)).collect();
        Ok(Outcome { targets, strange, refusal })
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.shared.calm.store(true, Ordering::Relaxed);
        let _sender = ended(self.sender.take());
        self.shared.ebbing.store(true, Ordering::Release);
        let _receiver = ended(self.receiver.take());
    }
}

impl Lane {
    fn new(target: IpAddr) -> Self {
        let [sent, refused, answered] = [(); 3].map(|()| AtomicU64::new(0));
        Self { target, sent, refused, answered }
    }
}

impl Shared {
    fn sum(&self, count: fn(&Lane) -> &AtomicU64) -> u64 {
        self.lanes.iter().map(|lane| count(lane).load(Ordering::Relaxed)).sum()
    }

    fn socket(&self, target: IpAddr) -> Option<&EchoSocket> {
        let of_family = self.sockets.iter().find(|(ipv6, _)| *ipv6 == target.is_ipv6());
        of_family.map(|(_, socket)| socket)
    }

    /// Sends until told to end.
    fn send(&self, rate: u32) -> Told {
        let interval = Duration::from_secs(1) / rate;
        let start = Instant::now();
        let mut last = vec![start; self.lanes.len()];
        let mut refusal = None;
        let mut due = start;
        let turns = self.lanes.iter().zip(0_u32..).zip(0_usize..).cycle();
        for ((lane, target), at) in turns {
            if self.calm.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if let Some(reason) = self.probe(lane, target) {
                refusal = Some(reason);
            }
            let now = Instant::now();
            last.iter_mut().skip(at).take(1).for_each(|last| *last = now);
            due = (due + interval).max(now.checked_sub(CATCH_UP).unwrap_or(now));
        }
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let sent = self.lanes.iter().zip(last).map(|(lane, until)| Sent {
            probes: count(&lane.sent),
            refused: count(&lane.refused),
            until,
        });
        Told { sent: sent.collect(), refusal }
    }

    /// Sends the next probe of a target; why not, if it cannot leave.
    fn probe(&self, lane: &Lane, target: u32) -> Option<String> {
        // Counted first: the answer may be there before the call returns.
        let sequence = lane.sent.fetch_add(1, Ordering::Release);
        let probe = Probe { storm: self.id, target, sequence };
        let refused = self.socket(lane.target)?.send(lane.target, probe).err()?;
        lane.refused.fetch_add(1, Ordering::Relaxed);
        Some(format!("{}: {refused}", lane.target))
    }

    /// Receives until the sender has ended and everything is answered or late.
    fn receive(&self) -> Result<Heard> {
        let start = Instant::now();
        let mut notes: Vec<_> =
            self.lanes.iter().map(|lane| Notes::new(lane.target, start)).collect();
        let mut strange = 0;
        let mut deadline = None;
        loop {
            let mut waiting: Vec<_> = self
                .sockets
                .iter()
                .map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::IN))
                .collect();
            poll(&mut waiting, Some(&LOOK)).context("awaiting answers")?;
            for (_, socket) in &self.sockets {
                while let Some((from, probe)) = socket.receive()? {
                    strange += u64::from(!self.note(&mut notes, from, probe));
                }
            }
            if self.ebbing.load(Ordering::Acquire) {
                let settled = self.sum(|lane| &lane.answered) + self.sum(|lane| &lane.refused);
                let now = Instant::now();
                if settled >= self.sum(|lane| &lane.sent)
                    || now >= *deadline.get_or_insert(now + LAST_ANSWERS)
                {
                    return Ok(Heard { notes, strange });
                }
            }
        }
    }

    /// Notes an answer; false when it belongs to no probe that was sent.
    fn note(&self, notes: &mut [Notes], from: IpAddr, probe: Option<Probe>) -> bool {
        let Some(Probe { storm, target, sequence }) = probe else { return false };
        let at = usize::try_from(target).unwrap_or(usize::MAX);
        let (Some(notes), Some(lane)) = (notes.get_mut(at), self.lanes.get(at)) else {
            return false;
        };
        let known = storm == self.id
            && from == notes.target()
            && sequence < lane.sent.load(Ordering::Acquire);
        if known && notes.answer(sequence, Instant::now()) {
            lane.answered.fetch_add(1, Ordering::Relaxed);
        }
        known
    }
}

/// A number that no other storm has.
fn unique() -> u64 {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    (u64::from(process::id()) << 32) | u64::from(number)
}

/// What a thread returned.
fn ended<T>(thread: Option<JoinHandle<T>>) -> Result<T> {
    match thread.context("the storm is over")?.join() {
        Ok(returned) => Ok(returned),
        Err(_) => bail!("a thread of the storm panicked"),
    }
}
