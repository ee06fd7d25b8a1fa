//! The desk behind the admin socket: each op to the room that knows about it, and its answer as
//! JSON. Decides nothing else.

use std::sync::Arc;

use serde_json::Value;

use super::admin::{self, Answers, NoArgs, op};
use crate::bgp::Bgp;
use crate::doctor::Doctor;
use crate::metrics::Metrics;
use crate::pods::Pods;

/// Everybody who is asked.
pub struct Desk {
    /// The pods.
    pub pods: Arc<Pods>,
    /// The speaker.
    pub bgp: Bgp,
    /// What is wrong.
    pub doctor: Doctor,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Answers for Desk {
    fn answered(&self, op: &str, well: bool) {
        self.metrics.admin.answered(op, well);
    }

    async fn answer(&self, op: &str, args: &Value) -> Result<Value, String> {
        if !matches!(op, op::BGP_PEERS | op::BGP_ROUTES | op::DRAIN) {
            admin::args::<NoArgs>(args)?;
        }
        match op {
            op::PODS => json(self.pods.list().await.map_err(|error| error.to_string())),
            op::CHECK => json(self.doctor.examine().await),
            op::BGP_SUMMARY => json(self.bgp.summary().await),
            op::BGP_PEERS => json(self.bgp.peers(&admin::args(args)?).await),
            op::BGP_ROUTES => json(self.bgp.routes(admin::args(args)?).await),
            op::DRAIN => json(self.bgp.drain(admin::args(args)?).await),
            op::DRAIN_UNDO => json(self.bgp.undo_drain().await),
            op::DRAIN_STATUS => json(self.bgp.drain_status().await),
            other => Err(format!("unknown op {other:?}; expected one of {}", op::ALL.join(", "))),
        }
    }
}

fn json(answer: Result<impl serde::Serialize, String>) -> Result<Value, String> {
    serde_json::to_value(answer?).map_err(|error| error.to_string())
}
