//! The contestants as plain processes inside a namespace, each with a directory
//! of its own, stopped by their process id.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::configs::{self, Wishes};
use super::usage::{self, Usage};
use crate::binaries::{build_dir, tool};
use crate::names;
use crate::netns::Netns;
use crate::process::tail;

/// Where Debian puts FRR; `bgpd` in the path is OpenBGPD's.
const FRR: &str = "/usr/lib/frr/bgpd";
/// OpenBGPD changes its root to this directory.
const OPENBGPD_ROOT: &str = "/run/openbgpd";
/// How long a process may take to end when asked.
const GOODBYE: Duration = Duration::from_secs(3);

/// Which contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Our own, as the `speaker` example.
    Flock,
    /// BIRD 2.
    Bird,
    /// FRR's bgpd without zebra.
    Frr,
    /// OpenBGPD.
    OpenBgpd,
    /// GoBGP.
    GoBgp,
}

impl Kind {
    /// All of them; ours first.
    pub const ALL: [Self; 5] = [Self::Flock, Self::Bird, Self::Frr, Self::OpenBgpd, Self::GoBgp];

    /// What the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flock => "flock",
            Self::Bird => "BIRD",
            Self::Frr => "FRR",
            Self::OpenBgpd => "OpenBGPD",
            Self::GoBgp => "GoBGP",
        }
    }

    /// Its program.
    pub fn program(self) -> Result<PathBuf> {
        match self {
            Self::Flock => {
                let path = match std::env::var_os("FLOCK_SPEAKER") {
                    Some(path) => PathBuf::from(path),
                    None => build_dir()?.join("examples/speaker"),
                };
                if !path.is_file() {
                    bail!(
                        "{} is not built: `cargo build --release -p flock-bgp-io --examples` \
                         builds it; FLOCK_SPEAKER may name another",
                        path.display()
                    );
                }
                Ok(path)
            }
            Self::Bird => tool("bird"),
            Self::Frr => {
                let path = PathBuf::from(FRR);
                if path.is_file() { Ok(path) } else { bail!("{FRR} is missing (package frr)") }
            }
            Self::OpenBgpd => tool("bgpd"),
            Self::GoBgp => tool("gobgpd"),
        }
    }

    /// What it says about its version.
    pub fn version(self) -> String {
        let said = |argument: &str| -> Result<String> {
            let output = Command::new(self.program()?).arg(argument).output()?;
            let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
            Ok(String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned())
        };
        match self {
            Self::Flock => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            Self::OpenBgpd => said("-V"),
            _ => said("--version"),
        }
        .unwrap_or_default()
    }
}

/// A running contestant.
#[derive(Debug)]
pub struct Router {
    kind: Kind,
    child: Child,
    dir: TempDir,
    /// When its process was made.
    pub started: Instant,
}

impl Router {
    /// Starts a contestant in a namespace.
    pub fn start(kind: Kind, netns: &Netns, wishes: &Wishes) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix(&names::unique("bgp-")).tempdir()?;
        let config = dir.path().join("config");
        fs::write(&config, config_text(kind, wishes, dir.path()))?;
        // OpenBGPD reads nothing that others may read; the rest does not care.
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
        let mut command = command(kind, dir.path(), &config)?;
        let log = File::create(dir.path().join("log"))?;
        command.process_group(0).stdout(log.try_clone()?).stderr(log);
        command.stdin(if kind == Kind::Flock { Stdio::piped() } else { Stdio::null() });
        let (child, started) = netns.within(|| {
            let started = Instant::now();
            let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
            Ok((child, started))
        })?;
        Ok(Self { kind, child, dir, started })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has used so far.
    pub fn usage(&self) -> Result<Usage> {
        usage::of(self.child.id())
    }

    /// Writes to its standard input, which only ours has.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("it has no standard input")?;
        Ok(stdin.write_all(line.as_bytes())?)
    }

    /// Replaces BIRD's configuration by this text and has `birdc` tell it; the
    /// caller awaits that `birdc` ends.
    pub fn configure(&self, text: &str) -> Result<Child> {
        fs::write(self.dir.path().join("config"), text)?;
        let mut birdc = Command::new(tool("birdc")?);
        birdc.arg("-s").arg(self.dir.path().join("control")).arg("configure");
        Ok(birdc.stdout(Stdio::piped()).spawn()?)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id that is none")?, signal)
            .with_context(|| format!("signalling {}", self.kind.name()))
    }

    /// Adds the end of its log to an error.
    pub fn explain<T>(&mut self, outcome: Result<T>) -> Result<T> {
        let ended = self.child.try_wait().ok().flatten();
        outcome.with_context(|| {
            let ended = ended.map(|status| format!("it ended: {status}\n")).unwrap_or_default();
            ended + &tail(self.kind.name(), &self.dir.path().join("log"))
        })
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // OpenBGPD's parent takes its children along; the others have nothing to tidy up.
        if self.kind == Kind::OpenBgpd {
            let _gone_already = self.signal(Signal::TERM);
            let deadline = Instant::now() + GOODBYE;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

fn config_text(kind: Kind, wishes: &Wishes, dir: &Path) -> String {
    match kind {
        Kind::Flock => configs::flock(wishes),
        Kind::Bird => configs::bird(wishes),
        Kind::Frr => configs::frr(wishes),
        Kind::OpenBgpd => configs::openbgpd(wishes, &dir.join("control")),
        Kind::GoBgp => configs::gobgp(wishes),
    }
}

fn command(kind: Kind, dir: &Path, config: &Path) -> Result<Command> {
    let mut command = Command::new(kind.program()?);
    match kind {
        Kind::Flock => command.arg(config),
        Kind::Bird => command.arg("-f").arg("-c").arg(config).arg("-s").arg(dir.join("control")),
        Kind::Frr => command
            .args(["-Z", "-S", "-P", "0", "--log", "stdout", "--log-level", "err"])
            .arg("-f")
            .arg(config)
            .arg("-i")
            .arg(dir.join("pid"))
            .arg("--vty_socket")
            .arg(dir),
        Kind::OpenBgpd => {
            fs::create_dir_all(OPENBGPD_ROOT)?;
            command.arg("-d").arg("-f").arg(config)
        }
        Kind::GoBgp => command.args(["--pprof-disable", "-l", "error", "-f"]).arg(config),
    };
    Ok(command)
}
