//! The text of the state file: decides where an entry stands in it. Pure; writing is `disk`'s.
//!
//! A small file is its entries, a line each. In a large one they stand in blocks of whole pages,
//! filled up with blanks, which mean nothing in JSON: an entry that comes, changes or goes makes one
//! block another, so that the copy that was current before this one becomes current again by a page
//! or two instead of by a megabyte.

use std::collections::{BTreeSet, HashMap};

use super::allocation::Key;

/// What the kernel writes at least.
const PAGE: usize = 4096;
/// What begins a block (a comma, but for the first entry of all) and what ends it (a newline).
const FRAME: usize = 2;
/// Between two entries of a block.
const BETWEEN: &[u8] = b",\n";
const END: &[u8] = b"]}\n";
/// Entries of up to so many bytes (some fifteen pods) stand without blanks, for people to read, and are
/// written whole: a new file of 64 KiB takes 0.31 ms, one of 4 KiB 0.30, one of 1.2 MB 0.78, and two
/// pages of an old one 0.22.
const SMALL: usize = 8 * 1024;
/// Fewer blocks are never worth laying out anew.
const FEW: usize = 64;

/// All entries, with their places.
pub(super) struct Pages {
    /// Everything up to the first entry.
    head: Vec<u8>,
    blocks: Vec<Block>,
    places: HashMap<Key, usize>,
    /// Blocks that are not as they were when [`Pages::take_dirty`] was last called.
    dirty: BTreeSet<usize>,
    /// All entries, without what is between them.
    bytes: usize,
}

struct Block {
    /// Where it begins, in pages behind the head.
    start: usize,
    pages: usize,
    entries: Vec<(Key, Box<[u8]>)>,
}

impl Block {
    fn used(&self) -> usize {
        self.entries.iter().map(|(_, line)| line.len() + BETWEEN.len()).sum()
    }

    fn has_room_for(&self, line: &[u8]) -> bool {
        self.used() + line.len() + FRAME <= self.pages * PAGE
    }
}

impl Pages {
    /// These entries behind `head`.
    pub(super) fn new(head: Vec<u8>, entries: impl IntoIterator<Item = (Key, Box<[u8]>)>) -> Self {
        let mut pages = Self {
            head,
            blocks: Vec::new(),
            places: HashMap::new(),
            dirty: BTreeSet::new(),
            bytes: 0,
        };
        for (key, line) in entries {
            pages.set(key, Some(line));
        }
        pages
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it is written whole each time.
    pub(super) fn is_small(&self) -> bool {
        self.bytes <= SMALL
    }

    /// Puts, replaces or (with `None`) removes an entry; what it was before.
    pub(super) fn set(&mut self, key: Key, line: Option<Box<[u8]>>) -> Option<Box<[u8]>> {
        let first = self.first();
        let before = self.take(&key);
        if let Some(line) = line {
            self.place(key, line);
        }
        // The first entry of all has no comma before it.
        if self.first() != first {
            self.dirty.extend(first.into_iter().chain(self.first()));
        }
        before
    }

    fn first(&self) -> Option<usize> {
        self.blocks.iter().position(|block| !block.entries.is_empty())
    }

    fn take(&mut self, key: &Key) -> Option<Box<[u8]>> {
        let number = self.places.remove(key)?;
        let entries = &mut self.blocks.get_mut(number)?.entries;
        let (_, line) = entries.remove(entries.iter().position(|(other, _)| other == key)?);
        self.dirty.insert(number);
        self.bytes -= line.len();
        Some(line)
    }

    fn place(&mut self, key: Key, line: Box<[u8]>) {
        let roomy = self.blocks.iter().position(|block| block.has_room_for(&line));
        let number = roomy.unwrap_or_else(|| {
            let start = self.blocks.last().map_or(0, |last| last.start + last.pages);
            let pages = (line.len() + BETWEEN.len() + FRAME).div_ceil(PAGE);
            self.blocks.push(Block { start, pages, entries: Vec::new() });
            self.blocks.len() - 1
        });
        if let Some(block) = self.blocks.get_mut(number) {
            self.bytes += line.len();
            self.places.insert(key.clone(), number);
            block.entries.push((key, line));
            self.dirty.insert(number);
        }
    }

    /// The blocks that are not as they were when this was last called.
    pub(super) fn take_dirty(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.dirty)
    }

    /// Lays everything out anew where most of it is blank; true where it did. No block is then where
    /// it was.
    pub(super) fn tighten(&mut self) -> bool {
        let pages = self.blocks.last().map_or(0, |last| last.start + last.pages);
        if self.blocks.len() < FEW || self.bytes * 2 > pages * PAGE {
            return false;
        }
        let entries = std::mem::take(&mut self.blocks).into_iter().flat_map(|block| block.entries);
        *self = Self::new(std::mem::take(&mut self.head), entries);
        true
    }

    /// The whole text without blanks.
    pub(super) fn compact(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(&self.head);
        let lines = self.blocks.iter().flat_map(|block| &block.entries);
        for (i, (_, line)) in lines.enumerate() {
            text.extend_from_slice(if i == 0 { b"\n" } else { BETWEEN });
            text.extend_from_slice(line);
        }
        text.push(b'\n');
        text.extend_from_slice(END);
    }

