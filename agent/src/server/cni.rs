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
use tokio::sync::Semaphore;

use super::line;
use super::socket::{Socket, peer_may_speak};
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

/// Knows how many connections are being served.
#[derive(Clone)]
pub struct Server {
    slots: Arc<Semaphore>,
}

impl Default for Server {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(CONNECTIONS)) }
    }
}

impl Server {
    /// Serves calls until the future is dropped; calls under way then go on.
    pub async fn serve(&self, socket: Socket, pods: Arc<Pods>) {
        let pace = RateLimiter::direct(Quota::per_second(CALLS_PER_SECOND));
        loop {
            let Ok(slot) = self.slots.clone().acquire_owned().await else { return };
            let Some(stream) = accept(&socket, &pace).await else { continue };
            let pods = pods.clone();
            tokio::spawn(async move {
                answer_one(stream, pods).await;
                drop(slot);
            });
        }
    }

    /// Waits until no call is under way.
    pub async fn quiet(&self) {
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        let _ = self.slots.acquire_many(all).await;
    }
}

async fn accept(socket: &Socket, pace: &DefaultDirectRateLimiter) -> Option<UnixStream> {
    pace.until_ready().await;
    match socket.listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            // Out of descriptors, most likely: it passes when calls end.
            tracing::warn!(%error, "cannot accept a CNI connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn answer_one(mut stream: UnixStream, pods: Arc<Pods>) {
    let response = match peer_may_speak(&stream) {
        Ok(()) => match line::read(&mut stream, words::MAX_MESSAGE, PATIENCE).await {
            Ok(bytes) => respond(&bytes, pods).await,
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
    Response::failed(CniError::new(error::DECODE_FAILURE, format!("decode: {text}")))
}

async fn respond(bytes: &[u8], pods: Arc<Pods>) -> Response {
    let request = match Request::decode(bytes) {
        Ok(request) => request,
        Err(error) => return undecodable(error, &pods),
    };
    let started = Instant::now();
    let metrics = pods.metrics.clone();
    let (op, container) = (request.op.clone(), request.container_id.clone());
    // Its own task: the call outlives its caller and its time limit.
    let in_flight = metrics.cni.begin();
    let work = tokio::spawn(async move {
        let outcome = dispatch(&request, &pods).await;
        drop(in_flight);
        outcome
    });
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
    match outcome {
        Ok(result) => {
            tracing::info!(op, container, ?took, "CNI call");
            Response { result, ..Response::default() }
        }
        Err(error) => {
            tracing::warn!(
                op,
                container,
                ?took,
                code = error.code,
                error = error.msg,
                "CNI call failed"
            );
            Response::failed(error)
        }
    }
}

async fn dispatch(request: &Request, pods: &Arc<Pods>) -> Result<Option<CniResult>, CniError> {
    match request.op.as_str() {
        words::ADD => pods.add(Call::parse(request)?).await.map(Some),
        words::DEL => pods.del(Call::parse_del(request)?).await.map(|()| None),
        words::CHECK => pods.check(Call::parse(request)?).await.map(|()| None),
        words::GC => pods.gc(&request.stdin_data).await.map(|()| None),
        words::STATUS => pods.status().await.map(|()| None),
        other => Err(CniError::new(
            error::INVALID_ENVIRONMENT,
            format!("unknown op {other:?}; expected ADD, DEL, CHECK, GC or STATUS"),
        )),
    }
}
