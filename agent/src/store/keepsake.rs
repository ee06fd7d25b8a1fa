//! A small file beside the state file that is replaced as a whole, durably, or removed. Decides
//! nothing about its content; small enough to be read at once.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::error::StoreError;

/// Such a file.
#[derive(Debug, Clone)]
pub struct Keepsake {
    path: PathBuf,
}

impl Keepsake {
    /// The file at this path.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its content; `None` where there is none.
    pub fn read(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.disk()?.read()
    }

    /// Puts `content` in its place; durable when this returns.
    pub fn write(&self, content: &[u8]) -> Result<(), StoreError> {
        self.disk()?.replace(content).map(drop).map_err(|failed| failed.error)
    }

    /// Removes it; gone for good when this returns. Absent is success.
    pub fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn disk(&self) -> Result<Disk, StoreError> {
        Disk::new(&self.path, Box::new(|_| Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let keepsake = Keepsake::new(&dir.path().join("below/it.json"));
        assert_eq!(keepsake.read().unwrap(), None);
        keepsake.write(b"one").unwrap();
        keepsake.write(b"two").unwrap();
        assert_eq!(keepsake.read().unwrap().as_deref(), Some(&b"two"[..]));
        keepsake.remove().unwrap();
        keepsake.remove().unwrap();
        assert_eq!(keepsake.read().unwrap(), None);
    }
}
