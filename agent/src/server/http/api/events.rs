//! `/api/v1/events`: tells that something changed, as Server-Sent Events. A signal without content:
//! whoever hears it asks again, and asks for what it shows. So a listener that is slow, or away for a
//! while, misses nothing but a signal, and nothing waits for it here.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame};
use hyper::{Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

use super::super::Stay;
use super::super::reply::{Body, with_body};
use super::refusal;
use crate::news::{Listener, News};

/// Who may listen at a time.
const LISTENERS: usize = 16;
/// A listener's time; browsers come back by themselves.
const LIFETIME: Duration = Duration::from_secs(600);
/// Between two signals, so that there are at most five a second.
const PAUSE: Duration = Duration::from_millis(200);
/// How often something is said where there is no news, so that whatever is between us and the listener
/// does not take the line for dead, and a line that is dead is found out.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// More than the last words need to leave.
const FAREWELL: Duration = Duration::from_secs(5);

const KIND: &str = "text/event-stream; charset=utf-8";
/// The empty `data` is the content that there is not: without it, no event is delivered.
const SIGNAL: Bytes = Bytes::from_static(b"event: news\ndata:\n\n");
/// A comment, which is no event.
const STILL_HERE: Bytes = Bytes::from_static(b":\n\n");

/// Those who listen, and their places.
pub(super) struct Audience(Arc<Semaphore>);

impl Default for Audience {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LISTENERS)))
    }
}

impl Audience {
    /// A stream of signals, or that all places are taken.
    pub(super) fn listen(&self, news: &News, stay: &Stay) -> Response<Body> {
        let Ok(place) = self.0.clone().try_acquire_owned() else {
            let words = format!(
                "{LISTENERS} listen already; close a page elsewhere, or ask from time to time"
            );
            return refusal(StatusCode::SERVICE_UNAVAILABLE, &words);
        };
        stay.for_another(LIFETIME + FAREWELL);
        // One signal that nobody took yet says the same as many.
        let (say, said) = mpsc::channel(1);
        tokio::spawn(tell(news.listen(), say, place));
        with_body(StatusCode::OK, KIND, Signals(said).boxed_unsync())
    }
}

/// Signals until the listener goes, or has had its time. The first comes at once: something may have
/// changed before it listened.
async fn tell(mut news: Listener, say: mpsc::Sender<Bytes>, place: OwnedSemaphorePermit) {
    let end = Instant::now() + LIFETIME;
    let mut silence = tokio::time::interval(KEEP_ALIVE);
    silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut words = SIGNAL;
    loop {
        let is_over = tokio::select! {
            biased;
            () = tokio::time::sleep_until(end) => true,
            sent = say.send(words) => sent.is_err(),
        };
        if is_over {
            break;
        }
        silence.reset();
        tokio::time::sleep(PAUSE).await;
        words = tokio::select! {
            biased;
            () = tokio::time::sleep_until(end) => break,
            () = say.closed() => break,
            () = news.next() => SIGNAL,
            _ = silence.tick() => STILL_HERE,
        };
    }
    drop(place);
}

struct Signals(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Signals {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|words| words.map(|words| Ok(Frame::data(words))))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    fn stay() -> (Stay, watch::Receiver<Option<Instant>>) {
        let (stay, until) = watch::channel(Some(Instant::now()));
        (Stay(stay), until)
    }

    async fn next(body: &mut Body) -> Option<Bytes> {
        Some(body.frame().await?.unwrap().into_data().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_at_once_then_with_news_and_a_comment_in_silence() {
        let (news, audience, (stay, until)) = (News::default(), Audience::default(), stay());
        let mut body = audience.listen(&news, &stay).into_body();
        let began = Instant::now();
        assert!(*until.borrow() > Some(began + LIFETIME), "the connection may stay as long");
        assert_eq!(next(&mut body).await, Some(SIGNAL));
        assert_eq!(began.elapsed(), Duration::ZERO);
        (0..100).for_each(|_| news.ring());
        assert_eq!(next(&mut body).await, Some(SIGNAL));
        assert_eq!(began.elapsed(), PAUSE, "a hundred are one");
        assert_eq!(next(&mut body).await, Some(STILL_HERE));
        assert_eq!(began.elapsed(), PAUSE + KEEP_ALIVE);
    }

    #[tokio::test(start_paused = true)]
    async fn at_most_five_signals_a_second_and_ten_minutes() {
        let (news, audience, (stay, _until)) = (News::default(), Audience::default(), stay());
        let mut body = audience.listen(&news, &stay).into_body();
        let began = Instant::now();
        let mut signals = 0;
        let ringing = tokio::spawn(async move {
            loop {
                news.ring();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        while next(&mut body).await.is_some() {
            signals += 1;
        }
        ringing.abort();
        assert_eq!(began.elapsed(), LIFETIME);
        assert!((2000..=3001).contains(&signals), "{signals}");
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_few_and_are_given_back() {
        let (news, audience, (stay, _until)) = (News::default(), Audience::default(), stay());
        let listen = || audience.listen(&news, &stay);
        let mut listening: Vec<_> = (0..LISTENERS).map(|_| listen()).collect();
        assert_eq!(listen().status(), StatusCode::SERVICE_UNAVAILABLE);
        listening.pop();
        tokio::time::sleep(PAUSE * 2).await;
        assert_eq!(listen().status(), StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_does_not_read_is_owed_one_signal_and_loses_its_place_in_time() {
        let (news, audience, (stay, _until)) = (News::default(), Audience::default(), stay());
        let body = audience.listen(&news, &stay).into_body();
        (0..1000).for_each(|_| news.ring());
        assert_eq!(audience.0.available_permits(), LISTENERS - 1);
        tokio::time::sleep(LIFETIME + FAREWELL).await;
        assert_eq!(audience.0.available_permits(), LISTENERS);
        drop(body);
    }
}
