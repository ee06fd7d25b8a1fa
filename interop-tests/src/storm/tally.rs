//! What became of a storm's probes, target by target: pure bookkeeping.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// What became of the probes of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Whom they were sent to.
    pub target: IpAddr,
    /// How many, also those that could not leave.
    pub sent: u64,
    /// How many were answered, once or more often.
    pub answered: u64,
    /// How many were not.
    pub lost: u64,
    /// How many of the lost ones the sender's own kernel refused to send, for
    /// instance for want of a route.
    pub refused: u64,
    /// Answers beyond the first of a probe.
    pub duplicates: u64,
    /// The longest time without an answer while probes were sent. It is measured
    /// by the clock and contains whatever delayed the storm itself, so it is to be
    /// read as "at most so long an outage"; a claim about loss wants
    /// [`Tally::longest_loss`].
    pub longest_gap: Duration,
    /// The most probes in a row that were lost.
    pub longest_loss: u64,
    /// The number of the first of them, from 0: whether the network was not ready
    /// yet, or what was done to it later was noticed.
    pub lost_from: Option<u64>,
}

/// What became of all probes of a storm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Each target, in the order in which they were given.
    pub targets: Vec<Tally>,
    /// Answers that belong to no probe: from another address, or to what was not
    /// sent yet.
    pub strange: u64,
    /// Why the last of the refused probes could not leave.
    pub refusal: Option<String>,
}

impl Outcome {
    /// Probes to all targets.
    pub fn sent(&self) -> u64 {
        self.targets.iter().map(|tally| tally.sent).sum()
    }

    /// Answered ones of all targets.
    pub fn answered(&self) -> u64 {
        self.targets.iter().map(|tally| tally.answered).sum()
    }

    /// Lost ones of all targets.
    pub fn lost(&self) -> u64 {
        self.targets.iter().map(|tally| tally.lost).sum()
    }

    /// Duplicates of all targets.
    pub fn duplicates(&self) -> u64 {
        self.targets.iter().map(|tally| tally.duplicates).sum()
    }

    /// The longest gap of any target.
    pub fn longest_gap(&self) -> Duration {
        self.targets.iter().map(|tally| tally.longest_gap).max().unwrap_or_default()
    }

    /// The most probes in a row that any target lost.
    pub fn longest_loss(&self) -> u64 {
        self.targets.iter().map(|tally| tally.longest_loss).max().unwrap_or_default()
    }

    /// What became of one target.
    pub fn of(&self, target: IpAddr) -> Option<&Tally> {
        self.targets.iter().find(|tally| tally.target == target)
    }

    /// Fails, with the whole table, unless every probe was answered exactly once.
    pub fn ensure_perfect(&self) -> Result<()> {
        let perfect = self.lost() == 0 && self.duplicates() == 0 && self.strange == 0;
        ensure!(perfect && self.sent() > 0, "not every probe was answered once:\n{self}");
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for tally in &self.targets {
            let Tally { target, sent, answered, lost, refused, duplicates, .. } = tally;
            write!(f, "{target:<28} sent {sent} answered {answered} lost {lost}")?;
            if let (row, Some(from)) = (tally.longest_loss, tally.lost_from) {
                write!(f, " (refused {refused}, {row} in a row from probe {from})")?;
            }
            writeln!(f, " twice {duplicates} gap {} ms", tally.longest_gap.as_millis())?;
        }
        write!(f, "in all: sent {} answered {}", self.sent(), self.answered())?;
        write!(f, " lost {} twice {}", self.lost(), self.duplicates())?;
        write!(f, " strange {}", self.strange)?;
        self.refusal.iter().try_for_each(|reason| write!(f, ", refused last: {reason}"))
    }
}

/// The receiver's notes about one target.
#[derive(Debug)]
pub(super) struct Notes {
    target: IpAddr,
    /// How often each probe was answered, by its sequence number.
    answers: Vec<u8>,
    duplicates: u64,
    last: Instant,
    longest_gap: Duration,
}

/// What the sender knows of one target at the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) probes: u64,
    pub(super) refused: u64,
    /// When the last one left.
    pub(super) until: Instant,
}

impl Notes {
    pub(super) fn new(target: IpAddr, start: Instant) -> Self {
        let answers = Vec::new();
        Self { target, answers, duplicates: 0, last: start, longest_gap: Duration::ZERO }
    }

    pub(super) fn target(&self) -> IpAddr {
        self.target
    }

