//! The prefixes of the table without what is said of them, for readers who want few of many: a walk
//! in pieces costs a look at a slot each, and what is wanted is then asked for by name.
//!
//! A prefix stays in its place for as long as it is there. So a walk over all places, however long
//! it takes and whatever happens meanwhile, meets each prefix that was there all the time, once.

use std::ops::Range;

use flock_bgp_wire::{Family, Net};
use ipnet::IpNet;

use super::Rib;
use super::path::Path;
use super::table::Table;
use crate::event::PeerKey;

/// A prefix in its place.
#[derive(Debug, Clone, Copy)]
pub struct Spot<'a> {
    /// The prefix.
    pub net: IpNet,
    paths: &'a [Path],
}

impl Spot<'_> {
    /// We originate it.
    pub fn is_originated(&self) -> bool {
        self.paths.iter().any(Path::ours)
    }

    /// Who tells it, refused paths included; one with several paths several times.
    pub fn tellers(&self) -> impl Iterator<Item = PeerKey> + '_ {
        self.paths.iter().filter_map(Path::peer)
    }
}

impl Rib {
    /// The places of a family are those before this one.
    pub(crate) fn places(&self, family: Family) -> u32 {
        match family {
            Family::Ipv4 => self.ipv4.prefixes.end(),
            Family::Ipv6 => self.ipv6.prefixes.end(),
        }
    }

    /// The prefixes in these places, in no order.
    pub(crate) fn spots(
        &self,
        family: Family,
        places: Range<u32>,
    ) -> Box<dyn Iterator<Item = Spot<'_>> + '_> {
        match family {
            Family::Ipv4 => Box::new(self.ipv4.spots(places)),
            Family::Ipv6 => Box::new(self.ipv6.spots(places)),
        }
    }

    /// The prefixes that a peer was told, with their places, from behind `after` on.
    pub(crate) fn told_spots(
        &self,
        peer: PeerKey,
        family: Family,
        after: Option<u32>,
    ) -> Box<dyn Iterator<Item = (u32, IpNet)> + '_> {
        let from = after.map_or(0, |after| after.saturating_add(1));
        match family {
            Family::Ipv4 => Box::new(self.ipv4.told_spots(peer, from)),
            Family::Ipv6 => Box::new(self.ipv6.told_spots(peer, from)),
        }
    }

    /// Prefixes with a path that a peer told and that policy let in.
    pub(crate) fn learned(&self, family: Family) -> u32 {
        match family {
            Family::Ipv4 => self.ipv4.learned,
            Family::Ipv6 => self.ipv6.learned,
        }
    }
}

impl<N: Net> Table<N> {
    fn spots(&self, places: Range<u32>) -> impl Iterator<Item = Spot<'_>> {
        let places = places.start..places.end.min(self.prefixes.end());
        places.filter_map(|slot| {
            let paths = self.prefixes.paths(slot);
            // Without a path, nothing is known but that a listener has to be told so.
            let net = self.prefixes.net(slot).filter(|_| !paths.is_empty())?;
            Some(Spot { net: net.into(), paths })
        })
    }

    fn told_spots(&self, peer: PeerKey, from: u32) -> impl Iterator<Item = (u32, IpNet)> + '_ {
        let outlet = self.outlet(peer);
        let mut from = from;
        std::iter::from_fn(move || {
            let (slot, _) = outlet?.told.next(from)?;
            from = slot + 1;
            Some((slot, self.prefixes.net(slot)?.into()))
        })
    }
}
