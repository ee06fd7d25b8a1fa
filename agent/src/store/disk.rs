//! Replaces the state file as a whole. Decides the order of the steps; leaves what is in the file
//! to the writer. After each step a crash leaves either the old file or the new one, and at most
//! a temporary file that the next start removes.
//!
//! A large file is not written anew each time: the one that it takes the place of is kept under the
//! temporary name, and the next write brings that one forward by what differs, syncs it and exchanges
//! the two names. What is current is never written to, nor what somebody has opened (`readers`).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::error::StoreError;
use super::readers::Readers;

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

/// What comes in the file's place.
pub(super) enum Text<'a> {
    /// All of it; the file is not to be kept.
    Whole(&'a [u8]),
    /// All of it; the next one may be made from it.
    Kept(&'a [u8]),
    /// What differs from the copy that [`Disk::has_copy`] told of, with where it stands.
    Pieces(&'a [(usize, Vec<u8>)]),
}

/// A file that we made, open, and by which number its readers are watched.
struct Copy {
    file: File,
    watched: i32,
}

pub(super) struct Disk {
    path: PathBuf,
    temp: PathBuf,
    directory: PathBuf,
    gate: Gate,
    /// The current file, where it may be kept when it is replaced.
    current: Option<Copy>,
    /// The one before it, under the temporary name.
    spare: Option<Copy>,
    readers: Readers,
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
            current: None,
            spare: None,
            readers: Readers::default(),
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

    /// Whether the file that was current before this one is there, and nobody else's.
    pub(super) fn has_copy(&mut self) -> bool {
        let watched = self.spare.as_ref().map(|spare| spare.watched);
        let free = watched.is_some_and(|watched| self.readers.left_alone(watched));
        if !free && let Some(watched) = watched {
            self.spare = None;
            self.readers.forget(watched);
        }
        free
    }

    /// Puts `content` in the place of the file, durably.
    pub(super) fn replace(&mut self, content: &[u8]) -> Result<Retired, Failed> {
        self.renew(&Text::Whole(content))
    }

    /// The same with a text that may come to be in several ways.
    pub(super) fn renew(&mut self, text: &Text<'_>) -> Result<Retired, Failed> {
        let mut step = Step::Create;
        self.synced = Duration::ZERO;
        match self.try_renew(text, &mut step) {
            Ok(retired) => Ok(retired),
            Err(error) => {
                // Which of the two is current after a crash nobody knows: neither is written to.
                self.forget_copies();
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

    fn try_renew(&mut self, text: &Text<'_>, step: &mut Step) -> io::Result<Retired> {
        let mut enter = |next: Step| {
            *step = next;
            (self.gate)(next)
        };
        let copy = self.spare.take();
        let (file, watched) = match (text, copy) {
            (Text::Pieces(pieces), Some(Copy { file, watched })) => {
                enter(Step::Write)?;
                for (at, piece) in *pieces {
                    file.write_all_at(piece, u64::try_from(*at).unwrap_or(u64::MAX))?;
                }
                (file, Some(watched))
            }
            (Text::Pieces(_), None) => return Err(io::Error::other("no copy to bring forward")),
            (Text::Whole(content) | Text::Kept(content), copy) => {
                if let Some(copy) = copy {
                    self.readers.forget(copy.watched);
                }
                enter(Step::Create)?;
                let mut file = create(&self.temp)?;
                enter(Step::Write)?;
                file.write_all(content)?;
                let kept = matches!(text, Text::Kept(_));
                (file, kept.then(|| self.readers.watch(&self.temp)).flatten())
            }
        };
        enter(Step::Sync)?;
        self.synced += timed(|| file.sync_all())?;
        enter(Step::Rename)?;
        let retired = match self.current.take() {
            Some(before) if watched.is_some() && exchange(&self.temp, &self.path).is_ok() => {
                self.spare = Some(before);
                Retired(None)
            }
            before => {
                // There is none before the first write; that it cannot be opened otherwise costs
                // only time.
                let retired = Retired(File::open(&self.path).ok());
                std::fs::rename(&self.temp, &self.path)?;
                if let Some(before) = before {
                    self.readers.forget(before.watched);
                }
                retired
            }
        };
        self.current = watched.map(|watched| Copy { file, watched });
        enter(Step::SyncDirectory)?;
        let directory = File::open(&self.directory)?;
        self.synced += timed(|| directory.sync_all())?;
        Ok(retired)
    }

    fn forget_copies(&mut self) {
        for copy in self.current.take().into_iter().chain(self.spare.take()) {
            self.readers.forget(copy.watched);
        }
    }

    /// Best effort: if it cannot go now, `create` meets it again.
    fn remove_temp(&self) {
        let _ = std::fs::remove_file(&self.temp);
    }
}

fn exchange(one: &Path, other: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
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
