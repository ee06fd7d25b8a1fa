//! What has changed since it was taken: decides that what went and came again did neither.

use std::collections::BTreeMap;

use flock_dataplane::policy::{Change, Element};

use super::pool::only_in_one;

#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Whether it comes; otherwise it goes.
    comes: BTreeMap<Element, bool>,
}

impl Pending {
    pub(super) fn add(&mut self, element: Element) {
        self.note(element, true);
    }

    pub(super) fn remove(&mut self, element: Element) {
        self.note(element, false);
    }

    fn note(&mut self, element: Element, comes: bool) {
        if self.comes.get(&element).is_some_and(|before| *before != comes) {
            self.comes.remove(&element);
        } else {
            self.comes.insert(element, comes);
        }
    }

    /// What a list, in order, has more or less than the list before, as elements.
    pub(super) fn shift<T: Ord>(&mut self, before: &[T], after: &[T], of: impl Fn(&T) -> Element) {
        for (one, comes) in only_in_one(before, after) {
            self.note(of(one), comes);
        }
    }

    pub(super) fn take(&mut self) -> Change {
        let mut change = Change::default();
        for (element, comes) in std::mem::take(&mut self.comes) {
            match comes {
                true => change.added.push(element),
                false => change.removed.push(element),
            }
        }
        change
    }
}
