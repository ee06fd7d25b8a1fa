//! What an ADD answers, drawn from the record alone: the same record gives the same answer again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flock_cni::cidr::IpCidr;
use flock_cni::result::{CniResult, Dns, Interface, IpConfig, Route};
use flock_dataplane::{GATEWAY4, GATEWAY6};

use crate::store::Allocation;

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
        routes.extend(default_by(GATEWAY6.into()));
    }
    if record.ip4.is_some() {
        routes.push(Route { dst: IpCidr::host(GATEWAY4.into()), gw: None });
        routes.extend(default_by(GATEWAY4.into()));
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
    let gateway = if address.is_ipv6() { GATEWAY6.into() } else { GATEWAY4.into() };
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

/// The bytes of a MAC address; `None` for anything else.
pub(super) fn read_mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<u8> = text
        .split(':')
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2))
        .collect::<Option<_>>()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_address_is_read_as_it_is_written() {
        let bytes = [0x02, 0, 0xab, 0xcd, 0xef, 0x9];
        assert_eq!(read_mac(&mac(bytes)), Some(bytes));
        for bad in ["", "02:00", "02:00:ab:cd:ef:09:11", "02:00:ab:cd:ef:zz", "2:0:ab:cd:ef:9"] {
            assert_eq!(read_mac(bad), None, "{bad}");
        }
    }
}
