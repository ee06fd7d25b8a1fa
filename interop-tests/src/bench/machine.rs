//! What was measured on: figures without it mean nothing to a reader.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::binaries::{run, tool};
use serde_json::{Value, json};

/// Facts about the machine, the disk that holds `dir`, and the versions of
/// what was measured against.
pub fn facts(dir: &Path, versions: &[(&str, String)]) -> Value {
    let mut facts = json!({
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "processor": field("/proc/cpuinfo", "model name"),
        "processors": thread::available_parallelism().map_or(0, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "loadBefore": load(),
        "fileSystem": file_system(dir),
    });
    if let Some(facts) = facts.as_object_mut() {
        facts.extend(versions.iter().map(|(name, said)| ((*name).to_owned(), json!(said))));
    }
    facts
}

/// How busy it is.
pub fn load() -> String {
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
