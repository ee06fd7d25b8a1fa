//! Graceful restart (RFC 4724, RFC 8538) as decisions: which routes of a peer outlive its session,
//! and for how long. Also stale routes by enhanced refresh (RFC 7313 §4), which end the same way.
//!
//! [`Stale`] is the helper ("receiving speaker", RFC 4724 §4.2): per family, whether routes are
//! stale and until when. It owns no route: each call returns per family what the RIB is to do. The
//! restarting role (RFC 4724 §4.1) is three small decisions at the end. Deviation: route selection
//! is not deferred after a restart, because what we originate is known at once.

use std::time::Duration;

use flock_bgp_wire::notification::{cease, code};
use flock_bgp_wire::{Family, GracefulRestart, Notification};

use crate::config;
use crate::event::Now;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// TCP closed or failed without a NOTIFICATION, by either side; also where a new connection of
    /// the peer takes an old session's place (RFC 4724 §4.2).
    Closed,
    /// We sent this NOTIFICATION (code, subcode); expired timers are of this kind.
    Sent(u8, u8),
    /// They sent this one.
    Received(u8, u8),
    /// The peer is not wished for any more, or shut down.
    Unwanted,
}

/// What both sides had said about restarts in the session at hand. `None` in its place: one of
/// them does not take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed<'a> {
    /// What the peer said.
    pub(crate) theirs: &'a GracefulRestart,
    /// What we wish.
    pub(crate) ours: config::GracefulRestart,
}

impl Agreed<'_> {
    /// RFC 8538 §2: N on both sides.
    pub(crate) fn notification(&self) -> bool {
        self.theirs.notification && self.ours.notification
    }

    fn forwarding(&self, family: Family) -> Option<bool> {
        self.theirs.families.iter().find(|(named, _)| *named == family).map(|(_, kept)| *kept)
    }

    /// Whether this end leaves routes behind at all.
    fn survives(&self, loss: Loss) -> bool {
        match loss {
            Loss::Closed => true, // RFC 4724 §4.2
            // RFC 8538 §4: any NOTIFICATION but Hard Reset, for both its sender and its receiver;
            // RFC 4724 §4: without N, a NOTIFICATION ends everything.
            Loss::Sent(code, subcode) => self.notification() && !is_hard(code, subcode),
            Loss::Received(code, subcode) => {
                self.notification() && (code, subcode) != (code::CEASE, cease::HARD_RESET)
            }
            Loss::Unwanted => false,
        }
    }
}

/// What the RIB is to do with a peer's routes of one family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing.
    #[default]
    Unchanged,
    /// All are stale from now on: `mark_stale`.
    Mark,
    /// Those that were stale before go, all others are stale from now on: `sweep_stale`, then
    /// `mark_stale`.
    SweepAndMark,
    /// Those that are still stale go: `sweep_stale`.
    Sweep,
    /// All go: `forget`.
    Forget,
}

/// Between two enhanced refreshes of a family that count.
const REFRESHES_APART: Duration = Duration::from_secs(1);

/// A peer is waited for at most this long, whatever it says (RFC 4724 §4.2 asks for a bound).
const LONGEST_ABSENCE: Duration = Duration::from_secs(600);

/// By `Family::index`.
pub(crate) type Fates = [Fate; 2];

/// Stale routes of one family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// None.
    #[default]
    Fresh,
    /// The session is gone. `bound` is the last moment even if it comes back in time.
    Gone { until: Now, bound: Now },
    /// The session is back: End-of-RIB, or this moment, sweeps.
    Back { until: Now },
    /// An enhanced refresh is under way: its end, or this moment, sweeps.
    Refreshing { until: Now },
}

/// Which of a peer's routes are stale, and until when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stale {
    families: [Watch; 2],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Watch {
    state: State,
    /// The peer will say when its first telling is over, also one that keeps nothing itself.
    end_of_rib_due: bool,
    /// When the last enhanced refresh began.
    refreshed: Option<Now>,
}

