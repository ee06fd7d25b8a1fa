//! STATUS: can an ADD be served now? It follows what the NodeConfig asks of readiness.

use flock_cni::error::{self, CniError};

use super::{Pods, closed};

impl Pods {
    /// Succeeds when ADD can be served. The socket exists only after recovery, so what is left to
    /// ask is the configuration, the pools, the disk and, where readiness asks for them, BGP sessions
    /// or their timeout.
    pub async fn status(&self) -> Result<(), CniError> {
        let not_available = |reason| CniError::new(error::NOT_AVAILABLE, reason);
        let config = self.config().map_err(not_available)?;
        if config.cidr6.is_empty() && config.cidr4.is_empty() {
            return Err(not_available(format!(
                "the NodeConfig {} has no network in spec.cidr6 or spec.cidr4",
                config.name
            )));
        }
        let asked = config.clone();
        let can_serve = self.ledger.ask(move |book| book.can_serve(&asked)).await;
        can_serve.map_err(closed)?.map_err(|error| not_available(error.to_string()))?;
        // A disk that refused the last write may be well again: nobody knows before it is tried.
        if self.store.counters().last_failed {
            self.store.probe().await.map_err(|error| not_available(error.to_string()))?;
        }
        let waited = self.started.elapsed();
        let up = *self.sessions.borrow();
        match &config.readiness {
            Some(wish) if up < wish.sessions && waited < wish.timeout => {
                let left = wish.timeout.saturating_sub(waited).as_secs() + 1;
                Err(not_available(format!(
                    "{up} of {} BGP sessions are up and told everything; ready in {left} s at the latest",
                    wish.sessions
                )))
            }
            _ => Ok(()),
        }
    }
}
