//! The words for the kernel: each function is one rtnetlink message. (A learned
//! route's, of which there are many, is `learned/message.rs`.)
//!
//! Decides encodings and flags only, so that what the plan means is found in
//! one place as bytes. Which messages are sent, and in which order, is the
//! plan's and the other callers'.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{
    DefaultNla, NLA_F_NESTED, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    AfSpecInet, AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth,
    LinkAttribute, LinkExtentMask, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHop, RouteNextHopFlags,
    RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{LinkMessageBuilder, LinkUnspec, LinkVeth};

use crate::channel::Request;
use crate::plan::{GATEWAY6, PodLink};

/// The protocol number on every route of flock's (`ip route show proto 241`).
/// Free in linux/rtnetlink.h and in iproute2's rt_protos.
pub const PROTOCOL: u8 = 241;

/// Links that wait for deletion carry this group, which nobody gives to an
/// interface by hand (`ip link show group 233492480`; more than 31 bits and
/// `ip` would not take it).
pub const DOOMED_GROUP: u32 = 0x0dea_d000;

/// The metric of an IPv6 route that was given none (IP6_RT_PRIO_USER); in IPv4
/// such a route has none, and none is the best.
pub(crate) const IPV6_METRIC: u32 = 1024;

/// Creating refuses what exists; ensuring makes it so whatever is there;
/// beside leaves what is there and comes after it (IPv4 routes only: in IPv6
/// the two would be one multipath route).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Create,
    Ensure,
    Beside,
}

impl Mode {
    pub(crate) fn flags(self) -> u16 {
        match self {
            Self::Create => NLM_F_CREATE | NLM_F_EXCL,
            Self::Ensure => NLM_F_CREATE | NLM_F_REPLACE,
            Self::Beside => NLM_F_CREATE | NLM_F_APPEND,
        }
    }
}

/// The table that the kernel fills by itself, from addresses.
const RT_TABLE_LOCAL: u8 = 255;

const IFLA_INET_CONF: u16 = 1;
const IPV4_DEVCONF_FORWARDING: u16 = 1;
const IPV4_DEVCONF_PROXY_ARP: u16 = 3;

pub(crate) fn family_of(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn link(index: u32, attributes: Vec<LinkAttribute>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes = attributes;
    message
}

/// One queue each way, which is what a veth uses that nobody tunes. Not told, the kernel makes one
/// for each of the node's processors, with a directory in sysfs, and takes all but the first back.
const ONE_QUEUE: [LinkAttribute; 2] =
    [LinkAttribute::NumTxQueues(1), LinkAttribute::NumRxQueues(1)];

/// A veth pair whose far end is born in the pod's namespace.
/// Both ends have that index, where one is given.
pub(crate) fn create_veth(wanted: &PodLink, index: Option<u32>) -> Request {
    let mut peer = LinkUnspec::new_with_name(&wanted.ifname)
        .mtu(wanted.mtu)
        .setns_by_fd(wanted.netns.raw_fd());
    for attribute in ONE_QUEUE {
        peer = peer.append_extra_attribute(attribute);
    }
    if let Some(mac) = wanted.pod_mac {
        peer = peer.address(mac.to_vec());
    }
    let mut host = LinkMessageBuilder::<LinkVeth>::new_with_info_kind(InfoKind::Veth)
        .name(&wanted.host_ifname)
        .mtu(wanted.mtu);
    for attribute in ONE_QUEUE {
        host = host.append_extra_attribute(attribute);
    }
    if let Some(mac) = wanted.host_mac {
        host = host.address(mac.to_vec());
    }
    let mut peer = peer.build();
    peer.header.index = index.unwrap_or_default();
    let mut message = host.set_info_data(InfoData::Veth(InfoVeth::Peer(peer))).build();
    message.header.index = index.unwrap_or_default();
    Request::new(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
}

fn without_statistics() -> LinkAttribute {
    LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])
}

pub(crate) fn link_by_name(name: &str) -> Request {
    let message = link(0, vec![LinkAttribute::IfName(name.to_owned()), without_statistics()]);
    Request::new(RouteNetlinkMessage::GetLink(message), 0)
}

pub(crate) fn link_by_index(index: u32) -> Request {
    Request::new(RouteNetlinkMessage::GetLink(link(index, vec![without_statistics()])), 0)
}

pub(crate) fn all_links() -> Request {
    Request::new(RouteNetlinkMessage::GetLink(link(0, vec![without_statistics()])), 0)
}

/// No automatic link-local address. A message of its own, before the link
/// goes up: in one SETLINK the kernel applies the flags first.
pub(crate) fn no_automatic_address(index: u32) -> Request {
    let spec = AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)]);
    set_link(link(index, vec![LinkAttribute::AfSpecUnspec(vec![spec])]))
}

