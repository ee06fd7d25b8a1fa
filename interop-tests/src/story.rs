//! Failures that end with what the parties said: the cause first, then the logs.

use anyhow::{Result, anyhow};

/// Adds a story to a failure.
pub trait Telling<T> {
    /// The failure, followed by a story that is only asked for now.
    fn telling(self, story: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Telling<T> for Result<T> {
    fn telling(self, story: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| anyhow!("{error:#}\n{}", story()))
    }
}
