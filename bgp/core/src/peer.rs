//! A peer as the speaker keeps it: what is wished for, its machines, its session, its past.
//! Holds and answers; what happens to it is decided in `speaker`.

pub(crate) mod backoff;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flock_bgp_wire::Family;
use ipnet::IpNet;

use crate::config::PeerConfig;
use crate::connection::Connection;
use crate::difference::Fields;
use crate::event::{ConnId, DownReason, Now, PeerKey};
use crate::fsm::{Cause, Idle, State};
use crate::negotiate::Negotiated;
use crate::policy::Withheld;
use crate::policy::export::{Exporter, Missing};
use crate::policy::import::Judge;
use crate::restart::Stale;
use crate::tally::Paced;

use backoff::Backoff;

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) config: PeerConfig,
    /// Dials, rests, and has the session.
    pub(crate) main: Machine,
    /// A connection of the peer beside it, until one of both is closed (RFC 4271 §6.8).
    pub(crate) rival: Option<Machine>,
    /// While `main` is Established.
    pub(crate) session: Option<Session>,
    /// Routes that outlive a session.
    pub(crate) stale: Stale,
    /// What is believed of it, since its first session: routes that outlive one are judged too.
    pub(crate) judge: Option<Judge>,
    pub(crate) backoff: Backoff,
    /// Why the last session or attempt ended, and how long the session was: what a rest goes by.
    pub(crate) ended: Option<(Cause, Option<Duration>)>,
    /// It rests for what it did.
    pub(crate) earned_rest: bool,
    /// Wishes that wait for the next session.
    pub(crate) pending: Fields,
    /// What was wrong with its UPDATEs and survived, and when people last heard of it.
    pub(crate) faults: u64,
    pub(crate) fault_told: Option<Now>,
    /// Prefixes of it that were refused and are worth a word.
    pub(crate) refused: Paced<(Withheld, IpNet)>,
    /// Prefixes that both it and we tell.
    pub(crate) contested: Paced<IpNet>,
    /// This process was Established with it before.
    pub(crate) met: bool,
    /// Sessions that ended.
    pub(crate) flaps: u64,
    pub(crate) messages: Messages,
    /// When the last session ended.
    pub(crate) session_ended: Option<Now>,
    pub(crate) last_error: Option<(Now, DownReason)>,
    /// Why it cannot be reached since then.
    pub(crate) last_refusal: Option<(Now, DownReason)>,
    /// When the state, as people see it, last changed.
    pub(crate) since: Now,
    /// What the system said of the connection that just closed.
    pub(crate) words: Option<Arc<str>>,
}

/// All peers, by key. A key is free again when its peer is gone.
#[derive(Debug, Default)]
pub(crate) struct Peers(Vec<Option<Peer>>);

impl Peers {
    pub(crate) fn get(&self, key: PeerKey) -> Option<&Peer> {
        self.0.get(usize::from(key.0))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: PeerKey) -> Option<&mut Peer> {
        self.0.get_mut(usize::from(key.0))?.as_mut()
    }

    /// `None`: there is no key left.
    pub(crate) fn insert(&mut self, peer: Peer) -> Option<PeerKey> {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        let key = PeerKey(u16::try_from(free).ok()?);
        match self.0.get_mut(free) {
            Some(slot) => *slot = Some(peer),
            None => self.0.push(Some(peer)),
        }
        Some(key)
    }

    pub(crate) fn remove(&mut self, key: PeerKey) {
        if let Some(slot) = self.0.get_mut(usize::from(key.0)) {
            *slot = None;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerKey, &Peer)> {
        let slots = (0..=u16::MAX).map(PeerKey).zip(&self.0);
        slots.filter_map(|(key, peer)| Some((key, peer.as_ref()?)))
    }

    /// To change them one by one.
    pub(crate) fn keys(&self) -> Vec<PeerKey> {
        self.iter().map(|(key, _)| key).collect()
    }
}

/// How many messages went each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Messages {
    /// From the peer.
    pub received: u64,
    /// Of those, UPDATEs.
    pub updates_received: u64,
    /// To the peer.
    pub sent: u64,
    /// Of those, UPDATEs.
    pub updates_sent: u64,
}

/// Which of a peer's machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Main,
    Rival,
}

/// A machine and its connection.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) state: State,
    /// From the moment that TCP is up.
    pub(crate) connection: Option<Connection>,
    /// How the peer's other connection stood when this one began.
    pub(crate) began: Began,
}

/// When a machine's connection began, seen from the peer's other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Began {
    Before,
    /// Right after our own dial was Established: the peer dialled before it knew.
    Crossing,
    AfterEstablished,
}

impl Machine {
    pub(crate) fn new(state: State) -> Self {
        Self { state, connection: None, began: Began::Before }
    }
}

/// What there is only while Established.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) negotiated: Arc<Negotiated>,
    pub(crate) exporter: Exporter,
    /// Our end.
    pub(crate) local: IpAddr,
    /// By `Family::index`; `None`: not negotiated.
    pub(crate) tellings: [Option<Telling>; 2],
    /// Why a negotiated family is not announced.
    pub(crate) missing: [Option<Missing>; 2],
    pub(crate) since: Now,
}

/// How far we are with telling a family, and the peer with telling us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Telling {
    pub(crate) stage: Stage,
    /// Another refresh was asked for meanwhile.
    pub(crate) again: bool,
    pub(crate) end_of_rib_sent: bool,
    pub(crate) end_of_rib_received: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The first telling, until End-of-RIB.
    Initial,
    /// A refresh was asked for; its beginning is not yet marked.
    Asked,
    /// It is under way.
    Refreshing,
    /// Changes as they come.
    Steady,
}

impl Telling {
    pub(crate) const FIRST: Self = Self {
        stage: Stage::Initial,
        again: false,
        end_of_rib_sent: false,
        end_of_rib_received: false,
    };
}

impl Session {
    pub(crate) fn telling(&mut self, family: Family) -> Option<&mut Telling> {
        self.tellings.get_mut(family.index())?.as_mut()
    }
}

impl Peer {
    pub(crate) fn new(config: PeerConfig, now: Now) -> Self {
        Self {
            config,
            main: Machine::new(State::Idle(Idle::Stopped)),
            rival: None,
            session: None,
            stale: Stale::default(),
            judge: None,
            backoff: Backoff::default(),
            ended: None,
            earned_rest: false,
            pending: Fields::default(),
            faults: 0,
            fault_told: None,
            refused: Paced::default(),
            contested: Paced::default(),
            met: false,
            flaps: 0,
            messages: Messages::default(),
            session_ended: None,
            last_error: None,
            last_refusal: None,
            since: now,
            words: None,
        }
    }

    pub(crate) fn machine(&mut self, lane: Lane) -> Option<&mut Machine> {
        match lane {
            Lane::Main => Some(&mut self.main),
            Lane::Rival => self.rival.as_mut(),
        }
    }

    /// Whose connection, or attempt, this is.
    pub(crate) fn lane(&self, conn: ConnId) -> Option<Lane> {
        if self.main.state.conn() == Some(conn) {
            return Some(Lane::Main);
        }
        let rival = self.rival.as_ref()?;
        (rival.state.conn() == Some(conn)).then_some(Lane::Rival)
    }

    /// It is to have a session.
    pub(crate) fn is_wanted(&self) -> bool {
        self.config.shutdown.is_none() && self.config.withheld.is_none()
    }
}
