//! What NetworkPolicies need of the API server, beside the picture of this node: it changes with every
//! pod of every node, and only policies care. The pods of other nodes are followed while there is a
//! policy, and not otherwise.
//!
//! | room | what it decides |
//! |---|---|
//! | `objects` | which fields are read |
//! | `picture` | what it all means, as one `Cluster` |
//! | `cache` | what a restart begins with |
//!
//! One task owns the picture.

mod cache;
mod objects;
mod picture;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kube::core::DynamicObject;
use kube::{Api, Client};
use tokio::sync::{Notify, mpsc, watch as channel};
use tokio::task::AbortHandle;

use super::follow;
use super::watch::{Listener, Told, Watch};
use crate::source::Cluster;
pub(super) use cache::Cache;
use objects::{NamespaceObject, PeerObject, PolicyObject};
use picture::{Past, Picture};

/// What the watches told and the picture has not taken in yet; watches wait. A page may be among it.
const TOLD: usize = 16;
/// Pods in one answer to a list: what the API server's own clients ask for, some megabytes.
const PAGE: u32 = 500;

/// News of one watch.
enum News {
    Policies(Told<PolicyObject>),
    Namespaces(Told<NamespaceObject>),
    /// With the number of the watch: one that was stopped may have told something just before.
    Pods(u64, Told<PeerObject>),
}

/// Starts the tasks. The first picture is what was known before.
pub(super) fn start(
    client: &Client,
    bell: &Arc<Notify>,
    cache: Cache,
) -> channel::Receiver<Arc<Cluster>> {
    let (tell, told) = mpsc::channel(TOLD);
    let past = cache.read();
    let picture = Picture::new(past);
    let (publish, cluster) = channel::channel(Arc::new(picture.cluster()));
    let (show, shown) = channel::channel(None);
    tokio::spawn(cache.keep(shown));
    let all = |resource| Api::<DynamicObject>::all_with(client.clone(), &resource);
    let policies = Watch::of(all(objects::policies()), bell.clone());
    follow(policies, &tell, News::Policies);
    let namespaces = Watch::of(all(objects::namespaces()), bell.clone());
    follow(namespaces, &tell, News::Namespaces);
    let pods = Pods { client: client.clone(), bell: bell.clone(), tell, number: 0, followed: None };
    let shown_last = picture.past();
    tokio::spawn(Task { picture, publish, show, shown_last, pods }.run(told));
    cluster
}

/// Owns the picture.
struct Task {
    picture: Picture,
    publish: channel::Sender<Arc<Cluster>>,
    show: channel::Sender<Option<Past>>,
    shown_last: Past,
    pods: Pods,
}

impl Task {
    async fn run(mut self, mut told: mpsc::Receiver<News>) {
        loop {
            match (self.picture.wants_pods(), &self.pods.followed) {
                (true, None) => self.pods.follow(),
                (false, Some(watch)) => {
                    watch.abort();
                    self.pods.followed = None;
                    self.picture.forget_pods();
                }
                _ => {}
            }
            self.publish();
            let Some(news) = told.recv().await else { return };
            self.hear(news);
            // What came meanwhile belongs to the same picture.
            for _ in 0..TOLD {
                match told.try_recv() {
                    Ok(news) => self.hear(news),
                    Err(_) => break,
                }
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Policies(told) => self.picture.hear_policies(told),
            News::Namespaces(told) => self.picture.hear_namespaces(told),
            News::Pods(number, told) => {
                if self.pods.is_current(number) {
                    self.picture.hear_pods(told);
                }
            }
        }
    }

    fn publish(&mut self) {
        let cluster = self.picture.cluster();
        self.publish.send_if_modified(|known| {
            let news = **known != cluster;
            if news {
                *known = Arc::new(cluster);
            }
            news
        });
        let past = self.picture.past();
        if past != self.shown_last {
            self.shown_last = past.clone();
            self.show.send_replace(Some(past));
        }
    }
}

/// The watch of all pods, which comes and goes.
struct Pods {
    client: Client,
    bell: Arc<Notify>,
    tell: mpsc::Sender<News>,
    number: u64,
    followed: Option<AbortHandle>,
}

impl Pods {
    fn follow(&mut self) {
        self.number += 1;
        let number = self.number;
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &super::objects::pods());
        let watch = Watch::of(api, self.bell.clone()).in_pages(PAGE);
        let news = move |told| Some(News::Pods(number, told));
        let task = tokio::spawn(watch.follow(Listener { tell: self.tell.clone(), news }));
        self.followed = Some(task.abort_handle());
    }

    fn is_current(&self, number: u64) -> bool {
        self.followed.is_some() && self.number == number
    }
}
