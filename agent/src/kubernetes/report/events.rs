//! Events, for those who look at the cluster and not at the node's log. The task that hears of what
//! happens, keeps a bounded queue while the API server is away, and writes one after the other. What is
//! said again in the same words is counted in the Event that is there.
//!
//! Events of `v1` and not of `events.k8s.io`, which are the same objects: of these every version of
//! `kubectl` shows when and how often. kube's own recorder would put what happens to two peers into one
//! Event with the words of the first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use rand::RngExt as _;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Around;
use super::flood::Flood;
use super::notes::{self, Note};
use super::patience::{Failure, Patience, answered};
use crate::incidents::Told;
use crate::kubernetes::crd;
use crate::metrics::{Metrics, Written};
use crate::source::World;

const CONTROLLER: &str = "flock.fritzlab.net/agent";
/// Of objects without a namespace the API server takes Events in this one.
const NAMESPACE: &str = "default";
/// So many wait for the API server; of more the oldest go.
const WAITING: usize = 64;
/// Events that may be counted up; an API server forgets its own after an hour.
const REMEMBERED: usize = 64;
const SOON: Duration = Duration::from_secs(1800);
/// Of an object's name, in an Event's: the whole may have 253 characters.
const MOST_NAME: usize = 200;
/// Between two of them, more or less: what waited for an API server that was away does not meet it all
/// at once, and that of all nodes together.
const BETWEEN: Duration = Duration::from_secs(1);
const WHAT: &str = "Event";

/// Hears and writes for ever.
pub(super) async fn run(around: Around, mut incidents: mpsc::Receiver<Told>) {
    let mut worlds = around.source.changes();
    let mut seen = worlds.borrow_and_update().clone();
    let mut herald = Herald::new(&around.client, around.node, around.metrics);
    herald.hear(notes::between(None, &seen), Timestamp::now(), &seen);
    loop {
        let next = herald.next();
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            told = incidents.recv() => match told {
                Some(Told { at, incident }) => {
                    herald.hear(Some(notes::of(incident)), at, &seen);
                }
                None => return,
            },
            changed = worlds.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = worlds.borrow_and_update().clone();
                herald.hear(notes::between(Some(&seen), &now), Timestamp::now(), &now);
                seen = now;
            }
            () = due => herald.write().await,
        }
    }
}

/// An Event that is to be written.
#[derive(Debug, Clone)]
struct Pending {
    note: Note,
    regarding: ObjectReference,
    at: Timestamp,
}

/// One that is there, and may be counted up.
#[derive(Debug)]
struct There {
    note: Note,
    uid: Option<String>,
    name: String,
    count: i32,
    at: Timestamp,
}

struct Herald {
    node: Arc<str>,
    metrics: Arc<Metrics>,
    api: Api<Event>,
    flood: Flood,
    queue: VecDeque<Pending>,
    there: VecDeque<There>,
    patience: Patience,
    /// The next one is not written before then.
    rested: Instant,
}

impl Herald {
    fn new(client: &Client, node: Arc<str>, metrics: Arc<Metrics>) -> Self {
        Self {
            node,
            metrics,
            api: Api::namespaced(client.clone(), NAMESPACE),
            flood: Flood::default(),
            queue: VecDeque::new(),
            there: VecDeque::new(),
            patience: Patience::default(),
            rested: Instant::now(),
        }
    }

    /// Something is to be told, if there is room for it.
    fn hear(&mut self, note: Option<Note>, at: Timestamp, world: &World) {
        let Some(mut note) = note else { return };
        let Some(left_out) = self.flood.admits(&note) else {
            return self.metrics.kubernetes.left_out();
        };
        if left_out > 0 {
            note.words = format!("{} (and {left_out} more that were left out)", note.words);
        }
        self.enqueue(note, at, world);
    }

    fn enqueue(&mut self, note: Note, at: Timestamp, world: &World) {
        if self.queue.len() >= WAITING {
            self.queue.pop_front();
            self.metrics.kubernetes.left_out();
        }
        let regarding = regarding(&self.node, world);
        self.queue.push_back(Pending { note, regarding, at });
    }

