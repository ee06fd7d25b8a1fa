//! Where everything is: addresses and prefixes of a cluster's parts. Pure arithmetic; every cluster
//! has the same, because each lives in namespaces of its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The AS number of the ToR.
pub const TOR_ASN: u32 = 65000;

/// The prefixes of services; the first address of the first one is the API server's.
pub const SERVICES: [&str; 2] = ["10.96.0.0/16", "2001:db8:96::/112"];

/// The first addresses of [`SERVICES`], which Kubernetes gives to its API server.
pub const API_SERVICE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x96, 0, 0, 0, 0, 1)),
];

/// What the controller manager cuts the nodes' `podCIDRs` from, if it is asked to.
pub const CLUSTER_CIDRS: &str = "10.244.0.0/16,2001:db8:a::/48";

/// A network between the ToR and one of the others: its number makes the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    number: u8,
}

/// The network of the control plane.
pub const CONTROL: Wire = Wire { number: 0 };

/// The network of a node; they are counted from 1.
pub fn node_wire(node: u8) -> Wire {
    Wire { number: node }
}

impl Wire {
    /// The address at the ToR, of a family.
    pub fn near(self, ipv6: bool) -> IpAddr {
        self.address(ipv6, 1)
    }

    /// The address at the other end.
    pub fn far(self, ipv6: bool) -> IpAddr {
        self.address(ipv6, 2)
    }

    /// Both addresses of an end with their prefix lengths, IPv4 first.
    pub(super) fn bound(self, far: bool) -> [String; 2] {
        let host = if far { 2 } else { 1 };
        [format!("{}/24", self.address(false, host)), format!("{}/64", self.address(true, host))]
    }

    fn address(self, ipv6: bool, host: u8) -> IpAddr {
        let number = self.number;
        if ipv6 {
            let number = u16::from(number);
            Ipv6Addr::new(0x2001, 0xdb8, 0x100, number, 0, 0, 0, u16::from(host)).into()
        } else {
            Ipv4Addr::new(10, 100, number, host).into()
        }
    }
}

/// The prefix of a node's pods, of a family; what a NodeConfig or ptp is told.
pub fn pods(node: u8, ipv6: bool) -> String {
    if ipv6 { format!("2001:db8:a:{node:x}::/64") } else { format!("10.244.{node}.0/24") }
}

/// Another prefix for pods of a node, of a family: what its Node may be given as `podCIDRs`.
pub fn pod_cidr(node: u8, ipv6: bool) -> String {
    if ipv6 { format!("2001:db8:b:{node:x}::/64") } else { format!("10.245.{node}.0/24") }
}

/// Whether an address is in one of the prefixes of pods: a /64, or a /24.
pub fn holds(pods: &str, address: IpAddr) -> bool {
    let network: IpAddr = match address {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() >> 8 << 8).into(),
    };
    pods == format!("{network}/{}", if network.is_ipv6() { 64 } else { 24 })
}

/// A node's AS number.
pub fn node_asn(node: u8) -> u32 {
    65100 + u32::from(node)
}

/// A node's name.
pub fn node_name(node: u8) -> String {
    format!("node-{node}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_pods_holds_its_addresses_and_no_others() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for ipv6 in [true, false] {
            let inside = if ipv6 { "2001:db8:b:2::1:2" } else { "10.245.2.255" };
            assert!(holds(&pod_cidr(2, ipv6), address(inside)));
            assert!(!holds(&pods(2, ipv6), address(inside)));
            assert!(!holds(&pod_cidr(2, !ipv6), address(inside)));
        }
    }

    #[test]
    fn everybody_has_a_network_of_its_own() {
        assert_eq!(CONTROL.bound(true), ["10.100.0.2/24", "2001:db8:100::2/64"]);
        assert_eq!(node_wire(2).bound(false), ["10.100.2.1/24", "2001:db8:100:2::1/64"]);
        assert_eq!(node_wire(2).far(true), "2001:db8:100:2::2".parse::<IpAddr>().unwrap());
        assert_eq!(
            (pods(3, false), pods(3, true)),
            ("10.244.3.0/24".into(), "2001:db8:a:3::/64".into())
        );
    }
}
