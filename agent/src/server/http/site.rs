//! What is answered under which path. Reads, never changes.
//!
//! `/metrics`, `/healthz` and `/readyz` are for machines and always there. The page and what it asks
//! are for people: they name pods and peers, so they are shown where only this node's own users
//! come (a loopback address), or where the operator says so.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode, header};

use super::api::{self, Api};
use super::reply::{Body, reply, words};
use super::visitor::{self, OwnNames};
use super::{Stay, page};
use crate::metrics::{Form, Scrape};
use crate::pods::Pods;
use crate::server::desk::Desk;

/// An agent that does not answer itself for so long is not healthy.
const PATIENCE: Duration = Duration::from_secs(2);

/// Everything that is served.
pub struct Site {
    desk: Arc<Desk>,
    scrape: Scrape,
    /// What the page asks, and under which names it is shown; `None`: it is not shown.
    page: Option<(Api, OwnNames)>,
}

impl Site {
    /// With the page, under these names, or without it.
    pub fn new(desk: Arc<Desk>, scrape: Scrape, page: Option<OwnNames>) -> Self {
        let page = page.map(|names| (Api::new(desk.clone()), names));
        Self { desk, scrape, page }
    }

    /// Answers one request.
    pub async fn answer(&self, request: &Request<Incoming>, stay: &Stay) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal =
                words(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered");
            refusal
                .headers_mut()
                .insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get(header::ACCEPT);
                let form = Form::asked_by(accept.and_then(|value| value.to_str().ok()));
                reply(StatusCode::OK, form.content_type(), self.scrape.text(form).await)
            }
            "/healthz" => health(&self.desk.pods).await,
            "/readyz" => readiness(&self.desk.pods).await,
            path => self.show(path, request, stay).await.unwrap_or_else(|| {
                words(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz")
            }),
        }
    }

    /// The page and what it asks; `None`: there is nothing of that name, or no page at all.
    async fn show(
        &self,
        path: &str,
        request: &Request<Incoming>,
        stay: &Stay,
    ) -> Option<Response<Body>> {
        let (api, names) = self.page.as_ref()?;
        if let Some(question) = path.strip_prefix(api::ROOT) {
            return Some(match visitor::may_ask(request, names) {
                Ok(()) => {
                    let query = request.uri().query().unwrap_or_default();
                    api.answer(request.method(), question, query, stay).await
                }
                Err(stranger) => api::refusal(StatusCode::FORBIDDEN, &stranger.to_string()),
            });
        }
        let file = page::file(path)?;
        Some(match visitor::may_look(request, names) {
            Ok(()) => file,
            Err(stranger) => words(StatusCode::FORBIDDEN, &stranger.to_string()),
        })
    }
}

/// The agent lives: the task that owns the pods answers. Nothing that a restart would not mend is
/// looked at here.
async fn health(pods: &Pods) -> Response<Body> {
    match tokio::time::timeout(PATIENCE, pods.ledger.ask(|_| ())).await {
        Ok(Ok(())) => words(StatusCode::OK, "ok"),
        Ok(Err(error)) => words(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        Err(_) => words(StatusCode::SERVICE_UNAVAILABLE, "the agent does not answer itself"),
    }
}

/// The same as the runtime hears by STATUS.
async fn readiness(pods: &Pods) -> Response<Body> {
    match tokio::time::timeout(PATIENCE, pods.status()).await {
        Ok(Ok(())) => words(StatusCode::OK, "ok"),
        Ok(Err(refusal)) => words(StatusCode::SERVICE_UNAVAILABLE, &refusal.to_string()),
        Err(_) => words(StatusCode::SERVICE_UNAVAILABLE, "the agent does not answer itself"),
    }
}
