//! Routes by prefix, counted by family as they come and go: whoever asks how many there are does not
//! make anybody walk through a full table.
//!
//! There are as many sets of ways as there are ways out of the node, so a set is kept once and a
//! prefix has its number. With a set of its own and in a tree a prefix took 160 bytes, and so takes
//! some 15 (IPv6: 30); the search was a third of what a full table cost. Nothing here is in order:
//! who shows it to people puts it in order.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::RandomState;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The ways of each prefix.
#[derive(Debug, Clone)]
pub(super) struct Routes<T> {
    four: HashMap<Ipv4Net, Number, RandomState>,
    six: HashMap<Ipv6Net, Number, RandomState>,
    sets: Sets<T>,
}

/// Which set, in three bytes: beside an IPv4 prefix that makes eight. There are never more sets than
/// prefixes, and no node has room for sixteen million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number([u8; 3]);

impl Number {
    fn new(place: usize) -> Self {
        let [a, b, c, ..] = place.to_le_bytes();
        Self([a, b, c])
    }

    fn place(self) -> usize {
        let [a, b, c] = self.0;
        usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16
    }
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self { four: HashMap::default(), six: HashMap::default(), sets: Sets::default() }
    }
}

impl<T: Clone + Eq + Hash> Routes<T> {
    pub(super) fn insert(&mut self, prefix: IpNet, ways: &[T]) {
        let number = self.sets.take(ways);
        let before = match prefix {
            IpNet::V4(prefix) => self.four.insert(prefix, number),
            IpNet::V6(prefix) => self.six.insert(prefix, number),
        };
        if let Some(before) = before {
            self.sets.release(before);
        }
    }

    /// Returns whether it was there.
    pub(super) fn remove(&mut self, prefix: &IpNet) -> bool {
        let gone = match prefix {
            IpNet::V4(prefix) => self.four.remove(prefix),
            IpNet::V6(prefix) => self.six.remove(prefix),
        };
        if let Some(number) = gone {
            self.sets.release(number);
            if self.is_empty() {
                // What a full table took is not kept for the next one.
                *self = Self::default();
            }
        }
        gone.is_some()
    }

    pub(super) fn get(&self, prefix: &IpNet) -> Option<&Arc<[T]>> {
        self.sets.get(self.number(prefix)?)
    }

    fn number(&self, prefix: &IpNet) -> Option<Number> {
        match prefix {
            IpNet::V4(prefix) => self.four.get(prefix).copied(),
            IpNet::V6(prefix) => self.six.get(prefix).copied(),
        }
    }

    pub(super) fn contains(&self, prefix: &IpNet) -> bool {
        self.number(prefix).is_some()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// In no order.
    pub(super) fn keys(&self) -> impl Iterator<Item = IpNet> + '_ {
        let four = self.four.keys().copied().map(IpNet::V4);
        four.chain(self.six.keys().copied().map(IpNet::V6))
    }

    /// In no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IpNet, &Arc<[T]>)> + '_ {
        let four = self.four.iter().map(|(prefix, number)| (IpNet::V4(*prefix), *number));
        let six = self.six.iter().map(|(prefix, number)| (IpNet::V6(*prefix), *number));
        four.chain(six).filter_map(|(prefix, number)| Some((prefix, self.sets.get(number)?)))
    }

    /// Each set of ways that a prefix has, once.
    pub(super) fn sets(&self) -> impl Iterator<Item = &Arc<[T]>> + '_ {
        self.sets.known.keys()
    }

    /// All of it, in order.
    pub(super) fn to_map(&self) -> BTreeMap<IpNet, Vec<T>> {
        self.iter().map(|(prefix, ways)| (prefix, ways.to_vec())).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.four.len() + self.six.len()
    }

    /// How many of IPv4, and of IPv6.
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.four.len(), self.six.len()]
    }
}

/// Sets of ways, each once, with how many prefixes have it.
#[derive(Debug, Clone)]
struct Sets<T> {
    known: HashMap<Arc<[T]>, Number, RandomState>,
    places: Vec<Option<(Arc<[T]>, usize)>>,
    free: Vec<Number>,
    /// Most prefixes have the same as the one before.
    last: Option<Number>,
}

