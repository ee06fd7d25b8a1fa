//! DELs that found no agent: one small file each, until the agent is back.
//!
//! Decides the files' names and content, that they are durable before a DEL is
//! called done, that their number is bounded, and that removing one never takes
//! a newer one of the same attachment with it. Leaves to the agent when to read
//! them, whether an entry still concerns what is attached today, and what to do
//! with a file that makes no sense.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::error::{CniError, IO_FAILURE, TRY_AGAIN_LATER};
use crate::names;
use crate::netns::NetnsId;

/// More than this many entries are not taken. A node has hundreds of pods, so
/// that a spool this full means an agent that has been gone for a long time.
pub const MAX_ENTRIES: usize = 16_384;
/// An entry is no larger than this: the longest container ID, the longest path
/// (PATH_MAX) and the rest.
pub const MAX_ENTRY_BYTES: usize = 8192;
/// A container ID up to this length is part of the file's name as it is.
const LONGEST_PLAIN_ID: usize = 128;
/// A temporary file this old has no writer any more.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);
/// How long a writer waits for a remover. Far less than a DEL has (1.5 s).
const LOCK_PATIENCE: Duration = Duration::from_millis(200);

/// A DEL to be carried out later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolEntry {
    /// `CNI_CONTAINERID`
    pub container_id: String,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// What `CNI_NETNS` was when the DEL came, where it still was something.
    #[serde(default)]
    pub netns: Option<NetnsId>,
    /// `CNI_NETNS`, for people; may be empty.
    #[serde(default)]
    pub netns_path: String,
    /// When the DEL came. An attachment made after that is not meant.
    pub spooled_at_unix_ms: u64,
}

/// What [`read_all`] found.
#[derive(Debug, Default)]
pub struct SpoolContents {
    /// Oldest first.
    pub entries: Vec<SpoolEntry>,
    /// Files that are no entries, and why.
    pub unreadable: Vec<Unreadable>,
    /// Temporary files of plugins that did not live to rename them.
    pub abandoned: Vec<PathBuf>,
}

/// A file in the spool that is no entry.
#[derive(Debug)]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Why the spool could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// It holds [`MAX_ENTRIES`] already.
    #[error("spool {path} is full: it holds {MAX_ENTRIES} entries", path = .0.display())]
    Full(PathBuf),
    /// The entry has more than [`MAX_ENTRY_BYTES`].
    #[error("a spool entry of {0} bytes is more than the {MAX_ENTRY_BYTES} allowed")]
    TooLarge(usize),
    /// The entry's container ID or interface name is none.
    #[error(transparent)]
    BadName(#[from] CniError),
    /// The filesystem refused.
    #[error("spool {path}: {act}: {source}", path = path.display())]
    Io {
        /// The spool's directory or the file in it.
        path: PathBuf,
        /// What was tried.
        act: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl From<SpoolError> for CniError {
    fn from(error: SpoolError) -> Self {
        match error {
            SpoolError::Full(_) => Self::new(TRY_AGAIN_LATER, error.to_string())
                .with_details("start flock-agent on this node: it empties the spool"),
            SpoolError::BadName(error) => error,
            SpoolError::TooLarge(_) | SpoolError::Io { .. } => {
                Self::new(IO_FAILURE, error.to_string())
            }
        }
    }
}

impl SpoolEntry {
    /// An entry for a DEL that comes in now.
    #[must_use]
    pub fn now(container_id: &str, ifname: &str, netns_path: &str) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            container_id: container_id.to_owned(),
            ifname: ifname.to_owned(),
            netns: NetnsId::of_path(Path::new(netns_path)).ok(),
            netns_path: netns_path.to_owned(),
            spooled_at_unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The file's name: the same for the same attachment, another for another
    /// (neither part can contain a colon or a tilde that matters), never hidden,
    /// never a path, never longer than a file name may be.
    pub fn file_name(&self) -> Result<String, SpoolError> {
        names::check_container_id(&self.container_id)?;
        names::check_ifname(&self.ifname)?;
        let id = &self.container_id;
        if id.len() <= LONGEST_PLAIN_ID {
            return Ok(format!("{id}:{}.json", self.ifname));
        }
        let start: String = id.chars().take(LONGEST_PLAIN_ID / 2).collect();
        Ok(format!("{start}~{:032x}:{}.json", fnv1a_128(id.as_bytes()), self.ifname))
    }

    /// The file's content. A path that is longer than paths are, or full of what
    /// JSON has to escape, is dropped rather than the DEL refused: the
    /// namespace's identity is what counts.
    fn to_bytes(&self) -> Result<Vec<u8>, SpoolError> {
        let encode = |entry: &Self| serde_json::to_vec(entry).unwrap_or_default();
        let mut bytes = encode(self);
        if bytes.len() > MAX_ENTRY_BYTES {
            bytes = encode(&Self { netns_path: String::new(), ..self.clone() });
        }
        let fits = !bytes.is_empty() && bytes.len() <= MAX_ENTRY_BYTES;
        if fits { Ok(bytes) } else { Err(SpoolError::TooLarge(bytes.len())) }
    }
}

/// Writes an entry durably, in the place of an earlier one of its attachment.
pub fn write(dir: &Path, entry: &SpoolEntry) -> Result<(), SpoolError> {
    let name = entry.file_name()?;
    let bytes = entry.to_bytes()?;
    create_directory(dir)?;
    let directory = File::open(dir).map_err(failed(dir, "open"))?;
    let target = dir.join(&name);
    // Counted without a lock: DELs at the same moment may exceed the limit by
    // their own number, and none of them waits for another.
    if !target.exists() && is_full(dir)? {
        return Err(SpoolError::Full(dir.to_owned()));
    }
    let temporary = dir.join(format!(".{name}.{}", std::process::id()));
    let written = write_file(&temporary, &bytes).and_then(|()| {
        lock_for(LOCK_PATIENCE, || directory.try_lock_shared().is_ok());
        let renamed = fs::rename(&temporary, &target);
        let _ = directory.unlock();
        renamed
    });
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(failed(dir, "write")(error));
    }
    directory.sync_all().map_err(failed(dir, "sync"))
}

/// Reads every entry; a directory that does not exist yet has none. Directories
/// are passed over, and so are temporary files until they are surely abandoned. One call looks at no more than twice
/// [`MAX_ENTRIES`] files; the others follow once these are gone.
pub fn read_all(dir: &Path) -> Result<SpoolContents, SpoolError> {
    let mut contents = SpoolContents::default();
    let listing = match fs::read_dir(dir) {
        Ok(listing) => listing,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(contents),
        Err(error) => return Err(failed(dir, "list")(error)),
    };
    for file in listing.take(MAX_ENTRIES * 2) {
        let file = file.map_err(failed(dir, "list"))?;
        let name = file.file_name();
        let path = file.path();
        if file.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if is_hidden(&name) {
            contents.abandoned.extend(Some(path).filter(|path| is_older(path, ABANDONED_AFTER)));
            continue;
        }
        match read_entry(&path) {
            Ok(entry) if entry.file_name().is_ok_and(|own| *own == *name) => {
                contents.entries.push(entry);
            }
            Ok(_) => contents
                .unreadable
                .push(Unreadable { path, reason: "the file's name is not its entry's".into() }),
            // The plugin replaced it, or it was removed, between listing and reading.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                contents.unreadable.push(Unreadable { path, reason: error.to_string() });
            }
        }
    }
    contents.entries.sort_by(|a, b| {
        (a.spooled_at_unix_ms, &a.container_id, &a.ifname).cmp(&(
            b.spooled_at_unix_ms,
            &b.container_id,
            &b.ifname,
        ))
    });
    Ok(contents)
}

