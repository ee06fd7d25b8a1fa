//! Network namespaces with a name, deleted when dropped.
//!
//! Three ways in: `ip -n` for a single setting, `ip netns exec` for a program
//! that should also see its own `/sys`, and [`Netns::within`], which moves one
//! thread there. Container runtimes take the last: `ip netns exec` mounts a new
//! `/sys` and so hides the cgroups from them.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::binaries::{checked, run, tool};
use crate::{names, sweep};

/// Where `ip netns` keeps the names.
pub(crate) const RUN_NETNS: &str = "/run/netns";

/// A network namespace.
#[derive(Debug)]
pub struct Netns {
    name: String,
    owned: bool,
}

impl Netns {
    /// Creates a namespace with nothing but a loopback interface that is down,
    /// as a runtime makes it for a pod.
    pub fn new(role: &str) -> Result<Self> {
        prepare()?;
        let name = names::unique(role);
        run(Command::new(tool("ip")?).args(["netns", "add", &name]))?;
        Ok(Self { name, owned: true })
    }

    /// Creates many at once, far faster than one by one.
    pub fn many(role: &str, count: usize) -> Result<Vec<Self>> {
        prepare()?;
        let names: Vec<_> = (0..count).map(|_| names::unique(role)).collect();
        batch(&names, "add")?;
        Ok(names.into_iter().map(|name| Self { name, owned: true }).collect())
    }

    /// Deletes many at once.
    pub fn delete_all(mut all: Vec<Self>) -> Result<()> {
        let names: Vec<_> = all.iter().map(|netns| netns.name.clone()).collect();
        batch(&names, "delete")?;
        all.iter_mut().for_each(|netns| netns.owned = false);
        Ok(())
    }

    /// A namespace that someone else made and will delete, such as a runtime;
    /// `path` is what the runtime calls it.
    pub fn of_someone_else(path: &Path) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} names no namespace", path.display()))?;
        Ok(Self { name: name.to_owned(), owned: false })
    }

    /// The name that `ip netns` knows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that a runtime would pass as `CNI_NETNS`.
    pub fn path(&self) -> PathBuf {
        Path::new(RUN_NETNS).join(&self.name)
    }

    /// Whether it is there still.
    pub fn exists(&self) -> bool {
        self.path().exists()
    }

    /// `ip -n NAME`, with the arguments separated by spaces.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        let ip = tool("ip")?;
        run(Command::new(ip).args(["-n", &self.name]).args(arguments.split_whitespace()))
    }

    /// A command that will run inside, by `ip netns exec`. Its process id is the
    /// program's own, because `ip` replaces itself.
    pub fn command(&self, program: impl AsRef<Path>) -> Result<Command> {
        let mut command = Command::new(tool("ip")?);
        command.args(["netns", "exec", &self.name]).arg(program.as_ref());
        Ok(command)
    }

    /// Runs a program inside to its end and returns its standard output.
    pub fn exec(&self, program: &str, arguments: &[&str]) -> Result<String> {
        run(self.command(tool(program)?)?.args(arguments))
    }

    /// Brings the loopback interface up.
    pub fn loopback_up(&self) -> Result<()> {
        self.ip("link set lo up").map(drop)
    }

    /// Sets kernel settings of the namespace; a key is a path below `/proc/sys`.
    pub fn sysctls(&self, settings: &[(&str, &str)]) -> Result<()> {
        self.within(|| {
            settings.iter().try_for_each(|(key, value)| {
                fs::write(Path::new("/proc/sys").join(key), value)
                    .with_context(|| format!("setting {key} to {value} in {}", self.name))
            })
        })
    }

    /// Runs `act` on a thread inside the namespace. Sockets that it opens stay
    /// there, and so do programs that it starts.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let inside = || {
            self.enter()?;
            act()
        };
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(outcome) => outcome,
            Err(panicked) => panic::resume_unwind(panicked),
        })
    }

    /// Moves the calling thread inside, for good.
    pub fn enter(&self) -> Result<()> {
        let file = fs::File::open(self.path())
            .with_context(|| format!("opening the namespace {}", self.name))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("entering the namespace {}", self.name))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if self.owned {
            delete(&self.name);
        }
    }
}

/// Stops what still runs in a namespace, by process id, and deletes it.
pub(crate) fn delete(name: &str) {
    let Ok(ip) = tool("ip") else { return };
    let pids = run(Command::new(&ip).args(["netns", "pids", name])).unwrap_or_default();
    for pid in pids.lines().filter_map(|line| line.trim().parse().ok()) {
        if let Some(pid) = Pid::from_raw(pid) {
            let _gone_already = kill_process(pid, Signal::KILL);
        }
    }
    if let Err(error) = run(Command::new(&ip).args(["netns", "delete", name])) {
        eprintln!("deleting the namespace {name}: {error:#}");
    }
}

fn batch(names: &[String], verb: &str) -> Result<()> {
    let mut child = Command::new(tool("ip")?)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let lines: String = names.iter().map(|name| format!("netns {verb} {name}\n")).collect();
    let mut stdin = child.stdin.take().context("ip -batch has no standard input")?;
    stdin.write_all(lines.as_bytes())?;
    drop(stdin);
    checked(&format!("ip -batch netns {verb}"), child.wait_with_output()?).map(drop)
}

/// Are we root, and (once per process) did a killed run leave anything behind?
fn prepare() -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "the rack makes network namespaces and must be root: run `make test` as root"
    );
    static SWEEP: Once = Once::new();
    SWEEP.call_once(sweep::sweep);
    Ok(())
}
