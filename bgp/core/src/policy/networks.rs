//! Which prefixes are nobody's to tell this node, whatever the rules say: those of its own pods,
//! those that it is connected to, and martians. Larger ones, such as a default route, are none.
//!
//! Asked once per received prefix, so networks are kept as bits and masks of one family.

use flock_bgp_wire::{Family, Net};
use ipnet::IpNet;

use super::Withheld;

/// The networks of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Networks {
    /// Where next hops can be.
    pub(crate) connected: Vec<IpNet>,
    /// Where none can be now, because the interface is down.
    pub(crate) down: Vec<IpNet>,
    /// By `Family::index`: what is refused and why, those of its own pods first.
    taken: [Vec<(Block, Withheld)>; 2],
}

impl Networks {
    pub(crate) fn new(connected: Vec<IpNet>, own: Vec<IpNet>, down: Vec<IpNet>) -> Self {
        let (connected, own, down) = (as_set(connected), as_set(own), as_set(down));
        let own = own.iter().map(|net| (*net, Withheld::OwnPods));
        let links = connected.iter().chain(&down).map(|net| (*net, Withheld::Connected));
        let both = own.chain(links);
        let mut taken = [Vec::new(), Vec::new()];
        for (net, why) in both {
            let [ipv4, ipv6] = &mut taken;
            match net {
                // A "network" of length 0 would forbid every route.
                _ if net.prefix_len() == 0 => {}
                IpNet::V4(net) => ipv4.push((Block::of(net), why)),
                IpNet::V6(net) => ipv6.push((Block::of(net), why)),
            }
        }
        Self { connected, down, taken }
    }

    /// Why a prefix is refused that is one of them or part of one.
    #[inline]
    pub(super) fn refuse<N: Net>(&self, net: N) -> Result<(), Withheld> {
        let [ipv4, ipv6] = &self.taken;
        let taken = match N::FAMILY {
            Family::Ipv4 => ipv4,
            Family::Ipv6 => ipv6,
        };
        match taken.iter().find(|(block, _)| block.holds(net)) {
            Some((_, why)) => Err(*why),
            None => Ok(()),
        }
    }
}

/// Masked, in order, each once: what is said in other words is no change.
fn as_set(mut networks: Vec<IpNet>) -> Vec<IpNet> {
    for network in &mut networks {
        *network = network.trunc();
    }
    networks.sort_unstable();
    networks.dedup();
    networks
}

/// Prefixes that no router should tell (RFC 6890, RFC 4291), and parts of them. Private and
/// documentation ranges are used.
#[inline]
pub(super) fn is_martian<N: Net>(net: N) -> bool {
    let blocks = match N::FAMILY {
        Family::Ipv4 => MARTIANS_V4,
        Family::Ipv6 => MARTIANS_V6,
    };
    blocks.iter().any(|block| block.holds(net))
}

/// A prefix of either family, left-aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    bits: u128,
    mask: u128,
    len: u8,
}

impl Block {
    fn of<N: Net>(net: N) -> Self {
        let mask = !u128::MAX.checked_shr(net.len().into()).unwrap_or(0);
        Self { bits: net.bits() & mask, mask, len: net.len() }
    }

    /// Whether `net` is this one or part of it.
    #[inline]
    fn holds<N: Net>(&self, net: N) -> bool {
        self.len <= net.len() && net.bits() & self.mask == self.bits
    }
}

/// The first 16 bits and the length.
const fn block(first: u16, len: u8) -> Block {
    Block { bits: (first as u128) << 112, mask: !(u128::MAX >> len), len }
}

const MARTIANS_V4: [Block; 4] = [
    block(0, 8),       // 0.0.0.0/8, "this network"
    block(0x7F00, 8),  // 127.0.0.0/8, loopback
    block(0xA9FE, 16), // 169.254.0.0/16, link-local
    block(0xE000, 3),  // 224.0.0.0/3: multicast, reserved, broadcast
];

const MARTIANS_V6: [Block; 4] = [
    block(0, 96), // ::/96: unspecified, loopback, IPv4-compatible
    Block { bits: 0xFFFF << 32, ..block(0, 96) }, // ::ffff:0:0/96, IPv4-mapped
    block(0xFE80, 10), // link-local
    block(0xFF00, 8), // multicast
];
