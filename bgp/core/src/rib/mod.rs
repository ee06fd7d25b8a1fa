//! The routing information base: Adj-RIB-In, Loc-RIB and Adj-RIB-Out of all peers, as one table of
//! prefixes per family (RFC 4271 §3.2).
//!
//! One slot per prefix holds its paths. What a peer was told is a number per slot (the attribute
//! set), what it is still to be told is a queue of slots in which each slot is at most once: a
//! prefix that flaps while a socket is full costs nothing more, and is told as it then is. The
//! kernel is one more such listener. Attribute sets are kept once, and counted.
//!
//! ```text
//!   learn, originate ─▶ table ─▶ prefixes (slots, paths) ─▶ decision
//!                         │                                    │ the best is another
//!                         │         ┌── outlet, one per peer ◀─┤
//!        transmit ◀───────┼─────────┘                          │
//!        poll_route ◀─────┴──────────── kernel ◀───────────────┘
//! ```

mod decision;
mod diary;
mod interner;
mod kernel;
mod outlet;
mod path;
mod prefixes;
mod shared;
mod table;
mod told;
mod transmit;
mod view;
mod walk;

use std::net::{IpAddr, Ipv4Addr};

use bytes::BytesMut;
use flock_bgp_wire::encode::Form;
use flock_bgp_wire::{Attributes, Family, Net, NextHop, Origin};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

pub use self::decision::Reason;
pub use self::diary::Span;
use self::path::{Path, Set, Who};
use self::shared::Shared;
use self::table::Table;
pub use self::view::{Heard, PathView, Pending, RouteView, ToldView};
pub use self::walk::Spot;
use crate::config::Origination;
use crate::event::{Now, PeerKey, RouteChange};
use crate::policy::Withheld;
use crate::policy::export::Exporter;
use crate::policy::import::Kept;
use crate::tally::Tally;

/// An attribute set, kept once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AttrId(u32);

/// What the decision needs to know of a peer (RFC 4271 §9.1.2.2 d, f, g).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) internal: bool,
    pub(crate) id: Ipv4Addr,
    pub(crate) address: IpAddr,
}

/// How many routes a peer has in one family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Prefixes (paths, with ADD-PATH) that it announced and we keep, refused ones included.
    pub(crate) received: u32,
    /// Those of them that policy let in.
    pub(crate) accepted: u32,
    /// Prefixes that it was told.
    pub(crate) advertised: u32,
    /// Prefixes that are still to be looked at for it: it may have to be told them.
    pub(crate) pending: u32,
    /// Some that were refused are not even kept.
    pub(crate) overflowed: bool,
}

impl Counts {
    /// Whether it told anything that was refused.
    pub(crate) fn has_refused(&self) -> bool {
        self.received > self.accepted || self.overflowed
    }
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Rib {
    shared: Shared,
    ipv4: Table<Ipv4Net>,
    ipv6: Table<Ipv6Net>,
}

/// The table of a family that is known at run time.
macro_rules! table {
    ($rib:ident, $family:expr, $table:ident => $act:expr) => {
        match $family {
            Family::Ipv4 => {
                let $table = &mut $rib.ipv4;
                $act
            }
            Family::Ipv6 => {
                let $table = &mut $rib.ipv6;
                $act
            }
        }
    };
}

/// The same for a prefix, of a type that is known to the compiler or not: it is decided there.
macro_rules! table_of {
    ($rib:ident, $net:ident, $family:expr, $table:ident => $act:expr) => {
        match $family {
            Family::Ipv4 => {
                let ($table, $net) = (&mut $rib.ipv4, Ipv4Net::from_bits($net.bits(), $net.len()));
                $act
            }
            Family::Ipv6 => {
                let ($table, $net) = (&mut $rib.ipv6, Ipv6Net::from_bits($net.bits(), $net.len()));
                $act
            }
        }
    };
}

impl Rib {
    /// `seed` keys the hash tables; `install` keeps a pending set for the kernel.
    pub(crate) fn new(seed: u64, install: bool) -> Self {
        Self {
            shared: Shared::new(seed),
            ipv4: Table::new(seed, install),
            ipv6: Table::new(seed, install),
        }
    }

    /// The moment of what follows.
    pub(crate) fn now(&mut self, now: Now) {
        self.shared.now = now;
    }

