//! How often an anycast prefix may be announced: a burst, then one a second. A pod that flaps must
//! not make the routers of a fabric work for it. A withdrawal is never asked about here: it is not
//! delayed by anything.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use ipnet::IpNet;

/// So many announcements at once, and then one a second.
const BURST: NonZeroU32 = NonZeroU32::new(64).unwrap();
/// After so long without an announcement a bucket is full again, and need not be kept.
const FULL_AGAIN: Duration = Duration::from_secs(BURST.get() as u64);
/// Below that it is not worth looking for buckets that are full.
const WORTH_A_LOOK: usize = 1024;

type Limiter<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// A bucket per prefix.
pub(super) struct Pace<C: Clock = MonotonicClock> {
    clock: C,
    buckets: HashMap<IpNet, (Limiter<C>, C::Instant)>,
    /// How many there may be before the full ones are looked for.
    look_at: usize,
}

impl Default for Pace {
    // The monotonic clock and not governor's default, which spends up to 200 ms on measuring itself.
    fn default() -> Self {
        Self::new(MonotonicClock)
    }
}

impl<C: Clock + Clone> Pace<C> {
    fn new(clock: C) -> Self {
        Self { clock, buckets: HashMap::new(), look_at: WORTH_A_LOOK }
    }

    /// Whether this prefix may be announced now; if not, how long until then.
    pub(super) fn ask(&mut self, prefix: IpNet) -> Result<(), Duration> {
        let now = self.clock.now();
        if self.buckets.len() >= self.look_at {
            self.buckets
                .retain(|_, (_, used)| Duration::from(now.duration_since(*used)) < FULL_AGAIN);
            self.look_at = WORTH_A_LOOK.max(self.buckets.len() * 2);
        }
        let clock = self.clock.clone();
        let (limiter, used) = self.buckets.entry(prefix).or_insert_with(|| {
            let quota = Quota::per_second(NonZeroU32::MIN).allow_burst(BURST);
            (RateLimiter::direct_with_clock(quota, clock), now)
        });
        limiter.check().map_err(|not_until| not_until.wait_time_from(now))?;
        *used = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_burst_and_then_one_a_second_each_prefix_for_itself() {
        let clock = FakeRelativeClock::default();
        let mut pace = Pace::new(clock.clone());
        let [a, b] = ["192.0.2.1/32", "2001:db8::1/128"].map(|text| text.parse().unwrap());
        for _ in 0..BURST.get() {
            assert_eq!(pace.ask(a), Ok(()));
        }
        let wait = pace.ask(a).unwrap_err();
        assert!(wait > Duration::from_millis(900) && wait <= Duration::from_secs(1), "{wait:?}");
        assert_eq!(pace.ask(b), Ok(()), "another prefix is another's");
        clock.advance(wait);
        assert_eq!(pace.ask(a), Ok(()));
        assert!(pace.ask(a).is_err());
        clock.advance(FULL_AGAIN);
        for _ in 0..BURST.get() {
            assert_eq!(pace.ask(a), Ok(()));
        }
        assert!(pace.ask(a).is_err());
    }

    #[test]
    fn buckets_that_are_full_again_are_not_kept() {
        let clock = FakeRelativeClock::default();
        let mut pace = Pace::new(clock.clone());
        let prefix = |n: u32| IpNet::from(std::net::IpAddr::V4(n.into()));
        for n in 0..5000 {
            pace.ask(prefix(n)).unwrap();
        }
        assert_eq!(pace.buckets.len(), 5000, "what is in use is kept");
        clock.advance(FULL_AGAIN);
        for n in 5000..15_000 {
            pace.ask(prefix(n)).unwrap();
            clock.advance(Duration::from_millis(20));
        }
        assert!(pace.buckets.len() < 2 * WORTH_A_LOOK + 5000, "{}", pace.buckets.len());
    }
}