    /// When to write; `None`: there is nothing.
    fn next(&self) -> Option<Instant> {
        let at = self.patience.not_before().map_or(self.rested, |at| at.max(self.rested));
        (!self.queue.is_empty()).then_some(at)
    }

    /// Writes the oldest. One that the API server will not have is given up: it is in the log.
    async fn write(&mut self) {
        let Some(pending) = self.queue.front().cloned() else { return };
        self.rested = Instant::now() + BETWEEN.mul_f64(rand::rng().random_range(0.5..1.5));
        let outcome = match known(&mut self.there, &pending) {
            Some(there) => count_up(&self.api, there, pending.at).await,
            None => Err(Failure::Absent),
        };
        let outcome = match outcome {
            // It is not there, or not any more.
            Err(Failure::Absent) => self.create(&pending).await,
            outcome => outcome,
        };
        self.metrics.kubernetes.wrote(Written::Event, &outcome);
        match outcome {
            Ok(()) => {
                self.patience.succeeded(WHAT);
                self.queue.pop_front();
            }
            Err(failure) => {
                self.patience.failed(WHAT, &failure);
                if !matches!(failure, Failure::Unanswered(_)) {
                    self.queue.pop_front();
                }
            }
        }
    }

    async fn create(&mut self, pending: &Pending) -> Result<(), Failure> {
        let event = event(pending, &self.node);
        let name = event.metadata.name.clone().unwrap_or_default();
        match answered(self.api.create(&PostParams::default(), &event)).await {
            // An answer got lost on the way, and not the Event.
            Ok(_) | Err(Failure::There) => {}
            Err(failure) => return Err(failure),
        }
        self.there.retain(|there| !there.is(pending));
        if self.there.len() >= REMEMBERED {
            self.there.pop_front();
        }
        let uid = pending.regarding.uid.clone();
        self.there.push_back(There {
            note: pending.note.clone(),
            uid,
            name,
            count: 1,
            at: pending.at,
        });
        Ok(())
    }
}

impl There {
    fn is(&self, pending: &Pending) -> bool {
        self.note == pending.note && self.uid == pending.regarding.uid
    }
}

/// The same, said a while ago.
fn known<'a>(there: &'a mut VecDeque<There>, pending: &Pending) -> Option<&'a mut There> {
    let is_recent = |there: &There| pending.at.duration_since(there.at).unsigned_abs() < SOON;
    there.iter_mut().find(|there| there.is(pending) && is_recent(there))
}

async fn count_up(api: &Api<Event>, there: &mut There, at: Timestamp) -> Result<(), Failure> {
    let count = there.count.saturating_add(1);
    let more = json!({ "count": count, "lastTimestamp": Time(at) });
    answered(api.patch(&there.name, &PatchParams::default(), &Patch::Merge(&more))).await?;
    (there.count, there.at) = (count, at);
    Ok(())
}

/// The NodeConfig; where there is none, the Node, with the uid that kubelet gives it in its own Events.
fn regarding(node: &str, world: &World) -> ObjectReference {
    let (api_version, kind, uid) = match &world.object {
        Some(object) => (format!("{}/{}", crd::GROUP, crd::VERSION), crd::KIND, &*object.uid),
        None => ("v1".to_owned(), "Node", node),
    };
    ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind.to_owned()),
        name: Some(node.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn event(pending: &Pending, node: &str) -> Event {
    let Pending { note, regarding, at } = pending;
    let kept = node.get(..node.floor_char_boundary(MOST_NAME)).unwrap_or_default();
    // A name ends a label of a domain with a letter or a digit.
    let kept = kept.trim_end_matches(['.', '-']);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{kept}.{:x}", at.as_nanosecond())),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: regarding.clone(),
        type_: Some(if note.reason.is_warning() { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(note.reason.word().to_owned()),
        message: Some(note.words.clone()),
        first_timestamp: Some(Time(*at)),
        last_timestamp: Some(Time(*at)),
        count: Some(1),
        source: Some(EventSource {
            component: Some(CONTROLLER.to_owned()),
            host: Some(node.to_owned()),
        }),
        reporting_component: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(node.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
