//! `flock-agent run`: the order in which the daemon starts and stops, and the tasks that live in
//! between (ARCHITECTURE.md has the table). Nothing is decided here but order:
//!
//! lock, store, source, kernel; recovery; node routes, and then the speaker; admin socket, spool; a
//! NodeConfig; only then the CNI socket and, last of all, once pods can be added, the conflist.

mod origin;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use flock_dataplane::{Dataplane, NodeSettings};
use tokio::signal::unix::{SignalKind, signal};

use crate::bgp::{self, Bgp, Starting};
use crate::cli::Run;
use crate::doctor::Doctor;
use crate::incidents::Incidents;
use crate::kubernetes::report;
use crate::metrics::{Metrics, Scrape};
use crate::news::News;
use crate::notify::Watcher;
use crate::pods::book::Book;
use crate::pods::ledger::Ledger;
use crate::pods::{Parts, Pods, repair};
use crate::reconcile::Reconciler;
use crate::server::desk::Desk;
use crate::server::socket::{self, Socket};
use crate::server::{admin, cni, http};
use crate::source::{NodeState, Source};
use crate::store::{Allocation, Store};
use crate::{allocator, install, log, policy};
use origin::Origin;

/// How long calls under way may take to end on shutdown.
const FAREWELL: Duration = Duration::from_secs(5);
/// When a spooled DEL that failed is tried again.
const SPOOL_RETRY: Duration = Duration::from_secs(5);
/// When to look again whether pods can be added.
const NOT_READY_YET: Duration = Duration::from_millis(200);
/// Nothing waits; the spool's own events wake us, and this is for those that got lost.
const A_LONG_TIME: Duration = Duration::from_secs(60);

/// Runs until a signal; the error is for people.
pub fn main(args: Run) -> anyhow::Result<()> {
    allocator::share();
    log::start(args.log_format);
    // One thread: the agent waits for the kernel and the disk, which have threads of their own,
    // and a task that is woken on another core costs more than what it then does.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(run(args))
}

async fn run(args: Run) -> anyhow::Result<()> {
    let stop = stop_signal()?;
    tokio::pin!(stop);
    tokio::spawn(log::keep());
    let agent = Agent::prepare(args).await?;
    tokio::select! {
        served = agent.serve() => served?,
        signal = &mut stop => tracing::info!(signal, "stopping; pods and routes stay as they are"),
    }
    agent.farewell().await;
    Ok(())
}

/// SIGTERM and SIGINT both mean: a restart. Nothing is torn down.
fn stop_signal() -> anyhow::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

struct Agent {
    args: Run,
    node: String,
    pods: Arc<Pods>,
    server: cni::Server,
    bgp: Bgp,
    admin: Arc<Socket>,
    /// Held for the whole life: two agents on one state would undo each other.
    _lock: File,
}

