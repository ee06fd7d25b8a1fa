//! Numbers for what is the same: decides which number a key has, and keeps numbers where it can, so
//! that a change in the kernel is small. Tells, too, which keys speak of something, so that a change of
//! that is no look at all of them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// What speaks of peers and of names of ports, by their numbers.
pub(super) trait Mentions {
    /// Those, in order, nothing twice.
    fn mentions(&self) -> Vec<u32>;
}

/// Keys with numbers, each for as long as somebody uses it.
#[derive(Debug)]
pub(super) struct Pool<K> {
    numbers: HashMap<Arc<K>, u32>,
    entries: BTreeMap<u32, Entry<K>>,
    next: u32,
    /// What numbers meant when [`Pool::settle`] was called last, of those that may differ.
    touched: BTreeMap<u32, Option<Arc<K>>>,
    /// What is mentioned, and by the key of which number, as of the last [`Pool::settle`].
    mentioned: BTreeSet<(u32, u32)>,
}

#[derive(Debug)]
struct Entry<K> {
    key: Arc<K>,
    uses: u32,
}

/// A number means something else, or something for the first time, or nothing any more.
#[derive(Debug)]
pub(super) struct Shift<K> {
    pub(super) number: u32,
    pub(super) before: Option<Arc<K>>,
    pub(super) after: Option<Arc<K>>,
}

impl<K: Hash + Eq + Mentions> Pool<K> {
    /// Numbers begin with this one.
    pub(super) fn new(first: u32) -> Self {
        let (numbers, entries) = (HashMap::new(), BTreeMap::new());
        let (touched, mentioned) = (BTreeMap::new(), BTreeSet::new());
        Self { numbers, entries, next: first, touched, mentioned }
    }

    /// The numbers of the keys that mention any of these, as of the last [`Pool::settle`].
    pub(super) fn mentioning(&self, things: &BTreeSet<u32>) -> BTreeSet<u32> {
        let of = |thing: &u32| self.mentioned.range((*thing, 0)..=(*thing, u32::MAX));
        things.iter().flat_map(of).map(|(_, number)| *number).collect()
    }

    /// What a number means.
    pub(super) fn get(&self, number: u32) -> Option<&Arc<K>> {
        self.entries.get(&number).map(|entry| &entry.key)
    }

    /// All of them, in order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<K>)> {
        self.entries.iter().map(|(number, entry)| (*number, &entry.key))
    }

    /// Whether a key has a number.
    pub(super) fn knows(&self, key: &K) -> bool {
        self.numbers.contains_key(key)
    }

    /// The same key, where it is known, so that it is in memory once.
    pub(super) fn share(&self, key: K) -> Arc<K> {
        let known = self.numbers.get_key_value(&key).map(|(known, _)| known.clone());
        known.unwrap_or_else(|| Arc::new(key))
    }

    /// One who used a number does not any more. What nobody uses goes with [`Pool::settle`].
    pub(super) fn release(&mut self, number: u32) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.uses = entry.uses.saturating_sub(1);
        if entry.uses == 0 {
            self.touched.entry(number).or_insert_with(|| Some(entry.key.clone()));
        }
    }

    /// The number of a key for one who uses it from now on. A key that is new takes over the number
    /// that was released by the same user, if nobody else has that.
    pub(super) fn adopt(&mut self, released: Option<u32>, key: Arc<K>) -> u32 {
        if let Some(number) = self.numbers.get(&key).copied() {
            if let Some(entry) = self.entries.get_mut(&number) {
                entry.uses = entry.uses.saturating_add(1);
            }
            return number;
        }
        let unused = |number: &u32| self.entries.get(number).is_some_and(|entry| entry.uses == 0);
        let number = released.filter(unused).unwrap_or_else(|| {
            let number = self.next;
            self.next = self.next.wrapping_add(1);
            self.touched.entry(number).or_insert(None);
            number
        });
        self.numbers.insert(key.clone(), number);
        if let Some(before) = self.entries.insert(number, Entry { key, uses: 1 }) {
            self.numbers.remove(&before.key);
        }
        number
    }

    /// Forgets what nobody uses, and tells what differs since the last call.
    pub(super) fn settle(&mut self) -> Vec<Shift<K>> {
        let mut shifts = Vec::new();
        for (number, before) in std::mem::take(&mut self.touched) {
            if self.entries.get(&number).is_some_and(|entry| entry.uses == 0)
                && let Some(gone) = self.entries.remove(&number)
            {
                self.numbers.remove(&gone.key);
            }
            let after = self.get(number).cloned();
            if before != after {
                self.note(number, before.as_deref(), after.as_deref());
                shifts.push(Shift { number, before, after });
            }
        }
        shifts
    }

    fn note(&mut self, number: u32, before: Option<&K>, after: Option<&K>) {
        let things = |key: Option<&K>| key.map(K::mentions).unwrap_or_default();
        let (before, after) = (things(before), things(after));
        for (thing, comes) in only_in_one(&before, &after) {
            match comes {
                true => self.mentioned.insert((*thing, number)),
                false => self.mentioned.remove(&(*thing, number)),
            };
        }
    }
}

