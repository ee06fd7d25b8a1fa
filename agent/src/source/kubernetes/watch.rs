//! One kind of object, followed for ever: listed as a whole, then watched from there. Decides when
//! the API server counts as silent, how soon it is asked again, and when a watch has to begin with a
//! new list; leaves to others what the objects mean.
//!
//! A list asks for nothing older than what was told before and lets the API server answer from its
//! memory, as kubelets do: five thousand nodes that come back at once must not read five thousand
//! times all pods from etcd. After any failure there is a new list rather than a watch from where the
//! last one ended: an etcd that was restored from a backup would tell nothing at all there. The first
//! watch that gets an answer again rings for the others. What may be too much for one answer is listed
//! in `pages`.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use kube::api::{Api, ListParams, ObjectList, Request, VersionMatch, WatchEvent, WatchParams};
use kube::{Client, Resource, ResourceExt};
use rand::RngExt;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};

use crate::kubernetes::client;

mod pages;

/// How long the answer to a list, or to the wish for a watch, may take to begin.
const ANSWER: Duration = Duration::from_secs(30);
/// A watch on which nothing comes for so long is begun anew. There is a bookmark every minute.
const IDLE: Duration = Duration::from_secs(75);
/// How long the API server is to keep a watch open, in seconds; a random part more is added, so that
/// those of all nodes do not end together.
const KEPT_OPEN: u32 = 240;
const KEPT_OPEN_MORE: u32 = 60;
/// The first pause after a failure, and the longest; each is doubled and then shortened by up to half.
const FIRST_PAUSE: Duration = Duration::from_millis(400);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch that ended sooner was no watch: it counts as a failure.
const SHORT: Duration = Duration::from_secs(1);

/// What is told of a kind of object.
pub(super) enum Told<K> {
    /// All there are, in place of everything that was told before; of a list in pages, those that no
    /// `Part` had.
    All(Vec<K>),
    /// Some of them. Only of a list in pages, which ends with `All`, or begins anew with a first part.
    Part {
        /// What parts of an earlier list had is void.
        first: bool,
        /// These.
        some: Vec<K>,
    },
    /// One is there, or is different.
    Changed(K),
    /// One is not there any more.
    Gone(K),
    /// The API server does not answer, or not as it should.
    Silent(String),
    /// It does (again), and what was told holds.
    Answers,
}

/// An object as it is received.
pub(super) trait Followed: Clone + DeserializeOwned {
    /// `metadata.resourceVersion`.
    fn version(&self) -> Option<String>;
}

impl<K: Resource + Clone + DeserializeOwned> Followed for K {
    fn version(&self) -> Option<String> {
        self.resource_version()
    }
}

/// What is followed.
pub(super) struct Watch {
    client: Client,
    /// Where, as a path.
    place: String,
    /// Which, as a field selector.
    fields: Option<String>,
    /// Rung when the API server answers: whoever waits to ask again need not wait any longer.
    bell: Arc<Notify>,
    /// How many objects one answer to a list may have; none: all.
    page: Option<u32>,
}

/// Who is told, and how that is put for them.
pub(super) struct Listener<N, F> {
    /// Where they listen.
    pub(super) tell: mpsc::Sender<N>,
    /// In their words; `None`: of no interest to them.
    pub(super) news: F,
}

impl<N, F> Listener<N, F> {
    /// False: nobody listens any more.
    async fn tell<K>(&self, told: Told<K>) -> bool
    where
        F: Fn(Told<K>) -> Option<N>,
    {
        match (self.news)(told) {
            Some(news) => self.tell.send(news).await.is_ok(),
            None => !self.tell.is_closed(),
        }
    }
}

/// Why a watch is over.
enum End {
    /// It goes on from the same version.
    Resume,
    /// The version is too old, or too new, for this API server, in its words.
    Expired(String),
    /// The API server is silent.
    Failed(String),
}

impl Watch {
    /// All that there is in a place.
    pub(super) fn of<T: Resource>(api: Api<T>, bell: Arc<Notify>) -> Self {
        let place = api.resource_url().to_owned();
        Self { client: api.into_client(), place, fields: None, bell, page: None }
    }

    /// Only those that a field selector selects.
    pub(super) fn selecting(self, fields: String) -> Self {
        Self { fields: Some(fields), ..self }
    }

    /// Listed in pages.
    pub(super) fn in_pages(self, page: u32) -> Self {
        Self { page: Some(page), ..self }
    }

