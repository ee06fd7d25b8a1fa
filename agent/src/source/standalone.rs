//! The standalone source: a directory instead of an API server. One task owns the directory and
//! its watcher; whatever wakes it, it looks at what changed and publishes new pictures.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::directory::{Directory, FOLDERS};
use super::{Cluster, Kind, Source, World};
use crate::metrics::Metrics;
use crate::notify::{Touched, Watcher};

/// Why the source cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// The directory is not there, or is not one.
    #[error("--standalone {0}: {1}; create the directory and put a nodeconfig.yaml into it")]
    Directory(String, std::io::Error),
    /// inotify is not to be had.
    #[error("--standalone {0} cannot be watched: {1}; see fs.inotify.max_user_instances")]
    Watch(String, rustix::io::Errno),
}

/// Starts the task. The first picture is complete when this returns; those that follow are events
/// of which it is measured when peers hear.
pub fn start(root: &Path, metrics: Arc<Metrics>) -> Result<Source, StandaloneError> {
    let shown = root.display().to_string();
    std::fs::read_dir(root).map_err(|e| StandaloneError::Directory(shown.clone(), e))?;
    // Watched before it is read: a change in between is seen twice rather than never.
    let watcher = Watcher::new(root, FOLDERS).map_err(|e| StandaloneError::Watch(shown, e))?;
    let directory = Directory::read(root);
    let (publish, world) = watch::channel(Arc::new(directory.world()));
    let (publish_cluster, cluster) = watch::channel(Arc::new(directory.cluster()));
    let publish = Publish { world: publish, cluster: publish_cluster, metrics };
    let (refresh, requests) = mpsc::channel(64);
    tokio::spawn(follow(directory, watcher, publish, requests));
    Ok(Source { world, cluster, kind: Kind::Directory(refresh) })
}

/// Where pictures go.
struct Publish {
    world: watch::Sender<Arc<World>>,
    cluster: watch::Sender<Arc<Cluster>>,
    metrics: Arc<Metrics>,
}

impl Publish {
    /// Whether the world is another one. Policies first: whoever hears of a pod looks at them.
    fn publish(&self, world: World, cluster: Cluster) -> bool {
        self.cluster.send_if_modified(|known| {
            let news = **known != cluster;
            if news {
                *known = Arc::new(cluster);
            }
            news
        });
        self.world.send_if_modified(|known| {
            let news = **known != world;
            if news {
                *known = Arc::new(world);
                self.metrics.latency.event();
            }
            news
        })
    }
}

async fn follow(
    mut directory: Directory,
    mut watcher: Watcher,
    publish: Publish,
    mut requests: mpsc::Receiver<oneshot::Sender<()>>,
) {
    loop {
        let mut asked = Vec::new();
        tokio::select! {
            () = watcher.wait() => {}
            request = requests.recv() => match request {
                Some(reply) => asked.push(reply),
                None => return,
            },
        }
        // Whoever asked before the look is answered by it.
        while let Ok(reply) = requests.try_recv() {
            asked.push(reply);
        }
        // The kernel queues an event before the writer's own call returns, so taking what is
        // queued now is as good as reading the whole directory now, and costs only the change.
        let touched = watcher.take();
        let mut told = None;
        if !touched.is_nothing() {
            let Some((back, world, cluster)) = look(directory, touched).await else { return };
            directory = back;
            let at = jiff::Timestamp::now();
            told = publish.publish(world, cluster).then_some(at);
        }
        for reply in asked {
            // Nobody waits any more: nothing to tell.
            let _ = reply.send(());
        }
        if let Some(at) = told.filter(|_| tracing::enabled!(tracing::Level::DEBUG)) {
            // Not on the way of what follows from it: the benchmark's inner clock starts at `at`.
            tokio::task::yield_now().await;
            tracing::debug!(%at, "a new picture of the world");
        }
    }
}

/// Reads and parses on a thread that may wait for the disk: the agent's own serves everybody.
async fn look(mut directory: Directory, touched: Touched) -> Option<(Directory, World, Cluster)> {
    let looked = tokio::task::spawn_blocking(move || {
        directory.look(&touched);
        let (world, cluster) = (directory.world(), directory.cluster());
        (directory, world, cluster)
    });
    match looked.await {
        Ok(looked) => Some(looked),
        Err(error) => {
            tracing::error!(%error, "reading the standalone directory failed; it is not followed any more, restart the agent");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn what_was_written_before_a_refresh_is_in_the_picture() {
        let dir = tempfile::tempdir().unwrap();
        let source = start(dir.path(), Metrics::start()).unwrap();
        let cluster = source.cluster();
        assert!(cluster.borrow().complete);
        let folder = dir.path().join("networkpolicies");
        fs::create_dir(&folder).unwrap();
        let policy = "metadata: {name: closed}\nspec: {podSelector: {}}\n";
        fs::write(folder.join(".new"), policy).unwrap();
        fs::rename(folder.join(".new"), folder.join("closed.yaml")).unwrap();
        source.refreshed().await;
        assert_eq!(cluster.borrow().policies.len(), 1);
        assert!(!source.changes().has_changed().unwrap(), "the world is the same");
        fs::write(folder.join("open.json"), policy.replace("closed", "open")).unwrap();
        source.refreshed().await;
        assert_eq!(cluster.borrow().policies.len(), 2);
        fs::remove_file(folder.join("closed.yaml")).unwrap();
        source.refreshed().await;
        assert_eq!(cluster.borrow().policies.len(), 1);
    }
}
