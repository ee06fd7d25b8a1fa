//! Routes of the node that are not one pod's own: anycast and summaries.
//!
//! Decides how each kind looks in the kernel, and touches none that does not
//! carry flock's protocol number. Which should be there is the agent's.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteMetric, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;

use crate::apply::first_link;
use crate::channel::{Channel, Request, decode};
use crate::error::Error;
use crate::fault;
use crate::learned::{beneath, is_learned};
use crate::names;
use crate::observe::{FAMILIES, all_routes, entry, find_link, find_link_at, no_way, shown};
use crate::reply::Answer;
use crate::request::{self, DOOMED_GROUP, Mode, PROTOCOL};
use crate::view::{LinkView, RouteView};
use crate::worker::Worker;

/// The metric of a summary's route: any route of the same length is better.
const SUMMARY_METRIC: u32 = 1_000_000;

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
        /// One is a plain route, several are multipath, none removes it.
        next_hops: Vec<NextHop>,
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

pub(crate) fn set_route(worker: &mut Worker, route: NodeRoute) -> Result<(), Error> {
    fault::point("set-route.before")?;
    let host = worker.host()?;
    match route {
        NodeRoute::Blackhole { prefix } => {
            let prefix = prefix.trunc();
            let what = format!("set unreachable route {prefix}");
            host.ask(&what, request::set_unreachable(prefix, SUMMARY_METRIC))?;
        }
        NodeRoute::Anycast { address, next_hops } if next_hops.is_empty() => {
            remove_route(worker, RouteKey::Anycast(address))?;
        }
        NodeRoute::Anycast { address, next_hops } => set_anycast(host, address, next_hops)?,
    }
    fault::point("set-route.after")?;
    Ok(())
}

/// Replaces an anycast route of ours and nothing else. What the lookup does
/// not show (unreachable routes, and what rules or the node's own addresses
/// hide) refuses the creation, and only then the whole table is read.
fn set_anycast(host: &mut Channel, address: IpAddr, mut hops: Vec<NextHop>) -> Result<(), Error> {
    hops.sort();
    hops.dedup();
    let mut lookups: Vec<Request> =
        hops.iter().map(|hop| request::link_by_name(&hop.dev)).collect();
    lookups.push(request::lookup(address, true));
    let mut answers = host.batch(&lookups)?;
    let entry = answers.pop().unwrap_or_default();
    let resolved = resolve(address, &hops, answers)?;
    let destination = IpNet::from(address);
    let exact = |route: &RouteView| route.destination == destination && route.in_main_table();
    let mut entry = shown(address, &entry)?.filter(exact);
    if entry.as_ref().is_some_and(is_learned) {
        // It yields to an anycast route, but may hide another's.
        entry = beneath(host, address)?.filter(exact);
    }
    let mode = match entry {
        Some(route) if is_anycast(&route) => Mode::Ensure,
        Some(route) if !is_summary(&route) => return Err(Error::AddressTaken { address }),
        _ => Mode::Create,
    };
    let what = format!("set anycast route {address} over {} next hops", resolved.len());
    match host.ask(&what, request::set_multipath(destination, &resolved, None, mode)) {
        Err(Error::Kernel { refusal, .. }) if mode == Mode::Create && refusal.is(Errno::EXIST) => {
            if is_taken(host, destination)? {
                return Err(Error::AddressTaken { address });
            }
            let replacing = request::set_multipath(destination, &resolved, None, Mode::Ensure);
            host.ask(&what, replacing).map(drop)
        }
        other => other.map(drop),
    }
}

