//! What a listener was told, per slot, in four bytes: a number of what, and marks that say in which
//! of its queues the slot is. Made in pieces where something is told or queued, so that a listener
//! that is told ten thousand of a million prefixes pays for about ten thousand.

/// Slots in a piece.
const PIECE: usize = 1024;

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

/// All slots as a listener sees them.
#[derive(Debug, Default)]
pub(super) struct Told {
    pieces: Vec<Option<Box<[u32; PIECE]>>>,
}

impl Told {
    #[inline]
    pub(super) fn get(&self, slot: u32) -> Entry {
        let slot = slot as usize;
        let piece = self.pieces.get(slot / PIECE).and_then(Option::as_ref);
        Entry(piece.and_then(|piece| piece.get(slot % PIECE)).copied().unwrap_or(0))
    }

    #[inline]
    fn at(&mut self, slot: u32) -> Option<&mut u32> {
        let slot = slot as usize;
        if slot / PIECE >= self.pieces.len() {
            self.pieces.resize_with(slot / PIECE + 1, || None);
        }
        let piece = self.pieces.get_mut(slot / PIECE)?;
        piece.get_or_insert_with(|| Box::new([0; PIECE])).get_mut(slot % PIECE)
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
        for entry in self.pieces.iter_mut().flatten().flat_map(|piece| piece.iter_mut()) {
            if let Some(content) = Entry(*entry).content()
                && content != Content::OUTDATED
            {
                release(content);
                *entry = *entry & MARKS | Content::OUTDATED.0;
            }
        }
    }

    /// The first slot from `from` on of which something was told, and what.
    pub(super) fn next(&self, from: u32) -> Option<(u32, Content)> {
        let mut slot = from as usize;
        while let Some(piece) = self.pieces.get(slot / PIECE) {
            if let Some(piece) = piece {
                let rest = piece.iter().skip(slot % PIECE);
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
