//! What happens that somebody far away wants to hear of: Kubernetes Events are made from it. Whoever
//! it happens to says so and goes on; in standalone mode nobody listens, and the log has it anyway.

use std::sync::Arc;

use jiff::Timestamp;
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
    /// The kernel refuses what follows from NetworkPolicies; told once for each reason.
    PolicyFailed {
        /// In the kernel's words.
        reason: String,
    },
}

/// One that was told, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// When it happened; whoever listens may be late.
    pub at: Timestamp,
    /// What.
    pub incident: Incident,
}

/// Where incidents are told.
#[derive(Debug, Clone, Default)]
pub struct Incidents {
    listener: Option<mpsc::Sender<Told>>,
}

impl Incidents {
    /// Somebody listens.
    pub fn heard() -> (Self, mpsc::Receiver<Told>) {
        let (tell, heard) = mpsc::channel(WAITING);
        (Self { listener: Some(tell) }, heard)
    }

    /// Tells of one, without waiting.
    pub fn tell(&self, incident: Incident) {
        if let Some(listener) = &self.listener {
            // Full, or nobody there any more: see `WAITING`.
            let _ = listener.try_send(Told { at: Timestamp::now(), incident });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_whoever_listens() {
        let up = || Incident::SessionUp { peer: "tor-a".into() };
        Incidents::default().tell(up());
        let (incidents, mut heard) = Incidents::heard();
        for _ in 0..1000 {
            incidents.tell(up());
        }
        assert_eq!(std::iter::from_fn(|| heard.try_recv().ok()).count(), WAITING);
        drop(heard);
        incidents.tell(up());
    }
}
