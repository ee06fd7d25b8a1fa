//! The lowest free IPv4 address of a pool, without a scan. Decides which addresses of a network
//! are usable and in which order they go; leaves who holds what to the ledger.
//!
//! A pool remembers how far up it has ever looked (`fresh`) and which addresses below that came
//! back (`returned`). What came back is always lower than what is fresh, so the lowest free
//! address is the first of `returned`, else the next fresh one. An address that somebody holds
//! costs one step when `fresh` passes it, once, and never again: the cost of an allocation does
//! not grow with the addresses held. All of it can be derived again from the ledger, so a pool
//! (they come and go with annotations) may be forgotten at any time.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::Ipv4Net;

use super::ledger::{Ledger, range4};

/// What an allocation asks of the world.
pub(super) struct Asking<'a> {
    pub(super) now: Duration,
    pub(super) taken_elsewhere: &'a dyn Fn(IpAddr) -> bool,
}

/// The usable part of a pool: without network, first host (where routers like to sit) and
/// broadcast. `None` where nothing is left.
pub(super) fn usable(net: Ipv4Net) -> Option<(u32, u32)> {
    let first = net.network().to_bits().checked_add(2)?;
    let last = net.broadcast().to_bits().checked_sub(1)?;
    (first <= last).then_some((first, last))
}

#[derive(Debug)]
pub(super) struct Pool4 {
    first: u32,
    last: u32,
    fresh: Option<u32>,
    returned: BTreeSet<u32>,
    /// When it was last asked for something, for forgetting the one that was not.
    pub(super) asked: u64,
}

impl Pool4 {
    pub(super) fn new(net: Ipv4Net) -> Option<Self> {
        let (first, last) = usable(net)?;
        Some(Self { first, last, fresh: Some(first), returned: BTreeSet::new(), asked: 0 })
    }

    pub(super) fn range(&self) -> RangeInclusive<IpAddr> {
        range4(self.first, self.last)
    }

    /// An address has become free. What is still fresh will be found anyway.
    pub(super) fn give_back(&mut self, addr: Ipv4Addr) {
        let bits = addr.to_bits();
        let passed = self.fresh.is_none_or(|fresh| bits < fresh);
        if passed && (self.first..=self.last).contains(&bits) {
            self.returned.insert(bits);
        }
    }

    /// The lowest free address; each one looked at adds one to `examined`.
    pub(super) fn lowest(
        &mut self,
        ledger: &mut Ledger,
        asking: &Asking<'_>,
        examined: &mut u64,
    ) -> Option<Ipv4Addr> {
        while let Some(bits) = self.returned.pop_first().or_else(|| self.next_fresh()) {
            *examined += 1;
            let addr = IpAddr::V4(Ipv4Addr::from_bits(bits));
            // Held or cooling by way of another pool or a claim: it is given back when that ends.
            if ledger.slot(addr).is_some() {
                continue;
            }
            if (asking.taken_elsewhere)(addr) {
                // Looked at again after a cool-down, not at each allocation until then.
                ledger.cool(addr, asking.now, true);
                continue;
            }
            return Some(Ipv4Addr::from_bits(bits));
        }
        None
    }

    fn next_fresh(&mut self) -> Option<u32> {
        let bits = self.fresh?;
        self.fresh = bits.checked_add(1).filter(|next| *next <= self.last);
        Some(bits)
    }
}
