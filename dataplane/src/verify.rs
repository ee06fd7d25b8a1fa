//! Compares a pod's link with its plan, and names each difference: pure.
//!
//! Decides what counts as a difference. The plan says what should be, step by
//! step; observe says what is; mending is repair's.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::difference::Difference;
use crate::error::Error;
use crate::observe::{Observed, observe};
use crate::plan::{LOOPBACK, Place, Plan, PodLink, Step};
use crate::view::{AddressView, LinkView};
use crate::worker::Worker;

pub(crate) fn verify(worker: &mut Worker, link: &PodLink) -> Result<Vec<Difference>, Error> {
    link.check()?;
    Ok(compare(link, &observe(worker, link)?))
}

/// Every difference between what is planned and what was found.
pub(crate) fn compare(link: &PodLink, found: &Observed) -> Vec<Difference> {
    let mut differences = pair(link, found);
    let plan = Plan::of(link);
    // Nothing on a link that is gone is worth a word of its own, but the
    // pod's loopback and the node's routes are elsewhere.
    for step in plan.pod.iter().chain(plan.on_node()) {
        match step.place() {
            Place::Host if found.host.is_none() => {}
            Place::Pod if found.pod.is_none() => {}
            _ => differences.extend(difference(link, found, step)),
        }
    }
    differences.extend(found.not_admitted.iter().map(|address| Difference::AnycastNotAdmitted {
        ifname: link.host_ifname.clone(),
        address: *address,
    }));
    differences
}

/// The two ends themselves: there, ours, of the right size, and each other's.
fn pair(link: &PodLink, found: &Observed) -> Vec<Difference> {
    let mut differences = Vec::new();
    let ifname = link.host_ifname.clone();
    match &found.host {
        None => differences.push(Difference::HostLinkGone { ifname }),
        Some(host) if !host.veth => differences.push(Difference::HostLinkForeign { ifname }),
        Some(host) => {
            if host.mtu != link.mtu {
                let (have, want) = (host.mtu, link.mtu);
                differences.push(Difference::HostMtu { ifname: ifname.clone(), have, want });
            }
            if found.doomed {
                differences.push(Difference::HostLinkDoomed { ifname });
            }
        }
    }
    let ifname = link.ifname.clone();
    match &found.pod {
        None => differences.push(Difference::PodLinkGone { ifname }),
        // Smaller is the pod's own choice (a chained `tuning` plugin's, say).
        Some(pod) if pod.mtu > link.mtu => {
            differences.push(Difference::PodMtu { ifname, have: pod.mtu, want: link.mtu });
        }
        Some(_) => {}
    }
    if let (Some(host), Some(pod)) = (&found.host, &found.pod)
        && host.veth
        && !are_peers(host, pod)
    {
        let (host_ifname, ifname) = (link.host_ifname.clone(), link.ifname.clone());
        differences.push(Difference::WrongPeer { host_ifname, ifname });
    }
    differences
}

/// Each end names the other's index, as seen in the other's namespace.
pub(crate) fn are_peers(host: &LinkView, pod: &LinkView) -> bool {
    host.peer == Some(pod.index) && pod.peer == Some(host.index)
}

/// What is wrong with one step's result, if anything.
fn difference(link: &PodLink, found: &Observed, step: &Step) -> Option<Difference> {
    let ifname = match step.place() {
        Place::Host => link.host_ifname.clone(),
        _ => link.ifname.clone(),
    };
    match step {
        // Asked for at the birth, without a trace that would matter later.
        Step::NoAutomaticAddress(_) | Step::Mtu(..) | Step::NotDoomed => None,
        Step::ForwardIpv4 => forwarding(found.host.as_ref()?, ifname),
        Step::Up(place) => match place {
            Place::Host => {
                (!found.host.as_ref()?.up).then_some(Difference::HostLinkDown { ifname })
            }
            Place::Pod => (!found.pod.as_ref()?.up).then_some(Difference::PodLinkDown { ifname }),
            Place::Loopback => {
                let up = found.loopback.as_ref().is_some_and(|view| view.up);
                (!up).then_some(Difference::LoopbackDown)
            }
        },
        // Without it the pod asks, and is answered, unless its source is on loopback.
        Step::Neighbour => {
            let needed = link.anycast.iter().any(IpAddr::is_ipv6);
            let known = found.pod_gateway == Some(found.host.as_ref()?.mac);
            (needed && !known).then_some(Difference::PodNeighbourUnknown { ifname })
        }
        Step::Address(place, address) => address_difference(found, *place, *address, ifname),
        Step::Route { at: Place::Host, destination, .. } => host_route(found, *destination, ifname),
        Step::Route { destination, via, .. } => {
            let index = found.pod.as_ref()?.index;
            // The default route may be another interface's of the same pod.
            let anywhere = step.is_pod_default();
            let there = found.pod_routes.iter().any(|route| {
                let mut hops = route.hops.iter();
                route.destination == *destination
                    && hops.any(|hop| hop.via == *via && (anywhere || hop.index == index))
            });
            let (destination, via) = (*destination, *via);
            (!there).then_some(Difference::PodRouteMissing { destination, via, ifname })
        }
    }
}

fn forwarding(host: &LinkView, ifname: String) -> Option<Difference> {
    if !host.forwards_ipv4 {
        return Some(Difference::HostForwardingOff { ifname });
    }
    (!host.proxy_arp).then_some(Difference::HostProxyArpOff { ifname })
}

fn address_difference(
    found: &Observed,
    place: Place,
    address: IpNet,
    ifname: String,
) -> Option<Difference> {
    let (list, index) = match place {
        Place::Host => (&found.host_addresses, found.host.as_ref()?.index),
        Place::Pod => (&found.pod_addresses, found.pod.as_ref()?.index),
        Place::Loopback => (&found.pod_addresses, LOOPBACK),
    };
    let there: Option<&AddressView> =
        list.iter().find(|view| view.index == index && view.address == address);
    match (there, place) {
        (None, Place::Host) => Some(Difference::HostAddressMissing { ifname, address }),
        (None, Place::Pod) => Some(Difference::PodAddressMissing { ifname, address }),
        (None, Place::Loopback) => Some(Difference::AnycastMissing { address }),
        (Some(view), Place::Host) if view.tentative => {
            Some(Difference::HostAddressTentative { ifname, address })
        }
        (Some(view), _) if view.tentative => {
            Some(Difference::PodAddressTentative { ifname, address })
        }
        (Some(_), _) => None,
    }
}

fn host_route(found: &Observed, destination: IpNet, ifname: String) -> Option<Difference> {
    let index = found.host.as_ref()?.index;
    let entry = found.host_routes.iter().find(|(address, _)| *address == destination.addr());
    let decided = entry.and_then(|(_, decided)| decided.as_ref());
    match decided {
        Some(decided) if decided.route.destination != destination => {
            Some(Difference::HostRouteMissing { destination, ifname })
        }
        Some(decided) if !decided.route.leaves_by(index) => {
            let found = decided.towards.clone();
            Some(Difference::HostRouteElsewhere { destination, ifname, found })
        }
        Some(_) => None,
        None => Some(Difference::HostRouteMissing { destination, ifname }),
    }
}
