//! As much of an event as the monitor needs, without reading the rest, and
//! what it remembers of links: pure.
//!
//! Decides nothing. A pod makes some thirty events and a routing daemon
//! thousands, and of most a few bytes at fixed places are enough.

use crate::names;
use crate::reply::{u16_at, u32_at};
use crate::request::PROTOCOL;
use crate::view::LinkView;

const IFINFOMSG: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_GROUP: u16 = 27;
const IFF_UP: u32 = 1;
const IFF_RUNNING: u32 = 1 << 6;
const IFF_LOWER_UP: u32 = 1 << 16;
const USABLE: u32 = IFF_UP | IFF_RUNNING | IFF_LOWER_UP;

const IFA_F_DADFAILED: u8 = 0x08;
const IFA_F_TENTATIVE: u8 = 0x40;

const RT_TABLE_MAIN: u8 = 254;
const RTM_F_CLONED: u32 = 0x200;

/// The index and the group of a link that a lookup found. (Reading all of its attributes takes 15 us,
/// on the way of every anycast route.)
pub(crate) fn index_and_group(payload: &[u8]) -> Option<(u32, u32)> {
    let (header, mut rest) = payload.split_at_checked(IFINFOMSG)?;
    let index = u32_at(header, 4)?;
    while let Some(length) = u16_at(rest, 0).map(usize::from) {
        if u16_at(rest, 2)? == IFLA_GROUP {
            return Some((index, u32_at(rest, 4)?));
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
    Some((index, 0))
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
    use super::*;

    #[test]
    fn an_index_and_a_group_are_found_among_other_attributes() {
        let mut payload = vec![0; IFINFOMSG];
        payload[4..8].copy_from_slice(&77_u32.to_ne_bytes());
        assert_eq!(index_and_group(&payload), Some((77, 0)), "it says none");
        let mut attribute = |kind: u16, value: &[u8]| {
            payload.extend(u16::try_from(4 + value.len()).unwrap().to_ne_bytes());
            payload.extend(kind.to_ne_bytes());
            payload.extend(value);
            payload.resize(payload.len().next_multiple_of(4), 0);
        };
        attribute(IFLA_IFNAME, b"flock1\0");
        attribute(IFLA_GROUP, &5_u32.to_ne_bytes());
        attribute(IFLA_MTU, &1500_u32.to_ne_bytes());
        assert_eq!(index_and_group(&payload), Some((77, 5)));
        for length in [0, 3, IFINFOMSG - 1, IFINFOMSG + 6, IFINFOMSG + 14] {
            assert_eq!(index_and_group(&payload[..length]), None, "{length}");
        }
    }
}