/// Forwarding and proxy ARP for IPv4, as the sysctls of the interface would
/// set them, but by number, without a file to open.
pub(crate) fn forward_ipv4(index: u32) -> Request {
    let mut settings = Vec::with_capacity(16);
    for setting in [IPV4_DEVCONF_FORWARDING, IPV4_DEVCONF_PROXY_ARP] {
        settings.extend(8u16.to_ne_bytes());
        settings.extend(setting.to_ne_bytes());
        settings.extend(1u32.to_ne_bytes());
    }
    let settings = AfSpecInet::Other(DefaultNla::new(IFLA_INET_CONF | NLA_F_NESTED, settings));
    set_link(link(
        index,
        vec![LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet(vec![settings])])],
    ))
}

fn set_link(message: LinkMessage) -> Request {
    Request::new(RouteNetlinkMessage::SetLink(message), 0)
}

pub(crate) fn set_up(index: u32, up: bool) -> Request {
    let link = LinkUnspec::new_with_index(index);
    set_link(if up { link.up() } else { link.down() }.build())
}

pub(crate) fn set_mtu(index: u32, mtu: u32) -> Request {
    set_link(LinkUnspec::new_with_index(index).mtu(mtu).build())
}

pub(crate) fn set_group(index: u32, group: u32) -> Request {
    set_link(LinkUnspec::new_with_index(index).link_group(group).build())
}

pub(crate) fn set_group_named(name: &str, group: u32) -> Request {
    set_link(LinkUnspec::new_with_name(name).link_group(group).build())
}

pub(crate) fn delete_link(index: u32) -> Request {
    Request::new(RouteNetlinkMessage::DelLink(link(index, vec![])), 0)
}

pub(crate) fn delete_link_named(name: &str) -> Request {
    let message = link(0, vec![LinkAttribute::IfName(name.to_owned())]);
    Request::new(RouteNetlinkMessage::DelLink(message), 0)
}

pub(crate) fn delete_group(group: u32) -> Request {
    let message = link(0, vec![LinkAttribute::Group(group)]);
    Request::new(RouteNetlinkMessage::DelLink(message), 0)
}

fn address_message(index: u32, address: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family_of(address.addr());
    message.header.prefix_len = address.prefix_len();
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(address.addr())];
    if address.addr().is_ipv4() {
        message.attributes.push(AddressAttribute::Address(address.addr()));
    }
    message
}

/// An address that is valid at once: nobody else can be on this link, so
/// there is no duplicate to wait two seconds for.
pub(crate) fn add_address(index: u32, address: IpNet, mode: Mode) -> Request {
    let mut message = address_message(index, address);
    let narrow = match address.addr() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let mut flags = AddressFlags::Nodad;
    if narrow {
        message.header.scope = AddressScope::Link;
        // The gateway's subnet is the same on every link: a thousand routes to one prefix are one
        // list that the kernel walks for each pod, and nobody needs them, because the other end
        // has no address in it.
        flags |= AddressFlags::Noprefixroute;
    }
    message.attributes.push(AddressAttribute::Flags(flags));
    Request::new(RouteNetlinkMessage::NewAddress(message), mode.flags())
}

pub(crate) fn remove_address(index: u32, address: IpNet) -> Request {
    Request::new(RouteNetlinkMessage::DelAddress(address_message(index, address)), 0)
}

pub(crate) fn addresses_of(family: AddressFamily, index: u32) -> Request {
    let mut message = AddressMessage::default();
    message.header.family = family;
    message.header.index = index;
    Request::new(RouteNetlinkMessage::GetAddress(message), 0)
}

/// A neighbour that is known for good.
pub(crate) fn set_neighbour(index: u32, address: Ipv6Addr, mac: [u8; 6]) -> Request {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
    Request::new(RouteNetlinkMessage::NewNeighbour(message), Mode::Ensure.flags())
}

/// All IPv6 neighbours.
pub(crate) fn neighbours() -> Request {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet6;
    Request::new(RouteNetlinkMessage::GetNeighbour(message), 0)
}

fn route_message(destination: IpNet) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family_of(destination.addr());
    message.header.destination_prefix_length = destination.prefix_len();
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::from(PROTOCOL);
    message.header.kind = RouteType::Unicast;
    if destination.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(destination.addr().into()));
    }
    message
}

/// A route out of one link: on-link, or via a gateway on it.
pub(crate) fn add_route(
    index: u32,
    destination: IpNet,
    via: Option<IpAddr>,
    mode: Mode,
) -> Request {
    let mut message = route_message(destination);
    match via {
        Some(gateway) => message.attributes.push(RouteAttribute::Gateway(gateway.into())),
        None => message.header.scope = RouteScope::Link,
    }
    message.attributes.push(RouteAttribute::Oif(index));
    Request::new(RouteNetlinkMessage::NewRoute(message), mode.flags())
}

