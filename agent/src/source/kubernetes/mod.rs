//! The API server as a source: our own NodeConfig, our own Node, the pods on it, the Secrets that the
//! NodeConfig names, and NetworkPolicies with what they select. Nothing else is asked for, and only the
//! fields that are acted on are kept.
//!
//! | room | what it decides |
//! |---|---|
//! | `watch` | how a kind of object is listed and watched, and what a failure means |
//! | `objects` | which fields are read |
//! | `picture` | what it all means, as one `World` |
//! | `secrets` | which Secrets are watched |
//! | `cache` | what a restart begins with |
//! | `policies` | the same for what NetworkPolicies need of the whole cluster |
//!
//! One task owns the picture. Each watch is a task of its own and waits when the picture is busy.

mod cache;
mod objects;
mod picture;
mod policies;
#[cfg(test)]
mod scripted;
mod secrets;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::core::DynamicObject;
use tokio::sync::{Notify, mpsc, watch as channel};

use super::{Kind as SourceKind, SecretSeen, Source, World};
use crate::config::is_object_name;
use crate::kubernetes::client::Cluster;
use crate::kubernetes::crd;
use crate::metrics::Metrics;
use cache::{Cache, Shown};
use objects::{Node, Pod};
use picture::Picture;
use secrets::SecretWatches;
use watch::{Followed, Listener, Told, Watch};

/// What the watches told and the picture has not taken in yet; watches wait.
const TOLD: usize = 256;
/// How long a start waits for the API server before it begins with what the last one knew: an
/// announcement that is not true any more should not be made even for a moment.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// Why the source cannot start.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// It becomes part of what the API server is asked.
    #[error(
        "the node's name {0:?} cannot be that of a Kubernetes node (lower case letters, digits, '-' \
         and '.', at most 253); set --node-name (NODE_NAME) to what `kubectl get nodes` shows"
    )]
    NodeName(String),
}

/// News of one watch.
enum News {
    Config(Told<DynamicObject>),
    Node(Told<Node>),
    Pods(Told<Pod>),
    Secret(String, SecretSeen),
}

/// Where things are kept.
pub struct Places<'a> {
    /// Across restarts.
    pub state_dir: &'a Path,
    /// Until the next reboot.
    pub run_dir: &'a Path,
}

/// Starts the tasks. The first picture is the API server's, or what was known before.
pub async fn start(
    cluster: &Cluster,
    node: &str,
    places: Places<'_>,
    metrics: Arc<Metrics>,
) -> Result<Source, KubernetesError> {
    if !is_object_name(node) {
        return Err(KubernetesError::NodeName(node.to_owned()));
    }
    let cache = Cache::new(node, places.state_dir, places.run_dir);
    let mut picture = Picture::new(node, &cluster.namespace, &cluster.server, cache.read());
    for (name, seen) in cache.read_secrets() {
        picture.hear_secret(&name, seen);
    }
    let (tell, told) = mpsc::channel(TOLD);
    let (publish, mut world) = channel::channel(Arc::new(picture.world()));
    let (show, shown) = channel::channel(None);
    let bell = Arc::new(Notify::new());
    follow_all(cluster, node, &bell, &tell);
    tokio::spawn(cache.keep(shown));
    let kept = policies::Cache::new(places.state_dir);
    let policies = policies::start(&cluster.client, &bell, kept);
    let secrets = SecretWatches::new(cluster, bell, tell);
    let task = Task { picture, publish, show, secrets, metrics };
    tokio::spawn(task.run(told));
    let fresh = world.wait_for(|world| world.away.is_none());
    if tokio::time::timeout(FIRST_ANSWER, fresh).await.is_err()
        && let Some(away) = &world.borrow().away
    {
        let (server, reason) = (&cluster.server, &away.reason);
        tracing::warn!(
            server,
            reason,
            "the API server has not answered; starting with what was known before"
        );
    }
    Ok(Source { world, cluster: policies, kind: SourceKind::Told })
}

fn follow_all(cluster: &Cluster, node: &str, bell: &Arc<Notify>, tell: &mpsc::Sender<News>) {
    let client = || cluster.client.clone();
    let this_node = format!("metadata.name={node}");
    let bell = || bell.clone();
    let configs: Api<DynamicObject> = Api::all_with(client(), &crd::resource());
    follow(Watch::of(configs, bell()).selecting(this_node.clone()), tell, News::Config);
    let nodes: Api<Node> = Api::all_with(client(), &objects::nodes());
    follow(Watch::of(nodes, bell()).selecting(this_node), tell, News::Node);
    let pods: Api<Pod> = Api::all_with(client(), &objects::pods());
    let on_this_node = format!("spec.nodeName={node}");
    follow(Watch::of(pods, bell()).selecting(on_this_node), tell, News::Pods);
}

fn follow<K, N>(watch: Watch, tell: &mpsc::Sender<N>, news: fn(Told<K>) -> N)
where
    K: Followed + Send + 'static,
    N: Send + 'static,
{
    let listener = Listener { tell: tell.clone(), news: move |told| Some(news(told)) };
    tokio::spawn(watch.follow(listener));
}

/// Owns the picture.
struct Task {
    picture: Picture,
    publish: channel::Sender<Arc<World>>,
    show: channel::Sender<Option<Shown>>,
    secrets: SecretWatches,
    metrics: Arc<Metrics>,
}

impl Task {
    async fn run(mut self, mut told: mpsc::Receiver<News>) {
        loop {
            self.secrets.follow(self.picture.wanted_secrets());
            self.publish();
            let Some(news) = told.recv().await else { return };
            self.hear(news);
            // What came meanwhile belongs to the same picture.
            for _ in 0..TOLD {
                match told.try_recv() {
                    Ok(news) => self.hear(news),
                    Err(_) => break,
                }
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Config(told) => self.picture.hear_config(told),
            News::Node(told) => self.picture.hear_node(told),
            News::Pods(told) => self.picture.hear_pods(told),
            News::Secret(name, seen) => self.picture.hear_secret(&name, seen),
        }
    }

    fn publish(&self) {
        let world = self.picture.world();
        let secrets = world.secrets.clone();
        let metrics = &self.metrics;
        let news = self.publish.send_if_modified(|known| {
            let news = **known != world;
            if news {
                *known = Arc::new(world);
                metrics.latency.event();
            }
            news
        });
        if news {
            self.show.send_replace(Some(Shown { past: Arc::new(self.picture.past()), secrets }));
        }
    }
}

#[cfg(test)]
mod tests;