impl Stale {
    /// A session that was Established is over, and had these families. Also, with
    /// [`Loss::Unwanted`], a peer that is away is not waited for any more.
    pub(crate) fn lost(
        &mut self,
        now: Now,
        loss: Loss,
        agreed: Option<Agreed<'_>>,
        negotiated: &[Family],
    ) -> Fates {
        self.each(|family, watch| {
            let keeps = agreed.filter(|agreed| {
                negotiated.contains(&family)
                    && agreed.survives(loss)
                    && agreed.forwarding(family).is_some()
                    && agreed.theirs.time > 0
            });
            let Some(agreed) = keeps else {
                watch.state = State::Fresh;
                return Fate::Forget;
            };
            let absence = Duration::from_secs(agreed.theirs.time.into()).min(LONGEST_ABSENCE);
            let until = later(now, absence);
            let bound = later(until, agreed.ours.stale_time);
            let (fate, bound) = match watch.state {
                State::Fresh | State::Gone { .. } | State::Refreshing { .. } => (Fate::Mark, bound),
                // RFC 8538 §4.1: with N on both sides, what is stale from an earlier restart stays,
                // up to its old bound, so that a peer that never gets as far as End-of-RIB does
                // not keep it for ever.
                State::Back { until: bound } if agreed.notification() && until <= bound => {
                    (Fate::Mark, bound)
                }
                // RFC 4724 §4.2: otherwise it goes now.
                State::Back { .. } => (Fate::SweepAndMark, bound),
            };
            watch.state = State::Gone { until, bound };
            fate
        })
    }

    /// A session with these families is Established.
    pub(crate) fn established(
        &mut self,
        now: Now,
        agreed: Option<Agreed<'_>>,
        negotiated: &[Family],
    ) -> Fates {
        self.each(|family, watch| {
            let agreed = agreed.filter(|_| negotiated.contains(&family));
            let forwarding = agreed.and_then(|agreed| agreed.forwarding(family));
            watch.end_of_rib_due = agreed.is_some();
            let State::Gone { bound, .. } = watch.state else { return Fate::Unchanged };
            match agreed {
                Some(agreed) if forwarding == Some(true) => {
                    let until = bound.min(later(now, agreed.ours.stale_time));
                    watch.state = State::Back { until };
                    Fate::Unchanged
                }
                // RFC 4724 §4.2: F is clear, the family is not in the capability, or there is
                // none: at once.
                _ => {
                    watch.state = State::Fresh;
                    Fate::Forget
                }
            }
        })
    }

    /// The peer has told all that it has (RFC 4724 §4.2).
    pub(crate) fn end_of_rib(&mut self, family: Family) -> Fates {
        self.of(family, |watch| {
            watch.end_of_rib_due = false;
            match watch.state {
                State::Back { .. } => {
                    watch.state = State::Fresh;
                    Fate::Sweep
                }
                State::Fresh | State::Gone { .. } | State::Refreshing { .. } => Fate::Unchanged,
            }
        })
    }

    /// BoRR (RFC 7313 §4). It counts only once End-of-RIB was seen, where one is due; and once a
    /// second, because it walks the table and costs the peer 23 octets. One that does not count
    /// leaves routes as they are.
    pub(crate) fn refresh_begins(&mut self, now: Now, bound: Duration, family: Family) -> Fates {
        self.of(family, |watch| match watch.state {
            State::Fresh | State::Refreshing { .. } if !watch.end_of_rib_due => {
                if watch.refreshed.is_some_and(|last| now.since(last) < REFRESHES_APART) {
                    return Fate::Unchanged;
                }
                watch.refreshed = Some(now);
                watch.state = State::Refreshing { until: later(now, bound) };
                Fate::Mark
            }
            _ => Fate::Unchanged,
        })
    }

    /// EoRR (RFC 7313 §4). Without BoRR it means nothing.
    pub(crate) fn refresh_ends(&mut self, family: Family) -> Fates {
        self.of(family, |watch| match watch.state {
            State::Refreshing { .. } => {
                watch.state = State::Fresh;
                Fate::Sweep
            }
            State::Fresh | State::Gone { .. } | State::Back { .. } => Fate::Unchanged,
        })
    }

    /// When to call [`Stale::expire`].
    pub(crate) fn deadline(&self) -> Option<Now> {
        self.families.iter().filter_map(|watch| watch.state.until()).min()
    }

    /// What is over at `now` is over.
    pub(crate) fn expire(&mut self, now: Now) -> Fates {
        self.each(|_, watch| {
            if watch.state.until().is_none_or(|until| now < until) {
                return Fate::Unchanged;
            }
            match std::mem::take(&mut watch.state) {
                State::Gone { .. } => Fate::Forget,
                State::Back { .. } | State::Refreshing { .. } => Fate::Sweep,
                State::Fresh => Fate::Unchanged,
            }
        })
    }

    /// Whether routes of this family are kept for a peer that is away or not yet done.
    pub(crate) fn is_stale(&self, family: Family) -> bool {
        self.watch(family).state != State::Fresh
    }

