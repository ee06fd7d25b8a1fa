//! Reads how a pod's link is in the kernel, on both sides.
//!
//! Decides what is looked at, and keeps it to the pod: no reading here grows
//! with the number of pods. Judging it is verify's.

use std::net::IpAddr;

use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourState};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;

use crate::admission;
use crate::apply::first_link;
use crate::channel::{Channel, decode};
use crate::error::{Error, Refusal};
use crate::plan::{GATEWAY6, LOOPBACK, PodLink};
use crate::reply::Answer;
use crate::request::{self, DOOMED_GROUP};
use crate::view::{AddressView, LinkView, RouteView};
use crate::worker::Worker;

/// Both families, in the order in which flock names them.
pub(crate) const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet6, AddressFamily::Inet];

/// The kernel's entry that decides where packets for an address go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) route: RouteView,
    /// The first way out, by name where it has one.
    pub(crate) towards: String,
}

/// Both sides of a pod's link, as found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) host: Option<LinkView>,
    /// Whether it is to be deleted, by us or by one before us.
    pub(crate) doomed: bool,
    pub(crate) host_addresses: Vec<AddressView>,
    pub(crate) host_routes: Vec<(IpAddr, Option<Decided>)>,
    /// Anycast addresses that the rules would not let through as sources.
    pub(crate) not_admitted: Vec<IpAddr>,
    pub(crate) pod: Option<LinkView>,
    pub(crate) loopback: Option<LinkView>,
    pub(crate) pod_addresses: Vec<AddressView>,
    pub(crate) pod_routes: Vec<RouteView>,
    /// The hardware address that the pod knows of its IPv6 gateway for good.
    pub(crate) pod_gateway: Option<[u8; 6]>,
}

pub(crate) fn observe(worker: &mut Worker, link: &PodLink) -> Result<Observed, Error> {
    let mut pod = worker.channel_inside(&link.netns)?;
    let condemned = worker.is_condemned(&link.host_ifname);
    let host = worker.host()?;
    let mut observed =
        Observed { host: find_link(host, &link.host_ifname)?, ..Observed::default() };
    if let Some(view) = &observed.host {
        observed.doomed = condemned || view.group == DOOMED_GROUP;
        observed.host_addresses = addresses(host, view.index)?;
    }
    for address in link.own_addresses() {
        observed.host_routes.push((address, decided(host, address)?));
    }
    observed.not_admitted = admission::not_admitted(&link.host_ifname, &link.anycast)?;
    observed.pod = find_link(&mut pod, &link.ifname)?;
    let loopback = pod.ask("interface lo in the pod", request::link_by_index(LOOPBACK))?;
    observed.loopback = loopback.iter().find_map(|reply| LinkView::of(&decode(reply).ok()?));
    observed.pod_addresses = addresses(&mut pod, 0)?;
    for family in FAMILIES {
        observed.pod_routes.extend(all_routes(&mut pod, family, None)?);
    }
    if let Some(view) = &observed.pod {
        observed.pod_gateway = gateway(&mut pod, view.index)?;
    }
    Ok(observed)
}

/// What the pod knows of its IPv6 gateway, if it knows it for good.
fn gateway(pod: &mut Channel, index: u32) -> Result<Option<[u8; 6]>, Error> {
    let messages = pod.dump("list neighbours in the pod", &request::neighbours())?;
    let known = messages.iter().find_map(|message| {
        let RouteNetlinkMessage::NewNeighbour(neighbour) = message else { return None };
        let ours = neighbour.header.ifindex == index
            && neighbour.header.state == NeighbourState::Permanent
            && neighbour
                .attributes
                .contains(&NeighbourAttribute::Destination(NeighbourAddress::Inet6(GATEWAY6)));
        neighbour.attributes.iter().filter(|_| ours).find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(mac) => mac.first_chunk::<6>().copied(),
            _ => None,
        })
    });
    Ok(known)
}

/// A link by its name, or `None` where there is none.
pub(crate) fn find_link(channel: &mut Channel, name: &str) -> Result<Option<LinkView>, Error> {
    find(channel, name, request::link_by_name(name))
}

/// A link by its index, or `None` where there is none.
pub(crate) fn find_link_at(channel: &mut Channel, index: u32) -> Result<Option<LinkView>, Error> {
    find(channel, &index.to_string(), request::link_by_index(index))
}

fn find(
    channel: &mut Channel,
    what: &str,
    request: crate::channel::Request,
) -> Result<Option<LinkView>, Error> {
    let answer = channel.batch(&[request])?.into_iter().next().unwrap_or_default();
    match answer.verdict {
        Some(Err(refusal)) if refusal.is(Errno::NODEV) => Ok(None),
        Some(Err(refusal)) => {
            Err(Error::Kernel { what: format!("look up interface {what}"), refusal })
        }
        _ => Ok(first_link(&answer)),
    }
}

/// The addresses on one interface, or with index 0 on all.
pub(crate) fn addresses(channel: &mut Channel, index: u32) -> Result<Vec<AddressView>, Error> {
    let request = request::addresses_of(AddressFamily::Unspec, index);
    let messages = channel.dump("list addresses", &request)?;
    let views = messages.iter().filter_map(AddressView::of);
    Ok(views.filter(|view| index == 0 || view.index == index).collect())
}

/// The main table of a family; of one protocol, where given.
pub(crate) fn all_routes(
    channel: &mut Channel,
    family: AddressFamily,
    protocol: Option<u8>,
) -> Result<Vec<RouteView>, Error> {
    let messages = match channel.dump("list routes", &request::routes(family, protocol)) {
        Ok(messages) => messages,
        // A filtered dump of a table that nobody has made yet.
        Err(Error::Kernel { refusal, .. }) if refusal.is(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let views = messages.iter().filter_map(RouteView::of).filter(RouteView::in_main_table);
    Ok(views.filter(|view| protocol.is_none_or(|protocol| view.protocol == protocol)).collect())
}

/// The entry that decides about an address, or `None` where there is no way.
pub(crate) fn entry(channel: &mut Channel, address: IpAddr) -> Result<Option<RouteView>, Error> {
    let answer = channel.batch(&[request::lookup(address, true)])?.into_iter().next();
    shown(address, &answer.unwrap_or_default())
}

/// What a lookup showed.
pub(crate) fn shown(address: IpAddr, answer: &Answer) -> Result<Option<RouteView>, Error> {
    match &answer.verdict {
        Some(Err(refusal)) if no_way(refusal) => Ok(None),
        Some(Err(refusal)) => Err(Error::Kernel {
            what: format!("look up route to {address}"),
            refusal: refusal.clone(),
        }),
        _ => Ok(first_route(answer)),
    }
}

/// The route that an answer describes.
pub(crate) fn first_route(answer: &Answer) -> Option<RouteView> {
    answer.replies.iter().find_map(|reply| RouteView::of(&decode(reply).ok()?))
}

fn decided(channel: &mut Channel, address: IpAddr) -> Result<Option<Decided>, Error> {
    let Some(route) = entry(channel, address)? else { return Ok(None) };
    let towards = match route.hops.first() {
        None => format!("{:?}", route.kind).to_lowercase(),
        Some(hop) => find_link_at(channel, hop.index)?
            .map_or_else(|| format!("interface {}", hop.index), |link| link.name),
    };
    Ok(Some(Decided { route, towards }))
}

/// The errnos by which a lookup says that there is no way: none at all, and
/// the unreachable, prohibit and blackhole kinds of route.
pub(crate) fn no_way(refusal: &Refusal) -> bool {
    [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::ACCESS, Errno::INVAL]
        .into_iter()
        .any(|errno| refusal.is(errno))
}
