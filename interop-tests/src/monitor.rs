//! What happened to the routes of a kernel, and not only what they are now: one
//! that was gone for a moment is there again when somebody looks.
//!
//! `ip monitor` tells in the order in which the kernel does, so a change of our
//! own, made last, says that everything before it was told.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::binaries::tool;
use crate::names;
use crate::netns::Netns;
use crate::process::Daemon;
use crate::wait::{PATIENCE, until};

/// An `ip monitor` that runs, for both families.
#[derive(Debug)]
pub struct RouteMonitor {
    // Ended before its log goes.
    _monitor: Daemon,
    netns: Netns,
    dir: TempDir,
    marks: AtomicU16,
}

impl RouteMonitor {
    /// Starts to listen, and awaits that it does.
    pub fn start(netns: &Netns) -> Result<Self> {
        let prefix = format!("{}-", names::unique("monitor"));
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir()?;
        let mut command = netns.command(tool("ip")?)?;
        command.args(["-o", "monitor", "route"]);
        let daemon = Daemon::start("ip monitor", &mut command, &log(dir.path()))?;
        let netns = Netns::of_someone_else(&netns.path())?;
        let monitor = Self { _monitor: daemon, netns, dir, marks: AtomicU16::new(1) };
        // Nobody says when it listens; so changes are made until one is told.
        until("ip monitor to listen", PATIENCE, || {
            let mark = monitor.mark()?;
            monitor.ensure_told(&mark)
        })?;
        Ok(monitor)
    }

    /// Everything that was told of changes made before this call, a line each.
    pub fn told(&self) -> Result<Vec<String>> {
        let mark = self.mark()?;
        let text = until("ip monitor to tell the last change", PATIENCE, || {
            self.ensure_told(&mark)?;
            Ok(self.text())
        })?;
        ensure!(!text.contains("receive error"), "the monitor lost events: {text}");
        let own = |line: &&str| !line.contains(" 100::");
        Ok(text.lines().filter(own).map(str::to_owned).collect())
    }

    /// The destinations of routes that went since it listens, also of those that
    /// came back.
    pub fn gone(&self) -> Result<Vec<String>> {
        let told = self.told()?;
        Ok(told.iter().filter_map(|line| deleted(line)).map(str::to_owned).collect())
    }

    /// Adds and deletes a route to a prefix that leads nowhere by definition
    /// (RFC 6666), with a number of its own.
    fn mark(&self) -> Result<String> {
        let number = self.marks.fetch_add(1, Ordering::Relaxed);
        let mark = format!("100::{number:x}:1");
        self.netns.ip(&format!("-6 route add unreachable {mark}"))?;
        self.netns.ip(&format!("-6 route delete unreachable {mark}"))?;
        Ok(mark)
    }

    fn ensure_told(&self, mark: &str) -> Result<()> {
        let text = self.text();
        let told = text.lines().any(|line| deleted(line) == Some(mark));
        ensure!(told, "{mark} is not told yet: {text}");
        Ok(())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(log(self.dir.path())).unwrap_or_default()).into_owned()
    }
}

fn log(dir: &Path) -> std::path::PathBuf {
    dir.join("log")
}

/// The destination of a route that a line says was deleted; words before it are
/// the kind of the route.
fn deleted(line: &str) -> Option<&str> {
    let words = line.strip_prefix("Deleted ")?.split_whitespace();
    let kinds = ["unreachable", "blackhole", "prohibit", "local", "broadcast", "multicast"];
    words.into_iter().find(|word| !kinds.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_and_came_back_is_told() {
        let netns = Netns::new("monitored").unwrap();
        netns.loopback_up().unwrap();
        netns.ip("route add unreachable 192.0.2.1").unwrap();
        netns.ip("-6 route add 2001:db8::1 dev lo").unwrap();
        let monitor = RouteMonitor::start(&netns).unwrap();
        assert_eq!(monitor.gone().unwrap(), [""; 0]);
        netns.ip("-6 route delete 2001:db8::1").unwrap();
        netns.ip("-6 route add 2001:db8::1 dev lo").unwrap();
        netns.ip("route delete unreachable 192.0.2.1").unwrap();
        assert_eq!(monitor.gone().unwrap(), ["2001:db8::1", "192.0.2.1"]);
        netns.ip("route add default dev lo").unwrap();
        netns.ip("route delete default").unwrap();
        assert_eq!(monitor.gone().unwrap(), ["2001:db8::1", "192.0.2.1", "default"]);
        assert!(monitor.told().unwrap().iter().any(|line| line.starts_with("default dev lo")));
    }
}
