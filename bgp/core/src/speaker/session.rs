//! What a session's beginning and end mean for routes, and what its messages do to them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use flock_bgp_wire::notification::{cease, code};
use flock_bgp_wire::{Family, Notification, Refresh, RefreshKind, Update};

use super::Speaker;
use crate::config::Ttl;
use crate::difference::Fields;
use crate::event::{Notice, PeerKey};
use crate::fsm::{Cause, Input};
use crate::inbound::Inbound;
use crate::negotiate::Negotiated;
use crate::peer::{Lane, Peer, Session, Stage, Telling};
use crate::policy::export::{self, Exporter, Missing};
use crate::policy::import::Judge;
use crate::restart::{Fate, Fates, Loss};
use crate::rib::Source;
use crate::timer::Clock;

/// Refused routes of a family that are kept for people.
const KEEP_REFUSED: u32 = 1_000;

/// How long an enhanced refresh may take, where nothing says how long stale routes are kept
/// (RFC 7313 §4 leaves it to us).
const REFRESH_BOUND: Duration = Duration::from_secs(600);

impl Speaker {
    pub(super) fn begin_session(&mut self, key: PeerKey) {
        let now = self.now;
        let Some(peer) = self.peers.get(key) else { return };
        let Some(negotiated) = peer.main.state.negotiated().cloned() else { return };
        let Some(connection) = &peer.main.connection else { return };
        let local = connection.local.ip().to_canonical();
        let (exporter, missing) = self.exporter(key, peer, &negotiated, local);
        let judge = self.judge(peer, &negotiated, local);
        let source = Source {
            internal: negotiated.internal,
            id: negotiated.peer_id,
            address: peer.config.address,
        };
        self.rib.source(key, source);

        let families: Vec<Family> = negotiated.families().collect();
        let Some(peer) = self.peers.get_mut(key) else { return };
        let agreed = negotiated.agreed(&peer.config);
        let fates = peer.stale.established(now, agreed, &families);
        peer.met = true;
        let name = peer.config.name.clone();
        peer.judge = Some(judge);
        peer.pending = Fields::default();
        peer.last_refusal = None;
        peer.session = Some(Session {
            exporter: exporter.clone(),
            local,
            tellings: Family::ALL.map(|f| families.contains(&f).then_some(Telling::FIRST)),
            missing: Family::ALL.map(|f| missing_of(missing, f).filter(|_| families.contains(&f))),
            since: now,
            negotiated,
        });
        self.decide(key, fates);
        for family in families {
            self.rib.open_outlet(key, family, exporter.clone());
        }
        self.notice(Notice::Up(key, name));
        // Also where there is nothing to tell: that is what End-of-RIB says.
        self.wake(key);
    }

