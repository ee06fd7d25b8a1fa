//! The speaker: the core's face. Takes events apart and gives each to the room that knows about it;
//! decides nothing itself.
//!
//! - `wishes`: peers, originations, farewell;
//! - `networks`: what the node's own networks mean for what peers told;
//! - `links`: connections come and go;
//! - `drive`: machines are stepped and their acts carried out;
//! - `receive`: bytes become messages become inputs; collisions;
//! - `session`: what a session's beginning and end mean for routes;
//! - `transmit`: what goes out, in which order;
//! - `notices`: what people hear of a peer's routes, and how often;
//! - `status`: what people see.

mod drive;
mod links;
mod networks;
mod notices;
mod receive;
mod session;
mod status;
mod transmit;
mod wishes;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::config::{SpeakerConfig, Transport};
use crate::event::{Action, ConnId, Event, Notice, Now, PeerKey, RouteChange};
use crate::fsm::Act;
use crate::peer::Peers;
use crate::policy::networks::Networks;
use crate::rib::Rib;
use crate::timer::{Dice, Timers};

pub use status::{FamilyStatus, LastError, NegotiatedStatus, PeerStatus, State};

/// A BGP speaker.
///
/// The driver tells it what happens with [`Speaker::handle`], then does what [`Speaker::poll`]
/// asks for. Bytes to be sent are pulled with [`Speaker::transmit`], routes for the kernel with
/// [`Speaker::poll_route`], both when there is room for them. At [`Speaker::next_deadline`] it
/// sends [`Event::Tick`].
#[derive(Debug)]
pub struct Speaker {
    config: SpeakerConfig,
    /// The moment of the last event.
    now: Now,
    rib: Rib,
    peers: Peers,
    by_address: HashMap<IpAddr, PeerKey, FixedState>,
    /// Connections and attempts that a machine has.
    owners: HashMap<ConnId, PeerKey, FixedState>,
    /// The last words on connections that are being closed.
    parting: HashMap<ConnId, BytesMut, FixedState>,
    /// What the driver was told to let in.
    admitted: HashMap<IpAddr, Transport, FixedState>,
    timers: Timers,
    dice: Dice,
    next_dial: ConnId,
    actions: VecDeque<Action>,
    /// Kept for its memory.
    acts: Vec<Act>,
    /// `None`: never said.
    networks: Option<Arc<Networks>>,
    drain: bool,
    originations_complete: bool,
    farewell: bool,
}

impl Speaker {
    /// A speaker without peers and routes.
    pub fn new(config: SpeakerConfig) -> Self {
        let hashes = FixedState::with_seed(config.seed);
        Self {
            now: Now::default(),
            rib: Rib::new(config.seed, config.install),
            peers: Peers::default(),
            by_address: HashMap::with_hasher(hashes.clone()),
            owners: HashMap::with_hasher(hashes.clone()),
            parting: HashMap::with_hasher(hashes.clone()),
            admitted: HashMap::with_hasher(hashes),
            timers: Timers::default(),
            dice: Dice::new(config.seed),
            next_dial: ConnId(0),
            actions: VecDeque::new(),
            acts: Vec::new(),
            networks: None,
            drain: false,
            originations_complete: false,
            farewell: false,
            config,
        }
    }

    /// Tells it something. Never fails, never blocks.
    pub fn handle(&mut self, now: Now, event: Event<'_>) {
        self.now = self.now.max(now);
        self.rib.now(self.now);
        match event {
            Event::Received(conn, bytes) => self.received(conn, bytes),
            Event::Sent(conn) => self.sent(conn),
            Event::Tick => self.tick(),
            Event::Dialled(conn, local, remote) => self.dialled(conn, local, remote),
            Event::Refused(conn, refusal) => self.refused(conn, refusal),
            Event::Accepted(conn, local, remote) => self.accepted(conn, local, remote),
            Event::Closed(conn, words) => self.closed(conn, words),
            Event::Peers(peers) => self.wish_peers(peers),
            Event::Originate(wishes) => self.originate(wishes),
            Event::OriginationsComplete => self.originations_complete(),
            Event::Drain(on) => self.drain(on),
            Event::Networks { connected, own, down } => self.networks(connected, own, down),
            Event::Refresh(key) => self.ask_refresh(key),
            Event::Retell(key) => self.retell(key),
            Event::Reset(key, words) => self.reset(key, &words),
            Event::Farewell(farewell) => self.farewell(&farewell),
        }
        while let Some(key) = self.rib.take_woken() {
            self.wake(key);
        }
        while let Some((key, tally)) = self.rib.take_contested() {
            self.contested_nets(key, tally);
        }
    }

    /// What is to be done; call until `None` after each `handle`.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What the kernel should know; pulled when there is room.
    pub fn poll_route(&mut self) -> Option<RouteChange> {
        self.rib.poll_route()
    }

    /// When to send [`Event::Tick`]: at the latest then. It may turn out that nothing is due.
    pub fn next_deadline(&self) -> Option<Now> {
        self.timers.next()
    }

    fn notice(&mut self, notice: Notice) {
        self.actions.push_back(Action::Notice(notice));
    }

    /// The peer's session has something to send.
    fn wake(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        if let Some(connection) = &mut peer.main.connection
            && !std::mem::replace(&mut connection.woken, true)
        {
            self.actions.push_back(Action::Wake(connection.id));
        }
    }
}
