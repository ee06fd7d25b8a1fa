//! What the kernel said, in the few words that flock needs.
//!
//! Decides which attributes matter; what they should be is for others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{
    AfSpecInet, AfSpecUnspec, InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHop,
    RouteNextHopFlags, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

/// A link as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkView {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) up: bool,
    /// The kernel has seen the carrier and sends (RFC 2863's "up").
    pub(crate) operational: bool,
    /// Up, with a carrier, and operational: packets can leave by it.
    pub(crate) usable: bool,
    pub(crate) loopback: bool,
    pub(crate) mtu: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) peer: Option<u32>,
    pub(crate) group: u32,
    pub(crate) veth: bool,
    /// Part of a bridge, bond or the like.
    pub(crate) enslaved: bool,
    pub(crate) proxy_arp: bool,
    pub(crate) forwards_ipv4: bool,
}

impl LinkView {
    pub(crate) fn read(message: &LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut view = Self {
            index: message.header.index,
            up: flags.contains(LinkFlags::Up),
            usable: flags.contains(LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running),
            loopback: flags.contains(LinkFlags::Loopback),
            ..Self::default()
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => view.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => view.mtu = *mtu,
                LinkAttribute::Address(mac) => {
                    view.mac = mac.as_slice().try_into().unwrap_or_default();
                }
                LinkAttribute::OperState(state) => {
                    view.operational = matches!(state, State::Up | State::Unknown);
                }
                LinkAttribute::Link(peer) => view.peer = Some(*peer),
                LinkAttribute::Controller(index) => view.enslaved = *index != 0,
                LinkAttribute::Group(group) => view.group = *group,
                LinkAttribute::LinkInfo(info) => {
                    view.veth |= info.contains(&LinkInfo::Kind(InfoKind::Veth));
                }
                LinkAttribute::AfSpecUnspec(families) => view.read_families(families),
                _ => {}
            }
        }
        view.with_peer()
    }

    /// A veth whose far end has the same index as it has: older kernels do not say that one.
    pub(crate) fn with_peer(mut self) -> Self {
        if self.veth {
            self.peer = self.peer.or(Some(self.index));
        }
        self
    }

    fn read_families(&mut self, families: &[AfSpecUnspec]) {
        for family in families {
            let AfSpecUnspec::Inet(settings) = family else { continue };
            for setting in settings {
                if let AfSpecInet::DevConf(conf) = setting {
                    self.proxy_arp = conf.proxy_arp != 0;
                    self.forwards_ipv4 = conf.forwarding != 0;
                }
            }
        }
    }

    pub(crate) fn of(message: &RouteNetlinkMessage) -> Option<Self> {
        match message {
            RouteNetlinkMessage::NewLink(link) => Some(Self::read(link)),
            _ => None,
        }
    }
}

/// An address on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressView {
    pub(crate) index: u32,
    pub(crate) address: IpNet,
    /// The other end's, where the link has just two.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) tentative: bool,
    /// Given by hand, and not by a router or a lease for a while.
    pub(crate) permanent: bool,
}

impl AddressView {
    pub(crate) fn read(message: &AddressMessage) -> Option<Self> {
        let mut local = None;
        let mut other = None;
        let mut flags = AddressFlags::empty();
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(address) => local = Some(*address),
                AddressAttribute::Address(address) => other = Some(*address),
                AddressAttribute::Flags(found) => flags = *found,
                _ => {}
            }
        }
        Some(Self {
            index: message.header.index,
            address: IpNet::new(local.or(other)?, message.header.prefix_len).ok()?,
            peer: other.filter(|other| local.is_some_and(|local| local != *other)),
            tentative: flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed),
            permanent: flags.contains(AddressFlags::Permanent),
        })
    }

    pub(crate) fn of(message: &RouteNetlinkMessage) -> Option<Self> {
        match message {
            RouteNetlinkMessage::NewAddress(address) => Self::read(address),
            _ => None,
        }
    }
}

/// One way out of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HopView {
    pub(crate) via: Option<IpAddr>,
    pub(crate) index: u32,
    /// Its link is up and has a carrier, as far as the kernel noticed.
    pub(crate) alive: bool,
}

impl HopView {
    fn read(hop: &RouteNextHop) -> Self {
        Self {
            via: hop.attributes.iter().find_map(gateway),
            index: hop.interface_index,
            alive: !hop.flags.intersects(RouteNextHopFlags::Dead | RouteNextHopFlags::Linkdown),
        }
    }
}

/// A route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteView {
    pub(crate) destination: IpNet,
    pub(crate) table: u32,
    pub(crate) protocol: u8,
    pub(crate) kind: RouteType,
    pub(crate) metric: u32,
    /// For some packets only: those of a TOS, or from a prefix.
    pub(crate) selective: bool,
    pub(crate) hops: Vec<HopView>,
}

impl RouteView {
    pub(crate) fn read(message: &RouteMessage) -> Option<Self> {
        let mut destination = unspecified(message.header.address_family)?;
        let mut table = u32::from(message.header.table);
        let (mut via, mut index, mut metric) = (None, None, 0);
        let mut hops = Vec::new();
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Destination(address) => destination = ip(address)?,
                RouteAttribute::Table(id) => table = *id,
                RouteAttribute::Gateway(_) | RouteAttribute::Via(_) => via = gateway(attribute),
                RouteAttribute::Oif(oif) => index = Some(*oif),
                RouteAttribute::Priority(value) => metric = *value,
                RouteAttribute::MultiPath(all) => hops.extend(all.iter().map(HopView::read)),
                _ => {}
            }
        }
        let alive = !message.header.flags.intersects(RouteFlags::Dead | RouteFlags::Linkdown);
        hops.extend(index.map(|index| HopView { via, index, alive }));
        Some(Self {
            destination: IpNet::new(destination, message.header.destination_prefix_length).ok()?,
            table,
            protocol: message.header.protocol.into(),
            kind: message.header.kind,
            metric,
            selective: message.header.tos != 0 || message.header.source_prefix_length != 0,
            hops,
        })
    }

    pub(crate) fn of(message: &RouteNetlinkMessage) -> Option<Self> {
        match message {
            RouteNetlinkMessage::NewRoute(route) => Self::read(route),
            _ => None,
        }
    }

    pub(crate) fn in_main_table(&self) -> bool {
        self.table == u32::from(RouteHeader::RT_TABLE_MAIN)
    }

    pub(crate) fn leaves_by(&self, index: u32) -> bool {
        self.hops.iter().any(|hop| hop.index == index)
    }
}

/// The next router; for IPv4 it may be an IPv6 one (RFC 8950), in another attribute.
fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        RouteAttribute::Via(RouteVia::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

fn unspecified(family: AddressFamily) -> Option<IpAddr> {
    match family {
        AddressFamily::Inet => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        AddressFamily::Inet6 => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        _ => None,
    }
}
