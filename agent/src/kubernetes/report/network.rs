//! The Node's condition NetworkUnavailable, by server-side apply of that one condition: the others are
//! not in what is sent, so they cannot be changed by it. Older API servers (1.20 does, and some after it)
//! cannot apply anything to a Node with two addresses of one type, which is every dual-stack one: there it
//! is a strategic merge patch, as kubelet's own, which merges conditions by their type. Decides when the network is available: as soon as
//! pods are served, and from then on unless they have not been served for a while. A restart of the agent
//! changes nothing: pods that run go on, and kubelet tries again for new ones.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::patience::{Failure, Patience, answered};
use super::{ANYWAY, Around, SPACING};
use crate::kubernetes::status::{bounded, not_serving, told};
use crate::metrics::{Metrics, Written};

/// Whose the condition is. One of its own: whoever applies as `flock-agent` to a Node takes nothing away.
const MANAGER: &str = "flock-agent-network";
const CONDITION: &str = "NetworkUnavailable";
/// Unserved for so long, and the node is to have no new pods. Longer than an agent takes to be replaced.
const LONG: Duration = Duration::from_secs(120);
/// Said again after so long: whoever changed it, or made the Node anew, is corrected.
const HEARTBEAT: Duration = Duration::from_secs(600);
/// An Event's and a condition's words.
const LONGEST: usize = 1024;
const WHAT: &str = "NetworkUnavailable of the Node";

