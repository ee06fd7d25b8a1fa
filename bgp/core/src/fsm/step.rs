//! The transitions. One function per state; whatever a state does not name ends it as RFC 4271
//! §8.2.2 says ("any other event").

use std::sync::Arc;

use flock_bgp_wire::Notification;
use flock_bgp_wire::notification::{cease, code, fsm};

use super::{AFTER_COLLISION, Act, Cause, Idle, Input, LARGE_HOLD, Settings, State, Timer};
use crate::event::ConnId;
use crate::negotiate::Negotiated;

/// One step. The acts are appended to `acts`, so that a caller can keep the vector.
pub(crate) fn step(state: State, input: Input, settings: &Settings, acts: &mut Vec<Act>) -> State {
    match state {
        State::Idle(idle) => in_idle(idle, input, settings, acts),
        State::Connect { conn } => in_connect(conn, input, settings, acts),
        State::Active => in_active(input, settings, acts),
        State::OpenSent { conn } => in_open_sent(conn, input, settings, acts),
        State::OpenConfirm { conn, negotiated } => {
            in_open_confirm(conn, negotiated, input, settings, acts)
        }
        State::Established { conn, negotiated } => {
            in_established(conn, negotiated, input, settings, acts)
        }
    }
}

fn in_idle(idle: Idle, input: Input, settings: &Settings, acts: &mut Vec<Act>) -> State {
    match (input, idle) {
        (Input::Start, Idle::Stopped) => begin(settings, acts),
        (Input::Start, Idle::Resting) => {
            acts.push(Act::Disarm(Timer::IdleHold));
            begin(settings, acts)
        }
        (Input::IdleHoldExpired, Idle::Resting) => begin(settings, acts),
        (Input::Stop(_) | Input::Vanish, Idle::Resting) => {
            acts.push(Act::Disarm(Timer::IdleHold));
            State::Idle(Idle::Stopped)
        }
        // "It refuses all incoming BGP connections for this peer."
        (Input::Accepted(conn), idle) => {
            acts.push(Act::Close(conn));
            State::Idle(idle)
        }
        (_, idle) => State::Idle(idle),
    }
}

fn in_connect(conn: ConnId, input: Input, settings: &Settings, acts: &mut Vec<Act>) -> State {
    match input {
        Input::Start | Input::IdleHoldExpired => State::Connect { conn },
        Input::Accepted(rival) => {
            // The dial goes on: two speakers that dial at once would otherwise abandon both.
            acts.push(Act::Rival(rival));
            State::Connect { conn }
        }
        Input::Dialled => {
            acts.push(Act::Disarm(Timer::ConnectRetry));
            greet(conn, acts)
        }
        Input::ConnectRetryExpired => {
            acts.push(Act::Close(conn));
            begin(settings, acts)
        }
        Input::DialFailed | Input::Closed => {
            acts.push(Act::Down(Cause::DialFailed));
            wait(settings, acts)
        }
        Input::Stop(_) | Input::Vanish | Input::CollisionDump => {
            acts.extend([Act::Disarm(Timer::ConnectRetry), Act::Close(conn)]);
            stopped(Cause::Local, acts)
        }
        _ => {
            acts.extend([Act::Disarm(Timer::ConnectRetry), Act::Close(conn)]);
            resting(Cause::Local, acts)
        }
    }
}

fn in_active(input: Input, settings: &Settings, acts: &mut Vec<Act>) -> State {
    match input {
        Input::Start | Input::IdleHoldExpired => State::Active,
        Input::ConnectRetryExpired => begin(settings, acts),
        Input::Accepted(conn) => {
            acts.push(Act::Disarm(Timer::ConnectRetry));
            greet(conn, acts)
        }
        Input::Stop(_) | Input::Vanish | Input::CollisionDump => {
            acts.push(Act::Disarm(Timer::ConnectRetry));
            stopped(Cause::Local, acts)
        }
        _ => {
            acts.push(Act::Disarm(Timer::ConnectRetry));
            resting(Cause::Local, acts)
        }
    }
}

