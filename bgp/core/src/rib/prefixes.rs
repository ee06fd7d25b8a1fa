//! The prefixes of one family and their paths: a slab of slots, found by a keyed hash. Decides where
//! things are kept and when a slot is free; which path is best is `decision`'s to say and is kept
//! here as the first of the paths.
//!
//! A slot's number is what listeners queue and remember. It is used again once the prefix has no
//! path and nobody was told it; a queue may still hold it then, which is harmless, because whoever
//! takes it out looks at the slot as it now is.

use std::hash::{BuildHasher, Hasher};
use std::slice;

use flock_bgp_wire::Net;
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

use super::path::{Path, Who};

/// Ends the chain of free slots; the number of no slot.
const END: u32 = u32::MAX;

/// RFC 7911 sets no bound to the paths that one peer has for one prefix. We do: finding one among
/// them and choosing the best are linear.
const MOST_OF_ONE_PEER: usize = 64;

/// A smaller table is in the processor's cache.
const WORTH_FETCHING: usize = 1 << 15;

/// An emptied table that had more slots than this gives its memory back.
const WORTH_SHRINKING: usize = 1 << 14;

#[derive(Debug, Clone, Copy)]
enum Paths {
    None,
    One(Path),
    /// Where in `Prefixes::many`.
    Many(u32),
    /// Of no prefix: the next free slot.
    Free(u32),
}

#[derive(Debug)]
struct Slot<N> {
    net: N,
    /// How many listeners were told it; at its maximum no longer counted.
    holders: u16,
    paths: Paths,
}

/// The prefixes of one family.
#[derive(Debug)]
pub(super) struct Prefixes<N> {
    slots: Vec<Slot<N>>,
    free: u32,
    index: HashTable<u32>,
    /// Keyed: peers choose the prefixes.
    state: FixedState,
    many: Vec<Vec<Path>>,
    many_free: Vec<u32>,
}

/// The eight prefixes that differ in their last three bits only are neighbours in the table: they
/// tend to come together, and then share what was fetched from memory for the first of them. Where
/// each eight are is keyed, so a peer gains no more than that by choosing prefixes.
fn hash<N: Net>(state: &FixedState, net: N) -> u64 {
    let below = 128 - u32::from(net.len());
    #[allow(clippy::cast_possible_truncation, reason = "three bits")]
    let last = (net.bits().checked_shr(below).unwrap_or(0) as u64) & 7;
    let others = net.bits() ^ u128::from(last).checked_shl(below).unwrap_or(0);
    #[allow(clippy::cast_possible_truncation, reason = "split into two halves")]
    let (high, low) = ((others >> 64) as u64, others as u64);
    let mut hasher = state.build_hasher();
    if N::MAX_LEN > 32 {
        hasher.write_u64(high);
        hasher.write_u64(low);
        hasher.write_u8(net.len());
    } else {
        // An IPv4 prefix is in the upper 32 bits, so that it and its length are one number.
        hasher.write_u64(high | u64::from(net.len()));
    }
    // The lower bits say where, the upper seven are compared there.
    ((hasher.finish() & !7) | last) ^ (last << 60)
}

