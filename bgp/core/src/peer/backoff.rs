//! How long a peer rests before the next attempt (RFC 4271 §8.1.1, DampPeerOscillations; the RFC
//! leaves the how to us). A session that lasted clears the past; a peer that flaps, or fails at
//! OPEN each time, is met ever more rarely.

use std::time::Duration;

use flock_bgp_wire::Notification;
use flock_bgp_wire::notification::{cease, code};

use crate::fsm::Cause;
use crate::timer::Dice;

/// A session of this length was worth having.
const LASTED: Duration = Duration::from_secs(30);
/// The longest rest after errors, unless attempts are rarer anyway.
const LONGEST: Duration = Duration::from_secs(60);
/// After too many prefixes.
const TOO_MANY: Duration = Duration::from_secs(60);
const TOO_MANY_LONGEST: Duration = Duration::from_secs(3_600);
/// After what an operator asked for, a lost collision, and the first time that an attempt ended and
/// nobody had done wrong: a peer is refused while we rest, and it may be knocking already.
const SHORT: Duration = Duration::from_secs(1);

/// What a peer's past amounts to.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Ends in a row that were no good session.
    failures: u32,
    /// Times in a row that it had too many prefixes.
    floods: u32,
}

impl Backoff {
    /// It is over for this reason, after a session of this length (`None`: there was none).
    pub(crate) fn rest(
        &mut self,
        cause: &Cause,
        lasted: Option<Duration>,
        connect_retry: Duration,
        dice: &mut Dice,
    ) -> Duration {
        let flood = TOO_MANY * 2_u32.saturating_pow(self.floods.min(6));
        if lasted.is_some_and(|lasted| lasted >= LASTED) {
            self.failures = 0;
        }
        // A peer that held its limit for longer than it had to wait has mended its ways.
        if lasted.is_some_and(|lasted| lasted >= flood) {
            self.floods = 0;
        }
        match cause {
            Cause::Sent(n) if (n.code, n.subcode) == (code::CEASE, cease::MAX_PREFIXES) => {
                let rest = TOO_MANY * 2_u32.saturating_pow(self.floods.min(6));
                self.floods = self.floods.saturating_add(1);
                rest.min(TOO_MANY_LONGEST)
            }
            Cause::Sent(n) | Cause::Received(n) if is_collision(n) => {
                dice.jitter(connect_retry.min(SHORT))
            }
            Cause::Sent(n) if n.code == code::CEASE && is_asked_for(n.subcode) => {
                dice.jitter(connect_retry.min(SHORT))
            }
            // The peer may be back in a moment (an upgrade, a crash, a reset), and it is refused
            // while we rest: not after a session that was good.
            cause if is_mild(cause) && self.failures == 0 && lasted.is_some() => {
                self.failures = 1;
                Duration::ZERO
            }
            _ => {
                let first = if is_mild(cause) { connect_retry.min(SHORT) } else { connect_retry };
                let base = first.saturating_mul(2_u32.saturating_pow(self.failures.min(16)));
                self.failures = self.failures.saturating_add(1);
                dice.jitter(base.min(LONGEST.max(connect_retry)))
            }
        }
    }
}

/// Nothing was wrong with what either of us said.
fn is_mild(cause: &Cause) -> bool {
    match cause {
        Cause::Closed | Cause::DialFailed | Cause::Local => true,
        Cause::Received(n) => n.code == code::CEASE,
        Cause::Sent(n) => matches!(n.code, code::HOLD_TIMER | code::SEND_HOLD_TIMER),
    }
}

/// RFC 4271 §6.8: one of two connections was to go.
fn is_collision(n: &Notification) -> bool {
    (n.code, n.subcode) == (code::CEASE, cease::COLLISION)
}

fn is_asked_for(subcode: u8) -> bool {
    matches!(subcode, cease::RESET | cease::CONFIGURATION)
}

#[cfg(test)]
mod tests;