fn in_open_sent(conn: ConnId, input: Input, settings: &Settings, acts: &mut Vec<Act>) -> State {
    match input {
        Input::Open(negotiated) => {
            acts.push(Act::SendKeepalive);
            hold(&negotiated, acts);
            keepalive(&negotiated, acts);
            // Without a hold time the four minutes of patience still run, until the first KEEPALIVE.
            State::OpenConfirm { conn, negotiated }
        }
        Input::Closed | Input::DialFailed => {
            acts.extend([Act::Disarm(Timer::Hold), Act::Close(conn), Act::Down(Cause::Closed)]);
            wait(settings, acts)
        }
        input => in_connection(State::OpenSent { conn }, conn, input, settings, acts),
    }
}

fn in_open_confirm(
    conn: ConnId,
    negotiated: Arc<Negotiated>,
    input: Input,
    settings: &Settings,
    acts: &mut Vec<Act>,
) -> State {
    match input {
        Input::Keepalive => {
            hold(&negotiated, acts);
            if negotiated.hold.is_none() {
                acts.push(Act::Disarm(Timer::Hold)); // Off is off.
            }
            acts.push(Act::Up);
            State::Established { conn, negotiated }
        }
        Input::KeepaliveExpired => {
            acts.push(Act::SendKeepalive);
            keepalive(&negotiated, acts);
            State::OpenConfirm { conn, negotiated }
        }
        input => {
            in_connection(State::OpenConfirm { conn, negotiated }, conn, input, settings, acts)
        }
    }
}

fn in_established(
    conn: ConnId,
    negotiated: Arc<Negotiated>,
    input: Input,
    settings: &Settings,
    acts: &mut Vec<Act>,
) -> State {
    match input {
        Input::Update => {
            hold(&negotiated, acts);
            acts.push(Act::Learn);
        }
        Input::Keepalive => hold(&negotiated, acts),
        Input::Refresh => {
            hold(&negotiated, acts);
            acts.push(Act::Answer);
        }
        Input::KeepaliveExpired => {
            acts.push(Act::SendKeepalive);
            keepalive(&negotiated, acts);
        }
        Input::SendHoldExpired => {
            // RFC 9687 §3.2. The NOTIFICATION will hardly get through; the close does.
            let notification = Notification::new(code::SEND_HOLD_TIMER, 0);
            return end(conn, Cause::Sent(notification), Idle::Resting, acts);
        }
        input => {
            let state = State::Established { conn, negotiated };
            return in_connection(state, conn, input, settings, acts);
        }
    }
    State::Established { conn, negotiated }
}

/// What OpenSent, OpenConfirm and Established have in common.
fn in_connection(
    state: State,
    conn: ConnId,
    input: Input,
    settings: &Settings,
    acts: &mut Vec<Act>,
) -> State {
    let resting = |cause, acts: &mut Vec<Act>| end(conn, cause, Idle::Resting, acts);
    match input {
        Input::Start | Input::IdleHoldExpired => state,
        Input::Accepted(rival) => {
            acts.push(Act::Rival(rival));
            state
        }
        Input::Stop(notification) => end(conn, Cause::Sent(notification), Idle::Stopped, acts),
        Input::Vanish => end(conn, Cause::Local, Idle::Stopped, acts),
        Input::CollisionDump => {
            // The other connection carries on, so nothing restarts this machine.
            let notification = Notification::new(code::CEASE, cease::COLLISION);
            end(conn, Cause::Sent(notification), Idle::Stopped, acts)
        }
        Input::Interrupt(notification)
        | Input::OpenError(notification)
        | Input::HeaderError(notification)
        | Input::UpdateError(notification) => resting(Cause::Sent(notification), acts),
        Input::HoldExpired => resting(Cause::Sent(Notification::new(code::HOLD_TIMER, 0)), acts),
        Input::NotificationVersion(notification) | Input::Notification(notification) => {
            resting(Cause::Received(notification), acts)
        }
        Input::NotificationCollision(notification) => {
            end(conn, Cause::Received(notification), Idle::Stopped, acts);
            let connect_retry = settings.connect_retry.min(AFTER_COLLISION);
            wait(&Settings { connect_retry, ..*settings }, acts)
        }
        Input::Closed | Input::DialFailed => resting(Cause::Closed, acts),
        Input::Open(_) => resting(Cause::Sent(unexpected(&state, 1)), acts),
        Input::Update => resting(Cause::Sent(unexpected(&state, 2)), acts),
        Input::Keepalive => resting(Cause::Sent(unexpected(&state, 4)), acts),
        Input::Refresh => resting(Cause::Sent(unexpected(&state, 5)), acts),
        Input::ConnectRetryExpired
        | Input::KeepaliveExpired
        | Input::SendHoldExpired
        | Input::Dialled => resting(Cause::Sent(Notification::new(code::FSM, 0)), acts),
    }
}

