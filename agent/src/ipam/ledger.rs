//! Who holds which address, and which addresses cool down. Decides when a released address is
//! over its cool-down; leaves to `pool4` and `pool6` which address is taken next.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// What is known of an address that is not simply free.
#[derive(Debug)]
pub(super) enum Slot {
    /// In use, by this key.
    Held(String),
    /// Not to be used yet.
    Cooling(Cooling),
}

/// Since when an address rests, and why.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cooling {
    pub(super) since: Duration,
    turn: u64,
    /// Not released here: the kernel routed it when we looked, so it is looked at again later.
    pub(super) elsewhere: bool,
}

/// Oldest first; the second number keeps the order of releases within one instant.
type Queue = BTreeMap<(Duration, u64), IpAddr>;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    slots: BTreeMap<IpAddr, Slot>,
    queue4: Queue,
    queue6: Queue,
    turn: u64,
}

impl Ledger {
    pub(super) fn slot(&self, addr: IpAddr) -> Option<&Slot> {
        self.slots.get(&addr)
    }

    pub(super) fn holder(&self, addr: IpAddr) -> Option<&str> {
        match self.slots.get(&addr)? {
            Slot::Held(holder) => Some(holder),
            Slot::Cooling(_) => None,
        }
    }

    pub(super) fn hold(&mut self, addr: IpAddr, holder: &str) {
        self.unqueue(addr);
        self.slots.insert(addr, Slot::Held(holder.to_owned()));
    }

    pub(super) fn free(&mut self, addr: IpAddr) {
        self.unqueue(addr);
        self.slots.remove(&addr);
    }

    pub(super) fn cool(&mut self, addr: IpAddr, now: Duration, elsewhere: bool) {
        self.unqueue(addr);
        self.turn += 1;
        let cooling = Cooling { since: now, turn: self.turn, elsewhere };
        self.slots.insert(addr, Slot::Cooling(cooling));
        self.queue(addr).insert((now, cooling.turn), addr);
    }

    /// The next address whose rest is over; it is free from now on.
    pub(super) fn next_rested(&mut self, now: Duration, cooldown: Duration) -> Option<IpAddr> {
        for queue in [&mut self.queue4, &mut self.queue6] {
            let Some(oldest) = queue.first_entry() else {
                continue;
            };
            if oldest.key().0.saturating_add(cooldown) <= now {
                let addr = oldest.remove();
                self.slots.remove(&addr);
                return Some(addr);
            }
        }
        None
    }

    /// The addresses of one range that still cool down, oldest first.
    pub(super) fn cooling(
        &self,
        range: RangeInclusive<IpAddr>,
    ) -> impl Iterator<Item = (IpAddr, Cooling)> {
        let queue = if range.start().is_ipv4() { &self.queue4 } else { &self.queue6 };
        queue.values().filter(move |addr| range.contains(*addr)).filter_map(|addr| {
            match self.slots.get(addr)? {
                Slot::Cooling(cooling) => Some((*addr, *cooling)),
                Slot::Held(_) => None,
            }
        })
    }

    /// The addresses of one range that are held or cool down. As dear as they are many: for
    /// metrics and for the words of a failure, never on the way of an allocation.
    pub(super) fn within(&self, range: RangeInclusive<IpAddr>) -> impl Iterator<Item = &Slot> {
        self.slots.range(range).map(|(_, slot)| slot)
    }

    fn unqueue(&mut self, addr: IpAddr) {
        if let Some(Slot::Cooling(Cooling { since, turn, .. })) = self.slots.get(&addr) {
            let place = (*since, *turn);
            self.queue(addr).remove(&place);
        }
    }

    fn queue(&mut self, addr: IpAddr) -> &mut Queue {
        if addr.is_ipv4() { &mut self.queue4 } else { &mut self.queue6 }
    }
}

pub(super) fn range4(first: u32, last: u32) -> RangeInclusive<IpAddr> {
    IpAddr::V4(Ipv4Addr::from_bits(first))..=IpAddr::V4(Ipv4Addr::from_bits(last))
}

pub(super) fn range6(first: u128, last: u128) -> RangeInclusive<IpAddr> {
    IpAddr::V6(Ipv6Addr::from_bits(first))..=IpAddr::V6(Ipv6Addr::from_bits(last))
}