impl<N: Net> Prefixes<N> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            free: END,
            index: HashTable::new(),
            state: FixedState::with_seed(seed),
            many: Vec::new(),
            many_free: Vec::new(),
        }
    }

    /// Slots are `0..end()`, free ones among them.
    pub(super) fn end(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(END)
    }

    /// How many prefixes there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// How many prefixes have several paths, and for how many paths there is room.
    #[cfg(test)]
    pub(super) fn many(&self) -> (usize, usize) {
        let room = self.many.iter().map(Vec::capacity).sum();
        (self.many.len() - self.many_free.len(), room)
    }

    pub(super) fn find(&self, net: N) -> Option<u32> {
        let same = |&slot: &u32| self.slots.get(slot as usize).is_some_and(|slot| slot.net == net);
        self.index.find(hash(&self.state, net), same).copied()
    }

    /// A number that hardly any other prefix has.
    #[allow(clippy::cast_possible_truncation, reason = "folded into its lower half")]
    pub(super) fn fingerprint(&self, net: N) -> u32 {
        let hash = hash(&self.state, net);
        (hash ^ (hash >> 32)) as u32
    }

    /// Fetches what looking for these prefixes one by one will need. The processor does not wait for
    /// one to arrive before it asks for the next, so a few dozen cost little more than one.
    pub(super) fn fetch(&self, nets: impl Iterator<Item = N>) {
        if self.index.len() > WORTH_FETCHING {
            std::hint::black_box(nets.filter(|net| self.find(*net).is_some()).count());
        }
    }

    /// Twice the room in the index. Filled in the order of the slots: hashbrown's own growing walks
    /// the old index and meets the slots at random, which was a fifth of learning a full table.
    fn grow(&mut self) {
        let Self { slots, index, state, .. } = self;
        let mut wider = HashTable::with_capacity(index.capacity().saturating_mul(2));
        let hash_of =
            |&slot: &u32| slots.get(slot as usize).map_or(0, |slot| hash(state, slot.net));
        for (number, slot) in (0_u32..).zip(slots.iter()) {
            if !matches!(slot.paths, Paths::Free(_)) {
                wider.insert_unique(hash(state, slot.net), number, hash_of);
            }
        }
        *index = wider;
    }

    /// Its slot, made where there was none; `tidy` it if no path is put there.
    pub(super) fn find_or_add(&mut self, net: N) -> u32 {
        if self.index.len() == self.index.capacity() && self.index.len() > WORTH_FETCHING {
            self.grow();
        }
        let Self { slots, free, index, state, .. } = self;
        let same = |&slot: &u32| slots.get(slot as usize).is_some_and(|slot| slot.net == net);
        let hash_of =
            |&slot: &u32| slots.get(slot as usize).map_or(0, |slot| hash(state, slot.net));
        match index.entry(hash(state, net), same, hash_of) {
            Place::Occupied(place) => *place.get(),
            Place::Vacant(place) => {
                let new = Slot { net, holders: 0, paths: Paths::None };
                let slot = match slots.get_mut(*free as usize) {
                    Some(old) => {
                        let slot = *free;
                        *free = if let Paths::Free(next) = old.paths { next } else { END };
                        *old = new;
                        slot
                    }
                    None => {
                        let slot = u32::try_from(slots.len()).unwrap_or(END);
                        slots.push(new);
                        slot
                    }
                };
                place.insert(slot);
                slot
            }
        }
    }

    /// The prefix of a slot that is in use.
    pub(super) fn net(&self, slot: u32) -> Option<N> {
        let slot = self.slots.get(slot as usize)?;
        (!matches!(slot.paths, Paths::Free(_))).then_some(slot.net)
    }

    /// Its paths, the best first; the others in no order.
    pub(super) fn paths(&self, slot: u32) -> &[Path] {
        match self.slots.get(slot as usize).map(|slot| &slot.paths) {
            Some(Paths::One(path)) => slice::from_ref(path),
            Some(Paths::Many(at)) => self.many.get(*at as usize).map_or(&[], Vec::as_slice),
            Some(Paths::None | Paths::Free(_)) | None => &[],
        }
    }

    /// Whether one of its paths is ours.
    #[inline]
    pub(super) fn is_ours(&self, slot: u32) -> bool {
        self.paths(slot).iter().any(Path::ours)
    }

    /// The best path.
    pub(super) fn best(&self, slot: u32) -> Option<Path> {
        self.paths(slot).first().filter(|path| path.attributes().is_some()).copied()
    }

    /// The prefix with its best path.
    pub(super) fn route(&self, slot: u32) -> Option<(N, Path)> {
        let held = self.slots.get(slot as usize)?;
        let path = match held.paths {
            Paths::One(path) => path,
            Paths::Many(_) => *self.paths(slot).first()?,
            Paths::None | Paths::Free(_) => return None,
        };
        path.attributes().is_some().then_some((held.net, path))
    }

    /// The best path is the one at `at`.
    pub(super) fn promote(&mut self, slot: u32, at: usize) {
        if let Some(paths) = self.paths_mut(slot)
            && at < paths.len()
        {
            paths.swap(0, at);
        }
    }

    fn paths_mut(&mut self, slot: u32) -> Option<&mut [Path]> {
        match &mut self.slots.get_mut(slot as usize)?.paths {
            Paths::One(path) => Some(slice::from_mut(path)),
            Paths::Many(at) => self.many.get_mut(*at as usize).map(Vec::as_mut_slice),
            Paths::None | Paths::Free(_) => None,
        }
    }

    /// Puts a path where its teller's old one was, if any, which is returned. `Err`: the teller has
    /// too many paths of this prefix already.
    pub(super) fn put(&mut self, slot: u32, path: Path) -> Result<Option<Path>, TooMany> {
        let Some(held) = self.slots.get_mut(slot as usize) else { return Err(TooMany) };
        match &mut held.paths {
            Paths::None => held.paths = Paths::One(path),
            Paths::One(old) if old.who() == path.who() => {
                return Ok(Some(std::mem::replace(old, path)));
            }
            Paths::One(old) => {
                let both = vec![*old, path];
                held.paths = match self.many_free.pop() {
                    Some(at) => {
                        if let Some(free) = self.many.get_mut(at as usize) {
                            *free = both;
                        }
                        Paths::Many(at)
                    }
                    None => {
                        self.many.push(both);
                        Paths::Many(u32::try_from(self.many.len() - 1).unwrap_or(END))
                    }
                };
            }
            Paths::Many(at) => {
                let Some(paths) = self.many.get_mut(*at as usize) else { return Err(TooMany) };
                if let Some(old) = paths.iter_mut().find(|old| old.who() == path.who()) {
                    return Ok(Some(std::mem::replace(old, path)));
                }
                let of_one = paths.iter().filter(|old| old.peer() == path.peer()).count();
                if of_one >= MOST_OF_ONE_PEER {
                    return Err(TooMany);
                }
                paths.push(path);
            }
            Paths::Free(_) => return Err(TooMany),
        }
        Ok(None)
    }

    /// Takes a path out. The slot stays until `tidy`.
    pub(super) fn take(&mut self, slot: u32, who: Who) -> Option<Path> {
        let held = self.slots.get_mut(slot as usize)?;
        match held.paths {
            Paths::One(path) if path.who() == who => {
                held.paths = Paths::None;
                Some(path)
            }
            Paths::Many(at) => {
                let paths = self.many.get_mut(at as usize)?;
                let taken = paths.iter().position(|path| path.who() == who)?;
                // The first stays the first unless it is the one that goes.
                let taken = paths.swap_remove(taken);
                if let [last] = paths.as_slice() {
                    held.paths = Paths::One(*last);
                    *paths = Vec::new();
                    self.many_free.push(at);
                }
                Some(taken)
            }
            _ => None,
        }
    }

    /// A listener was told the prefix.
    pub(super) fn hold(&mut self, slot: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.holders = slot.holders.saturating_add(1);
        }
    }

    /// A listener that was told the prefix was told otherwise, or is gone.
    pub(super) fn let_go(&mut self, slot: u32) {
        if let Some(held) = self.slots.get_mut(slot as usize)
            && held.holders != u16::MAX
        {
            held.holders = held.holders.saturating_sub(1);
            self.tidy(slot);
        }
    }

    /// Frees the slot if it has no path and nobody was told it.
    pub(super) fn tidy(&mut self, slot: u32) {
        let Some(held) = self.slots.get_mut(slot as usize) else { return };
        if held.holders > 0 || !matches!(held.paths, Paths::None) {
            return;
        }
        held.paths = Paths::Free(self.free);
        self.free = slot;
        let hash = hash(&self.state, held.net);
        if let Ok(place) = self.index.find_entry(hash, |&other| other == slot) {
            place.remove();
        }
        if self.index.is_empty() && self.slots.len() > WORTH_SHRINKING {
            self.slots = Vec::new();
            self.free = END;
            self.index = HashTable::new();
            self.many = Vec::new();
            self.many_free = Vec::new();
        }
    }
}

/// A peer has too many paths of one prefix; the new one is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

#[cfg(test)]
mod tests {
    use ipnet::{Ipv4Net, Ipv6Net};

    use super::*;

    /// The memory of a full table is this times a million.
    #[test]
    fn slots_are_small() {
        assert_eq!(size_of::<Slot<Ipv4Net>>(), 20);
        assert_eq!(size_of::<Slot<Ipv6Net>>(), 32);
    }
}
