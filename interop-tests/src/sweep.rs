//! What a run that was killed could not take down itself: its namespaces, the
//! containers of its runtimes, its directories. The next run does it, once, and
//! touches nothing whose name does not carry the id of a process that is gone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::binaries::{run, tool};
use crate::names::is_orphan;
use crate::netns::{self, RUN_NETNS};

const CGROUPS: &str = "/sys/fs/cgroup";

/// Removes what dead runs left.
pub(crate) fn sweep() {
    // Namespaces first: the runtimes live in them and would restart nothing after.
    for name in orphans(Path::new(RUN_NETNS)).iter().filter_map(|path| file_name(path)) {
        netns::delete(name);
    }
    let hierarchies = fs::read_dir(CGROUPS).into_iter().flatten().flatten();
    for hierarchy in hierarchies.map(|entry| entry.path()).chain([PathBuf::from(CGROUPS)]) {
        orphans(&hierarchy).iter().for_each(|cgroup| end_cgroup(cgroup));
    }
    for dir in orphans(&std::env::temp_dir()) {
        remove_dir(&dir);
    }
}

fn orphans(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| file_name(path).is_some_and(is_orphan)).collect()
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// Ends the processes of a cgroup, with the network namespaces that a runtime
/// made for them, and then the cgroup.
fn end_cgroup(cgroup: &Path) {
    let below = fs::read_dir(cgroup).into_iter().flatten().flatten().map(|entry| entry.path());
    below.filter(|path| path.is_dir()).for_each(|path| end_cgroup(&path));
    let members = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
        let inside = fs::metadata(format!("/proc/{}/ns/net", pid.as_raw_nonzero()));
        let _gone_already = kill_process(pid, Signal::KILL);
        if let Ok(inside) = inside {
            delete_netns_of(inside.ino());
        }
    }
    let _still_emptying = fs::remove_dir(cgroup);
}

fn delete_netns_of(inode: u64) {
    for entry in fs::read_dir(RUN_NETNS).into_iter().flatten().flatten() {
        let same = fs::metadata(entry.path()).is_ok_and(|there| there.ino() == inode);
        if let (true, Some(name)) = (same, entry.file_name().to_str()) {
            netns::delete(name);
        }
    }
}

/// Unmounts what is mounted below, and removes the directory only when nothing
/// is mounted there any more.
fn remove_dir(dir: &Path) {
    let Ok(umount) = tool("umount") else { return };
    for mounted in mounts_below(dir) {
        let _told_below = run(Command::new(&umount).arg("--lazy").arg(mounted));
    }
    if mounts_below(dir).is_empty() {
        let _best_effort = fs::remove_dir_all(dir);
    }
}

/// Innermost first.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut below: Vec<_> = points.filter(|point| point.starts_with(dir)).collect();
    below.reverse();
    below
}
