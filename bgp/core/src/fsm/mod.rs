//! RFC 4271 §8 as a pure function: [`step`] takes a state and an input and gives the next state and
//! the acts that go with it. It has no clock, no connection and no peer; whoever calls it carries
//! the acts out, in their order.
//!
//! One such machine runs per connection (RFC 4271 §8.2.1): the peer's own, which dials and rests,
//! and beside it, while a connection from the peer rivals it, one for that connection.
//!
//! As specified, with these exceptions:
//! - Optional attributes that nobody uses are not carried: DelayOpen, TrackTcpState, and the choice
//!   of not sending a NOTIFICATION without OPEN. DampPeerOscillations is, as the rest between
//!   sessions (`peer::backoff`).
//! - A dial that fails leads to Active, not Idle, whatever the DelayOpenTimer: an incoming
//!   connection is welcome while we wait for the next attempt (§8.2.2, Connect, event 18).
//! - A passive peer is never dialled, so its ConnectRetryTimer does not run (§8.2.2, Idle, event 4).
//! - A NOTIFICATION is never answered by one (§8.2.2 asks for it in OpenSent, §6.4 does not).
//! - A collision that both sides resolved against each other leads to Active, not Idle: whoever
//!   dials first is welcome.
//! - Messages in Connect and Active cannot come, there is no connection; they lead to Idle as
//!   specified.

mod step;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flock_bgp_wire::Notification;

use crate::event::ConnId;
use crate::negotiate::Negotiated;

pub(crate) use step::step;

/// Until the peer's OPEN, patience is four minutes (RFC 4271 §8.2.2).
pub(crate) const LARGE_HOLD: Duration = Duration::from_secs(240);

/// After a collision that left no connection, the next attempt is not far.
pub(crate) const AFTER_COLLISION: Duration = Duration::from_secs(1);

/// Where a connection's machine is, with what is known there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Refuses all connections.
    Idle(Idle),
    /// Waits for a dial.
    Connect { conn: ConnId },
    /// Waits for the peer, or for the next attempt.
    Active,
    /// Has sent OPEN.
    OpenSent { conn: ConnId },
    /// Has the peer's OPEN, waits for its KEEPALIVE.
    OpenConfirm { conn: ConnId, negotiated: Arc<Negotiated> },
    /// Speaks.
    Established { conn: ConnId, negotiated: Arc<Negotiated> },
}

/// What Idle waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Somebody's wish.
    Stopped,
    /// The IdleHoldTimer.
    Resting,
}

impl State {
    /// The connection, or the attempt at one.
    pub(crate) fn conn(&self) -> Option<ConnId> {
        match self {
            Self::Idle(_) | Self::Active => None,
            Self::Connect { conn }
            | Self::OpenSent { conn }
            | Self::OpenConfirm { conn, .. }
            | Self::Established { conn, .. } => Some(*conn),
        }
    }

    /// What both OPENs agreed on, once both are there.
    pub(crate) fn negotiated(&self) -> Option<&Arc<Negotiated>> {
        match self {
            Self::OpenConfirm { negotiated, .. } | Self::Established { negotiated, .. } => {
                Some(negotiated)
            }
            _ => None,
        }
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self, Self::Established { .. })
    }
}

/// What can happen to a machine; the numbers are those of RFC 4271 §8.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// 1, 4: the peer is wished for.
    Start,
    /// 2: it is not, and this NOTIFICATION says why.
    Stop(Notification),
    /// 8: the session must end, and may begin again after a rest.
    Interrupt(Notification),
    /// Ours: the connection is dropped without a word, as if the process died (RFC 4724).
    Vanish,
    /// 3, 5, 6, 7, 13: the rest is over.
    IdleHoldExpired,
    /// 9.
    ConnectRetryExpired,
    /// 10.
    HoldExpired,
    /// 11.
    KeepaliveExpired,
    /// 29 (RFC 9687 §3.1).
    SendHoldExpired,
    /// 16: our dial succeeded.
    Dialled,
    /// 18, before there was a connection.
    DialFailed,
    /// 17: the peer's dial succeeded.
    Accepted(ConnId),
    /// 18.
    Closed,
    /// 19, and what follows from it.
    Open(Arc<Negotiated>),
    /// 22.
    OpenError(Notification),
    /// 21, and what no other event covers.
    HeaderError(Notification),
    /// 23: another connection of this peer goes on instead.
    CollisionDump,
    /// 24.
    NotificationVersion(Notification),
    /// 25, where the peer has chosen another connection (RFC 4271 §6.8).
    NotificationCollision(Notification),
    /// 25, any other.
    Notification(Notification),
    /// 26.
    Keepalive,
    /// 27.
    Update,
    /// 28.
    UpdateError(Notification),
    /// RFC 2918.
    Refresh,
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// From now on, or again.
    Arm(Timer, Duration),
    /// No longer.
    Disarm(Timer),
    /// Arm the IdleHoldTimer, for as long as the peer's past deserves.
    Rest,
    /// Connect to the peer; the attempt's number was `Settings::next_dial`.
    Dial(ConnId),
    /// Close a connection or give an attempt up, after what was sent.
    Close(ConnId),
    /// A connection that needs a machine of its own (RFC 4271 §6.8).
    Rival(ConnId),
    /// Send our OPEN.
    SendOpen,
    /// Send a KEEPALIVE.
    SendKeepalive,
    /// Send this.
    SendNotification(Notification),
    /// A session begins.
    Up,
    /// The UPDATE at hand is believed to come from a peer of ours: apply it.
    Learn,
    /// The ROUTE-REFRESH at hand is to be answered.
    Answer,
    /// A session, or an attempt at one, is over.
    Down(Cause),
}

/// Why it is over. The words of the system are with whoever called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// We said this.
    Sent(Notification),
    /// They said this.
    Received(Notification),
    /// The connection closed.
    Closed,
    /// The dial failed.
    DialFailed,
    /// We wanted it so, and said nothing.
    Local,
}

/// Timers that the machine arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    IdleHold,
    ConnectRetry,
    Hold,
    Keepalive,
    SendHold,
}

/// What a machine needs to know of its peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Never dial.
    pub(crate) passive: bool,
    pub(crate) connect_retry: Duration,
    /// The number of the next dial, should there be one.
    pub(crate) next_dial: ConnId,
}
