//! Routes that the BGP speaker learned, in the main table.
//!
//! Decides how they look in the kernel (flock's protocol number, a metric of
//! their own, several next hops as one route), how they are told from flock's
//! other routes, and that none of anybody else's is replaced or removed. Which
//! should be there, and where their next hops are, is the agent's.
//!
//! Both families name a route by prefix and metric and replace what has the
//! same, whoever made it; IPv6 would even make one route of two. So a route is
//! created first, and that somebody's is there already refuses it. Only then
//! the table is read, and what is ours is replaced.

mod message;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netlink_packet_route::route::RouteType;
use rustix::io::Errno;

use crate::channel::{Channel, Request};
use crate::error::{Error, Refusal};
use crate::observe::{FAMILIES, all_routes, first_route};
use crate::request::{self, IPV6_METRIC, Mode, PROTOCOL};
use crate::view::RouteView;
use crate::worker::{Pool, Worker};

/// The metric of a learned route: behind what an operator sets by hand in
/// IPv4, before the default routes of DHCP and router advertisements. BIRD's
/// own, so that nothing changes for a node that had it.
pub const LEARNED_METRIC: u32 = 32;

/// The metric of a learned IPv6 host route. A pod's and an anycast address's
/// are host routes without a metric, which in IPv6 means 1024: with 32 a
/// learned one would take their packets, in IPv4 it does not.
pub const LEARNED_HOST6_METRIC: u32 = IPV6_METRIC + LEARNED_METRIC;

/// All next hops are inside one attribute, whose length is 16 bits.
const MOST_HOPS: usize = 256;

/// Routes in one job. Pods wait for the same threads, and the monitor has to
/// read an event for each.
const PART: usize = 1024;

/// One way on towards a learned prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LearnedHop {
    /// The next router; it may be IPv6 for an IPv4 prefix (RFC 8950).
    pub via: IpAddr,
    /// The index of the interface that it is on.
    pub dev: u32,
}

/// A learned route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LearnedRoute {
    /// Where to.
    pub prefix: IpNet,
    /// Sorted. As a wish, none removes the route; as a finding, none means
    /// that it is there and names no router. Shared: a full table has a few
    /// sets of them.
    pub next_hops: Arc<[LearnedHop]>,
}

/// The metric that a learned route to that prefix has.
fn metric_of(prefix: IpNet) -> u32 {
    match prefix {
        IpNet::V6(prefix) if prefix.prefix_len() == prefix.max_prefix_len() => LEARNED_HOST6_METRIC,
        _ => LEARNED_METRIC,
    }
}

/// Whether it is a learned route of ours, and not anycast, a summary or a
/// pod's own.
pub(crate) fn is_learned(route: &RouteView) -> bool {
    route.protocol == PROTOCOL
        && route.kind == RouteType::Unicast
        && route.metric == metric_of(route.destination)
        && route.in_main_table()
}

/// Whether another's route of that destination and metric takes the place of
/// a learned one.
pub(crate) fn has_the_place_of_learned(route: &RouteView) -> bool {
    route.metric == metric_of(route.destination) && route.in_main_table()
}

/// The main table's entry that would decide about an address if nothing had
/// been learned. Reads the table, so it is for when something has.
pub(crate) fn beneath(host: &mut Channel, address: IpAddr) -> Result<Option<RouteView>, Error> {
    let routes = all_routes(host, request::family_of(address), None)?;
    let others = routes.into_iter().filter(|route| {
        route.destination.contains(&address) && !route.selective && !is_learned(route)
    });
    Ok(others.min_by_key(|route| (Reverse(route.destination.prefix_len()), route.metric)))
}

/// What the kernel has. A next hop that is dead or has no carrier is part of
/// it: by default the kernel goes on to send there when only the carrier is
/// gone, and only who sees it there can take it out.
pub(crate) fn learned_routes(worker: &mut Worker) -> Result<Vec<LearnedRoute>, Error> {
    let host = worker.host()?;
    let mut routes = Vec::new();
    for family in FAMILIES {
        let ours = all_routes(host, family, Some(PROTOCOL))?;
        routes.extend(ours.iter().filter(|route| is_learned(route)).map(found));
    }
    Ok(routes)
}

