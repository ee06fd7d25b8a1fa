//! Which network namespace a path means.
//!
//! Decides that a namespace is its (device, inode) and not its path: the same
//! path may carry another namespace tomorrow, and a path whose namespace was
//! unmounted is an ordinary file that must not pass for one. Leaves entering it
//! to whoever needs to.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

/// `NSFS_MAGIC` of linux/magic.h: the filesystem on which namespaces are files.
const NSFS: u64 = 0x6e73_6673;

/// The identity of a network namespace while it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NetnsId {
    /// The device number of the kernel's namespace filesystem.
    pub dev: u64,
    /// The inode number; the kernel may give it to a later namespace.
    pub ino: u64,
}

/// Why a path is no namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// It cannot be looked at; a missing file is `NotFound`.
    #[error("network namespace {path}: {source}", path = path.display())]
    Unreachable {
        /// The path asked for.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is there, and it is something else.
    #[error("{path} is not a network namespace", path = path.display())]
    NotANamespace {
        /// The path asked for.
        path: PathBuf,
    },
}

impl NetnsId {
    /// The namespace behind a path such as `/run/netns/x` or `/proc/7/ns/net`.
    pub fn of_path(path: &Path) -> Result<Self, NetnsError> {
        let unreachable = |source: rustix::io::Errno| NetnsError::Unreachable {
            path: path.into(),
            source: source.into(),
        };
        // O_PATH: nothing is really opened, so that no device or FIFO can hold us up.
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(unreachable)?;
        let filesystem = rustix::fs::fstatfs(&file).map_err(unreachable)?;
        if u64::try_from(filesystem.f_type).ok() != Some(NSFS) {
            return Err(NetnsError::NotANamespace { path: path.into() });
        }
        let stat = rustix::fs::fstat(&file).map_err(unreachable)?;
        Ok(Self { dev: stat.st_dev, ino: stat.st_ino })
    }
}
