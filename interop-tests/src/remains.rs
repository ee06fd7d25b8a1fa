//! What this process would leave on the machine if it ended now: namespaces, directories, cgroups,
//! mounts and children that carry its name. Whoever says that nothing stays behind looks here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use crate::names;

/// Everything that is there, in words.
pub fn left_behind() -> Vec<String> {
    let ours = format!("{}{}-", names::PREFIX, process::id());
    let cgroups = Path::new("/sys/fs/cgroup");
    let places = [PathBuf::from("/run/netns"), std::env::temp_dir(), cgroups.to_path_buf()];
    let places = places.into_iter().chain(below(cgroups));
    let named = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&ours))
    };
    let files = places.flat_map(|place| below(&place)).filter(named);
    let mut left: Vec<_> = files.map(|path| path.display().to_string()).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    left.extend(points.filter(|point| point.contains(&ours)).map(|point| format!("mount {point}")));
    for thread in below(Path::new("/proc/self/task")) {
        let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
        left.extend(children.split_whitespace().map(|pid| format!("process {pid}")));
    }
    left
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
