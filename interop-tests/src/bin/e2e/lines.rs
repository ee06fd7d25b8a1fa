//! What a program says, line by line, each with when it came: for comparing what happened at two places.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use rack::cluster::SLOW;
use rack::wait::until;

/// A program that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Lines {
    child: Child,
    heard: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Lines {
    /// Listens to a program that was started with a pipe.
    pub(crate) fn of(mut child: Child) -> Result<Self> {
        let output = child.stdout.take().context("a program without output")?;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&heard);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
                let noted = (Instant::now(), line);
                notes.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
            }
        });
        Ok(Self { child, heard })
    }

    /// How many lines came so far.
    pub(crate) fn count(&self) -> usize {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Awaits a line that pleases among those after the first `skip`, and returns when it came.
    pub(crate) fn await_line(
        &self,
        what: &str,
        skip: usize,
        pleases: impl Fn(&str) -> bool,
    ) -> Result<Instant> {
        until(what, SLOW, || {
            let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let found = heard.iter().skip(skip).find(|(_, line)| pleases(line));
            found.map(|(when, _)| *when).with_context(|| format!("heard {heard:?}"))
        })
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}
