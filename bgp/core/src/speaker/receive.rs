//! Bytes become messages, messages become inputs. A good OPEN is where two connections with one
//! peer are told apart (RFC 4271 §6.8).
//!
//! Runs once per message: looks at one peer, and allocates nothing beyond what decoding does.

use std::sync::Arc;

use flock_bgp_wire::notification::{cease, code, open as subcode};
use flock_bgp_wire::{Context, Message, Notification, Open, Refresh, Update, decode, frame};

use super::Speaker;
use super::drive::Left;
use crate::collision::{self, Arrival, Other, Sides, Verdict};
use crate::connection::{Connection, Whole};
use crate::event::{ConnId, PeerKey};
use crate::fsm::{Input, State};
use crate::negotiate;
use crate::peer::{Began, Lane, Peer};

/// Message types (RFC 4271 §4.1).
pub(super) const UPDATE: u8 = 2;
const REFRESH: u8 = 5;
/// Where the type is in a header.
const TYPE: usize = 18;

impl Speaker {
    pub(super) fn received(&mut self, conn: ConnId, mut bytes: &[u8]) {
        // The inbox is out of the connection while its messages are looked at, which may close it.
        let Some((key, lane)) = self.find(conn) else { return };
        let Some(connection) = self.connection(key, lane) else { return };
        let mut inbox = std::mem::take(&mut connection.inbox);
        while let Some(lane) = self.peers.get(key).and_then(|peer| peer.lane(conn)) {
            let Some(connection) = self.connection(key, lane) else { return };
            let (context, extended) = (connection.context, connection.extended);
            match inbox.next(&mut bytes, extended) {
                Ok(Some(Whole::Passing(message))) => {
                    self.message(key, lane, conn, message, &context);
                }
                Ok(Some(Whole::Kept)) => {
                    self.message(key, lane, conn, inbox.kept(), &context);
                    inbox.done();
                }
                Ok(None) => {
                    if let Some(connection) = self.connection(key, lane) {
                        connection.inbox = inbox;
                    }
                    return;
                }
                Err(reset) => {
                    self.step(key, lane, Input::HeaderError(reset.0));
                    return;
                }
            }
        }
    }

    fn connection(&mut self, key: PeerKey, lane: Lane) -> Option<&mut Connection> {
        self.peers.get_mut(key)?.machine(lane)?.connection.as_mut()
    }

    fn message(
        &mut self,
        key: PeerKey,
        lane: Lane,
        conn: ConnId,
        message: &[u8],
        context: &Context,
    ) {
        let kind = message.get(TYPE).copied().unwrap_or(0);
        let Some(peer) = self.peers.get_mut(key) else { return };
        peer.messages.received += 1;
        let established = lane == Lane::Main && peer.main.state.is_established();
        // What is out of place is not read: its error would hide the real one.
        match kind {
            UPDATE if !established => {
                self.step(key, lane, Input::Update);
                return;
            }
            REFRESH if !established => {
                self.step(key, lane, Input::Refresh);
                return;
            }
            _ => {}
        }
        match decode(message, context) {
            Ok(Message::Update(update)) => self.update(key, update),
            Ok(Message::Keepalive) => {
                self.step(key, lane, Input::Keepalive);
            }
            Ok(Message::Refresh(refresh)) => self.refresh(key, refresh),
            Ok(Message::Open(open)) => self.open(key, lane, conn, &open),
            Ok(Message::Notification(notification)) => {
                self.step(key, lane, heard(notification));
            }
            Err(reset) => {
                self.step(key, lane, error(kind, reset.0));
            }
        }
    }

