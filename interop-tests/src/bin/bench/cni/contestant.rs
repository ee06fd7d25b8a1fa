//! One plugin in the race: its node, the pods that are there all the time, and
//! those that come and go under the stopwatch.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use rack::binaries::tool;
use rack::manifests::node_config;
use rack::names;
use rack::netns::Netns;
use rack::network::PluginUnderTest;
use rack::node::{Builder, Node};
use rack::plugin::execute;
use rack::pod::Pod;
use rack::wait::{PATIENCE, go_on, until};
use serde_json::Value;
use tempfile::TempDir;

/// Prefixes with room for thousands of pods.
const FLOCK_V6: &str = "fd00:199::/64";
const FLOCK_V4: &str = "10.199.0.0/16";

/// How many calls fill a node at the same time.
const FILLERS: usize = 4;

/// A contestant.
pub(crate) struct Contestant {
    /// What the table calls it.
    pub(crate) name: String,
    program: PathBuf,
    config: Value,
    /// What the pods that come and go were answered, for CHECK.
    answers: Mutex<HashMap<String, Value>>,
    crowd: Vec<Pod>,
    arena: Vec<Pod>,
    /// Interfaces of a node without pods, and how many of them are operational.
    bare: usize,
    bare_operational: usize,
    node: Node,
    _allocations: Option<TempDir>,
}

impl Contestant {
    /// flock, dual-stack, with its agent running and its state on the disk that
    /// holds `dir`.
    pub(crate) fn flock(dir: &Path, arena: usize) -> Result<Self> {
        let mut node = Builder::default().state_in(dir).build()?;
        node.configure(&node_config(node.name(), &[FLOCK_V6], &[FLOCK_V4]))?;
        node.start()?;
        node.await_ready()?;
        let network = node.flock_network();
        Self::new("flock", node, &network, arena, None)
    }

    /// ptp with these prefixes, its allocations on the same disk.
    pub(crate) fn ptp(name: &str, dir: &Path, subnets: &[&str], arena: usize) -> Result<Self> {
        let allocations = tempfile::Builder::new().prefix("host-local-").tempdir_in(dir)?;
        let network = PluginUnderTest::ptp(allocations.path(), subnets);
        Self::new(name, Node::new()?, &network, arena, Some(allocations))
    }

    fn new(
        name: &str,
        node: Node,
        network: &PluginUnderTest,
        arena: usize,
        allocations: Option<TempDir>,
    ) -> Result<Self> {
        let mut contestant = Self {
            name: name.to_owned(),
            program: network.program()?,
            config: network.single("1.0.0"),
            answers: Mutex::default(),
            crowd: Vec::new(),
            arena: pods(arena)?,
            bare: 0,
            bare_operational: 0,
            node,
            _allocations: allocations,
        };
        contestant.bare = contestant.interfaces()?;
        contestant.bare_operational = contestant.operational()?;
        Ok(contestant)
    }

    /// Brings the number of pods that stay to `population`.
    pub(crate) fn populate(&mut self, population: usize) -> Result<()> {
        let newcomers = pods(population.saturating_sub(self.crowd.len()))?;
        self.share("ADD", &newcomers, FILLERS)?;
        self.crowd.extend(newcomers);
        Ok(())
    }

    /// One call after the other; the time of each in milliseconds.
    pub(crate) fn each(&self, command: &str, count: usize) -> Result<Vec<f64>> {
        self.node
            .netns()
            .within(|| self.arena.iter().take(count).map(|pod| self.time(command, pod)).collect())
    }

    /// ADDs one after the other, and the time until the kernel has noticed the links of all (they
    /// are operational, RFC 2863), divided by their number.
    pub(crate) fn each_until_noticed(&self, count: usize) -> Result<(Vec<f64>, f64)> {
        let start = Instant::now();
        let times = self.each("ADD", count)?;
        let expected = self.bare_operational + self.crowd.len() + count;
        until("the links to be noticed", PATIENCE, || {
            let there = self.operational()?;
            ensure!(there >= expected, "{} has {there} of {expected} links", self.name);
            Ok(())
        })?;
        Ok((times, milliseconds(start) / count as f64))
    }

    /// One call after the other, and the time until the links of all are gone, divided by their
    /// number.
    pub(crate) fn each_until_gone(&self, command: &str, count: usize) -> Result<(Vec<f64>, f64)> {
        let start = Instant::now();
        let times = self.each(command, count)?;
        self.await_gone()?;
        Ok((times, milliseconds(start) / count as f64))
    }

