//! The pods of this node as one value: a picture that is cheap to copy, to change and to compare.
//!
//! Whoever is woken looks at the whole world again, and that must not cost more on a node with two
//! thousand pods than on one with ten. So the map is in shards that pictures share: a change copies
//! one of them, and two pictures differ only where their shards are not the same.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::{PodFacts, PodKey};
use crate::store::Allocation;

/// A copy of the picture copies this many pointers, a change the entries of one shard.
const SHARDS: usize = 128;

type Shard = BTreeMap<PodKey, Arc<PodFacts>>;

/// Pods by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pods {
    shards: Vec<Arc<Shard>>,
    /// Every pod of the node is here. Otherwise a pod needs no mention to be served.
    complete: bool,
}

impl Default for Pods {
    fn default() -> Self {
        Self { shards: vec![Arc::default(); SHARDS], complete: false }
    }
}

/// What is known of the pod behind an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind<'a> {
    /// This.
    Pod(&'a PodFacts),
    /// Nothing, and nothing has to be (standalone, no manifest): it counts as Ready.
    Unmentioned,
    /// It is not there any more, or its name is another pod's now.
    Gone,
}

impl<'a> Behind<'a> {
    /// Whether it may be sent traffic that it did not ask for: Ready, and not on its way out.
    pub fn is_ready(self) -> bool {
        match self {
            Self::Pod(pod) => pod.ready && !pod.terminating,
            Self::Unmentioned => true,
            Self::Gone => false,
        }
    }

    /// The facts, where there are some.
    pub fn facts(self) -> Option<&'a PodFacts> {
        match self {
            Self::Pod(pod) => Some(pod),
            Self::Unmentioned | Self::Gone => None,
        }
    }
}

impl Pods {
    /// None yet, of a source that knows every pod of the node.
    pub fn complete() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// The pod behind a record. A StatefulSet gives a name to one pod after the other: what is known
    /// of another uid is not known of this one.
    pub fn behind(&self, record: &Allocation) -> Behind<'_> {
        match self.get(&crate::pods::pod_key(record)) {
            Some(pod) if pod.has_uid(&record.owner_uid) => Behind::Pod(pod),
            None if !self.complete => Behind::Unmentioned,
            _ => Behind::Gone,
        }
    }

    /// The pod of this name.
    pub fn get(&self, key: &PodKey) -> Option<&Arc<PodFacts>> {
        self.shards.get(shard(key))?.get(key)
    }

    /// The pod of this name from now on, or none.
    pub fn set(&mut self, key: &PodKey, facts: Option<Arc<PodFacts>>) {
        if self.get(key) == facts.as_ref() {
            return;
        }
        let Some(shard) = self.shards.get_mut(shard(key)) else { return };
        let shard = Arc::make_mut(shard);
        match facts {
            Some(facts) => shard.insert(key.clone(), facts),
            None => shard.remove(key),
        };
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PodFacts>> {
        self.shards.iter().flat_map(|shard| shard.values())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_empty())
    }

    /// The names of the pods that are not the same in both pictures.
    pub fn differing(&self, other: &Self) -> Vec<PodKey> {
        let mut keys = Vec::new();
        for (ours, theirs) in self.shards.iter().zip(&other.shards) {
            if Arc::ptr_eq(ours, theirs) {
                continue;
            }
            let changed = ours.iter().filter(|(key, facts)| theirs.get(key) != Some(facts));
            let gone = theirs.keys().filter(|key| !ours.contains_key(key));
            keys.extend(changed.map(|(key, _)| key).chain(gone).cloned());
        }
        keys
    }
}

fn shard(key: &PodKey) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    usize::try_from(hasher.finish() % SHARDS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, ready: bool) -> (PodKey, Arc<PodFacts>) {
        let key = PodKey { namespace: "d".into(), name: name.into() };
        let facts = PodFacts {
            key: key.clone(),
            uid: String::new(),
            static_uid: None,
            annotations: BTreeMap::new(),
            app: String::new(),
            image: String::new(),
            ready,
            terminating: false,
        };
        (key, Arc::new(facts))
    }

    #[test]
    fn pictures_differ_where_pods_do() {
        let mut now = Pods::default();
        for n in 0..500 {
            let (key, facts) = pod(&n.to_string(), true);
            now.set(&key, Some(facts));
        }
        assert_eq!(now.len(), 500);
        let before = now.clone();
        // The same again, in another allocation, is no change and no copy.
        let (same, facts) = pod("7", true);
        now.set(&same, Some(facts));
        assert!(now.differing(&before).is_empty());
        assert!(now.shards.iter().zip(&before.shards).all(|(a, b)| Arc::ptr_eq(a, b)));

        let (changed, facts) = pod("7", false);
        now.set(&changed, Some(facts));
        let (new, facts) = pod("new", true);
        now.set(&new, Some(facts));
        let (gone, _) = pod("9", true);
        now.set(&gone, None);
        let mut differing = now.differing(&before);
        differing.sort();
        assert_eq!(differing, [changed.clone(), gone.clone(), new]);
        assert!(before.get(&changed).unwrap().ready, "an older picture stays as it was");
        assert!(now.get(&gone).is_none() && before.get(&gone).is_some());
        assert_ne!(now, before);
    }
}
