//! When a peer was told what, for people. The table itself knows what a peer was told, not when: a
//! time per prefix and peer would cost more than everything else that is kept for a peer.
//!
//! So the last few hundred tellings and withdrawals are kept one by one, in eight bytes each, and
//! everything before as a span. A telling of everything, at a session's beginning or when the peer
//! asked for it again, is one span however long it is, and costs nothing: on most nodes it is over
//! within a moment, and that moment is the answer for every prefix in it.

use crate::event::Now;

/// So many are kept one by one: 2 KiB a peer and family, made as they come.
const KEPT: usize = 256;

/// Set in the time of a note: the peer was told that there is nothing any more.
const WITHDRAWN: u32 = 1 << 31;

/// Tenths of a second since the driver's beginning; enough for six years.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u32);

impl From<Now> for Moment {
    fn from(now: Now) -> Self {
        let tenths = u32::try_from(now.0.as_millis() / 100).unwrap_or(u32::MAX);
        Self(tenths.min(WITHDRAWN - 1))
    }
}

impl From<Moment> for Now {
    fn from(moment: Moment) -> Self {
        Self(std::time::Duration::from_millis(u64::from(moment.0) * 100))
    }
}

/// When something happened: not before `from` and not after `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The earliest.
    pub from: Now,
    /// The latest.
    pub until: Now,
}

impl Span {
    fn new(from: Moment, until: Moment) -> Self {
        Self { from: from.into(), until: until.max(from).into() }
    }
}

/// One telling: which prefix, by a number that hardly any other has, and when.
#[derive(Debug, Clone, Copy)]
struct Note {
    of: u32,
    when: u32,
}

/// The diary of one peer and family.
#[derive(Debug)]
pub(super) struct Diary {
    /// The first telling of everything began then.
    opened: Moment,
    /// The last one did.
    began: Moment,
    /// And ended; `None`: it is under way.
    ended: Option<Moment>,
    /// The latest of those that are not kept any more.
    forgotten: Option<Moment>,
    /// A ring once it is full; the next one goes to `next`.
    notes: Vec<Note>,
    next: usize,
}

impl Diary {
    /// Everything is to be told.
    pub(super) fn new(now: Now) -> Self {
        let now = now.into();
        Self { opened: now, began: now, ended: None, forgotten: None, notes: Vec::new(), next: 0 }
    }

    /// Everything is to be told again.
    pub(super) fn begin(&mut self, now: Now) {
        (self.began, self.ended) = (now.into(), None);
    }

    /// Nothing is left to be told.
    pub(super) fn end(&mut self, now: Now) {
        self.ended.get_or_insert(now.into());
    }

    /// The peer was told of these prefixes.
    pub(super) fn told(&mut self, prefixes: impl ExactSizeIterator<Item = u32>, now: Now) {
        if self.ended.is_none() {
            return; // part of a telling of everything
        }
        let Moment(when) = now.into();
        let too_many = prefixes.len().saturating_sub(KEPT);
        if too_many > 0 {
            self.forgotten = Some(Moment(when));
        }
        for of in prefixes.skip(too_many) {
            self.note(Note { of, when });
        }
    }

    /// The peer was told that there is no such prefix any more.
    pub(super) fn withdrew(&mut self, of: u32, now: Now) {
        let Moment(when) = now.into();
        self.note(Note { of, when: when | WITHDRAWN });
    }

