//! The times of a session: hold, keepalive, retry, graceful restart, BFD. Decides their bounds,
//! which are those of the protocols, and their defaults; leaves using them to the speaker.

use std::time::Duration;

use super::duration::{self, Bounds, human};
use super::model::Bfd;
use super::problem::At;
use super::schema;

const HOLD: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(5);
const RESTART: Duration = Duration::from_secs(120);
const BFD: Bfd = Bfd { interval: Duration::from_millis(300), multiplier: 3 };

/// RFC 4271 §4.2: two bytes of seconds, and 1 and 2 are not allowed.
const HOLD_BOUNDS: Bounds = seconds(0, 65_535);
const KEEPALIVE_BOUNDS: Bounds = seconds(1, 21_845);
/// RFC 4724 §3: twelve bits of seconds.
const RESTART_BOUNDS: Bounds = seconds(1, 4095);
const RETRY_BOUNDS: Bounds = Bounds {
    least: Duration::from_millis(100),
    most: Duration::from_secs(3600),
    whole_seconds: false,
};
/// RFC 5880 has microseconds; below 10 ms a process in user space only reports itself.
const BFD_BOUNDS: Bounds = Bounds {
    least: Duration::from_millis(10),
    most: Duration::from_secs(60),
    whole_seconds: false,
};

const fn seconds(least: u64, most: u64) -> Bounds {
    Bounds {
        least: Duration::from_secs(least),
        most: Duration::from_secs(most),
        whole_seconds: true,
    }
}

/// What `model::Peer` has of times.
pub(super) struct Timers {
    pub(super) hold_time: Option<Duration>,
    pub(super) keepalive: Option<Duration>,
    pub(super) connect_retry: Duration,
    pub(super) graceful_restart: Option<Duration>,
    pub(super) bfd: Option<Bfd>,
}

/// The timers, or problems and nothing.
pub(super) fn read(wish: &schema::Peer, at: &mut At<'_>) -> Option<Timers> {
    let hold = or(wish.hold_time.as_ref(), HOLD, HOLD_BOUNDS, at.key("holdTime"));
    let hold = hold.and_then(|hold| {
        if !hold.is_zero() && hold < Duration::from_secs(3) {
            let span = wish.hold_time.as_ref().map(ToString::to_string).unwrap_or_default();
            at.key("holdTime").wrong(span, "a hold time is 0 or at least 3s (RFC 4271 §4.2)");
            return None;
        }
        Some(hold)
    });
    let keepalive = wish.keepalive.as_ref().and_then(|span| {
        let keepalive = duration::read(span, KEEPALIVE_BOUNDS, at.key("keepalive"))?;
        let problem = match hold? {
            Duration::ZERO => {
                "with a holdTime of 0 there are no keepalives; leave it out".to_owned()
            }
            hold if keepalive > hold => {
                format!("longer than the hold time of {}; write at most a third of it", human(hold))
            }
            _ => return Some(keepalive),
        };
        at.key("keepalive").wrong(span, problem);
        None
    });
    let retry = or(wish.connect_retry.as_ref(), RETRY, RETRY_BOUNDS, at.key("connectRetry"));
    let restart = restart(wish.graceful_restart.as_ref(), at.key("gracefulRestart"));
    let bfd = bfd(wish.bfd.as_ref(), at.key("bfd"));
    Some(Timers {
        hold_time: Some(hold?).filter(|hold| !hold.is_zero()),
        keepalive,
        connect_retry: retry?,
        graceful_restart: restart,
        bfd,
    })
}

fn or(
    span: Option<&schema::Span>,
    default: Duration,
    bounds: Bounds,
    at: At<'_>,
) -> Option<Duration> {
    match span {
        Some(span) => duration::read(span, bounds, at),
        None => Some(default),
    }
}

/// On unless said otherwise. A time that is out of bounds is a problem also while it is off: it
/// would be one when somebody turns it on.
fn restart(wish: Option<&schema::GracefulRestart>, mut at: At<'_>) -> Option<Duration> {
    let span = wish.and_then(|wish| wish.time.as_ref());
    let time = or(span, RESTART, RESTART_BOUNDS, at.key("time"));
    time.filter(|_| wish.and_then(|wish| wish.enabled).unwrap_or(true))
}

/// Off unless said otherwise.
fn bfd(wish: Option<&schema::Bfd>, mut at: At<'_>) -> Option<Bfd> {
    let wish = wish?;
    let interval = or(wish.interval.as_ref(), BFD.interval, BFD_BOUNDS, at.key("interval"));
    let multiplier = match wish.multiplier {
        Some(times) => at.key("multiplier").number(times, 1, u8::MAX),
        None => Some(BFD.multiplier),
    };
    let bfd = Bfd { interval: interval?, multiplier: multiplier? };
    wish.enabled.unwrap_or(false).then_some(bfd)
}
