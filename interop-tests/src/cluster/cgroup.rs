//! A cgroup for all pods of a node, so that two kubelets on one machine keep apart: a directory of one
//! name in every hierarchy that is mounted, gone when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::names;
use crate::wait::PATIENCE;

const ROOT: &str = "/sys/fs/cgroup";

/// A node's cgroup.
#[derive(Debug)]
pub struct Cgroup {
    name: String,
}

impl Cgroup {
    /// Makes one with a name that nobody else has.
    pub fn new(role: &str) -> Result<Self> {
        let cgroup = Self { name: names::unique(role) };
        cgroup.make()?;
        Ok(cgroup)
    }

    /// What kubelet is told as its root.
    pub fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// Makes it where it is not there.
    pub fn make(&self) -> Result<()> {
        for hierarchy in hierarchies() {
            let dir = hierarchy.join(&self.name);
            fs::create_dir_all(&dir)
                .with_context(|| format!("making the cgroup {}", dir.display()))?;
            // A cpuset begins with nothing in it, and takes nobody in.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(all) = fs::read_to_string(hierarchy.join(file)) {
                    fs::write(dir.join(file), all)?;
                }
            }
            // In the unified hierarchy children have what their parents pass on.
            if let Ok(all) = fs::read_to_string(hierarchy.join("cgroup.controllers")) {
                for controller in all.split_whitespace() {
                    for parent in [&hierarchy, &dir] {
                        let wish = format!("+{controller}");
                        let _busy = fs::write(parent.join("cgroup.subtree_control"), wish);
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes it with everything below, once whoever was inside has gone; also when the program was
    /// interrupted, which ends every other wait.
    pub fn remove(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = hierarchies();
            let removed = all.iter().try_for_each(|one| remove(&one.join(&self.name)));
            if removed.is_ok() || Instant::now() >= deadline {
                return removed.with_context(|| format!("removing the cgroup {}", self.name));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("{error:#}");
        }
    }
}

/// Where cgroups can be made: every hierarchy of its own, or the unified one.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let is_cgroup = |dir: &PathBuf| dir.join("cgroup.procs").exists();
    if is_cgroup(&root.to_path_buf()) {
        return vec![root.to_path_buf()];
    }
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    // Two names of one hierarchy are links (`cpu` and `cpuacct` to `cpu,cpuacct`).
    let mut all: Vec<_> = entries.filter_map(|one| one.path().canonicalize().ok()).collect();
    all.retain(is_cgroup);
    all.sort();
    all.dedup();
    all
}

fn remove(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(dir).with_context(|| {
        let members = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        format!("{} with {:?}", dir.display(), members.split_whitespace().collect::<Vec<_>>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_every_hierarchy_and_goes_with_all_below() {
        let cgroup = Cgroup::new("cgroup").unwrap();
        let dirs: Vec<_> = hierarchies().iter().map(|one| one.join(&cgroup.name)).collect();
        assert!(!dirs.is_empty());
        for dir in &dirs {
            fs::create_dir_all(dir.join("kubepods/besteffort")).unwrap();
        }
        drop(cgroup);
        assert!(dirs.iter().all(|dir| !dir.exists()), "{dirs:?}");
    }
}