    /// Follows until nobody listens.
    pub(super) async fn follow<K, N, F>(self, listener: Listener<N, F>)
    where
        K: Followed,
        F: Fn(Told<K>) -> Option<N>,
    {
        let mut pause = Pause::default();
        // The newest version that was told of.
        let mut version = None;
        let mut listed = false;
        loop {
            let began = Instant::now();
            let end = match (listed, &version) {
                (true, Some(known)) => {
                    let mut newest = String::clone(known);
                    let end = self.watch(&mut newest, &listener).await;
                    version = Some(newest);
                    end
                }
                _ => match self.list_all(version.as_deref(), &listener).await {
                    Ok(newest) => {
                        (listed, version) = (true, Some(newest));
                        continue;
                    }
                    Err(end) => end,
                },
            };
            let lasted = began.elapsed();
            match end {
                None => return,
                Some(End::Resume) if lasted > SHORT => {
                    pause = Pause::default();
                    continue;
                }
                Some(End::Resume) => {}
                // From a watch: a new list. From a list: what is known is a version that this API server
                // does not have, and may never: its etcd was restored from a backup.
                Some(End::Expired(_)) if listed => listed = false,
                Some(End::Expired(_)) if version.is_some() => version = None,
                Some(End::Expired(why) | End::Failed(why)) => {
                    listed = false;
                    if !listener.tell(Told::Silent(why)).await {
                        return;
                    }
                }
            }
            if lasted > LONGEST_PAUSE {
                pause = Pause::default();
            }
            // Not those who failed just now: what rang for them was heard.
            let at_least = tokio::time::sleep(FIRST_PAUSE);
            let rung = async { tokio::join!(self.bell.notified(), at_least) };
            let _ = timeout(pause.next(), rung).await;
        }
    }

    /// Tells of all objects, and says the version that they are of. Inner `None`: nobody listens.
    async fn list_all<K, N, F>(
        &self,
        known: Option<&str>,
        listener: &Listener<N, F>,
    ) -> Result<String, Option<End>>
    where
        K: Followed,
        F: Fn(Told<K>) -> Option<N>,
    {
        let (all, newest) = match self.page {
            None => self.list(known).await?,
            Some(page) => (Vec::new(), self.list_pages(page, listener).await?),
        };
        if listener.tell(Told::All(all)).await { Ok(newest) } else { Err(None) }
    }

    /// All objects, and the version that they are of: no older than `known`, and where nothing is
    /// known, whatever the API server has at hand. Not in pages: those it would have to read from etcd.
    async fn list<K: Followed>(&self, known: Option<&str>) -> Result<(Vec<K>, String), End> {
        let params = ListParams {
            field_selector: self.fields.clone(),
            resource_version: Some(known.unwrap_or("0").to_owned()),
            version_match: known.map(|_| VersionMatch::NotOlderThan),
            ..ListParams::default()
        };
        let list = self.ask(&params).await?;
        Ok((list.items, list.metadata.resource_version.unwrap_or_default()))
    }

    async fn ask<K: Followed>(&self, params: &ListParams) -> Result<ObjectList<K>, End> {
        let request = Request::new(&self.place).list(params);
        let request = request.map_err(|error| failed(&kube::Error::BuildRequest(error)))?;
        let answer = timeout(ANSWER, self.client.request(request)).await;
        answer.map_err(|_| no_answer())?.map_err(|error| failed(&error))
    }

    /// Tells of what happens after `version`, which is kept current. `None`: nobody listens.
    async fn watch<K, N, F>(&self, version: &mut String, listener: &Listener<N, F>) -> Option<End>
    where
        K: Followed,
        F: Fn(Told<K>) -> Option<N>,
    {
        let open = KEPT_OPEN + rand::rng().random_range(0..KEPT_OPEN_MORE);
        let mut params = WatchParams::default().timeout(open);
        params.field_selector.clone_from(&self.fields);
        let request = match Request::new(&self.place).watch(&params, version) {
            Ok(request) => request,
            Err(error) => return Some(failed(&kube::Error::BuildRequest(error))),
        };
        let stream = match timeout(ANSWER, self.client.request_events::<K>(request)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Some(failed(&error)),
            Err(_) => return Some(no_answer()),
        };
        if !listener.tell(Told::Answers).await {
            return None;
        }
        // Not by a list: where lists are answered and watches are not, all would list without a pause.
        self.bell.notify_waiters();
        let mut stream = pin!(stream);
        loop {
            let event = match timeout(IDLE, stream.try_next()).await {
                Ok(Ok(Some(event))) => event,
                // Over, or so silent that only a new one shows whether anybody is there.
                Ok(Ok(None)) | Err(_) => return Some(End::Resume),
                Ok(Err(error)) => return Some(failed(&error)),
            };
            let told = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => Told::Changed(object),
                WatchEvent::Deleted(object) => Told::Gone(object),
                WatchEvent::Bookmark(mark) => {
                    *version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return Some(failed(&kube::Error::Api(status))),
            };
            if let Told::Changed(object) | Told::Gone(object) = &told
                && let Some(newest) = object.version()
            {
                *version = newest;
            }
            if !listener.tell(told).await {
                return None;
            }
        }
    }
}

fn no_answer() -> End {
    End::Failed(format!("no answer within {} s", ANSWER.as_secs()))
}

fn failed(error: &kube::Error) -> End {
    let words = client::told(error);
    match error {
        kube::Error::Api(status) if status.code == 410 => End::Expired(words),
        // A version that this API server has yet to reach: no other word of it says so.
        kube::Error::Api(status) if status.message.contains("Too large resource version") => {
            End::Expired(words)
        }
        _ => End::Failed(words),
    }
}

/// Longer and longer pauses, each a little different.
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pause {
    fn next(&mut self) -> Duration {
        let whole = self.0;
        self.0 = (whole * 2).min(LONGEST_PAUSE);
        whole.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}

#[cfg(test)]
mod tests;
