//! The node's switches under /proc/sys.
//!
//! Decides which ones forwarding for pods needs, and writes only those that
//! differ, so that a read-only /proc/sys with the right values is fine. Files
//! under `net/` are those of the calling thread's namespace, also where they are
//! looked up through a bind mount of the node's: so one mount serves every pod.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Where everybody's settings are. In a container that is not privileged this is
/// read-only, and nothing may be mounted over it.
const OWN: &str = "/proc/sys";

/// Where a container is given the node's: `/proc/sys/net` of the node, mounted at
/// `net` below this.
const GIVEN: &str = "/host/proc/sys";

/// `statfs.f_type` of procfs.
const PROC_MAGIC: i64 = 0x9fa0;

/// Where the node's settings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// The root of the sysctl files.
    pub proc_sys: PathBuf,
}

impl Default for NodeSettings {
    /// Those that the container was given, where it was given any; else its own.
    fn default() -> Self {
        let proc_sys = if is_procfs(&Path::new(GIVEN).join("net")) { GIVEN } else { OWN };
        Self { proc_sys: PathBuf::from(proc_sys) }
    }
}

fn is_procfs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == PROC_MAGIC)
}

/// Sets up forwarding. `by_advertisement` are the interfaces whose IPv6
/// default route comes from router advertisements: forwarding would make the
/// kernel stop listening to them, so they are told first to go on.
pub(crate) fn prepare(root: &Path, by_advertisement: &[String]) -> Result<(), Error> {
    if root.join("net/ipv6").exists() {
        for interface in by_advertisement {
            ensure(root, &["net", "ipv6", "conf", interface, "accept_ra"], "2")?;
        }
        ensure(root, &["net", "ipv6", "conf", "all", "forwarding"], "1")?;
        ensure(root, &["net", "ipv6", "fib_multipath_hash_policy"], "1")?;
    }
    ensure(root, &["net", "ipv4", "ip_forward"], "1")?;
    ensure(root, &["net", "ipv4", "fib_multipath_hash_policy"], "1")
}

/// Some runtimes hand out namespaces with IPv6 switched off.
pub(crate) fn enable_ipv6(root: &Path, interfaces: &[&str]) -> Result<(), Error> {
    for interface in interfaces {
        ensure(root, &["net", "ipv6", "conf", interface, "disable_ipv6"], "0")?;
    }
    Ok(())
}

fn ensure(root: &Path, name: &[&str], want: &str) -> Result<(), Error> {
    // Joined part by part: an interface's name may have dots in it.
    let path = name.iter().fold(root.to_path_buf(), |path, part| path.join(part));
    let failed = |have: &str, source: io::Error| Error::Sysctl {
        name: name.join("."),
        have: have.to_owned(),
        want: want.to_owned(),
        path: path.clone(),
        source,
    };
    let have = fs::read_to_string(&path).map_err(|source| failed("unreadable", source))?;
    if have.trim() == want {
        return Ok(());
    }
    fs::write(&path, want).map_err(|source| failed(have.trim(), source))?;
    tracing::info!(sysctl = name.join("."), from = have.trim(), to = want, "changed a sysctl");
    Ok(())
}
