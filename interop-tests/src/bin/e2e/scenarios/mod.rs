//! The scenarios, in the order in which they are played. Each says what it needs, how long it may take,
//! and stands in a file of its own.

mod rig;

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

/// All of them.
pub(crate) const SCENARIOS: &[Scenario] = &[Scenario {
    name: "rig",
    about: "the cluster itself, with the reference plugin ptp",
    needs: Needs::Machines,
    limit: Duration::from_secs(900),
    play: rig::play,
}];
