//! STATUS: can an ADD be served now? It follows what the NodeConfig asks of readiness.

use std::sync::Arc;

use flock_cni::error::{self, CniError};

use super::{Closed, Pods, closed};
use crate::config::NodeConfig;
use crate::source::NodeState::{Known, Unknown};
use crate::source::Standing;

/// Why an ADD cannot be served now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotServing {
    /// There is none that could be used, and this is why.
    #[error("no NodeConfig is in force: {0}")]
    NoConfig(String),
    /// It is there no more.
    #[error(
        "the NodeConfig {0} was deleted: the pods that are there are served, new ones are not; create it again"
    )]
    Deleted(String),
    /// There is nothing to give out.
    #[error("the NodeConfig {0} has no network in spec.cidr6 or spec.cidr4")]
    NoNetworks(String),
    /// A network was removed under living pods.
    #[error("{0}")]
    NetworkRemoved(String),
    /// The disk refuses what has to survive a crash.
    #[error("{0}")]
    DiskFails(String),
    /// Too few sessions for what `readiness` asks.
    #[error(
        "{up} of {wanted} BGP sessions are up and told everything; ready in {left} s at the latest"
    )]
    FewSessions {
        /// Sessions that are up and have been told everything.
        up: u32,
        /// Sessions that are waited for.
        wanted: u32,
        /// Seconds until that is over.
        left: u64,
    },
    /// The agent is going.
    #[error("{0}")]
    Stopping(Closed),
}

impl From<NotServing> for CniError {
    fn from(why: NotServing) -> Self {
        match why {
            NotServing::Stopping(error) => closed(error),
            why => Self::new(error::NOT_AVAILABLE, why.to_string()),
        }
    }
}

impl Pods {
    /// Succeeds when ADD can be served. The socket exists only after recovery, so what is left to
    /// ask is the configuration, the pools, the disk and, where readiness asks for them, BGP sessions
    /// or their timeout.
    pub async fn status(&self) -> Result<(), NotServing> {
        let config = self.config()?;
        if config.cidr6.is_empty() && config.cidr4.is_empty() {
            return Err(NotServing::NoNetworks(config.name.clone()));
        }
        let asked = config.clone();
        let can_serve = self.ledger.ask(move |book| book.can_serve(&asked)).await;
        can_serve
            .map_err(NotServing::Stopping)?
            .map_err(|error| NotServing::NetworkRemoved(error.to_string()))?;
        // A disk that refused the last write may be well again: nobody knows before it is tried.
        if self.store.counters().last_failed {
            let probed = self.store.probe().await;
            probed.map_err(|error| NotServing::DiskFails(error.to_string()))?;
        }
        let waited = self.started.elapsed();
        let up = *self.sessions.borrow();
        match &config.readiness {
            Some(wish) if up < wish.sessions && waited < wish.timeout => {
                let left = wish.timeout.saturating_sub(waited).as_secs() + 1;
                Err(NotServing::FewSessions { up, wanted: wish.sessions, left })
            }
            _ => Ok(()),
        }
    }

    /// The configuration in force, or why pods cannot be added.
    pub(super) fn config(&self) -> Result<Arc<NodeConfig>, NotServing> {
        match &self.source.world().node {
            Unknown { reason } => Err(NotServing::NoConfig(reason.clone())),
            Known { config, standing: Standing::Deleted } => {
                Err(NotServing::Deleted(config.name.clone()))
            }
            Known { config, .. } => Ok(config.clone()),
        }
    }
}
