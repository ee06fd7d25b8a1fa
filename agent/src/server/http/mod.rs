//! The HTTP port: `/metrics`, `/healthz`, `/readyz` and, where it may be shown, the page. It decides how
//! much a caller may cost and leaves what is answered to `site`.
//!
//! Anybody who reaches the port may ask, so nothing here changes anything, and every caller costs a
//! bounded amount: one request a connection, so much of a head, so long in all. A caller that wants
//! to be told of changes is let stay longer, and there are few places for those.

mod api;
mod page;
mod reply;
mod site;
mod visitor;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

pub use reply::Body;
pub use site::Site;
pub use visitor::OwnNames;

/// Connections served at a time; more wait in the kernel's backlog.
const CONNECTIONS: usize = 64;
/// A connection ends then, whoever is slow.
const LIFETIME: Duration = Duration::from_secs(15);
/// How long the head of a request may take to come.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a request's head, its path included.
const MAX_HEAD: usize = 16 << 10;
/// Lines of a request's head.
const MAX_HEADERS: usize = 64;

/// Why the port cannot be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "--http {address}: cannot listen there: {source}; stop whatever has the port, or choose another"
)]
pub struct HttpError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Takes the port.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, HttpError> {
    TcpListener::bind(address).await.map_err(|source| HttpError { address, source })
}

/// Serves requests until the task is dropped.
pub async fn serve(listener: TcpListener, site: Arc<Site>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: it passes when connections end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let site = site.clone();
        tokio::spawn(async move {
            converse(stream, site).await;
            drop(slot);
        });
    }
}

/// One connection, one request.
async fn converse(stream: TcpStream, site: Arc<Site>) {
    let (stay, mut until) = watch::channel(Instant::now() + LIFETIME);
    let stay = Stay(stay);
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, stay) = (site.clone(), stay.clone());
        async move { Ok::<Response<Body>, Infallible>(site.answer(&request, &stay).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    loop {
        let at = *until.borrow_and_update();
        tokio::select! {
            // A caller that broke off, or spoke something else, has had its answer or wants none.
            _ = &mut connection => return,
            changed = until.changed() => if changed.is_err() {
                let _ = tokio::time::timeout_at(at, connection).await;
                return;
            },
            () = tokio::time::sleep_until(at) => return,
        }
    }
}

/// The right of a connection to go on for longer than a question takes.
#[derive(Clone)]
pub struct Stay(watch::Sender<Instant>);

impl Stay {
    /// From now on so long.
    pub fn for_another(&self, span: Duration) {
        self.0.send_replace(Instant::now() + span);
    }
}
