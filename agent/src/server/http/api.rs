//! What the page asks, under `/api/v1/`: the same answers as `-o json` prints. Decides what a question
//! is and how many are answered at a time; the desk has who knows.

mod events;
mod query;

use std::collections::BTreeMap;
use std::fmt::Display;
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
use crate::cli::bgp::{Destination, ExplainArgs, PeersArgs, RoutesArgs};
use crate::cli::check::Report;
use crate::explain::explain;
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
    Explain(ExplainArgs),
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
    audience: events::Audience,
    /// What the doctor found last, and when.
    examined: Mutex<Option<(Instant, Report)>>,
}

impl Api {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self {
            desk,
            turns: Semaphore::new(AT_A_TIME),
            audience: events::Audience::default(),
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
                self.audience.listen(&self.desk.news, stay)
            }
            Ok(question) => match tokio::time::timeout(PATIENCE, self.ask(question)).await {
                Ok(Ok(answer)) => reply(StatusCode::OK, JSON, answer),
                Ok(Err((status, words))) => refusal(status, &words),
                Err(_) => refusal(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the agent is too busy to answer; ask again",
                ),
            },
            Err((status, words)) => refusal(status, &words),
        }
    }

    async fn ask(&self, question: Question) -> Result<Vec<u8>, Refused> {
        // The doctor takes one at a time by himself; nobody else is to wait for that.
        let waits = question != Question::Check;
        let _turn = if waits { self.turns.acquire().await.ok() } else { None };
        let Desk { pods, bgp, .. } = &*self.desk;
        match question {
            Question::Summary => json(bgp.summary().await),
            Question::Peers(args) => json(bgp.peers(&args).await),
            Question::Routes(args) => json(bgp.routes_page(args).await),
            Question::Explain(args) => {
                let peer = PeersArgs { name: args.peer.clone() };
                let is_stranger =
                    peer.name.is_some() && bgp.peers(&peer).await.map_err(unable)?.peers.is_empty();
                match explain(pods, bgp, args).await {
                    Err(words) if is_stranger => Err((StatusCode::NOT_FOUND, words)),
                    explained => json(explained),
                }
            }
            Question::Pods => json(pods.list().await),
            Question::Check => json(self.examine().await),
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
        "routes" => routes(&given).map(Question::Routes),
        "explain" => explained(given.clone()).map(Question::Explain),
        "pods" => none(Question::Pods),
        "check" => none(Question::Check),
        "events" => none(Question::Events),
        _ => {
            let known = "summary, peers, routes, explain, pods, check and events";
            return Err((StatusCode::NOT_FOUND, format!("{ROOT} has {known}")));
        }
    }
    .map_err(bad)
}

/// What is looked for may be written in one place: an address finds the routes that hold it, and
/// anything else what has it in its prefix, owner or peer.
fn routes(given: &BTreeMap<String, String>) -> Result<RoutesArgs, String> {
    let mut wanted: RoutesArgs = args(given)?;
    wanted.check()?;
    // One that ends like this is being typed still, or is the beginning of prefixes.
    let whole = given.get("find").map(|text| text.trim()).filter(|text| !text.ends_with("::"));
    if let Some(address) = whole.and_then(|text| text.parse().ok())
        && wanted.prefix.is_none()
    {
        wanted.prefix = Some(Destination::Address(address));
        wanted.find = None;
    }
    Ok(wanted)
}

/// Here what is to be explained is called by what it mostly is.
fn explained(mut given: BTreeMap<String, String>) -> Result<ExplainArgs, String> {
    if given.contains_key("destination") {
        return Err("destination: unknown field; it is called prefix here".into());
    }
    let Some(prefix) = given.remove("prefix") else {
        return Err("prefix: it is missing; write for example ?prefix=10.0.0.0/8".into());
    };
    prefix.parse::<Destination>().map_err(|why| format!("prefix: {prefix:?}: {why}"))?;
    given.insert("destination".into(), prefix);
    args(&given)
}

/// The arguments, as the admin socket has them; what is no text there is written as text here.
fn args<T: DeserializeOwned>(given: &BTreeMap<String, String>) -> Result<T, String> {
    let object: Result<_, String> =
        given.iter().map(|(name, text)| Ok((name.clone(), value(name, text)?))).collect();
    admin::args(&Value::Object(object?)).map_err(|error| match error.strip_prefix("args.") {
        Some(rest) => rest.to_owned(),
        None => error,
    })
}

