//! The admin socket: the command line's way into the running agent.
//!
//! Version 1: one JSON object a line, `{"v":1,"op":"pods"}`, with `"args":{…}` where an op takes
//! some, answered by one line, `{"v":1,"ok":{…}}` or `{"v":1,"error":"…"}`. Root only and bounded
//! like the CNI socket. Only `drain` and `drain.undo` change anything; all else reads.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
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
    /// One of [`op`].
    pub op: String,
    /// An object as the op has it, or nothing.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub args: Value,
}

/// What can be asked for.
pub mod op {
    /// The pods of this node.
    pub const PODS: &str = "pods";
    /// What the doctor finds.
    pub const CHECK: &str = "check";
    /// The speaker and its peers, [`Summary`](crate::cli::bgp::Summary).
    pub const BGP_SUMMARY: &str = "bgp.summary";
    /// [`PeersArgs`](crate::cli::bgp::PeersArgs), [`PeerList`](crate::cli::bgp::PeerList).
    pub const BGP_PEERS: &str = "bgp.peers";
    /// [`RoutesArgs`](crate::cli::bgp::RoutesArgs), [`RouteList`](crate::cli::bgp::RouteList).
    pub const BGP_ROUTES: &str = "bgp.routes";
    /// [`DrainArgs`](crate::cli::drain::DrainArgs), answered at once by
    /// [`DrainStatus`](crate::cli::drain::DrainStatus).
    pub const DRAIN: &str = "drain";
    /// Back into service; answered by [`DrainStatus`](crate::cli::drain::DrainStatus).
    pub const DRAIN_UNDO: &str = "drain.undo";
    /// How far it is, [`DrainStatus`](crate::cli::drain::DrainStatus).
    pub const DRAIN_STATUS: &str = "drain.status";

    /// All of them.
    pub const ALL: [&str; 8] =
        [PODS, CHECK, BGP_SUMMARY, BGP_PEERS, BGP_ROUTES, DRAIN, DRAIN_UNDO, DRAIN_STATUS];
}

/// The arguments of an op that takes none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

/// Reads the arguments of an op; none are the same as an empty object.
pub fn args<T: DeserializeOwned>(args: &Value) -> Result<T, String> {
    let empty = Value::Object(serde_json::Map::new());
    let given = if args.is_null() { &empty } else { args };
    if !given.is_object() {
        return Err(format!("args: expected an object or nothing, not {given}"));
    }
    serde_path_to_error::deserialize(given).map_err(|error| match error.path().to_string() {
        path if path == "." => format!("args: {}", error.inner()),
        path => format!("args.{path}: {}", error.inner()),
    })
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

/// What can answer: given the op and its arguments, an answer in JSON or a reason.
pub trait Answers: Send + Sync + 'static {
    /// Answers one request. What `args` are is read with [`args`].
    fn answer(&self, op: &str, args: &Value) -> impl Future<Output = Result<Value, String>> + Send;

    /// A request was answered, well or not.
    fn answered(&self, _op: &str, _well: bool) {}
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
    let answer = desk.answer(&request.op, &request.args).await;
    desk.answered(&request.op, answer.is_ok());
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Echo;

    impl Answers for Echo {
        async fn answer(&self, op: &str, given: &Value) -> Result<Value, String> {
            if op == op::CHECK {
                args::<NoArgs>(given)?;
            }
            Ok(json!([op, given]))
        }
    }

    #[tokio::test]
    async fn arguments_reach_the_desk_and_may_be_missing() {
        let table = [
            (r#"{"v":1,"op":"pods"}"#, Ok(json!(["pods", null]))),
            (r#"{"v":1,"op":"x","args":{"a":1}}"#, Ok(json!(["x", { "a": 1 }]))),
            (r#"{"v":1,"op":"check","args":{}}"#, Ok(json!(["check", {}]))),
            (r#"{"v":1,"op":"check","args":{"a":1}}"#, Err("args.a: unknown field `a`")),
            (r#"{"v":1,"op":"check","args":7}"#, Err("args: expected an object or nothing, not 7")),
            (r#"{"v":1}"#, Err("decode: missing field `op`")),
            (r#"{"v":2,"op":"pods"}"#, Err("the agent speaks version 1")),
        ];
        for (line, wanted) in table {
            let answer = respond(line.as_bytes(), &Echo).await;
            match (&answer, wanted) {
                (Ok(value), Ok(wanted)) => assert_eq!(*value, wanted, "{line}"),
                (Err(why), Err(words)) => assert!(why.starts_with(words), "{line}: {why}"),
                (_, wanted) => panic!("{line}: {answer:?}, not {wanted:?}"),
            }
        }
    }

    #[test]
    fn nothing_is_not_written() {
        let request = Request { v: VERSION, op: op::PODS.into(), args: Value::Null };
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"v":1,"op":"pods"}"#);
    }
}
