//! How the API server is reached: from within a pod by the service account, or by a kubeconfig.
//! Decides how long an answer may take; leaves trying again to whoever asked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// A connection that says nothing for so long is given up, also that of a watch: API servers send a
/// bookmark every minute.
const SILENCE: Duration = Duration::from_secs(90);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// Who we are to the API server.
#[derive(Clone)]
pub struct Cluster {
    /// The client; cheap to copy.
    pub client: Client,
    /// The agent's own namespace, where its Secrets are.
    pub namespace: String,
    /// Where the API server is, for people.
    pub server: String,
}

/// Why the API server cannot even be asked.
#[derive(Debug, thiserror::Error)]
pub enum NoCluster {
    /// Not in a pod, and nothing else was said.
    #[error(
        "there is no API server to take NodeConfig and pods from: {0}; run in a pod (deploy/), give \
         --kubeconfig FILE, or use --standalone DIR"
    )]
    NotInPod(#[source] InClusterError),
    /// The kubeconfig.
    #[error("--kubeconfig {0}: {1}")]
    Kubeconfig(PathBuf, #[source] KubeconfigError),
    /// Certificates or keys.
    #[error("the credentials for {0} cannot be used: {1}")]
    Credentials(String, #[source] kube::Error),
}

/// Prepares a client; nothing is asked yet.
pub async fn prepare(
    kubeconfig: Option<&Path>,
    namespace: Option<&str>,
) -> Result<Cluster, NoCluster> {
    let mut config = match kubeconfig {
        Some(path) => {
            let unusable = |error| NoCluster::Kubeconfig(path.to_owned(), error);
            let read = Kubeconfig::read_from(path).map_err(unusable)?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(read, &options).await.map_err(unusable)?
        }
        None => Config::incluster().map_err(NoCluster::NotInPod)?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    // Whoever asks tries again by itself, and says so.
    config.default_retry = false;
    let server = config.cluster_url.to_string();
    let namespace = namespace.map_or_else(|| config.default_namespace.clone(), str::to_owned);
    let client =
        Client::try_from(config).map_err(|error| NoCluster::Credentials(server.clone(), error))?;
    Ok(Cluster { client, namespace, server })
}

/// What went wrong, as far as it helps a person: the innermost cause, which says what the network or
/// the API server said.
pub fn told(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return match status.code {
            0 => status.message.clone(),
            code => format!("{} ({code})", status.message),
        };
    }
    if let kube::Error::SerdeError(error) = error {
        // Not in its own words: they quote what stands there, and that may be a Secret.
        let (line, column) = (error.line(), error.column());
        return format!("an answer that cannot be read (line {line}, column {column})");
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}