impl Agent {
    /// Everything that can be refused at once, before anything is changed.
    async fn prepare(args: Run) -> anyhow::Result<Self> {
        let node = node_name(&args);
        let origin = Origin::of(&args).await?;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            node,
            from = origin.shown(),
            "starting"
        );
        let metrics = Metrics::start();
        let port = match args.http {
            Some(address) => Some(http::listen(address).await?),
            None => None,
        };
        socket::ensure_free(&args.socket).await?;
        socket::ensure_free(&args.admin_socket).await?;
        let lock = lock(&args.state_dir)?;
        // Left by an agent that was killed; whoever finds the path is to find somebody there.
        for left in [&args.socket, &args.admin_socket] {
            let _ = std::fs::remove_file(left);
        }
        let (store, found) = Store::open_timed(
            &args.state_dir.join("allocations.json"),
            &node,
            metrics.store.clone(),
        )?;
        let source = origin.source(&args, &node, metrics.clone()).await?;
        let dataplane = Dataplane::start().context("cannot talk to the kernel")?;
        dataplane
            .prepare_node(&NodeSettings::default())
            .await
            .context("cannot prepare the node")?;
        let ledger = Ledger::start(Book::default());
        let news = News::default();
        tokio::spawn(allocator::keep(news.listen()));
        // Without an API server nobody listens, and that is well.
        let (incidents, heard) = Incidents::heard();
        let reconciler = Reconciler::start(
            ledger.clone(),
            dataplane.clone(),
            source.clone(),
            metrics.clone(),
            news.clone(),
        );
        let (bgp, speaker) = Bgp::prepare(bgp::Parts {
            node: &node,
            state_dir: &args.state_dir,
            source: source.clone(),
            dataplane: dataplane.clone(),
            reconciler: reconciler.clone(),
            news: news.clone(),
            incidents: incidents.clone(),
            metrics: metrics.clone(),
        })
        .map_err(anyhow::Error::msg)?;
        let sessions = bgp.ready_sessions();
        let gate = policy::start(policy::Parts {
            source: source.clone(),
            dataplane: dataplane.clone(),
            metrics: metrics.clone(),
            incidents: incidents.clone(),
            news: news.clone(),
        });
        let pods = Pods::new(Parts {
            ledger,
            store,
            dataplane,
            source,
            reconciler,
            gate,
            sessions,
            metrics: metrics.clone(),
            incidents,
        });
        // Needs no NodeConfig: the pods that are there go on without one.
        recover(&pods, found, &bgp, speaker).await?;
        if let Origin::Cluster(cluster) = origin {
            let parts = report::Parts {
                source: pods.source.clone(),
                pods: pods.clone(),
                bgp: bgp.clone(),
                news: news.clone(),
                incidents: heard,
                metrics: metrics.clone(),
            };
            report::start(cluster.client, &node, parts);
        }
        let doctor = Doctor::new(pods.clone(), bgp.clone(), &args);
        let desk = Arc::new(Desk {
            pods: pods.clone(),
            bgp: bgp.clone(),
            doctor,
            news,
            metrics: metrics.clone(),
        });
        let admin = Arc::new(Socket::open(&args.admin_socket).await?);
        tokio::spawn(admin::serve(admin.clone(), desk.clone()));
        if let Some(port) = port {
            let address = port.local_addr()?;
            let page = args.http_page.at(address);
            let scrape = Scrape::new(metrics.clone(), pods.clone(), bgp.clone());
            let names = page.then(|| http::OwnNames::at(address, &node));
            let site = http::Site::new(desk, scrape, names);
            tracing::info!(%address, page, "serving HTTP");
            tokio::spawn(http::serve(port, Arc::new(site), metrics));
        }
        let server = cni::Server::default();
        Ok(Self { args, node, pods, server, bgp, admin, _lock: lock })
    }

    /// Carries out what was spooled, then serves for ever.
    async fn serve(&self) -> anyhow::Result<()> {
        if let Some(places) = &self.args.install_cni {
            for path in install::plugins(places)? {
                tracing::info!(file = %path.display(), "installed");
            }
        }
        let spool = self.args.spool_dir();
        std::fs::create_dir_all(&spool)
            .with_context(|| format!("cannot create {}", spool.display()))?;
        let watcher = Watcher::new(&spool, &[])
            .with_context(|| format!("cannot watch {}", spool.display()))?;
        self.pods.empty_spool(&spool).await;
        tokio::select! {
            outcome = self.serve_calls(&spool) => outcome,
            () = self.follow_spool(watcher, &spool) => Ok(()),
        }
    }

    /// The socket appears once there is a NodeConfig, and the conflist once pods can be added.
    async fn serve_calls(&self, spool: &Path) -> anyhow::Result<()> {
        self.await_config(&self.pods.source).await;
        self.pods.reconciler.settle().await;
        let socket = Socket::open(&self.args.socket).await?;
        tracing::info!(socket = %self.args.socket.display(), "serving CNI calls");
        let serve = async {
            self.server.serve(socket, self.pods.clone()).await;
            Ok(())
        };
        tokio::try_join!(serve, self.install_network(spool)).map(drop)
    }

    /// With the conflist the runtime, and so the node, is ready. Runtimes that do not ask STATUS know it
    /// by this alone, so it waits for what STATUS waits for: networks, and the sessions of `spec.readiness`.
    async fn install_network(&self, spool: &Path) -> anyhow::Result<()> {
        let Some(places) = &self.args.install_cni else { return Ok(()) };
        let mut told = false;
        while let Err(why) = self.pods.status().await {
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(reason = %why, "the conflist is written when pods can be added");
            }
            tokio::time::sleep(NOT_READY_YET).await;
        }
        if let Some(path) = install::conflist(places, &self.args.socket, spool)? {
            tracing::info!(file = %path.display(), "installed");
        }
        Ok(())
    }

    async fn await_config(&self, source: &Source) {
        let mut changes = source.changes();
        let mut told = String::new();
        loop {
            match &source.world().node {
                NodeState::Known { config, .. } => {
                    if config.name != self.node {
                        tracing::warn!(
                            node = self.node,
                            name = config.name,
                            "the NodeConfig is named otherwise than the node"
                        );
                    }
                    return;
                }
                NodeState::Unknown { reason } if *reason != told => {
                    tracing::warn!(reason, "waiting for a NodeConfig; no CNI calls are served yet");
                    told.clone_from(reason);
                }
                NodeState::Unknown { .. } => {}
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn follow_spool(&self, mut watcher: Watcher, spool: &Path) {
        // Once more: a file may have come between the first look and the socket.
        loop {
            watcher.take();
            let patience =
                if self.pods.empty_spool(spool).await { A_LONG_TIME } else { SPOOL_RETRY };
            let _ = tokio::time::timeout(patience, watcher.wait()).await;
        }
    }

    /// Lets calls under way end, then closes sessions without a word: peers keep our routes until we
    /// are back. The kernel and the disk stay as they are.
    async fn farewell(self) {
        if tokio::time::timeout(FAREWELL, self.server.quiet()).await.is_err() {
            tracing::warn!(
                "calls under way did not end in time; the next start finishes or undoes them"
            );
        }
        self.bgp.fall_silent().await;
        drop(self.admin);
    }
}

/// Makes disk, kernel and book agree, and keeps them so; then the speaker may speak of them.
async fn recover(
    pods: &Arc<Pods>,
    found: Vec<Allocation>,
    bgp: &Bgp,
    speaker: Starting,
) -> anyhow::Result<()> {
    // Before the first look, so that nothing falls between the two.
    let drifts = pods.dataplane.monitor().context("cannot watch the kernel")?;
    let recovered = pods.recover(found).await?;
    tracing::info!(
        adopted = recovered.adopted,
        rewired = recovered.rewired,
        cleared = recovered.cleared,
        dead = recovered.dead,
        orphaned = recovered.orphaned,
        "pods recovered"
    );
    pods.reconciler.begin();
    speaker.begin();
    tokio::spawn(repair::follow(pods.clone(), drifts, bgp.clone()));
    Ok(())
}

fn node_name(args: &Run) -> String {
    args.node_name
        .clone()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

fn lock(state_dir: &Path) -> anyhow::Result<File> {
    let shown = state_dir.display();
    std::fs::create_dir_all(state_dir)
        .with_context(|| format!("cannot create the state directory {shown}"))?;
    // The directory itself is locked: no file to leave behind, nothing to write.
    let file = File::open(state_dir)
        .with_context(|| format!("cannot open the state directory {shown}"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            bail!(
                "the state directory {shown} is in use by a running agent; stop it, or give this one another --state-dir"
            )
        }
        Err(std::fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock the state directory {shown}"))
        }
    }
}
