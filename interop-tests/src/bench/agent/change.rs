//! What happens to a pod, until the route is in the kernel of the router beyond: a
//! readiness that flips (a manifest renamed into place), an ADD, a DEL; one at a
//! time, and five thousand while the agent is stopped.
//!
//! The floor and BIRD have their sessions with the same router at the same time,
//! and so has a plain thread that is told by a rename as the agent is.

use std::collections::VecDeque;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::process::Signal;

use super::journal::{Journal, RUST_LOG};
use super::node::Place;
use super::renamed::Renamed;
use crate::bench::bgp::change::{self, Entrant, addresses, is_of};
use crate::bench::bgp::kernel::{Change, News};
use crate::bench::samples::Samples;
use crate::netns::Netns;
use crate::wait::go_on;

/// Addresses of each pod that is Ready all the time; an annotation takes 64.
const PER_POD: usize = 50;
/// Pods whose readiness flips in turn, one address each. There are so many that
/// none is asked for again soon: an address may only be announced so often.
const POOL: u8 = 50;
/// Pods that come and go.
const ARENA: usize = 10;
/// The agent leaves the route of a withdrawn address for 5 s. Whoever comes back
/// before has nothing to lay, and would be measured with less to do.
const REST: Duration = Duration::from_secs(6);
/// Between changes, so that each finds everybody asleep.
const PAUSE: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(30);

/// An agent that is to take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Prefixes originated throughout.
    pub originated: usize,
    /// Whether pods flip on it.
    pub flips: bool,
    /// Whether pods come and go, each with a route of its own.
    pub calls: bool,
    /// Whether its log tells when it knew of a change; then the clock starts there.
    pub watched: bool,
}

/// What changes took, in milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// Ready.
    pub announce: Samples,
    /// No longer.
    pub withdraw: Samples,
}

/// What calls took, in milliseconds, each from the start of the plugin.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// ADD, until the route is there.
    pub add: Samples,
    /// ADD, until it is answered.
    pub add_answered: Samples,
    /// DEL, until the route is gone.
    pub del: Samples,
    /// DEL, until it is answered.
    pub del_answered: Samples,
}

/// The rack.
#[derive(Debug)]
pub struct Rack {
    /// The floor and BIRD.
    pub others: change::Rack,
    renamed: Renamed,
    agents: Vec<Agent>,
}

#[derive(Debug)]
struct Agent {
    place: Place,
    /// Pods that flip, the longest unused first, and when they were withdrawn.
    pool: VecDeque<(usize, Option<Instant>)>,
    arena: VecDeque<usize>,
    journal: Option<Journal>,
}

impl Rack {
    /// Builds it and awaits that everybody's prefixes are in the router's kernel.
    pub fn new(others: &[Entrant], wanted: &[Wanted], dir: &Path) -> Result<Self> {
        let tor = Netns::new("tor")?;
        tor.loopback_up()?;
        let mut numbers = (1_u8..).skip(others.len());
        let renamed = Renamed::plug(&tor, numbers.next().context("no number")?)?;
        let mut guests = vec![renamed.number];
        let mut places = Vec::new();
        for (wanted, number) in wanted.iter().zip(numbers) {
            places.push((wanted, Place::plug(&tor, number, wanted.calls, dir)?));
            guests.push(number);
        }
        let others = change::Rack::with_guests(tor, others, &guests)?;
        renamed.start()?;
        let mut rack = Self { others, renamed, agents: Vec::new() };
        for (wanted, place) in places {
            go_on()?;
            let agent = rack.settle(wanted, place)?;
            rack.agents.push(agent);
        }
        Ok(rack)
    }

    fn settle(&mut self, wanted: &Wanted, mut place: Place) -> Result<Agent> {
        place.start(if wanted.watched { &[("RUST_LOG", RUST_LOG)] } else { &[] })?;
        let number = place.number;
        let all = addresses(number, 0, wanted.originated);
        place.attach(all.chunks(PER_POD).map(<[_]>::to_vec).collect(), true)?;
        let pool = if wanted.flips {
            let one = |last| vec![Ipv4Addr::new(10, 100 + number, 250, last)];
            let first = place.attach((0..POOL).map(one).collect(), false)?;
            (first..).take(usize::from(POOL)).map(|member| (member, None)).collect()
        } else {
            VecDeque::new()
        };
        let arena = if wanted.calls {
            (place.invite(vec![Vec::new(); ARENA])?..).take(ARENA).collect()
        } else {
            VecDeque::new()
        };
        let there = self.others.until(Change::Installed, wanted.originated, is_of(number));
        place.explain(there).with_context(|| format!("the prefixes of node {number}"))?;
        let log = place.node().file("agent.log");
        let journal = wanted.watched.then(|| Journal::open(&log)).transpose()?;
        Ok(Agent { place, pool, arena, journal })
    }

    /// A turn of the plain thread that is told by a rename.
    pub fn renamed(&mut self, count: u8, times: &mut Times) -> Result<()> {
        let number = self.renamed.number;
        for last in 0..count {
            for change in [Change::Installed, Change::Removed] {
                let address = Ipv4Addr::new(10, 100 + number, 250, last);
                let (from, to) = self.renamed.prepare(change, address)?;
                let rename = || Ok(fs::rename(from, to)?);
                let (start, end) = seen(rename, || self.others.until(change, 1, is_of(number)))?;
                times.of(change).push(milliseconds(start, end));
            }
        }
        Ok(())
    }

