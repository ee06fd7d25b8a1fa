//! The CNI socket: one connection per call, one JSON line each way, as the plugin speaks it.
//!
//! It decides how much a caller may cost (who, how long, how large, how many) and leaves what a
//! call means to `pods`. A call that has started is finished even when its caller goes away: a
//! half-made pod is worse than an unread answer.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flock_cni::error::{self, CniError};
use flock_cni::result::CniResult;
use flock_cni::words::{self, Request, Response};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};
use tracing::{Instrument, Span};

use super::line;
use super::socket::{Socket, peer_may_speak};
use crate::log::Lasting;
use crate::pods::Pods;
use crate::pods::call::Call;

/// A caller has this long to send its request, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A call that takes longer is answered "try again later"; it goes on meanwhile.
const CALL_LIMIT: Duration = Duration::from_secs(50);
/// Connections served at a time; more wait in the kernel's backlog.
const CONNECTIONS: usize = 256;
/// Calls a second, with the burst that a node full of pods may bring. Callers above it wait.
const CALLS_PER_SECOND: NonZeroU32 = NonZeroU32::new(2000).unwrap();

/// How much of what a caller says is repeated in the log.
const SHOWN: usize = 128;

/// Knows how many connections are being served.
#[derive(Clone)]
pub struct Server {
    slots: Arc<Semaphore>,
    /// Why STATUS last said no; `None`: it said yes. A runtime asks every few seconds, and the log
    /// is told when the answer changes.
    refused: watch::Sender<Option<String>>,
}

impl Default for Server {
    fn default() -> Self {
        let slots = Arc::new(Semaphore::new(CONNECTIONS));
        Self { slots, refused: watch::Sender::new(None) }
    }
}

impl Server {
    /// Serves calls until the future is dropped; calls under way then go on.
    pub async fn serve(&self, socket: Socket, pods: Arc<Pods>) {
        let pace = RateLimiter::direct(Quota::per_second(CALLS_PER_SECOND));
        let mut trouble = Lasting::default();
        loop {
            let Ok(slot) = self.slots.clone().acquire_owned().await else { return };
            let Some(stream) = accept(&socket, &pace, &mut trouble).await else { continue };
            let (pods, server) = (pods.clone(), self.clone());
            tokio::spawn(async move {
                answer_one(stream, pods, &server).await;
                drop(slot);
            });
        }
    }

    /// Waits until no call is under way.
    pub async fn quiet(&self) {
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        let _ = self.slots.acquire_many(all).await;
    }

    /// One line for a call, in its span. What a runtime asks all the time is for developers.
    fn tell(&self, op: &str, outcome: &Result<Option<CniResult>, CniError>, took: Duration) {
        match outcome {
            _ if op == words::STATUS => self.tell_status(outcome.as_ref().err()),
            Ok(_) if op == words::CHECK => tracing::debug!(?took, "CNI call"),
            Ok(_) => tracing::info!(?took, "CNI call"),
            Err(error) => tracing::warn!(
                ?took,
                code = error.code,
                error = cut(&error.msg, SHOWN * 8),
                "CNI call failed"
            ),
        }
    }

    fn tell_status(&self, refusal: Option<&CniError>) {
        // Numbers count down while the reason stays.
        let gist = |error: &CniError| error.msg.replace(|c: char| c.is_ascii_digit(), "");
        let now = refusal.map(gist);
        let news =
            self.refused.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
        match refusal {
            Some(error) if news => tracing::warn!(
                reason = error.msg,
                "the runtime asked and was told that no pod can be added now"
            ),
            Some(error) => tracing::debug!(reason = error.msg, "STATUS says no"),
            None if news => tracing::info!("the runtime asked and was told that pods can be added"),
            None => tracing::debug!("STATUS says yes"),
        }
    }
}

fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// Everything that is logged for a call carries this, also from the kernel's threads. Of the highest
/// level: a line inside may be an error, and is to say whose.
fn span(request: &Request) -> Span {
    let (op, container) = (cut(&request.op, SHOWN), cut(&request.container_id, SHOWN));
    tracing::error_span!("cni", op, container, pod = tracing::field::Empty)
}

