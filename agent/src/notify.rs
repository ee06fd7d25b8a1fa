//! inotify, as little of it as the agent needs: a root with chosen folders below it, and events
//! folded into the set of file names that may have changed.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// What may have changed since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Files by path relative to the watched root (`nodeconfig.yaml`, `pods/a.yaml`).
    pub(crate) files: BTreeSet<PathBuf>,
    /// Events were lost, or a directory itself came or went: look at everything.
    pub(crate) everything: bool,
}

/// Watches a root and chosen folders below it, which may come later.
pub(crate) struct Watcher {
    fd: AsyncFd<OwnedFd>,
    root: PathBuf,
    folders: Vec<&'static str>,
    /// (descriptor, folder below the root; empty is the root itself)
    watched: Vec<(i32, &'static str)>,
}

impl Watcher {
    pub(crate) fn new(root: &Path, folders: &[&'static str]) -> Result<Self, Errno> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        #[allow(
            deprecated,
            reason = "unsound only for a type that lets others close its descriptor; OwnedFd does not, and the successor is an unsafe fn"
        )]
        let fd = AsyncFd::new(fd).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        let mut watcher =
            Self { fd, root: root.to_owned(), folders: folders.to_vec(), watched: Vec::new() };
        let root_watch = watcher.add(root)?;
        watcher.watched.push((root_watch, ""));
        watcher.watch_folders();
        Ok(watcher)
    }

    fn add(&self, path: &Path) -> Result<i32, Errno> {
        // No MODIFY: a file that is being rewritten in place is looked at when its writer closes
        // it. CREATE is for folders and links, which have no writer to close them.
        let wanted = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::CREATE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(self.fd.get_ref(), path, wanted)
    }

    /// Watches every folder that exists and is not watched yet. A folder that is replaced gets a
    /// new descriptor, because the kernel drops the old one with the old inode.
    fn watch_folders(&mut self) {
        for folder in self.folders.clone() {
            if let Ok(descriptor) = self.add(&self.root.join(folder)) {
                self.watched.retain(|(_, watched)| *watched != folder);
                self.watched.push((descriptor, folder));
            }
        }
    }

    /// Waits until something happened.
    pub(crate) async fn wait(&self) {
        if let Ok(mut guard) = self.fd.readable().await {
            guard.clear_ready();
        }
    }

    /// Everything that happened up to now, without waiting.
    pub(crate) fn take(&mut self) -> Touched {
        let mut touched = Touched::default();
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(self.fd.get_ref(), &mut buffer);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            let name = event.file_name().and_then(|name| name.to_str().ok()).unwrap_or_default();
            let folder = self.watched.iter().find(|(wd, _)| *wd == event.wd()).map(|(_, f)| *f);
            let itself = ReadFlags::QUEUE_OVERFLOW
                | ReadFlags::IGNORED
                | ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF;
            // Names that start with two dots are how a mounted ConfigMap swaps all its files.
            if flags.intersects(itself) || name.starts_with("..") {
                touched.everything = true;
                continue;
            }
            match folder {
                Some("") if self.folders.contains(&name) => touched.everything = true,
                Some(folder) => {
                    let path = Path::new(folder).join(name);
                    if !flags.contains(ReadFlags::CREATE) || is_link(&self.root.join(&path)) {
                        touched.files.insert(path);
                    }
                }
                None => {}
            }
        }
        if touched.everything {
            self.watch_folders();
        }
        touched
    }
}

/// A symbolic or hard link: complete from the moment that it appears.
fn is_link(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    path.symlink_metadata().is_ok_and(|meta| meta.is_symlink() || meta.nlink() > 1)
}
