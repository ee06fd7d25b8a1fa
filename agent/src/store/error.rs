//! Why the state is not what it should be. Decides the words: each names the file, the step, the
//! system's own text, and what an operator can do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::allocation::Key;
use super::disk::Step;

/// A failure of the state file. Clonable, because all changes of one group share one write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file is there and cannot be taken for ours. It is never overwritten.
    #[error("state file {}: {problem}; {remedy}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The system refused something.
    #[error("state file {}: {step}: {text}; {remedy}", path.display())]
    System {
        /// The file or directory in question.
        path: PathBuf,
        /// What was being done.
        step: Step,
        /// The system's error number, where it gave one.
        errno: Option<i32>,
        /// The system's words.
        text: String,
        /// What to do.
        remedy: &'static str,
    },
    /// An entry cannot be written down.
    #[error("allocation {key}: cannot be written as JSON: {problem}; this is a defect, report it")]
    Entry {
        /// Which.
        key: Key,
        /// Why.
        problem: String,
    },
    /// Too many changes wait for the disk.
    #[error(
        "state file: {waiting} changes wait for the disk; try again, and see why it is so slow"
    )]
    Busy {
        /// The channel's capacity.
        waiting: usize,
    },
    /// The writer is gone.
    #[error("state file: the writer has stopped; restart the agent")]
    Stopped,
}

impl StoreError {
    pub(super) fn refused(path: &Path, problem: impl ToString) -> Self {
        Self::Refused {
            path: path.to_owned(),
            problem: problem.to_string(),
            remedy: "repair it, or move it away to start with no pods known",
        }
    }

    pub(super) fn system(path: &Path, step: Step, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space on that filesystem"
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "mount it read-write, or choose another --state-dir"
            }
            io::ErrorKind::PermissionDenied => {
                "let the agent write there, or choose another --state-dir"
            }
            io::ErrorKind::NotFound => "create the directory, or choose another --state-dir",
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
                "something else stands there: move it away, or choose another --state-dir"
            }
            _ => "see the kernel's log for that disk",
        };
        Self::System {
            path: path.to_owned(),
            step,
            errno: error.raw_os_error(),
            text: error.to_string(),
            remedy,
        }
    }
}