fn found(route: &RouteView) -> LearnedRoute {
    let hops = route.hops.iter();
    let mut next_hops: Vec<LearnedHop> =
        hops.filter_map(|hop| Some(LearnedHop { via: hop.via?, dev: hop.index })).collect();
    next_hops.sort();
    LearnedRoute { prefix: route.destination, next_hops: next_hops.into() }
}

/// See [`crate::Dataplane::set_learned`]. An error of the whole means that the
/// kernel could not be spoken to, and that some may be done.
pub(crate) async fn set_all(
    pool: &Pool,
    routes: Arc<[LearnedRoute]>,
) -> Result<Vec<Result<(), Error>>, Error> {
    let mut verdicts = Vec::with_capacity(routes.len());
    for start in (0..routes.len()).step_by(PART) {
        let end = routes.len().min(start + PART);
        let routes = Arc::clone(&routes);
        let part =
            move |worker: &mut Worker| set_part(worker, routes.get(start..end).unwrap_or_default());
        verdicts.extend(pool.run(part).await?);
    }
    Ok(verdicts)
}

fn set_part(worker: &mut Worker, routes: &[LearnedRoute]) -> Result<Vec<Result<(), Error>>, Error> {
    let routes = in_order(routes);
    let host = worker.host()?;
    let mut verdicts = Vec::with_capacity(routes.len());
    for run in runs(&routes, |route| route.prefix) {
        verdicts.extend(set_distinct(host, run)?);
    }
    Ok(verdicts)
}

/// With nothing behind a prefix's length, and next hops sorted and distinct; most are so as they come.
fn in_order(routes: &[LearnedRoute]) -> Cow<'_, [LearnedRoute]> {
    let sorted = |hops: &[LearnedHop]| hops.is_sorted_by(|one, next| one < next);
    let is =
        |route: &LearnedRoute| route.prefix == route.prefix.trunc() && sorted(&route.next_hops);
    if routes.iter().all(is) {
        return Cow::Borrowed(routes);
    }
    let put = |route: &LearnedRoute| {
        let mut next_hops = route.next_hops.to_vec();
        next_hops.sort();
        next_hops.dedup();
        LearnedRoute { prefix: route.prefix.trunc(), next_hops: next_hops.into() }
    };
    Cow::Owned(routes.iter().map(put).collect())
}

/// Cut where a prefix comes again, so that what is said later happens later.
pub(crate) fn runs<T>(routes: &[T], prefix: impl Fn(&T) -> IpNet) -> Vec<&[T]> {
    // As the agent sends them: nothing to remember.
    if routes.is_sorted_by(|one, next| prefix(one) < prefix(next)) {
        return vec![routes];
    }
    let mut runs = Vec::new();
    let mut seen = HashSet::with_capacity(routes.len());
    let mut start = 0;
    for (place, route) in routes.iter().enumerate() {
        let prefix = prefix(route);
        if !seen.insert(prefix) {
            runs.extend(routes.get(start..place));
            start = place;
            seen = HashSet::from([prefix]);
        }
    }
    runs.extend(routes.get(start..));
    runs
}

/// A route that is not settled yet, and where its verdict goes.
type Open<'a> = (&'a LearnedRoute, &'a mut Result<(), Error>);

fn set_distinct(
    host: &mut Channel,
    routes: &[LearnedRoute],
) -> Result<Vec<Result<(), Error>>, Error> {
    let mut verdicts: Vec<Result<(), Error>> = routes.iter().map(check).collect();
    let sound: Vec<Open<'_>> =
        routes.iter().zip(&mut verdicts).filter(|(_, verdict)| verdict.is_ok()).collect();
    let refusals = host.refusals(&sound, |bytes, (route, _), flags, sequence| {
        message::write(bytes, route, Mode::Create, flags, sequence);
    })?;
    let mut in_the_way = Vec::new();
    for ((route, verdict), refusal) in sound.into_iter().zip(refusals) {
        let removed = route.next_hops.is_empty();
        match refusal {
            Some(refusal) if removed && refusal.is(Errno::SRCH) => {}
            Some(refusal) if !removed && refusal.is(Errno::EXIST) => {
                in_the_way.push((route, verdict));
            }
            Some(refusal) => *verdict = Err(refused(route, refusal)),
            None => {}
        }
    }
    if !in_the_way.is_empty() {
        replace(host, in_the_way)?;
    }
    Ok(verdicts)
}

