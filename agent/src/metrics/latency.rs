//! From a pod's event to the socket: how long until every session was told what follows from it and
//! the kernel took the bytes. Decides what is measured and keeps out of the way of what it measures.
//!
//! An event is a new picture of the source, or an ADD or DEL that waits for its routes. The oldest one
//! that nobody has looked at yet is remembered. The reconciler takes it with its next pass, and hands
//! it on where that pass gives the speaker something to say; where it does not, nobody had to hear.
//! With it goes one message to the speaker's task, behind what it is to say, and a small task waits
//! for the answer, one wait for all that came meanwhile: nothing of it is on the way.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flock_bgp_io::Heard;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// From a table that is idle to a peer that hardly reads.
const SECONDS: [f64; 17] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
];
/// A peer that does not read is waited for so long; then it is counted, and the others are measured
/// again.
const PATIENCE: Duration = Duration::from_secs(10);
/// What waits to be measured; more is counted and not measured.
const WAITING: usize = 64;

/// Who was told, and can say when that was heard.
trait Audience: Send + 'static {
    /// Returns when everything that was said is with the kernel; `None`: there is nobody any more.
    fn heard(&mut self) -> impl Future<Output = Option<Heard>> + Send;
}

impl Audience for oneshot::Receiver<Heard> {
    async fn heard(&mut self) -> Option<Heard> {
        self.await.ok()
    }
}

/// The counters.
#[derive(Debug, Clone)]
struct Counts {
    seconds: Histogram,
    timeouts: Counter,
    dropped: Counter,
}

/// How long peers take to hear of a pod.
#[derive(Debug)]
pub struct Latency {
    /// When the oldest event happened that nobody has looked at.
    unseen: Mutex<Option<Instant>>,
    told: mpsc::Sender<(Instant, oneshot::Receiver<Heard>)>,
    counts: Counts,
}

impl Latency {
    /// Starts the task that waits.
    pub(super) fn start(registry: &mut Registry) -> Self {
        let counts = Counts {
            seconds: Histogram::new(SECONDS),
            timeouts: Counter::default(),
            dropped: Counter::default(),
        };
        registry.register_with_unit(
            "flock_bgp_update_latency",
            "From a pod's event (a changed picture of the source; ADD or DEL that waits for its routes) until every session was told and the kernel took the bytes",
            Unit::Seconds,
            counts.seconds.clone(),
        );
        registry.register(
            "flock_bgp_update_latency_timeouts",
            "Events whose announcement or withdrawal a peer did not take within ten seconds; not in the histogram",
            counts.timeouts.clone(),
        );
        registry.register(
            "flock_bgp_update_latency_dropped",
            "Events that were not measured because too many waited",
            counts.dropped.clone(),
        );
        let (told, inbox) = mpsc::channel(WAITING);
        tokio::spawn(follow(inbox, counts.clone()));
        Self { unseen: Mutex::default(), told, counts }
    }

    /// Something happened that peers may have to hear of.
    pub fn event(&self) {
        self.unseen().get_or_insert_with(Instant::now);
    }

    /// When the oldest event happened that nobody has looked at; it has been, now.
    pub fn take(&self) -> Option<Instant> {
        self.unseen().take()
    }

    /// The speaker was told what follows from an event of then, and will say when that is heard. Never
    /// waits.
    pub fn told(&self, since: Instant, heard: oneshot::Receiver<Heard>) {
        if self.told.try_send((since, heard)).is_err() {
            self.counts.dropped.inc();
        }
    }

    fn unseen(&self) -> MutexGuard<'_, Option<Instant>> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for whoever was told. All that came until now wait together: the last of them was told when
/// the first was.
async fn follow<A: Audience>(mut told: mpsc::Receiver<(Instant, A)>, counts: Counts) {
    let mut waiting = Vec::with_capacity(WAITING);
    while told.recv_many(&mut waiting, WAITING).await > 0 {
        let heard = match waiting.last_mut() {
            Some((_, last)) => tokio::time::timeout(PATIENCE, last.heard()).await,
            None => Ok(None),
        };
        for (since, _) in waiting.drain(..) {
            match heard {
                // Without a session there is nobody to hear it.
                Ok(Some(Heard { sessions: 0, .. }) | None) => {}
                Ok(Some(Heard { at, .. })) => {
                    counts.seconds.observe(at.saturating_duration_since(since).as_secs_f64());
                }
                Err(_) => drop(counts.timeouts.inc()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    struct Peers {
        sessions: Option<usize>,
        reads: Arc<Notify>,
    }

    impl Audience for Peers {
        async fn heard(&mut self) -> Option<Heard> {
            self.reads.notified().await;
            self.sessions.map(|sessions| Heard { at: Instant::now(), sessions })
        }
    }

    fn counts() -> Counts {
        Counts {
            seconds: Histogram::new(SECONDS),
            timeouts: Counter::default(),
            dropped: Counter::default(),
        }
    }

    /// How many were measured, and how long they took together.
    fn measured(counts: &Counts) -> (u64, f64) {
        let mut registry = Registry::default();
        registry.register("x", "x", counts.seconds.clone());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let figure = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        (figure("x_count ").parse().unwrap(), figure("x_sum ").parse().unwrap())
    }

    async fn pause(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_heard_is_measured_from_its_event() {
        let (told, inbox) = mpsc::channel(WAITING);
        let (counts, reads) = (counts(), Arc::new(Notify::new()));
        tokio::spawn(follow(inbox, counts.clone()));
        let peers = |sessions| Peers { sessions, reads: reads.clone() };
        let first = Instant::now();
        told.send((first, peers(Some(2)))).await.unwrap();
        pause(1).await;
        assert_eq!(measured(&counts).0, 0, "nobody has read it yet");
        reads.notify_one();
        pause(1).await;
        let (number, seconds) = measured(&counts);
        assert_eq!(number, 1);
        assert!((1.0..1.1).contains(&seconds), "{seconds}");
        for nobody in [Some(0), None] {
            told.send((Instant::now(), peers(nobody))).await.unwrap();
            pause(1).await;
            reads.notify_one();
            pause(1).await;
            assert_eq!(measured(&counts).0, 1, "{nobody:?}: nobody was told");
        }
        assert_eq!(counts.timeouts.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_is_given_up_and_the_next_is_measured() {
        let (told, inbox) = mpsc::channel(WAITING);
        let (counts, reads) = (counts(), Arc::new(Notify::new()));
        tokio::spawn(follow(inbox, counts.clone()));
        let peers = || Peers { sessions: Some(1), reads: reads.clone() };
        told.send((Instant::now(), peers())).await.unwrap();
        pause(1).await;
        // While it waits for the first, three more come; they wait together.
        for _ in 0..3 {
            told.send((Instant::now(), peers())).await.unwrap();
        }
        pause(10).await;
        assert_eq!((measured(&counts).0, counts.timeouts.get()), (0, 1));
        reads.notify_one();
        pause(1).await;
        assert_eq!((measured(&counts).0, counts.timeouts.get()), (3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_event_counts_until_somebody_looks() {
        let latency = Latency::start(&mut Registry::default());
        assert_eq!(latency.take(), None);
        latency.event();
        let first = Instant::now();
        pause(1).await;
        latency.event();
        assert_eq!(latency.take(), Some(first));
        assert_eq!(latency.take(), None);
    }
}
