//! As much of a message as the monitor and an attach need, without reading the
//! rest, and what the monitor remembers of links: pure.
//!
//! Decides nothing. A pod makes some thirty events and a routing daemon
//! thousands, and of most a few bytes at fixed places are enough.

use crate::names;
use crate::reply::{u16_at, u32_at};
use crate::request::PROTOCOL;
use crate::view::LinkView;

const IFINFOMSG: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_GROUP: u16 = 27;
const IFLA_INFO_KIND: u16 = 1;
const AF_INET: u16 = 2;
const IFLA_INET_CONF: u16 = 1;
/// Of the list of IPv4's settings, where the two stand that matter here.
const FORWARDING: usize = 0;
const PROXY_ARP: usize = 2 * 4;
const IF_OPER_UNKNOWN: u8 = 0;
const IF_OPER_UP: u8 = 6;
/// What says of an attribute that others are inside, and in which order its bytes are.
const NLA_TYPE_MASK: u16 = 0x3fff;
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 1 << 3;
const IFF_RUNNING: u32 = 1 << 6;
const IFF_LOWER_UP: u32 = 1 << 16;
const USABLE: u32 = IFF_UP | IFF_RUNNING | IFF_LOWER_UP;

const IFA_F_DADFAILED: u8 = 0x08;
const IFA_F_TENTATIVE: u8 = 0x40;

const RT_TABLE_MAIN: u8 = 254;
const RTM_F_CLONED: u32 = 0x200;

/// A link that a lookup found, as [`LinkView`] reads it from a whole message. (Reading all of its
/// attributes takes 15 us, because each is put into words in case that it cannot be read; an attach
/// looks at five links.)
pub(crate) fn link(payload: &[u8]) -> Option<LinkView> {
    let (header, rest) = payload.split_at_checked(IFINFOMSG)?;
    let flags = u32_at(header, 8)?;
    let mut view = LinkView {
        index: u32_at(header, 4)?,
        up: flags & IFF_UP != 0,
        usable: flags & USABLE == USABLE,
        loopback: flags & IFF_LOOPBACK != 0,
        ..LinkView::default()
    };
    for (kind, value) in attributes(rest) {
        let number = || u32_at(value, 0).unwrap_or_default();
        match kind {
            IFLA_ADDRESS => view.mac = value.try_into().unwrap_or_default(),
            IFLA_IFNAME => view.name = text(value)?.to_owned(),
            IFLA_MTU => view.mtu = number(),
            IFLA_LINK => view.peer = Some(number()),
            IFLA_MASTER => view.enslaved = number() != 0,
            IFLA_OPERSTATE => {
                view.operational = matches!(value.first(), Some(&(IF_OPER_UNKNOWN | IF_OPER_UP)));
            }
            IFLA_LINKINFO => {
                let kind = inside(value, IFLA_INFO_KIND);
                view.veth = kind.and_then(text) == Some("veth");
            }
            IFLA_AF_SPEC => {
                let settings = inside(value, AF_INET).and_then(|spec| inside(spec, IFLA_INET_CONF));
                let is_set =
                    |at| settings.and_then(|all| u32_at(all, at)).is_some_and(|set| set != 0);
                (view.forwards_ipv4, view.proxy_arp) = (is_set(FORWARDING), is_set(PROXY_ARP));
            }
            IFLA_GROUP => view.group = number(),
            _ => {}
        }
    }
    Some(view.with_peer())
}

/// Attributes one after the other, until one is not whole.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let (kind, value) = (u16_at(bytes, 2)? & NLA_TYPE_MASK, bytes.get(4..length)?);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn inside(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().map(|text| text.trim_end_matches('\0'))
}

/// A link's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkGlance<'a> {
    /// The family that speaks; only with 0 it is the link itself.
    pub(crate) family: u8,
    pub(crate) index: u32,
    pub(crate) up: bool,
    /// As in [`crate::view::LinkView`].
    pub(crate) usable: bool,
    pub(crate) name: &'a str,
    pub(crate) mtu: u32,
}

