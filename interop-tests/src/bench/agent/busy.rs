//! One more change on a node that is busy with others: pods whose readiness flips so
//! many times a second, while single changes are timed from the rename of a manifest
//! to the kernel of the router beyond.
//!
//! The pods that flip are so many that none is asked for more often than an address
//! may be announced, and so is the pool of which single ones are timed.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::change::Times;
use super::node::Place;
use crate::bench::bgp::change::{self, addresses, is_of};
use crate::bench::bgp::kernel::Change;
use crate::bench::bgp::usage::{self, Usage};
use crate::netns::Netns;
use crate::wait::go_on;

/// The node's number on the rack.
const NUMBER: u8 = 1;
/// Addresses of each pod that is Ready all the time; an annotation takes 64.
const PER_POD: usize = 50;
/// Pods that flip all the time, one address each: at a thousand changes a second each
/// becomes Ready once a second, which is how often it may be announced.
pub const CROWD: usize = 500;
/// Pods whose changes are timed.
const POOL: u8 = 50;
/// The route of a withdrawn address lingers for 5 s; who comes back before has less to do.
const REST: Duration = Duration::from_secs(6);
/// Where the crowd's addresses begin, and the pool's.
const CROWD_THIRD: u8 = 100;
const POOL_THIRD: u8 = 250;
/// Between timed changes.
const PAUSE: Duration = Duration::from_millis(3);
/// How long the flipping goes on before anything is timed.
const WARM_UP: Duration = Duration::from_secs(2);
/// What the load's own clock is good for.
const TICK: Duration = Duration::from_millis(1);

/// What was measured.
#[derive(Debug, Clone, Default)]
pub struct Busy {
    /// Single changes, in milliseconds from the rename.
    pub times: Times,
    /// Changes a second that the others really made.
    pub rate: f64,
    /// Of one processor, what the agent took meanwhile (1.0: all of it).
    pub processor: f64,
    /// The agent's resident megabytes at the end.
    pub resident: f64,
}

/// A node with the agent, pods that flip, and a router beyond.
#[derive(Debug)]
pub struct Scene {
    router: change::Rack,
    pub(super) place: Place,
    crowd: Range<usize>,
    pool: VecDeque<(usize, Option<Instant>)>,
}

impl Scene {
    /// Builds it with so many prefixes that are originated throughout, and awaits them in
    /// the router's kernel. With `calls` each pod's own address is announced as well.
    pub fn new(dir: &Path, originated: usize, calls: bool) -> Result<Self> {
        let tor = Netns::new("tor")?;
        tor.loopback_up()?;
        let mut place = Place::plug(&tor, NUMBER, calls, dir)?;
        let mut router = change::Rack::with_guests(tor, &[], &[NUMBER])?;
        place.start(&[])?;
        let all = addresses(NUMBER, 0, originated);
        place.attach(all.chunks(PER_POD).map(<[_]>::to_vec).collect(), true)?;
        let alone = |address: &Ipv4Addr| vec![*address];
        let crowd: Vec<_> = addresses(NUMBER, CROWD_THIRD, CROWD).iter().map(alone).collect();
        let first = place.attach(crowd, false)?;
        let crowd = first..first + CROWD;
        let pool: Vec<_> =
            addresses(NUMBER, POOL_THIRD, usize::from(POOL)).iter().map(alone).collect();
        let first = place.attach(pool, false)?;
        let pool = (first..).take(usize::from(POOL)).map(|member| (member, None)).collect();
        let there = router.until(Change::Installed, originated, is_of(NUMBER));
        place.explain(there).context("the prefixes that are originated throughout")?;
        Ok(Self { router, place, crowd, pool })
    }

    /// Times so many changes each way while others are made, so many a second (0: none).
    pub fn measure(&mut self, changes_a_second: u32, count: usize) -> Result<Busy> {
        let pid = self.place.node_mut().agent()?.pid();
        let Self { router, place, crowd, pool } = self;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let load = scope.spawn(|| flip(place, crowd, changes_a_second, &stop));
            let timed = time_all(router, place, pool, count, pid);
            stop.store(true, Ordering::Relaxed);
            let (made, took) = load.join().unwrap_or_else(|_| Err(anyhow!("the load panicked")))?;
            let (times, processor) = timed?;
            let resident = usage::of(pid)?.resident as f64 / f64::from(1 << 20);
            let rate = made as f64 / took.as_secs_f64();
            Ok(Busy { times, rate, processor, resident })
        })
    }

    /// Forgets what nobody has read of the router's news, which may be more than there was room for.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        self.router.catch_up()
    }

    /// What the agent has used.
    pub fn usage(&mut self) -> Result<Usage> {
        usage::of(self.place.node_mut().agent()?.pid())
    }

    /// The pods that flip.
    pub(super) fn crowd(&self) -> Range<usize> {
        self.crowd.clone()
    }

    /// Takes everything down; far faster than dropping it.
    pub fn dismiss(self) -> Result<()> {
        self.place.dismiss()
    }
}

/// A scene of its own, measured once.
pub fn busy(dir: &Path, originated: usize, changes_a_second: u32, count: usize) -> Result<Busy> {
    let mut scene = Scene::new(dir, originated, false)?;
    let measured = scene.measure(changes_a_second, count)?;
    scene.dismiss()?;
    Ok(measured)
}

/// Flips pods in turn until told to stop; how many changes that were, and how long it took.
pub(super) fn flip(
    place: &Place,
    crowd: &Range<usize>,
    changes_a_second: u32,
    stop: &AtomicBool,
) -> Result<(u64, Duration)> {
    let start = Instant::now();
    let mut made = 0;
    while !stop.load(Ordering::Relaxed) {
        go_on()?;
        let due = start.elapsed().as_micros() * u128::from(changes_a_second) / 1_000_000;
        while u128::from(made) < due && !stop.load(Ordering::Relaxed) {
            let turn = usize::try_from(made)?;
            let member = crowd.start + turn % crowd.len();
            place.flip(member, (turn / crowd.len()).is_multiple_of(2))?.go()?;
            made += 1;
        }
        thread::sleep(TICK);
    }
    Ok((made, start.elapsed()))
}

fn time_all(
    router: &mut change::Rack,
    place: &Place,
    pool: &mut VecDeque<(usize, Option<Instant>)>,
    count: usize,
    pid: u32,
) -> Result<(Times, f64)> {
    thread::sleep(WARM_UP);
    let (began, before) = (Instant::now(), usage::of(pid)?.processor);
    let mut times = Times::default();
    for _ in 0..count {
        let (member, withdrawn) = pool.pop_front().context("nobody is timed")?;
        thread::sleep(withdrawn.map_or(PAUSE, |at| REST.saturating_sub(at.elapsed())));
        times.announce.push(time(router, place, member, Change::Installed)?);
        times.withdraw.push(time(router, place, member, Change::Removed)?);
        pool.push_back((member, Some(Instant::now())));
    }
    let used = usage::of(pid)?.processor.saturating_sub(before);
    Ok((times, used.as_secs_f64() / began.elapsed().as_secs_f64()))
}

fn time(router: &mut change::Rack, place: &Place, member: usize, change: Change) -> Result<f64> {
    go_on()?;
    let ready = place.flip(member, change == Change::Installed)?;
    thread::sleep(PAUSE);
    let start = Instant::now();
    ready.go()?;
    let timed = |address: Ipv4Addr| address.octets().starts_with(&[10, 100 + NUMBER, POOL_THIRD]);
    let end = router.until(change, 1, timed)?;
    Ok(end.saturating_duration_since(start).as_secs_f64() * 1000.0)
}
