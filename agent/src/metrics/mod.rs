//! What the agent counts, and what is read when somebody asks: `/metrics`.
//!
//! Two halves. What happens is counted where it happens (`counted`, `latency`): a counter is an
//! atomic number, and nobody waits for anybody. What is, is read when it is asked for (`figures`,
//! `process`) from the tasks that own it, so that no gauge can go stale. `scrape` brings the halves
//! together, once for all who ask at the same time; `sheet` and `text` decide how it looks. Names,
//! labels and meanings are in docs/metrics.md, which a test holds against a real scrape.
//!
//! Every label has a bounded number of values: ops, codes and reasons are from fixed lists, peers and
//! pools from the NodeConfig and no more than [`MOST_PEERS`] and [`MOST_POOLS`] of them, pods only where
//! policies isolate them on this node, [`MOST_PODS`] at most. Prefixes and words of others are never labels.

mod counted;
mod figures;
mod kubernetes;
mod labels;
mod latency;
mod peers;
mod policy;
mod process;
mod scrape;
mod sheet;
mod text;

use std::sync::Arc;
use std::time::SystemTime;

use prometheus_client::registry::Registry;

pub use counted::{Admin, Cni, Http, Ipam, Kernel, Spool, StoreTimes};
pub use kubernetes::{Kubernetes, Written};
pub use labels::{Endpoint, Leak, Repair};
pub use latency::Latency;
pub use policy::Policy;
pub use scrape::Scrape;
pub use text::Form;

/// Peers with a label of their own; those behind them, by name, are summed up as `overflow`.
pub const MOST_PEERS: usize = 512;
/// The same for the networks that pods get addresses from.
pub const MOST_POOLS: usize = 64;
/// The same for pods of this node that policies isolate.
pub const MOST_PODS: usize = 2048;

/// Everything that is counted. Made once, and handed to those who count.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// When the agent started.
    started: SystemTime,
    /// Calls of the runtime.
    pub cni: Cni,
    /// Addresses.
    pub ipam: Ipam,
    /// DELs that were left for us.
    pub spool: Spool,
    /// The kernel, and what others do to it.
    pub kernel: Kernel,
    /// How long the disk takes.
    pub store: StoreTimes,
    /// How long peers take to hear of a pod.
    pub latency: Latency,
    /// Requests on the HTTP port.
    pub http: Http,
    /// Requests on the admin socket.
    pub admin: Admin,
    /// What is written to the API server.
    pub kubernetes: Kubernetes,
    /// Network policies.
    pub policy: Policy,
}

impl Metrics {
    /// Nothing has happened yet. Starts the task that measures how long peers take to hear.
    pub fn start() -> Arc<Self> {
        let mut registry = Registry::default();
        Arc::new(Self {
            cni: Cni::register(&mut registry),
            ipam: Ipam::register(&mut registry),
            spool: Spool::register(&mut registry),
            kernel: Kernel::register(&mut registry),
            store: StoreTimes::register(&mut registry),
            latency: Latency::start(&mut registry),
            http: Http::register(&mut registry),
            admin: Admin::register(&mut registry),
            kubernetes: Kubernetes::register(&mut registry),
            policy: Policy::register(&mut registry),
            registry,
            started: SystemTime::now(),
        })
    }
}
