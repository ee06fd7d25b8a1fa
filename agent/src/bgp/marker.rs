//! What a start has to know of the life before it: did a speaker of this boot have sessions? Only
//! then is this a restart (R) with forwarding kept (F), RFC 4724 §3. On the first start there is
//! nothing to keep, and after a reboot the kernel's routes are gone, whatever the disk says.
//!
//! The marker is written before the first session can come up, so that a crash right after it is
//! known for what it is, and removed when the node said goodbye (a drain).

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::pods;
use crate::store::{Keepsake, StoreError};

/// Its name in the state directory.
const FILE: &str = "speaker.json";
const VERSION: u32 = 1;

/// What was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// No speaker, or one that said goodbye.
    None,
    /// One of this boot.
    Restarted,
    /// One of an earlier boot.
    Rebooted,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    version: u32,
    boot_id: String,
}

/// The marker of this node.
#[derive(Debug, Clone)]
pub(super) struct Marker {
    file: Keepsake,
    boot_id: Option<String>,
}

impl Marker {
    /// The one in this state directory.
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { file: Keepsake::new(&state_dir.join(FILE)), boot_id: pods::boot_id() }
    }

    /// What was before. One that cannot be read claims nothing: peers then drop our routes and
    /// learn them anew, which is safe; it is told and replaced.
    pub(super) fn past(&self) -> Past {
        let content = match self.file.read() {
            Ok(None) => return Past::None,
            Ok(Some(bytes)) => serde_json::from_slice::<Content>(&bytes).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match content {
            Ok(content) if content.version == VERSION => {
                // A boot that has no name proves nothing.
                if self.boot_id.as_ref() == Some(&content.boot_id) {
                    Past::Restarted
                } else {
                    Past::Rebooted
                }
            }
            other => {
                let problem = match other {
                    Ok(content) => format!("it has version {}, not {VERSION}", content.version),
                    Err(problem) => problem,
                };
                let file = self.file.path().display().to_string();
                tracing::warn!(
                    file,
                    reason = problem,
                    "the last life's marker cannot be used; this start counts as the first"
                );
                Past::None
            }
        }
    }

    /// From now on a start is a restart. Takes as long as the disk.
    pub(super) fn write(&self) -> Result<(), StoreError> {
        let boot_id = self.boot_id.clone().unwrap_or_default();
        let content = Content { version: VERSION, boot_id };
        self.file.write(&serde_json::to_vec(&content).unwrap_or_default())
    }

    /// From now on a start is the first again.
    pub(super) fn clear(&self) -> std::io::Result<()> {
        self.file.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_boot_is_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let marker = Marker::new(dir.path());
        assert!(marker.boot_id.is_some());
        assert_eq!(marker.past(), Past::None, "the first start");
        marker.write().unwrap();
        assert_eq!(Marker::new(dir.path()).past(), Past::Restarted);
        let rebooted = Marker { boot_id: Some("another".into()), ..marker.clone() };
        assert_eq!(rebooted.past(), Past::Rebooted);
        let unknown = Marker { boot_id: None, ..marker.clone() };
        assert_eq!(unknown.past(), Past::Rebooted, "a boot without a name claims nothing");
        marker.clear().unwrap();
        assert_eq!(marker.past(), Past::None);
        for garbage in [&b""[..], b"{", b"{\"version\":9,\"bootId\":\"x\"}", b"[]"] {
            marker.file.write(garbage).unwrap();
            assert_eq!(marker.past(), Past::None, "{garbage:?}");
        }
    }
}