    // --- paths in -------------------------------------------------------------------------------

    /// From now on `peer` is this. Its stale paths, if any, are kept.
    pub(crate) fn source(&mut self, peer: PeerKey, source: Source) {
        if self.shared.set_source(peer, source) {
            self.ipv4.source_changed(&mut self.shared, peer);
            self.ipv6.source_changed(&mut self.shared, peer);
        }
    }

    /// Keeps a set for the time of one UPDATE; given back by `release`.
    pub(crate) fn intern(&mut self, attributes: Attributes) -> AttrId {
        AttrId(self.shared.sets.intern(Set::new(attributes)))
    }

    /// Gives back what `intern` gave.
    pub(crate) fn release(&mut self, id: AttrId) {
        self.shared.sets.release(id.0);
    }

    /// Fetches from memory what `learn` and `unlearn` of these prefixes will look at, for a few dozen
    /// of them: in a large table, waiting for memory is most of what they cost.
    #[inline]
    pub(crate) fn fetch<N: Net>(&self, nets: impl Iterator<Item = N>) {
        let nets = nets.map(|net| (net.bits(), net.len()));
        match N::FAMILY {
            Family::Ipv4 => {
                self.ipv4.prefixes.fetch(nets.map(|(bits, len)| Ipv4Net::from_bits(bits, len)));
            }
            Family::Ipv6 => {
                self.ipv6.prefixes.fetch(nets.map(|(bits, len)| Ipv6Net::from_bits(bits, len)));
            }
        }
    }

    /// `peer` announces a prefix.
    #[inline]
    pub(crate) fn learn<N: Net>(&mut self, peer: PeerKey, net: N, path_id: u32, id: AttrId) {
        let path = Path::learned(peer, path_id, Ok(id.0));
        table_of!(self, net, N::FAMILY, table => table.learn(&mut self.shared, net, path));
    }

    /// `peer` announces a prefix that policy refuses. It is kept as refused, up to `keep` of them per
    /// peer and family (twice as many of networks that overlap the node's, and any beside a route of
    /// our own), so that it can be counted and explained.
    pub(crate) fn refuse<N: Net>(
        &mut self,
        peer: PeerKey,
        net: N,
        path_id: u32,
        why: Withheld,
        keep: u32,
    ) {
        let path = Path::learned(peer, path_id, Err(why));
        table_of!(self, net, N::FAMILY, table => {
            table.refuse(&mut self.shared, net, path, why, keep);
        });
    }

    /// `peer` withdraws a prefix.
    #[inline]
    pub(crate) fn unlearn<N: Net>(&mut self, peer: PeerKey, net: N, path_id: u32) {
        table_of!(self, net, N::FAMILY, table => {
            table.remove_net(&mut self.shared, net, Who::Peer(peer, path_id));
        });
    }

    /// RFC 4724 §4.2: everything of `peer` is stale until it is said again.
    pub(crate) fn mark_stale(&mut self, peer: PeerKey, family: Family) {
        table!(self, family, table => table.mark_stale(&mut self.shared, peer));
    }

    /// What is still stale goes.
    pub(crate) fn sweep_stale(&mut self, peer: PeerKey, family: Family) {
        table!(self, family, table => table.sweep_stale(&mut self.shared, peer));
    }

    /// Everything of `peer` goes.
    pub(crate) fn forget(&mut self, peer: PeerKey, family: Family) {
        table!(self, family, table => table.forget(&mut self.shared, peer));
    }

