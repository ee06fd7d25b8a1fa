//! An IPv6 address of a pool: by `ip-algo`, else at random. Decides the candidates and their
//! order; leaves who holds what to the ledger.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::Ipv6Net;
use rand::Rng;

use super::algo::IpAlgo;
use super::identity::PodIdentity;
use super::ledger::{Cooling, Ledger, Slot, range6};
use super::pool4::Asking;

/// Tries of one kind, random identifiers or last nibbles.
const TRIES: u8 = 16;
/// Pools with at most this many host bits are searched to the end when the tries fail: sixteen
/// random tries in a /124 with one address left miss it one time in three.
const SMALL: u8 = 12;

/// The usable part of a pool: all but the subnet-router anycast address (RFC 4291 §2.6.1).
pub(super) fn usable(net: Ipv6Net) -> RangeInclusive<IpAddr> {
    range6(net.network().to_bits() | 1, net.broadcast().to_bits())
}

/// What became of the wish for an `ip-algo` address.
pub(super) enum ByAlgo {
    /// A free one, or (with since when) one that still cools down.
    Found(Ipv6Addr, Option<Cooling>),
    /// All sixteen are held.
    Full,
    /// The pool's length is not a multiple of 4.
    DoesNotFit,
}

/// Looks at candidates on behalf of one allocation.
pub(super) struct Search<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) asking: &'a Asking<'a>,
    pub(super) examined: &'a mut u64,
}

impl Search<'_> {
    /// One of the sixteen addresses that say who this is. Of addresses that all cool down the
    /// oldest is taken before a random one: whoever still sends to it meets the same workload.
    pub(super) fn by_algo(
        &mut self,
        algo: &IpAlgo,
        net: Ipv6Net,
        who: &PodIdentity,
        rng: &mut impl Rng,
    ) -> ByAlgo {
        let Some(base) = algo.base(net, who) else {
            return ByAlgo::DoesNotFit;
        };
        let start = rng.next_u64() & 0xf;
        let mut resting: Option<(Ipv6Addr, Cooling)> = None;
        for step in 0..u64::from(TRIES) {
            let addr = Ipv6Addr::from_bits(base | u128::from((start + step) & 0xf));
            if addr == net.network() {
                continue;
            }
            *self.examined += 1;
            match self.ledger.slot(addr.into()) {
                Some(Slot::Held(_)) => {}
                _ if (self.asking.taken_elsewhere)(addr.into()) => {}
                None => return ByAlgo::Found(addr, None),
                Some(Slot::Cooling(cooling)) => {
                    if resting.is_none_or(|(_, oldest)| cooling.since < oldest.since) {
                        resting = Some((addr, *cooling));
                    }
                }
            }
        }
        resting.map_or(ByAlgo::Full, |(addr, cooling)| ByAlgo::Found(addr, Some(cooling)))
    }

    /// A random interface identifier.
    pub(super) fn random(&mut self, net: Ipv6Net, rng: &mut impl Rng) -> Option<Ipv6Addr> {
        let hosts = net.hostmask().to_bits();
        let network = net.network().to_bits();
        let mut draw = || (u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())) & hosts;
        for _ in 0..TRIES {
            let host = draw();
            if host != 0 && self.is_free(network | host) {
                return Some(Ipv6Addr::from_bits(network | host));
            }
        }
        if 128 - net.prefix_len() > SMALL {
            return None;
        }
        let start = draw();
        (0..=hosts)
            .map(|step| start.wrapping_add(step) & hosts)
            .find(|host| *host != 0 && self.is_free(network | host))
            .map(|host| Ipv6Addr::from_bits(network | host))
    }

    fn is_free(&mut self, bits: u128) -> bool {
        *self.examined += 1;
        let addr = IpAddr::V6(Ipv6Addr::from_bits(bits));
        self.ledger.slot(addr).is_none() && !(self.asking.taken_elsewhere)(addr)
    }
}
