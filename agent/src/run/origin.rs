//! Where NodeConfig and pods come from, as the command line says: a directory, or an API server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::Run;
use crate::kubernetes::client::{self, Cluster};
use crate::metrics::Metrics;
use crate::source::{Source, kubernetes, standalone};

/// One of the two.
pub(super) enum Origin {
    /// `--standalone`.
    Directory(PathBuf),
    /// Everything else.
    Cluster(Cluster),
}

impl Origin {
    /// Nothing is read or asked yet.
    pub(super) async fn of(args: &Run) -> anyhow::Result<Self> {
        if let Some(directory) = &args.standalone {
            return Ok(Self::Directory(directory.clone()));
        }
        // A variable that is set to nothing is not set.
        let kubeconfig = args.kubeconfig.as_deref().filter(|path| !path.as_os_str().is_empty());
        let namespace = args.namespace.as_deref().filter(|name| !name.is_empty());
        Ok(Self::Cluster(client::prepare(kubeconfig, namespace).await?))
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Directory(directory) => directory.display().to_string(),
            Self::Cluster(cluster) => cluster.server.clone(),
        }
    }

    /// What is known, and followed from now on.
    pub(super) async fn source(
        &self,
        args: &Run,
        node: &str,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Source> {
        match self {
            Self::Directory(directory) => Ok(standalone::start(directory, metrics)?),
            Self::Cluster(cluster) => {
                let run_dir = args.socket.parent().unwrap_or(Path::new("/"));
                let places = kubernetes::Places { state_dir: &args.state_dir, run_dir };
                Ok(kubernetes::start(cluster, node, places, metrics).await?)
            }
        }
    }
}
