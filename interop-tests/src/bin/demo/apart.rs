//! Two processes: one in the terminal's foreground, one that builds the rack.
//!
//! A Ctrl-C reaches everybody in the foreground, also an `ip netns add` that is half
//! way and then leaves a name behind that nobody knows of. So the one that works
//! has a session of its own, where neither it nor what it starts hears the terminal,
//! and the one in front passes on a single signal and its companion's exit code.
//! Should the one in front be killed, the kernel tells the other.

use std::env;
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rack::signals;
use rack::wait::interrupted;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal, setsid};

/// What the one that works is called with, beside what we were called with.
pub(crate) const WORKING: &str = "--working";

/// What a shell says of a program that was interrupted.
pub(crate) const INTERRUPTED: u8 = 130;

/// How often the one in front looks.
const GLANCE: Duration = Duration::from_millis(20);

/// Starts the other, passes an interruption on, and returns what it came to.
pub(crate) fn watch() -> Result<ExitCode> {
    signals::listen()?;
    let mut companion = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .arg(WORKING)
        .spawn()
        .context("starting the process that builds the rack")?;
    let pid = i32::try_from(companion.id()).ok().and_then(Pid::from_raw);
    let pid = pid.context("a process id that is none")?;
    let mut told = false;
    loop {
        if let Some(status) = companion.try_wait()? {
            return Ok(code(status));
        }
        if interrupted() && !told {
            told = true;
            let _gone_already = kill_process(pid, Signal::INT);
        }
        thread::sleep(GLANCE);
    }
}

/// Leaves the terminal, as the one that works.
pub(crate) fn leave() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    setsid().context("leaving the session of the terminal")?;
    signals::listen()
}

fn code(status: ExitStatus) -> ExitCode {
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => ExitCode::from(code),
        // Killed by the signal itself, before there was anything to take down.
        None if interrupted() => ExitCode::from(INTERRUPTED),
        None => ExitCode::FAILURE,
    }
}
