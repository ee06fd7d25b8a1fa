//! What a listener was told, per slot, in four bytes: a number of what, and marks that say in which
//! of its queues the slot is. Made in pieces where something is told or queued, so that a listener
//! that is told ten thousand of a million prefixes pays for about ten thousand.
//!
//! Peers that know everything were mostly told the same, so their pieces are equal: once a peer is
//! settled it gives its own back for the one that others have ([`Told::share`]), and takes a copy when
//! it is told something. 256 peers of 10,000 prefixes take 0.1 MB so, and 10 MB without; a change
//! costs each of them a copy and a comparison of a kilobyte.

use std::sync::Arc;

/// Slots in a piece.
const PIECE: usize = 256;

type Words = [u32; PIECE];

/// Where the number begins.
const SHIFT: u32 = 5;
const KIND: u32 = 0b11;
/// The kind of what was told before everything was to be told anew.
const OUTDATED: u32 = 0b11;

/// A mark of a slot in a listener's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Mark {
    /// In the queue of things to be told.
    Announce = 1 << 2,
    /// In the queue of things to be withdrawn.
    Withdraw = 1 << 3,
    /// To be withdrawn although there is a route: it may not be told, or does not fit.
    Forced = 1 << 4,
}

const MARKS: u32 = Mark::Announce as u32 | Mark::Withdraw as u32 | Mark::Forced as u32;

/// What is told of a prefix: a number (an attribute set) and a kind (where the route came from, as
/// far as telling it on is concerned). Equal contents are told in equal words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Content(u32);

impl Content {
    /// Something was told, but what was is of no interest any more.
    pub(super) const OUTDATED: Self = Self(1 << SHIFT | OUTDATED);

    /// `kind` is 0, 1 or 2.
    pub(super) fn new(number: u32, kind: u32) -> Self {
        Self(number.wrapping_add(1) << SHIFT | (kind & KIND))
    }

    pub(super) fn kind(self) -> u32 {
        self.0 & KIND
    }

    /// `None`: outdated.
    pub(super) fn number(self) -> Option<u32> {
        (self.kind() != OUTDATED).then(|| (self.0 >> SHIFT).wrapping_sub(1))
    }

    /// As a number that sorts equal contents together, and its way back.
    pub(super) fn to_bits(self) -> u32 {
        self.0
    }

    pub(super) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// A slot as a listener sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u32);

impl Entry {
    /// What was told; `None`: nothing.
    pub(super) fn content(self) -> Option<Content> {
        (self.0 >> SHIFT != 0).then_some(Content(self.0 & !MARKS))
    }

    pub(super) fn has(self, mark: Mark) -> bool {
        self.0 & mark as u32 != 0
    }
}

/// Some slots as a listener sees them.
#[derive(Debug, Default)]
enum Piece {
    /// Nothing was told or queued.
    #[default]
    Blank,
    Own(Box<Words>),
    Shared(Arc<Words>),
}

impl Piece {
    #[inline]
    fn words(&self) -> Option<&Words> {
        match self {
            Self::Blank => None,
            Self::Own(words) => Some(words),
            Self::Shared(words) => Some(words),
        }
    }
}

/// Pieces that several listeners of a table share.
#[derive(Debug, Default)]
pub(super) struct Common(Vec<Option<Arc<Words>>>);

impl Common {
    /// A listener has gone: what nobody has any more goes too.
    pub(super) fn tidy(&mut self) {
        for piece in &mut self.0 {
            if piece.as_ref().is_some_and(|words| Arc::strong_count(words) == 1) {
                *piece = None;
            }
        }
    }

    /// The piece that all have who were told this.
    fn like(&mut self, at: usize, words: &Words) -> Option<Arc<Words>> {
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        let known = self.0.get_mut(at)?;
        match known {
            Some(same) if **same == *words => Some(Arc::clone(same)),
            _ => Some(Arc::clone(known.insert(Arc::new(*words)))),
        }
    }

