//! How a learned next hop is reached from here: a pure function of the node's interfaces. A next hop
//! is on a network that a usable interface has; for one that is on none (a multihop peer) the
//! kernel was asked for the way. What leads nowhere is left out, so that an interface that goes
//! down takes its next hops along, and the others carry the traffic.

use std::collections::BTreeMap;
use std::net::IpAddr;

use flock_bgp::NextHop;
use flock_dataplane::{Interface, InterfaceAddress, LearnedHop};

/// The way to an address that is on no network of ours, as the kernel told it; `None`: none.
pub(super) type Ways = BTreeMap<IpAddr, Option<LearnedHop>>;

/// Where packets for a next hop go: the address that all know, where there is one.
pub(super) fn gateway(next_hop: &NextHop) -> Option<IpAddr> {
    match next_hop {
        NextHop::V4(address) => Some(IpAddr::V4(*address)),
        // Only on its link does a link-local address mean anything, and which one that is comes
        // with unnumbered peers.
        NextHop::V6 { global, .. } if global.is_unspecified() || global.is_unicast_link_local() => {
            None
        }
        NextHop::V6 { global, .. } => Some(IpAddr::V6(*global)),
    }
}

/// How a next hop is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// So.
    By(LearnedHop),
    /// It is on a network of this interface, which carries no packets now.
    Down(u32),
    /// It is on no network of ours, and the kernel knows no way.
    NoWay(IpAddr),
    /// It is link-local alone.
    NoAddress,
}

pub(super) fn reach(next_hop: &NextHop, interfaces: &[Interface], ways: &Ways) -> Reach {
    let Some(gateway) = gateway(next_hop) else { return Reach::NoAddress };
    match nearest(gateway, interfaces) {
        Near::On(dev) => Reach::By(LearnedHop { via: gateway, dev }),
        Near::Down(dev) => Reach::Down(dev),
        Near::Elsewhere => match ways.get(&gateway).copied().flatten() {
            Some(hop) => Reach::By(hop),
            None => Reach::NoWay(gateway),
        },
    }
}

/// The kernel's next hops, sorted and distinct; none: not reachable now.
pub(super) fn resolve(
    next_hops: &[NextHop],
    interfaces: &[Interface],
    ways: &Ways,
) -> Vec<LearnedHop> {
    let reached = |next_hop: &NextHop| match reach(next_hop, interfaces, ways) {
        Reach::By(hop) => Some(hop),
        Reach::Down(_) | Reach::NoWay(_) | Reach::NoAddress => None,
    };
    let mut hops: Vec<LearnedHop> = next_hops.iter().filter_map(reached).collect();
    hops.sort();
    hops.dedup();
    hops
}

/// Those of the next hops for which the kernel has to be asked.
pub(super) fn far<'a>(
    next_hops: impl Iterator<Item = &'a NextHop>,
    interfaces: &[Interface],
) -> Vec<IpAddr> {
    let gateways = next_hops.filter_map(gateway);
    let mut far: Vec<IpAddr> =
        gateways.filter(|gateway| nearest(*gateway, interfaces) == Near::Elsewhere).collect();
    far.sort_unstable();
    far.dedup();
    far
}

#[derive(Debug, PartialEq, Eq)]
enum Near {
    /// On a network of this interface.
    On(u32),
    /// On a network of this interface, which does not carry packets now.
    Down(u32),
    /// On none.
    Elsewhere,
}

