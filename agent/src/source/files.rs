//! How a file of the standalone directory is read: bounded, without waiting for anybody, and not before
//! its writer has written something.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::notify::Arrival;

/// No manifest is larger; a bigger file is refused unread.
const MAX_FILE: u64 = 1 << 20;

/// The text of a file; inner `None` when it is not there, outer `None` while it waits for its first byte.
pub(super) fn text(path: &Path, arrival: Arrival) -> Option<Result<Option<String>, String>> {
    let read = read_bounded(path);
    let empty = matches!(&read, Ok(Some(text)) if text.trim().is_empty());
    // It has a name and nothing else yet: its writer is about to fill and close it.
    (arrival != Arrival::Created || !empty).then_some(read)
}

fn read_bounded(path: &Path) -> Result<Option<String>, String> {
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