/// Follows what is served for ever.
pub(super) async fn run(around: Around) {
    let mut news = around.news.listen();
    let mut worlds = around.source.changes();
    let mut speaker = Speaker::new(&around.client, around.node.clone(), around.metrics.clone());
    loop {
        let refused = || async {
            let why = around.pods.status().await.err()?;
            let word = not_serving(&why, &around.source.world());
            Some((word, bounded(&told(&why), LONGEST)))
        };
        let next = speaker.step(refused).await;
        tokio::time::sleep(SPACING).await;
        tokio::select! {
            () = news.next() => {}
            changed = worlds.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

/// Why pods are not served: in one word, and in more.
type Refused = (&'static str, String);

/// What is to be said of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    unavailable: bool,
    reason: &'static str,
    message: String,
}

/// What was said, and since when it is otherwise.
#[derive(Debug, Default)]
struct Judge {
    unserved_since: Option<Instant>,
}

impl Judge {
    /// `was`: what the Node says now; `None`: nothing.
    fn judge(
        &mut self,
        was: Option<bool>,
        refused: Option<Refused>,
        now: Instant,
    ) -> Option<Verdict> {
        let Some((reason, message)) = refused else {
            self.unserved_since = None;
            let message = "flock wires and routes pods on this node".to_owned();
            return Some(Verdict { unavailable: false, reason: "FlockIsServing", message });
        };
        let since = *self.unserved_since.get_or_insert(now);
        // It was available, by this agent or by the one before.
        if was == Some(false) && now < since + LONG {
            return None;
        }
        Some(Verdict { unavailable: true, reason, message })
    }
}

struct Speaker {
    node: Arc<str>,
    metrics: Arc<Metrics>,
    api: Api<Node>,
    judge: Judge,
    /// What the Node has, once that was read: status, and since when.
    known: Option<Known>,
    /// What was said last, and when to say it again.
    said: Option<(Verdict, Instant)>,
    /// This API server cannot apply to this Node.
    merges: bool,
    patience: Patience,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    unavailable: Option<bool>,
    since: Option<Timestamp>,
}

impl Speaker {
    fn new(client: &Client, node: Arc<str>, metrics: Arc<Metrics>) -> Self {
        let api = Api::all(client.clone());
        let (judge, patience) = (Judge::default(), Patience::default());
        Self { node, metrics, api, judge, known: None, said: None, merges: false, patience }
    }

    /// Says what is to be said of what is refused now. When to look again at the latest.
    async fn step(&mut self, refused: impl AsyncFnOnce() -> Option<Refused>) -> Instant {
        let anyway = Instant::now() + ANYWAY;
        if let Some(later) = self.patience.not_before().filter(|at| *at > Instant::now()) {
            return later.min(anyway);
        }
        let known = match self.known {
            Some(known) => known,
            None => match self.read().await {
                Some(known) => *self.known.insert(known),
                None => return anyway,
            },
        };
        let refused = refused().await;
        let Some(verdict) = self.judge.judge(known.unavailable, refused, Instant::now()) else {
            return anyway;
        };
        if self.is_said(&verdict) {
            return anyway;
        }
        self.say(verdict, known).await;
        anyway
    }

    /// The words of a message alone are no reason to write.
    fn is_said(&self, verdict: &Verdict) -> bool {
        self.said.as_ref().is_some_and(|(said, again)| {
            (said.unavailable, said.reason) == (verdict.unavailable, verdict.reason)
                && *again > Instant::now()
        })
    }

    async fn read(&mut self) -> Option<Known> {
        match answered(self.api.get(&self.node)).await {
            Ok(node) => {
                self.patience.succeeded(WHAT);
                Some(known(&node))
            }
            Err(failure) => {
                self.failed(&failure);
                None
            }
        }
    }

    async fn say(&mut self, verdict: Verdict, known: Known) {
        let now = Timestamp::now();
        let kept = known.since.filter(|_| known.unavailable == Some(verdict.unavailable));
        let since = kept.unwrap_or(now);
        let body = body(&self.node, &verdict, since, now);
        let mut outcome = self.write(&body).await;
        if !self.merges && outcome.as_ref().is_err_and(cannot_apply) {
            self.merges = true;
            outcome = self.write(&body).await;
        }
        self.metrics.kubernetes.wrote(Written::Condition, &outcome);
        match outcome {
            Ok(_) => {
                self.patience.succeeded(WHAT);
                if known.unavailable != Some(verdict.unavailable) {
                    let (reason, unavailable) = (verdict.reason, verdict.unavailable);
                    tracing::info!(unavailable, reason, "the Node is told of its network");
                }
                let unavailable = Some(verdict.unavailable);
                self.known = Some(Known { unavailable, since: Some(since) });
                let beat = HEARTBEAT.mul_f64(rand::rng().random_range(0.75..1.25));
                self.said = Some((verdict, Instant::now() + beat));
            }
            Err(failure) => self.failed(&failure),
        }
    }

    async fn write(&self, body: &Value) -> Result<Node, Failure> {
        let (params, patch) = if self.merges {
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
            (params, Patch::Strategic(body))
        } else {
            (PatchParams::apply(MANAGER).force(), Patch::Apply(body))
        };
        answered(self.api.patch_status(&self.node, &params, &patch)).await
    }

    fn failed(&mut self, failure: &Failure) {
        // kubelet is about to make it; what it had before is read again then.
        if *failure == Failure::Absent {
            (self.known, self.said) = (None, None);
        }
        self.patience.failed(WHAT, failure);
    }
}

/// `.status.addresses: duplicate entries for key [type="InternalIP"]`
fn cannot_apply(failure: &Failure) -> bool {
    let (Failure::Refused(words) | Failure::Unanswered(words)) = failure else { return false };
    words.contains("duplicate entries for key")
}

fn known(node: &Node) -> Known {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ours = conditions.into_iter().find(|condition| condition.type_ == CONDITION);
    Known {
        unavailable: ours.and_then(|condition| match condition.status.as_str() {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }),
        since: ours.and_then(|condition| condition.last_transition_time.as_ref().map(|at| at.0)),
    }
}

fn body(node: &str, verdict: &Verdict, since: Timestamp, now: Timestamp) -> Value {
    let written = |time: Timestamp| time.strftime("%FT%TZ").to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": node },
        "status": { "conditions": [{
            "type": CONDITION,
            "status": if verdict.unavailable { "True" } else { "False" },
            "reason": verdict.reason,
            "message": verdict.message,
            "lastTransitionTime": written(since),
            "lastHeartbeatTime": written(now),
        }]},
    })
}

#[cfg(test)]
mod tests;
