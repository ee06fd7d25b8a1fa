//! The admin socket: the command line's way into the running agent. Root only and bounded like the
//! CNI socket. Here are the words; how a conversation goes is `talk`'s.
//!
//! Version 1: the client says one JSON object in a line, `{"v":1,"op":"pods"}`, with `"args":{…}`
//! where an op takes some. The agent answers in lines:
//!
//! | line | means |
//! |---|---|
//! | `{"v":1,"ok":{…}}` | the answer; after parts, how many rows they had |
//! | `{"v":1,"part":[…]}` | rows of an answer that is too long for a line; more follows |
//! | `{"v":1,"error":"…"}` | there is no answer, or no more of it; nothing follows |
//!
//! With `"watch":true` the connection stays: after each `ok` the whole answer follows again when
//! something changed, at the latest after a second and never more than five times in one, until
//! the client closes its end. Only what reads can be watched.

mod talk;
#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::news::Listener;
pub use talk::serve;

/// The version of the words below.
pub const VERSION: u32 = 1;
/// How an answer to an op begins that the agent does not have.
pub const UNKNOWN_OP: &str = "unknown op";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// `VERSION`.
    pub v: u32,
    /// One of [`op`].
    pub op: String,
    /// An object as the op has it, or nothing.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub args: Value,
    /// Again and again, whenever the answer may have changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
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
    /// [`RoutesArgs`](crate::cli::bgp::RoutesArgs), answered in parts:
    /// [`RouteRow`](crate::cli::bgp::RouteRow)s, sorted.
    pub const BGP_ROUTES: &str = "bgp.routes";
    /// [`ExplainArgs`](crate::cli::bgp::ExplainArgs),
    /// [`Explanation`](crate::cli::bgp::Explanation).
    pub const BGP_EXPLAIN: &str = "bgp.explain";
    /// [`RefreshArgs`](crate::cli::bgp::RefreshArgs), [`Refreshed`](crate::cli::bgp::Refreshed).
    pub const BGP_REFRESH: &str = "bgp.refresh";
    /// [`ResetArgs`](crate::cli::bgp::ResetArgs), [`WasReset`](crate::cli::bgp::WasReset).
    pub const BGP_RESET: &str = "bgp.reset";
    /// [`PolicyShowArgs`](crate::cli::policy::PolicyShowArgs),
    /// [`PolicyReport`](crate::cli::policy::PolicyReport).
    pub const POLICY_SHOW: &str = "policy.show";
    /// [`PolicyExplainArgs`](crate::cli::policy::PolicyExplainArgs),
    /// [`PolicyExplanation`](crate::cli::policy::PolicyExplanation).
    pub const POLICY_EXPLAIN: &str = "policy.explain";
    /// [`DrainArgs`](crate::cli::drain::DrainArgs), answered at once by
    /// [`DrainStatus`](crate::cli::drain::DrainStatus).
    pub const DRAIN: &str = "drain";
    /// Back into service; answered by [`DrainStatus`](crate::cli::drain::DrainStatus).
    pub const DRAIN_UNDO: &str = "drain.undo";
    /// How far it is, [`DrainStatus`](crate::cli::drain::DrainStatus).
    pub const DRAIN_STATUS: &str = "drain.status";
    /// The log filter in force, [`LogLevel`](crate::cli::log_level::LogLevel).
    pub const LOG_LEVEL: &str = "log.level";
    /// [`LogSetArgs`](crate::cli::log_level::LogSetArgs), answered by
    /// [`LogLevel`](crate::cli::log_level::LogLevel).
    pub const LOG_SET: &str = "log.set";

    /// All of them.
    pub const ALL: [&str; 15] = [
        PODS,
        CHECK,
        BGP_SUMMARY,
        BGP_PEERS,
        BGP_ROUTES,
        BGP_EXPLAIN,
        BGP_REFRESH,
        BGP_RESET,
        POLICY_SHOW,
        POLICY_EXPLAIN,
        DRAIN,
        DRAIN_UNDO,
        DRAIN_STATUS,
        LOG_LEVEL,
        LOG_SET,
    ];

    /// Those that change nothing, and may be asked again and again.
    pub const WATCHABLE: [&str; 10] = [
        PODS,
        CHECK,
        BGP_SUMMARY,
        BGP_PEERS,
        BGP_ROUTES,
        BGP_EXPLAIN,
        POLICY_SHOW,
        POLICY_EXPLAIN,
        DRAIN_STATUS,
        LOG_LEVEL,
    ];
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

/// A line of an answer, with rows of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response<Row = Value> {
    /// `VERSION`.
    pub v: u32,
    /// Rows; more follows.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub part: Option<Vec<Row>>,
    /// The answer, in the shape of `-o json`; after parts, [`Closing`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What follows the last part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// How many rows there were.
    pub rows: u64,
    /// There are more than were asked for.
    pub more: bool,
}

/// An answer, whole or in parts.
pub enum Answer<R> {
    /// One line.
    Whole(Value),
    /// As many as it takes.
    Parts(R),
}

/// Rows that are made when they can be sent.
pub trait Rows: Send {
    /// One of them.
    type Row: Serialize + Send;

    /// The next few, asked for when those before were taken; `None`: that was all.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Self::Row>>, String>> + Send;

    /// After the last: whether there are more than were asked for.
    fn is_cut(&self) -> bool;
}

/// What can answer.
pub trait Answers: Send + Sync + 'static {
    /// What comes in parts.
    type Rows: Rows;

    /// Answers one request. What `args` are is read with [`args`].
    fn answer(
        &self,
        op: &str,
        args: &Value,
    ) -> impl Future<Output = Result<Answer<Self::Rows>, String>> + Send;

    /// Rings when an answer may be another.
    fn news(&self) -> Listener;

    /// A request was answered, well or not.
    fn answered(&self, _op: &str, _well: bool) {}
}