    /// Policy or the node's networks changed: every kept path of `peer` is judged anew. Accepted
    /// ones may be refused; refused ones have no attributes left and stay refused, perhaps for
    /// another reason, which is why the session also asks for a refresh.
    pub(crate) fn rejudge(
        &mut self,
        peer: PeerKey,
        family: Family,
        judge: &mut dyn FnMut(IpNet, Kept<'_>) -> Result<(), Withheld>,
    ) {
        table!(self, family, table => table.rejudge(&mut self.shared, peer, judge));
    }

    /// We originate this prefix so, or no longer.
    pub(crate) fn originate(&mut self, net: IpNet, wish: Option<&Origination>) {
        let set = wish.map(|wish| self.intern(attributes(wish)).0);
        self.originate_set(net, set);
    }

    fn originate_set(&mut self, net: IpNet, set: Option<u32>) {
        match net.trunc() {
            IpNet::V4(net) => self.ipv4.originate(&mut self.shared, net, set),
            IpNet::V6(net) => self.ipv6.originate(&mut self.shared, net, set),
        }
    }

    /// We originate these and no others.
    pub(crate) fn originate_all(&mut self, wishes: &[(IpNet, Origination)]) {
        self.ipv4.begin_generation();
        self.ipv6.begin_generation();
        // Most are like the one before.
        let mut last: Option<(&Origination, AttrId)> = None;
        for (net, wish) in wishes {
            let id = match last {
                Some((like, id)) if like == wish => id,
                _ => {
                    let id = self.intern(attributes(wish));
                    if let Some((_, before)) = last.replace((wish, id)) {
                        self.release(before);
                    }
                    id
                }
            };
            self.shared.sets.retain(id.0, 1);
            self.originate_set(*net, Some(id.0));
        }
        if let Some((_, id)) = last {
            self.release(id);
        }
        self.ipv4.end_generation(&mut self.shared);
        self.ipv6.end_generation(&mut self.shared);
    }

    pub(crate) fn counts(&self, peer: PeerKey, family: Family) -> Counts {
        match family {
            Family::Ipv4 => self.ipv4.counts(peer),
            Family::Ipv6 => self.ipv6.counts(peer),
        }
    }

    // --- routes out -----------------------------------------------------------------------------

    /// `peer` is to be told this family: everything is pending.
    pub(crate) fn open_outlet(&mut self, peer: PeerKey, family: Family, exporter: Exporter) {
        table!(self, family, table => table.open_outlet(&mut self.shared, peer, exporter));
    }

    /// Its session is over: nothing was told, nothing is pending.
    pub(crate) fn close_outlet(&mut self, peer: PeerKey, family: Family) {
        table!(self, family, table => table.close_outlet(&mut self.shared, peer));
    }

    /// Policy changed, or the peer asked for a refresh: everything is pending again; what was told
    /// stays told until it is replaced or withdrawn. Nothing where no outlet is open.
    pub(crate) fn retell(&mut self, peer: PeerKey, family: Family, exporter: Exporter) {
        table!(self, family, table => table.retell(&mut self.shared, peer, exporter));
    }

    /// Peers for which something became pending since the last call.
    pub(crate) fn take_woken(&mut self) -> Option<PeerKey> {
        self.shared.take_woken()
    }

    /// Peers that told of prefixes that we originate, or that had when we began to, since the last
    /// call.
    pub(crate) fn take_contested(&mut self) -> Option<(PeerKey, Tally<IpNet>)> {
        self.shared.take_contested()
    }

    /// Whether nobody who listens is still to be told anything.
    pub(crate) fn settled(&self) -> bool {
        self.ipv4.settled() && self.ipv6.settled()
    }

    /// Appends UPDATEs, withdrawals first, while `out` is shorter than `room`. Returns whether
    /// nothing of this family is pending any more.
    pub(crate) fn transmit(
        &mut self,
        peer: PeerKey,
        family: Family,
        form: Form,
        room: usize,
        out: &mut BytesMut,
    ) -> bool {
        table!(self, family, table => table.transmit(&mut self.shared, peer, form, room, out))
    }

    /// The next thing that the kernel should know.
    pub(crate) fn poll_route(&mut self) -> Option<RouteChange> {
        let Self { shared, ipv4, ipv6 } = self;
        ipv4.poll_route(shared).or_else(|| ipv6.poll_route(shared))
    }

    /// Whether the kernel has been offered all that it should know.
    pub(crate) fn offered(&self) -> bool {
        self.ipv4.offered() && self.ipv6.offered()
    }
}

/// What we say of a route that we originate. The next hop is filled in for each peer on export.
fn attributes(wish: &Origination) -> Attributes {
    let mut attributes = Attributes::new(Origin::Igp, NextHop::V4(Ipv4Addr::UNSPECIFIED));
    attributes.communities.clone_from(&wish.communities);
    attributes.large_communities.clone_from(&wish.large_communities);
    attributes.med = wish.med;
    attributes.local_pref = wish.local_pref;
    attributes
}

#[cfg(test)]
mod tests;
