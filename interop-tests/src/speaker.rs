//! flock's own speaker, alone in a namespace: the `speaker` example of
//! `flock-bgp-io`, which is told what to do in JSON lines and tells what happens
//! in JSON lines.
//!
//! Events are kept in the order in which they came; a caller that wants what
//! comes *after* something takes a [`Speaker::mark`] first.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binaries::build_dir;
use crate::names;
use crate::netns::Netns;
use crate::process::tail;
use crate::story::Telling;
use crate::wait::{PATIENCE, until};

/// A running speaker, killed when dropped.
#[derive(Debug)]
pub struct Speaker {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<Value>>>,
    asked: u64,
    dir: TempDir,
}

impl Speaker {
    /// Starts a speaker and awaits that it listens.
    pub fn start(netns: &Netns, config: &Value) -> Result<Self> {
        let program = program()?;
        let prefix = format!("{}-", names::unique("speaker"));
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir()?;
        let file = dir.path().join("config.json");
        fs::write(&file, config.to_string())?;
        let mut child = netns
            .command(&program)?
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.path().join("log"))?)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let stdout = child.stdout.take().context("the speaker has no standard output")?;
        let sink = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let value =
                    serde_json::from_str(&line).unwrap_or_else(|_| json!({ "noise": line }));
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(value);
            }
        });
        let stdin = child.stdin.take();
        let mut speaker = Self { child, stdin, lines, asked: 0, dir };
        speaker.await_event(0, "listening", |_| true)?;
        Ok(speaker)
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Value>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much it has said so far.
    pub fn mark(&self) -> usize {
        self.lines().len()
    }

    /// The events of a kind since a mark.
    pub fn events(&self, since: usize, kind: &str) -> Vec<Value> {
        let lines = self.lines();
        let later = lines.iter().skip(since);
        later.filter(|line| is(line, "event", kind)).cloned().collect()
    }

    /// Awaits an event of a kind, since a mark, that pleases.
    pub fn await_event(
        &mut self,
        since: usize,
        kind: &str,
        pleases: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let found = until(&format!("the speaker's event {kind:?}"), PATIENCE, || {
            let events = self.events(since, kind);
            if let Some(event) = events.iter().find(|event| pleases(event)) {
                return Ok(event.clone());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("it exited: {status}");
            }
            bail!("it said only {events:?}")
        });
        found.telling(|| self.story())
    }

    /// Awaits that a session comes up after a mark.
    pub fn await_up(&mut self, since: usize) -> Result<Value> {
        self.await_event(since, "up", |_| true)
    }

    /// Awaits that a session goes down after a mark.
    pub fn await_down(&mut self, since: usize) -> Result<Value> {
        self.await_event(since, "down", |_| true)
    }

    /// Awaits that the last word on a prefix is these next hops.
    pub fn await_route(&self, prefix: &str, next_hops: &[&str]) -> Result<()> {
        let wanted = json!(next_hops);
        let found = until(&format!("{prefix} to be chosen"), PATIENCE, || {
            let events = self.events(0, "route");
            let last = events.iter().rev().find(|event| is(event, "prefix", prefix));
            let hops = last.and_then(|event| event.get("nextHops")).cloned().unwrap_or_default();
            let none = hops.is_null() && next_hops.is_empty();
            ensure!(none || hops == wanted, "its next hops are {hops}");
            Ok(())
        });
        found.telling(|| self.story())
    }

    /// Gives a command and returns the answer; `{"answer":"error"}` is a failure.
    pub fn command(&mut self, command: &Value) -> Result<Value> {
        self.asked += 1;
        let id = self.asked;
        let mut command = command.clone();
        if let Some(fields) = command.as_object_mut() {
            fields.insert("id".to_owned(), json!(id));
        }
        self.tell(&command)?;
        let answer = until(&format!("the answer to {command}"), PATIENCE, || {
            let lines = self.lines();
            let answer = lines
                .iter()
                .rev()
                .find(|line| line.get("answer").is_some() && line.get("id") == Some(&json!(id)));
            answer.cloned().context("it has not answered")
        });
        let answer = answer.telling(|| self.story())?;
        ensure!(!is(&answer, "answer", "error"), "{command}: {answer}");
        Ok(answer)
    }

    fn tell(&mut self, command: &Value) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the speaker was told to end")?;
        writeln!(stdin, "{command}").with_context(|| format!("telling the speaker {command}"))
    }

    /// Originates routes, or changes them.
    pub fn originate(&mut self, routes: &Value) -> Result<()> {
        self.command(&json!({ "originate": routes })).map(drop)
    }

    /// Originates a prefix no more.
    pub fn withdraw(&mut self, prefix: &str) -> Result<()> {
        self.command(&json!({ "withdraw": [prefix] })).map(drop)
    }

    /// What it knows of its peers.
    pub fn peers(&mut self) -> Result<Vec<Value>> {
        let answer = self.command(&json!({ "show": "peers" }))?;
        Ok(answer.get("peers").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// What it learned for a prefix.
    pub fn learned(&mut self, prefix: &str) -> Result<Vec<Value>> {
        let answer = self.command(&json!({ "show": "routes" }))?;
        let routes = answer.get("routes").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut routes: Vec<_> =
            routes.into_iter().filter(|route| is(route, "prefix", prefix)).collect();
        routes.retain(|route| route.get("peer").is_some_and(|peer| !peer.is_null()));
        Ok(routes)
    }

    /// Stops it where it stands.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id that is none")?, signal)?;
        Ok(())
    }

    /// Ends it without a word.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Takes leave, as `{"farewell": how}` says, and awaits its end.
    pub fn farewell(&mut self, how: &Value) -> Result<ExitStatus> {
        self.tell(&json!({ "farewell": how }))?;
        let child = &mut self.child;
        let ended = until("the speaker to end", PATIENCE, || child.try_wait()?.context("it runs"));
        ended.telling(|| self.story())
    }

    /// The last of its events and of its log.
    pub fn story(&self) -> String {
        let lines = self.lines();
        let skipped = lines.len().saturating_sub(30);
        let events: Vec<_> = lines.iter().skip(skipped).map(ToString::to_string).collect();
        let log = tail("the speaker", &self.dir.path().join("log"));
        format!("--- the last events of the speaker\n{}\n{log}", events.join("\n"))
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// Whether a field holds this text.
fn is(value: &Value, key: &str, text: &str) -> bool {
    value.get(key).and_then(Value::as_str) == Some(text)
}

/// The example beside the running executable, or where `FLOCK_SPEAKER` says.
pub fn program() -> Result<PathBuf> {
    let path = match env::var_os("FLOCK_SPEAKER") {
        Some(path) => PathBuf::from(path),
        None => build_dir()?.join("examples").join("speaker"),
    };
    ensure!(
        Path::new(&path).is_file(),
        "{} is not built: `cargo build -p flock-bgp-io --examples` in the same profile builds it; \
         FLOCK_SPEAKER may name another file",
        path.display()
    );
    Ok(path)
}