    pub(super) fn end_session(&mut self, key: PeerKey, cause: &Cause) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else { return };
        let Some(session) = peer.session.take() else { return };
        peer.flaps += 1;
        peer.session_ended = Some(now);
        let loss = match cause {
            _ if !peer.is_wanted() => Loss::Unwanted,
            Cause::Sent(n) => Loss::Sent(n.code, n.subcode),
            Cause::Received(n) => Loss::Received(n.code, n.subcode),
            Cause::Closed | Cause::Local | Cause::DialFailed => Loss::Closed,
        };
        let families: Vec<Family> = session.negotiated.families().collect();
        let agreed = session.negotiated.agreed(&peer.config);
        let fates = peer.stale.lost(now, loss, agreed, &families);
        for family in families {
            self.rib.close_outlet(key, family);
        }
        self.decide(key, fates);
    }

    /// Stale routes whose time is over.
    pub(super) fn expire_stale(&mut self, key: PeerKey) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else { return };
        let fates = peer.stale.expire(now);
        self.decide(key, fates);
        self.check_limits(key);
    }

    /// Carries out what was decided about a peer's routes.
    pub(super) fn decide(&mut self, key: PeerKey, fates: Fates) {
        for (family, fate) in Family::ALL.into_iter().zip(fates) {
            match fate {
                Fate::Unchanged => {}
                Fate::Mark => self.rib.mark_stale(key, family),
                Fate::SweepAndMark => {
                    self.rib.sweep_stale(key, family);
                    self.rib.mark_stale(key, family);
                }
                Fate::Sweep => self.rib.sweep_stale(key, family),
                Fate::Forget => self.rib.forget(key, family),
            }
        }
        match self.peers.get(key).and_then(|peer| peer.stale.deadline()) {
            Some(deadline) => self.timers.arm(key, Clock::Stale, deadline),
            None => self.timers.disarm(key, Clock::Stale),
        }
    }

    pub(super) fn learn(&mut self, key: PeerKey, update: Box<Update<'_>>) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let (Some(session), Some(judge)) = (&peer.session, &peer.judge) else { return };
        let inbound = Inbound {
            peer: key,
            judge,
            families: session.negotiated.families,
            keep_refused: KEEP_REFUSED,
        };
        let taken = inbound.take(&mut self.rib, *update);
        for fault in taken.faults {
            self.malformed(key, &fault);
        }
        if !taken.refused.is_empty() {
            self.refused_nets(key, taken.refused);
        }
        if let Some(family) = taken.end_of_rib {
            self.end_of_rib(key, family);
        }
        if taken.announced != [0, 0] {
            self.check_limits(key);
        }
    }

    fn end_of_rib(&mut self, key: PeerKey, family: Family) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        let telling = peer.session.as_mut().and_then(|session| session.telling(family));
        // Told once a session: a peer must not fill our log.
        let first = telling.is_some_and(|t| !std::mem::replace(&mut t.end_of_rib_received, true));
        let fates = peer.stale.end_of_rib(family);
        let name = peer.config.name.clone();
        self.decide(key, fates);
        if first {
            self.notice(Notice::EndOfRib(key, name, family));
        }
        self.check_limits(key);
    }

    /// A ROUTE-REFRESH came (RFC 2918 §4, RFC 7313 §4).
    pub(super) fn answer(&mut self, key: PeerKey, refresh: Refresh) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        // "SHOULD ignore such a message": a family that was not agreed on.
        let Some(family) = Family::from_wire(refresh.afi, refresh.safi) else { return };
        let Some(session) = &mut peer.session else { return };
        let (can_refresh, enhanced) =
            (session.negotiated.refresh, session.negotiated.enhanced_refresh);
        let Some(telling) = session.telling(family) else { return };
        match refresh.kind {
            RefreshKind::Request if can_refresh => {
                if telling.stage == Stage::Steady {
                    telling.stage = Stage::Asked;
                    let exporter = session.exporter.clone();
                    self.rib.retell(key, family, exporter);
                    self.wake(key);
                } else {
                    // However often it asks meanwhile, it is answered once more.
                    telling.again = true;
                }
            }
            RefreshKind::Begin if enhanced => {
                let restart = peer.config.graceful_restart;
                let bound = restart.map_or(REFRESH_BOUND, |restart| restart.stale_time);
                let fates = peer.stale.refresh_begins(now, bound, family);
                self.decide(key, fates);
            }
            RefreshKind::End if enhanced => {
                let fates = peer.stale.refresh_ends(family);
                self.decide(key, fates);
                self.check_limits(key);
            }
            // RFC 7313 §5: unknown, or not agreed on.
            RefreshKind::Request | RefreshKind::Begin | RefreshKind::End => {}
            RefreshKind::Unknown(_) => {}
        }
    }

    /// What shapes a peer's routes changed: it is told again, as it now is.
    pub(super) fn retell(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else { return };
        let Some(session) = &peer.session else { return };
        let negotiated = Arc::clone(&session.negotiated);
        let (exporter, missing) = self.exporter(key, peer, &negotiated, session.local);
        if let Some(session) = self.peers.get_mut(key).and_then(|peer| peer.session.as_mut()) {
            session.exporter = exporter.clone();
            session.missing = Family::ALL.map(|family| {
                missing_of(missing, family).filter(|_| negotiated.families().any(|f| f == family))
            });
        }
        for family in negotiated.families() {
            self.rib.retell(key, family, exporter.clone());
        }
        self.wake(key);
    }

    /// A peer that told too much is left alone for a while. What policy refused does not count: a
    /// peer may tell everything it has to a node that wants a default route.
    pub(super) fn check_limits(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else { return };
        let Some(limit) = peer.config.import.as_ref().map(|import| import.max_prefixes) else {
            return;
        };
        let over = |family: &Family| {
            // What is kept from before and what is told now may both be within the limit.
            let most =
                if peer.stale.tells_again(*family) { limit.saturating_mul(2) } else { limit };
            self.rib.counts(key, *family).accepted > most
        };
        if let Some(family) = Family::ALL.into_iter().find(over) {
            self.step(key, Lane::Main, Input::Interrupt(too_many(family, limit)));
        }
    }

    fn judge(&self, peer: &Peer, negotiated: &Negotiated, local: IpAddr) -> Judge {
        Judge {
            import: peer.config.import.clone(),
            local_asn: self.config.asn,
            local_id: self.config.id,
            peer_asn: negotiated.peer_asn,
            peer_address: peer.config.address,
            local_address: local,
            role: peer.config.role,
            multihop: matches!(peer.config.transport.ttl, Ttl::Hops(hops) if hops > 1),
            networks: self.networks.clone(),
        }
    }

    fn exporter(
        &self,
        key: PeerKey,
        peer: &Peer,
        negotiated: &Negotiated,
        local: IpAddr,
    ) -> (Exporter, [Option<Missing>; 2]) {
        let extended = negotiated.send_extended_next_hop;
        let next_hops = export::next_hops(peer.config.next_hops, local, None, extended);
        let exporter = Exporter {
            peer: key,
            local_asn: self.config.asn,
            peer_asn: negotiated.peer_asn,
            export: peer.config.export.clone(),
            role: peer.config.role,
            next_hops: next_hops.map(Result::ok),
            transit: self.config.transit,
            drain: self.drain,
        };
        (exporter, next_hops.map(Result::err))
    }
}

fn missing_of(missing: [Option<Missing>; 2], family: Family) -> Option<Missing> {
    missing.get(family.index()).copied().flatten()
}

/// RFC 4486 §4: which family, and the limit.
fn too_many(family: Family, limit: u32) -> Notification {
    let mut data = BytesMut::with_capacity(7);
    data.put_u16(family.afi());
    data.put_u8(family.safi());
    data.put_u32(limit);
    Notification::with(code::CEASE, cease::MAX_PREFIXES, data.freeze())
}
