//! Machines are stepped and their acts carried out: timers, dials, connections, words.
//!
//! Keeps one rule: a peer's session, and whatever dials, is in its main machine. Where the rival
//! gets ahead of it, both change places (RFC 4271 §6.8 decides which connection stays, not which
//! machine has it).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use flock_bgp_wire::notification::{cease, code};

use super::Speaker;
use crate::event::{Action, ConnId, DownReason, Notice, PeerKey, Refusal};
use crate::fsm::{self, Act, Cause, Idle, Input, Settings, State, Timer};
use crate::negotiate;
use crate::peer::{Began, Lane, Machine};
use crate::restart::{self, Past};
use crate::timer::Clock;

/// Not even a wish makes attempts come faster: time must pass between them.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// What a step leaves to whoever asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// Apply the UPDATE at hand.
    Learn,
    /// Answer the ROUTE-REFRESH at hand.
    Answer,
    /// Give the connection at hand a machine of its own.
    Rival,
}

impl Speaker {
    pub(super) fn tick(&mut self) {
        while let Some((key, clock)) = self.timers.expired(self.now) {
            let (lane, input) = match clock {
                Clock::IdleHold => (Lane::Main, Input::IdleHoldExpired),
                Clock::ConnectRetry => (Lane::Main, Input::ConnectRetryExpired),
                Clock::Hold => (Lane::Main, Input::HoldExpired),
                Clock::Keepalive => (Lane::Main, Input::KeepaliveExpired),
                Clock::SendHold => (Lane::Main, Input::SendHoldExpired),
                Clock::RivalHold => (Lane::Rival, Input::HoldExpired),
                Clock::RivalKeepalive => (Lane::Rival, Input::KeepaliveExpired),
                Clock::Stale => {
                    self.expire_stale(key);
                    continue;
                }
                Clock::Notices => {
                    self.tell_untold(key);
                    continue;
                }
            };
            self.step(key, lane, input);
        }
    }

    /// One step of a machine, with all that follows from it.
    pub(super) fn step(&mut self, key: PeerKey, lane: Lane, input: Input) -> Left {
        let next_dial = self.next_dial;
        let Some(peer) = self.peers.get_mut(key) else {
            return Left::Nothing;
        };
        let settings = Settings {
            passive: peer.config.passive,
            connect_retry: peer.config.connect_retry.max(SHORTEST_RETRY),
            next_dial,
        };
        let Some(machine) = peer.machine(lane) else { return Left::Nothing };
        let before = std::mem::discriminant(&machine.state);
        let state = std::mem::replace(&mut machine.state, State::Active);
        let mut acts = std::mem::take(&mut self.acts);
        machine.state = fsm::step(state, input, &settings, &mut acts);
        let changed = std::mem::discriminant(&machine.state) != before;
        let mut left = Left::Nothing;
        for act in acts.drain(..) {
            match act {
                Act::Learn => left = Left::Learn,
                Act::Answer => left = Left::Answer,
                Act::Rival(_) => left = Left::Rival,
                act => self.act(key, lane, act),
            }
        }
        self.acts = acts;
        if changed {
            self.settle(key, lane);
        }
        left
    }

    fn act(&mut self, key: PeerKey, lane: Lane, act: Act) {
        match act {
            Act::Arm(timer, span) => self.arm(key, lane, timer, span),
            Act::Disarm(timer) => {
                if let Some(clock) = clock(lane, timer) {
                    self.timers.disarm(key, clock);
                }
            }
            Act::Rest => self.rest(key, lane),
            Act::Dial(conn) => self.dial(key, conn),
            Act::Close(conn) => self.close(key, lane, conn),
            Act::SendOpen | Act::SendKeepalive | Act::SendNotification(_) => {
                self.say(key, lane, act);
            }
            Act::Up => {} // After the machines have settled.
            Act::Down(cause) => self.down(key, lane, &cause),
            Act::Learn | Act::Answer | Act::Rival(_) => {}
        }
    }

    fn arm(&mut self, key: PeerKey, lane: Lane, timer: Timer, span: Duration) {
        let Some(clock) = clock(lane, timer) else { return };
        let span = match timer {
            // RFC 4271 §10.
            Timer::ConnectRetry | Timer::Keepalive => self.dice.jitter(span),
            Timer::Hold | Timer::SendHold | Timer::IdleHold => span,
        };
        self.timers.arm(key, clock, self.now.after(span));
    }

