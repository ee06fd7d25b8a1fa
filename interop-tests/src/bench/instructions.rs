//! How many instructions a program takes, by valgrind: the same number each time, whatever else the
//! machine does, so that small losses show which no clock would tell from noise.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::binaries::{build_dir, checked, flock, tool};

/// Of a whole process, from its first instruction to its last.
pub fn of(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Result<u64> {
    let mut command = Command::new(tool("valgrind")?);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).args(arguments);
    // Its own environment, and nothing that is longer or shorter elsewhere.
    command.env_clear().env("PATH", "/usr/bin").envs(environment.iter().copied());
    let output = command.output().with_context(|| format!("executing {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    checked(&format!("{command:?}"), output)?;
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let count = line.and_then(|(_, count)| count.trim().parse().ok());
    count.with_context(|| format!("valgrind counted nothing: {said}"))
}

/// Of one time of what the speaker's example does: two runs, so that setting up does not count.
pub fn of_speaker(scenario: &str, size: u32, times: u32, divisor: u32) -> Result<f64> {
    let program = build_dir()?.join("examples/counted");
    let count = |times: u32| of(&program, &[scenario, &size.to_string(), &times.to_string()], &[]);
    Ok((count(times)? as f64 - count(0)? as f64) / f64::from(divisor))
}

/// Of the plugin, when there is nothing to do.
pub fn of_plugin() -> Result<f64> {
    Ok(of(&flock()?, &[], &[("CNI_COMMAND", "VERSION")])? as f64)
}
