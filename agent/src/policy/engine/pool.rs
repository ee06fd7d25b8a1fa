//! Numbers for what is the same: decides which number a key has, and keeps numbers where it can, so
//! that a change in the kernel is small.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// Keys with numbers, each for as long as somebody uses it.
#[derive(Debug)]
pub(super) struct Pool<K> {
    numbers: HashMap<Arc<K>, u32>,
    entries: BTreeMap<u32, Entry<K>>,
    next: u32,
    /// What numbers meant when [`Pool::settle`] was called last, of those that may differ.
    touched: BTreeMap<u32, Option<Arc<K>>>,
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

impl<K: Hash + Eq> Pool<K> {
    /// Numbers begin with this one.
    pub(super) fn new(first: u32) -> Self {
        let (numbers, entries) = (HashMap::new(), BTreeMap::new());
        Self { numbers, entries, next: first, touched: BTreeMap::new() }
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
                shifts.push(Shift { number, before, after });
            }
        }
        shifts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
