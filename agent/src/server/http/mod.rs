//! The HTTP port: `/metrics`, `/healthz`, `/readyz` and, where it may be shown, the page. It decides how
//! much a caller may cost and leaves what is answered to `site`.
//!
//! Anybody who reaches the port may ask, so nothing here changes anything, and every caller costs a
//! bounded amount: one request a connection, so much of a head, so long in all. When every place is
//! taken, whoever comes gets the place of the connection that would end first (`places`): a probe is
//! answered while somebody holds connections open. A caller that wants to be told of changes is let
//! stay longer, and there are few places for those.

mod api;
mod page;
mod places;
mod reply;
mod site;
mod visitor;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::{Quota, RateLimiter};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::metrics::{Endpoint, Metrics};

use places::{Places, Until};
pub use reply::Body;
pub use site::Site;
pub use visitor::OwnNames;

/// Connections served at a time.
const CONNECTIONS: usize = 64;
/// Connections taken in a second, with a burst of as many; more wait in the kernel's backlog. A flood
/// is to cost the agent's one thread little.
const ARRIVALS_PER_SECOND: NonZeroU32 = NonZeroU32::new(2000).unwrap();
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
pub async fn serve(listener: TcpListener, site: Arc<Site>, metrics: Arc<Metrics>) {
    let pace = RateLimiter::direct(Quota::per_second(ARRIVALS_PER_SECOND));
    let mut places = Places::default();
    loop {
        pace.until_ready().await;
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: it passes when connections end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if places.make_room(CONNECTIONS).await {
            metrics.http.evicted();
        }
        let (stay, until) = watch::channel(Some(Instant::now() + LIFETIME));
        places.take(stay.clone());
        tokio::spawn(converse(stream, Stay(stay), until, site.clone(), metrics.clone()));
    }
}

/// One connection, one request.
async fn converse(
    stream: TcpStream,
    stay: Stay,
    mut until: watch::Receiver<Until>,
    site: Arc<Site>,
    metrics: Arc<Metrics>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, stay, metrics) = (site.clone(), stay.clone(), metrics.clone());
        async move {
            let response = site.answer(&request, &stay).await;
            let endpoint = Endpoint::of(request.uri().path());
            metrics.http.answered(endpoint, response.status().as_u16());
            Ok::<Response<Body>, Infallible>(response)
        }
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
        let Some(at) = *until.borrow_and_update() else { return };
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
pub struct Stay(watch::Sender<Until>);

impl Stay {
    /// From now on so long, unless it has to make room.
    pub fn for_another(&self, span: Duration) {
        self.0.send_if_modified(|until| {
            let stays = until.is_some();
            *until = until.map(|_| Instant::now() + span);
            stays
        });
    }
}
