//! How a file of the standalone directory is read: bounded, without waiting for anybody, and not before
//! its writer has written something. Decides, too, what is read at once: a small file that was just
//! written is in memory, and to have it read by another thread costs two of them being woken, which is
//! more than reading and parsing it (some 0.1 ms on the way of every pod's event).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::notify::{Arrival, Touched};

/// No manifest is larger; a bigger file is refused unread.
const MAX_FILE: u64 = 1 << 20;
/// So much is read and parsed at once, of so many files: YAML takes up to 0.2 ms a KiB (68 us for 355
/// bytes that nothing was warm for), and the thread serves everybody.
const AT_ONCE: usize = 4 << 10;
const FILES_AT_ONCE: usize = 4;

/// A file's text; `None` when it is not there.
type Text = Result<Option<String>, String>;

/// Where texts come from.
pub(super) enum Texts<'r> {
    /// From the disk below this root, which may take its time.
    Disk(&'r Path),
    /// These have been read already.
    Read(BTreeMap<PathBuf, Text>),
}

impl Texts<'static> {
    /// What was touched, if all of it can be had without waiting for the disk.
    pub(super) fn at_once(root: &Path, touched: &Touched) -> Option<Self> {
        if touched.everything || touched.files.len() > FILES_AT_ONCE {
            return None;
        }
        let mut room = AT_ONCE;
        let mut texts = BTreeMap::new();
        for path in touched.files.keys() {
            let text = read_from_memory(&root.join(path), room)?;
            room -= text.as_ref().map_or(0, String::len);
            texts.insert(path.clone(), Ok(text));
        }
        Some(Self::Read(texts))
    }
}

impl Texts<'_> {
    /// The text of a file; `None` while it waits for its first byte.
    pub(super) fn of(&mut self, path: &Path, arrival: Arrival) -> Option<Text> {
        let read = match self {
            Self::Disk(root) => read_bounded(&root.join(path)),
            Self::Read(texts) => texts.remove(path)?,
        };
        let empty = matches!(&read, Ok(Some(text)) if text.trim().is_empty());
        // It has a name and nothing else yet: its writer is about to fill and close it.
        (arrival != Arrival::Created || !empty).then_some(read)
    }
}

/// The text of a regular file that is no larger than this; outer `None` where that is not so, or
/// where only the disk knows. Inner `None`: it is not there.
fn read_from_memory(path: &Path, room: usize) -> Option<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Some(None),
        Err(_) => return None,
    };
    let facts = rustix::fs::fstat(&file).ok()?;
    let size = usize::try_from(facts.st_size).ok().filter(|size| *size <= room)?;
    if !FileType::from_raw_mode(facts.st_mode).is_file() {
        return None;
    }
    // One more than there should be: whoever writes it meanwhile tells when it is closed.
    let mut bytes = vec![0; size + 1];
    let read = match size {
        0 => 0,
        _ => {
            let into = &mut [IoSliceMut::new(&mut bytes)];
            rustix::io::preadv2(&file, into, 0, ReadWriteFlags::NOWAIT).ok()?
        }
    };
    bytes.truncate(read);
    if read != size {
        return None;
    }
    String::from_utf8(bytes).ok().map(Some)
}

fn read_bounded(path: &Path) -> Text {
    // Whatever lies there: a FIFO is not waited for.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err("is not a regular file".into());
    }
    let mut text = String::new();
    file.take(MAX_FILE + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() as u64 > MAX_FILE {
        return Err(format!("is larger than {MAX_FILE} bytes"));
    }
    Ok(Some(text))
}
