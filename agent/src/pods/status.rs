//! STATUS: can an ADD be served now? It follows what the NodeConfig asks of readiness.

use flock_cni::error::{self, CniError};

use super::Pods;

impl Pods {
    /// Succeeds when ADD can be served. The socket exists only after recovery, so what is left to
    /// ask is the configuration and, where it asks for them, BGP sessions or their timeout.
    pub fn status(&self) -> Result<(), CniError> {
        let config = self.config().map_err(|reason| CniError::new(error::NOT_AVAILABLE, reason))?;
        match &config.readiness {
            Some(wish) if wish.sessions > 0 && self.started.elapsed() < wish.timeout => {
                Err(CniError::new(
                    error::NOT_AVAILABLE,
                    format!(
                        "0 of {} BGP sessions are up; ready in {:?} at the latest",
                        wish.sessions,
                        wish.timeout.saturating_sub(self.started.elapsed())
                    ),
                ))
            }
            _ => Ok(()),
        }
    }
}