/// Removes the kernel's route for the gateway's subnet-router anycast address on one link.
pub(crate) fn remove_gateway_anycast(index: u32) -> Request {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet6;
    message.header.destination_prefix_length = 128;
    message.header.table = RT_TABLE_LOCAL;
    message.header.kind = RouteType::Anycast;
    message.header.scope = RouteScope::NoWhere;
    let [subnet @ .., _, _, _, _] = GATEWAY6.segments();
    let [a, b, c, d] = subnet;
    let address = Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0);
    message.attributes =
        vec![RouteAttribute::Destination(address.into()), RouteAttribute::Oif(index)];
    Request::new(RouteNetlinkMessage::DelRoute(message), 0)
}

/// Removes a route of ours out of one link; never anybody else's.
pub(crate) fn remove_link_route(index: u32, destination: IpNet) -> Request {
    let mut message = route_message(destination);
    message.header.scope = RouteScope::NoWhere;
    message.attributes.push(RouteAttribute::Oif(index));
    Request::new(RouteNetlinkMessage::DelRoute(message), 0)
}

/// One route over all next hops. Multipath also for a single one: where it
/// replaces one, IPv6 then replaces all siblings and not the first. The metric
/// is the kernel's own: none in IPv4, [`IPV6_METRIC`] in IPv6.
pub(crate) fn set_multipath(destination: IpNet, hops: &[(IpAddr, u32)], mode: Mode) -> Request {
    let mut message = route_message(destination);
    let hops = hops.iter().map(|(via, index)| {
        let mut hop = RouteNextHop::default();
        hop.interface_index = *index;
        // The gateway may be in no subnet of the link's: a pod's own address never is, and who
        // asks for it says where it is.
        hop.flags = RouteNextHopFlags::Onlink;
        hop.attributes = vec![gateway(destination, *via)];
        hop
    });
    message.attributes.push(RouteAttribute::MultiPath(hops.collect()));
    Request::new(RouteNetlinkMessage::NewRoute(message), mode.flags())
}

/// The next router, in the words for its family and the route's.
fn gateway(destination: IpNet, via: IpAddr) -> RouteAttribute {
    if destination.addr().is_ipv4() == via.is_ipv4() {
        RouteAttribute::Gateway(via.into())
    } else {
        RouteAttribute::Via(via.into())
    }
}

/// A prefix that answers "unreachable", behind anything of the same length.
pub(crate) fn set_unreachable(destination: IpNet, metric: u32) -> Request {
    let mut message = route_message(destination);
    message.header.kind = RouteType::Unreachable;
    message.attributes.push(RouteAttribute::Priority(metric));
    Request::new(RouteNetlinkMessage::NewRoute(message), Mode::Ensure.flags())
}

/// Removes a route of ours by destination, kind and metric.
pub(crate) fn remove_route(destination: IpNet, kind: RouteType, metric: u32) -> Request {
    let mut message = route_message(destination);
    message.header.kind = kind;
    message.header.scope = RouteScope::NoWhere;
    message.attributes.push(RouteAttribute::Priority(metric));
    Request::new(RouteNetlinkMessage::DelRoute(message), 0)
}

/// Removes a route of ours whose first next hop is this one. In IPv4 that is
/// the whole route, whatever the number of its next hops.
pub(crate) fn remove_route_through(destination: IpNet, via: IpAddr, index: u32) -> Request {
    let mut message = route_message(destination);
    message.header.scope = RouteScope::NoWhere;
    message.attributes.extend([gateway(destination, via), RouteAttribute::Oif(index)]);
    Request::new(RouteNetlinkMessage::DelRoute(message), 0)
}

/// All routes of a family's main table; of one protocol, where given.
pub(crate) fn routes(family: AddressFamily, protocol: Option<u8>) -> Request {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::from(protocol.unwrap_or(0));
    Request::new(RouteNetlinkMessage::GetRoute(message), 0)
}

/// How the kernel would route to an address; with `entry`, the table entry
/// that decides it and not the resolved path.
pub(crate) fn lookup(address: IpAddr, entry: bool) -> Request {
    let mut message = RouteMessage::default();
    message.header.address_family = family_of(address);
    message.header.destination_prefix_length = IpNet::from(address).prefix_len();
    if entry {
        message.header.flags = RouteFlags::FibMatch;
    }
    message.attributes = vec![RouteAttribute::Destination(address.into())];
    Request::new(RouteNetlinkMessage::GetRoute(message), 0)
}
