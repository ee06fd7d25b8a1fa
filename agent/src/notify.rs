//! inotify, as little of it as the agent needs: a root with chosen folders below it, and events
//! folded into the set of file names that may have changed.
//!
//! A watch follows the inode, and what the agent is told to follow is a path. So each look asks for
//! the watches again: what is watched already costs one call and keeps its descriptor, and another
//! descriptor means that somebody put another directory there. What cannot be watched is told once
//! and tried again, and until it works nothing is taken for unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// How often to look while something cannot be watched.
const BLIND: Duration = Duration::from_secs(1);
/// The root among the folders.
const ROOT: &str = "";

/// How far a file is, by the last that was heard of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Its name appeared. It may be complete (a link), or still wait for its first byte.
    Created,
    /// Its writer closed it, or it came or went whole.
    Settled,
}

/// What may have changed since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Files by path relative to the watched root (`nodeconfig.yaml`, `pods/a.yaml`).
    pub(crate) files: BTreeMap<PathBuf, Arrival>,
    /// Events were lost, or a directory itself came or went: look at everything.
    pub(crate) everything: bool,
}

impl Touched {
    pub(crate) fn is_nothing(&self) -> bool {
        !self.everything && self.files.is_empty()
    }
}

/// Watches a root and chosen folders below it, which may come later.
pub(crate) struct Watcher {
    fd: AsyncFd<OwnedFd>,
    root: PathBuf,
    /// The root and the chosen folders, as they are known in `watched`.
    places: Vec<&'static str>,
    watched: BTreeMap<&'static str, i32>,
    /// What should be watched and cannot be.
    blind: BTreeSet<&'static str>,
}

impl Watcher {
    /// Watches a root that has to be there.
    pub(crate) fn new(root: &Path, folders: &[&'static str]) -> Result<Self, Errno> {
        let mut watcher = Self::nowhere(root, folders)?;
        let descriptor = watcher.add(root)?;
        watcher.watched.insert(ROOT, descriptor);
        watcher.watch_again();
        Ok(watcher)
    }

    /// The same for a root that may come later, too.
    pub(crate) fn patient(root: &Path, folders: &[&'static str]) -> Result<Self, Errno> {
        let mut watcher = Self::nowhere(root, folders)?;
        watcher.watch_again();
        Ok(watcher)
    }

    fn nowhere(root: &Path, folders: &[&'static str]) -> Result<Self, Errno> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        #[allow(
            deprecated,
            reason = "unsound only for a type that lets others close its descriptor; OwnedFd does not, and the successor is an unsafe fn"
        )]
        let fd = AsyncFd::new(fd).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        Ok(Self {
            fd,
            root: root.to_owned(),
            places: std::iter::once(ROOT).chain(folders.iter().copied()).collect(),
            watched: BTreeMap::new(),
            blind: BTreeSet::new(),
        })
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

    fn path_of(&self, place: &str) -> PathBuf {
        if place == ROOT { self.root.clone() } else { self.root.join(place) }
    }

    /// Asks for every watch again. True when something is watched that was not, or is watched no
    /// more.
    fn watch_again(&mut self) -> bool {
        let mut changed = false;
        for place in self.places.clone() {
            let path = self.path_of(place);
            let outcome = self.add(&path);
            changed |= self.keep(place, outcome.ok());
            match outcome {
                Ok(_) => {
                    if self.blind.remove(place) {
                        tracing::info!(file = %path.display(), "watched again");
                    }
                }
                // A folder that is not there is announced by its root when it comes. A root has
                // nobody to announce it, nor has what a link points to.
                Err(_) if place != ROOT && path.symlink_metadata().is_err() => {
                    self.blind.remove(place);
                }
                Err(error) => {
                    if self.blind.insert(place) {
                        tracing::error!(
                            file = %path.display(),
                            %error,
                            remedy = remedy(error),
                            "cannot be watched; until it can, it is read every second"
                        );
                    }
                }
            }
        }
        changed
    }

    /// Notes what a place is watched by now. The old watch goes: after a rename it would report
    /// what happens elsewhere.
    fn keep(&mut self, place: &'static str, now: Option<i32>) -> bool {
        let before = match now {
            Some(descriptor) => self.watched.insert(place, descriptor),
            None => self.watched.remove(place),
        };
        if before == now {
            return false;
        }
        // A folder that is a link to its root shares its watch.
        if let Some(old) = before.filter(|old| !self.watched.values().any(|wd| wd == old)) {
            // The kernel has mostly dropped it already, with the directory.
            let _ = inotify::remove_watch(self.fd.get_ref(), old);
        }
        true
    }

    /// Waits until something happened; while something cannot be watched, no longer than a moment.
    pub(crate) async fn wait(&self) {
        let readable = async {
            if let Ok(mut guard) = self.fd.readable().await {
                guard.clear_ready();
            }
        };
        if self.blind.is_empty() {
            readable.await;
        } else {
            // Over: whatever happened there, nobody would have told.
            let _ = tokio::time::timeout(BLIND, readable).await;
        }
    }

    /// Everything that happened up to now, without waiting.
    pub(crate) fn take(&mut self) -> Touched {
        let mut touched = self.heard();
        // After the events: what comes in between belongs to the new watch, or is read with all.
        touched.everything |= self.checked().everything;
        touched
    }

    /// Whether the paths still are what is watched: everything may have changed where they are not,
    /// and where something cannot be watched. What was heard before may be looked at meanwhile.
    pub(crate) fn checked(&mut self) -> Touched {
        let everything = self.watch_again() || !self.blind.is_empty();
        Touched { everything, ..Touched::default() }
    }

    /// What was told up to now by what is watched, without waiting.
    pub(crate) fn heard(&self) -> Touched {
        let mut touched = Touched::default();
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(self.fd.get_ref(), &mut buffer);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                touched.everything = true;
            }
            // Of a watch that was given up: what it says is not about our paths any more.
            let Some(place) = self.place_of(event.wd()) else { continue };
            let name = event.file_name().and_then(|name| name.to_str().ok()).unwrap_or_default();
            let itself = ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF;
            let folder = place == ROOT && !name.is_empty() && self.places.contains(&name);
            // Names that start with two dots are how a mounted ConfigMap swaps all its files.
            if flags.intersects(itself) || folder || name.starts_with("..") {
                touched.everything = true;
                continue;
            }
            let created = flags.contains(ReadFlags::CREATE);
            let arrival = if created { Arrival::Created } else { Arrival::Settled };
            touched.files.insert(Path::new(place).join(name), arrival);
        }
        touched
    }

