//! When to look at a prefix again. Kept by time as well as by prefix: thousands of withdrawn addresses
//! linger while others change, and neither "what is due" nor "when is the next" may cost a look at
//! all of them.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use tokio::time::Instant;

/// One time for each prefix, the earliest that was asked for.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    at: BTreeMap<IpNet, Instant>,
    by_time: BTreeSet<(Instant, IpNet)>,
}

impl Agenda {
    /// Not later than this.
    pub(super) fn add(&mut self, prefix: IpNet, at: Instant) {
        let known = self.at.get(&prefix).copied();
        if known.is_some_and(|known| known <= at) {
            return;
        }
        if let Some(known) = known {
            self.by_time.remove(&(known, prefix));
        }
        self.at.insert(prefix, at);
        self.by_time.insert((at, prefix));
    }

    /// Takes the prefixes whose time has come.
    pub(super) fn due(&mut self, now: Instant) -> BTreeSet<IpNet> {
        let mut due = BTreeSet::new();
        while let Some((_, prefix)) = self.by_time.first().copied().filter(|(at, _)| *at <= now) {
            self.by_time.pop_first();
            self.at.remove(&prefix);
            due.insert(prefix);
        }
        due
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// When this prefix is.
    pub(super) fn of(&self, prefix: &IpNet) -> Option<Instant> {
        self.at.get(prefix).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_due_is_taken_once_and_the_earliest_time_counts() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let [a, b, c]: [IpNet; 3] =
            ["192.0.2.1/32", "192.0.2.2/32", "2001:db8::/64"].map(|text| text.parse().unwrap());
        let mut agenda = Agenda::default();
        assert_eq!(agenda.next(), None);
        for (prefix, seconds) in [(a, 5), (b, 2), (c, 9), (a, 7), (c, 3)] {
            agenda.add(prefix, at(seconds));
        }
        assert_eq!((agenda.of(&a), agenda.of(&c)), (Some(at(5)), Some(at(3))));
        assert_eq!(agenda.next(), Some(at(2)));
        assert!(agenda.due(at(1)).is_empty());
        assert_eq!(agenda.due(at(3)), BTreeSet::from([b, c]));
        assert_eq!((agenda.of(&b), agenda.next()), (None, Some(at(5))));
        agenda.add(b, at(4));
        assert_eq!(agenda.due(at(9)), BTreeSet::from([a, b]));
        assert!(agenda.at.is_empty() && agenda.by_time.is_empty(), "{agenda:?}");
    }
}
