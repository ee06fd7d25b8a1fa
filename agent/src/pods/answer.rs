//! What an ADD answers, drawn from the record alone: the same record gives the same answer again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flock_cni::cidr::IpCidr;
use flock_cni::result::{CniResult, Dns, Interface, IpConfig, Route};

use crate::store::Allocation;

/// The pod's way out, IPv6: on every host veth.
const GATEWAY6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
/// The pod's way out, IPv4: on every host veth.
const GATEWAY4: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1));

/// The result: the host's interface, the pod's, the addresses (IPv6 first), the routes, and DNS
/// as the network configuration says.
pub(super) fn result(record: &Allocation, sandbox: &str, dns: &Dns) -> CniResult {
    let interface = |name: String, mac: &Option<String>, sandbox: Option<String>| Interface {
        name,
        mac: mac.clone().unwrap_or_default(),
        mtu: record.mtu,
        sandbox,
    };
    let mut routes = Vec::new();
    if record.ip6.is_some() {
        routes.extend(default_by(GATEWAY6));
    }
    if record.ip4.is_some() {
        routes.push(Route { dst: IpCidr::host(GATEWAY4), gw: None });
        routes.extend(default_by(GATEWAY4));
    }
    let mut addresses = super::book::own_addresses(record);
    addresses.sort_by_key(IpAddr::is_ipv4);
    CniResult {
        interfaces: vec![
            interface(record.host_ifname.clone().unwrap_or_default(), &record.host_mac, None),
            interface(record.ifname.clone(), &record.pod_mac, Some(sandbox.to_owned())),
        ],
        ips: addresses.into_iter().map(ip).collect(),
        routes,
        dns: dns.clone(),
    }
}

fn ip(address: IpAddr) -> IpConfig {
    let gateway = if address.is_ipv6() { GATEWAY6 } else { GATEWAY4 };
    IpConfig { address: IpCidr::host(address), gateway: Some(gateway), interface: Some(1) }
}

/// The default route of a gateway's family.
fn default_by(gateway: IpAddr) -> Option<Route> {
    let everything: IpAddr = match gateway {
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
    };
    IpCidr::new(everything, 0).map(|dst| Route { dst, gw: Some(gateway) })
}

/// A MAC address as people write it.
pub(super) fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}
