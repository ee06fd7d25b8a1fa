//! What the kernel has for one prefix or address, whoever put it there: for people who ask.
//!
//! Decides how much is read for that: a lookup, and flock's own routes where
//! the lookup shows another's. Judging what is found is the caller's.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_route::route::RouteType;

use crate::channel::Channel;
use crate::error::Error;
use crate::observe::{all_routes, entry, find_link_at};
use crate::request::{self, PROTOCOL};
use crate::view::{HopView, RouteView};
use crate::worker::Worker;

/// A route as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingRoute {
    /// Where to.
    pub destination: IpNet,
    /// What becomes of packets, in iproute2's word (`unicast`, `unreachable`).
    pub kind: String,
    /// Who made it, as a number of rtnetlink.h or iproute2's rt_protos.
    pub protocol: u8,
    /// Lower is better.
    pub metric: u32,
    /// The ways out, sorted; none for one that leads nowhere.
    pub hops: Vec<StandingHop>,
}

/// One way out of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StandingHop {
    /// The next router, or `None` where the destination itself is on the link.
    pub via: Option<IpAddr>,
    /// The interface.
    pub dev: String,
}

impl StandingRoute {
    /// Whether it carries flock's protocol number.
    pub fn is_ours(&self) -> bool {
        self.protocol == PROTOCOL
    }
}

/// As `ip route` would put it.
impl fmt::Display for StandingRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind != "unicast" {
            write!(f, "{} ", self.kind)?;
        }
        write!(f, "{}", self.destination)?;
        for (number, hop) in self.hops.iter().enumerate() {
            f.write_str(if number == 0 { " " } else { ", " })?;
            if let Some(via) = hop.via {
                write!(f, "via {via} ")?;
            }
            write!(f, "dev {}", hop.dev)?;
        }
        Ok(())
    }
}

/// The main table's routes for exactly that prefix, flock's and the one that
/// comes before it.
pub(crate) fn routes_of(worker: &mut Worker, prefix: IpNet) -> Result<Vec<StandingRoute>, Error> {
    let host = worker.host()?;
    let prefix = prefix.trunc();
    let exact = |route: &RouteView| route.destination == prefix && route.in_main_table();
    let first = entry(host, within(prefix))?.filter(exact);
    let mut found: Vec<RouteView> = first.into_iter().collect();
    if found.iter().all(|route| route.protocol != PROTOCOL) {
        let family = request::family_of(prefix.addr());
        let ours = all_routes(host, family, Some(PROTOCOL))?;
        found.extend(ours.into_iter().filter(exact).min_by_key(|route| route.metric));
    }
    found.iter().map(|route| standing(host, route)).collect()
}

/// An address that most likely only this prefix decides about: the last one,
/// because longer prefixes more often begin where this one does; of everything,
/// one that nobody has, because the last one is a broadcast or multicast.
fn within(prefix: IpNet) -> IpAddr {
    match prefix {
        IpNet::V4(net) if net.prefix_len() == 0 => Ipv4Addr::new(192, 0, 0, 8).into(),
        IpNet::V6(net) if net.prefix_len() == 0 => {
            Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 1).into()
        }
        other => other.broadcast(),
    }
}

/// The route by which packets for an address go; `None` where there is none,
/// or one that answers "unreachable".
pub(crate) fn decides_about(
    worker: &mut Worker,
    address: IpAddr,
) -> Result<Option<StandingRoute>, Error> {
    let host = worker.host()?;
    let found = entry(host, address)?.filter(|route| leads(route.kind));
    found.map(|route| standing(host, &route)).transpose()
}

fn standing(host: &mut Channel, route: &RouteView) -> Result<StandingRoute, Error> {
    let mut hops = Vec::with_capacity(route.hops.len());
    // IPv6 has one that leads nowhere on the loopback.
    for HopView { via, index, .. } in route.hops.iter().filter(|_| leads(route.kind)) {
        let link = find_link_at(host, *index)?;
        let dev = link.map_or_else(|| format!("interface {index}"), |link| link.name);
        hops.push(StandingHop { via: *via, dev });
    }
    hops.sort();
    Ok(StandingRoute {
        destination: route.destination,
        kind: word(route.kind),
        protocol: route.protocol,
        metric: route.metric,
        hops,
    })
}

fn leads(kind: RouteType) -> bool {
    !matches!(kind, RouteType::Unreachable | RouteType::BlackHole | RouteType::Prohibit)
}

fn word(kind: RouteType) -> String {
    match kind {
        RouteType::Other(number) => format!("type {number}"),
        kind => format!("{kind:?}").to_lowercase(),
    }
}