    /// Notes an answer, and says whether it was the probe's first.
    pub(super) fn answer(&mut self, sequence: u64, now: Instant) -> bool {
        let Ok(at) = usize::try_from(sequence) else { return false };
        if self.answers.len() <= at {
            self.answers.resize(at + 1, 0);
        }
        let Some(count) = self.answers.get_mut(at) else { return false };
        *count = count.saturating_add(1);
        let first = *count == 1;
        if first {
            self.longest_gap = self.longest_gap.max(now.saturating_duration_since(self.last));
            self.last = now;
        } else {
            self.duplicates += 1;
        }
        first
    }

    /// The tally, once it is known how many probes were sent.
    pub(super) fn tally(&self, sent: Sent) -> Tally {
        let answered = self.answers.iter().filter(|count| **count > 0).count();
        let answered = u64::try_from(answered).unwrap_or(u64::MAX);
        let last_gap = sent.until.saturating_duration_since(self.last);
        let (longest_loss, from) = self.longest_loss(sent.probes);
        Tally {
            target: self.target,
            sent: sent.probes,
            answered,
            lost: sent.probes.saturating_sub(answered),
            refused: sent.refused,
            duplicates: self.duplicates,
            longest_gap: self.longest_gap.max(last_gap),
            longest_loss,
            lost_from: (longest_loss > 0).then_some(from),
        }
    }

    /// How many in a row, and from which.
    fn longest_loss(&self, sent: u64) -> (u64, u64) {
        let mut longest = (0, 0);
        let mut row = (0, 0);
        // Nothing was heard of those that came after the last answer.
        let counts = self.answers.iter().copied().chain(std::iter::repeat(0));
        for (sequence, count) in (0..sent).zip(counts) {
            row = if count == 0 { (row.0 + 1, row.1) } else { (0, sequence + 1) };
            if row.0 > longest.0 {
                longest = row;
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn tally(answers: &[u64], sent: u64) -> Tally {
        let start = Instant::now();
        let at = |sequence: u64| start + Duration::from_millis(sequence * 10);
        let mut notes = Notes::new(TARGET, start);
        for sequence in answers {
            notes.answer(*sequence, at(*sequence));
        }
        notes.tally(Sent { probes: sent, refused: 0, until: at(sent.saturating_sub(1)) })
    }

    #[test]
    fn losses_are_counted_wherever_they_are() {
        type Case = (&'static [u64], u64, u64, u64, Option<u64>, u64);
        let cases: &[Case] = &[
            // answers, sent, lost, in a row, from which, gap in milliseconds
            (&[0, 1, 2, 3], 4, 0, 0, None, 10),
            (&[2, 3], 4, 2, 2, Some(0), 20),
            (&[0, 3], 4, 2, 2, Some(1), 30),
            (&[0, 1], 4, 2, 2, Some(2), 20),
            (&[0, 2, 4], 6, 3, 1, Some(1), 20),
            (&[1, 4], 5, 3, 2, Some(2), 30),
            (&[], 3, 3, 3, Some(0), 20),
            (&[], 0, 0, 0, None, 0),
        ];
        for (answers, sent, lost, row, from, gap) in cases {
            let tally = tally(answers, *sent);
            assert_eq!(tally.lost, *lost, "{answers:?} of {sent}");
            assert_eq!(tally.longest_loss, *row, "{answers:?} of {sent}");
            assert_eq!(tally.lost_from, *from, "{answers:?} of {sent}");
            assert_eq!(tally.longest_gap, Duration::from_millis(*gap), "{answers:?} of {sent}");
            assert_eq!(tally.answered + tally.lost, *sent);
        }
        let swapped = tally(&[1, 0, 3, 2], 4);
        assert_eq!((swapped.lost, swapped.longest_loss, swapped.duplicates), (0, 0, 0));
    }

    #[test]
    fn a_second_answer_is_a_duplicate_and_ends_no_gap() {
        let tally = tally(&[0, 0, 0, 2], 3);
        assert_eq!((tally.answered, tally.lost, tally.duplicates), (2, 1, 2));
        assert_eq!(tally.longest_gap, Duration::from_millis(20));
        let outcome = Outcome { targets: vec![tally], strange: 0, refusal: None };
        let told = outcome.ensure_perfect().unwrap_err().to_string();
        assert!(told.contains("lost 1") && told.contains("twice 2"), "{told}");
    }

    #[test]
    fn a_storm_that_sent_nothing_proves_nothing() {
        let outcome = Outcome { targets: Vec::new(), strange: 0, refusal: None };
        outcome.ensure_perfect().unwrap_err();
    }
}