    fn place_of(&self, descriptor: i32) -> Option<&'static str> {
        self.watched.iter().find(|(_, wd)| **wd == descriptor).map(|(place, _)| *place)
    }
}

fn remedy(error: Errno) -> &'static str {
    match error {
        Errno::NOENT => "create the directory",
        Errno::NOTDIR => "put a directory there",
        Errno::NOSPC => "raise fs.inotify.max_user_watches",
        _ => "see that the agent may read it",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PODS: &[&str] = &["pods"];

    fn watched() -> (tempfile::TempDir, PathBuf, Watcher) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("pods")).unwrap();
        let watcher = Watcher::new(&root, PODS).unwrap();
        (dir, root, watcher)
    }

    fn only(path: &str, arrival: Arrival) -> Touched {
        Touched { files: BTreeMap::from([(path.into(), arrival)]), everything: false }
    }

    /// Within an hour, which passes at once.
    async fn wakes(watcher: &Watcher) -> bool {
        tokio::time::timeout(Duration::from_secs(3600), watcher.wait()).await.is_ok()
    }

    fn assert_follows(watcher: &mut Watcher, root: &Path) {
        fs::write(root.join("pods/seen.yaml"), "x").unwrap();
        assert_eq!(watcher.take(), only("pods/seen.yaml", Arrival::Settled));
        fs::write(root.join("seen.yaml"), "x").unwrap();
        assert_eq!(watcher.take(), only("seen.yaml", Arrival::Settled));
    }

    #[tokio::test]
    async fn nothing_is_nothing_and_a_file_is_that_file() {
        let (_dir, root, mut watcher) = watched();
        assert!(watcher.take().is_nothing());
        assert_follows(&mut watcher, &root);
        fs::remove_file(root.join("pods/seen.yaml")).unwrap();
        assert_eq!(watcher.take(), only("pods/seen.yaml", Arrival::Settled));
        assert!(watcher.take().is_nothing());
    }

    #[tokio::test(start_paused = true)]
    async fn a_root_may_come_later_for_who_is_patient() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        assert!(Watcher::new(&root, PODS).is_err());
        let mut watcher = Watcher::patient(&root, PODS).unwrap();
        assert!(wakes(&watcher).await, "nobody would tell");
        assert!(watcher.take().everything);
        fs::create_dir_all(root.join("pods")).unwrap();
        assert!(watcher.take().everything, "what was there before the watch");
        assert!(watcher.take().is_nothing());
        assert_follows(&mut watcher, &root);
    }

    #[tokio::test]
    async fn a_root_that_is_swapped_is_followed_by_its_path() {
        let (dir, root, mut watcher) = watched();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::create_dir_all(new.join("pods")).unwrap();
        fs::rename(&root, &old).unwrap();
        fs::rename(&new, &root).unwrap();
        assert!(watcher.take().everything);
        watcher.take();
        assert_follows(&mut watcher, &root);
        fs::write(old.join("pods/a.yaml"), "x").unwrap();
        fs::write(old.join("b.yaml"), "x").unwrap();
        assert!(watcher.take().is_nothing(), "the old one is somewhere else");
        let fd = std::os::fd::AsRawFd::as_raw_fd(watcher.fd.get_ref());
        let watches = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        assert_eq!(watches.matches("inotify wd:").count(), 2, "{watches}");
    }

    #[tokio::test]
    async fn a_root_behind_a_link_is_followed_by_its_path() {
        let (dir, _, _) = watched();
        let (link, next) = (dir.path().join("link"), dir.path().join("next"));
        std::os::unix::fs::symlink("root", &link).unwrap();
        let mut watcher = Watcher::new(&link, PODS).unwrap();
        fs::create_dir_all(dir.path().join("root2/pods")).unwrap();
        std::os::unix::fs::symlink("root2", &next).unwrap();
        fs::rename(&next, &link).unwrap();
        assert!(watcher.take().everything, "no event tells this one");
        assert_follows(&mut watcher, &link);
    }

    #[tokio::test(start_paused = true)]
    async fn a_root_that_is_gone_is_awaited() {
        let (_dir, root, mut watcher) = watched();
        fs::remove_dir_all(&root).unwrap();
        assert!(watcher.take().everything);
        watcher.take();
        assert!(wakes(&watcher).await, "a timer, as nothing else can");
        assert!(watcher.take().everything, "still blind");
        fs::create_dir_all(root.join("pods")).unwrap();
        assert!(watcher.take().everything);
        assert!(watcher.take().is_nothing());
        assert!(!wakes(&watcher).await, "events again, no timer");
        assert_follows(&mut watcher, &root);
    }

    #[tokio::test(start_paused = true)]
    async fn a_folder_that_cannot_be_watched_is_looked_at_each_time() {
        for unwatchable in [None, Some("/nonexistent/pods")] {
            let (_dir, root, mut watcher) = watched();
            let pods = root.join("pods");
            fs::remove_dir(&pods).unwrap();
            assert!(watcher.take().everything);
            assert!(watcher.take().is_nothing(), "a folder may be missing");
            match unwatchable {
                None => fs::write(&pods, "no directory").unwrap(),
                Some(nowhere) => std::os::unix::fs::symlink(nowhere, &pods).unwrap(),
            }
            for _ in 0..3 {
                assert!(watcher.take().everything);
                assert!(wakes(&watcher).await);
            }
            fs::remove_file(&pods).unwrap();
            fs::create_dir(&pods).unwrap();
            assert!(watcher.take().everything);
            assert_follows(&mut watcher, &root);
        }
    }

    #[tokio::test]
    async fn a_file_that_is_linked_into_place_is_seen() {
        let (dir, root, mut watcher) = watched();
        let aside = dir.path().join("aside");
        fs::write(&aside, "x").unwrap();
        fs::hard_link(&aside, root.join("pods/a.yaml")).unwrap();
        fs::remove_file(&aside).unwrap();
        assert_eq!(watcher.take(), only("pods/a.yaml", Arrival::Created));
        let file = fs::File::create(root.join("pods/b.yaml")).unwrap();
        assert_eq!(watcher.take(), only("pods/b.yaml", Arrival::Created));
        drop(file);
        assert_eq!(watcher.take(), only("pods/b.yaml", Arrival::Settled));
    }
}
