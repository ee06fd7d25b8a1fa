//! Timers as data: what is due when, and the jitter of RFC 4271 §10.
//!
//! Each peer has one of each [`Clock`]. All that run are in one ordered set, so the next deadline
//! is its first entry. A timer that is put off (the hold timer, at each message; the keepalive
//! timer, at each UPDATE sent) or stopped only has its deadline rewritten: its entry stays where it
//! is, and is moved or dropped when it comes up. A deadline told to the driver may therefore be early, never late.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::event::{Now, PeerKey};

/// The timers of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Clock {
    /// Rest between sessions.
    IdleHold,
    ConnectRetry,
    Hold,
    Keepalive,
    /// RFC 9687.
    SendHold,
    /// Of the connection that rivals the peer's own.
    RivalHold,
    RivalKeepalive,
    /// Stale routes go by then, or the peer is back (RFC 4724 §4.2).
    Stale,
    /// What people have not heard of yet is told.
    Notices,
}

const ALL: [Clock; 9] = [
    Clock::IdleHold,
    Clock::ConnectRetry,
    Clock::Hold,
    Clock::Keepalive,
    Clock::SendHold,
    Clock::RivalHold,
    Clock::RivalKeepalive,
    Clock::Stale,
    Clock::Notices,
];

#[derive(Debug, Clone, Copy, Default)]
struct Timer {
    /// When it is due; `None`: it does not run.
    due: Option<Now>,
    /// Where it is in the set: at `due` or before.
    queued: Option<Now>,
}

/// All timers of all peers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    peers: Vec<[Timer; ALL.len()]>,
    queue: BTreeSet<(Now, PeerKey, Clock)>,
}

impl Timers {
    pub(crate) fn arm(&mut self, peer: PeerKey, clock: Clock, due: Now) {
        let slot = usize::from(peer.0);
        if self.peers.len() <= slot {
            self.peers.resize(slot + 1, Default::default());
        }
        let Some(timer) = self.peers.get_mut(slot).and_then(|all| all.get_mut(clock as usize))
        else {
            return;
        };
        timer.due = Some(due);
        match timer.queued {
            Some(queued) if queued <= due => {}
            Some(queued) => {
                self.queue.remove(&(queued, peer, clock));
                timer.queued = Some(due);
                self.queue.insert((due, peer, clock));
            }
            None => {
                timer.queued = Some(due);
                self.queue.insert((due, peer, clock));
            }
        }
    }

    /// Its entry goes when it comes up.
    pub(crate) fn disarm(&mut self, peer: PeerKey, clock: Clock) {
        if let Some(timer) = self.get_mut(peer, clock) {
            timer.due = None;
        }
    }

    /// The peer goes, and its entries with it.
    pub(crate) fn forget(&mut self, peer: PeerKey) {
        for clock in ALL {
            let Some(timer) = self.get_mut(peer, clock) else { return };
            if let Some(queued) = std::mem::take(timer).queued {
                self.queue.remove(&(queued, peer, clock));
            }
        }
    }

    pub(crate) fn due(&self, peer: PeerKey, clock: Clock) -> Option<Now> {
        self.peers.get(usize::from(peer.0))?.get(clock as usize)?.due
    }

    /// `from` stops, `to` goes on in its place.
    pub(crate) fn hand_over(&mut self, peer: PeerKey, from: Clock, to: Clock) {
        let due = self.due(peer, from);
        self.disarm(peer, from);
        self.disarm(peer, to);
        if let Some(due) = due {
            self.arm(peer, to, due);
        }
    }

    /// Each goes on in the other's place.
    pub(crate) fn swap(&mut self, peer: PeerKey, one: Clock, other: Clock) {
        let due = self.due(peer, one);
        self.hand_over(peer, other, one);
        if let Some(due) = due {
            self.arm(peer, other, due);
        }
    }

    /// When to look again.
    pub(crate) fn next(&self) -> Option<Now> {
        self.queue.first().map(|(due, _, _)| *due)
    }

    /// A timer that is due; it stops.
    pub(crate) fn expired(&mut self, now: Now) -> Option<(PeerKey, Clock)> {
        while let Some(&(queued, peer, clock)) = self.queue.first() {
            if queued > now {
                return None;
            }
            self.queue.pop_first();
            let Some(timer) = self.get_mut(peer, clock) else { continue };
            match timer.due {
                Some(due) if due > now => {
                    timer.queued = Some(due);
                    self.queue.insert((due, peer, clock));
                }
                Some(_) => {
                    *timer = Timer::default();
                    return Some((peer, clock));
                }
                None => timer.queued = None,
            }
        }
        None
    }

    fn get_mut(&mut self, peer: PeerKey, clock: Clock) -> Option<&mut Timer> {
        self.peers.get_mut(usize::from(peer.0))?.get_mut(clock as usize)
    }
}

impl Now {
    /// Later by this much.
    pub(crate) fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// How long ago `then` was.
    pub(crate) fn since(self, then: Self) -> Duration {
        self.0.saturating_sub(then.0)
    }
}

/// Chance, from a seed (SplitMix64): the same seed rolls the same.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Three quarters of `base` up to all of it (RFC 4271 §10).
    pub(crate) fn jitter(&mut self, base: Duration) -> Duration {
        let quarter = base / 4;
        let part = u32::try_from(self.roll() % 1_024).unwrap_or(0);
        // Divided first: a wish may be as long as a Duration.
        base - quarter + quarter / 1_024 * part
    }
}

#[cfg(test)]
mod tests;
