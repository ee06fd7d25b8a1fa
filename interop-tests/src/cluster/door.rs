//! A door into the network namespace of a pod, so that packets can be sent from there: a name in
//! `/run/netns` for what only the node's machine has a name for.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::worker::Worker;
use crate::binaries::{run, tool};
use crate::names;
use crate::netns::Netns;

/// An open door. Dropping it closes it, and leaves the pod alone.
#[derive(Debug)]
pub struct Door {
    netns: Netns,
}

impl Door {
    /// Opens the door to a sandbox of a node's runtime.
    pub fn open(worker: &Worker, sandbox: &str) -> Result<Self> {
        let status = worker.cri()?.pod_sandbox_status(sandbox)?;
        let inside = status.netns.to_str().context("a namespace without a name")?;
        // Links would be followed here, not there.
        let inside = inside.replacen("/var/run/", "/run/", 1);
        let path = Path::new("/run/netns").join(names::unique("pod"));
        File::create(&path).with_context(|| format!("making {}", path.display()))?;
        let door = Self { netns: Netns::of_someone_else(&path)? };
        let mut mount = Command::new(tool("mount")?);
        mount.arg("--bind").arg(worker.machine()?.file(&inside)).arg(&path);
        run(&mut mount).with_context(|| format!("opening the door to the sandbox {sandbox}"))?;
        Ok(door)
    }

    /// The namespace.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let path = self.netns.path();
        if let Ok(umount) = tool("umount") {
            let _never_mounted = run(Command::new(umount).arg("--lazy").arg(&path));
        }
        let _gone_already = fs::remove_file(&path);
    }
}