/// RFC 6608 §3, §4: the subcode tells the state, the data the type of the message.
fn unexpected(state: &State, kind: u8) -> Notification {
    let subcode = match state {
        State::OpenSent { .. } => fsm::OPEN_SENT,
        State::OpenConfirm { .. } => fsm::OPEN_CONFIRM,
        State::Established { .. } => fsm::ESTABLISHED,
        State::Idle(_) | State::Connect { .. } | State::Active => 0,
    };
    Notification::with(code::FSM, subcode, vec![kind])
}

/// Dials, or waits to be dialled.
fn begin(settings: &Settings, acts: &mut Vec<Act>) -> State {
    if settings.passive {
        return State::Active;
    }
    let conn = settings.next_dial;
    acts.extend([Act::Arm(Timer::ConnectRetry, settings.connect_retry), Act::Dial(conn)]);
    State::Connect { conn }
}

/// Waits for the peer, and for the next attempt.
fn wait(settings: &Settings, acts: &mut Vec<Act>) -> State {
    if settings.passive {
        acts.push(Act::Disarm(Timer::ConnectRetry));
    } else {
        acts.push(Act::Arm(Timer::ConnectRetry, settings.connect_retry));
    }
    State::Active
}

fn greet(conn: ConnId, acts: &mut Vec<Act>) -> State {
    acts.extend([Act::SendOpen, Act::Arm(Timer::Hold, LARGE_HOLD)]);
    State::OpenSent { conn }
}

/// Restarts the hold timer, unless there is none (RFC 4271 §4.2: zero means never).
fn hold(negotiated: &Negotiated, acts: &mut Vec<Act>) {
    if let Some(hold) = negotiated.hold {
        acts.push(Act::Arm(Timer::Hold, hold));
    }
}

/// The same for the keepalive timer: a hold time of zero has no KEEPALIVEs (RFC 4271 §4.4).
fn keepalive(negotiated: &Negotiated, acts: &mut Vec<Act>) {
    if let Some(keepalive) = negotiated.keepalive {
        acts.push(Act::Arm(Timer::Keepalive, keepalive));
    }
}

/// A connection ends: what is to be said is said, its timers stop.
fn end(conn: ConnId, cause: Cause, idle: Idle, acts: &mut Vec<Act>) -> State {
    if let Cause::Sent(notification) = &cause {
        acts.push(Act::SendNotification(notification.clone()));
    }
    acts.extend([Timer::Hold, Timer::Keepalive, Timer::SendHold].map(Act::Disarm));
    acts.push(Act::Close(conn));
    match idle {
        Idle::Stopped => stopped(cause, acts),
        Idle::Resting => resting(cause, acts),
    }
}

fn stopped(cause: Cause, acts: &mut Vec<Act>) -> State {
    acts.push(Act::Down(cause));
    State::Idle(Idle::Stopped)
}

fn resting(cause: Cause, acts: &mut Vec<Act>) -> State {
    // The rest depends on what went before, so it is told first.
    acts.extend([Act::Down(cause), Act::Rest]);
    State::Idle(Idle::Resting)
}
