//! The life of a pod on this node: attached, checked, detached, recovered. One file per walk; this
//! one holds what they share. Order is law: what is promised is durable first, what is told to
//! others is in the kernel first, and a crash between any two steps is mended by `recover`.

mod add;
mod answer;
pub mod book;
pub mod call;
mod check;
mod chores;
mod del;
mod gc;
pub mod ledger;
mod recover;
pub mod repair;
mod spool;
mod status;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use flock_cni::error::{self, CniError};
use flock_dataplane::{Dataplane, Netns, PodLink};
use tokio::sync::watch;

use crate::cli::pods::{PodList, PodRow};
use crate::config::NodeConfig;
use crate::incidents::Incidents;
use crate::metrics::Metrics;
use crate::policy::Gate;
use crate::reconcile::Reconciler;
use crate::source::{PodKey, Source};
use crate::store::{Allocation, State, Store};
use book::{Attachment, Phase};
pub use chores::Chores;
use ledger::{Closed, Ledger};
pub(crate) use recover::boot_id;
pub use status::NotServing;
use turns::Turns;

/// Everything that the walks of a pod need.
pub struct Pods {
    /// The book of attachments.
    pub ledger: Ledger,
    /// What survives a crash.
    pub store: Store,
    /// The kernel.
    pub dataplane: Dataplane,
    /// NodeConfig and pods.
    pub source: Source,
    /// Node routes that depend on pods.
    pub reconciler: Reconciler,
    /// What calls leave for a quiet moment.
    pub chores: Chores,
    /// What pods may be sent and may send.
    pub gate: Gate,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Who is told what happens.
    incidents: Incidents,
    /// One call at a time per container.
    turns: Turns,
    /// When the agent started to serve, for `status`.
    started: tokio::time::Instant,
    /// BGP sessions that are up and have been told everything.
    sessions: watch::Receiver<u32>,
    /// Spooled DELs that failed, by container, in the words that were told.
    spool_failures: watch::Sender<BTreeMap<String, String>>,
    /// The uplink's MTU as last asked for, under which configuration and when.
    uplink_mtu: watch::Sender<Option<(Arc<NodeConfig>, Instant, u32)>>,
}

/// What [`Pods`] are made of.
#[allow(missing_docs, reason = "the fields are those of Pods")]
pub struct Parts {
    pub ledger: Ledger,
    pub store: Store,
    pub dataplane: Dataplane,
    pub source: Source,
    pub reconciler: Reconciler,
    pub gate: Gate,
    pub sessions: watch::Receiver<u32>,
    pub metrics: Arc<Metrics>,
    pub incidents: Incidents,
}

impl Pods {
    /// Brings the parts together.
    pub fn new(parts: Parts) -> Arc<Self> {
        let Parts { ledger, store, dataplane, source, reconciler, gate, .. } = parts;
        let chores = Chores::start(ledger.clone(), dataplane.clone());
        let turns = Turns::default();
        let started = tokio::time::Instant::now();
        Arc::new(Self {
            ledger,
            store,
            dataplane,
            source,
            reconciler,
            chores,
            gate,
            metrics: parts.metrics,
            incidents: parts.incidents,
            turns,
            started,
            sessions: parts.sessions,
            spool_failures: watch::Sender::default(),
            uplink_mtu: watch::Sender::new(None),
        })
    }

    /// What `flock-agent pods` shows.
    pub async fn list(&self) -> Result<PodList, Closed> {
        let attachments: Vec<Attachment> =
            self.ledger.ask(|book| book.all().cloned().collect()).await?;
        let anycast = attachments.iter().flat_map(|attachment| &attachment.record.anycast);
        let announced = self.reconciler.announced(anycast.copied().collect()).await;
        let world = self.source.world();
        let mut pods: Vec<PodRow> = attachments
            .into_iter()
            .map(|attachment| {
                let ready = world.pods.behind(&attachment.record).is_ready();
                row(attachment, ready, &announced)
            })
            .collect();
        pods.sort();
        Ok(PodList { pods })
    }
}

/// What to call a pod in the log: its name, or its container where the runtime gave none.
pub fn called(record: &Allocation) -> String {
    if record.pod_name.is_empty() {
        return format!("container {}", record.container_id);
    }
    pod_key(record).to_string()
}

/// From here on, what is logged for this call names the pod.
fn name_in_log(pod: impl std::fmt::Display) {
    tracing::Span::current().record("pod", tracing::field::display(pod));
}

/// Under which name the source knows the pod of a record.
pub fn pod_key(record: &Allocation) -> PodKey {
    PodKey { namespace: record.namespace.as_str().into(), name: record.pod_name.as_str().into() }
}

fn row(attachment: Attachment, ready: bool, announced: &BTreeSet<IpAddr>) -> PodRow {
    let Attachment { record, phase, .. } = attachment;
    PodRow {
        namespace: record.namespace,
        name: record.pod_name,
        container_id: record.container_id,
        ifname: record.ifname,
        ip6: record.ip6.map(IpAddr::V6),
        ip4: record.ip4.map(IpAddr::V4),
        announced: record.anycast.iter().filter(|ip| announced.contains(ip)).copied().collect(),
        anycast: record.anycast,
        addresses: record.addresses,
        state: match record.state {
            State::Pending => "pending".into(),
            State::Committed => "committed".into(),
        },
        host_interface: record.host_ifname.unwrap_or_default(),
        ready: ready && phase == Phase::Serving,
    }
}

/// The link that a record describes, in this namespace.
pub(crate) fn link(record: &Allocation, netns: Netns) -> PodLink {
    let primary = [record.ip6.map(IpAddr::V6), record.ip4.map(IpAddr::V4)];
    PodLink {
        host_ifname: record.host_ifname.clone().unwrap_or_default(),
        ifname: record.ifname.clone(),
        netns,
        mtu: record.mtu.unwrap_or(DEFAULT_MTU),
        ip6: record.ip6,
        ip4: record.ip4,
        addresses: record
            .addresses
            .iter()
            .copied()
            .filter(|address| !primary.contains(&Some(*address)))
            .collect(),
        anycast: record.anycast.clone(),
        host_mac: record.host_mac.as_deref().and_then(answer::read_mac),
        pod_mac: record.pod_mac.as_deref().and_then(answer::read_mac),
    }
}

/// Ethernet's own, where nothing says more.
const DEFAULT_MTU: u32 = 1500;

/// The agent is going: the plugin is to ask its successor.
fn closed(error: Closed) -> CniError {
    CniError::new(error::TRY_AGAIN_LATER, error.to_string())
}

/// The kernel or the disk said no.
fn failed(what: &str, error: impl std::fmt::Display) -> CniError {
    CniError::new(error::IO_FAILURE, format!("{what}: {error}"))
}