/// What is in one of two lists only, each in order and with nothing twice; with whether it is the
/// second.
pub(super) fn only_in_one<'a, T: Ord>(
    first: &'a [T],
    second: &'a [T],
) -> impl Iterator<Item = (&'a T, bool)> {
    let (mut first, mut second) = (first.iter().peekable(), second.iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let order = match (first.peek(), second.peek()) {
                (Some(one), Some(other)) => one.cmp(other),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            match order {
                Ordering::Less => return first.next().map(|one| (one, false)),
                Ordering::Greater => return second.next().map(|one| (one, true)),
                Ordering::Equal => {
                    first.next();
                    second.next();
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each letter is a thing that it mentions.
    impl Mentions for &str {
        fn mentions(&self) -> Vec<u32> {
            self.bytes().collect::<BTreeSet<u8>>().into_iter().map(u32::from).collect()
        }
    }

    #[test]
    fn who_mentions_what_is_known() {
        let mut pool: Pool<&str> = Pool::new(1);
        let who = |pool: &Pool<&str>, things: &str| {
            let things = things.bytes().map(u32::from).collect();
            pool.mentioning(&things).into_iter().collect::<Vec<_>>()
        };
        let [one, two] = ["ab", "bc"].map(|key| pool.adopt(None, Arc::new(key)));
        pool.settle();
        assert_eq!(who(&pool, "a"), [one]);
        assert_eq!(who(&pool, "b"), [one, two]);
        assert_eq!(who(&pool, "ac"), [one, two]);
        assert!(who(&pool, "d").is_empty());
        pool.release(one);
        assert_eq!(pool.adopt(Some(one), Arc::new("bd")), one);
        pool.settle();
        assert_eq!((who(&pool, "a"), who(&pool, "bd")), (vec![], vec![one, two]));
        pool.release(one);
        pool.settle();
        assert_eq!((who(&pool, "d"), who(&pool, "b")), (vec![], vec![two]));
        pool.release(two);
        pool.settle();
        assert!(pool.mentioned.is_empty());
    }

    #[test]
    fn what_two_lists_do_not_share() {
        type Case = (&'static [u8], &'static [u8], &'static [(u8, bool)]);
        let cases: [Case; 5] = [
            (&[], &[], &[]),
            (&[1, 2], &[1, 2], &[]),
            (&[1, 3], &[], &[(1, false), (3, false)]),
            (&[1, 3, 5], &[2, 3, 6], &[(1, false), (2, true), (5, false), (6, true)]),
            (&[4], &[1, 4, 9], &[(1, true), (9, true)]),
        ];
        for (first, second, expected) in cases {
            let found: Vec<_> =
                only_in_one(first, second).map(|(one, side)| (*one, side)).collect();
            assert_eq!(found, expected, "{first:?} {second:?}");
        }
    }

    #[test]
    fn numbers_stay_where_they_can() {
        let mut pool: Pool<&str> = Pool::new(2);
        let (a, b) = (pool.adopt(None, Arc::new("a")), pool.adopt(None, Arc::new("b")));
        assert_eq!((a, b, pool.adopt(None, Arc::new("a"))), (2, 3, 2));
        assert_eq!(pool.settle().len(), 2);
        // Its only user means something else now: the number means that.
        pool.release(b);
        assert_eq!(pool.adopt(Some(b), Arc::new("c")), b);
        let shift = pool.settle().remove(0);
        assert_eq!(
            (shift.number, shift.before.as_deref(), shift.after.as_deref()),
            (b, Some(&"b"), Some(&"c"))
        );
        assert!(!pool.knows(&"b") && pool.knows(&"c"));
        // One of two users: the other keeps the number.
        pool.release(a);
        let d = pool.adopt(Some(a), Arc::new("d"));
        assert!(d > b);
        // Released and taken again: nothing happened.
        pool.settle();
        pool.release(d);
        assert_eq!(pool.adopt(None, Arc::new("d")), d);
        assert!(pool.settle().is_empty());
        pool.release(d);
        pool.release(a);
        assert_eq!(pool.settle().len(), 2);
        assert_eq!(pool.iter().count(), 1);
    }
}
