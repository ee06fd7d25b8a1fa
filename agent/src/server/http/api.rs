//! What the page asks, under `/api/v1/`: the same answers as `-o json` prints. Decides what a question
//! is and how many are answered at a time; the desk has who knows.

mod events;
mod query;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use super::Stay;
use super::reply::{Body, reply};
use crate::cli::bgp::{PeersArgs, RoutesArgs};
use crate::cli::check::Report;
use crate::server::admin::{self, NoArgs};
use crate::server::desk::Desk;

/// Where the questions are.
pub(super) const ROOT: &str = "/api/v1/";
/// Questions that are being answered at a time; more wait for their turn.
const AT_A_TIME: usize = 4;
/// Nobody waits longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the doctor found stays so long: it looks into every pod's namespace, and anybody may ask.
const FRESH: Duration = Duration::from_secs(2);

const JSON: &str = "application/json";

/// A question that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Question {
    Summary,
    Peers(PeersArgs),
    Routes(RoutesArgs),
    Pods,
    Check,
    Events,
}

/// Why there is no answer.
type Refused = (StatusCode, String);

/// Answers the page.
pub(super) struct Api {
    desk: Arc<Desk>,
    turns: Semaphore,
    places: events::Places,
    /// What the doctor found last, and when.
    examined: Mutex<Option<(Instant, Report)>>,
}

impl Api {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self {
            desk,
            turns: Semaphore::new(AT_A_TIME),
            places: events::Places::default(),
            examined: Mutex::new(None),
        }
    }

    /// Answers a question by its name and query.
    pub(super) async fn answer(
        &self,
        method: &Method,
        name: &str,
        query: &str,
        stay: &Stay,
    ) -> Response<Body> {
        match read(name, query) {
            Ok(Question::Events) if method == Method::GET => {
                self.places.listen(&self.desk.news, stay)
            }
            Ok(question) => match tokio::time::timeout(PATIENCE, self.ask(question)).await {
                Ok(Ok(answer)) => reply(StatusCode::OK, JSON, answer),
                Ok(Err(error)) => refusal(StatusCode::SERVICE_UNAVAILABLE, &error),
                Err(_) => refusal(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the agent is too busy to answer; ask again",
                ),
            },
            Err((status, words)) => refusal(status, &words),
        }
    }

    async fn ask(&self, question: Question) -> Result<Vec<u8>, String> {
        let _turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
        let Desk { pods, bgp, .. } = &*self.desk;
        match question {
            Question::Summary => json(&bgp.summary().await?),
            Question::Peers(args) => json(&bgp.peers(&args).await?),
            Question::Routes(args) => {
                let mut rows = bgp.routes(args).await?;
                let mut routes = Vec::new();
                while let Some(more) = rows.next().await? {
                    routes.extend(more);
                }
                json(&crate::cli::bgp::RouteList { routes })
            }
            Question::Pods => json(&pods.list().await.map_err(|error| error.to_string())?),
            Question::Check => json(&self.examine().await?),
            Question::Events => Ok(Vec::new()),
        }
    }

    /// The doctor examines one at a time; who comes meanwhile gets the same answer.
    async fn examine(&self) -> Result<Report, String> {
        let mut examined = self.examined.lock().await;
        if let Some((at, report)) = &*examined
            && at.elapsed() < FRESH
        {
            return Ok(report.clone());
        }
        let report = self.desk.doctor.examine().await?;
        *examined = Some((Instant::now(), report.clone()));
        Ok(report)
    }
}

/// Understands a question.
fn read(name: &str, query: &str) -> Result<Question, Refused> {
    let bad = |words: String| (StatusCode::BAD_REQUEST, words);
    let given = query::pairs(query).map_err(bad)?;
    let none = |question| args::<NoArgs>(&given).map(|NoArgs {}| question);
    match name {
        "summary" => none(Question::Summary),
        "peers" => args(&given).map(Question::Peers),
        "routes" => {
            let mut given = given.clone();
            given.remove("limit");
            given.remove("find");
            args(&given).map(Question::Routes)
        }
        "pods" => none(Question::Pods),
        "check" => none(Question::Check),
        "events" => none(Question::Events),
        _ => {
            let known = "summary, peers, routes, pods, check and events";
            return Err((StatusCode::NOT_FOUND, format!("{ROOT} has {known}")));
        }
    }
    .map_err(bad)
}

/// The arguments, as the admin socket has them; only numbers are written differently.
fn args<T: DeserializeOwned>(given: &BTreeMap<String, String>) -> Result<T, String> {
    let value = |name: &str, text: &str| match name {
        "limit" => text
            .parse::<u32>()
            .map(Value::from)
            .map_err(|_| format!("limit: {text:?} is not a number; write for example 200")),
        _ => Ok(Value::from(text)),
    };
    let object = given.iter().map(|(name, text)| Ok((name.clone(), value(name, text)?)));
    let object = Value::Object(object.collect::<Result<_, String>>()?);
    admin::args(&object).map_err(|error| match error.strip_prefix("args.") {
        Some(rest) => rest.to_owned(),
        None => error,
    })
}

fn json(answer: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(answer).map_err(|error| error.to_string())
}

pub(super) fn refusal(status: StatusCode, words: &str) -> Response<Body> {
    reply(status, JSON, json!({ "error": words }).to_string())
}
