//! How many lines of one kind there may be. A peer that flaps or a runtime that fails all day must
//! not fill the disk, nor hide what others have to say: each place in the program that writes a line
//! has an allowance, of its own for every peer. What is beyond it is counted, and the count is told.
//!
//! Lines for developers (debug, trace) are not counted: somebody asked for them.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// So many at once, and then one each `every`.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    burst: u32,
    every: Duration,
}

/// Troubles: fifty at once, then ten a second.
const TROUBLES: Allowance = Allowance { burst: 50, every: Duration::from_millis(100) };
/// Life events: a node full of pods that all start at once, then a hundred a second.
const EVENTS: Allowance = Allowance { burst: 2000, every: Duration::from_millis(10) };
/// Kinds that are remembered; peers have names, and somebody may have many.
const KINDS: usize = 4096;

/// What belongs to one kind of line.
#[derive(Debug)]
struct Kind {
    /// When the allowance is whole again.
    whole_at: Instant,
    left_out: u64,
    line: String,
    peer: Option<String>,
}

impl Kind {
    /// Whether one more may be now.
    fn admit(&mut self, now: Instant, allowance: Allowance) -> bool {
        let whole_at = self.whole_at.max(now);
        if whole_at - now >= allowance.every * allowance.burst {
            return false;
        }
        self.whole_at = whole_at + allowance.every;
        true
    }
}

/// Lines that were left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) line: String,
    pub(super) peer: Option<String>,
    pub(super) count: u64,
}

/// Counts lines. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Flood {
    kinds: Arc<Mutex<HashMap<(Identifier, u64), Kind>>>,
    left_out: Arc<Notify>,
}

impl Flood {
    /// Returns when a line has been left out.
    pub(super) async fn something_left_out(&self) {
        self.left_out.notified().await;
    }

    /// What was left out since this was last asked.
    pub(super) fn take(&self) -> Vec<LeftOut> {
        let mut kinds = self.kinds();
        let mut left: Vec<LeftOut> = kinds
            .values_mut()
            .filter(|kind| kind.left_out > 0)
            .map(|kind| LeftOut {
                line: kind.line.clone(),
                peer: kind.peer.clone(),
                count: std::mem::take(&mut kind.left_out),
            })
            .collect();
        left.sort_by(|a, b| (&a.line, &a.peer).cmp(&(&b.line, &b.peer)));
        left
    }

    fn kinds(&self) -> MutexGuard<'_, HashMap<(Identifier, u64), Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, event: &Event<'_>, now: Instant) -> bool {
        let allowance = match *event.metadata().level() {
            Level::ERROR | Level::WARN => TROUBLES,
            Level::INFO => EVENTS,
            _ => return true,
        };
        let mut about = About::default();
        event.record(&mut about);
        let mut hasher = DefaultHasher::new();
        about.peer.hash(&mut hasher);
        let key = (event.metadata().callsite(), hasher.finish());
        let mut kinds = self.kinds();
        if kinds.len() >= KINDS && !kinds.contains_key(&key) {
            kinds.retain(|_, kind| kind.left_out > 0 || kind.whole_at > now);
        }
        let kind = kinds.entry(key).or_insert_with(|| Kind {
            whole_at: now,
            left_out: 0,
            line: about.line,
            peer: about.peer,
        });
        let admitted = kind.admit(now, allowance);
        if !admitted {
            kind.left_out += 1;
            self.left_out.notify_one();
        }
        admitted
    }
}

impl<S: Subscriber> Layer<S> for Flood {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.admit(event, Instant::now())
    }
}

/// What a line is about.
#[derive(Debug, Default)]
struct About {
    line: String,
    peer: Option<String>,
}

impl Visit for About {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "peer" {
            self.peer = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.line = format!("{value:?}"),
            "peer" => self.peer = Some(format!("{value:?}")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn an_allowance_is_spent_and_comes_back() {
        let start = Instant::now();
        let mut kind = Kind { whole_at: start, left_out: 0, line: String::new(), peer: None };
        let allowance = Allowance { burst: 3, every: Duration::from_secs(1) };
        let mut admitted = |after: u64| kind.admit(start + Duration::from_secs(after), allowance);
        assert_eq!([0, 0, 0, 0, 0].map(&mut admitted), [true, true, true, false, false]);
        assert_eq!([1, 1, 2].map(&mut admitted), [true, false, true]);
        assert_eq!([60, 60, 60, 60].map(&mut admitted), [true, true, true, false]);
    }

    #[test]
    fn a_flood_of_one_peer_hides_nobody_else() {
        let flood = Flood::default();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let subscriber =
            tracing_subscriber::registry().with(flood.clone()).with(Seen(seen.clone()));
        tracing::subscriber::with_default(subscriber, || {
            for n in 0..1000 {
                down("tor-a");
                if n % 500 == 0 {
                    down("tor-b");
                    tracing::error!("another kind");
                }
                tracing::debug!("for developers");
            }
        });
        let seen = seen.lock().unwrap();
        let count = |line: &str| seen.iter().filter(|about| about.as_str() == line).count();
        let burst = usize::try_from(TROUBLES.burst).unwrap();
        let of_a = count("session down of tor-a");
        assert!((burst..burst + 20).contains(&of_a), "{of_a}");
        assert_eq!((count("session down of tor-b"), count("another kind of ")), (2, 2));
        assert_eq!(count("for developers of "), 1000);
        let left = flood.take();
        let told = LeftOut {
            line: "session down".into(),
            peer: Some("tor-a".into()),
            count: u64::try_from(1000 - of_a).unwrap(),
        };
        assert_eq!(left, [told]);
        assert_eq!(flood.take(), []);
    }

    fn down(peer: &str) {
        tracing::warn!(peer, "session down");
    }

    struct Seen(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Seen {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut about = About::default();
            event.record(&mut about);
            let line = format!("{} of {}", about.line, about.peer.unwrap_or_default());
            self.0.lock().unwrap().push(line);
        }
    }
}
