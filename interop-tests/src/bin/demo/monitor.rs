//! `ip monitor route` in a ToR, with a stopwatch: what its kernel was told, and when.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rack::binaries::tool;
use rack::netns::Netns;
use rack::wait::{PATIENCE, until};

/// What the kernel said of one route at one time.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) at: Instant,
    pub(crate) lines: Vec<String>,
}

impl Event {
    /// Whether it says that `destination` leads by these interfaces, sorted,
    /// from now on.
    fn tells(&self, destination: &str, devices: &[String]) -> bool {
        // A route that went begins with the word Deleted.
        let about = self.lines.first().and_then(|line| line.split(' ').next());
        let words: Vec<_> = self.lines.iter().flat_map(|line| line.split_whitespace()).collect();
        let pairs = words.iter().zip(words.iter().skip(1));
        let mut named: Vec<_> =
            pairs.filter(|(word, _)| **word == "dev").map(|(_, name)| *name).collect();
        named.sort_unstable();
        about == Some(destination) && named == devices
    }
}

/// A monitor that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Monitor {
    child: Child,
    reader: Option<JoinHandle<()>>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Monitor {
    /// Starts it, and awaits that it listens.
    pub(crate) fn start(netns: &Netns) -> Result<Self> {
        let mut child = Command::new(tool("ip")?)
            .args(["-n", netns.name(), "monitor", "route"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let events = Arc::new(Mutex::new(Vec::new()));
        let output = child.stdout.take();
        let mut monitor = Self { child, reader: None, events: Arc::clone(&events) };
        let output = output.context("ip monitor has no standard output")?;
        monitor.reader = Some(thread::spawn(move || read(output, &events)));
        monitor.await_listening()?;
        Ok(monitor)
    }

    /// A netlink socket is known by the id of its process, and in no group before
    /// it listens.
    fn await_listening(&self) -> Result<()> {
        let pid = self.child.id().to_string();
        until("ip monitor to listen", PATIENCE, || {
            let table = fs::read_to_string(format!("/proc/{pid}/net/netlink"))?;
            let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let listens = rows.any(|row| {
                row.get(2) == Some(&pid.as_str())
                    && row.get(3).is_some_and(|groups| groups.bytes().any(|digit| digit != b'0'))
            });
            ensure!(listens, "it does not yet");
            Ok(())
        })
    }

    /// Awaits the event, after `since`, by which `destination` leads by these
    /// interfaces.
    pub(crate) fn await_ways(
        &self,
        since: Instant,
        destination: &str,
        devices: &[String],
    ) -> Result<Event> {
        until(&format!("news of {destination}"), PATIENCE, || {
            let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            let mut later = events.iter().filter(|event| event.at >= since);
            let found = later.find(|event| event.tells(destination, devices)).cloned();
            found.with_context(|| format!("no event says {devices:?}: {events:?}"))
        })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ended = reader.join();
        }
    }
}

/// Takes the time of each event; its next hops are on lines of their own, with a tab.
fn read(output: ChildStdout, events: &Mutex<Vec<Event>>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let at = Instant::now();
        let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
        match events.last_mut() {
            Some(event) if line.starts_with('\t') => event.lines.push(line),
            _ => events.push(Event { at, lines: vec![line] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_tells_where_a_route_leads_from_now_on() {
        let event = |lines: &[&str]| Event {
            at: Instant::now(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        let devices = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (both, one): (Vec<_>, Vec<_>) = (devices(&["node-1", "node-3"]), devices(&["node-3"]));
        let hops =
            ["\tnexthop via 172.17.3.2 dev node-3 weight 1 ", "\tnexthop via fe80::1 dev node-1 "];
        let shared = event(&["192.0.2.53 nhid 61 proto bgp metric 20 ", hops[0], hops[1]]);
        assert!(shared.tells("192.0.2.53", &both), "in whichever order");
        assert!(!shared.tells("192.0.2.53", &one) && !shared.tells("192.0.2.5", &both));
        let gone = event(&["Deleted 192.0.2.53 nhid 61 proto bgp metric 20 ", hops[0], hops[1]]);
        assert!(!gone.tells("192.0.2.53", &both));
        let single = event(&["192.0.2.53 via 172.16.3.2 dev node-3 proto bird metric 32 "]);
        assert!(single.tells("192.0.2.53", &one));
    }

    #[test]
    fn a_monitor_hears_what_comes_after_it_was_started() {
        let netns = Netns::new("monitor").unwrap();
        netns.loopback_up().unwrap();
        let monitor = Monitor::start(&netns).unwrap();
        let start = Instant::now();
        netns.ip("route add 192.0.2.53 dev lo").unwrap();
        let event = monitor.await_ways(start, "192.0.2.53", &["lo".to_owned()]).unwrap();
        assert!(event.at >= start);
    }
}
