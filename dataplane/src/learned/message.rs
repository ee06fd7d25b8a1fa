//! A learned route as the bytes that the kernel reads: pure.
//!
//! Decides the layout (`struct rtmsg` and its attributes, linux/rtnetlink.h), and that a
//! route which is created over one next hop is said the short way. Written straight into
//! the buffer that is sent: netlink-packet-route's types allocate for every attribute, and
//! making, measuring and freeing them was most of the sending thread's own time, a tenth of
//! all of it. The tests hold every form against its bytes.

use std::net::IpAddr;

use netlink_packet_core::NLM_F_REQUEST;

use super::{LearnedHop, LearnedRoute, metric_of};
use crate::request::{Mode, PROTOCOL};

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;

const RT_TABLE_MAIN: u8 = 254;
const RT_SCOPE_UNIVERSE: u8 = 0;
/// Of a removal: whatever scope it has.
const RT_SCOPE_NOWHERE: u8 = 255;
const RTN_UNICAST: u8 = 1;
/// The gateway may be in no subnet of the link's: who asks for it says where it is.
const RTNH_F_ONLINK: u8 = 4;

/// Puts the wish for a route behind what is there: that it is, or, where it has no next
/// hops, that it is not. `flags` are beside those that the wish has itself.
pub(super) fn write(
    bytes: &mut Vec<u8>,
    route: &LearnedRoute,
    mode: Mode,
    flags: u16,
    sequence: u32,
) {
    let removed = route.next_hops.is_empty();
    let (kind, own, scope) = if removed {
        (RTM_DELROUTE, 0, RT_SCOPE_NOWHERE)
    } else {
        (RTM_NEWROUTE, mode.flags(), RT_SCOPE_UNIVERSE)
    };
    // A route that is replaced is said as multipath also over one: IPv6 then replaces all of its next
    // hops and not the first. One that is created needs not be.
    let plain = match &*route.next_hops {
        [hop] if mode == Mode::Create => Some(hop),
        _ => None,
    };
    let destination = route.prefix.addr();

    let message = bytes.len();
    bytes.extend([0; 4]); // its length, when it is known
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | own | flags).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]); // to the kernel

    let (source_length, service) = (0, 0);
    let header = [family(destination), route.prefix.prefix_len(), source_length, service];
    bytes.extend(header);
    bytes.extend([RT_TABLE_MAIN, PROTOCOL, scope, RTN_UNICAST]);
    let onlink = if plain.is_some() { RTNH_F_ONLINK } else { 0 };
    bytes.extend(u32::from(onlink).to_ne_bytes());

    if route.prefix.prefix_len() > 0 {
        address(bytes, RTA_DST, destination);
    }
    number(bytes, RTA_PRIORITY, metric_of(route.prefix));
    match plain {
        Some(hop) => {
            gateway(bytes, destination, hop);
            number(bytes, RTA_OIF, hop.dev);
        }
        None if removed => {}
        None => {
            let attribute = bytes.len();
            bytes.extend([0; 2]);
            bytes.extend(RTA_MULTIPATH.to_ne_bytes());
            for hop in &*route.next_hops {
                next_hop(bytes, destination, hop);
            }
            set_short_length(bytes, attribute);
        }
    }
    let length = u32::try_from(bytes.len() - message).unwrap_or(u32::MAX);
    if let Some(place) = bytes.get_mut(message..message + 4) {
        place.copy_from_slice(&length.to_ne_bytes());
    }
}

/// `struct rtnexthop`.
fn next_hop(bytes: &mut Vec<u8>, destination: IpAddr, hop: &LearnedHop) {
    let start = bytes.len();
    let weight = 0;
    bytes.extend([0, 0, RTNH_F_ONLINK, weight]);
    bytes.extend(hop.dev.to_ne_bytes());
    gateway(bytes, destination, hop);
    set_short_length(bytes, start);
}

/// The next router, in the words for its family and the route's.
fn gateway(bytes: &mut Vec<u8>, destination: IpAddr, hop: &LearnedHop) {
    if destination.is_ipv4() == hop.via.is_ipv4() {
        address(bytes, RTA_GATEWAY, hop.via);
        return;
    }
    let start = bytes.len();
    bytes.extend([0; 2]);
    bytes.extend(RTA_VIA.to_ne_bytes());
    bytes.extend(u16::from(family(hop.via)).to_ne_bytes());
    octets(bytes, hop.via);
    set_short_length(bytes, start);
    // The next one begins at a multiple of four, which counts for this one's surroundings.
    let padded = start + (bytes.len() - start).next_multiple_of(4);
    bytes.resize(padded, 0);
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn address(bytes: &mut Vec<u8>, kind: u16, address: IpAddr) {
    let length: u16 = if address.is_ipv4() { 4 + 4 } else { 4 + 16 };
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    octets(bytes, address);
}

fn octets(bytes: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => bytes.extend(address.octets()),
        IpAddr::V6(address) => bytes.extend(address.octets()),
    }
}

