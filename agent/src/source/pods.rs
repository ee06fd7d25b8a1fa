//! The pods of this node as one value.

use std::sync::Arc;

use super::shards::Shards;
use super::{PodFacts, PodKey};
use crate::store::Allocation;

/// Pods by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pods {
    pods: Shards<PodKey, Arc<PodFacts>>,
    /// Every pod of the node is here. Otherwise a pod needs no mention to be served.
    complete: bool,
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
        self.pods.get(key)
    }

    /// The pod of this name from now on, or none.
    pub fn set(&mut self, key: &PodKey, facts: Option<Arc<PodFacts>>) {
        self.pods.set(key, facts);
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PodFacts>> {
        self.pods.iter().map(|(_, facts)| facts)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The names of the pods that are not the same in both pictures.
    pub fn differing(&self, other: &Self) -> Vec<PodKey> {
        self.pods.differing(&other.pods)
    }
}
