//! The desk behind the admin socket: each op to the room that knows about it, and its answer as
//! JSON. Decides nothing else.

use std::sync::Arc;

use serde_json::Value;

use super::admin::{self, Answer, Answers, NoArgs, Rows, op};
use crate::bgp::{Bgp, Routes};
use crate::cli::bgp::RouteRow;
use crate::doctor::Doctor;
use crate::explain;
use crate::log;
use crate::metrics::Metrics;
use crate::news::{Listener, News};
use crate::pods::Pods;
use crate::policy;

/// Everybody who is asked.
pub struct Desk {
    /// The pods.
    pub pods: Arc<Pods>,
    /// The speaker.
    pub bgp: Bgp,
    /// What is wrong.
    pub doctor: Doctor,
    /// Rings when an answer may be another.
    pub news: News,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// The ops without arguments.
const TAKE_NOTHING: [&str; 6] =
    [op::PODS, op::CHECK, op::BGP_SUMMARY, op::DRAIN_UNDO, op::DRAIN_STATUS, op::LOG_LEVEL];

impl Answers for Desk {
    type Rows = Routes;

    fn answered(&self, op: &str, well: bool) {
        self.metrics.admin.answered(op, well);
    }

    async fn answer(&self, op: &str, args: &Value) -> Result<Answer<Routes>, String> {
        if TAKE_NOTHING.contains(&op) {
            admin::args::<NoArgs>(args)?;
        }
        match op {
            op::PODS => json(self.pods.list().await.map_err(|error| error.to_string())),
            op::CHECK => json(self.doctor.examine().await),
            op::BGP_SUMMARY => json(self.bgp.summary().await),
            op::BGP_PEERS => json(self.bgp.peers(&admin::args(args)?).await),
            op::BGP_ROUTES => self.bgp.routes(admin::args(args)?).await.map(Answer::Parts),
            op::BGP_EXPLAIN => {
                json(explain::explain(&self.pods, &self.bgp, admin::args(args)?).await)
            }
            op::BGP_REFRESH => json(self.bgp.refresh(admin::args(args)?).await),
            op::BGP_RESET => json(self.bgp.reset(admin::args(args)?).await),
            op::POLICY_SHOW => json(policy::report(&self.pods, admin::args(args)?).await),
            op::POLICY_EXPLAIN => json(policy::explain(&self.pods, admin::args(args)?).await),
            op::DRAIN => json(self.bgp.drain(admin::args(args)?).await),
            op::DRAIN_UNDO => json(self.bgp.undo_drain().await),
            op::DRAIN_STATUS => json(self.bgp.drain_status().await),
            op::LOG_LEVEL => json(log::level()),
            op::LOG_SET => json(log::set(&admin::args(args)?)),
            other => {
                let all = op::ALL.join(", ");
                Err(format!("{} {other:?}; expected one of {all}", admin::UNKNOWN_OP))
            }
        }
    }

    fn news(&self) -> Listener {
        self.news.listen()
    }
}

impl Rows for Routes {
    type Row = RouteRow;

    async fn next(&mut self) -> Result<Option<Vec<RouteRow>>, String> {
        Routes::next(self).await
    }

    fn is_cut(&self) -> bool {
        Routes::is_cut(self)
    }
}

fn json(answer: Result<impl serde::Serialize, String>) -> Result<Answer<Routes>, String> {
    serde_json::to_value(answer?).map(Answer::Whole).map_err(|error| error.to_string())
}
