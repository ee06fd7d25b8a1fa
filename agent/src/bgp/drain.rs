//! Whether the node is going away, and how far it is: said by the operator, kept on disk, so that
//! an agent that is restarted meanwhile goes on where it was. Decides the stages; carrying them out
//! is the task's.
//!
//! In service → draining: GRACEFUL_SHUTDOWN on everything (RFC 8326), so that routers look for
//! other ways → drained: withdrawn, sessions closed with words (RFC 9003), until it is undone.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::Keepsake;

/// Its name in the state directory.
const FILE: &str = "drain.json";
const VERSION: u32 = 1;

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub(super) enum Stage {
    /// Peers look for other ways until then.
    Draining {
        /// When it was said.
        since: Timestamp,
        /// When everything is withdrawn.
        until: Timestamp,
    },
    /// Everything is withdrawn.
    Drained {
        /// Since when.
        since: Timestamp,
    },
}

impl Stage {
    /// A drain that begins now.
    pub(super) fn begin(now: Timestamp, wait: Duration) -> Self {
        let until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        Self::Draining { since: now, until }
    }

    /// How long until the next stage; `None`: there is none.
    pub(super) fn left(&self, now: Timestamp) -> Option<Duration> {
        match self {
            Self::Draining { until, .. } => {
                Some(until.duration_since(now).try_into().unwrap_or(Duration::ZERO))
            }
            Self::Drained { .. } => None,
        }
    }

    /// In words, for people.
    pub(super) fn told(&self, now: Timestamp) -> String {
        match self {
            Self::Draining { .. } => {
                let left = self.left(now).unwrap_or_default();
                format!("draining, {} s left", seconds(left))
            }
            Self::Drained { since } => format!("drained since {}", whole_seconds(*since)),
        }
    }

    /// When it came into this stage.
    pub(super) fn since(&self) -> Timestamp {
        match self {
            Self::Draining { since, .. } | Self::Drained { since } => *since,
        }
    }
}

/// Whole seconds, of which the last counts until it is over.
pub(super) fn seconds(left: Duration) -> u64 {
    left.as_secs() + u64::from(left.subsec_nanos() > 0)
}

/// RFC 3339 without fractions.
pub(super) fn whole_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    #[serde(flatten)]
    stage: Stage,
}

/// The stage on disk.
#[derive(Debug, Clone)]
pub(super) struct DrainFile {
    file: Keepsake,
}

impl DrainFile {
    /// The one in this state directory.
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { file: Keepsake::new(&state_dir.join(FILE)) }
    }

    /// What was said; `None`: in service. One that cannot be read is refused, never guessed: a
    /// drained node that announces itself again would draw traffic that nobody expects there.
    pub(super) fn read(&self) -> Result<Option<Stage>, String> {
        let shown = self.file.path().display();
        let bytes = self.file.read().map_err(|error| error.to_string())?;
        let Some(bytes) = bytes else { return Ok(None) };
        let remedy = "if the node is in service, remove the file";
        match serde_json::from_slice::<Content>(&bytes) {
            Ok(content) if content.version == VERSION => Ok(Some(content.stage)),
            Ok(content) => {
                Err(format!("{shown}: version {}, not {VERSION}; {remedy}", content.version))
            }
            Err(error) => Err(format!("{shown}: {error}; {remedy}")),
        }
    }

    /// From now on, durably. Takes as long as the disk.
    pub(super) fn write(&self, stage: Option<Stage>) -> Result<(), String> {
        let Some(stage) = stage else {
            return self
                .file
                .remove()
                .map_err(|error| format!("{}: {error}", self.file.path().display()));
        };
        let content = Content { version: VERSION, stage };
        let bytes = serde_json::to_vec(&content).unwrap_or_default();
        self.file.write(&bytes).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_survives_on_disk_and_what_is_unreadable_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = DrainFile::new(dir.path());
        assert_eq!(file.read().unwrap(), None);
        let now: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let draining = Stage::begin(now, Duration::from_secs(30));
        for stage in [draining, Stage::Drained { since: now }] {
            file.write(Some(stage)).unwrap();
            assert_eq!(DrainFile::new(dir.path()).read().unwrap(), Some(stage));
        }
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(text, r#"{"version":1,"state":"drained","since":"2026-01-01T00:00:00.5Z"}"#);
        file.write(None).unwrap();
        assert_eq!(file.read().unwrap(), None);
        for garbage in
            ["", "{}", r#"{"version":2,"state":"drained","since":"2026-01-01T00:00:00Z"}"#]
        {
            std::fs::write(dir.path().join(FILE), garbage).unwrap();
            assert!(file.read().unwrap_err().contains("remove the file"), "{garbage}");
        }
    }

    #[test]
    fn what_is_left_of_it() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let begun = Stage::begin(at("2026-01-01T00:00:00Z"), Duration::from_secs(30));
        let later = at("2026-01-01T00:00:12Z");
        assert_eq!(begun.left(later), Some(Duration::from_secs(18)));
        assert_eq!(begun.told(later), "draining, 18 s left");
        // The agent was away meanwhile, or the clock was set.
        assert_eq!(begun.left(at("2026-01-01T01:00:00Z")), Some(Duration::ZERO));
        let drained = Stage::Drained { since: at("2026-01-01T00:00:30.25Z") };
        assert_eq!(drained.left(later), None);
        assert_eq!(drained.told(later), "drained since 2026-01-01T00:00:30Z");
    }
}
