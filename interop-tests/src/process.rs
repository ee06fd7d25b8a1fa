//! A daemon that the rack started: its log is kept, and it is stopped by its
//! own process id.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{PATIENCE, until};

/// How much of a log is shown.
const TAIL: usize = 60;

/// A running program.
#[derive(Debug)]
pub struct Daemon {
    what: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts a command in a process group of its own (Ctrl-C at the terminal is
    /// for us, not for it); what it says is appended to `log`.
    pub fn start(what: &str, command: &mut Command, log: &Path) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let file = OpenOptions::new().create(true).append(true).open(log)?;
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {what}: {command:?}"))?;
        Ok(Self { what: what.to_owned(), child, log: log.to_path_buf() })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails, with the end of its log, when it has exited.
    pub fn ensure_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} exited: {status}\n{}", self.what, self.log_tail());
        }
        Ok(())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("a process id that is none")?;
        kill_process(pid, signal).with_context(|| format!("signalling {}", self.what))
    }

    /// Awaits that it ends by itself.
    pub fn await_exit(&mut self) -> Result<ExitStatus> {
        let what = format!("{} to exit", self.what);
        let child = &mut self.child;
        until(&what, PATIENCE, || child.try_wait()?.context("it still runs"))
    }

    /// Asks it to end, and awaits that it does so successfully.
    pub fn terminate(mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let status = self.await_exit()?;
        ensure!(status.success(), "{} ended with {status}\n{}", self.what, self.log_tail());
        Ok(())
    }

    /// Ends it with no chance to tidy up.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.what, &self.log)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// The last lines of a log under a title.
pub fn tail(what: &str, log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let skipped = text.lines().count().saturating_sub(TAIL);
    let lines: Vec<_> = text.lines().skip(skipped).collect();
    format!("--- the end of the log of {what}\n{}\n---", lines.join("\n"))
}
