//! The standalone source: a directory instead of an API server. One task owns the directory and
//! its watcher; whatever wakes it, it looks at what changed and publishes one new picture.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::directory::{Directory, PODS};
use super::{Kind, Source, World};
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
    let watcher = Watcher::new(root, &[PODS]).map_err(|e| StandaloneError::Watch(shown, e))?;
    let directory = Directory::read(root);
    let (publish, world) = watch::channel(Arc::new(directory.world()));
    let (refresh, requests) = mpsc::channel(64);
    tokio::spawn(follow(directory, watcher, publish, requests, metrics));
    let (_, cluster) = watch::channel(Arc::default());
    Ok(Source { world, cluster, kind: Kind::Directory(refresh) })
}

async fn follow(
    mut directory: Directory,
    mut watcher: Watcher,
    publish: watch::Sender<Arc<World>>,
    mut requests: mpsc::Receiver<oneshot::Sender<()>>,
    metrics: Arc<Metrics>,
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
            let Some((back, world)) = look(directory, touched).await else { return };
            directory = back;
            let at = jiff::Timestamp::now();
            let news = publish.send_if_modified(|known| {
                let news = **known != world;
                if news {
                    *known = Arc::new(world);
                    metrics.latency.event();
                }
                news
            });
            told = news.then_some(at);
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
async fn look(mut directory: Directory, touched: Touched) -> Option<(Directory, World)> {
    let looked = tokio::task::spawn_blocking(move || {
        directory.look(&touched);
        let world = directory.world();
        (directory, world)
    });
    match looked.await {
        Ok(looked) => Some(looked),
        Err(error) => {
            tracing::error!(%error, "reading the standalone directory failed; it is not followed any more, restart the agent");
            None
        }
    }
}
