//! Routes of the node that are not one pod's own: anycast and summaries.
//!
//! Decides how each kind looks in the kernel, and how it is told from others.
//! How they come to be there is `laying`'s, which should be there the agent's.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteMetric, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::apply::first_link;
use crate::channel::{Channel, Request, decode};
use crate::error::Error;
use crate::learned::is_learned;
use crate::names;
use crate::observe::{FAMILIES, all_routes, find_link, find_link_at, no_way, shown};
use crate::request::{self, PROTOCOL};
use crate::view::{LinkView, RouteView};
use crate::worker::Worker;

/// The metric of a summary's route: any route of the same length is better.
pub(crate) const SUMMARY_METRIC: u32 = 1_000_000;

/// One pod behind an anycast address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// The pod's own address of that family.
    pub via: IpAddr,
    /// The pod's host interface.
    pub dev: String,
}

/// A route of the node's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeRoute {
    /// A summary: packets for no pod end here with "unreachable" (both
    /// families), so that the sender learns it and the ToR gets none back.
    Blackhole {
        /// The prefix.
        prefix: IpNet,
    },
    /// An anycast address over the pods that serve it, sorted.
    Anycast {
        /// The address.
        address: IpAddr,
        /// One is a plain route, several are multipath, none removes it. Shared: a pod
        /// may be behind many addresses, each by the same way.
        next_hops: Vec<Arc<NextHop>>,
    },
}

/// What names a route of the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteKey {
    /// A summary's.
    Blackhole(IpNet),
    /// An anycast address's.
    Anycast(IpAddr),
}

impl NodeRoute {
    /// What names it.
    pub fn key(&self) -> RouteKey {
        match self {
            Self::Blackhole { prefix } => RouteKey::Blackhole(prefix.trunc()),
            Self::Anycast { address, .. } => RouteKey::Anycast(*address),
        }
    }
}

/// A route into a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRoute {
    /// Where to.
    pub destination: IpNet,
    /// The host interface that it leaves by.
    pub ifname: String,
    /// Whether it carries flock's protocol number.
    pub ours: bool,
}

/// The interface by which the node reaches something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its MTU.
    pub mtu: u32,
}

/// The way to an address, and how much passes on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The interface.
    pub uplink: Uplink,
    /// Set on the route, or learned from routers on the way (RFC 1191, RFC
    /// 8201); `None`: as much as the interface takes.
    pub mtu: Option<u32>,
}

impl From<LinkView> for Uplink {
    fn from(view: LinkView) -> Self {
        Self { name: view.name, index: view.index, mtu: view.mtu }
    }
}

/// With a gateway; a route of ours without one is a pod's own. A learned one
/// has one too, and is told by its metric.
pub(crate) fn is_anycast(route: &RouteView) -> bool {
    route.protocol == PROTOCOL
        && route.kind == RouteType::Unicast
        && !route.hops.is_empty()
        && route.hops.iter().all(|hop| hop.via.is_some())
        && !is_learned(route)
}

/// Whether an anycast route may come beside or instead of it: it is ours, and
/// not a pod's own.
pub(crate) fn admits_anycast(route: &RouteView) -> bool {
    is_anycast(route) || is_learned(route) || is_summary(route)
}

pub(crate) fn is_summary(route: &RouteView) -> bool {
    route.protocol == PROTOCOL && route.kind == RouteType::Unreachable
}

/// Flock's routes that are summaries or anycast.
pub(crate) fn our_routes(worker: &mut Worker) -> Result<Vec<NodeRoute>, Error> {
    let host = worker.host()?;
    let mut routes = Vec::new();
    for family in FAMILIES {
        routes.extend(all_routes(host, family, Some(PROTOCOL))?);
    }
    let mut ways = Ways::new(link_names(host)?);
    Ok(routes.iter().filter_map(|route| node_route(route, &mut ways)).collect())
}

/// Of these addresses, flock's anycast routes as they are: by lookups, in two
/// rounds. Only where one of them does not show the route, all are read.
pub(crate) fn anycast_routes(
    worker: &mut Worker,
    addresses: &[IpAddr],
) -> Result<Vec<NodeRoute>, Error> {
    let host = worker.host()?;
    let lookups: Vec<Request> =
        addresses.iter().map(|address| request::lookup(*address, true)).collect();
    let mut routes = Vec::with_capacity(addresses.len());
    for (address, answer) in addresses.iter().zip(host.batch(&lookups)?) {
        let ours =
            |route: &RouteView| route.destination == IpNet::from(*address) && is_anycast(route);
        let Some(route) = shown(*address, &answer)?.filter(ours) else {
            let mut all = our_routes(worker)?;
            all.retain(|route| matches!(route, NodeRoute::Anycast { address, .. } if addresses.contains(address)));
            return Ok(all);
        };
        routes.push(route);
    }
    let indices: BTreeSet<u32> =
        routes.iter().flat_map(|route| &route.hops).map(|hop| hop.index).collect();
    let lookups: Vec<Request> = indices.into_iter().map(request::link_by_index).collect();
    let links = host.batch(&lookups)?;
    let names = links.iter().filter_map(first_link).map(|link| (link.index, link.name)).collect();
    let mut ways = Ways::new(names);
    Ok(routes.iter().filter_map(|route| node_route(route, &mut ways)).collect())
}

/// The ways of many routes, each once.
struct Ways {
    names: HashMap<u32, String>,
    known: HashMap<(IpAddr, u32), Arc<NextHop>>,
}

