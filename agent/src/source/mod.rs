//! What the agent knows of the world outside the node: its NodeConfig and its pods.
//!
//! A source (a directory, or an API server) keeps one `World` current and announces changes as
//! a signal without content: whoever is woken looks at the whole world again. The rest of the
//! agent never learns which source it has.

mod cluster;
mod directory;
mod files;
mod folder;
pub mod kubernetes;
pub mod manifest;
mod once;
mod peer;
mod pods;
mod ports;
mod secrets;
mod shards;
mod shared;
pub mod standalone;
mod standing;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use crate::config::NodeConfig;
use crate::policy::{Labels, NamedPort};

pub use cluster::{Cluster, PeerPod};
pub use pods::{Behind, Pods};
pub use secrets::{SecretSeen, Secrets};
pub use shards::Shards;

/// A pod's name, as kubelet and manifests give it. Several maps of ten thousand pods have it: a copy is
/// no other text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodKey {
    /// Its namespace; `default` where a manifest leaves it out.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The few facts of a pod that flock acts on; nothing else is kept in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodFacts {
    /// Namespace and name.
    pub key: PodKey,
    /// `metadata.uid`, empty when the source has none.
    pub uid: String,
    /// Of a static pod, the uid that kubelet and the runtime know it by: the API server holds only
    /// its mirror, which has another.
    pub static_uid: Option<String>,
    /// Only those under flock's prefix.
    pub annotations: BTreeMap<String, String>,
    /// The controller owner (a ReplicaSet without its template hash), else the pod's name.
    pub app: Arc<str>,
    /// The first container's image, as written.
    pub image: Arc<str>,
    /// Ready by its conditions and, in standalone mode, by annotation.
    pub ready: bool,
    /// Has a deletion timestamp.
    pub terminating: bool,
    /// For selectors of NetworkPolicies.
    #[serde(default)]
    pub labels: Arc<Labels>,
    /// For named ports of NetworkPolicies.
    #[serde(default)]
    pub ports: Arc<[NamedPort]>,
}

impl PodFacts {
    /// Whether it is the pod that the runtime knows by this uid. Where one of the two has none, the
    /// name has to do.
    pub fn has_uid(&self, uid: &str) -> bool {
        let unsaid = uid.is_empty() || self.uid.is_empty();
        unsaid || self.uid == uid || self.static_uid.as_deref() == Some(uid)
    }
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

/// The NodeConfig as an object of the API server, good or not: what reports about it refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`, the newest that was seen.
    pub generation: i64,
}

/// The API server does not answer, and everything goes on from what was known last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// Since when.
    pub since: jiff::Timestamp,
    /// In the client's words.
    pub reason: String,
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
    /// The Secrets that the NodeConfig names.
    pub secrets: Secrets,
    /// The object behind `node`; none in standalone mode, and where there is none.
    pub object: Option<Object>,
    /// The picture may be old; never in standalone mode.
    pub away: Option<Away>,
}

/// The handle that the agent holds on its source.
#[derive(Clone)]
pub struct Source {
    world: watch::Receiver<Arc<World>>,
    cluster: watch::Receiver<Arc<Cluster>>,
    kind: Kind,
}

/// How a picture comes to be that of this moment.
#[derive(Clone)]
enum Kind {
    /// A directory, which is looked at when asked. A pod needs no mention there.
    Directory(mpsc::Sender<oneshot::Sender<()>>),
    /// An API server, which tells by itself, and tells of every pod.
    Told,
}

/// Why nothing can be said of a pod that is to be attached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfound {
    /// What is written of it cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// It is not known, at least not yet.
    #[error("{0}")]
    NotYet(String),
}

/// How long a pod may take to be told of after the runtime asks for it: kubelet hears of it at the
/// same time as we do.
const PATIENCE: Duration = Duration::from_secs(3);

impl Source {
    /// As an API server tells, for tests that tell.
    #[cfg(test)]
    pub(crate) fn told_by(
        world: watch::Receiver<Arc<World>>,
        cluster: watch::Receiver<Arc<Cluster>>,
    ) -> Self {
        Self { world, cluster, kind: Kind::Told }
    }

