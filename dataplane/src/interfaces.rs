//! The node's own networks: interfaces, addresses, and ways through them.
//!
//! Decides what of the kernel's knowledge the agent needs to place a next hop:
//! everything but pods' links. What to do with it is the agent's.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::route::RouteType;

use crate::error::Error;
use crate::glance::LinkGlance;
use crate::learned::{beneath, is_learned};
use crate::names;
use crate::observe::{addresses, entry};
use crate::request;
use crate::view::{AddressView, LinkView, RouteView};
use crate::worker::Worker;

/// An interface of the node's that is not a pod's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its MTU.
    pub mtu: u32,
    /// Whether packets can leave by it: it is up and has a carrier.
    pub usable: bool,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// Its addresses, link-local ones too; none that IPv6 still probes for a
    /// duplicate or has found one of.
    pub addresses: Vec<InterfaceAddress>,
}

/// An address on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceAddress {
    /// The address with its network's length; alone where there is a peer.
    pub address: IpNet,
    /// The other end of a link of two, with the length that it was given.
    pub peer: Option<IpNet>,
    /// Given for good, and not by a router or a lease for a while.
    pub permanent: bool,
}

impl InterfaceAddress {
    /// The network that is connected through it.
    pub fn network(&self) -> IpNet {
        self.peer.unwrap_or(self.address).trunc()
    }
}

impl From<&AddressView> for InterfaceAddress {
    fn from(view: &AddressView) -> Self {
        let own = view.address.addr();
        let peer = view.peer.and_then(|peer| IpNet::new(peer, view.address.prefix_len()).ok());
        let address = if peer.is_some() { IpNet::from(own) } else { view.address };
        Self { address, peer, permanent: view.permanent }
    }
}

/// How the node reaches an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// The next router, or `None` where the address itself is on the link.
    pub via: Option<IpAddr>,
    /// The index of the interface.
    pub dev: u32,
}

pub(crate) fn interfaces(worker: &mut Worker) -> Result<Vec<Interface>, Error> {
    let host = worker.host()?;
    let own = |payload: &[u8]| {
        LinkGlance::of(payload).is_none_or(|link| !names::is_host_ifname(link.name))
    };
    let messages = host.dump_where("list interfaces", &request::all_links(), own)?;
    let mut found: HashMap<u32, Vec<InterfaceAddress>> = HashMap::new();
    for view in addresses(host, 0)?.iter().filter(|view| !view.tentative) {
        found.entry(view.index).or_default().push(view.into());
    }
    let views = messages.iter().filter_map(LinkView::of);
    let own = views.filter(|view| !names::is_host_ifname(&view.name));
    Ok(own.map(|view| interface(view, &mut found)).collect())
}

fn interface(view: LinkView, found: &mut HashMap<u32, Vec<InterfaceAddress>>) -> Interface {
    Interface {
        addresses: found.remove(&view.index).unwrap_or_default(),
        name: view.name,
        index: view.index,
        mtu: view.mtu,
        usable: view.usable,
        loopback: view.loopback,
    }
}

/// The way that the kernel would take if nothing had been learned: a next hop
/// is never resolved through what came with it. The table is read only where
/// a learned route decides.
pub(crate) fn way_to(worker: &mut Worker, address: IpAddr) -> Result<Option<Way>, Error> {
    if matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()) {
        // On every link, and so on none in particular.
        return Ok(None);
    }
    let host = worker.host()?;
    let decided = match entry(host, address)? {
        Some(route) if is_learned(&route) => beneath(host, address)?,
        other => other,
    };
    Ok(decided.as_ref().and_then(way))
}

/// None through a route that answers "unreachable", nor to the node itself.
fn way(route: &RouteView) -> Option<Way> {
    let hop = route.hops.iter().find(|hop| hop.alive && route.kind == RouteType::Unicast)?;
    Some(Way { via: hop.via, dev: hop.index })
}
