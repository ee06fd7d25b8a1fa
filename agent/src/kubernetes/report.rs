//! What is written to the API server: the NodeConfig's status, Events, and the Node's condition
//! NetworkUnavailable. Three tasks that nobody waits for: an API server that is slow, away or forbids
//! it changes nothing on the node.
//!
//! | room | what it decides |
//! |---|---|
//! | `published` | when the status is sent, and that task |
//! | `network` | when the Node's network is available, and that task |
//! | `events`, `notes`, `flood` | what is an Event and in which words; how many there may be; that task |
//! | `patience` | when a write that failed is tried again |
//!
//! Each holds at most what it is about to write: the newest status, the newest verdict, and a bounded
//! queue of Events.

mod events;
mod flood;
mod network;
mod notes;
mod patience;
mod published;
#[cfg(test)]
mod script;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::status::Facts;
use crate::bgp::Bgp;
use crate::cli::bgp::PeersArgs;
use crate::doctor;
use crate::incidents::Told;
use crate::metrics::Metrics;
use crate::news::News;
use crate::pods::Pods;
use crate::source::Source;

/// Between two looks, however often it rings.
const SPACING: Duration = Duration::from_secs(1);
/// Looked at all the same, for what changes without a bell: a disk, a time that is over.
const ANYWAY: Duration = Duration::from_secs(10);
/// How long an API server may take for one write.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a start may take.
const YOUTH: Duration = Duration::from_secs(10);

/// What there is to report of.
#[allow(missing_docs, reason = "each is what its type says")]
pub struct Parts {
    pub source: Source,
    pub pods: Arc<Pods>,
    pub bgp: Bgp,
    pub news: News,
    /// The other end of what `bgp` and `pods` tell.
    pub incidents: mpsc::Receiver<Told>,
    pub metrics: Arc<Metrics>,
}

/// What the tasks share.
#[derive(Clone)]
struct Around {
    client: Client,
    node: Arc<str>,
    source: Source,
    pods: Arc<Pods>,
    bgp: Bgp,
    news: News,
    metrics: Arc<Metrics>,
    started: Instant,
}

/// Starts the tasks; they end with the runtime. `node` is the name of the Node and of the NodeConfig.
pub fn start(client: Client, node: &str, parts: Parts) {
    let Parts { source, pods, bgp, news, incidents, metrics } = parts;
    let started = Instant::now();
    let node = Arc::from(node);
    let around = Around { client, node, source, pods, bgp, news, metrics, started };
    tokio::spawn(published::run(around.clone()));
    tokio::spawn(network::run(around.clone()));
    tokio::spawn(events::run(around, incidents));
}

impl Around {
    /// Everything that a status is made of.
    async fn facts(&self) -> Facts {
        let world = self.source.world();
        let peers = self.bgp.peers(&PeersArgs::default()).await;
        Facts {
            following: self.bgp.following(),
            refused: self.pods.status().await.err(),
            speaking: self.bgp.is_speaking() && peers.is_ok(),
            young: self.started.elapsed() < YOUTH,
            drained: self.bgp.is_drained(),
            peers: peers.map(|list| list.peers).unwrap_or_default(),
            conflicts: self.bgp.lasting_conflicts(),
            policies: self.pods.gate.standing(),
            pools: doctor::pools(&self.pods, world.node.config().map(AsRef::as_ref)).await,
            now: Timestamp::now(),
            world,
        }
    }
}
