//! What a wired pod consists of, as data: pure.
//!
//! Decides the steps, their order, and for each the step that takes it back.
//! Carrying them out is apply's, comparing with the kernel is verify's, and
//! both read the same plan, so that they cannot disagree about what a pod is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::channel::Request;
use crate::error::Error;
use crate::names;
use crate::netns::Netns;
use crate::request::{self, Mode};

/// The node's address on every pod's link, and so the pods' gateway.
pub const GATEWAY6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// The same for IPv4: link-local, never routed.
pub const GATEWAY4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);

/// The loopback interface's index, the same in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// A pod's link as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLink {
    /// The host side's name, see [`crate::host_ifname`].
    pub host_ifname: String,
    /// The pod side's name, `eth0` as a rule.
    pub ifname: String,
    /// The pod's namespace.
    pub netns: Netns,
    /// The MTU of both sides; the pod may make its own smaller.
    pub mtu: u32,
    /// The host side's hardware address; without one the kernel chooses.
    pub host_mac: Option<[u8; 6]>,
    /// The pod side's, likewise: given what it had, a new pair is known to
    /// the pod's neighbours.
    pub pod_mac: Option<[u8; 6]>,
    /// The pod's own IPv6 address; without one the pod has no IPv6.
    pub ip6: Option<Ipv6Addr>,
    /// The pod's own IPv4 address; without one the pod has no IPv4.
    pub ip4: Option<Ipv4Addr>,
    /// More addresses on the pod's interface.
    pub addresses: Vec<IpAddr>,
    /// Addresses on the pod's loopback, reached by routes of their own.
    pub anycast: Vec<IpAddr>,
}

impl PodLink {
    /// Every address on the pod's interface, each a route of the node's.
    pub fn own_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let primary = self.ip6.map(IpAddr::V6).into_iter().chain(self.ip4.map(IpAddr::V4));
        primary.chain(self.addresses.iter().copied())
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        for name in [&self.host_ifname, &self.ifname] {
            if !names::is_ifname(name) {
                return Err(Error::BadName { name: name.clone() });
            }
        }
        if !names::is_host_ifname(&self.host_ifname) {
            let what = format!("host interface {}: not a name of flock's", self.host_ifname);
            return Err(Error::BadRequest { what });
        }
        let all = self.addresses.iter().chain(&self.anycast);
        for address in all {
            let on = if address.is_ipv6() { self.ip6.is_some() } else { self.ip4.is_some() };
            if !on {
                let what = format!("address {address}: the pod has no address of that family");
                return Err(Error::BadRequest { what });
            }
        }
        if self.ip6.is_none() && self.ip4.is_none() {
            let what = format!("{}: a pod without any address", self.host_ifname);
            return Err(Error::BadRequest { what });
        }
        Ok(())
    }
}

/// Where a step happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The node's end of the veth.
    Host,
    /// The pod's end.
    Pod,
    /// The pod's loopback.
    Loopback,
}

/// The indices that the kernel gave to the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) host: u32,
    pub(crate) pod: u32,
    /// The hardware address of the node's end.
    pub(crate) host_mac: [u8; 6],
}

impl Ends {
    fn at(self, place: Place) -> u32 {
        match place {
            Place::Host => self.host,
            Place::Pod => self.pod,
            Place::Loopback => LOOPBACK,
        }
    }
}

/// One thing to make so, after the pair exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No link-local address of the kernel's own making.
    NoAutomaticAddress(Place),
    /// IPv4 forwarding and proxy ARP on the node's end.
    ForwardIpv4,
    /// The interface is up.
    Up(Place),
    /// The interface's MTU; part of the birth, and of a repair.
    Mtu(Place, u32),
    /// The node's end is not marked for deletion; part of a repair.
    NotDoomed,
    /// An address, valid at once.
    Address(Place, IpNet),
    /// The pod knows its IPv6 gateway's hardware address for good. It has no
    /// link-local address to ask from, and none at all when what it sends
    /// comes from an anycast address on its loopback.
    Neighbour,
    /// A route out of the end at that place.
    Route { at: Place, destination: IpNet, via: Option<IpAddr> },
}

/// What takes a step back, for those that do not die with the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inverse {
    /// Delete the veth by its name; both ends and all on them go with it.
    DeleteLink,
    /// Loopback as it was born: down and without 127.0.0.1.
    LoopbackDown,
    /// Remove an address from the pod's loopback.
    RemoveFromLoopback(IpNet),
    /// No longer let anycast sources through from the host interface.
    Revoke(Vec<IpAddr>),
}

impl Step {
    pub(crate) fn request(&self, ends: Ends, mode: Mode) -> Request {
        match self {
            Self::NoAutomaticAddress(place) => request::no_automatic_address(ends.at(*place)),
            Self::ForwardIpv4 => request::forward_ipv4(ends.host),
            Self::Up(place) => request::set_up(ends.at(*place), true),
            Self::Mtu(place, mtu) => request::set_mtu(ends.at(*place), *mtu),
            Self::NotDoomed => request::set_group(ends.host, 0),
            Self::Address(place, address) => request::add_address(ends.at(*place), *address, mode),
            Self::Neighbour => request::set_neighbour(ends.pod, GATEWAY6, ends.host_mac),
            // Another interface of the pod's may lead to the same gateway.
            Self::Route { at: Place::Pod, destination, via: None } => {
                request::add_route(ends.pod, *destination, None, Mode::Beside)
            }
            Self::Route { at, destination, via } => {
                request::add_route(ends.at(*at), *destination, *via, mode)
            }
        }
    }

