//! How often: connections that come and connections that we open. Decides the figures; `listener`
//! and `dial` ask.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// So many at once, and then so many a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// At once.
    pub burst: NonZeroU32,
    /// A second, after that.
    pub per_second: NonZeroU32,
}

impl Rate {
    /// `burst` at once, then `per_second`; a zero counts as one.
    pub const fn new(burst: u32, per_second: u32) -> Self {
        Self { burst: at_least_one(burst), per_second: at_least_one(per_second) }
    }
}

const fn at_least_one(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => NonZeroU32::MIN,
    }
}

/// What is paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Connections taken from the kernel, whoever they are from. What comes faster waits there.
    pub accepts: Rate,
    /// Connections from one peer. What comes faster is closed.
    pub accepts_of_peer: Rate,
    /// Connections that we open. What should go faster waits.
    pub dials: Rate,
}

impl Default for Pace {
    /// Taking a connection and closing it costs some 10 µs, so a flood costs about 1 % of a core.
    /// A peer that comes and goes is damped by the speaker too (RFC 4271 §8.1.1).
    fn default() -> Self {
        Self {
            accepts: Rate::new(200, 1000),
            accepts_of_peer: Rate::new(20, 5),
            dials: Rate::new(256, 64),
        }
    }
}

/// The monotonic clock and not the default one, which spends up to 200 ms on measuring itself.
type Governor =
    RateLimiter<NotKeyed, InMemoryState, MonotonicClock, NoOpMiddleware<std::time::Instant>>;

/// Keeps a [`Rate`].
#[derive(Debug)]
pub(crate) struct Limiter(Governor);

impl Limiter {
    pub(crate) fn new(rate: Rate) -> Self {
        let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
        Self(RateLimiter::direct_with_clock(quota, MonotonicClock))
    }

    /// Whether one more may be now; if not, how long until then.
    pub(crate) fn check(&self) -> Result<(), Duration> {
        self.0.check().map_err(|not_until| not_until.wait_time_from(MonotonicClock.now()))
    }

    /// Waits until one more may be.
    pub(crate) async fn wait(&self) {
        while let Err(wait) = self.check() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_a_wait() {
        let limiter = Limiter::new(Rate::new(3, 1));
        assert_eq!([limiter.check(), limiter.check(), limiter.check()], [Ok(()); 3]);
        let wait = limiter.check().unwrap_err();
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(1), "{wait:?}");
    }

    #[test]
    fn zero_counts_as_one() {
        assert_eq!(Rate::new(0, 0), Rate::new(1, 1));
    }
}
