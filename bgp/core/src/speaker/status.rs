//! What people see: peers as they are, routes as they are. Reads, never changes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use flock_bgp_wire::{Attributes, Capability, Family};
use ipnet::IpNet;

use super::Speaker;
use crate::config::PeerAsn;
use crate::event::{DownReason, Now, PeerKey};
use crate::fsm;
use crate::peer::{Messages, Peer, Session, Stage, Telling};
use crate::policy::Withheld;
use crate::restart;
use crate::rib::{Heard, RouteView, Spot, ToldView};
use crate::timer::Clock;

/// RFC 4271 §8.2.2, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Refuses all connections.
    Idle,
    /// Waits for its dial.
    Connect,
    /// Waits for the peer's dial, or for the next attempt.
    Active,
    /// Has sent OPEN.
    OpenSent,
    /// Has seen OPEN.
    OpenConfirm,
    /// Speaks.
    Established,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Idle => "Idle",
            Self::Connect => "Connect",
            Self::Active => "Active",
            Self::OpenSent => "OpenSent",
            Self::OpenConfirm => "OpenConfirm",
            Self::Established => "Established",
        })
    }
}

/// A peer as it is now, for people and for readiness.
#[derive(Debug, Clone)]
pub struct PeerStatus {
    /// Who.
    pub key: PeerKey,
    /// As configured.
    pub name: Arc<str>,
    /// As configured.
    pub address: IpAddr,
    /// As configured.
    pub configured_asn: PeerAsn,
    /// As the peer said in this session's OPEN, or as configured where that is a number.
    pub asn: Option<u32>,
    /// Ours.
    pub local_asn: u32,
    /// Where its machine is.
    pub state: State,
    /// Since when it is there.
    pub since: Now,
    /// What a session agreed on; `None` before both OPENs.
    pub negotiated: Option<NegotiatedStatus>,
    /// The families that are wished for, in their order.
    pub families: Vec<FamilyStatus>,
    /// Our end and theirs, while there is a connection.
    pub connection: Option<(SocketAddr, SocketAddr)>,
    /// When the next attempt begins, where one is waited for.
    pub next_attempt: Option<Now>,
    /// When the last session ended; `None`: there was none yet.
    pub session_ended: Option<Now>,
    /// Why the last session ended, or why there is none yet.
    pub last_error: Option<LastError>,
    /// Why there is no session since then, where dials fail or are hung up on.
    pub last_refusal: Option<LastError>,
    /// Wishes that wait for the next session, by the names that operators write.
    pub pending: Option<String>,
    /// What was wrong with UPDATEs and survived (RFC 7606).
    pub faults: u64,
    /// Prefixes refused of which [`crate::Notice::Refused`] tells, each time.
    pub refused: u64,
    /// Prefixes told that we originate ([`crate::Notice::Contested`]), each time.
    pub contested: u64,
    /// Sessions that ended.
    pub flaps: u64,
    /// Since it is known.
    pub messages: Messages,
}

/// Why a session or an attempt ended, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// When.
    pub at: Now,
    /// Why; `Display` has it in words.
    pub reason: DownReason,
}

/// What both OPENs agreed on.
#[derive(Debug, Clone)]
pub struct NegotiatedStatus {
    /// The peer's identifier.
    pub peer_id: Ipv4Addr,
    /// Of our AS.
    pub internal: bool,
    /// `None`: never.
    pub hold_time: Option<Duration>,
    /// `None`: none are sent.
    pub keepalive: Option<Duration>,
    /// What we offered.
    pub offered: Vec<Capability>,
    /// What the peer offered.
    pub received: Vec<Capability>,
    /// It can be asked for everything again (RFC 2918).
    pub refresh: bool,
}

/// One family of a peer.
#[derive(Debug, Clone)]
pub struct FamilyStatus {
    /// Which.
    pub family: Family,
    /// Both speak it in this session.
    pub negotiated: bool,
    /// Why nothing of it is announced.
    pub not_announced: Option<String>,
    /// Routes that the peer told, refused ones included.
    pub received: u32,
    /// Of those, the ones that policy let in.
    pub accepted: u32,
    /// Routes that the peer was told.
    pub advertised: u32,
    /// Prefixes that are still to be looked at for the peer: it may have to be told them.
    pub pending: u32,
    /// All that we had at the session's beginning is told (RFC 4724 §2).
    pub end_of_rib_sent: bool,
    /// The peer said so.
    pub end_of_rib_received: bool,
    /// Routes are kept from before (RFC 4724 §4.2).
    pub stale: bool,
}