    #[cfg(test)]
    pub(super) fn pieces(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

/// All slots as a listener sees them.
#[derive(Debug, Default)]
pub(super) struct Told {
    pieces: Vec<Piece>,
    /// Which pieces are its own.
    own: Vec<usize>,
}

impl Told {
    #[inline]
    pub(super) fn get(&self, slot: u32) -> Entry {
        let slot = slot as usize;
        let words = self.pieces.get(slot / PIECE).and_then(Piece::words);
        Entry(words.and_then(|words| words.get(slot % PIECE)).copied().unwrap_or(0))
    }

    #[inline]
    fn at(&mut self, slot: u32) -> Option<&mut u32> {
        let slot = slot as usize;
        if !matches!(self.pieces.get(slot / PIECE), Some(Piece::Own(_))) {
            self.make_own(slot / PIECE);
        }
        match self.pieces.get_mut(slot / PIECE) {
            Some(Piece::Own(words)) => words.get_mut(slot % PIECE),
            _ => None,
        }
    }

    #[cold]
    fn make_own(&mut self, at: usize) {
        if at >= self.pieces.len() {
            self.pieces.resize_with(at + 1, Piece::default);
        }
        if let Some(piece) = self.pieces.get_mut(at) {
            let words = piece.words().copied().unwrap_or([0; PIECE]);
            *piece = Piece::Own(Box::new(words));
            self.own.push(at);
        }
    }

    /// Gives back pieces that others have too.
    pub(super) fn share(&mut self, common: &mut Common) {
        for at in std::mem::take(&mut self.own) {
            let Some(piece) = self.pieces.get_mut(at) else { continue };
            let Piece::Own(words) = &*piece else { continue };
            *piece = match **words {
                [0, ..] if words.iter().all(|word| *word == 0) => Piece::Blank,
                _ => match common.like(at, words) {
                    Some(words) => Piece::Shared(words),
                    None => continue,
                },
            };
        }
    }

    /// Returns what was told before.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, content: Option<Content>) -> Option<Content> {
        let entry = self.at(slot)?;
        let before = Entry(*entry).content();
        *entry = *entry & MARKS | content.map_or(0, |content| content.0);
        before
    }

    /// Returns whether the mark is new.
    #[inline]
    pub(super) fn mark(&mut self, slot: u32, mark: Mark) -> bool {
        let Some(entry) = self.at(slot) else { return false };
        let new = *entry & mark as u32 == 0;
        *entry |= mark as u32;
        new
    }

    #[inline]
    pub(super) fn unmark(&mut self, slot: u32, mark: Mark) {
        if self.get(slot).has(mark)
            && let Some(entry) = self.at(slot)
        {
            *entry &= !(mark as u32);
        }
    }

    /// Whatever was told is outdated; `release` is given what it was.
    pub(super) fn outdate(&mut self, mut release: impl FnMut(Content)) {
        let mut from = 0;
        while let Some((slot, content)) = self.next(from) {
            if content != Content::OUTDATED {
                release(content);
                self.set(slot, Some(Content::OUTDATED));
            }
            from = slot + 1;
        }
    }

    /// The first slot from `from` on of which something was told, and what.
    pub(super) fn next(&self, from: u32) -> Option<(u32, Content)> {
        let mut slot = from as usize;
        while let Some(piece) = self.pieces.get(slot / PIECE) {
            if let Some(words) = piece.words() {
                let rest = words.iter().skip(slot % PIECE);
                for (ahead, &entry) in rest.enumerate() {
                    if let Some(content) = Entry(entry).content() {
                        return Some((u32::try_from(slot + ahead).ok()?, content));
                    }
                }
            }
            slot = (slot / PIECE + 1) * PIECE;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(slots: std::ops::Range<u32>) -> Told {
        let mut told = Told::default();
        for slot in slots {
            told.set(slot, Some(Content::new(7, 0)));
        }
        told
    }

    #[test]
    fn those_who_were_told_the_same_share_it_until_they_are_told_otherwise() {
        let mut common = Common::default();
        let mut all = [told(0..1000), told(0..1000), told(0..999)];
        all.iter_mut().for_each(|told| told.share(&mut common));
        let shared = |all: &[Told]| {
            let pieces = all.iter().flat_map(|told| &told.pieces);
            let all: Vec<_> = pieces.filter_map(|piece| Some(piece.words()?.as_ptr())).collect();
            all.iter().collect::<std::collections::HashSet<_>>().len()
        };
        // Four pieces, and one that differs.
        assert_eq!((shared(&all), common.pieces()), (5, 4));
        assert!(all.iter().all(|told| told.own.is_empty()));

        all[0].mark(3, Mark::Announce);
        all[0].set(3, Some(Content::new(8, 1)));
        assert_eq!(all[1].get(3).content(), Some(Content::new(7, 0)), "the others are not told");
        all[0].unmark(3, Mark::Announce);
        all[1].set(3, Some(Content::new(8, 1)));
        all[0].share(&mut common);
        all[1].share(&mut common);
        assert_eq!(shared(&all), 6, "two have the new one, one the old");

        // With the last who has it, a piece goes.
        let [first, second, third] = all;
        drop((first, second));
        common.tidy();
        assert_eq!(common.pieces(), 3, "the third has all but the one that is new to it");
        assert_eq!(third.next(998), Some((998, Content::new(7, 0))));
        drop(third);
        common.tidy();
        assert_eq!(common.pieces(), 0);
    }

    #[test]
    fn what_was_taken_back_takes_no_room() {
        let (mut told, mut common) = (told(0..600), Common::default());
        for slot in 0..512 {
            told.set(slot, None);
        }
        told.share(&mut common);
        assert!(matches!(told.pieces.as_slice(), [Piece::Blank, Piece::Blank, Piece::Shared(_)]));
        assert_eq!(told.next(0), Some((512, Content::new(7, 0))));
    }
}