    /// The whole text in pages.
    pub(super) fn whole(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(&self.head);
        fill(text, self.behind_head());
        let first = self.first();
        for (number, block) in self.blocks.iter().enumerate() {
            render(block, first == Some(number), text);
        }
        text.extend_from_slice(END);
    }

    /// These blocks of it, each with where it stands; the end with the last of all, which may be new.
    pub(super) fn pieces(&self, blocks: &BTreeSet<usize>) -> Vec<(usize, Vec<u8>)> {
        let (first, last) = (self.first(), self.blocks.len().checked_sub(1));
        let piece = |number: &usize| {
            let block = self.blocks.get(*number)?;
            let mut text = Vec::with_capacity(block.pages * PAGE + END.len());
            render(block, first == Some(*number), &mut text);
            if last == Some(*number) {
                text.extend_from_slice(END);
            }
            Some((self.behind_head() + block.start * PAGE, text))
        };
        blocks.iter().filter_map(piece).collect()
    }

    fn behind_head(&self) -> usize {
        (self.head.len() + 1).next_multiple_of(PAGE)
    }
}

/// One block: its entries, blanks, and a newline as its last byte.
fn render(block: &Block, first: bool, text: &mut Vec<u8>) {
    let end = text.len() + block.pages * PAGE;
    text.push(if first || block.entries.is_empty() { b' ' } else { b',' });
    for (i, (_, line)) in block.entries.iter().enumerate() {
        text.extend_from_slice(if i == 0 { b"" } else { BETWEEN });
        text.extend_from_slice(line);
    }
    fill(text, end);
}

/// Blanks up to `end`, and a newline as the last of them.
fn fill(text: &mut Vec<u8>, end: usize) {
    text.resize(end - 1, b' ');
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use serde_json::Value;

    use super::*;

    fn key(number: u32) -> Key {
        Key { container_id: number.to_string(), ifname: "eth0".into() }
    }

    fn line(id: u32, length: usize) -> Box<[u8]> {
        format!(r#"{{"id":{id},"pad":"{}"}}"#, "x".repeat(length)).into_bytes().into()
    }

    fn read(text: &[u8]) -> BTreeMap<u64, usize> {
        let value: Value = serde_json::from_slice(text).unwrap();
        let entries = value["allocations"].as_array().unwrap();
        let entry =
            |entry: &Value| (entry["id"].as_u64().unwrap(), entry["pad"].as_str().unwrap().len());
        let read: BTreeMap<u64, usize> = entries.iter().map(entry).collect();
        assert_eq!(read.len(), entries.len(), "nothing twice");
        read
    }

    /// Two copies, each brought forward by what changed since it was current, are always what the
    /// whole text is, and what was put in.
    #[test]
    fn two_copies_that_take_turns_are_what_the_whole_text_is() {
        for seed in 0..40 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut pages = Pages::new(br#"{"version":1,"allocations":["#.to_vec(), []);
            let mut model: BTreeMap<u64, usize> = BTreeMap::new();
            let (mut current, mut spare) = (Vec::new(), Vec::new());
            pages.whole(&mut current);
            pages.whole(&mut spare);
            let mut behind = BTreeSet::new();
            for _ in 0..200 {
                for _ in 0..rng.random_range(1..4) {
                    let id = rng.random_range(0..60_u32);
                    let gone = rng.random_bool(0.4);
                    let length =
                        if rng.random_bool(0.05) { 9000 } else { rng.random_range(0..900) };
                    pages.set(key(id), (!gone).then(|| line(id, length)));
                    match gone {
                        true => model.remove(&u64::from(id)),
                        false => model.insert(u64::from(id), length),
                    };
                }
                let dirty = pages.take_dirty();
                for (at, text) in pages.pieces(&behind.union(&dirty).copied().collect()) {
                    spare.resize(spare.len().max(at + text.len()), 0);
                    spare[at..at + text.len()].copy_from_slice(&text);
                }
                std::mem::swap(&mut current, &mut spare);
                behind = dirty;
                let (mut whole, mut compact) = (Vec::new(), Vec::new());
                pages.whole(&mut whole);
                pages.compact(&mut compact);
                assert!(current == whole, "seed {seed}");
                assert_eq!(read(&current), model);
                assert_eq!(read(&compact), model);
                assert_eq!(pages.len(), model.len());
            }
        }
    }

    #[test]
    fn a_change_is_a_page_and_blanks_do_not_stay_for_ever() {
        let entries = (0..2000).map(|id| (key(id), line(id, 500)));
        let mut pages = Pages::new(b"{\"allocations\":[".to_vec(), entries);
        assert!(!pages.is_small());
        pages.take_dirty();
        pages.set(key(1000), Some(line(1000, 510)));
        assert_eq!(pages.take_dirty().len(), 1, "it stays where it is");
        pages.set(key(1000), None);
        assert_eq!(pages.take_dirty().len(), 1);
        pages.set(key(3000), Some(line(3000, 500)));
        assert_eq!(pages.take_dirty().len(), 1, "it takes the room that is there");
        assert!(!pages.tighten());
        for id in 0..1500 {
            pages.set(key(id), None);
        }
        assert!(pages.tighten());
        let mut text = Vec::new();
        pages.whole(&mut text);
        assert_eq!(read(&text).len(), 501);
        assert!(text.len() < 500 * 600, "{}", text.len());
    }
}
