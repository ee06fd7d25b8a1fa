//! The NodeConfig's status, by server-side apply. Decides when it is sent: a change of state at once, but
//! once a second at most; what merely counts once a minute; the same never twice. The newest wins, so
//! nothing queues while the API server is away.
//!
//! An object of another uid is another object: what is known of its status is read once, so that a
//! restart of the agent changes no time of it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::patience::{Failure, Patience, answered};
use super::{ANYWAY, Around, SPACING};
use crate::cli::bgp::PeerState;
use crate::kubernetes::crd;
use crate::kubernetes::status::{Facts, Status, status};
use crate::metrics::{Metrics, Written};

/// Whose the fields are.
const MANAGER: &str = "flock-agent";
/// What merely counts waits so long.
const COUNTS: Duration = Duration::from_secs(60);
const WHAT: &str = "status of the NodeConfig";

/// Follows everything for ever.
pub(super) async fn run(around: Around) {
    let mut news = around.news.listen();
    let mut worlds = around.source.changes();
    let mut publisher = Publisher::new(&around.client, around.node.clone(), around.metrics.clone());
    let mut away = false;
    loop {
        let world = around.source.world();
        if std::mem::replace(&mut away, world.away.is_some()) && !away {
            publisher.forget();
        }
        let uid = world.object.as_ref().map(|object| object.uid.clone());
        let next = publisher.step(uid, || around.facts()).await;
        tokio::time::sleep(SPACING).await;
        tokio::select! {
            () = news.next() => {}
            changed = worlds.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

struct Publisher {
    node: Arc<str>,
    metrics: Arc<Metrics>,
    api: Api<DynamicObject>,
    /// The object that all below is about; none: there is none.
    uid: Option<String>,
    /// What its status was is known.
    met: bool,
    /// The last that was made in this life, whether sent or not; before that, of the life before.
    made: Option<Status>,
    sent: Option<Sent>,
    patience: Patience,
}

/// What the API server has.
struct Sent {
    status: Status,
    at: Instant,
}

impl Publisher {
    fn new(client: &Client, node: Arc<str>, metrics: Arc<Metrics>) -> Self {
        let api = Api::all_with(client.clone(), &crd::resource());
        let patience = Patience::default();
        Self { node, metrics, api, uid: None, met: false, made: None, sent: None, patience }
    }

    /// What the API server has is read again: it was away, and may have come back with an etcd of before.
    fn forget(&mut self) {
        self.met = false;
    }

    /// Sends what is due of what is looked at now, for the object of this uid. When to look again at
    /// the latest.
    async fn step(&mut self, uid: Option<String>, look: impl AsyncFnOnce() -> Facts) -> Instant {
        let anyway = Instant::now() + ANYWAY;
        if self.uid != uid {
            // What stood in the way of the last one need not of this.
            self.patience.begin_anew();
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
        let facts = look().await;
        if facts.begins() {
            return Instant::now() + SPACING;
        }
        let made = status(&facts, self.made.as_ref().unwrap_or(&Status::default()));
        let due = due(self.sent.as_ref(), &made);
        self.made = Some(made.clone());
        let due =
            due.map(|at| self.patience.not_before().map_or(at, |not_before| at.max(not_before)));
        match due {
            Some(at) if at <= Instant::now() => {
                self.send(made).await;
                anyway
            }
            Some(at) => at.min(anyway),
            None => anyway,
        }
    }

    /// Reads what the object's status is.
    async fn meet(&mut self, uid: &str) {
        let found = match answered(self.api.get(&self.node)).await {
            Ok(found) => found,
            Err(failure) => return self.patience.failed(WHAT, &failure),
        };
        self.patience.succeeded(WHAT);
        self.met = true;
        // One that cannot be read was not written by us, or by another version.
        let ours = found.metadata.uid.as_deref() == Some(uid);
        let known = found.data.get("status").cloned().filter(|_| ours);
        let known = known.and_then(|status| serde_json::from_value::<Status>(status).ok());
        // Since when a peer is away is known better by us than by an object that was made anew.
        self.made.get_or_insert_with(|| known.clone().unwrap_or_default());
        let long_ago = Instant::now().checked_sub(COUNTS).unwrap_or_else(Instant::now);
        self.sent = known.map(|status| Sent { status, at: long_ago });
    }

    async fn send(&mut self, made: Status) {
        let body = body(&self.node, &made);
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&body);
        let outcome = answered(self.api.patch_status(&self.node, &params, &patch)).await;
        self.metrics.kubernetes.wrote(Written::Status, &outcome);
        match outcome {
            Ok(_) => {
                self.patience.succeeded(WHAT);
                self.sent = Some(Sent { status: made, at: Instant::now() });
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
    if settled(&sent.status) == settled(made) {
        None
    } else if essence(&sent.status) == essence(made) {
        Some(sent.at + COUNTS)
    } else {
        Some(sent.at + SPACING)
    }
}

/// Attempts go from state to state without end; which one it is now is not worth a write.
fn settled(status: &Status) -> Status {
    let mut settled = status.clone();
    for peer in &mut settled.peers {
        if peer.state != PeerState::Established {
            peer.state = PeerState::Idle;
        }
    }
    settled
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
mod tests;
