//! The node's switches under /proc/sys.
//!
//! Decides which ones forwarding for pods needs, and writes only those that
//! differ, so that a read-only /proc/sys with the right values is fine. Files
//! under `net/` are those of the calling thread's namespace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Where the node's settings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// The root of the sysctl files: `/proc/sys`, or where the node's is
    /// mounted in a container whose own is read-only.
    pub proc_sys: PathBuf,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self { proc_sys: PathBuf::from("/proc/sys") }
    }
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