/// Removes an entry that was carried out. False when it is not there any more,
/// or when a newer one has taken its place, which stays.
pub fn remove(dir: &Path, entry: &SpoolEntry) -> Result<bool, SpoolError> {
    let path = dir.join(entry.file_name()?);
    let directory = match File::open(dir) {
        Ok(directory) => directory,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(dir, "open")(error)),
    };
    // Writers hold it for one rename; held too long, the entry stays for the
    // next round, which costs a repeated DEL and loses nothing.
    if !lock_for(LOCK_PATIENCE, || directory.try_lock().is_ok()) {
        let busy = io::Error::new(ErrorKind::TimedOut, "it stays locked");
        return Err(failed(dir, "lock")(busy));
    }
    match read_entry(&path) {
        Ok(there) if there == *entry => fs::remove_file(&path).map_err(failed(&path, "remove"))?,
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(&path, "read")(error)),
    }
    directory.sync_all().map_err(failed(dir, "sync"))?;
    Ok(true)
}

fn create_directory(dir: &Path) -> Result<(), SpoolError> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed(dir, "create"))?;
    // A directory that a power cut takes away takes its entries with it.
    let above = dir.parent().map_or(Ok(()), |above| File::open(above)?.sync_all());
    above.map_err(failed(dir, "sync"))
}

fn is_full(dir: &Path) -> Result<bool, SpoolError> {
    Ok(fs::read_dir(dir).map_err(failed(dir, "list"))?.take(MAX_ENTRIES).count() >= MAX_ENTRIES)
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn read_entry(path: &Path) -> io::Result<SpoolEntry> {
    // Whatever lies there: a link is not followed, a FIFO not waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_ENTRY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_ENTRY_BYTES {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is too large"));
    }
    serde_json::from_slice(&bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Tries until it works or patience ends; true when it worked. A writer goes on
/// either way: an unlocked rename is better than a DEL that fails because the
/// agent was stopped at the wrong moment.
fn lock_for(patience: Duration, try_lock: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if try_lock() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

fn is_older(path: &Path, than: Duration) -> bool {
    let written = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age > than))
}

fn failed(path: &Path, act: &'static str) -> impl FnOnce(io::Error) -> SpoolError {
    let path = path.to_owned();
    move |source| SpoolError::Io { path, act, source }
}

/// FNV-1a, wide enough that two container IDs do not meet by chance.
fn fnv1a_128(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
