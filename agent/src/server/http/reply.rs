//! How an answer looks on the wire: its headers, and a body that is there at once or comes bit by
//! bit. Decides nothing about what is answered.

use std::convert::Infallible;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode, header};

/// A body.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// On every answer: it is what it says, it is of now, and nobody else's page may use it.
const ALWAYS: [(HeaderName, &str); 7] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::CONTENT_SECURITY_POLICY, POLICY),
];

/// A browser runs and shows what comes from here as a file, and nothing else: what a pod or a peer
/// calls itself stays text even if the page made a mistake.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// An answer of this kind.
pub(super) fn reply(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    with_body(status, kind, Full::new(body.into()).boxed_unsync())
}

/// An answer in words.
pub(super) fn words(status: StatusCode, words: &str) -> Response<Body> {
    reply(status, TEXT, format!("{words}\n"))
}

/// An answer whose body may still be to come.
pub(super) fn with_body(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