    /// The picture as it is now.
    pub fn world(&self) -> Arc<World> {
        self.world.borrow().clone()
    }

    /// Wakes at each change of the picture.
    pub fn changes(&self) -> watch::Receiver<Arc<World>> {
        self.world.clone()
    }

    /// What NetworkPolicies need; wakes at each change of it.
    pub fn cluster(&self) -> watch::Receiver<Arc<Cluster>> {
        self.cluster.clone()
    }

    /// Whether it knows every pod of the node, so that one without a name is nobody's.
    pub fn is_complete(&self) -> bool {
        matches!(self.kind, Kind::Told)
    }

    /// The picture of this moment: what was written to a directory before this call is in it.
    pub async fn refreshed(&self) -> Arc<World> {
        if let Kind::Directory(refresh) = &self.kind {
            let (reply, answer) = oneshot::channel();
            if refresh.send(reply).await.is_ok() {
                // A source that has ended leaves its last picture, which is then the best there is.
                let _ = answer.await;
            }
        }
        self.world()
    }

    /// The pod of this name and uid (empty: whichever) as the source knows it at this moment; `None`
    /// where it needs no mention.
    pub async fn pod(&self, key: &PodKey, uid: &str) -> Result<Option<Arc<PodFacts>>, Unfound> {
        match self.kind {
            Kind::Directory(_) => self.mentioned(key, uid).await,
            Kind::Told => self.told(key, uid).await.map(Some),
        }
    }

    async fn mentioned(&self, key: &PodKey, uid: &str) -> Result<Option<Arc<PodFacts>>, Unfound> {
        let world = self.refreshed().await;
        match world.pods.get(key) {
            Some(pod) if pod.has_uid(uid) => return Ok(Some(pod.clone())),
            Some(pod) => return Err(Unfound::NotYet(another(pod, uid))),
            None => {}
        }
        match world.problems.iter().find(|(file, _)| names_pod(file, key)) {
            Some((file, problem)) => {
                Err(Unfound::Unusable(format!("manifest {file} cannot be used: {problem}")))
            }
            None => Ok(None),
        }
    }

    async fn told(&self, key: &PodKey, uid: &str) -> Result<Arc<PodFacts>, Unfound> {
        let mut changes = self.world.clone();
        let is_it = |world: &Arc<World>| world.pods.get(key).is_some_and(|pod| pod.has_uid(uid));
        // Whether it came or the time is over, the last picture says what there is to say.
        let _ = tokio::time::timeout(PATIENCE, changes.wait_for(is_it)).await;
        let world = self.world();
        let why = match (world.pods.get(key), &world.away) {
            (Some(pod), _) if pod.has_uid(uid) => return Ok(pod.clone()),
            (Some(pod), _) => another(pod, uid),
            (None, Some(away)) => format!(
                "pod {key} is not known, and the API server has not answered since {}: {}",
                away.since.strftime("%FT%TZ"),
                away.reason
            ),
            (None, None) => format!(
                "pod {key} is not known: within {} s the API server did not say that it is on this node",
                PATIENCE.as_secs()
            ),
        };
        Err(Unfound::NotYet(why))
    }
}

fn another(pod: &PodFacts, uid: &str) -> String {
    format!(
        "pod {} is known with uid {}, not {uid}: that is another pod of this name",
        pod.key, pod.uid
    )
}

/// Whether a manifest that cannot be read is, by its file name, this pod's: a pod must not come up
/// without its annotations because somebody made a typing error. A folder that cannot be listed
/// may hold any pod's.
fn names_pod(file: &str, key: &PodKey) -> bool {
    if file == directory::PODS {
        return true;
    }
    let Some(stem) = file.strip_prefix(directory::PODS).and_then(|rest| rest.strip_prefix('/'))
    else {
        return false;
    };
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    *stem == *key.name
        || ['.', '_', '-'].iter().any(|sep| {
            stem.strip_prefix(&*key.namespace)
                .and_then(|rest| rest.strip_prefix(*sep))
                .is_some_and(|rest| *rest == *key.name)
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
            ("networkpolicies/web-0.yaml", false),
            ("networkpolicies", false),
        ] {
            assert_eq!(names_pod(file, &key), ours, "{file}");
        }
    }
}