/// Caught before the kernel sees it: its words for these would not help.
fn check(route: &LearnedRoute) -> Result<(), Error> {
    let prefix = route.prefix;
    if route.next_hops.len() > MOST_HOPS {
        let count = route.next_hops.len();
        let what = format!("route {prefix}: {count} next hops, at most {MOST_HOPS} fit");
        return Err(Error::BadRequest { what });
    }
    let backward = |hop: &&LearnedHop| prefix.addr().is_ipv6() && hop.via.is_ipv4();
    if let Some(hop) = route.next_hops.iter().find(backward) {
        let what = format!("route {prefix} via {}: an IPv6 route needs an IPv6 router", hop.via);
        return Err(Error::BadRequest { what });
    }
    Ok(())
}

/// Replaces those that are ours; what is another's refuses them.
fn replace(host: &mut Channel, routes: Vec<Open<'_>>) -> Result<(), Error> {
    let standing = standing(host, &routes)?;
    let mut asked = Vec::with_capacity(routes.len());
    for (route, verdict) in routes {
        let mode = match standing.get(&route.prefix) {
            Some(entry) if entry.protocol != PROTOCOL => {
                let (metric, protocol) = (entry.metric, entry.protocol);
                *verdict = Err(Error::RouteTaken { prefix: route.prefix, metric, protocol });
                continue;
            }
            Some(_) => Mode::Ensure,
            // Gone since, and perhaps another's by now.
            None => Mode::Create,
        };
        asked.push((route, mode, verdict));
    }
    let refusals = host.refusals(&asked, |bytes, (route, mode, _), flags, sequence| {
        message::write(bytes, route, *mode, flags, sequence);
    })?;
    for ((route, _, verdict), refusal) in asked.into_iter().zip(refusals) {
        if let Some(refusal) = refusal {
            *verdict = Err(refused(route, refusal));
        }
    }
    Ok(())
}

/// The first entry with a learned route's metric for each prefix: the one
/// that the kernel would replace. Where a better entry, or a longer prefix,
/// hides one from a lookup, the whole table is read.
fn standing(host: &mut Channel, routes: &[Open<'_>]) -> Result<HashMap<IpNet, RouteView>, Error> {
    let mut standing = HashMap::with_capacity(routes.len());
    // By the last address: longer prefixes more often begin where this one does.
    let last = |route: &LearnedRoute| request::lookup(route.prefix.broadcast(), true);
    let lookups: Vec<Request> = routes.iter().map(|(route, _)| last(route)).collect();
    for ((route, _), answer) in routes.iter().zip(host.batch(&lookups)?) {
        let entry = first_route(&answer).filter(has_the_place_of_learned);
        let entry = entry.filter(|entry| entry.destination == route.prefix && !entry.selective);
        standing.extend(entry.map(|entry| (route.prefix, entry)));
    }
    for family in FAMILIES {
        let hidden = |(route, _): &Open<'_>| {
            request::family_of(route.prefix.addr()) == family
                && !standing.contains_key(&route.prefix)
        };
        if !routes.iter().any(hidden) {
            continue;
        }
        let entries = all_routes(host, family, None)?.into_iter();
        for entry in entries.filter(|entry| has_the_place_of_learned(entry) && !entry.selective) {
            standing.entry(entry.destination).or_insert(entry);
        }
    }
    Ok(standing)
}

fn refused(route: &LearnedRoute, refusal: Refusal) -> Error {
    let prefix = route.prefix;
    let what = match &*route.next_hops {
        [] => format!("remove learned route {prefix}"),
        [hop] => format!("install learned route {prefix} via {} dev {}", hop.via, hop.dev),
        hops => format!("install learned route {prefix} over {} next hops", hops.len()),
    };
    Error::Kernel { what, refusal }
}
