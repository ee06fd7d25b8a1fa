//! A pod's network namespace: what it is, and a visit to it.
//!
//! Decides what counts as one (a file of nsfs, opened without ever blocking)
//! and that identity is (device, inode), never the path. The visit is short:
//! in, open a socket, and home; a socket stays bound to where it was opened.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::Error;

/// `statfs.f_type` of the filesystem behind namespace files.
const NSFS_MAGIC: i64 = 0x6e73_6673;

/// What tells one namespace from another while both exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NetnsId {
    /// The device of the namespace file.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
}

/// An open network namespace. Cheap to clone; keeps the namespace alive.
#[derive(Clone, Debug)]
pub struct Netns {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: OwnedFd,
    path: PathBuf,
    id: NetnsId,
}

impl Netns {
    /// Opens a namespace file, refusing everything that is not one.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref().to_path_buf();
        let failed =
            |errno: Errno| Error::NamespaceOpen { path: path.clone(), source: errno.into() };
        // NONBLOCK: a fifo without a writer would otherwise hold the caller.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(&path, flags, Mode::empty()).map_err(failed)?;
        let kind = rustix::fs::fstatfs(&file).map_err(failed)?.f_type;
        if kind != NSFS_MAGIC {
            return Err(Error::NotANetworkNamespace { path, found: describe(&file) });
        }
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        let id = NetnsId { dev: stat.st_dev, ino: stat.st_ino };
        Ok(Self { inner: Arc::new(Inner { file, path, id }) })
    }

    /// The namespace of the calling thread.
    pub fn of_this_thread() -> Result<Self, Error> {
        Self::open("/proc/thread-self/ns/net")
    }

    /// Its identity.
    pub fn id(&self) -> NetnsId {
        self.inner.id
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.inner.file.as_raw_fd()
    }

    /// Moves the calling thread into it.
    pub(crate) fn enter(&self) -> Result<(), Errno> {
        move_into_link_name_space(self.inner.file.as_fd(), Some(LinkNameSpaceType::Network))
    }

    /// Runs `work` inside it, on a thread of its own: the caller's may be anywhere.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let own = self.clone();
        let thread = std::thread::spawn(move || {
            own.enter().map_err(|errno| Error::NamespaceOpen {
                path: own.path().to_path_buf(),
                source: errno.into(),
            })?;
            work()
        });
        thread.join().map_err(|_| Error::Stopped)?
    }

    /// Runs `visit` inside it and comes home. `Err(Error::Stranded)` means
    /// that the thread is in the wrong place and must end.
    pub(crate) fn visit<T>(
        &self,
        home: &Netns,
        visit: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.enter().map_err(|errno| match errno {
            // nsfs, but of another kind (a pid or mount namespace).
            Errno::INVAL => Error::NotANetworkNamespace {
                path: self.path().to_path_buf(),
                found: "a namespace of another kind".to_owned(),
            },
            other => Error::NamespaceOpen { path: self.path().to_path_buf(), source: other.into() },
        })?;
        let result = visit();
        home.enter().map_err(|errno| Error::Stranded {
            path: self.path().to_path_buf(),
            source: errno.into(),
        })?;
        result
    }
}

impl PartialEq for Netns {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Netns {}

fn describe(file: &OwnedFd) -> String {
    use rustix::fs::FileType;
    let Ok(stat) = rustix::fs::fstat(file) else {
        return "an unknown file".to_owned();
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Fifo => "a fifo",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "an unknown file",
    }
    .to_owned()
}
