//! The Secrets that the NodeConfig names, each watched by name, so that the agent is told of no other.
//! Only the keys that were asked for are kept, and of those no more than can be a password.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flock_bgp::Secret;
use k8s_openapi::api::core::v1;
use kube::{Api, Client};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;

use super::News;
use super::watch::{Listener, Told, Watch};
use crate::kubernetes::client::Cluster;
use crate::source::SecretSeen;

/// More than any password has; what is longer is refused by its length, and that needs no more.
const KEPT: usize = 128;

/// The watches under way, by the Secret's name.
pub(super) struct SecretWatches {
    client: Client,
    namespace: String,
    bell: Arc<Notify>,
    tell: mpsc::Sender<News>,
    followed: BTreeMap<String, (BTreeSet<String>, AbortHandle)>,
}

impl SecretWatches {
    pub(super) fn new(cluster: &Cluster, bell: Arc<Notify>, tell: mpsc::Sender<News>) -> Self {
        let (client, namespace) = (cluster.client.clone(), cluster.namespace.clone());
        Self { client, namespace, bell, tell, followed: BTreeMap::new() }
    }

    /// Watches these, with their keys, and no others.
    pub(super) fn follow(&mut self, wanted: BTreeMap<String, BTreeSet<String>>) {
        self.followed.retain(|name, (keys, task)| {
            let stays = wanted.get(name) == Some(keys);
            if !stays {
                task.abort();
            }
            stays
        });
        for (name, keys) in wanted {
            if !self.followed.contains_key(&name) {
                let task = tokio::spawn(self.watch(name.clone(), keys.clone()));
                self.followed.insert(name, (keys, task.abort_handle()));
            }
        }
    }

    fn watch(&self, name: String, keys: BTreeSet<String>) -> impl Future<Output = ()> + use<> {
        let api: Api<v1::Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let fields = format!("metadata.name={name}");
        let watch = Watch::of(api, self.bell.clone()).selecting(fields);
        let news = move |told| Some(News::Secret(name.clone(), seen(told, &keys)?));
        watch.follow(Listener { tell: self.tell.clone(), news })
    }
}

fn seen(told: Told<v1::Secret>, keys: &BTreeSet<String>) -> Option<SecretSeen> {
    match told {
        Told::All(all) => Some(match all.into_iter().next() {
            Some(secret) => there(secret, keys),
            None => SecretSeen::Missing,
        }),
        Told::Changed(secret) => Some(there(secret, keys)),
        Told::Gone(_) => Some(SecretSeen::Missing),
        Told::Silent(why) => Some(SecretSeen::Untold(why)),
        Told::Answers | Told::Part { .. } => None,
    }
}

fn there(secret: v1::Secret, keys: &BTreeSet<String>) -> SecretSeen {
    let data = secret.data.unwrap_or_default().into_iter();
    let wanted = data.filter(|(key, _)| keys.contains(key)).map(|(key, value)| {
        let kept = value.0.get(..KEPT).unwrap_or(&value.0);
        (key, Secret(kept.into()))
    });
    SecretSeen::There(wanted.collect())
}