impl Speaker {
    /// All peers, by key.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus> + '_ {
        self.peers.iter().map(|(key, peer)| self.status(key, peer))
    }

    /// One peer.
    pub fn peer(&self, key: PeerKey) -> Option<PeerStatus> {
        Some(self.status(key, self.peers.get(key)?))
    }

    /// The peer of this name.
    pub fn peer_by_name(&self, name: &str) -> Option<PeerKey> {
        let mut named = self.peers.iter().filter(|(_, peer)| peer.config.name.as_ref() == name);
        named.next().map(|(key, _)| key)
    }

    /// All routes of a family, in no order; a walk in pieces goes on behind a
    /// [`RouteView::position`].
    pub fn routes(
        &self,
        family: Family,
        after: Option<u32>,
    ) -> impl Iterator<Item = RouteView<'_>> + '_ {
        self.rib.routes(family, after)
    }

    /// The route of this very prefix.
    pub fn route(&self, net: IpNet) -> Option<RouteView<'_>> {
        self.rib.route(net)
    }

    /// The route that packets to an address take.
    pub fn route_to(&self, address: IpAddr) -> Option<RouteView<'_>> {
        self.rib.route_to(address)
    }

    /// The route that packets to a prefix take where it has none itself.
    pub fn route_around(&self, net: IpNet) -> Option<RouteView<'_>> {
        self.rib.route_around(net)
    }

    /// This prefix and those within it.
    pub fn routes_within(&self, net: IpNet) -> impl Iterator<Item = RouteView<'_>> + '_ {
        self.rib.routes_within(net)
    }

    /// What a peer was told.
    pub fn advertised(&self, peer: PeerKey, family: Family) -> impl Iterator<Item = ToldView> + '_ {
        self.rib.told(peer, family)
    }

    /// What a peer was told of this very prefix; `None`: nothing.
    pub fn told_of(&self, peer: PeerKey, net: IpNet) -> Option<ToldView> {
        self.rib.told_of(peer, net)
    }

    /// The places of a family in the table are those before this one.
    pub fn places(&self, family: Family) -> u32 {
        self.rib.places(family)
    }

    /// The prefixes in these places, in no order. One that is there during a walk over all places
    /// is met once, whatever else happens between two pieces of it.
    pub fn spots(&self, family: Family, places: Range<u32>) -> impl Iterator<Item = Spot<'_>> + '_ {
        self.rib.spots(family, places)
    }

    /// The prefixes that a peer was told, with their places, in no order; a walk in pieces goes on
    /// behind the last place.
    pub fn told_spots(
        &self,
        peer: PeerKey,
        family: Family,
        after: Option<u32>,
    ) -> impl Iterator<Item = (u32, IpNet)> + '_ {
        self.rib.told_spots(peer, family, after)
    }

    /// How many prefixes have a path that a peer told and that policy let in. Counted as it
    /// changes: costs nothing.
    pub fn learned(&self, family: Family) -> u32 {
        self.rib.learned(family)
    }

    /// What a peer is to be told of a prefix, or why it is not; `None`: there is no route, or no
    /// session.
    pub fn explain(&self, peer: PeerKey, net: IpNet) -> Option<Result<Attributes, Withheld>> {
        self.rib.export(peer, net)
    }

    /// What a peer has heard of a prefix, and when; `None`: it has no session with that family.
    pub fn heard(&self, peer: PeerKey, net: IpNet) -> Option<Heard> {
        self.rib.heard(peer, net)
    }

    /// Whether no session is still to tell its peer anything: all that was pending has been pulled
    /// by [`Speaker::transmit`]. A peer without a session is not waited for, nor an End-of-RIB that
    /// waits for [`crate::Event::OriginationsComplete`]. Costs a look at each peer.
    pub fn settled(&self) -> bool {
        let (held, complete) = (self.config.hold_end_of_rib, self.originations_complete);
        let may_end = restart::end_of_rib_may_go(held, complete, true);
        let done = |telling: &Telling| match telling.stage {
            Stage::Steady => true,
            Stage::Initial => !may_end,
            Stage::Asked | Stage::Refreshing => false,
        };
        let mut sessions = self.peers.iter().filter_map(|(_, peer)| peer.session.as_ref());
        self.rib.settled() && sessions.all(|session| session.tellings.iter().flatten().all(done))
    }

    /// How many peers are Established.
    pub fn sessions(&self) -> usize {
        self.peers.iter().filter(|(_, peer)| peer.session.is_some()).count()
    }

    /// Whether [`Speaker::poll_route`] has offered all that the kernel should know of what peers told
    /// so far.
    pub fn offered(&self) -> bool {
        self.rib.offered()
    }

    fn status(&self, key: PeerKey, peer: &Peer) -> PeerStatus {
        let negotiated = peer.main.state.negotiated();
        let configured = match peer.config.asn {
            PeerAsn::Number(asn) => Some(asn),
            PeerAsn::Internal => Some(self.config.asn),
            PeerAsn::External => None,
        };
        let clock = match &peer.main.state {
            fsm::State::Idle(fsm::Idle::Resting) => Some(Clock::IdleHold),
            fsm::State::Active => Some(Clock::ConnectRetry),
            _ => None,
        };
        let families = peer.config.families.iter();
        PeerStatus {
            key,
            name: peer.config.name.clone(),
            address: peer.config.address,
            configured_asn: peer.config.asn,
            asn: negotiated.map(|negotiated| negotiated.peer_asn).or(configured),
            local_asn: self.config.asn,
            state: state(&peer.main.state),
            since: peer.since,
            negotiated: negotiated.map(|negotiated| NegotiatedStatus {
                peer_id: negotiated.peer_id,
                internal: negotiated.internal,
                hold_time: negotiated.hold,
                keepalive: negotiated.keepalive,
                offered: negotiated.offered.clone(),
                received: negotiated.received.clone(),
                refresh: negotiated.refresh,
            }),
            families: families.map(|family| self.family(key, peer, *family)).collect(),
            connection: peer.main.connection.as_ref().map(|c| (c.local, c.remote)),
            next_attempt: clock.and_then(|clock| self.timers.due(key, clock)),
            session_ended: peer.session_ended,
            last_error: error(peer.last_error.as_ref().or(peer.last_refusal.as_ref())),
            last_refusal: error(peer.last_refusal.as_ref()),
            pending: (!peer.pending.is_empty()).then(|| peer.pending.to_string()),
            faults: peer.faults,
            refused: peer.refused.count,
            contested: peer.contested.count,
            flaps: peer.flaps,
            messages: peer.messages,
        }
    }

    fn family(&self, key: PeerKey, peer: &Peer, family: Family) -> FamilyStatus {
        let counts = self.rib.counts(key, family);
        let session = peer.session.as_ref();
        let telling = session.and_then(|s| s.tellings.get(family.index()).copied().flatten());
        FamilyStatus {
            family,
            negotiated: telling.is_some(),
            not_announced: session.and_then(|session| not_announced(session, family)),
            received: counts.received,
            accepted: counts.accepted,
            advertised: counts.advertised,
            pending: counts.pending,
            end_of_rib_sent: telling.is_some_and(|telling| telling.end_of_rib_sent),
            end_of_rib_received: telling.is_some_and(|telling| telling.end_of_rib_received),
            stale: peer.stale.is_stale(family),
        }
    }
}

fn not_announced(session: &Session, family: Family) -> Option<String> {
    if session.tellings.get(family.index()).copied().flatten().is_none() {
        return Some("the peer does not speak this family".into());
    }
    Some(session.missing.get(family.index()).copied().flatten()?.to_string())
}

fn error(of: Option<&(Now, DownReason)>) -> Option<LastError> {
    of.cloned().map(|(at, reason)| LastError { at, reason })
}

fn state(state: &fsm::State) -> State {
    match state {
        fsm::State::Idle(_) => State::Idle,
        fsm::State::Connect { .. } => State::Connect,
        fsm::State::Active => State::Active,
        fsm::State::OpenSent { .. } => State::OpenSent,
        fsm::State::OpenConfirm { .. } => State::OpenConfirm,
        fsm::State::Established { .. } => State::Established,
    }
}
