//! What the agent knows of the world outside the node: its NodeConfig and its pods.
//!
//! A source (standalone here; Kubernetes later) keeps one `World` current and announces changes as
//! a signal without content: whoever is woken looks at the whole world again. The rest of the
//! agent never learns which source it has.

mod directory;
pub mod manifest;
mod pods;
pub mod standalone;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::config::NodeConfig;

pub use pods::Pods;

/// A pod's name, as kubelet and manifests give it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// Its namespace; `default` where a manifest leaves it out.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The few facts of a pod that flock acts on; nothing else is kept in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// Namespace and name.
    pub key: PodKey,
    /// `metadata.uid`, empty when the source has none.
    pub uid: String,
    /// Only those under flock's prefix.
    pub annotations: BTreeMap<String, String>,
    /// The controller owner (a ReplicaSet without its template hash), else the pod's name.
    pub app: String,
    /// The first container's image, as written.
    pub image: String,
    /// Ready by its conditions and, in standalone mode, by annotation.
    pub ready: bool,
    /// Has a deletion timestamp.
    pub terminating: bool,
}

/// How the last good NodeConfig stands to what the source has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is what the source has.
    InForce,
    /// The source has one that is bad, and this is why; the last good one stays in force.
    Refused(String),
    /// The source has none any more: what is there is kept, new pods are refused.
    Deleted,
}

/// What is known of this node's NodeConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// None has been seen yet; the reason is for people.
    Unknown {
        /// Why: missing, or what is wrong with it.
        reason: String,
    },
    /// A good one has been seen.
    Known {
        /// The last good configuration.
        config: Arc<NodeConfig>,
        /// What became of it since.
        standing: Standing,
    },
}

impl NodeState {
    /// The last good configuration.
    pub fn config(&self) -> Option<&Arc<NodeConfig>> {
        match self {
            Self::Unknown { .. } => None,
            Self::Known { config, .. } => Some(config),
        }
    }
}

/// One consistent picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The NodeConfig.
    pub node: NodeState,
    /// The pods.
    pub pods: Pods,
    /// Problems with single inputs (a manifest that does not parse), by where they came from.
    pub problems: Arc<BTreeMap<String, String>>,
}

/// The handle that the agent holds on its source.
#[derive(Clone)]
pub struct Source {
    world: watch::Receiver<Arc<World>>,
    refresh: mpsc::Sender<oneshot::Sender<()>>,
}

impl Source {
    /// The picture as it is now.
    pub fn world(&self) -> Arc<World> {
        self.world.borrow().clone()
    }

    /// Wakes at each change of the picture.
    pub fn changes(&self) -> watch::Receiver<Arc<World>> {
        self.world.clone()
    }

    /// The picture of this moment: what was written to the source before this call is in it.
    pub async fn refreshed(&self) -> Arc<World> {
        let (reply, answer) = oneshot::channel();
        if self.refresh.send(reply).await.is_ok() {
            // A source that has ended leaves its last picture, which is then the best there is.
            let _ = answer.await;
        }
        self.world()
    }

    /// The pod as the source knows it at this moment. `Err` when its own manifest cannot be read.
    pub async fn pod(&self, key: &PodKey) -> Result<Option<Arc<PodFacts>>, String> {
        let world = self.refreshed().await;
        if let Some(pod) = world.pods.get(key) {
            return Ok(Some(pod.clone()));
        }
        match world.problems.iter().find(|(file, _)| names_pod(file, key)) {
            Some((file, problem)) => Err(format!("manifest {file} cannot be used: {problem}")),
            None => Ok(None),
        }
    }
}

/// Whether a manifest that cannot be read is, by its file name, this pod's: a pod must not come up
/// without its annotations because somebody made a typing error. A folder that cannot be listed
/// may hold any pod's.
fn names_pod(file: &str, key: &PodKey) -> bool {
    if file == directory::PODS {
        return true;
    }
    let stem = file.rsplit('/').next().unwrap_or(file);
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    stem == key.name
        || ['.', '_', '-'].iter().any(|sep| {
            stem.strip_prefix(key.namespace.as_str())
                .and_then(|rest| rest.strip_prefix(*sep))
                .is_some_and(|rest| rest == key.name)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_manifest_is_matched_by_its_file_name() {
        let key = PodKey { namespace: "shop".into(), name: "web-0".into() };
        for (file, ours) in [
            ("pods", true),
            ("pods/web-0.yaml", true),
            ("pods/shop_web-0.yml", true),
            ("pods/shop.web-0.yaml", true),
            ("pods/shop-web-0.yaml", true),
            ("pods/web-1.yaml", false),
            ("pods/other_web-0.yaml", false),
        ] {
            assert_eq!(names_pod(file, &key), ours, "{file}");
        }
    }
}