/// The narrowest network decides, as it does in the kernel; of two equal ones, the one that works.
fn nearest(gateway: IpAddr, interfaces: &[Interface]) -> Near {
    let networks =
        interfaces.iter().filter(|interface| !interface.loopback).flat_map(|interface| {
            let networks = interface.addresses.iter().map(InterfaceAddress::network);
            let holds = networks.filter(|net| net.contains(&gateway));
            holds.map(|net| (net.prefix_len(), interface.usable, interface.index))
        });
    match networks
        .max_by_key(|(length, usable, index)| (*length, *usable, std::cmp::Reverse(*index)))
    {
        Some((_, true, index)) => Near::On(index),
        Some((_, false, index)) => Near::Down(index),
        None => Near::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, usable: bool, addresses: &[&str]) -> Interface {
        Interface {
            name: format!("eth{index}"),
            index,
            mtu: 1500,
            usable,
            loopback: index == 1,
            addresses: addresses
                .iter()
                .map(|text| InterfaceAddress {
                    address: text.parse().unwrap(),
                    peer: None,
                    permanent: true,
                })
                .collect(),
        }
    }

    fn hop(text: &str) -> NextHop {
        match text.parse().unwrap() {
            IpAddr::V4(address) => NextHop::V4(address),
            IpAddr::V6(global) => NextHop::V6 { global, link_local: None },
        }
    }

    fn told(hops: &[LearnedHop]) -> Vec<String> {
        hops.iter().map(|hop| format!("{} dev {}", hop.via, hop.dev)).collect()
    }

    #[test]
    fn each_next_hop_leaves_by_the_interface_whose_network_it_is_on() {
        let interfaces = [
            interface(1, true, &["127.0.0.1/8", "10.0.0.9/32"]),
            interface(2, true, &["10.0.1.2/24", "2001:db8:1::2/64"]),
            interface(3, true, &["10.0.2.2/24", "10.0.1.130/25", "2001:db8:2::2/64"]),
            interface(4, false, &["10.0.4.2/24"]),
        ];
        let way = |via: &str, dev| Some(LearnedHop { via: via.parse().unwrap(), dev });
        let ways: Ways = [
            ("192.0.2.1".parse().unwrap(), way("10.0.1.1", 2)),
            ("192.0.2.2".parse().unwrap(), None),
        ]
        .into();
        for (next_hops, expected) in [
            (vec!["10.0.1.1"], vec!["10.0.1.1 dev 2"]),
            (vec!["10.0.2.1", "10.0.1.1"], vec!["10.0.1.1 dev 2", "10.0.2.1 dev 3"]),
            (vec!["10.0.1.129"], vec!["10.0.1.129 dev 3"]), // the narrower network
            (vec!["10.0.4.1"], vec![]),                     // its interface is down
            (vec!["10.0.4.1", "10.0.2.1"], vec!["10.0.2.1 dev 3"]),
            (vec!["2001:db8:1::1"], vec!["2001:db8:1::1 dev 2"]),
            (vec!["192.0.2.1"], vec!["10.0.1.1 dev 2"]), // by the kernel's word
            (vec!["192.0.2.1", "10.0.1.1"], vec!["10.0.1.1 dev 2"]), // one way, once
            (vec!["192.0.2.2"], vec![]),
            (vec!["192.0.2.3"], vec![]),
            (vec!["fe80::1"], vec![]),
        ] {
            let hops: Vec<NextHop> = next_hops.iter().map(|text| hop(text)).collect();
            assert_eq!(told(&resolve(&hops, &interfaces, &ways)), expected, "{next_hops:?}");
        }
        let all: Vec<NextHop> =
            ["10.0.1.1", "10.0.4.1", "192.0.2.1", "192.0.2.1"].map(hop).to_vec();
        assert_eq!(far(all.iter(), &interfaces), ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn of_two_interfaces_on_one_network_the_one_that_works() {
        let two = |first, second| {
            [interface(2, first, &["10.0.1.2/24"]), interface(3, second, &["10.0.1.3/24"])]
        };
        for (interfaces, dev) in [
            (two(true, true), vec!["10.0.1.1 dev 2"]),
            (two(false, true), vec!["10.0.1.1 dev 3"]),
            (two(false, false), vec![]),
        ] {
            let hops = resolve(&[hop("10.0.1.1")], &interfaces, &Ways::new());
            assert_eq!(told(&hops), dev);
        }
    }

    #[test]
    fn an_ipv4_route_may_have_an_ipv6_next_hop() {
        let interfaces = [interface(2, true, &["2001:db8:1::2/64"])];
        let near = "fe80::7".parse().ok();
        let next_hop = NextHop::V6 { global: "2001:db8:1::1".parse().unwrap(), link_local: near };
        let hops = resolve(&[next_hop], &interfaces, &Ways::new());
        assert_eq!(told(&hops), ["2001:db8:1::1 dev 2"]);
    }
}
