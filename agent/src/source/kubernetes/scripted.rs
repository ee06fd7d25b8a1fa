//! An API server that says what a test has it say. What it was asked is noted, in short.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// One answer.
pub(super) enum Answer {
    /// Status and body.
    Says(u16, Value),
    /// Events of a watch, and then it is over.
    Tells(Vec<Value>),
    /// Events of a watch, and then nothing, for ever.
    TellsAndHangs(Vec<Value>),
    /// Events of a watch as they come; it is over with the sender.
    Follows(mpsc::UnboundedReceiver<Value>),
    /// Not a byte.
    Hangs,
    /// No connection.
    Refuses,
}
use Answer::{Follows, Hangs, Refuses, Says, Tells, TellsAndHangs};

/// Answers by how the path that is asked for ends; what is not there hangs.
#[derive(Default)]
pub(super) struct Script {
    answers: Vec<(&'static str, VecDeque<Answer>)>,
    /// Path and question.
    asked: Vec<(String, String)>,
}

#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<Script>>);

impl Server {
    /// Answers to whatever is asked.
    pub(super) fn new(answers: Vec<Answer>) -> Self {
        let server = Self::default();
        server.then("", answers);
        server
    }

    /// More answers to what is asked of this path.
    pub(super) fn then(&self, path: &'static str, answers: Vec<Answer>) {
        let mut script = self.0.lock().unwrap();
        match script.answers.iter_mut().find(|(known, _)| *known == path) {
            Some((_, queue)) => queue.extend(answers),
            None => script.answers.push((path, answers.into())),
        }
    }

    /// What was asked of this path.
    pub(super) fn asked(&self, path: &str) -> Vec<String> {
        let script = self.0.lock().unwrap();
        let of_it = script.asked.iter().filter(|(asked, _)| asked.ends_with(path));
        of_it.map(|(_, question)| question.clone()).collect()
    }

    pub(super) fn client(&self) -> Client {
        let server = self.0.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = {
                let mut script = server.lock().unwrap();
                let path = request.uri().path().to_owned();
                let question = shortly(request.uri().query().unwrap_or_default());
                let queue = script.answers.iter_mut().find(|(known, _)| path.ends_with(known));
                let answer = queue.and_then(|(_, queue)| queue.pop_front());
                script.asked.push((path, question));
                answer
            };
            respond(answer)
        });
        Client::new(service, "default")
    }
}

async fn respond(
    answer: Option<Answer>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, std::io::Error> {
    let frame = |part: Value| Ok(Frame::data(Bytes::from(format!("{part}\n"))));
    let body = |parts: Vec<Value>, hangs: bool| {
        let end = if hangs { stream::pending().boxed() } else { stream::empty().boxed() };
        let parts: Vec<_> = parts.into_iter().map(frame).collect();
        StreamBody::new(stream::iter(parts).chain(end)).boxed_unsync()
    };
    let (status, body) = match answer {
        Some(Says(status, value)) => (status, body(vec![value], false)),
        Some(Tells(events)) => (200, body(events, false)),
        Some(TellsAndHangs(events)) => (200, body(events, true)),
        Some(Follows(mut events)) => {
            let events = stream::poll_fn(move |context| events.poll_recv(context));
            (200, StreamBody::new(events.map(frame)).boxed_unsync())
        }
        Some(Refuses) => return Err(std::io::ErrorKind::ConnectionRefused.into()),
        // The script is over: nothing happens any more.
        Some(Hangs) | None => std::future::pending().await,
    };
    Ok(Response::builder().status(status).body(body).unwrap())
}

/// `list 5 NotOlderThan`, `list page 500 of x`, `watch 7`.
fn shortly(query: &str) -> String {
    let value = |key: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.to_owned()).next()
    };
    let version = value("resourceVersion").unwrap_or_default();
    let words = match (value("watch"), value("limit")) {
        (Some(_), _) => format!("watch {version}"),
        (None, Some(limit)) => {
            let token = value("continue").map(|token| format!("of {token}"));
            format!("list {version}page {limit} {}", token.unwrap_or_default())
        }
        (None, None) => {
            format!("list {version} {}", value("resourceVersionMatch").unwrap_or_default())
        }
    };
    words.trim().to_owned()
}

pub(super) fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

pub(super) fn status(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": "x", "code": code})
}

/// A list as a whole.
pub(super) fn listed(version: &str, items: Vec<Value>) -> Answer {
    Says(200, json!({"metadata": {"resourceVersion": version}, "items": items}))
}

/// A page of one, and what to ask for the next with.
pub(super) fn page(version: &str, items: Vec<Value>, next: &str) -> Answer {
    Says(200, json!({"metadata": {"resourceVersion": version, "continue": next}, "items": items}))
}
