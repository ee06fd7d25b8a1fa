//! Finding without looking at everybody: decides by which marks pods, kinds and policies are found.
//! Whatever has a label is found under the mark of that label, a selector asks for the marks of what
//! it requires, and only those that are found are held against it.
//!
//! A mark is a hash: two labels may have the same one, so that whoever is found still has to be looked
//! at. Four bytes are enough, and ten thousand pods have many labels.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::policy::labels::{Labels, Requirement, Selector};
use crate::policy::model::Protocol;

/// Who is found under which mark.
#[derive(Debug, Default)]
pub(super) struct Index<T: Ord> {
    /// The default of `T` is its least.
    all: BTreeSet<(u32, T)>,
}

impl<T: Ord + Clone + Default> Index<T> {
    pub(super) fn add(&mut self, marks: impl Iterator<Item = u32>, who: &T) {
        self.all.extend(marks.map(|mark| (mark, who.clone())));
    }

    pub(super) fn remove(&mut self, marks: impl Iterator<Item = u32>, who: &T) {
        for mark in marks {
            self.all.remove(&(mark, who.clone()));
        }
    }

    /// Those with a mark.
    pub(super) fn under(&self, mark: u32) -> impl Iterator<Item = &T> {
        let from = self.all.range((mark, T::default())..);
        from.take_while(move |(known, _)| *known == mark).map(|(_, who)| who)
    }

    /// Those of a namespace that a selector may select, some of them perhaps twice.
    pub(super) fn candidates(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> impl Iterator<Item = &T> {
        sought(namespace, selector).into_iter().flat_map(|mark| self.under(mark))
    }
}

/// What everybody of a namespace has.
pub(super) fn of_namespace(namespace: &str) -> u32 {
    mark((0, namespace))
}

/// What everybody of a namespace has of whom nothing else is known.
pub(super) fn of_unknown(namespace: &str) -> u32 {
    mark((3, namespace))
}

/// What whoever has a port of this name has.
pub(super) fn of_port(protocol: Protocol, name: &str) -> u32 {
    mark((1, protocol.number(), name))
}

fn of_label(namespace: &str, key: &str, value: &str) -> u32 {
    mark((2, namespace, key, value))
}

/// What somebody of a namespace with these labels is found under.
pub(super) fn marks(namespace: &str, labels: &Labels) -> impl Iterator<Item = u32> {
    let labels = labels.iter().map(move |(key, value)| of_label(namespace, key, value));
    std::iter::once(of_namespace(namespace)).chain(labels)
}

/// The marks one of which everybody of the namespace has whom the selector selects: as few as one of
/// its requirements leaves.
pub(super) fn sought(namespace: &str, selector: &Selector) -> Vec<u32> {
    let listed = selector.requirements.iter().filter_map(|requirement| match requirement {
        Requirement::In(key, values) => Some((key, values)),
        Requirement::NotIn(..) | Requirement::Exists(_) | Requirement::DoesNotExist(_) => None,
    });
    match listed.min_by_key(|(_, values)| values.len()) {
        Some((key, values)) => values.iter().map(|value| of_label(namespace, key, value)).collect(),
        None => vec![of_namespace(namespace)],
    }
}

fn mark(of: impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    let [a, b, c, d, ..] = hasher.finish().to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}
