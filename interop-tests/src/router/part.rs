//! One program of a router, in a container or as a plain process, in its
//! network namespace.
//!
//! The container's root is an overlay of the machine's own, so no image is
//! needed; the router's directory is mounted under the same path, so that one
//! command line serves both housings, and sockets and logs are reached from
//! outside. podman keeps its storage below that directory too: nothing of it is
//! shared with other tests, and everything goes when the directory goes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::Housing;
use crate::binaries::{run, tool};
use crate::names;
use crate::netns::Netns;
use crate::process::Daemon;
use crate::wait::{PATIENCE, until};

/// Where a program of FRR keeps what it would say in a crash, in a directory called by
/// its name and process id. One that is killed leaves it behind; in a container it
/// goes with the container.
const FRR_TRACES: &str = "/var/tmp/frr";

/// What is to be started.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// For the log's name.
    pub name: &'static str,
    /// The command line.
    pub arguments: Vec<String>,
    /// Its environment beyond ours.
    pub environment: Vec<(&'static str, &'static str)>,
    /// Directories that it wants for itself, such as the one it locks itself
    /// into.
    pub private: &'static [&'static str],
}

/// A program that runs.
#[derive(Debug)]
pub(super) struct Part {
    home: PathBuf,
    name: &'static str,
    running: Running,
}

#[derive(Debug)]
enum Running {
    Process(Daemon),
    Container { name: String, pid: i32 },
    Gone,
}

impl Part {
    pub(super) fn start(
        program: &Program,
        netns: &Netns,
        home: &Path,
        housing: Housing,
    ) -> Result<Self> {
        let running = match housing {
            Housing::Process => Self::process(program, netns, home)?,
            Housing::Container => Self::container(program, netns, home)?,
        };
        Ok(Self { home: home.to_path_buf(), name: program.name, running })
    }

    fn process(program: &Program, netns: &Netns, home: &Path) -> Result<Running> {
        for dir in program.private {
            fs::create_dir_all(dir)?;
        }
        let (executable, rest) = program.arguments.split_first().context("an empty command")?;
        let mut command = netns.command(executable)?;
        command.args(rest).envs(program.environment.iter().copied());
        Ok(Running::Process(Daemon::start(program.name, &mut command, &log(home, program.name))?))
    }

    fn container(program: &Program, netns: &Netns, home: &Path) -> Result<Running> {
        tool("runc")?;
        let name = names::unique(program.name);
        let mut command = podman(home)?;
        command.args(["run", "--detach", "--name", &name, "--hostname", program.name]);
        command.arg("--network").arg(format!("ns:{}", netns.path().display()));
        command.args(["--cap-add", "NET_ADMIN,NET_RAW,NET_BIND_SERVICE,SYS_ADMIN,SYS_CHROOT"]);
        command.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]);
        // The log is appended to by a router that is started again.
        command.args(["--log-driver", "k8s-file", "--log-opt"]);
        command.arg(format!("path={}", log(home, program.name).display()));
        let pid_file = home.join(format!("{name}.pid"));
        command.arg("--pidfile").arg(&pid_file);
        command.arg("--volume").arg(format!("{0}:{0}", home.display()));
        for dir in program.private {
            command.args(["--tmpfs", &format!("{dir}:mode=755")]);
        }
        for (key, value) in &program.environment {
            command.arg("--env").arg(format!("{key}={value}"));
        }
        command.args(["--rootfs", "/:O"]).args(&program.arguments);
        run(&mut command)?;
        let pid = fs::read_to_string(&pid_file)?;
        let pid = pid.trim().parse().with_context(|| format!("the pid file says {pid:?}"))?;
        Ok(Running::Container { name, pid })
    }

    /// The process id on this machine; in a container, that of its first process.
    pub(super) fn pid(&self) -> Result<i32> {
        match &self.running {
            Running::Process(daemon) => Ok(i32::try_from(daemon.pid())?),
            Running::Container { pid, .. } => Ok(*pid),
            Running::Gone => bail!("{} does not run", self.name),
        }
    }

    /// Signals the program and whatever it started.
    pub(super) fn signal_all(&self, signal: Signal) -> Result<()> {
        for pid in family(self.pid()?) {
            signal_one(pid, signal)?;
        }
        Ok(())
    }

    /// Asks it to end, as its service manager would, and awaits that.
    pub(super) fn terminate(&mut self) -> Result<()> {
        signal_one(self.pid()?, Signal::TERM)?;
        self.await_end()
    }

    /// Ends it, and whatever it started, without a word to anybody.
    pub(super) fn kill(&mut self) -> Result<()> {
        // Stopped first, so that no survivor sees the others go and says goodbye.
        self.signal_all(Signal::STOP)?;
        self.signal_all(Signal::KILL)?;
        self.await_end()
    }

    fn await_end(&mut self) -> Result<()> {
        match &mut self.running {
            Running::Process(daemon) => daemon.await_exit().map(drop)?,
            Running::Container { pid, .. } => await_gone(*pid)?,
            Running::Gone => {}
        }
        self.remove();
        Ok(())
    }

    fn remove(&mut self) {
        if let Running::Container { name, .. } = &self.running {
            let removed = podman(&self.home)
                .and_then(|mut podman| run(podman.args(["rm", "--force", "--time", "0", name])));
            if let Err(error) = removed {
                eprintln!("removing the container {name}: {error:#}");
            }
        }
        if let Running::Process(daemon) = std::mem::replace(&mut self.running, Running::Gone) {
            let trace = Path::new(FRR_TRACES).join(format!("{}.{}", self.name, daemon.pid()));
            drop(daemon);
            let _none_but_frr_has_one = fs::remove_dir_all(trace);
        }
    }

    /// Fails when it ended by itself.
    pub(super) fn ensure_alive(&mut self) -> Result<()> {
        match &mut self.running {
            Running::Process(daemon) => daemon.ensure_alive(),
            Running::Container { pid, .. } if runs(*pid) => Ok(()),
            _ => bail!("{} has ended", self.name),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Awaits that there is no such process any more.
fn await_gone(pid: i32) -> Result<()> {
    until(&format!("process {pid} to end"), PATIENCE, || {
        ensure!(!runs(pid), "it still runs");
        Ok(())
    })
}

/// Whether a process runs; one that only waits to be reaped does not.
fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(Some('Z')))
}

