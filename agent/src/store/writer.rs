//! The one thread that writes the state file. Decides which changes share a write and what
//! becomes of them when it fails; leaves the steps of a write to `disk`.
//!
//! Each entry is kept as the bytes of its line, made once by whoever changed it; where it stands in
//! the file is `pages`' to say. What is in memory is what is on disk: a group that could not be written is
//! undone here before its waiters hear of it, and the next group starts from there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use super::allocation::Key;
use super::decode::VERSION;
use super::disk::{Disk, Failed, Retired, Text};
use super::error::StoreError;
use super::handle::Tally;
use super::pages::Pages;
use crate::metrics::StoreTimes;

/// One change and who waits for it.
pub(super) struct Change {
    pub(super) key: Key,
    /// The entry's new line; `None` removes it.
    pub(super) line: Option<Box<[u8]>>,
    pub(super) done: oneshot::Sender<Result<(), StoreError>>,
}

pub(super) struct Writer {
    pages: Pages,
    /// Blocks in which the copy that the disk keeps is not what the file is.
    behind: BTreeSet<usize>,
    disk: Disk,
    tally: Arc<Tally>,
    times: StoreTimes,
    /// Used again for each write, so that a write does not allocate.
    buffer: Vec<u8>,
}

impl Writer {
    pub(super) fn new(
        node: &str,
        extra: &Map<String, Value>,
        lines: Vec<(Key, Box<[u8]>)>,
        disk: Disk,
        tally: Arc<Tally>,
        times: StoreTimes,
    ) -> Self {
        let mut head = format!("{{\"version\":{VERSION},\"node\":{}", Value::from(node));
        for (key, value) in extra {
            head.push_str(&format!(",{}:{value}", Value::from(key.as_str())));
        }
        head.push_str(",\"allocations\":[");
        let pages = Pages::new(head.into_bytes(), lines);
        tally.entries(pages.len());
        Self { pages, behind: BTreeSet::new(), disk, tally, times, buffer: Vec::new() }
    }

    /// Until the last handle is gone and all that it sent is done.
    pub(super) fn run(mut self, mut changes: mpsc::Receiver<Change>) {
        while let Some(first) = changes.blocking_recv() {
            let mut group = vec![first];
            while let Ok(next) = changes.try_recv() {
                group.push(next);
            }
            self.commit(group);
        }
    }

    fn commit(&mut self, group: Vec<Change>) {
        let mut undo = Vec::with_capacity(group.len());
        let mut waiters = Vec::with_capacity(group.len());
        for Change { key, line, done } in group {
            let before = self.pages.set(key.clone(), line);
            undo.push((key, before));
            waiters.push(done);
        }
        let outcome = self.write();
        if outcome.is_err() {
            // Newest first, so that two changes of one key end at what was before both.
            for (key, before) in undo.into_iter().rev() {
                self.pages.set(key, before);
            }
        }
        self.tally.entries(self.pages.len());
        let (outcome, retired) = match outcome {
            Ok(retired) => (Ok(()), Some(retired)),
            Err(failed) if failed.replaced => {
                // The group is in the file although its waiters hear that it failed. Best effort
                // to take it out again; if this fails too, the next change writes afresh.
                (Err(failed.error), self.write().ok())
            }
            Err(failed) => (Err(failed.error), None),
        };
        for waiter in waiters {
            // Whoever no longer waits has still had the change made.
            let _ = waiter.send(outcome.clone());
        }
        drop(retired);
    }

    fn write(&mut self) -> Result<Retired, Failed> {
        let start = Instant::now();
        let outcome = self.renew();
        let took = start.elapsed();
        self.tally.wrote(outcome.is_ok(), took);
        // A write that failed halfway says nothing of how long one takes.
        if outcome.is_ok() {
            self.times.wrote(took, self.disk.synced());
        }
        outcome
    }

    fn renew(&mut self) -> Result<Retired, Failed> {
        let moved = self.pages.tighten();
        let dirty = self.pages.take_dirty();
        let mut content = std::mem::take(&mut self.buffer);
        content.clear();
        let outcome = if self.pages.is_small() {
            self.pages.compact(&mut content);
            self.disk.renew(&Text::Whole(&content))
        } else if self.disk.has_copy() && !moved {
            let pieces = self.pages.pieces(&self.behind.union(&dirty).copied().collect());
            self.disk.renew(&Text::Pieces(&pieces))
        } else {
            self.pages.whole(&mut content);
            self.disk.renew(&Text::Kept(&content))
        };
        self.behind = dirty;
        self.buffer = content;
        outcome
    }
}
