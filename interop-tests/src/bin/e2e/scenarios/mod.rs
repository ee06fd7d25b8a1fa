//! The scenarios, in the order in which they are played. Each says what it needs, how long it may take,
//! and stands in a file of its own. Each begins with flock installed and its NodeConfigs as they are by
//! default, whatever was played before; `install` alone wants to be the first.

mod anycast;
mod burst;
mod edit;
mod install;
mod leaks;
mod lost_config;
mod outage;
mod pod_cidrs;
mod policy;
mod rbac;
mod reboot;
mod rig;
mod service;
mod upgrade;

use std::time::Duration;

use anyhow::Result;

use crate::stage::Stage;

/// What a scenario needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A cluster with flock, whoever's it is.
    Cluster,
    /// Machines that it may break, and a ToR that it can ask.
    Machines,
}

/// A scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) needs: Needs,
    pub(crate) limit: Duration,
    pub(crate) play: fn(&mut Stage) -> Result<()>,
}

/// A scenario that needs machines and may take so many minutes.
const fn breaking(
    name: &'static str,
    about: &'static str,
    minutes: u64,
    play: fn(&mut Stage) -> Result<()>,
) -> Scenario {
    Scenario { name, about, needs: Needs::Machines, limit: Duration::from_secs(60 * minutes), play }
}

/// A scenario that any cluster with flock can play.
const fn looking(
    name: &'static str,
    about: &'static str,
    minutes: u64,
    play: fn(&mut Stage) -> Result<()>,
) -> Scenario {
    Scenario { name, about, needs: Needs::Cluster, limit: Duration::from_secs(60 * minutes), play }
}

/// All of them.
pub(crate) const SCENARIOS: &[Scenario] = &[
    breaking("rig", "the cluster itself, with the reference plugin ptp", 15, rig::play),
    breaking(
        "install",
        "nodes are Ready once flock serves, and the ToR reaches pods",
        15,
        install::play,
    ),
    looking("service", "pods talk, sessions are up, the agent answers", 10, service::play),
    breaking(
        "anycast",
        "an address follows readiness; a rolling restart under load",
        15,
        anycast::play,
    ),
    breaking("policy", "NetworkPolicies by kubectl, with packets across nodes", 10, policy::play),
    breaking("upgrade", "the DaemonSet is restarted under traffic", 15, upgrade::play),
    breaking("edit", "a NodeConfig is edited, broken, mended; passwords", 15, edit::play),
    breaking("outage", "the API server is away, and agents restart", 20, outage::play),
    breaking("lost_config", "a NodeConfig is deleted from etcd", 10, lost_config::play),
    breaking("pod_cidrs", "a node's networks are its Node's podCIDRs", 10, pod_cidrs::play),
    breaking("reboot", "a node loses its power; a pod deleted by force; GC", 15, reboot::play),
    breaking("burst", "two hundred pods at once on one node", 40, burst::play),
    looking("rbac", "the agent may do what it needs and no more", 5, rbac::play),
    breaking("leaks", "after everything, nothing is there beside the pods", 10, leaks::play),
];