/// The hops that can be led to: one pod that is gone, or is about to be,
/// must not keep the others from being served.
fn resolve(
    address: IpAddr,
    hops: &[NextHop],
    answers: Vec<Answer>,
) -> Result<Vec<(IpAddr, u32)>, Error> {
    let mut resolved = Vec::with_capacity(hops.len());
    for (hop, answer) in hops.iter().zip(answers) {
        let link = first_link(&answer);
        match answer.verdict {
            Some(Err(refusal)) if !refusal.is(Errno::NODEV) => {
                return Err(Error::Kernel {
                    what: format!("look up interface {}", hop.dev),
                    refusal,
                });
            }
            _ => {}
        }
        match link {
            Some(link) if link.group != DOOMED_GROUP => resolved.push((hop.via, link.index)),
            found => tracing::warn!(
                %address,
                via = %hop.via,
                interface = hop.dev,
                retired = found.is_some(),
                "left a next hop without a link out of an anycast route"
            ),
        }
    }
    match hops.first() {
        Some(hop) if resolved.is_empty() => Err(Error::NoSuchLink { name: hop.dev.clone() }),
        _ => Ok(resolved),
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

fn is_summary(route: &RouteView) -> bool {
    route.protocol == PROTOCOL && route.kind == RouteType::Unreachable
}

/// Whether the main table has a route for exactly that destination which is
/// a pod's own or not ours.
fn is_taken(host: &mut Channel, destination: IpNet) -> Result<bool, Error> {
    let routes = all_routes(host, request::family_of(destination.addr()), None)?;
    Ok(routes.iter().any(|route| route.destination == destination && !admits_anycast(route)))
}

pub(crate) fn remove_route(worker: &mut Worker, key: RouteKey) -> Result<(), Error> {
    let host = worker.host()?;
    let (destination, request) = match key {
        RouteKey::Blackhole(prefix) => {
            let prefix = prefix.trunc();
            let kind = RouteType::Unreachable;
            (prefix, request::remove_route(prefix, kind, Some(SUMMARY_METRIC)))
        }
        RouteKey::Anycast(address) if address.is_ipv6() => {
            let destination = IpNet::from(address);
            let kind = RouteType::Unicast;
            (destination, request::remove_route(destination, kind, Some(request::IPV6_METRIC)))
        }
        RouteKey::Anycast(address) => {
            let destination = IpNet::from(address);
            let Some((via, index)) = anycast_hop(host, address)? else { return Ok(()) };
            (destination, request::remove_route_through(destination, via, index))
        }
    };
    match host.ask(&format!("remove route {destination}"), request) {
        Ok(_) => Ok(()),
        Err(Error::Kernel { refusal, .. }) if refusal.is(Errno::SRCH) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The first next hop of an anycast route, if it is there. IPv4 has no words
/// for "the route without a metric": without a next hop to tell it by, a
/// learned route would be removed where there is no anycast one.
fn anycast_hop(host: &mut Channel, address: IpAddr) -> Result<Option<(IpAddr, u32)>, Error> {
    let destination = IpNet::from(address);
    let wanted = |route: &RouteView| route.destination == destination && is_anycast(route);
    let mut found = entry(host, address)?.filter(wanted);
    if found.is_none() {
        let ours = all_routes(host, request::family_of(address), Some(PROTOCOL))?;
        found = ours.into_iter().find(wanted);
    }
    let hop = found.and_then(|route| route.hops.into_iter().next());
    Ok(hop.and_then(|hop| Some((hop.via?, hop.index))))
}

/// Flock's routes that are summaries or anycast.
pub(crate) fn our_routes(worker: &mut Worker) -> Result<Vec<NodeRoute>, Error> {
    let host = worker.host()?;
    let mut routes = Vec::new();
    for family in FAMILIES {
        routes.extend(all_routes(host, family, Some(PROTOCOL))?);
    }
    let names = link_names(host)?;
    Ok(routes.iter().filter_map(|route| node_route(route, &names)).collect())
}

fn node_route(route: &RouteView, names: &HashMap<u32, String>) -> Option<NodeRoute> {
    if matches!(route.kind, RouteType::Unreachable | RouteType::BlackHole) {
        return Some(NodeRoute::Blackhole { prefix: route.destination });
    }
    if is_learned(route) {
        return None;
    }
    let mut next_hops = Vec::with_capacity(route.hops.len());
    for hop in &route.hops {
        // Without a gateway it is a pod's own route.
        let dev = names.get(&hop.index).cloned().unwrap_or_default();
        next_hops.push(NextHop { via: hop.via?, dev });
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