async fn accept(
    socket: &Socket,
    pace: &DefaultDirectRateLimiter,
    trouble: &mut Lasting,
) -> Option<UnixStream> {
    pace.until_ready().await;
    match socket.listener.accept().await {
        Ok((stream, _)) => {
            trouble.is_over();
            Some(stream)
        }
        Err(error) => {
            // Out of descriptors, most likely: it passes when calls end.
            if trouble.is_news(&error) {
                tracing::error!(%error, "cannot accept CNI connections; trying again");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn answer_one(mut stream: UnixStream, pods: Arc<Pods>, server: &Server) {
    let response = match peer_may_speak(&stream) {
        Ok(()) => match line::read(&mut stream, words::MAX_MESSAGE, PATIENCE).await {
            Ok(bytes) => respond(&bytes, pods, server).await,
            Err(error) => undecodable(error, &pods),
        },
        Err(reason) => {
            pods.metrics.cni.refused_stranger();
            tracing::warn!(reason, "CNI call refused");
            Response::failed(CniError::new(error::INVALID_ENVIRONMENT, reason))
        }
    };
    let Ok(text) = response.encode() else { return };
    // A caller that has gone, or does not read, gets no answer; the plugin then tries again.
    let written = tokio::time::timeout(PATIENCE, async {
        stream.write_all(&text).await?;
        stream.shutdown().await
    });
    if !matches!(written.await, Ok(Ok(()))) {
        tracing::debug!("a CNI caller did not take its answer");
    }
}

fn undecodable(error: impl std::fmt::Display, pods: &Pods) -> Response {
    pods.metrics.cni.refused_nonsense();
    // Clients of the Go agent look for this word.
    let text = error.to_string();
    let text = text.strip_prefix("decode: ").unwrap_or(&text);
    tracing::warn!(error = cut(text, SHOWN * 8), "a CNI request cannot be read");
    Response::failed(CniError::new(error::DECODE_FAILURE, format!("decode: {text}")))
}

async fn respond(bytes: &[u8], pods: Arc<Pods>, server: &Server) -> Response {
    let request = match Request::decode(bytes) {
        Ok(request) => request,
        Err(error) => return undecodable(error, &pods),
    };
    let started = Instant::now();
    let metrics = pods.metrics.clone();
    let (op, container) = (request.op.clone(), request.container_id.clone());
    let span = span(&request);
    // Its own task: the call outlives its caller and its time limit.
    let in_flight = metrics.cni.begin();
    let work = async move {
        let outcome = dispatch(&request, &pods).await;
        drop(in_flight);
        outcome
    };
    let work = tokio::spawn(work.instrument(span.clone()));
    let outcome = match tokio::time::timeout(CALL_LIMIT, work).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(CniError::new(error::INTERNAL, "the call failed inside the agent")),
        Err(_) => Err(CniError::new(
            error::TRY_AGAIN_LATER,
            format!("{op} of {container} still runs after {CALL_LIMIT:?}; try again later"),
        )),
    };
    let took = started.elapsed();
    metrics.cni.answered(&op, &outcome, took);
    span.in_scope(|| server.tell(&op, &outcome, took));
    match outcome {
        Ok(result) => Response { result, ..Response::default() },
        Err(error) => Response::failed(error),
    }
}

async fn dispatch(request: &Request, pods: &Arc<Pods>) -> Result<Option<CniResult>, CniError> {
    match request.op.as_str() {
        words::ADD => pods.add(Call::parse(request)?).await.map(Some),
        words::DEL => pods.del(Call::parse_del(request)?).await.map(|()| None),
        words::CHECK => pods.check(Call::parse(request)?).await.map(|()| None),
        words::GC => pods.gc(&request.stdin_data).await.map(|()| None),
        words::STATUS => pods.status().await.map(|()| None).map_err(CniError::from),
        other => Err(CniError::new(
            error::INVALID_ENVIRONMENT,
            format!("unknown op {other:?}; expected ADD, DEL, CHECK, GC or STATUS"),
        )),
    }
}
