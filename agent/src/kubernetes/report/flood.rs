//! How many Events there may be: a few of a kind at once and then one now and then, so that a peer that
//! flaps, or a thousand pods that find no address, do not fill the API server. What was left out is counted
//! and said with the next.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::notes::{Note, Reason};

/// Of one kind and one peer.
const FEW: NonZeroU32 = NonZeroU32::new(5).unwrap();
const OF_A_KIND: Duration = Duration::from_secs(60);
/// That a pool is full is one story, however many pods tell it.
const RARELY: Duration = Duration::from_secs(600);
/// Of the whole node: more peers than these do not go down for more than one reason.
const MANY: NonZeroU32 = NonZeroU32::new(32).unwrap();
const OF_ALL: Duration = Duration::from_secs(5);
/// Kinds that are remembered. A NodeConfig has fewer peers, but their names may change.
const KINDS: usize = 512;

type Limiter<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;
type Kind = (Reason, Option<Arc<str>>);

/// A bucket for each kind, and one for all.
pub(super) struct Flood<C: Clock = MonotonicClock> {
    clock: C,
    all: Limiter<C>,
    kinds: HashMap<Kind, Bucket<C>>,
}

struct Bucket<C: Clock> {
    limiter: Limiter<C>,
    left_out: u32,
}

impl Default for Flood {
    // The monotonic clock and not governor's default, which spends up to 200 ms on measuring itself.
    fn default() -> Self {
        Self::new(MonotonicClock)
    }
}

impl<C: Clock + Clone> Flood<C> {
    fn new(clock: C) -> Self {
        let all = quota(OF_ALL, MANY);
        let all = RateLimiter::direct_with_clock(all, clock.clone());
        Self { clock, all, kinds: HashMap::new() }
    }

    /// Whether it may be told; if so, how many of its kind were left out before it.
    pub(super) fn admits(&mut self, note: &Note) -> Option<u32> {
        let kind = (note.reason, note.peer.clone());
        if self.kinds.len() >= KINDS && !self.kinds.contains_key(&kind) {
            self.kinds.clear();
        }
        let quota = match note.reason {
            Reason::PoolExhausted | Reason::PolicyFailed => quota(RARELY, NonZeroU32::MIN),
            _ => quota(OF_A_KIND, FEW),
        };
        let clock = self.clock.clone();
        let bucket = self.kinds.entry(kind).or_insert_with(|| Bucket {
            limiter: RateLimiter::direct_with_clock(quota, clock),
            left_out: 0,
        });
        if bucket.limiter.check().is_ok() && self.all.check().is_ok() {
            Some(std::mem::take(&mut bucket.left_out))
        } else {
            bucket.left_out = bucket.left_out.saturating_add(1);
            None
        }
    }
}

/// One each `every`, and so many at once.
fn quota(every: Duration, burst: NonZeroU32) -> Quota {
    Quota::with_period(every).unwrap_or(Quota::per_hour(NonZeroU32::MIN)).allow_burst(burst)
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn note(reason: Reason, peer: &str) -> Note {
        Note { reason, peer: Some(peer.into()), words: String::new() }
    }

    #[test]
    fn a_flapping_peer_is_told_a_few_times_and_then_now_and_then() {
        let clock = FakeRelativeClock::default();
        let mut flood = Flood::new(clock.clone());
        let flap = note(Reason::SessionDown, "tor-a");
        let told = (0..100).filter(|_| flood.admits(&flap).is_some()).count();
        assert_eq!(told, 5);
        assert_eq!(flood.admits(&note(Reason::SessionUp, "tor-a")), Some(0), "another kind");
        assert_eq!(flood.admits(&note(Reason::SessionDown, "tor-b")), Some(0), "another peer");
        clock.advance(OF_A_KIND);
        assert_eq!(flood.admits(&flap), Some(95), "what was left out is said");
        assert_eq!(flood.admits(&flap), None);
    }

    #[test]
    fn a_full_pool_is_one_story() {
        let clock = FakeRelativeClock::default();
        let mut flood = Flood::new(clock.clone());
        let full = Note { reason: Reason::PoolExhausted, peer: None, words: String::new() };
        assert_eq!((0..1000).filter(|_| flood.admits(&full).is_some()).count(), 1);
        clock.advance(RARELY - Duration::from_secs(1));
        assert_eq!(flood.admits(&full), None);
        clock.advance(Duration::from_secs(1));
        assert_eq!(flood.admits(&full), Some(1000));
    }

    #[test]
    fn names_without_end_are_not_remembered_without_end() {
        let mut flood = Flood::new(FakeRelativeClock::default());
        let names = || (0..2000).map(|n| note(Reason::SessionDown, &n.to_string()));
        let told = names().filter(|note| flood.admits(note).is_some()).count();
        assert_eq!(told, 32, "of the whole node");
        assert!(flood.kinds.len() <= KINDS);
    }
}
