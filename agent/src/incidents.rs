//! What happens that somebody far away wants to hear of: Kubernetes Events are made from it. Whoever
//! it happens to says so and goes on; in standalone mode nobody listens, and the log has it anyway.

use std::sync::Arc;

use tokio::sync::mpsc;

/// So many may wait to be told. More are dropped: they are in the log, and the state that they led
/// to is in the status.
const WAITING: usize = 64;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incident {
    /// A BGP session came up.
    SessionUp {
        /// As configured.
        peer: Arc<str>,
    },
    /// A BGP session ended.
    SessionDown {
        /// As configured.
        peer: Arc<str>,
        /// The reason, with codes and the peer's own words.
        reason: String,
    },
    /// A BGP session does not come about; told once for each reason.
    NoSession {
        /// As configured.
        peer: Arc<str>,
        /// The reason, with codes and the peer's own words.
        reason: String,
    },
    /// A pod could not be given an address.
    PoolExhausted {
        /// What is exhausted, as the pod's ADD is told.
        reason: String,
    },
}

/// Where incidents are told.
#[derive(Debug, Clone, Default)]
pub struct Incidents {
    listener: Option<mpsc::Sender<Incident>>,
}

impl Incidents {
    /// Somebody listens.
    pub fn heard() -> (Self, mpsc::Receiver<Incident>) {
        let (tell, heard) = mpsc::channel(WAITING);
        (Self { listener: Some(tell) }, heard)
    }

    /// Tells of one, without waiting.
    pub fn tell(&self, incident: Incident) {
        if let Some(listener) = &self.listener {
            // Full, or nobody there any more: see `WAITING`.
            let _ = listener.try_send(incident);
        }
    }
}
