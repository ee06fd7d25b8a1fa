//! An API server for tests that answers as it is told, and notes what it was asked. The real one is in
//! `make e2e`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// `PATCH /api/v1/nodes/n/status?fieldManager=...`.
    pub(super) line: String,
    pub(super) body: Value,
}

/// What it has to say next, and what it was asked.
#[derive(Clone, Default)]
pub(super) struct Script {
    answers: Arc<Mutex<VecDeque<(u16, Value)>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Script {
    /// A client of it.
    pub(super) fn client(&self) -> Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            async move { Ok::<_, Infallible>(script.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// It will say this, after what it is to say already. Where it has nothing to say it says 500.
    pub(super) fn says(&self, status: u16, body: Value) {
        self.answers.lock().unwrap().push_back((status, body));
    }

    /// It will refuse with this.
    pub(super) fn fails(&self, code: u16, reason: &str) {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("it says {reason}"), "reason": reason, "code": code,
        });
        self.says(code, body);
    }

    /// What it was asked since the last time.
    pub(super) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let line = format!("{} {}", request.method(), request.uri());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        self.asked.lock().unwrap().push(Asked { line, body });
        let next = self.answers.lock().unwrap().pop_front();
        let (status, body) = next.unwrap_or((500, json!({"message": "nothing to say"})));
        let body = Full::new(Bytes::from(body.to_string()));
        Response::builder().status(status).body(body).unwrap()
    }
}
