//! Values kept once, numbered and counted. Decides only when a value is forgotten: when the last
//! reference is given back. Numbers are small and dense, so that whoever refers to a value spends
//! four bytes on it, and are used again.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

/// Ends the chain of free entries.
const END: u32 = u32::MAX;

/// The highest number that is given: told tables keep five bits beside a number. A set is 200 bytes
/// and more, so in practice memory ends before the numbers do.
const HIGHEST: u32 = (1 << 27) - 2;

/// Given when there are no numbers left: the number of nothing.
pub(super) const NOTHING: u32 = u32::MAX;

#[derive(Debug)]
enum Entry<T> {
    Kept {
        value: T,
        /// Of `value`: growing the table and forgetting do not hash again.
        hash: u64,
        references: u32,
    },
    Free {
        next: u32,
    },
}

/// All distinct values.
#[derive(Debug)]
pub(super) struct Interner<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    index: HashTable<u32>,
    /// Keyed: peers choose the values.
    state: FixedState,
}

impl<T: Hash + Eq> Interner<T> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            entries: Vec::new(),
            free: END,
            index: HashTable::new(),
            state: FixedState::with_seed(seed),
        }
    }

    /// The number of `value`, with one reference more.
    pub(super) fn intern(&mut self, value: T) -> u32 {
        let hash = self.state.hash_one(&value);
        let Self { entries, free, index, .. } = self;
        let same = |&id: &u32| {
            matches!(entries.get(id as usize),
                Some(Entry::Kept { value: kept, hash: known, .. }) if *known == hash && *kept == value)
        };
        let hash_of = |&id: &u32| match entries.get(id as usize) {
            Some(Entry::Kept { hash, .. }) => *hash,
            _ => 0,
        };
        match index.entry(hash, same, hash_of) {
            Place::Occupied(place) => {
                let id = *place.get();
                self.retain(id, 1);
                id
            }
            Place::Vacant(place) => {
                let kept = Entry::Kept { value, hash, references: 1 };
                let id = match entries.get_mut(*free as usize) {
                    Some(entry) => {
                        let id = *free;
                        if let Entry::Free { next } = entry {
                            *free = *next;
                        }
                        *entry = kept;
                        id
                    }
                    None => {
                        let Some(id) = number(entries.len()) else { return NOTHING };
                        entries.push(kept);
                        id
                    }
                };
                place.insert(id);
                id
            }
        }
    }

    /// `count` references more.
    pub(super) fn retain(&mut self, id: u32, count: u32) {
        if let Some(Entry::Kept { references, .. }) = self.entries.get_mut(id as usize) {
            *references = references.saturating_add(count);
        }
    }

    /// One reference less; the last one forgets the value.
    pub(super) fn release(&mut self, id: u32) {
        let Some(entry) = self.entries.get_mut(id as usize) else { return };
        let Entry::Kept { hash, references, .. } = entry else { return };
        if *references == u32::MAX {
            return; // no longer counted: kept for good
        }
        *references -= 1;
        if *references > 0 {
            return;
        }
        if let Ok(place) = self.index.find_entry(*hash, |&other| other == id) {
            place.remove();
        }
        *entry = Entry::Free { next: self.free };
        self.free = id;
        if self.index.is_empty() {
            // What a full table needed is given back with it.
            self.entries = Vec::new();
            self.free = END;
            self.index = HashTable::new();
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        match self.entries.get(id as usize)? {
            Entry::Kept { value, .. } => Some(value),
            Entry::Free { .. } => None,
        }
    }

    /// How many distinct values there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }
}

fn number(at: usize) -> Option<u32> {
    u32::try_from(at).ok().filter(|&id| id <= HIGHEST)
}