    /// Many calls, several at a time: calls per second.
    pub(crate) fn at_once(&self, command: &str, count: usize, at_once: usize) -> Result<f64> {
        let start = Instant::now();
        let pods: Vec<_> = self.arena.iter().take(count).collect();
        self.share(command, &pods, at_once)?;
        Ok(pods.len() as f64 / start.elapsed().as_secs_f64())
    }

    /// Executing something that does nothing, in the same way.
    pub(crate) fn floor(&self, count: usize) -> Result<Vec<f64>> {
        self.repeat(&tool("true")?, "ADD", count)
    }

    /// Executing the plugin without anything for it to do.
    pub(crate) fn version(&self, count: usize) -> Result<Vec<f64>> {
        self.repeat(&self.program, "VERSION", count)
    }

    fn repeat(&self, program: &Path, command: &str, count: usize) -> Result<Vec<f64>> {
        let pod = self.arena.first().context("no pod to pretend with")?;
        let (call, input) = (pod.call(command), self.input(command, pod));
        self.node.netns().within(|| {
            let once = |_| {
                let start = Instant::now();
                let _answer = execute(program, &call, &input)?;
                Ok(milliseconds(start))
            };
            (0..count).map(once).collect()
        })
    }

    /// Awaits that only the pods that stay have links.
    pub(crate) fn await_gone(&self) -> Result<()> {
        let expected = self.bare + self.crowd.len();
        until("the links to be gone", PATIENCE, || {
            let there = self.interfaces()?;
            ensure!(there <= expected, "{} has {there} links, not {expected}", self.name);
            Ok(())
        })
    }

    /// Takes everything down; far faster than dropping it.
    pub(crate) fn dismiss(self) -> Result<()> {
        drop(self.node);
        let all = self.crowd.into_iter().chain(self.arena);
        Netns::delete_all(all.map(|pod| pod.netns).collect())
    }

    fn time(&self, command: &str, pod: &Pod) -> Result<f64> {
        go_on()?;
        let call = pod.call(command);
        let input = self.input(command, pod);
        let start = Instant::now();
        let answer = execute(&self.program, &call, &input)?;
        let elapsed = milliseconds(start);
        let answer = answer
            .map_err(|error| anyhow!(error).context(format!("{command} by {}", self.name)))?;
        if command == "ADD" {
            self.answers().insert(pod.container_id.clone(), answer);
        }
        Ok(elapsed)
    }

    /// The network's configuration, for CHECK with what ADD answered (CNI spec 1.0.0, "CHECK").
    fn input(&self, command: &str, pod: &Pod) -> Vec<u8> {
        let mut config = self.config.clone();
        if let (Some(config), "CHECK") = (config.as_object_mut(), command) {
            let answer = self.answers().get(&pod.container_id).cloned();
            config.insert("prevResult".to_owned(), answer.unwrap_or_default());
        }
        config.to_string().into_bytes()
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<String, Value>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shares calls among threads that are inside the node's namespace.
    fn share<P: std::borrow::Borrow<Pod> + Sync>(
        &self,
        command: &str,
        pods: &[P],
        threads: usize,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let work = || {
            self.node.netns().enter()?;
            while let Some(pod) = pods.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.time(command, pod.borrow())?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut outcome = Ok(());
            for worker in workers {
                outcome = outcome.and(worker.join().unwrap_or_else(|_| Err(anyhow!("panicked"))));
            }
            outcome
        })
    }

    /// Of all at once: asking for a single one makes the kernel notice it.
    fn operational(&self) -> Result<usize> {
        let table = self.node.netns().ip("-o link show up")?;
        Ok(table.lines().filter(|line| line.contains(" state UP ")).count())
    }

    /// Counted without asking netlink, which would disturb the others.
    fn interfaces(&self) -> Result<usize> {
        let table =
            self.node.netns().within(|| Ok(fs::read_to_string("/proc/thread-self/net/dev")?))?;
        Ok(table.lines().filter(|line| line.contains(':')).count())
    }
}

fn pods(count: usize) -> Result<Vec<Pod>> {
    let namespaces = Netns::many("pod", count)?;
    // Each has a name of its own, as pods have.
    Ok(namespaces.into_iter().map(|netns| Pod::in_netns(&names::unique("pod"), netns)).collect())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
