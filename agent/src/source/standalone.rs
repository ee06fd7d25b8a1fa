//! The standalone source: a directory instead of an API server. One task owns the directory and
//! its watcher; whatever wakes it, it looks at what changed and publishes new pictures.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::directory::{Directory, FOLDERS};
use super::{Cluster, Kind, Source, World};
use crate::metrics::Metrics;
use crate::notify::{Touched, Watcher};

/// So long after something was heard, the watches are asked for again: a dozen calls that nothing of
/// what was heard has to wait for, and one round of them for all that comes meanwhile.
const CHECK_AFTER: Duration = Duration::from_millis(2);

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
    let mut check_at = None;
    loop {
        let mut asked = Vec::new();
        let check = async {
            match check_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = watcher.wait() => {}
            request = requests.recv() => match request {
                Some(reply) => asked.push(reply),
                None => return,
            },
            () = check => {}
        }
        // Whoever asked before the look is answered by it.
        while let Ok(reply) = requests.try_recv() {
            asked.push(reply);
        }
        // The kernel queues an event before the writer's own call returns, so taking what is
        // queued now is as good as reading the whole directory now, and costs only the change.
        let heard = watcher.heard();
        let quiet = heard.is_nothing();
        let Some(back) = look(directory, heard, &publish).await else { return };
        directory = back;
        let due = check_at.is_some_and(|at| at <= Instant::now());
        if quiet || due || !asked.is_empty() {
            check_at = None;
            let Some(back) = look(directory, watcher.checked(), &publish).await else { return };
            directory = back;
        } else {
            // Those first who have to tell others of it: arming a timer wakes the runtime once more.
            tokio::task::yield_now().await;
            check_at.get_or_insert_with(|| Instant::now() + CHECK_AFTER);
        }
        for reply in asked {
            // Nobody waits any more: nothing to tell.
            let _ = reply.send(());
        }
    }
}

/// Looks at what was touched and publishes what comes of it. `None`: there is no directory any more
/// to look at.
async fn look(mut directory: Directory, touched: Touched, publish: &Publish) -> Option<Directory> {
    if touched.is_nothing() {
        return Some(directory);
    }
    if !directory.look_at_once(&touched) {
        directory = look_in_peace(directory, touched).await?;
    }
    let (world, cluster) = (directory.world(), directory.cluster());
    let at = jiff::Timestamp::now();
    if publish.publish(world, cluster) && tracing::enabled!(tracing::Level::DEBUG) {
        // Not on the way of what follows from it: the benchmark's inner clock starts at `at`.
        tokio::task::yield_now().await;
        tracing::debug!(%at, "a new picture of the world");
    }
    Some(directory)
}

/// Reads and parses on a thread that may wait for the disk: the agent's own serves everybody.
async fn look_in_peace(mut directory: Directory, touched: Touched) -> Option<Directory> {
    let looked = tokio::task::spawn_blocking(move || {
        directory.look(&touched);
        directory
    });
    match looked.await {
        Ok(directory) => Some(directory),
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
    use crate::source::PodKey;

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

    /// No event tells of it, but of what is written next.
    #[tokio::test]
    async fn a_directory_that_is_swapped_is_noticed_after_the_next_event() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        for (place, pod) in [("one", "a"), ("two", "b")] {
            let pods = dir.path().join(place).join("pods");
            fs::create_dir_all(&pods).unwrap();
            fs::write(pods.join("x.yaml"), format!("metadata: {{name: {pod}}}\n")).unwrap();
        }
        std::os::unix::fs::symlink("one", &root).unwrap();
        let source = start(&root, Metrics::start()).unwrap();
        let mut changes = source.changes();
        std::os::unix::fs::symlink("two", dir.path().join("next")).unwrap();
        fs::rename(dir.path().join("next"), &root).unwrap();
        fs::write(dir.path().join("one/pods/y.txt"), "an event of the old one").unwrap();
        let has = |name: &str, world: &World| {
            world.pods.get(&PodKey { namespace: "default".into(), name: name.into() }).is_some()
        };
        changes.wait_for(|world| has("b", world) && !has("a", world)).await.unwrap();
        // And the new one is followed.
        fs::write(dir.path().join("two/pods/y.yaml"), "metadata: {name: c}\n").unwrap();
        changes.wait_for(|world| has("c", world)).await.unwrap();
    }
}
