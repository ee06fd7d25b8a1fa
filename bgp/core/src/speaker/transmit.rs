//! What goes out on a connection, pulled by the driver when its socket has room: first what is not
//! a route, then withdrawals and announcements, then the marks that say where a telling ends.

use bytes::BytesMut;
use flock_bgp_wire::{Family, Refresh, RefreshKind, encode};

use super::Speaker;
use super::receive::UPDATE;
use crate::event::{ConnId, Notice, PeerKey};
use crate::negotiate::Negotiated;
use crate::peer::{Lane, Stage};
use crate::restart;
use crate::timer::Clock;

/// About this much a call.
const ROOM: usize = 64 * 1024;

impl Speaker {
    /// Appends what is to be sent on this connection, about 64 KiB at most; nothing: nothing is
    /// pending. Call again when the socket has taken it.
    pub fn transmit(&mut self, conn: ConnId, out: &mut BytesMut) {
        if let Some(words) = self.parting.remove(&conn) {
            return out.extend_from_slice(&words);
        }
        let Some((key, lane)) = self.find(conn) else { return };
        let Some(peer) = self.peers.get_mut(key) else { return };
        let Some(connection) = peer.machine(lane).and_then(|m| m.connection.as_mut()) else {
            return;
        };
        connection.woken = false;
        let before = out.len();
        connection.outbox.drain(out);
        let control = out.len();
        let mut hold = None;
        if lane == Lane::Main
            && let Some(session) = &peer.session
        {
            let negotiated = session.negotiated.clone();
            hold = negotiated.send_hold();
            for family in negotiated.families() {
                self.tell(key, family, &negotiated, before + ROOM, out);
            }
        }
        if out.len() > control
            && let Some(negotiated) = self.peers.get(key).and_then(|p| p.main.state.negotiated())
            && let Some(span) = negotiated.keepalive
        {
            // RFC 4271 §4.4: an UPDATE says as well that we live.
            let span = self.dice.jitter(span);
            self.timers.arm(key, Clock::Keepalive, self.now.after(span));
        }
        if let Some(peer) = self.peers.get_mut(key) {
            let (all, updates) = messages(out.get(before..).unwrap_or_default());
            peer.messages.sent += all;
            peer.messages.updates_sent += updates;
        }
        // RFC 9687: runs from when there is something to be taken until all of it was.
        match hold {
            Some(span) if out.len() > before => {
                self.timers.arm(key, Clock::SendHold, self.now.after(span));
            }
            _ if lane == Lane::Main => self.timers.disarm(key, Clock::SendHold),
            _ => {}
        }
    }

    /// The peer's kernel takes what we send: it lives.
    pub(super) fn sent(&mut self, conn: ConnId) {
        let Some((key, Lane::Main)) = self.find(conn) else { return };
        let session = self.peers.get(key).and_then(|peer| peer.session.as_ref());
        let Some(span) = session.and_then(|session| session.negotiated.send_hold()) else { return };
        if self.timers.due(key, Clock::SendHold).is_some() {
            self.timers.arm(key, Clock::SendHold, self.now.after(span));
        }
    }

    /// Routes of one family, and the marks around them.
    fn tell(
        &mut self,
        key: PeerKey,
        family: Family,
        negotiated: &Negotiated,
        room: usize,
        out: &mut BytesMut,
    ) {
        // A refresh that was asked for during another telling follows it at once.
        while out.len() < room {
            if self.stage(key, family) == Some(Stage::Asked) {
                mark(RefreshKind::Begin, family, negotiated, out);
                self.set_stage(key, family, Stage::Refreshing);
            }
            if !self.rib.transmit(key, family, negotiated.form, room, out) {
                return;
            }
            if !self.told(key, family, negotiated, out) {
                return;
            }
        }
    }

    /// Nothing is pending: whatever was under way ends. Returns whether more follows.
    fn told(
        &mut self,
        key: PeerKey,
        family: Family,
        negotiated: &Negotiated,
        out: &mut BytesMut,
    ) -> bool {
        let held = self.config.hold_end_of_rib;
        let complete = self.originations_complete;
        let Some(peer) = self.peers.get_mut(key) else {
            return false;
        };
        let Some(session) = &mut peer.session else { return false };
        let Some(telling) = session.telling(family) else { return false };
        match telling.stage {
            Stage::Initial => {
                if !restart::end_of_rib_may_go(held, complete, true) {
                    return false;
                }
                encode::end_of_rib(family, out);
                telling.end_of_rib_sent = true;
            }
            Stage::Refreshing => mark(RefreshKind::End, family, negotiated, out),
            Stage::Asked | Stage::Steady => {}
        }
        let initial = telling.stage == Stage::Initial;
        telling.stage = Stage::Steady;
        let again = std::mem::take(&mut telling.again);
        if again {
            telling.stage = Stage::Asked;
        }
        if again {
            self.rib.retell(key, family, session.exporter.clone());
        }
        if initial {
            let name = peer.config.name.clone();
            self.notice(Notice::Told(key, name, family));
        }
        again
    }

    fn stage(&mut self, key: PeerKey, family: Family) -> Option<Stage> {
        Some(self.peers.get_mut(key)?.session.as_mut()?.telling(family)?.stage)
    }

    fn set_stage(&mut self, key: PeerKey, family: Family, stage: Stage) {
        let session = self.peers.get_mut(key).and_then(|peer| peer.session.as_mut());
        if let Some(telling) = session.and_then(|session| session.telling(family)) {
            telling.stage = stage;
        }
    }
}

/// BoRR or EoRR, to a peer that knows them (RFC 7313 §4).
fn mark(kind: RefreshKind, family: Family, negotiated: &Negotiated, out: &mut BytesMut) {
    if negotiated.enhanced_refresh {
        encode::refresh(Refresh { afi: family.afi(), safi: family.safi(), kind }, out);
    }
}

/// How many messages these are, and how many of them UPDATEs; they are our own, so their lengths are
/// true.
fn messages(mut bytes: &[u8]) -> (u64, u64) {
    let (mut count, mut updates) = (0, 0);
    while let Some(&[high, low, kind]) = bytes.get(16..19).and_then(|rest| rest.first_chunk()) {
        let length = usize::from(u16::from_be_bytes([high, low])).max(19);
        bytes = bytes.get(length..).unwrap_or_default();
        count += 1;
        updates += u64::from(kind == UPDATE);
    }
    (count, updates)
}
