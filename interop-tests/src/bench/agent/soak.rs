//! Changes without end: pods whose readiness flips so many times a second and, less
//! often, pods that come and go, for as long as is asked for. Whether what is resident
//! of the agent grows is for the caller to judge; what grows with time alone and what
//! grows with use look the same from here.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::busy::{Scene, flip};
use super::node::Place;
use crate::wait::go_on;

/// Pods that come and go.
const ARENA: usize = 20;
/// How long a look at the clock may be put off.
const TICK: Duration = Duration::from_millis(20);

/// What is to be done to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Soak {
    /// Prefixes that are originated throughout.
    pub originated: usize,
    /// Pods that become Ready, or stop being so, a second.
    pub changes_a_second: u32,
    /// ADDs and DELs a second, as many of each.
    pub calls_a_second: u32,
    /// For so long.
    pub duration: Duration,
    /// How often what is resident is looked at.
    pub every: Duration,
}

/// One look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Since the beginning.
    pub at: Duration,
    /// Bytes of the agent.
    pub resident: u64,
    /// Processor time of the agent until then.
    pub processor: Duration,
    /// Calls that were answered until then.
    pub calls: u64,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Soaked {
    /// In order.
    pub samples: Vec<Sample>,
    /// Changes of readiness that were made.
    pub changes: u64,
    /// Calls that were answered.
    pub calls: u64,
}

impl Soaked {
    /// By how many bytes the median of the last third of what came after `warm_up` is above
    /// that of the first third.
    pub fn growth(&self, warm_up: Duration) -> i64 {
        let later: Vec<_> = self.samples.iter().filter(|sample| sample.at >= warm_up).collect();
        let third = later.len().div_ceil(3);
        let median = |samples: &[&Sample]| {
            let mut resident: Vec<u64> = samples.iter().map(|sample| sample.resident).collect();
            resident.sort_unstable();
            resident.get(resident.len() / 2).copied().unwrap_or_default()
        };
        let (first, last) = (later.iter().take(third), later.iter().rev().take(third));
        let [first, last] = [
            median(&first.copied().collect::<Vec<_>>()),
            median(&last.copied().collect::<Vec<_>>()),
        ];
        i64::try_from(last).unwrap_or(i64::MAX) - i64::try_from(first).unwrap_or(i64::MAX)
    }
}

/// Does it to a node of its own; `look` is told of each sample as it is taken.
pub fn soak(dir: &Path, wishes: &Soak, mut look: impl FnMut(&Sample)) -> Result<Soaked> {
    let mut scene = Scene::new(dir, wishes.originated, true)?;
    let first = scene.place.invite(vec![Vec::new(); ARENA])?;
    let pid = scene.place.node_mut().agent()?.pid();
    let crowd = scene.crowd();
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let place = &scene.place;
    let soaked = thread::scope(|scope| {
        let flips = scope.spawn(|| flip(place, &crowd, wishes.changes_a_second, &stop));
        let called = scope.spawn(|| call(place, first, wishes.calls_a_second, &calls, &stop));
        let samples = watch(pid, wishes, &calls, &stop, &mut look);
        stop.store(true, Ordering::Relaxed);
        let (changes, _) =
            flips.join().unwrap_or_else(|_| Err(anyhow!("the flipping panicked")))?;
        called.join().unwrap_or_else(|_| Err(anyhow!("the calling panicked")))?;
        Ok::<_, anyhow::Error>(Soaked {
            samples: samples?,
            changes,
            calls: calls.load(Ordering::Relaxed),
        })
    });
    let soaked = scene.place.explain(soaked)?;
    // The agent is still the same process, and still does what it is there for.
    ensure!(scene.place.node_mut().agent()?.pid() == pid, "another agent runs by now");
    scene.catch_up()?;
    scene.measure(0, 1)?;
    scene.dismiss()?;
    Ok(soaked)
}

fn watch(
    pid: u32,
    wishes: &Soak,
    calls: &AtomicU64,
    stop: &AtomicBool,
    look: &mut impl FnMut(&Sample),
) -> Result<Vec<Sample>> {
    let start = Instant::now();
    let mut samples = Vec::new();
    let mut next = wishes.every;
    while start.elapsed() < wishes.duration && !stop.load(Ordering::Relaxed) {
        go_on()?;
        if start.elapsed() >= next {
            next += wishes.every;
            let usage = crate::bench::bgp::usage::of(pid)?;
            let sample = Sample {
                at: start.elapsed(),
                resident: usage.resident,
                processor: usage.processor,
                calls: calls.load(Ordering::Relaxed),
            };
            look(&sample);
            samples.push(sample);
        }
        thread::sleep(TICK);
    }
    Ok(samples)
}

/// Pods that come, each when the one before it has gone.
fn call(
    place: &Place,
    first: usize,
    calls_a_second: u32,
    calls: &AtomicU64,
    stop: &AtomicBool,
) -> Result<()> {
    if calls_a_second == 0 {
        return Ok(());
    }
    place.node().netns().enter()?;
    let pause = Duration::from_secs(1) / calls_a_second;
    let mut next = Instant::now();
    for turn in 0.. {
        let member = first + turn % ARENA;
        for command in ["ADD", "DEL"] {
            // Also where the calls lag behind; a pod that came goes first.
            if stop.load(Ordering::Relaxed) && command == "ADD" {
                return Ok(());
            }
            while Instant::now() < next {
                go_on()?;
                if stop.load(Ordering::Relaxed) && command == "ADD" {
                    return Ok(());
                }
                thread::sleep(TICK.min(next.saturating_duration_since(Instant::now())));
            }
            next += pause;
            place.call(command, member)?;
            calls.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_of_what_comes_after_the_warm_up() {
        let soaked = |resident: &[u64]| Soaked {
            samples: (0..)
                .zip(resident)
                .map(|(at, resident)| Sample {
                    at: Duration::from_secs(at),
                    resident: *resident,
                    processor: Duration::ZERO,
                    calls: 0,
                })
                .collect(),
            ..Soaked::default()
        };
        let warm_up = Duration::from_secs(2);
        assert_eq!(soaked(&[1, 5, 9, 9, 9, 9, 9, 9]).growth(warm_up), 0);
        assert_eq!(soaked(&[1, 5, 9, 9, 99, 10, 11, 11]).growth(warm_up), 2);
        assert_eq!(soaked(&[1, 5, 9, 9, 8, 7, 7, 7]).growth(warm_up), -2);
        assert_eq!(soaked(&[]).growth(warm_up), 0);
    }
}
