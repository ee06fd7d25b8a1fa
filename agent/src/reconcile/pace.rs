//! How often an anycast prefix may be announced: a burst, then one a second. A pod that flaps must
//! not make the routers of a fabric work for it. A withdrawal is never asked about here: it is not
//! delayed by anything.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ipnet::IpNet;

/// So many announcements at once, and then one a second.
const BURST: u32 = 64;
const APART: Duration = Duration::from_secs(1);
/// Below that it is not worth looking for buckets that are full.
const WORTH_A_LOOK: usize = 1024;

/// A bucket per prefix: when it is full again, if nothing more is taken from it. One that is full need
/// not be kept. An announcement is paid for when it is taken back, so that what is announced and stays
/// so has none.
#[derive(Debug)]
pub(super) struct Pace {
    buckets: HashMap<IpNet, Instant>,
    /// How many there may be before the full ones are looked for.
    look_at: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { buckets: HashMap::new(), look_at: WORTH_A_LOOK }
    }
}

impl Pace {
    /// Whether this prefix may be announced now; if not, how long until then.
    pub(super) fn ask(&self, prefix: &IpNet) -> Result<(), Duration> {
        self.ask_at(prefix, Instant::now())
    }

    /// It was announced, and is not any more.
    pub(super) fn withdrawn(&mut self, prefix: IpNet) {
        self.withdrawn_at(prefix, Instant::now());
    }

    fn ask_at(&self, prefix: &IpNet, now: Instant) -> Result<(), Duration> {
        let full = self.buckets.get(prefix).map_or(now, |full| (*full).max(now));
        match (full + APART).duration_since(now).checked_sub(APART * BURST) {
            Some(wait) if wait > Duration::ZERO => Err(wait),
            _ => Ok(()),
        }
    }

    fn withdrawn_at(&mut self, prefix: IpNet, now: Instant) {
        if self.buckets.len() >= self.look_at {
            self.buckets.retain(|_, full| *full > now);
            self.buckets.shrink_to(WORTH_A_LOOK);
            self.look_at = WORTH_A_LOOK.max(self.buckets.len() * 2);
        }
        let full = self.buckets.entry(prefix).or_insert(now);
        *full = (*full).max(now) + APART;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket is full again after so long.
    const FULL_AGAIN: Duration = Duration::from_secs(BURST as u64);

    #[test]
    fn a_burst_and_then_one_a_second_each_prefix_for_itself() {
        let mut now = Instant::now();
        let mut pace = Pace::default();
        let [a, b] = ["192.0.2.1/32", "2001:db8::1/128"].map(|text| text.parse().unwrap());
        let flap = |pace: &mut Pace, now| {
            assert_eq!(pace.ask_at(&a, now), Ok(()));
            pace.withdrawn_at(a, now);
        };
        for _ in 0..BURST {
            flap(&mut pace, now);
        }
        let wait = pace.ask_at(&a, now).unwrap_err();
        assert!(wait > Duration::from_millis(900) && wait <= Duration::from_secs(1), "{wait:?}");
        assert_eq!(pace.ask_at(&b, now), Ok(()), "another prefix is another's");
        now += wait;
        flap(&mut pace, now);
        assert!(pace.ask_at(&a, now).is_err());
        now += FULL_AGAIN;
        for _ in 0..BURST {
            flap(&mut pace, now);
        }
        assert!(pace.ask_at(&a, now).is_err());
    }

    #[test]
    fn buckets_that_are_full_again_are_not_kept() {
        let mut now = Instant::now();
        let mut pace = Pace::default();
        let prefix = |n: u32| IpNet::from(std::net::IpAddr::V4(n.into()));
        for n in 0..5000 {
            pace.withdrawn_at(prefix(n), now);
        }
        assert_eq!(pace.buckets.len(), 5000, "what is in use is kept");
        now += FULL_AGAIN;
        for n in 5000..15_000 {
            pace.withdrawn_at(prefix(n), now);
            now += Duration::from_millis(20);
        }
        assert!(pace.buckets.len() < 2 * WORTH_A_LOOK + 5000, "{}", pace.buckets.len());
    }
}
