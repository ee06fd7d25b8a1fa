//! Who looks at the state file. Decides whether a copy of it that is not current any more may be
//! written to: not one that somebody has opened, because a reader sees one state or another and never
//! a mixture. Told by inotify; where that cannot be had, nothing is ever written to.

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// All who have opened one of the copies.
#[derive(Debug, Default)]
pub(super) struct Readers {
    inotify: Option<OwnedFd>,
    opened: HashSet<i32>,
    /// Something was missed.
    blind: bool,
}

impl Readers {
    /// Watches a copy from now on; `None`: it cannot be.
    pub(super) fn watch(&mut self, path: &Path) -> Option<i32> {
        if self.inotify.is_none() {
            self.inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        }
        inotify::add_watch(self.inotify.as_ref()?, path, WatchFlags::OPEN).ok()
    }

    /// Whether nobody has opened this copy since it is watched.
    pub(super) fn left_alone(&mut self, copy: i32) -> bool {
        self.listen();
        !self.blind && !self.opened.contains(&copy)
    }

    /// The copy is no more.
    pub(super) fn forget(&mut self, copy: i32) {
        self.listen();
        if let Some(inotify) = &self.inotify {
            // Mostly gone already, with the file.
            let _ = inotify::remove_watch(inotify, copy);
        }
        self.opened.remove(&copy);
    }

    fn listen(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = Reader::new(inotify, &mut buffer);
        while let Ok(event) = events.next() {
            self.blind |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            if event.events().contains(ReadFlags::OPEN) {
                self.opened.insert(event.wd());
            }
        }
    }
}