/// Awaits that podman has left the directory, storage unmounted: after a container's end its monitor
/// starts another podman to tidy up, which would put things back into a
/// directory that is being removed.
pub(crate) fn await_left(home: &Path) -> Result<()> {
    let path = home.as_os_str().as_encoded_bytes();
    let names = |file: PathBuf| {
        let line = fs::read(file).unwrap_or_default();
        line.windows(path.len()).any(|window| window == path)
    };
    until("podman to leave", PATIENCE, || {
        for entry in fs::read_dir("/proc")? {
            let process = entry?.path();
            ensure!(!names(process.join("cmdline")), "{} is there", process.display());
        }
        Ok(())
    })?;
    // Two that tidy up at once leave the mount of the storage to each other.
    let storage = home.join("podman/root/overlay");
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    if mounts.contains(&format!(" {} ", storage.display())) {
        run(Command::new(tool("umount")?).arg(&storage))?;
    }
    Ok(())
}

/// Where a program's output goes.
pub(super) fn log(home: &Path, name: &str) -> PathBuf {
    home.join(format!("{name}.log"))
}

/// A container's log as the program wrote it: each record is a time, a stream,
/// `F` for a full line or `P` for a part of one, and the text.
pub(super) fn as_written(log: &str) -> String {
    let mut text = String::new();
    for line in log.lines() {
        let mut words = line.splitn(4, ' ');
        let (_, stream, tag) = (words.next(), words.next(), words.next());
        match (stream, tag, words.next()) {
            (Some("stdout" | "stderr"), Some("P"), Some(part)) => text.push_str(part),
            (Some("stdout" | "stderr"), Some("F"), rest) => {
                text.push_str(rest.unwrap_or_default());
                text.push('\n');
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// podman with storage of its own below a directory.
pub(crate) fn podman(home: &Path) -> Result<Command> {
    let conf = home.join("containers.conf");
    if !conf.exists() {
        fs::write(&conf, "[engine]\nevents_logger = \"none\"\n")?;
    }
    let mut command = Command::new(tool("podman")?);
    command.env("CONTAINERS_CONF", conf);
    for (option, part) in [("--root", "root"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
        command.arg(option).arg(home.join("podman").join(part));
    }
    command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs"]);
    Ok(command)
}

/// A process and all its descendants.
fn family(pid: i32) -> Vec<i32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(parent) = all.get(next).copied() {
        let file = format!("/proc/{parent}/task/{parent}/children");
        let children = fs::read_to_string(file).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        next += 1;
    }
    all
}

fn signal_one(pid: i32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid).context("a process id that is none")?;
    match kill_process(pid, signal) {
        Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("signalling {pid:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_container_log_tears_apart_are_joined() {
        let log = "2026-11-16T06:20:49.79+00:00 stderr P 06:20 <TRACE> \n\
                   2026-11-16T06:20:49.80+00:00 stderr F device1: Scanning\nplain line\n";
        assert_eq!(as_written(log), "06:20 <TRACE> device1: Scanning\nplain line\n");
    }
}
