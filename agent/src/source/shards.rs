//! A map as one value: a picture that is cheap to copy, to change and to compare.
//!
//! Whoever is woken looks at the whole picture again, and that must not cost more with ten thousand
//! entries than with ten. So the map is in shards that pictures share: a change copies one of them,
//! and two pictures differ only where their shards are not the same.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// A change copies this many pointers and the entries of one shard; a copy of the picture, one.
const SHARDS: usize = 128;

/// Values by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards<K: Ord, V> {
    shards: Arc<Vec<Arc<BTreeMap<K, V>>>>,
}

impl<K: Ord, V> Default for Shards<K, V> {
    fn default() -> Self {
        let shards = std::iter::repeat_with(Arc::default).take(SHARDS);
        Self { shards: Arc::new(shards.collect()) }
    }
}

impl<K: Ord + Hash + Clone, V: Clone + PartialEq> Shards<K, V> {
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.shards.get(shard(key))?.get(key)
    }

    /// The value of a key from now on, or none.
    pub fn set(&mut self, key: &K, value: Option<V>) {
        if self.get(key) == value.as_ref() {
            return;
        }
        let shards = Arc::make_mut(&mut self.shards);
        let Some(shard) = shards.get_mut(shard(key)) else { return };
        let shard = Arc::make_mut(shard);
        match value {
            Some(value) => shard.insert(key.clone(), value),
            None => shard.remove(key),
        };
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    /// All of them, by key: for people.
    pub fn in_order(&self) -> BTreeMap<K, V> {
        self.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_empty())
    }

    /// The keys whose values are not the same in both pictures.
    pub fn differing(&self, other: &Self) -> Vec<K> {
        let mut keys = Vec::new();
        for (ours, theirs) in self.shards.iter().zip(other.shards.iter()) {
            if Arc::ptr_eq(ours, theirs) {
                continue;
            }
            let changed = ours.iter().filter(|(key, value)| theirs.get(key) != Some(value));
            let gone = theirs.keys().filter(|key| !ours.contains_key(key));
            keys.extend(changed.map(|(key, _)| key).chain(gone).cloned());
        }
        keys
    }
}

impl<K: Ord + Hash + Clone, V: Clone + PartialEq> FromIterator<(K, V)> for Shards<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut all = Self::default();
        entries.into_iter().for_each(|(key, value)| all.set(&key, Some(value)));
        all
    }
}

fn shard(key: &impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    usize::try_from(hasher.finish() % SHARDS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_differ_where_their_entries_do() {
        let mut now = Shards::default();
        for n in 0..500 {
            now.set(&n, Some(Arc::new(true)));
        }
        assert_eq!(now.len(), 500);
        let before = now.clone();
        // The same again, in another allocation, is no change and no copy.
        now.set(&7, Some(Arc::new(true)));
        assert!(now.differing(&before).is_empty());
        assert!(now.shards.iter().zip(before.shards.iter()).all(|(a, b)| Arc::ptr_eq(a, b)));

        now.set(&7, Some(Arc::new(false)));
        now.set(&1000, Some(Arc::new(true)));
        now.set(&9, None);
        let mut differing = now.differing(&before);
        differing.sort_unstable();
        assert_eq!(differing, [7, 9, 1000]);
        assert!(**before.get(&7).unwrap(), "an older picture stays as it was");
        assert!(now.get(&9).is_none() && before.get(&9).is_some());
        assert_ne!(now, before);
    }
}