impl<T> Default for Sets<T> {
    fn default() -> Self {
        Self { known: HashMap::default(), places: Vec::new(), free: Vec::new(), last: None }
    }
}

impl<T: Clone + Eq + Hash> Sets<T> {
    fn get(&self, number: Number) -> Option<&Arc<[T]>> {
        self.places.get(number.place())?.as_ref().map(|(ways, _)| ways)
    }

    fn take(&mut self, ways: &[T]) -> Number {
        let like_last = self.last.filter(|last| self.get(*last).is_some_and(|set| **set == *ways));
        let number = match like_last.or_else(|| self.known.get(ways).copied()) {
            Some(number) => number,
            None => self.add(ways.into()),
        };
        if let Some(Some((_, count))) = self.places.get_mut(number.place()) {
            *count += 1;
        }
        self.last = Some(number);
        number
    }

    fn add(&mut self, ways: Arc<[T]>) -> Number {
        let number = self.free.pop().unwrap_or_else(|| Number::new(self.places.len()));
        let place = Some((Arc::clone(&ways), 0));
        match self.places.get_mut(number.place()) {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
        self.known.insert(ways, number);
        number
    }

    fn release(&mut self, number: Number) {
        let Some(place) = self.places.get_mut(number.place()) else { return };
        let Some((_, count)) = place else { return };
        *count = count.saturating_sub(1);
        if *count == 0
            && let Some((ways, _)) = place.take()
        {
            self.known.remove(&ways);
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_is_counted_once() {
        let [a, b, c] = ["10.0.0.0/8", "::/0", "2001:db8::/32"].map(|net| net.parse().unwrap());
        let mut routes: Routes<u8> = Routes::default();
        routes.insert(a, &[1]);
        routes.insert(b, &[2, 3]);
        assert_eq!(routes.counts(), [1, 1]);
        routes.insert(a, &[3]);
        routes.insert(c, &[3]);
        assert_eq!((routes.counts(), routes.len()), ([1, 2], 3), "replaced, not added");
        assert_eq!(routes.get(&a).map(|ways| ways.to_vec()), Some(vec![3]));
        assert_eq!(routes.to_map(), [(a, vec![3]), (b, vec![2, 3]), (c, vec![3])].into());
        assert_eq!((routes.remove(&a), routes.remove(&a)), (true, false));
        assert!(!routes.contains(&a) && routes.contains(&c));
        assert_eq!(routes.counts(), [0, 2]);
        routes.clear();
        assert!(routes.is_empty() && routes.keys().next().is_none());
    }

    #[test]
    fn a_prefix_takes_little() {
        assert_eq!(size_of::<(Ipv4Net, Number)>(), 8);
        assert_eq!(size_of::<(Ipv6Net, Number)>(), 20);
        for place in [0, 255, 70_000, (1 << 24) - 1] {
            assert_eq!(Number::new(place).place(), place);
        }
    }

    #[test]
    fn a_set_is_kept_once_and_goes_with_the_last_prefix_that_has_it() {
        let net = |n: u32| IpNet::from(std::net::IpAddr::V4(n.into()));
        let mut routes: Routes<u8> = Routes::default();
        for n in 0..100 {
            routes.insert(net(n), if n % 2 == 0 { &[1, 2] } else { &[3] });
        }
        assert_eq!(routes.sets.known.len(), 2);
        for n in (0..100).step_by(2) {
            routes.insert(net(n), &[3]);
        }
        assert_eq!(routes.sets.known.len(), 1);
        routes.insert(net(0), &[4]);
        assert_eq!(routes.sets.places.len(), 2, "the place is used again");
        assert_eq!(routes.get(&net(0)).map(|ways| ways.to_vec()), Some(vec![4]));
        assert_eq!(routes.get(&net(1)).map(|ways| ways.to_vec()), Some(vec![3]));
        for n in 0..100 {
            assert!(routes.remove(&net(n)));
        }
        assert!(routes.sets.known.is_empty() && routes.four.capacity() == 0);
    }
}
