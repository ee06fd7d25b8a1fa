//! What a peer can cause as often as it likes is counted always and told at most once a second: a
//! peer must not fill our log. What was not told is not forgotten: the last of it is told when the
//! second is over.

use std::time::Duration;

use crate::event::Now;

/// Between two notices of a kind about a peer.
pub(crate) const APART: Duration = Duration::from_secs(1);

/// How often something happened, and the one case that stands for all: the least, which is the one
/// that says most where they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally<T> {
    count: u64,
    least: Option<T>,
}

impl<T> Default for Tally<T> {
    fn default() -> Self {
        Self { count: 0, least: None }
    }
}

impl<T: Ord + Copy> Tally<T> {
    /// It happened.
    pub(crate) fn add(&mut self, one: T) {
        self.absorb(Self { count: 1, least: Some(one) });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn absorb(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.least = self.least.into_iter().chain(other.least).min();
    }
}

/// What happened with a peer, and what of it people have heard.
#[derive(Debug)]
pub(crate) struct Paced<T> {
    /// Since the peer is known.
    pub(crate) count: u64,
    untold: Tally<T>,
    told: Option<Now>,
}

impl<T> Default for Paced<T> {
    fn default() -> Self {
        Self { count: 0, untold: Tally::default(), told: None }
    }
}

impl<T: Ord + Copy> Paced<T> {
    /// These happened.
    pub(crate) fn happened(&mut self, tally: Tally<T>) {
        self.count = self.count.saturating_add(tally.count);
        self.untold.absorb(tally);
    }

    /// What is to be told now: one case, and how many others were not told.
    pub(crate) fn take(&mut self, now: Now) -> Option<(T, u64)> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        let Tally { count, least } = std::mem::take(&mut self.untold);
        self.told = Some(now);
        Some((least?, count.saturating_sub(1)))
    }

    /// From when on something is to be told.
    pub(crate) fn due(&self) -> Option<Now> {
        self.untold.least?;
        Some(self.told.map_or(Now::default(), |told| told.after(APART)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Now {
        Now(Duration::from_millis(millis))
    }

    fn tally(of: &[u32]) -> Tally<u32> {
        let mut tally = Tally::default();
        for one in of {
            tally.add(*one);
        }
        tally
    }

    #[test]
    fn the_first_is_told_at_once_and_the_rest_a_second_later() {
        let mut paced = Paced::default();
        assert_eq!((paced.due(), paced.take(at(10))), (None, None));
        paced.happened(tally(&[7, 3, 9]));
        assert_eq!(paced.take(at(10)), Some((3, 2)));
        assert_eq!((paced.due(), paced.take(at(5_000))), (None, None), "all was told");
        paced.happened(tally(&[8]));
        assert_eq!(paced.take(at(5_000)), Some((8, 0)), "it was long ago");
        paced.happened(tally(&[5]));
        paced.happened(tally(&[4, 6]));
        assert_eq!(paced.take(at(5_999)), None);
        assert_eq!(paced.due(), Some(at(6_000)));
        assert_eq!(paced.take(at(6_000)), Some((4, 2)));
        assert_eq!((paced.due(), paced.count), (None, 7));
    }

    #[test]
    fn nothing_is_no_news() {
        let mut paced = Paced::<u32>::default();
        paced.happened(Tally::default());
        assert_eq!((paced.take(at(1)), paced.count), (None, 0));
    }
}
