//! Equal texts, label sets and port lists are one allocation: the pods of a Deployment differ in little,
//! and there may be ten thousand.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use super::{PeerPod, PodFacts, PodKey};
use crate::policy::{Labels, NamedPort};

/// Below this it is not worth a look which are used.
const FEW: usize = 64;

/// What is shared by the pods of one picture.
#[derive(Debug, Default)]
pub(super) struct Pool {
    labels: Shared<Labels>,
    ports: Shared<[NamedPort]>,
    /// Of namespaces, images and whatever else many pods have in common.
    texts: Shared<str>,
}

impl Pool {
    /// Has a pod share what others have, too.
    pub(super) fn facts(&mut self, mut pod: PodFacts) -> Arc<PodFacts> {
        pod.labels = self.labels.one(pod.labels);
        pod.ports = self.ports.one(pod.ports);
        pod.key = self.key(pod.key);
        pod.image = self.texts.one(pod.image);
        pod.app = match pod.app == pod.key.name {
            true => pod.key.name.clone(),
            false => self.texts.one(pod.app),
        };
        Arc::new(pod)
    }

    /// A pod's name, with the namespace that others are in, too.
    pub(super) fn key(&mut self, key: PodKey) -> PodKey {
        PodKey { namespace: self.texts.one(key.namespace), name: key.name }
    }

    /// The same for a pod of any node.
    pub(super) fn peer(&mut self, mut pod: PeerPod) -> Arc<PeerPod> {
        pod.labels = self.labels.one(pod.labels);
        pod.ports = self.ports.one(pod.ports);
        Arc::new(pod)
    }
}

/// One of each. What nobody else holds any more goes when there are twice as many as after the last
/// look, so that looking costs little per entry.
#[derive(Debug)]
struct Shared<T: ?Sized> {
    all: HashSet<Arc<T>>,
    look_at: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { all: HashSet::new(), look_at: FEW }
    }
}

impl<T: Eq + Hash + ?Sized> Shared<T> {
    fn one(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.all.get(&value) {
            return known.clone();
        }
        if self.all.len() >= self.look_at {
            self.all.retain(|known| Arc::strong_count(known) > 1);
            self.all.shrink_to_fit();
            self.look_at = (self.all.len() * 2).max(FEW);
        }
        self.all.insert(value.clone());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_are_one_and_the_unused_go() {
        let mut shared: Shared<str> = Shared::default();
        let first = shared.one("a".into());
        let second = shared.one("a".into());
        assert!(Arc::ptr_eq(&first, &second));
        for n in 0..100 * FEW {
            shared.one(n.to_string().into());
        }
        assert!(shared.all.len() <= 2 * FEW, "{}", shared.all.len());
        assert!(Arc::ptr_eq(&first, &shared.one("a".into())), "it is in use");
    }
}
