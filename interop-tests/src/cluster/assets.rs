//! Where Kubernetes is: `KUBEBUILDER_ASSETS`, or the cache that `interop-tests/kubernetes/assets` fills.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// What the cache is called after; the same as in the script.
const VERSION: &str = "1.20.2";

/// What has to be there.
const PROGRAMS: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"];

/// The directory with Kubernetes' programs.
#[derive(Debug, Clone)]
pub struct Assets {
    dir: PathBuf,
}

impl Assets {
    /// Finds them; what is missing is named, with the remedy.
    pub fn find() -> Result<Self> {
        let dirs: Vec<_> = set("KUBEBUILDER_ASSETS").into_iter().chain(cache()).collect();
        let mut missing = Vec::new();
        for dir in &dirs {
            match PROGRAMS.iter().find(|program| !dir.join(program).is_file()) {
                None => return Ok(Self { dir: dir.clone() }),
                Some(program) => missing.push(dir.join(program).display().to_string()),
            }
        }
        bail!(
            "no whole Kubernetes: {} missing; `interop-tests/kubernetes/assets` builds one, \
             which takes about ten minutes, once",
            missing.join(" and ")
        )
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// One of the programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// A path from the environment, unless it is empty.
fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn cache() -> Option<PathBuf> {
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("flock").join(format!("kubernetes-{VERSION}")))
}

/// Where kubectl is when no cluster is started: among the assets, or in `PATH`.
pub(super) fn kubectl() -> Result<PathBuf> {
    match Assets::find() {
        Ok(assets) => Ok(assets.program("kubectl")),
        Err(_) => crate::binaries::tool("kubectl").context("kubectl of an existing cluster"),
    }
}