fn value(name: &str, text: &str) -> Result<Value, String> {
    let wrong = |what| format!("{name}: {text:?} is {what}");
    match name {
        "limit" => text
            .parse::<u32>()
            .map(Value::from)
            .map_err(|_| wrong("not a number; write for example 200")),
        "within" => {
            text.parse::<bool>().map(Value::from).map_err(|_| wrong("neither true nor false"))
        }
        _ => Ok(Value::from(text)),
    }
}

fn json(answer: Result<impl Serialize, impl Display>) -> Result<Vec<u8>, Refused> {
    answer.map_err(unable).and_then(|answer| serde_json::to_vec(&answer).map_err(unable))
}

/// It was understood, and cannot be answered now.
fn unable(why: impl Display) -> Refused {
    (StatusCode::SERVICE_UNAVAILABLE, why.to_string())
}

pub(super) fn refusal(status: StatusCode, words: &str) -> Response<Body> {
    reply(status, JSON, json!({ "error": words }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_routes(query: &str) -> RoutesArgs {
        match read("routes", query) {
            Ok(Question::Routes(args)) => args,
            other => panic!("{query}: {other:?}"),
        }
    }

    #[test]
    fn questions_are_those_of_the_admin_socket() {
        assert_eq!(read("summary", ""), Ok(Question::Summary));
        assert_eq!(read("events", "&"), Ok(Question::Events));
        let named = PeersArgs { name: Some("tor a".parse().unwrap()) };
        assert_eq!(read("peers", "name=tor+a"), Ok(Question::Peers(named)));
        let query =
            "prefix=10.0.0.0%2F8&within=true&which=received&peer=tor-a&limit=5&after=10.1.0.0/16";
        let whole = r#"{"prefix":"10.0.0.0/8","within":true,"which":"received","peer":"tor-a",
            "limit":5,"after":"10.1.0.0/16"}"#;
        assert_eq!(read_routes(query), serde_json::from_str::<RoutesArgs>(whole).unwrap());
        assert_eq!(read_routes("find=&peer=&which="), RoutesArgs::default());
    }

    #[test]
    fn an_address_that_is_looked_for_finds_what_holds_it() {
        let address = |text: &str| Some(Destination::Address(text.parse().unwrap()));
        for (find, prefix) in [
            ("10.0.0.7", address("10.0.0.7")),
            ("+2001:db8::7+", address("2001:db8::7")),
            ("2001:db8::", None),
            ("2001:db8", None),
            ("10.0.0.0/8", None),
            ("10.0", None),
            ("web-0", None),
        ] {
            let args = read_routes(&format!("find={find}"));
            assert_eq!((args.prefix, args.find.is_none()), (prefix, prefix.is_some()), "{find}");
        }
        let both = read_routes("find=10.0.0.7&prefix=10.0.0.0/8");
        assert!(both.find.is_some() && both.prefix != address("10.0.0.7"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let table = [
            ("nothing", "", StatusCode::NOT_FOUND, "has summary, peers"),
            ("summary/", "", StatusCode::NOT_FOUND, "has summary, peers"),
            ("summary", "x=1", StatusCode::BAD_REQUEST, "x: unknown field"),
            ("pods", "name=web", StatusCode::BAD_REQUEST, "name: unknown field"),
            ("routes", "which=some", StatusCode::BAD_REQUEST, "which: unknown variant"),
            ("routes", "limit=1e3", StatusCode::BAD_REQUEST, "limit: \"1e3\" is not a number"),
            ("routes", "within=1", StatusCode::BAD_REQUEST, "within: \"1\" is neither"),
            ("routes", "within=true", StatusCode::BAD_REQUEST, "wants a prefix"),
            ("routes", "after=tor-a", StatusCode::BAD_REQUEST, "after: "),
            ("routes", "prefix=10.0.0.1/8", StatusCode::BAD_REQUEST, "prefix: "),
            ("explain", "", StatusCode::BAD_REQUEST, "prefix: it is missing"),
            ("explain", "prefix=web-0", StatusCode::BAD_REQUEST, "prefix: \"web-0\": neither"),
            ("explain", "prefix=::&destination=::", StatusCode::BAD_REQUEST, "called prefix here"),
            ("explain", "prefix=::&x=1", StatusCode::BAD_REQUEST, "x: unknown field"),
            ("routes", "find=%ff", StatusCode::BAD_REQUEST, "not UTF-8"),
        ];
        for (name, query, status, words) in table {
            let (refused, why) = read(name, query).unwrap_err();
            assert_eq!(refused, status, "{name} {query}: {why}");
            assert!(why.contains(words), "{name} {query}: {why}");
        }
    }
}