    pub(crate) fn inverse(&self) -> Option<Inverse> {
        match self {
            Self::Up(Place::Loopback) => Some(Inverse::LoopbackDown),
            Self::Address(Place::Loopback, address) => Some(Inverse::RemoveFromLoopback(*address)),
            _ => None,
        }
    }
}

/// The steps in each of the two namespaces, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Inside the pod.
    pub(crate) pod: Vec<Step>,
    /// On the node.
    pub(crate) host: Vec<Step>,
    /// On the node as well, what an attach has done beside other things: IPv4, where the kernel compares the gateway's
    /// address with that of every other link.
    pub(crate) beside: Vec<Step>,
}

impl Plan {
    pub(crate) fn of(link: &PodLink) -> Self {
        Self { pod: pod_steps(link), host: host_steps(link), beside: beside_steps(link) }
    }

    /// All that is on the node.
    pub(crate) fn on_node(&self) -> impl Iterator<Item = &Step> {
        self.host.iter().chain(&self.beside)
    }
}

fn pod_steps(link: &PodLink) -> Vec<Step> {
    let mut steps =
        vec![Step::Up(Place::Loopback), Step::NoAutomaticAddress(Place::Pod), Step::Up(Place::Pod)];
    steps.extend(link.own_addresses().map(|a| Step::Address(Place::Pod, IpNet::from(a))));
    if link.ip6.is_some() {
        steps.push(Step::Neighbour);
        let destination = IpNet::V6(Ipv6Net::default());
        steps.push(Step::Route { at: Place::Pod, destination, via: Some(GATEWAY6.into()) });
    }
    if link.ip4.is_some() {
        // The gateway is in no subnet of the pod's, so it is said to be here.
        let gateway = IpNet::from(IpAddr::V4(GATEWAY4));
        steps.push(Step::Route { at: Place::Pod, destination: gateway, via: None });
        let destination = IpNet::V4(Ipv4Net::default());
        steps.push(Step::Route { at: Place::Pod, destination, via: Some(GATEWAY4.into()) });
    }
    steps.extend(link.anycast.iter().map(|a| Step::Address(Place::Loopback, IpNet::from(*a))));
    steps
}

/// What changes a link is news to the kernel only while it is up, and then costs a walk over all
/// IPv6 routes of the node; so it goes up when everything that can be set is.
fn host_steps(link: &PodLink) -> Vec<Step> {
    let mut steps = vec![Step::NoAutomaticAddress(Place::Host)];
    if link.ip4.is_some() {
        steps.push(Step::ForwardIpv4);
    }
    let gateway6 = Ipv6Net::new(GATEWAY6, 64).ok().map(IpNet::V6);
    steps.extend(link.ip6.and(gateway6).map(|address| Step::Address(Place::Host, address)));
    steps.push(Step::Up(Place::Host));
    steps.extend(routes_to(link.own_addresses().filter(IpAddr::is_ipv6)));
    steps
}

fn beside_steps(link: &PodLink) -> Vec<Step> {
    let gateway4 = link.ip4.map(|_| IpNet::from(IpAddr::V4(GATEWAY4)));
    let mut steps: Vec<Step> =
        gateway4.map(|address| Step::Address(Place::Host, address)).into_iter().collect();
    // Behind the address: without one the kernel looks for it on all links of the node.
    steps.extend(routes_to(link.own_addresses().filter(IpAddr::is_ipv4)));
    steps
}

fn routes_to(addresses: impl Iterator<Item = IpAddr>) -> impl Iterator<Item = Step> {
    addresses.map(|address| Step::Route {
        at: Place::Host,
        destination: IpNet::from(address),
        via: None,
    })
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "the host interface",
            Self::Pod => "the pod's interface",
            Self::Loopback => "the pod's loopback",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAutomaticAddress(place) => write!(f, "set addr_gen_mode none on {place}"),
            Self::ForwardIpv4 => {
                write!(f, "set IPv4 forwarding and proxy_arp on the host interface")
            }
            Self::Up(place) => write!(f, "bring up {place}"),
            Self::Mtu(place, mtu) => write!(f, "set MTU {mtu} on {place}"),
            Self::NotDoomed => write!(f, "unmark the host interface"),
            Self::Address(place, address) => write!(f, "add address {address} to {place}"),
            Self::Neighbour => write!(f, "set neighbour {GATEWAY6} in the pod"),
            Self::Route { at, destination, via: Some(via) } => {
                write!(f, "add route {destination} via {via} out of {at}")
            }
            Self::Route { at, destination, via: None } => {
                write!(f, "add route {destination} out of {at}")
            }
        }
    }
}

impl Step {
    /// Whether it is a default route of the pod's: one per family, whatever
    /// the number of interfaces.
    pub(crate) fn is_pod_default(&self) -> bool {
        matches!(self, Self::Route { at: Place::Pod, destination, .. } if destination.prefix_len() == 0)
    }

    /// Where the step's result is to be found.
    pub(crate) fn place(&self) -> Place {
        match self {
            Self::NoAutomaticAddress(place)
            | Self::Up(place)
            | Self::Mtu(place, _)
            | Self::Address(place, _)
            | Self::Route { at: place, .. } => *place,
            Self::ForwardIpv4 | Self::NotDoomed => Place::Host,
            Self::Neighbour => Place::Pod,
        }
    }
}