    fn rest(&mut self, key: PeerKey, lane: Lane) {
        let (Lane::Main, Some(peer)) = (lane, self.peers.get_mut(key)) else { return };
        let Some((cause, lasted)) = peer.ended.take() else { return };
        peer.earned_rest = is_grave(&cause);
        let rest = peer.backoff.rest(&cause, lasted, peer.config.connect_retry, &mut self.dice);
        self.timers.arm(key, Clock::IdleHold, self.now.after(rest));
    }

    fn dial(&mut self, key: PeerKey, conn: ConnId) {
        let deadline = self.timers.due(key, Clock::ConnectRetry).unwrap_or(self.now);
        // The driver shall have words for a handshake that hangs before we give it up.
        let patience = deadline.since(self.now).mul_f64(0.9);
        let Some(peer) = self.peers.get(key) else { return };
        let dial = Action::Dial {
            conn,
            remote: SocketAddr::new(peer.config.address, peer.config.port),
            local: peer.config.local_address,
            transport: peer.config.transport.clone(),
            patience,
        };
        self.actions.push_back(dial);
        self.owners.insert(conn, key);
        self.next_dial = ConnId(conn.0 + 2);
    }

    /// The connection leaves its machine; what it had to say lingers until it is said.
    pub(super) fn close(&mut self, key: PeerKey, lane: Lane, conn: ConnId) {
        let machine = self.peers.get_mut(key).and_then(|peer| peer.machine(lane));
        let connection = machine.and_then(|machine| machine.connection.take_if(|c| c.id == conn));
        // Unless the driver told us itself that it is gone.
        if self.owners.remove(&conn).is_none() {
            return;
        }
        if let Some(mut connection) = connection
            && !connection.outbox.is_empty()
        {
            let mut words = BytesMut::new();
            connection.outbox.drain(&mut words);
            self.parting.insert(conn, words);
        }
        self.actions.push_back(Action::Close(conn));
    }