fn number(bytes: &mut Vec<u8>, kind: u16, number: u32) {
    bytes.extend(8_u16.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(number.to_ne_bytes());
}

/// What began at `start` is over: its length is its first two bytes.
fn set_short_length(bytes: &mut [u8], start: usize) {
    let length = u16::try_from(bytes.len() - start).unwrap_or(u16::MAX);
    if let Some(place) = bytes.get_mut(start..start + 2) {
        place.copy_from_slice(&length.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{
        NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NetlinkMessage, NetlinkPayload,
    };
    use netlink_packet_route::route::{
        RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteNextHopFlags, RouteProtocol,
        RouteScope, RouteType,
    };
    use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

    use super::*;
    use crate::learned::{LEARNED_HOST6_METRIC, LEARNED_METRIC};

    fn route(prefix: &str, hops: &[(&str, u32)]) -> LearnedRoute {
        let hop = |(via, dev): &(&str, u32)| LearnedHop { via: via.parse().unwrap(), dev: *dev };
        LearnedRoute { prefix: prefix.parse().unwrap(), next_hops: hops.iter().map(hop).collect() }
    }

    /// What netlink-packet-route makes of the same.
    fn theirs(route: &LearnedRoute, metric: u32, mode: Mode, flags: u16) -> Vec<u8> {
        let mut message = RouteMessage::default();
        let four = route.prefix.addr().is_ipv4();
        let family = if four { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.address_family = family;
        message.header.destination_prefix_length = route.prefix.prefix_len();
        message.header.table = RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::from(PROTOCOL);
        message.header.kind = RouteType::Unicast;
        if route.prefix.prefix_len() > 0 {
            let destination = RouteAttribute::Destination(route.prefix.addr().into());
            message.attributes.push(destination);
        }
        message.attributes.push(RouteAttribute::Priority(metric));
        let gateway = |hop: &LearnedHop| match hop.via.is_ipv4() == four {
            true => RouteAttribute::Gateway(hop.via.into()),
            false => RouteAttribute::Via(hop.via.into()),
        };
        let multipath = |hop: &LearnedHop| {
            let mut next = RouteNextHop::default();
            next.interface_index = hop.dev;
            next.flags = RouteNextHopFlags::Onlink;
            next.attributes = vec![gateway(hop)];
            next
        };
        match (&*route.next_hops, mode) {
            ([], _) => message.header.scope = RouteScope::NoWhere,
            ([hop], Mode::Create) => {
                message.header.flags = RouteFlags::Onlink;
                message.attributes.extend([gateway(hop), RouteAttribute::Oif(hop.dev)]);
            }
            (hops, _) => {
                let hops = hops.iter().map(multipath).collect();
                message.attributes.push(RouteAttribute::MultiPath(hops));
            }
        }
        let message = match route.next_hops.is_empty() {
            true => RouteNetlinkMessage::DelRoute(message),
            false => RouteNetlinkMessage::NewRoute(message),
        };
        let mut message = NetlinkMessage::from(message);
        message.header.flags = flags;
        message.header.sequence_number = 77;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    #[test]
    fn every_form_is_the_bytes_of_netlink_packet_route() {
        let four = [("10.9.0.1", 7), ("10.9.1.1", 8), ("10.9.2.1", 0x0102_0304)];
        let six = [("2001:db8:9::1", 7), ("fe80::7", 8)];
        let mixed = [four[0], six[0], six[1], four[1]];
        let mut forms = 0;
        for prefix in ["0.0.0.0/0", "203.0.113.0/24", "203.0.113.7/32"] {
            for hops in [&[][..], &four[..1], &four, &six[..1], &six, &mixed] {
                forms += both_modes(&route(prefix, hops), LEARNED_METRIC);
            }
        }
        for (prefix, metric) in [
            ("::/0", LEARNED_METRIC),
            ("2001:db8:f::/48", LEARNED_METRIC),
            ("2001:db8:f::7/128", LEARNED_HOST6_METRIC),
        ] {
            for hops in [&[][..], &six[..1], &six] {
                forms += both_modes(&route(prefix, hops), metric);
            }
        }
        assert_eq!(forms, 2 * (3 * 6 + 3 * 3));
    }

    fn both_modes(route: &LearnedRoute, metric: u32) -> usize {
        let modes = [
            (Mode::Create, NLM_F_CREATE | NLM_F_EXCL),
            (Mode::Ensure, NLM_F_CREATE | NLM_F_REPLACE),
        ];
        for (mode, own) in modes {
            let own = if route.next_hops.is_empty() { 0 } else { own };
            let expected = theirs(route, metric, mode, NLM_F_REQUEST | NLM_F_ACK | own);
            // Behind another, as in a batch.
            let mut bytes = vec![0xaa; 12];
            write(&mut bytes, route, mode, NLM_F_ACK, 77);
            assert_eq!(&bytes[12..], expected, "{mode:?} {route:?}");
            assert_eq!(bytes.len() % 4, 0);
            let read = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes[12..]).unwrap();
            assert!(matches!(read.payload, NetlinkPayload::InnerMessage(_)));
        }
        modes.len()
    }

    /// The layout itself, and not only that two agree.
    #[test]
    #[cfg(target_endian = "little")]
    fn a_route_over_one_next_hop_byte_by_byte() {
        let mut bytes = Vec::new();
        write(&mut bytes, &route("203.0.113.0/24", &[("10.9.0.1", 7)]), Mode::Create, 0, 1);
        let expected = [
            &[60, 0, 0, 0, 24, 0, 0x01, 0x06, 1, 0, 0, 0, 0, 0, 0, 0][..],
            &[2, 24, 0, 0, 254, 241, 0, 1, 4, 0, 0, 0],
            &[8, 0, 1, 0, 203, 0, 113, 0],
            &[8, 0, 6, 0, 32, 0, 0, 0],
            &[8, 0, 5, 0, 10, 9, 0, 1],
            &[8, 0, 4, 0, 7, 0, 0, 0],
        ];
        assert_eq!(bytes, expected.concat());
    }
}
