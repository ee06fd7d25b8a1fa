//! The Node's condition NetworkUnavailable, by server-side apply of that one condition: the others are
//! not in what is sent, so they cannot be changed by it. Decides when the network is available: as soon as
//! pods are served, and from then on unless they have not been served for a while. A restart of the agent
//! changes nothing: pods that run go on, and kubelet tries again for new ones.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::patience::{Failure, Patience, answered};
use super::{ANYWAY, Around, SPACING};
use crate::kubernetes::status::{bounded, not_serving, told};
use crate::metrics::Written;

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
    let mut speaker = Speaker::new(around);
    loop {
        let next = speaker.step().await;
        tokio::time::sleep(SPACING).await;
        tokio::select! {
            () = news.next() => {}
            changed = worlds.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

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
        refused: Option<(&'static str, String)>,
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
    around: Around,
    api: Api<Node>,
    judge: Judge,
    /// What the Node has, once that was read: status, and since when.
    known: Option<Known>,
    /// What was said last, and when to say it again.
    said: Option<(Verdict, Instant)>,
    patience: Patience,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    unavailable: Option<bool>,
    since: Option<Timestamp>,
}

impl Speaker {
    fn new(around: Around) -> Self {
        let api = Api::all(around.client.clone());
        let (judge, patience) = (Judge::default(), Patience::default());
        Self { around, api, judge, known: None, said: None, patience }
    }

    /// Looks, and says what is to be said. When to look again at the latest.
    async fn step(&mut self) -> Instant {
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
        let world = self.around.source.world();
        let refused = self.around.pods.status().await.err();
        let refused = refused.map(|why| (not_serving(&why, &world), bounded(&told(&why), LONGEST)));
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
        match answered(self.api.get(&self.around.node)).await {
            Ok(node) => {
                self.patience.succeeded();
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
        let body = body(&self.around.node, &verdict, since, now);
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&body);
        let outcome = answered(self.api.patch_status(&self.around.node, &params, &patch)).await;
        self.around.metrics.kubernetes.wrote(Written::Condition, &outcome);
        match outcome {
            Ok(_) => {
                self.patience.succeeded();
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

    fn failed(&mut self, failure: &Failure) {
        // kubelet is about to make it; what it had before is read again then.
        if *failure == Failure::Absent {
            (self.known, self.said) = (None, None);
        }
        self.patience.failed(WHAT, failure);
    }
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
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn once_available_it_stays_so_unless_pods_are_unserved_for_long() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let no = || Some(("NoNodeConfig", "none".to_owned()));
        let said = |judge: &mut Judge, was, refused, now| {
            judge.judge(was, refused, now).map(|verdict| verdict.unavailable)
        };
        // A first start: not before pods are served.
        let mut judge = Judge::default();
        for was in [None, Some(true)] {
            assert_eq!(said(&mut judge, was, no(), at(0)), Some(true));
        }
        assert_eq!(said(&mut judge, Some(true), None, at(1)), Some(false));
        // Unserved for a moment, twice; then for long.
        let long = LONG.as_secs();
        assert_eq!(said(&mut judge, Some(false), no(), at(10)), None);
        assert_eq!(said(&mut judge, Some(false), no(), at(9 + long)), None);
        assert_eq!(said(&mut judge, Some(false), None, at(10 + long)), Some(false));
        assert_eq!(said(&mut judge, Some(false), no(), at(11 + long)), None);
        assert_eq!(said(&mut judge, Some(false), no(), at(11 + 2 * long)), Some(true));
        // A restart: the Node says what the agent before said.
        let mut judge = Judge::default();
        assert_eq!(said(&mut judge, Some(false), no(), at(0)), None);
        assert_eq!(said(&mut judge, Some(false), None, at(1)), Some(false));
    }

    #[test]
    fn only_the_one_condition_is_sent() {
        let verdict = Verdict { unavailable: true, reason: "NoNodeConfig", message: "none".into() };
        let (then, now) = (Timestamp::UNIX_EPOCH, "2026-03-01T12:00:00.5Z".parse().unwrap());
        let wanted = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": "node-1" },
            "status": { "conditions": [{
                "type": "NetworkUnavailable",
                "status": "True",
                "reason": "NoNodeConfig",
                "message": "none",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
                "lastHeartbeatTime": "2026-03-01T12:00:00Z",
            }]},
        });
        assert_eq!(body("node-1", &verdict, then, now), wanted);
    }

    #[test]
    fn what_a_node_says_of_its_network() {
        let node = |conditions: Value| -> Node {
            let body = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
                "status": { "conditions": conditions },
            });
            serde_json::from_value(body).unwrap()
        };
        let one = |kind: &str, status: &str| json!([{ "type": kind, "status": status, "lastTransitionTime": "2026-03-01T12:00:00Z" }]);
        assert_eq!(known(&node(one("Ready", "True"))).unavailable, None);
        assert_eq!(known(&node(one(CONDITION, "True"))).unavailable, Some(true));
        assert_eq!(known(&node(one(CONDITION, "Unknown"))).unavailable, None);
        let found = known(&node(one(CONDITION, "False")));
        assert_eq!(found.unavailable, Some(false));
        assert_eq!(found.since, Some("2026-03-01T12:00:00Z".parse().unwrap()));
    }
}
