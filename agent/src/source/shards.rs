//! A map as one value: a picture that is cheap to copy, to change and to compare.
//!
//! Whoever is woken looks at the whole picture again, and that must not cost more with ten thousand
//! entries than with ten. So the map is a shallow tree that pictures share: a change copies one branch
//! and one leaf of it, and two pictures differ only where they are not the same.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Branches, and leaves of each. A change copies so many pointers twice, and counts each of them: in two
/// levels, or it would be one for each of all leaves, every one of them a line that no cache has (4 us).
const FAN: usize = 16;

/// Values by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards<K: Ord, V> {
    branches: Arc<Vec<Branch<K, V>>>,
}

type Branch<K, V> = Arc<Vec<Arc<BTreeMap<K, V>>>>;

impl<K: Ord, V> Default for Shards<K, V> {
    fn default() -> Self {
        let branch: Branch<K, V> = Arc::new(vec![Arc::default(); FAN]);
        Self { branches: Arc::new(vec![branch; FAN]) }
    }
}

impl<K: Ord + Hash + Clone, V: Clone + PartialEq> Shards<K, V> {
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let (branch, leaf) = place(key);
        self.branches.get(branch)?.get(leaf)?.get(key)
    }

    /// The value of a key from now on, or none.
    pub fn set(&mut self, key: &K, value: Option<V>) {
        if self.get(key) == value.as_ref() {
            return;
        }
        let (branch, leaf) = place(key);
        let Some(branch) = Arc::make_mut(&mut self.branches).get_mut(branch) else { return };
        let Some(leaf) = Arc::make_mut(branch).get_mut(leaf) else { return };
        let leaf = Arc::make_mut(leaf);
        match value {
            Some(value) => leaf.insert(key.clone(), value),
            None => leaf.remove(key),
        };
    }

    fn leaves(&self) -> impl Iterator<Item = &Arc<BTreeMap<K, V>>> {
        self.branches.iter().flat_map(|branch| branch.iter())
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.leaves().flat_map(|leaf| leaf.iter())
    }

    /// All of them, by key: for people.
    pub fn in_order(&self) -> BTreeMap<K, V> {
        self.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.leaves().map(|leaf| leaf.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.leaves().all(|leaf| leaf.is_empty())
    }

    /// The keys whose values are not the same in both pictures.
    pub fn differing(&self, other: &Self) -> Vec<K> {
        let mut keys = Vec::new();
        let branches = self.branches.iter().zip(other.branches.iter());
        let apart = branches.filter(|(ours, theirs)| !Arc::ptr_eq(ours, theirs));
        let leaves = apart.flat_map(|(ours, theirs)| ours.iter().zip(theirs.iter()));
        for (ours, theirs) in leaves.filter(|(ours, theirs)| !Arc::ptr_eq(ours, theirs)) {
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

/// Which leaf of which branch.
fn place(key: &impl Hash) -> (usize, usize) {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let leaf = usize::try_from(hasher.finish() % (FAN * FAN) as u64).unwrap_or(0);
    (leaf / FAN, leaf % FAN)
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
        assert!(Arc::ptr_eq(&now.branches, &before.branches));

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

    /// What a change costs does not grow with what is there.
    #[test]
    fn a_change_copies_one_branch_and_one_leaf() {
        let mut now = Shards::default();
        (0..5000).for_each(|n| now.set(&n, Some(n)));
        let before = now.clone();
        now.set(&7, Some(8));
        let copied = |ours: &Branch<_, _>, theirs: &Branch<_, _>| !Arc::ptr_eq(ours, theirs);
        let branches = now.branches.iter().zip(before.branches.iter());
        assert_eq!(branches.filter(|(ours, theirs)| copied(ours, theirs)).count(), 1);
        let leaves = now.leaves().zip(before.leaves());
        assert_eq!(leaves.filter(|(ours, theirs)| !Arc::ptr_eq(ours, theirs)).count(), 1);
    }
}
