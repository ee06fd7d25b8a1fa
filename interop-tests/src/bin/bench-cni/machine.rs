//! What was measured on: figures without it mean nothing to a reader.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use rack::binaries::{reference_plugin, run, tool};
use serde_json::{Value, json};

/// Facts about the machine, and the disk that holds `dir`.
pub(crate) fn facts(dir: &Path) -> Value {
    json!({
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "processor": field("/proc/cpuinfo", "model name"),
        "processors": thread::available_parallelism().map_or(0, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "loadBefore": load(),
        "fileSystem": file_system(dir),
        "ptp": version_of_ptp(),
    })
}

/// How busy it is.
pub(crate) fn load() -> String {
    first_line("/proc/loadavg")
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

fn file_system(dir: &Path) -> String {
    let Ok(stat) = tool("stat") else {
        return String::new();
    };
    run(Command::new(stat).args(["--file-system", "--format", "%T"]).arg(dir))
        .map(|said| said.trim().to_owned())
        .unwrap_or_default()
}

/// The reference plugins say who they are when called with nothing.
fn version_of_ptp() -> String {
    let Ok(ptp) = reference_plugin("ptp") else {
        return String::new();
    };
    let said = Command::new(ptp).env_remove("CNI_COMMAND").output();
    said.map(|output| String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", "))
        .unwrap_or_default()
}
