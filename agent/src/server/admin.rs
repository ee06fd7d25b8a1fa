//! The admin socket: the command line's way into the running agent.
//!
//! Version 1: one JSON object a line, `{"v":1,"op":"pods"}`, answered by one line,
//! `{"v":1,"ok":{…}}` or `{"v":1,"error":"…"}`. Root only and bounded like the CNI socket. It only
//! reads; nothing that is asked here changes anything.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use super::line;
use super::socket::{Socket, peer_may_speak};

/// The version of the words below.
pub const VERSION: u32 = 1;

const PATIENCE: Duration = Duration::from_secs(5);
const MAX_REQUEST: usize = 64 << 10;
const CONNECTIONS: usize = 32;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// `VERSION`.
    pub v: u32,
    /// `pods` or `check`.
    pub op: String,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// `VERSION`.
    pub v: u32,
    /// The answer, in the shape of `-o json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What can answer: given the op, an answer in JSON or a reason.
pub trait Answers: Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, op: &str) -> impl Future<Output = Result<Value, String>> + Send;
}

/// Serves requests until the task is dropped.
pub async fn serve(socket: Arc<Socket>, desk: Arc<impl Answers>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = socket.listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let desk = desk.clone();
        tokio::spawn(async move {
            answer_one(stream, &*desk).await;
            drop(slot);
        });
    }
}

async fn answer_one(mut stream: UnixStream, desk: &impl Answers) {
    let outcome = match peer_may_speak(&stream) {
        Ok(()) => match line::read(&mut stream, MAX_REQUEST, PATIENCE).await {
            Ok(bytes) => respond(&bytes, desk).await,
            Err(error) => Err(error.to_string()),
        },
        Err(reason) => Err(reason),
    };
    let response = match outcome {
        Ok(value) => Response { v: VERSION, ok: Some(value), error: None },
        Err(error) => Response { v: VERSION, ok: None, error: Some(error) },
    };
    let Ok(mut text) = serde_json::to_vec(&response) else { return };
    text.push(b'\n');
    let _ = tokio::time::timeout(PATIENCE, stream.write_all(&text)).await;
}

async fn respond(bytes: &[u8], desk: &impl Answers) -> Result<Value, String> {
    let request: Request =
        serde_json::from_slice(bytes).map_err(|error| format!("decode: {error}"))?;
    if request.v != VERSION {
        return Err(format!(
            "the agent speaks version {VERSION} of the admin protocol, not {}; use the flock-agent that belongs to it",
            request.v
        ));
    }
    desk.answer(&request.op).await
}