    fn update(&mut self, key: PeerKey, update: Box<Update<'_>>) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.messages.updates_received += 1;
        }
        if self.step(key, Lane::Main, Input::Update) == Left::Learn {
            self.learn(key, update);
        }
    }

    fn refresh(&mut self, key: PeerKey, refresh: Refresh) {
        if self.step(key, Lane::Main, Input::Refresh) == Left::Answer {
            self.answer(key, refresh);
        }
    }

    fn open(&mut self, key: PeerKey, lane: Lane, conn: ConnId, open: &Open) {
        let Some(peer) = self.peers.get(key) else { return };
        let machine = match lane {
            Lane::Main => Some(&peer.main),
            Lane::Rival => peer.rival.as_ref(),
        };
        let Some(machine) = machine else { return };
        // A second OPEN is an error in itself, whatever it says.
        if let Some(negotiated) = machine.state.negotiated() {
            let input = Input::Open(Arc::clone(negotiated));
            self.step(key, lane, input);
            return;
        }
        let offer = machine.connection.as_ref().and_then(|connection| connection.offer.as_ref());
        let Some(offer) = offer else { return };
        let negotiated = match negotiate::negotiate(&self.config, &peer.config, offer, open) {
            Ok(negotiated) => Arc::new(negotiated),
            Err(notification) => {
                self.step(key, lane, Input::OpenError(notification));
                return;
            }
        };
        let sides = Sides {
            our_id: self.config.id,
            our_asn: self.config.asn,
            peer_id: open.id,
            peer_asn: negotiated.peer_asn,
        };
        if let Some(other) = other(peer, lane) {
            let dialled_by_peer = conn.0 % 2 == 1;
            if !self.collide(key, lane, collision::resolve(sides, dialled_by_peer, other)) {
                return;
            }
        }
        // Who is who may have changed.
        let Some((key, lane)) = self.find(conn) else { return };
        if let Some(connection) = self.connection(key, lane) {
            connection.context = negotiated.context;
            connection.extended = negotiated.form.max > frame::MAX;
        }
        self.step(key, lane, Input::Open(negotiated));
    }

    /// Whether the connection at hand goes on.
    fn collide(&mut self, key: PeerKey, lane: Lane, verdict: Verdict) -> bool {
        let other = match lane {
            Lane::Main => Lane::Rival,
            Lane::Rival => Lane::Main,
        };
        match verdict {
            Verdict::Both => true,
            Verdict::DropOther => {
                self.step(key, other, Input::CollisionDump);
                true
            }
            Verdict::OtherIsDead => {
                if let Some(peer) = self.peers.get_mut(key) {
                    peer.words = Some("the peer came back on a new connection".into());
                }
                self.step(key, other, Input::Closed);
                true
            }
            Verdict::DropThis => {
                self.step(key, lane, Input::CollisionDump);
                false
            }
        }
    }
}

/// How the connection that is not at hand stands.
fn other(peer: &Peer, lane: Lane) -> Option<Other> {
    let (this, other) = match lane {
        Lane::Main => (&peer.main, peer.rival.as_ref()?),
        Lane::Rival => (peer.rival.as_ref()?, &peer.main),
    };
    Some(match &other.state {
        State::Idle(_) | State::Active | State::Connect { .. } => Other::Attempt,
        State::OpenSent { .. } => Other::OpenSent,
        State::OpenConfirm { .. } => Other::OpenConfirm,
        State::Established { negotiated, .. } => {
            // Without a hold time a dead session is never noticed but by this.
            let may_return = negotiated.graceful_restart.is_some() || negotiated.hold.is_none();
            Other::Established(match this.began {
                Began::AfterEstablished if may_return => Arrival::Returned,
                Began::Crossing if may_return => Arrival::Crossing,
                Began::Before | Began::Crossing | Began::AfterEstablished => Arrival::Before,
            })
        }
    })
}

fn heard(notification: Notification) -> Input {
    match (notification.code, notification.subcode) {
        (code::OPEN, subcode::VERSION) => Input::NotificationVersion(notification),
        (code::CEASE, cease::COLLISION) => Input::NotificationCollision(notification),
        _ => Input::Notification(notification),
    }
}

/// What is wrong with a message, by its type.
fn error(kind: u8, notification: Notification) -> Input {
    match kind {
        1 => Input::OpenError(notification),
        UPDATE => Input::UpdateError(notification),
        _ => Input::HeaderError(notification),
    }
}
