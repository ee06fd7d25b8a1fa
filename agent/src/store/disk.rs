//! Replaces the state file as a whole. Decides the order of the steps; leaves what is in the file
//! to the writer. After each step a crash leaves either the old file or the new one, and at most
//! a temporary file that the next start removes.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::StoreError;

/// What is done to the disk, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Make the directory (at the start).
    MakeDirectory,
    /// Read the file (at the start).
    Read,
    /// Create the temporary file.
    Create,
    /// Write it.
    Write,
    /// Sync it.
    Sync,
    /// Rename it over the file.
    Rename,
    /// Sync the directory.
    SyncDirectory,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MakeDirectory => "making the directory",
            Self::Read => "reading",
            Self::Create => "creating the temporary file",
            Self::Write => "writing",
            Self::Sync => "syncing",
            Self::Rename => "renaming over it",
            Self::SyncDirectory => "syncing the directory",
        })
    }
}

/// Asked before each step of a write; an error is taken for the system's. For fault injection:
/// the product opens the gate always.
pub type Gate = Box<dyn FnMut(Step) -> io::Result<()> + Send>;

/// A write that failed, and what the file is like now.
pub(super) struct Failed {
    pub(super) error: StoreError,
    /// The new content is in place, only not surely durable.
    pub(super) replaced: bool,
}

/// The file that was replaced, still open. The last one to close a file without a name pays for
/// giving back its pages and blocks, which grows with its size: to be dropped when nobody waits.
#[must_use = "dropping it takes time: do that when nobody waits"]
pub(super) struct Retired(#[expect(dead_code, reason = "held only to be dropped")] Option<File>);

pub(super) struct Disk {
    path: PathBuf,
    temp: PathBuf,
    directory: PathBuf,
    gate: Gate,
    /// What the last write took for its syncs.
    synced: Duration,
}

impl Disk {
    /// Ready to write; removes what a crash left.
    pub(super) fn new(path: &Path, gate: Gate) -> Result<Self, StoreError> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        std::fs::create_dir_all(&directory)
            .map_err(|error| StoreError::system(&directory, Step::MakeDirectory, &error))?;
        let mut temp = path.as_os_str().to_owned();
        temp.push(".tmp");
        let disk = Self {
            path: path.to_owned(),
            temp: temp.into(),
            directory,
            gate,
            synced: Duration::ZERO,
        };
        disk.remove_temp();
        Ok(disk)
    }

    /// The file's content; `None` where there is none.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, StoreError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::system(&self.path, Step::Read, &error)),
        }
    }

    /// How long the syncs of the last write took, of the file and of the directory.
    pub(super) fn synced(&self) -> Duration {
        self.synced
    }

    /// Puts `content` in the place of the file, durably.
    pub(super) fn replace(&mut self, content: &[u8]) -> Result<Retired, Failed> {
        let mut step = Step::Create;
        self.synced = Duration::ZERO;
        match self.try_replace(content, &mut step) {
            Ok(retired) => Ok(retired),
            Err(error) => {
                let replaced = step == Step::SyncDirectory;
                if !replaced {
                    // On a full disk this gives the space back.
                    self.remove_temp();
                }
                let place = if replaced { &self.directory } else { &self.path };
                Err(Failed { error: StoreError::system(place, step, &error), replaced })
            }
        }
    }

    fn try_replace(&mut self, content: &[u8], step: &mut Step) -> io::Result<Retired> {
        let mut enter = |next: Step| {
            *step = next;
            (self.gate)(next)
        };
        enter(Step::Create)?;
        let mut file = create(&self.temp)?;
        enter(Step::Write)?;
        file.write_all(content)?;
        enter(Step::Sync)?;
        self.synced += timed(|| file.sync_all())?;
        enter(Step::Rename)?;
        // There is none before the first write; that it cannot be opened otherwise costs only time.
        let retired = Retired(File::open(&self.path).ok());
        std::fs::rename(&self.temp, &self.path)?;
        enter(Step::SyncDirectory)?;
        let directory = File::open(&self.directory)?;
        self.synced += timed(|| directory.sync_all())?;
        Ok(retired)
    }

    /// Best effort: if it cannot go now, `create` meets it again.
    fn remove_temp(&self) {
        let _ = std::fs::remove_file(&self.temp);
    }
}

fn timed(act: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed())
}

/// A new file, ours alone. A leftover is removed and not reused: it may have other permissions.
fn create(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            open()
        }
        other => other,
    }
}