    /// Whether a peer that is back has not yet said that it is done: what it told in its former life
    /// and what it tells now are both there.
    pub(crate) fn tells_again(&self, family: Family) -> bool {
        matches!(self.watch(family).state, State::Back { .. })
    }

    fn watch(&self, family: Family) -> &Watch {
        let [ipv4, ipv6] = &self.families;
        match family {
            Family::Ipv4 => ipv4,
            Family::Ipv6 => ipv6,
        }
    }

    fn each(&mut self, mut decide: impl FnMut(Family, &mut Watch) -> Fate) -> Fates {
        let [ipv4, ipv6] = &mut self.families;
        [decide(Family::Ipv4, ipv4), decide(Family::Ipv6, ipv6)]
    }

    fn of(&mut self, family: Family, decide: impl FnOnce(&mut Watch) -> Fate) -> Fates {
        let [ipv4, ipv6] = &mut self.families;
        match family {
            Family::Ipv4 => [decide(ipv4), Fate::Unchanged],
            Family::Ipv6 => [Fate::Unchanged, decide(ipv6)],
        }
    }
}

impl State {
    fn until(self) -> Option<Now> {
        match self {
            Self::Fresh => None,
            Self::Gone { until, .. } | Self::Back { until } | Self::Refreshing { until } => {
                Some(until)
            }
        }
    }
}

fn later(now: Now, time: Duration) -> Now {
    Now(now.0.saturating_add(time))
}

/// RFC 8538 §5.1: our own NOTIFICATIONs after which nothing shall be kept.
pub(crate) fn is_hard(code: u8, subcode: u8) -> bool {
    code == code::CEASE
        && matches!(
            subcode,
            cease::MAX_PREFIXES | cease::SHUTDOWN | cease::DECONFIGURED | cease::HARD_RESET
        )
}

/// As it is sent (RFC 8538 §3): where N was agreed on, a hard one goes inside a Hard Reset,
/// because the peer would keep our routes otherwise.
pub(crate) fn dress(notification: Notification, agreed: Option<Agreed<'_>>) -> Notification {
    let Notification { code, subcode, data } = &notification;
    if !agreed.is_some_and(|agreed| agreed.notification())
        || !is_hard(*code, *subcode)
        || *subcode == cease::HARD_RESET
    {
        return notification;
    }
    let mut inside = Vec::with_capacity(2 + data.len());
    inside.extend_from_slice(&[*code, *subcode]);
    inside.extend_from_slice(data);
    Notification::with(code::CEASE, cease::HARD_RESET, inside)
}

/// As it is meant: what a Hard Reset carries (RFC 8538 §3.1), for people.
pub(crate) fn undress(notification: &Notification) -> Notification {
    match (notification.code, notification.subcode, notification.data.as_ref()) {
        (code::CEASE, cease::HARD_RESET, &[code, subcode, ..]) => {
            Notification { code, subcode, data: notification.data.slice(2..) }
        }
        _ => notification.clone(),
    }
}

/// What we know of our own past, for one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Past {
    /// This process took over from one that died with sessions up.
    pub(crate) restarted: bool,
    /// What that one had put into the kernel is still there.
    pub(crate) forwarding_kept: bool,
    /// This process was Established with the peer before.
    pub(crate) met: bool,
}

/// The capability that we offer (RFC 4724 §3).
///
/// R only in the first session after a restart: later ones are lost connections, and R would
/// tell the peer not to wait for our End-of-RIB (§4.1). F also for those: we did not restart, so
/// what we forwarded we still forward (§4.2), and a clear F makes the peer drop our routes.
pub(crate) fn capability(
    ours: config::GracefulRestart,
    families: &[Family],
    past: Past,
) -> GracefulRestart {
    let kept = past.met || past.forwarding_kept;
    GracefulRestart {
        restarted: past.restarted && !past.met,
        notification: ours.notification,
        time: u16::try_from(ours.time.as_secs()).unwrap_or(u16::MAX).min(0x0FFF),
        families: families.iter().map(|family| (*family, kept)).collect(),
    }
}

/// Whether End-of-RIB may go out (RFC 4724 §4.1): what was there before is originated again, so
/// that the peer sweeps nothing that is still true, and all of it is told.
pub(crate) fn end_of_rib_may_go(held: bool, originations_complete: bool, all_told: bool) -> bool {
    (!held || originations_complete) && all_told
}

#[cfg(test)]
mod tests;