    /// A turn of one agent: pods that become Ready, and are not any more.
    pub fn flips(&mut self, agent: usize, count: u8, times: &mut Times) -> Result<()> {
        for _ in 0..count {
            let known = self.agents.get_mut(agent).context("no such agent")?;
            let (member, withdrawn) = known.pool.pop_front().context("nobody flips here")?;
            thread::sleep(withdrawn.map_or(PAUSE, |at| REST.saturating_sub(at.elapsed())));
            times.announce.push(self.flip(agent, member, Change::Installed)?);
            times.withdraw.push(self.flip(agent, member, Change::Removed)?);
            let known = self.agents.get_mut(agent).context("no such agent")?;
            known.pool.push_back((member, Some(Instant::now())));
        }
        Ok(())
    }

    fn flip(&mut self, agent: usize, member: usize, change: Change) -> Result<f64> {
        go_on()?;
        let agent = self.agents.get_mut(agent).context("no such agent")?;
        let ready = agent.place.flip(member, change == Change::Installed)?;
        let number = agent.place.number;
        let seen = seen(|| ready.go(), || self.others.until(change, 1, is_of(number)));
        let (start, end) = agent.place.explain(seen)?;
        match &mut agent.journal {
            Some(journal) => journal.since_news(end),
            None => Ok(milliseconds(start, end)),
        }
    }

    /// A turn of one agent: pods that come and go.
    pub fn calls(&mut self, agent: usize, count: usize, calls: &mut Calls) -> Result<()> {
        for _ in 0..count {
            let known = self.agents.get_mut(agent).context("no such agent")?;
            let member = known.arena.pop_front().context("nobody comes or goes here")?;
            let (told, answered) = self.call(agent, "ADD", member, Change::Installed)?;
            calls.add.push(told);
            calls.add_answered.push(answered);
            let (told, answered) = self.call(agent, "DEL", member, Change::Removed)?;
            calls.del.push(told);
            calls.del_answered.push(answered);
            let known = self.agents.get_mut(agent).context("no such agent")?;
            known.arena.push_back(member);
        }
        Ok(())
    }

    fn call(
        &mut self,
        agent: usize,
        command: &str,
        member: usize,
        change: Change,
    ) -> Result<(f64, f64)> {
        go_on()?;
        let place = &self.agents.get(agent).context("no such agent")?.place;
        let others = &mut self.others;
        thread::scope(|scope| {
            let caller = scope.spawn(|| {
                place.node().netns().enter()?;
                thread::sleep(PAUSE);
                place.call(command, member)
            });
            // Read while the call is made: the route may be there before the answer.
            let end = others.until(change, 1, |address| place.is_pod(address));
            let called = caller.join().unwrap_or_else(|_| Err(anyhow!("the caller panicked")));
            let (start, answered) = called?;
            Ok((milliseconds(start, end?), milliseconds(start, answered)))
        })
    }

    /// So many changes of manifests while an agent is stopped, the last of which
    /// take all their addresses away, or give them back; the clock starts when it
    /// may go on. Every address is concerned by many of the changes, and told once.
    pub fn stopped(&mut self, agent: usize, changes: usize, times: &mut Times) -> Result<()> {
        let crowd = changes / PER_POD;
        times.withdraw.push(self.stop(agent, crowd, changes, Change::Removed)?);
        times.announce.push(self.stop(agent, crowd, changes, Change::Installed)?);
        Ok(())
    }

    fn stop(&mut self, agent: usize, crowd: usize, count: usize, last: Change) -> Result<f64> {
        let agent = self.agents.get_mut(agent).context("no such agent")?;
        let number = agent.place.number;
        let mut near = News::of(agent.place.node().netns())?;
        agent.place.signal(Signal::STOP)?;
        let changed = change_all(&agent.place, crowd, count, last);
        let start = Instant::now();
        agent.place.signal(Signal::CONT)?;
        changed?;
        let end = self.others.until(last, crowd * PER_POD, is_of(number));
        let end = agent.place.explain(end)?;
        if last == Change::Removed {
            // Their routes linger; who comes back before they are gone has less to do.
            near.until(last, crowd * PER_POD, LIMIT, is_of(number))?;
        }
        Ok(milliseconds(start, end))
    }

    /// Takes everything down; far faster than dropping it.
    pub fn dismiss(self) -> Result<()> {
        self.agents.into_iter().try_for_each(|agent| agent.place.dismiss())
    }
}

/// When something was done, and when the router's kernel told of it. Who reads its news waits for them
/// before anything happens: a rename may go on for as long as it takes the disk to write its journal,
/// and the news would lie unread meanwhile.
fn seen(
    act: impl FnOnce() -> Result<()> + Send,
    until: impl FnOnce() -> Result<Instant>,
) -> Result<(Instant, Instant)> {
    thread::scope(|scope| {
        let actor = scope.spawn(|| {
            thread::sleep(PAUSE);
            let start = Instant::now();
            act().map(|()| start)
        });
        let end = until();
        let start = actor.join().unwrap_or_else(|_| Err(anyhow!("who acts panicked")))?;
        Ok((start, end?))
    })
}

/// Flips the first pods again and again, so that the last change of each is this.
fn change_all(place: &Place, crowd: usize, count: usize, last: Change) -> Result<()> {
    for left in (0..count / crowd).rev() {
        let ready = (last == Change::Installed) == (left % 2 == 0);
        (0..crowd).try_for_each(|member| place.flip(member, ready)?.go())?;
    }
    Ok(())
}

impl Times {
    /// Adds what another turn took.
    pub fn join(&mut self, other: Self) {
        self.announce.join(other.announce);
        self.withdraw.join(other.withdraw);
    }

    fn of(&mut self, change: Change) -> &mut Samples {
        match change {
            Change::Installed => &mut self.announce,
            Change::Removed => &mut self.withdraw,
        }
    }
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1000.0
}
