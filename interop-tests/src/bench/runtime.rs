//! A node full of pods at once, through containerd: how long until all sandboxes are there, and until
//! all are gone again.
//!
//! Decides how the runtime is asked (over its CRI, a bounded number of calls at a time, as kubelet
//! does) and that contestants take turns on nodes of their own. Most of such a time is the runtime's
//! own (runc, shims, mounts): sandboxes in the node's network namespace, for which no plugin is
//! called, are the floor. The reference `loopback` serves all of them.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};
use tempfile::TempDir;

use super::samples::Samples;
use crate::containerd::Containerd;
use crate::cri::SandboxConfig;
use crate::manifests::node_config;
use crate::names;
use crate::network::PluginUnderTest;
use crate::node::{Builder, Node};
use crate::wait::go_on;

/// Room for every round: released addresses rest for a minute.
const FLOCK_V6: &str = "fd00:198::/64";
const FLOCK_V4: &str = "10.198.0.0/16";
const PTP_V4: &str = "10.197.0.0/16";

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Pods in a round.
    pub pods: usize,
    /// Calls to the runtime at a time.
    pub at_once: usize,
    /// Rounds that each contestant has, beside one that warms it up.
    pub rounds: usize,
}

/// What one contestant's rounds gave, in milliseconds for all pods of a round.
#[derive(Debug, Default, Clone)]
pub struct Rounds {
    /// Until the last sandbox was there.
    pub started: Samples,
    /// Until the last one was stopped and removed.
    pub removed: Samples,
}

/// All contestants.
#[derive(Debug, Default, Clone)]
pub struct Outcome {
    /// flock, dual-stack.
    pub flock: Rounds,
    /// ptp with host-local, IPv4 only.
    pub ptp: Rounds,
    /// The runtime alone.
    pub floor: Rounds,
}

/// Fills nodes through containerd, and empties them. State goes to the disk that holds `dir`.
pub fn measure(dir: &Path, extent: Extent) -> Result<Outcome> {
    let contestants = [Contestant::flock(dir)?, Contestant::ptp(dir)?, Contestant::nobody()?];
    let mut all: [Rounds; 3] = Default::default();
    for round in 0..=extent.rounds {
        let mut order: Vec<_> = contestants.iter().zip(&mut all).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (contestant, rounds) in order {
            contestant.round(extent, rounds)?;
        }
        if round == 0 {
            all = Default::default();
        }
    }
    let [flock, ptp, floor] = all;
    Ok(Outcome { flock, ptp, floor })
}

struct Contestant {
    // The order matters: the runtime goes before its node.
    containerd: Containerd,
    host_network: bool,
    node: Node,
    _allocations: Option<TempDir>,
}

impl Contestant {
    fn flock(dir: &Path) -> Result<Self> {
        let mut node = Builder::default().state_in(dir).build()?;
        node.configure(&node_config(node.name(), &[FLOCK_V6], &[FLOCK_V4]))?;
        node.start()?;
        node.await_ready()?;
        let network = node.flock_network();
        Self::on(node, &network, false, None)
    }

    fn ptp(dir: &Path) -> Result<Self> {
        let allocations = tempfile::Builder::new().prefix("host-local-").tempdir_in(dir)?;
        let network = PluginUnderTest::ptp(allocations.path(), &[PTP_V4]);
        Self::on(Node::new()?, &network, false, Some(allocations))
    }

    /// Its network is never asked for, but the runtime wants to know of one.
    fn nobody() -> Result<Self> {
        let allocations = tempfile::tempdir()?;
        let network = PluginUnderTest::ptp(allocations.path(), &[PTP_V4]);
        Self::on(Node::new()?, &network, true, Some(allocations))
    }

    fn on(
        node: Node,
        network: &PluginUnderTest,
        host_network: bool,
        allocations: Option<TempDir>,
    ) -> Result<Self> {
        let plugins = node.install_plugins()?;
        let containerd = Containerd::start(&node, &plugins, &network.conflist("rack", &[]))?;
        Ok(Self { containerd, host_network, node, _allocations: allocations })
    }

    fn round(&self, extent: Extent, rounds: &mut Rounds) -> Result<()> {
        let cri = self.containerd.cri();
        let pods: Vec<SandboxConfig> = (0..extent.pods).map(|_| self.sandbox()).collect();
        let (started, ids) = timed(&pods, extent.at_once, |pod| cri.run_pod_sandbox(pod))?;
        rounds.started.push(started);
        let (removed, _) = timed(&ids, extent.at_once, |id| {
            cri.stop_pod_sandbox(id)?;
            cri.remove_pod_sandbox(id)
        })?;
        rounds.removed.push(removed);
        // Nobody's turn begins while links of another's are deleted.
        self.node.await_no_leftovers()
    }

    fn sandbox(&self) -> SandboxConfig {
        let host_network = self.host_network;
        SandboxConfig { host_network, ..self.containerd.sandbox(&names::unique("pod")) }
    }
}

/// One call for each, several at a time: milliseconds until the last has ended, and what they said.
fn timed<T: Sync, R: Send>(
    all: &[T],
    at_once: usize,
    call: impl Fn(&T) -> Result<R> + Sync,
) -> Result<(f64, Vec<R>)> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<R>> {
        let mut said = Vec::new();
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            go_on()?;
            said.push(call(one)?);
        }
        Ok(said)
    };
    let start = Instant::now();
    let said = thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once.max(1)).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let said: Vec<_> =
            ended.map(|said| said.unwrap_or_else(|_| Err(anyhow!("panicked")))).collect();
        said.into_iter().collect::<Result<Vec<_>>>()
    })?;
    let elapsed = start.elapsed().as_secs_f64() * 1000.0;
    Ok((elapsed, said.into_iter().flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_is_called_once_and_a_failure_is_told() {
        let all: Vec<usize> = (0..50).collect();
        let (_, mut said) = timed(&all, 4, |number| Ok(*number)).unwrap();
        said.sort_unstable();
        assert_eq!(said, all);
        let failed =
            timed(&all, 4, |number| if *number == 20 { Err(anyhow!("no")) } else { Ok(()) });
        assert_eq!(failed.unwrap_err().to_string(), "no");
    }

    /// Needs containerd, as the other tests of it do.
    #[test]
    fn all_contestants_are_filled_and_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let extent = Extent { pods: 2, at_once: 2, rounds: 1 };
        let outcome = measure(dir.path(), extent).unwrap();
        for rounds in [outcome.flock, outcome.ptp, outcome.floor] {
            assert!(rounds.started.median() > 0.0 && rounds.removed.median() > 0.0);
        }
    }
}