    fn say(&mut self, key: PeerKey, lane: Lane, act: Act) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let past = Past {
            restarted: self.config.restarted,
            forwarding_kept: self.config.forwarding_kept,
            met: peer.met,
        };
        let agreed = peer.session.as_ref().and_then(|s| s.negotiated.agreed(&peer.config));
        let act = match act {
            Act::SendNotification(notification) if lane == Lane::Main => {
                Act::SendNotification(restart::dress(notification, agreed))
            }
            act => act,
        };
        let machine = match lane {
            Lane::Main => Some(&mut peer.main),
            Lane::Rival => peer.rival.as_mut(),
        };
        let Some(connection) = machine.and_then(|m| m.connection.as_mut()) else { return };
        match act {
            Act::SendOpen => {
                let open = negotiate::offer(&self.config, &peer.config, past);
                connection.offer = Some(open.clone());
                connection.outbox.open(open);
            }
            Act::SendKeepalive => connection.outbox.keepalive(),
            Act::SendNotification(notification) => {
                // `close` follows and hands it to the driver.
                return connection.outbox.notification(notification);
            }
            _ => {}
        }
        if !std::mem::replace(&mut connection.woken, true) {
            self.actions.push_back(Action::Wake(connection.id));
        }
    }

    fn down(&mut self, key: PeerKey, lane: Lane, cause: &Cause) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let words = peer.words.take();
        // A rival is the same peer's other attempt: its end is no news.
        if lane == Lane::Rival {
            return;
        }
        let lasted = peer.session.as_ref().map(|session| now.since(session.since));
        peer.ended = Some((cause.clone(), lasted));
        // Nor is the end of an attempt whose rival carries on.
        if peer.session.is_none()
            && peer.rival.is_some()
            && (is_collision(cause) || matches!(cause, Cause::Local))
        {
            return;
        }
        let reason = reason(cause, words);
        self.end_session(key, cause);
        let Some(peer) = self.peers.get_mut(key) else { return };
        // That nobody answers, or hangs up at once, does not hide why the session ended.
        match cause {
            Cause::DialFailed => peer.last_refusal = Some((now, reason.clone())),
            Cause::Closed if lasted.is_none() => peer.last_refusal = Some((now, reason.clone())),
            _ => peer.last_error = Some((now, reason.clone())),
        }
        let name = peer.config.name.clone();
        self.notice(Notice::Down(key, name, reason));
    }

    /// After a machine changed its state: who is who, and whether a session has begun.
    fn settle(&mut self, key: PeerKey, lane: Lane) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        if lane == Lane::Main {
            peer.since = now;
        }
        if peer.rival.as_ref().is_some_and(|rival| rival.state.conn().is_none()) {
            peer.rival = None;
            self.timers.disarm(key, Clock::RivalHold);
            self.timers.disarm(key, Clock::RivalKeepalive);
        }
        if let Some(rival) = &peer.rival {
            if peer.earned_rest && matches!(peer.main.state, State::Idle(Idle::Resting)) {
                // A spare connection is no way around a rest.
                self.step(key, Lane::Rival, Input::CollisionDump);
            } else if peer.main.state.conn().is_none() {
                self.promote(key);
            } else if rival.state.is_established() {
                self.swap(key);
            }
        }
        let begins = self
            .peers
            .get(key)
            .is_some_and(|peer| peer.session.is_none() && peer.main.state.is_established());
        if begins {
            self.begin_session(key);
        }
    }

    /// The main machine has nothing left: the rival takes its place.
    fn promote(&mut self, key: PeerKey) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else { return };
        let Some(rival) = peer.rival.take() else { return };
        peer.main = Machine { began: Began::Before, ..rival };
        peer.earned_rest = false;
        peer.since = now;
        self.timers.disarm(key, Clock::IdleHold);
        self.timers.disarm(key, Clock::ConnectRetry);
        self.timers.hand_over(key, Clock::RivalHold, Clock::Hold);
        self.timers.hand_over(key, Clock::RivalKeepalive, Clock::Keepalive);
    }

    /// The rival was faster: it is the main machine from now on.
    fn swap(&mut self, key: PeerKey) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else { return };
        let Some(rival) = &mut peer.rival else { return };
        std::mem::swap(&mut peer.main, rival);
        peer.main.began = Began::Before;
        peer.since = now;
        self.timers.swap(key, Clock::Hold, Clock::RivalHold);
        self.timers.swap(key, Clock::Keepalive, Clock::RivalKeepalive);
        self.timers.disarm(key, Clock::ConnectRetry);
    }
}

/// Where a machine's timer runs. A rival neither dials nor rests nor has a session.
fn clock(lane: Lane, timer: Timer) -> Option<Clock> {
    Some(match (lane, timer) {
        (Lane::Main, Timer::IdleHold) => Clock::IdleHold,
        (Lane::Main, Timer::ConnectRetry) => Clock::ConnectRetry,
        (Lane::Main, Timer::Hold) => Clock::Hold,
        (Lane::Main, Timer::Keepalive) => Clock::Keepalive,
        (Lane::Main, Timer::SendHold) => Clock::SendHold,
        (Lane::Rival, Timer::Hold) => Clock::RivalHold,
        (Lane::Rival, Timer::Keepalive) => Clock::RivalKeepalive,
        (Lane::Rival, _) => return None,
    })
}

/// We ended it for what the peer did, and not for its silence.
fn is_grave(cause: &Cause) -> bool {
    let Cause::Sent(n) = cause else { return false };
    !is_collision(cause) && !matches!(n.code, code::HOLD_TIMER | code::SEND_HOLD_TIMER)
}

fn is_collision(cause: &Cause) -> bool {
    match cause {
        Cause::Sent(n) | Cause::Received(n) => {
            (n.code, n.subcode) == (code::CEASE, cease::COLLISION)
        }
        _ => false,
    }
}

fn reason(cause: &Cause, words: Option<Arc<str>>) -> DownReason {
    match cause {
        Cause::Sent(n) => DownReason::Sent(n.code, n.subcode, n.data.clone()),
        Cause::Received(n) => {
            let meant = restart::undress(n);
            DownReason::Received(meant.code, meant.subcode, meant.data)
        }
        Cause::Closed => DownReason::Closed(words),
        Cause::DialFailed => {
            let what = words.unwrap_or_else(|| "the attempt failed".into());
            DownReason::Refused(Refusal { what })
        }
        Cause::Local => DownReason::Local(words.unwrap_or_else(|| "given up".into())),
    }
}