impl Ways {
    fn new(names: HashMap<u32, String>) -> Self {
        Self { names, known: HashMap::new() }
    }

    fn by(&mut self, via: IpAddr, index: u32) -> Arc<NextHop> {
        let known = self.known.entry((via, index)).or_insert_with(|| {
            let dev = self.names.get(&index).cloned().unwrap_or_default();
            Arc::new(NextHop { via, dev })
        });
        Arc::clone(known)
    }
}

fn node_route(route: &RouteView, ways: &mut Ways) -> Option<NodeRoute> {
    if matches!(route.kind, RouteType::Unreachable | RouteType::BlackHole) {
        return Some(NodeRoute::Blackhole { prefix: route.destination });
    }
    if is_learned(route) {
        return None;
    }
    let mut next_hops = Vec::with_capacity(route.hops.len());
    for hop in &route.hops {
        // Without a gateway it is a pod's own route.
        next_hops.push(ways.by(hop.via?, hop.index));
    }
    next_hops.sort();
    (!next_hops.is_empty())
        .then(|| NodeRoute::Anycast { address: route.destination.addr(), next_hops })
}

/// Every unicast route straight into a pod, whoever made it.
pub(crate) fn pod_routes(worker: &mut Worker) -> Result<Vec<PodRoute>, Error> {
    let host = worker.host()?;
    let names = link_names(host)?;
    let mut routes = Vec::new();
    for family in FAMILIES {
        routes.extend(all_routes(host, family, None)?);
    }
    Ok(routes.iter().filter_map(|route| pod_route(route, &names)).collect())
}

fn pod_route(route: &RouteView, names: &HashMap<u32, String>) -> Option<PodRoute> {
    let [hop] = route.hops.as_slice() else { return None };
    let name = names.get(&hop.index).filter(|name| names::is_host_ifname(name))?;
    let narrow = match route.destination.addr() {
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
        IpAddr::V4(address) => address.is_link_local() || address.is_multicast(),
    };
    let ours = route.protocol == PROTOCOL;
    (hop.via.is_none() && !narrow).then(|| PodRoute {
        destination: route.destination,
        ifname: name.clone(),
        ours,
    })
}

fn link_names(channel: &mut Channel) -> Result<HashMap<u32, String>, Error> {
    let messages = channel.dump("list interfaces", &request::all_links())?;
    let views = messages.iter().filter_map(LinkView::of);
    Ok(views.map(|view| (view.index, view.name)).collect())
}

pub(crate) fn uplink_towards(worker: &mut Worker, to: IpAddr) -> Result<Option<Uplink>, Error> {
    Ok(path_towards(worker, to)?.map(|path| path.uplink))
}

pub(crate) fn path_towards(worker: &mut Worker, to: IpAddr) -> Result<Option<Path>, Error> {
    let host = worker.host()?;
    let replies = match host.ask(&format!("look up route to {to}"), request::lookup(to, false)) {
        Ok(replies) => replies,
        Err(Error::Kernel { refusal, .. }) if no_way(&refusal) => return Ok(None),
        Err(error) => return Err(error),
    };
    let message = replies.iter().find_map(|reply| match decode(reply).ok()? {
        RouteNetlinkMessage::NewRoute(route) => Some(route),
        _ => None,
    });
    let Some(message) = message else { return Ok(None) };
    let hop = RouteView::read(&message).and_then(|route| route.hops.first().cloned());
    let link = match hop {
        Some(hop) => find_link_at(host, hop.index)?,
        None => None,
    };
    Ok(link.map(|link| Path { uplink: link.into(), mtu: known_mtu(&message) }))
}

/// An MTU that is the route's own, and not its interface's.
fn known_mtu(route: &RouteMessage) -> Option<u32> {
    let metrics = route.attributes.iter().filter_map(|attribute| match attribute {
        RouteAttribute::Metrics(metrics) => Some(metrics),
        _ => None,
    });
    metrics.flatten().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) if *mtu > 0 => Some(*mtu),
        _ => None,
    })
}

/// An interface by its name.
pub(crate) fn uplink_named(worker: &mut Worker, name: &str) -> Result<Option<Uplink>, Error> {
    Ok(find_link(worker.host()?, name)?.map(Uplink::from))
}

/// The interface of the best default route, IPv6's before IPv4's.
pub(crate) fn default_uplink(worker: &mut Worker) -> Result<Option<Uplink>, Error> {
    let host = worker.host()?;
    for family in FAMILIES {
        let best = default_routes(host, family)?.into_iter().min_by_key(|route| route.metric);
        if let Some(hop) = best.as_ref().and_then(|route| route.hops.first()) {
            return Ok(find_link_at(host, hop.index)?.map(Uplink::from));
        }
    }
    Ok(None)
}

fn default_routes(host: &mut Channel, family: AddressFamily) -> Result<Vec<RouteView>, Error> {
    let mut routes = all_routes(host, family, None)?;
    routes.retain(|route| route.destination.prefix_len() == 0 && route.kind == RouteType::Unicast);
    Ok(routes)
}

/// The interfaces whose IPv6 default route a router advertised.
pub(crate) fn by_advertisement(host: &mut Channel) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for route in default_routes(host, AddressFamily::Inet6)? {
        if route.protocol != u8::from(netlink_packet_route::route::RouteProtocol::Ra) {
            continue;
        }
        for hop in &route.hops {
            names.extend(find_link_at(host, hop.index)?.map(|link| link.name));
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}