impl<'a> LinkGlance<'a> {
    /// `None` also for those that are not about the link as a whole.
    pub(crate) fn of(payload: &'a [u8]) -> Option<Self> {
        let (header, mut rest) = payload.split_at_checked(IFINFOMSG)?;
        let (index, flags) = (u32_at(header, 4)?, u32_at(header, 8)?);
        let (mut name, mut mtu) = (None, None);
        // Walked by hand: the iterator of netlink-packet-core lends for its own life only.
        while name.is_none() || mtu.is_none() {
            let length = usize::from(u16_at(rest, 0)?);
            match u16_at(rest, 2)? {
                IFLA_IFNAME => name = std::str::from_utf8(rest.get(4..length)?).ok(),
                IFLA_MTU => mtu = u32_at(rest, 4),
                _ => {}
            }
            rest = rest.get(length.max(4).next_multiple_of(4)..)?;
        }
        Some(Self {
            family: *header.first()?,
            index,
            up: flags & IFF_UP != 0,
            usable: flags & USABLE == USABLE,
            name: name?.trim_end_matches('\0'),
            mtu: mtu?,
        })
    }
}

/// What the watch remembers of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) name: String,
    pub(crate) up: bool,
    usable: bool,
    mtu: u32,
}

impl LinkState {
    pub(crate) fn is_pods(&self) -> bool {
        names::is_host_ifname(&self.name)
    }
}

impl From<LinkView> for LinkState {
    fn from(view: LinkView) -> Self {
        Self { name: view.name, up: view.up, usable: view.usable, mtu: view.mtu }
    }
}

impl From<LinkGlance<'_>> for LinkState {
    fn from(glance: LinkGlance<'_>) -> Self {
        let LinkGlance { up, usable, name, mtu, .. } = glance;
        Self { name: name.to_owned(), up, usable, mtu }
    }
}

/// An address's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressGlance {
    pub(crate) index: u32,
    /// As in [`crate::view::AddressView`].
    pub(crate) tentative: bool,
}

impl AddressGlance {
    pub(crate) fn of(payload: &[u8]) -> Option<Self> {
        let flags = *payload.get(2)?;
        let tentative = flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED) != 0;
        Some(Self { index: u32_at(payload, 4)?, tentative })
    }
}

/// A route's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteGlance {
    /// Whether it carries flock's protocol number.
    pub(crate) ours: bool,
    /// Whether it is in the main table, and more than a memory of the path.
    pub(crate) in_main_table: bool,
}

impl RouteGlance {
    pub(crate) fn of(payload: &[u8]) -> Option<Self> {
        let (table, protocol, flags) = (*payload.get(4)?, *payload.get(5)?, u32_at(payload, 8)?);
        let in_main_table = table == RT_TABLE_MAIN && flags & RTM_F_CLONED == 0;
        Some(Self { ours: protocol == PROTOCOL, in_main_table })
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{Emitable, ParseableParametrized};
    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::link::{
        AfSpecInet, AfSpecUnspec, InetDevConf, InfoKind, LinkAttribute, LinkFlags, LinkInfo,
        LinkMessage, State,
    };

    use super::*;

    fn bytes(message: &LinkMessage) -> Vec<u8> {
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    #[test]
    fn a_link_at_a_glance_is_what_the_whole_message_says() {
        let mut message = LinkMessage::default();
        message.header.index = 7;
        message.header.flags = LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running;
        let mut settings = InetDevConf::default();
        settings.forwarding = 1;
        settings.proxy_arp = 1;
        let all = [
            LinkAttribute::IfName("flock12".to_owned()),
            LinkAttribute::Mtu(1450),
            LinkAttribute::Address(vec![2, 1, 2, 3, 4, 5]),
            LinkAttribute::OperState(State::Up),
            LinkAttribute::Link(9),
            LinkAttribute::Controller(3),
            LinkAttribute::Group(0x0dea_d000),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth)]),
            LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet(vec![AfSpecInet::DevConf(
                settings,
            )])]),
        ];
        // Each alone, so that no one hides behind another; then all of them.
        let mut cases: Vec<Vec<LinkAttribute>> = all.iter().map(|one| vec![one.clone()]).collect();
        cases.push(vec![
            LinkAttribute::OperState(State::Down),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
        ]);
        cases.push(all.to_vec());
        for attributes in cases {
            message.attributes = attributes;
            let bytes = bytes(&message);
            let whole = RouteNetlinkMessage::parse_with_param(&bytes, 16).unwrap();
            assert_eq!(link(&bytes), LinkView::of(&whole), "{:?}", message.attributes);
        }
        let bytes = bytes(&message);
        for length in 0..bytes.len() {
            // Whatever is cut off: no panic, and nothing that is not a link.
            assert_eq!(link(&bytes[..length]).is_none(), length < IFINFOMSG, "{length}");
        }
    }
}