    fn note(&mut self, note: Note) {
        match self.notes.get_mut(self.next) {
            Some(oldest) => {
                let lost = Moment(std::mem::replace(oldest, note).when & !WITHDRAWN);
                self.forgotten = self.forgotten.max(Some(lost));
            }
            None => self.notes.push(note),
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// The last note about a prefix, and whether it is about a withdrawal.
    fn last(&self, of: u32) -> Option<(Moment, bool)> {
        let (newer, older) = self.notes.split_at_checked(self.next).unwrap_or((&self.notes, &[]));
        let mut latest_first = newer.iter().rev().chain(older.iter().rev());
        let note = latest_first.find(|note| note.of == of)?;
        Some((Moment(note.when & !WITHDRAWN), note.when & WITHDRAWN != 0))
    }

    /// When the peer was told of a prefix that it knows. `anew`: it has been told it again since
    /// everything was last to be told.
    pub(super) fn when_told(&self, of: u32, anew: bool, now: Now) -> Span {
        let noted = self.last(of).filter(|(_, withdrawn)| !withdrawn).map(|(when, _)| when);
        if !anew {
            return match noted.filter(|when| *when <= self.began) {
                Some(when) => Span::new(when, when),
                None => Span::new(self.opened, self.began),
            };
        }
        match noted.filter(|when| *when >= self.began) {
            Some(when) => Span::new(when, when),
            None => {
                let ended = self.ended.unwrap_or(now.into());
                Span::new(self.began, self.forgotten.map_or(ended, |lost| lost.max(ended)))
            }
        }
    }

    /// When the peer was told that there is no such prefix any more; `None`: not in this session, or
    /// too long ago.
    pub(super) fn when_withdrawn(&self, of: u32) -> Option<Span> {
        let (when, withdrawn) = self.last(of)?;
        withdrawn.then(|| Span::new(when, when))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Now {
        Now(Duration::from_secs(seconds))
    }

    fn span(from: u64, until: u64) -> Span {
        Span { from: at(from), until: at(until) }
    }

    fn tell(diary: &mut Diary, prefixes: std::ops::Range<u32>, when: u64) {
        diary.told(prefixes.collect::<Vec<_>>().into_iter(), at(when));
    }

    #[test]
    fn a_telling_of_everything_is_one_span_and_costs_nothing() {
        let mut diary = Diary::new(at(10));
        tell(&mut diary, 0..100_000, 11);
        assert_eq!(diary.when_told(7, true, at(12)), span(10, 12), "it is under way");
        diary.end(at(13));
        diary.end(at(99)); // nothing was left then either
        assert_eq!(diary.when_told(7, true, at(100)), span(10, 13));
        assert_eq!((diary.notes.capacity(), diary.when_withdrawn(7)), (0, None));
    }

    #[test]
    fn what_is_told_later_is_known_exactly_until_it_is_forgotten() {
        let mut diary = Diary::new(at(10));
        diary.end(at(10));
        tell(&mut diary, 1..2, 20);
        tell(&mut diary, 2..3, 21);
        assert_eq!(diary.when_told(1, true, at(30)), span(20, 20));
        assert_eq!(diary.when_told(3, true, at(30)), span(10, 10), "of the first telling");
        let many = u32::try_from(KEPT).unwrap() - 1;
        tell(&mut diary, 1000..1000 + many, 40);
        // The first is not kept any more: it, or one of the first telling, was told by then.
        assert_eq!(diary.when_told(1, true, at(50)), span(10, 20));
        assert_eq!(diary.when_told(2, true, at(50)), span(21, 21));
        // More at once than are kept.
        tell(&mut diary, 5000..5000 + 3 * many, 60);
        assert_eq!(diary.when_told(5000, true, at(70)), span(10, 60));
        assert_eq!(diary.when_told(5000 + 3 * many - 1, true, at(70)), span(60, 60));
        assert_eq!(diary.notes.len(), KEPT);
    }

    #[test]
    fn withdrawals_are_kept_beside_tellings() {
        let mut diary = Diary::new(at(0));
        diary.withdrew(7, at(1)); // also while everything is told
        diary.end(at(2));
        assert_eq!(diary.when_withdrawn(7), Some(span(1, 1)));
        tell(&mut diary, 7..8, 3);
        assert_eq!(diary.when_withdrawn(7), None, "told again");
        assert_eq!(diary.when_told(7, true, at(9)), span(3, 3));
        diary.withdrew(7, at(4));
        assert_eq!(diary.when_withdrawn(7), Some(span(4, 4)));
    }

    #[test]
    fn told_again_means_told_then() {
        let mut diary = Diary::new(at(10));
        diary.end(at(10));
        tell(&mut diary, 1..2, 20);
        diary.begin(at(30));
        assert_eq!(diary.when_told(1, false, at(31)), span(20, 20), "not told again yet");
        assert_eq!(diary.when_told(2, false, at(31)), span(10, 30));
        tell(&mut diary, 1..3, 32);
        diary.end(at(32));
        assert_eq!(diary.when_told(1, true, at(40)), span(30, 32));
        tell(&mut diary, 1..2, 50);
        assert_eq!(diary.when_told(1, true, at(60)), span(50, 50));
    }

    #[test]
    fn a_note_is_small() {
        assert_eq!(size_of::<Note>(), 8);
    }
}
