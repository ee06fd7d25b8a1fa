//! The NodeConfig's status, by server-side apply. Decides when it is sent: a change of state at once, but
//! once a second at most; what merely counts once a minute; the same never twice. The newest wins, so
//! nothing queues while the API server is away.
//!
//! An object of another uid is another object: what is known of its status is read once, so that a
//! restart of the agent changes no time of it.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::patience::{Failure, Patience, answered};
use super::{ANYWAY, Around, SPACING};
use crate::cli::bgp::PeerState;
use crate::kubernetes::crd;
use crate::kubernetes::status::{Status, status};
use crate::metrics::Written;

/// Whose the fields are.
const MANAGER: &str = "flock-agent";
/// What merely counts waits so long.
const COUNTS: Duration = Duration::from_secs(60);
const WHAT: &str = "status of the NodeConfig";

/// Follows everything for ever.
pub(super) async fn run(around: Around) {
    let mut news = around.news.listen();
    let mut worlds = around.source.changes();
    let mut publisher = Publisher::new(around);
    loop {
        let next = publisher.step().await;
        tokio::time::sleep(SPACING).await;
        tokio::select! {
            () = news.next() => {}
            changed = worlds.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

struct Publisher {
    around: Around,
    api: Api<DynamicObject>,
    /// The object that all below is about; none: there is none.
    uid: Option<String>,
    /// What its status was is known.
    met: bool,
    /// The last that was made, whether sent or not.
    made: Status,
    sent: Option<Sent>,
    patience: Patience,
}

/// What the API server has.
struct Sent {
    status: Status,
    at: Instant,
}

impl Publisher {
    fn new(around: Around) -> Self {
        let api = Api::all_with(around.client.clone(), &resource());
        let patience = Patience::default();
        Self { around, api, uid: None, met: false, made: Status::default(), sent: None, patience }
    }

    /// Looks, and sends what is due. When to look again at the latest.
    async fn step(&mut self) -> Instant {
        let anyway = Instant::now() + ANYWAY;
        let uid = self.around.source.world().object.as_ref().map(|object| object.uid.clone());
        if self.uid != uid {
            // What stood in the way of the last one need not of this.
            self.patience.succeeded();
            (self.uid, self.met) = (uid, false);
        }
        let Some(uid) = self.uid.clone() else { return anyway };
        if !self.met {
            if self.patience.not_before().is_none_or(|at| at <= Instant::now()) {
                self.meet(&uid).await;
            }
            if !self.met {
                return self.patience.not_before().map_or(anyway, |at| at.min(anyway));
            }
        }
        let facts = self.around.facts().await;
        self.made = status(&facts, &self.made);
        let due = due(self.sent.as_ref(), &self.made);
        let due =
            due.map(|at| self.patience.not_before().map_or(at, |not_before| at.max(not_before)));
        match due {
            Some(at) if at <= Instant::now() => {
                self.send().await;
                anyway
            }
            Some(at) => at.min(anyway),
            None => anyway,
        }
    }

    /// Reads what the object's status is.
    async fn meet(&mut self, uid: &str) {
        let found = match answered(self.api.get(&self.around.node)).await {
            Ok(found) => found,
            Err(failure) => return self.patience.failed(WHAT, &failure),
        };
        self.patience.succeeded();
        self.met = true;
        // One that cannot be read was not written by us, or by another version.
        let ours = found.metadata.uid.as_deref() == Some(uid);
        let known = found.data.get("status").cloned().filter(|_| ours);
        let known = known.and_then(|status| serde_json::from_value::<Status>(status).ok());
        self.made = known.clone().unwrap_or_default();
        let long_ago = Instant::now().checked_sub(COUNTS).unwrap_or_else(Instant::now);
        self.sent = known.map(|status| Sent { status, at: long_ago });
    }

    async fn send(&mut self) {
        let body = body(&self.around.node, &self.made);
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&body);
        let outcome = answered(self.api.patch_status(&self.around.node, &params, &patch)).await;
        self.around.metrics.kubernetes.wrote(Written::Status, &outcome);
        match outcome {
            Ok(_) => {
                self.patience.succeeded();
                self.sent = Some(Sent { status: self.made.clone(), at: Instant::now() });
            }
            Err(failure) => {
                // It was deleted a moment ago, and the source is about to say so.
                self.patience.failed(WHAT, &failure);
                if failure == Failure::Absent {
                    tracing::debug!("there is no NodeConfig to write a status to");
                }
            }
        }
    }
}

fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(crd::GROUP, crd::VERSION, crd::KIND);
    ApiResource::from_gvk_with_plural(&kind, crd::PLURAL)
}

fn body(node: &str, status: &Status) -> Value {
    json!({
        "apiVersion": format!("{}/{}", crd::GROUP, crd::VERSION),
        "kind": crd::KIND,
        "metadata": { "name": node },
        "status": status,
    })
}

/// When this is to be sent after that; `None`: it is the same.
fn due(sent: Option<&Sent>, made: &Status) -> Option<Instant> {
    let Some(sent) = sent else { return Some(Instant::now()) };
    if sent.status == *made {
        None
    } else if essence(&sent.status) == essence(made) {
        Some(sent.at + COUNTS)
    } else {
        Some(sent.at + SPACING)
    }
}

/// What somebody waits for: not how many routes there are, and not the words of a message.
fn essence(status: &Status) -> impl PartialEq + '_ {
    fn verdict(condition: &Condition) -> (&str, &str, &str, Option<i64>) {
        let Condition { type_, status, reason, observed_generation, .. } = condition;
        (type_, status, reason, *observed_generation)
    }
    let verdicts: Vec<_> = status.conditions.iter().map(verdict).collect();
    let established = |state: PeerState| state == PeerState::Established;
    let peers: Vec<_> = status
        .peers
        .iter()
        .map(|peer| (&peer.name, &peer.address, peer.asn, established(peer.state), &peer.since))
        .collect();
    (status.observed_generation, verdicts, peers, &status.sessions, &status.networks)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::kubernetes::status::Peer;

    fn made() -> Status {
        let peer = Peer {
            name: "tor-a".into(),
            address: "192.0.2.1".into(),
            asn: Some(65000),
            state: PeerState::Established,
            since: Some(Time(Timestamp::UNIX_EPOCH)),
            families: vec![],
            received: 1,
            accepted: 1,
            advertised: 1,
            last_error: None,
        };
        let condition = Condition {
            type_: "Ready".into(),
            status: "True".into(),
            reason: "Serving".into(),
            message: "new pods are served".into(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: Some(1),
        };
        Status {
            observed_generation: Some(1),
            conditions: vec![condition],
            sessions: Some("1/1".into()),
            networks: vec![],
            peers: vec![peer],
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_state_is_sent_at_once_and_a_count_in_a_minute() {
        let at = Instant::now();
        let sent = Sent { status: made(), at };
        assert_eq!(due(None, &made()), Some(at), "the first one");
        assert_eq!(due(Some(&sent), &made()), None, "nothing changed");
        type Change = fn(&mut Status);
        let table: [(&str, Change, Duration); 9] = [
            ("routes", |status| status.peers[0].received = 2, COUNTS),
            ("words", |status| status.conditions[0].message = "x".into(), COUNTS),
            ("an error of before", |status| status.peers[0].last_error = Some("x".into()), COUNTS),
            ("a verdict", |status| status.conditions[0].status = "False".into(), SPACING),
            ("a reason", |status| status.conditions[0].reason = "X".into(), SPACING),
            ("seen", |status| status.conditions[0].observed_generation = Some(2), SPACING),
            ("in force", |status| status.observed_generation = Some(2), SPACING),
            ("a session", |status| status.peers[0].state = PeerState::Idle, SPACING),
            ("a peer", |status| status.peers.clear(), SPACING),
        ];
        for (name, change, after) in table {
            let mut now = made();
            change(&mut now);
            assert_eq!(due(Some(&sent), &now), Some(at + after), "{name}");
        }
        // Attempts go from state to state without end; that is no news.
        let (mut down, mut trying) = (made(), made());
        (down.peers[0].state, trying.peers[0].state) = (PeerState::Active, PeerState::Connect);
        let sent = Sent { status: down, at };
        assert_eq!(due(Some(&sent), &trying), Some(at + COUNTS));
    }

    #[test]
    fn the_body_is_what_server_side_apply_asks_for() {
        let body = body("node-1", &made());
        assert_eq!(body["apiVersion"], "flock.fritzlab.net/v1alpha1");
        assert_eq!(
            (&body["kind"], &body["metadata"]),
            (&"NodeConfig".into(), &json!({"name": "node-1"}))
        );
        assert_eq!(body["status"]["conditions"][0]["type"], "Ready");
        assert_eq!(body["status"]["peers"][0]["state"], "Established");
        assert_eq!(body.as_object().map(|body| body.len()), Some(4), "and nothing else");
    }
}
