//! What was measured on and who was measured: figures without it mean nothing to a reader.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::{Map, Value, json};

use super::bgp::router::Kind;
use crate::binaries::{self, run, tool};

/// The machine, and the disk that holds `dir`.
pub fn facts(dir: &Path) -> Value {
    json!({
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "processor": field("/proc/cpuinfo", "model name"),
        "processors": thread::available_parallelism().map_or(0, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "loadBefore": first_line("/proc/loadavg"),
        "fileSystem": said("stat", &["--file-system", "--format", "%T", &dir.to_string_lossy()]),
    })
}

/// Who takes part, in which version.
pub fn versions() -> Value {
    let mut versions: Map<_, _> =
        Kind::ALL.iter().map(|kind| (kind.name().to_owned(), json!(kind.version()))).collect();
    versions.insert("ptp".to_owned(), json!(reference_plugin("ptp")));
    for (name, flag) in [("nft", "--version"), ("containerd", "--version"), ("rustc", "--version")]
    {
        versions.insert(name.to_owned(), json!(said(name, &[flag])));
    }
    Value::Object(versions)
}

/// The commit, as git describes it.
pub fn commit() -> String {
    said("git", &["describe", "--always", "--dirty", "--abbrev=12"])
}

/// The time of day, in UTC.
pub fn now() -> String {
    said("date", &["--utc", "+%Y-%m-%dT%H:%M:%SZ"])
}

/// The first line of what a program says; nothing where it is not to be had.
fn said(program: &str, arguments: &[&str]) -> String {
    let said = tool(program).and_then(|tool| run(Command::new(tool).args(arguments)));
    said.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// The reference plugins say who they are when called with nothing.
fn reference_plugin(name: &str) -> String {
    let Ok(plugin) = binaries::reference_plugin(name) else {
        return String::new();
    };
    let said = Command::new(plugin).env_remove("CNI_COMMAND").output();
    said.map(|output| String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", "))
        .unwrap_or_default()
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}
