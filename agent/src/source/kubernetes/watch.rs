//! One kind of object, followed for ever: listed as a whole, then watched from there. Decides when
//! the API server counts as silent, how soon it is asked again, and when a watch has to begin with a
//! new list; leaves to others what the objects mean.
//!
//! A list asks for nothing older than what was told before and lets the API server answer from its
//! memory, as kubelets do: five thousand nodes that come back at once must not read five thousand
//! times all pods from etcd. After any failure there is a new list rather than a watch from where the
//! last one ended: an etcd that was restored from a backup would tell nothing at all there. The first
//! watch that gets an answer again rings for the others.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use kube::api::{Api, ListParams, VersionMatch, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use rand::RngExt;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};

use crate::kubernetes::client;

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
    /// All there are, in place of everything that was told before.
    All(Vec<K>),
    /// One is there, or is different.
    Changed(K),
    /// One is not there any more.
    Gone(K),
    /// The API server does not answer, or not as it should.
    Silent(String),
    /// It does (again), and what was told holds.
    Answers,
}

/// What is followed.
pub(super) struct Watch<K> {
    /// Where.
    pub(super) api: Api<K>,
    /// Which, as a field selector.
    pub(super) fields: String,
    /// Rung when the API server answers: whoever waits to ask again need not wait any longer.
    pub(super) bell: Arc<Notify>,
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

impl<K> Watch<K>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    /// Follows until nobody listens.
    pub(super) async fn follow<N, F: Fn(Told<K>) -> Option<N>>(self, listener: Listener<N, F>) {
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
                _ => match self.list(version.as_deref()).await {
                    Ok((all, newest)) => {
                        if !listener.tell(Told::All(all)).await {
                            return;
                        }
                        (listed, version) = (true, Some(newest));
                        continue;
                    }
                    Err(end) => Some(end),
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

    /// All objects, and the version that they are of: no older than `known`, and where nothing is
    /// known, whatever the API server has at hand. Not in pages: those it would have to read from etcd.
    async fn list(&self, known: Option<&str>) -> Result<(Vec<K>, String), End> {
        let mut params = ListParams::default().fields(&self.fields);
        params.resource_version = Some(known.unwrap_or("0").to_owned());
        params.version_match = known.map(|_| VersionMatch::NotOlderThan);
        let answer = timeout(ANSWER, self.api.list(&params)).await;
        let list = answer.map_err(|_| no_answer())?.map_err(|error| failed(&error))?;
        Ok((list.items, list.metadata.resource_version.unwrap_or_default()))
    }

    /// Tells of what happens after `version`, which is kept current. `None`: nobody listens.
    async fn watch<N, F: Fn(Told<K>) -> Option<N>>(
        &self,
        version: &mut String,
        listener: &Listener<N, F>,
    ) -> Option<End> {
        let open = KEPT_OPEN + rand::rng().random_range(0..KEPT_OPEN_MORE);
        let params = WatchParams::default().fields(&self.fields).timeout(open);
        let stream = match timeout(ANSWER, self.api.watch(&params, version)).await {
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
                && let Some(newest) = object.resource_version()
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
