//! What the driver says of connections: dials that ended, peers that came, connections that are gone.
//! Each goes to the machine that it concerns, or gets one of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Speaker;
use super::drive::Left;
use crate::connection::Connection;
use crate::event::{Action, ConnId, Now, PeerKey, Refusal};
use crate::fsm::{Input, State};
use crate::peer::{Began, Lane, Machine, Peer};

/// How late the peer's dial may arrive when both dial at once: a round trip, and what a busy router
/// takes to look at what it has accepted.
const CROSSING: Duration = Duration::from_secs(1);

impl Speaker {
    pub(super) fn dialled(&mut self, conn: ConnId, local: SocketAddr, remote: SocketAddr) {
        let Some((key, Lane::Main)) = self.find(conn) else {
            // Given up in the meantime.
            return self.actions.push_back(Action::Close(conn));
        };
        if let Some(peer) = self.peers.get_mut(key) {
            peer.main.connection = Some(Connection::new(conn, local, remote));
        }
        self.step(key, Lane::Main, Input::Dialled);
    }

    pub(super) fn refused(&mut self, conn: ConnId, refusal: Refusal) {
        let Some((key, lane)) = self.find(conn) else { return };
        self.owners.remove(&conn);
        if let Some(peer) = self.peers.get_mut(key) {
            peer.words = Some(refusal.what);
        }
        self.step(key, lane, Input::DialFailed);
    }

    pub(super) fn closed(&mut self, conn: ConnId, words: Option<Arc<str>>) {
        self.parting.remove(&conn);
        let Some((key, lane)) = self.find(conn) else { return };
        // There is no one left to talk to, and nothing left to close.
        self.owners.remove(&conn);
        if let Some(peer) = self.peers.get_mut(key) {
            peer.words = words;
            if let Some(machine) = peer.machine(lane) {
                machine.connection = None;
            }
        }
        self.step(key, lane, Input::Closed);
    }

    pub(super) fn accepted(&mut self, conn: ConnId, local: SocketAddr, remote: SocketAddr) {
        let key = self.by_address.get(&remote.ip().to_canonical()).copied();
        let Some(key) = key else {
            return self.actions.push_back(Action::Close(conn));
        };
        let Some(peer) = self.peers.get_mut(key) else { return };
        let connection = Connection::new(conn, local, remote);
        self.owners.insert(conn, key);
        let began = began(peer, self.now);
        if matches!(peer.main.state, State::Active) {
            peer.main.connection = Some(connection);
            self.step(key, Lane::Main, Input::Accepted(conn));
        } else if self.step(key, Lane::Main, Input::Accepted(conn)) == Left::Rival {
            self.open_rival(key, connection, began);
        }
    }

    fn open_rival(&mut self, key: PeerKey, connection: Connection, began: Began) {
        let conn = connection.id;
        let Some(peer) = self.peers.get_mut(key) else { return };
        match peer.rival.as_ref().map(|rival| &rival.state) {
            // That one is nearly a session: no third.
            Some(State::OpenConfirm { .. } | State::Established { .. }) => {
                return self.close(key, Lane::Rival, conn);
            }
            // The peer has more likely given its first attempt up than made a second.
            Some(_) => {
                self.step(key, Lane::Rival, Input::CollisionDump);
            }
            None => {}
        }
        if let Some(peer) = self.peers.get_mut(key) {
            peer.rival =
                Some(Machine { state: State::Active, connection: Some(connection), began });
            self.step(key, Lane::Rival, Input::Accepted(conn));
        }
    }

    pub(super) fn find(&self, conn: ConnId) -> Option<(PeerKey, Lane)> {
        let key = *self.owners.get(&conn)?;
        Some((key, self.peers.get(key)?.lane(conn)?))
    }
}

/// How a connection that the peer opens now stands to the one that it has.
fn began(peer: &Peer, now: Now) -> Began {
    let (State::Established { .. }, Some(session)) = (&peer.main.state, &peer.session) else {
        return Began::Before;
    };
    let ours = peer.main.connection.as_ref().is_some_and(|main| main.id.0.is_multiple_of(2));
    match now.since(session.since) < CROSSING {
        true if ours => Began::Crossing,
        _ => Began::AfterEstablished,
    }
}
