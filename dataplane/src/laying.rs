//! The node's own routes, laid and taken away, many at a time.
//!
//! Decides in which rounds the kernel is asked: what is there is looked up for
//! all of them at once, then all are done at once, a verdict for each. Only
//! what is refused, or hidden from a lookup, has the table read, once for all.
//! Decides, too, that nothing of anybody else's is replaced or removed. Which
//! routes should be there is the agent's, what they are is `routes`'s.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netlink_packet_route::route::RouteType;
use rustix::io::Errno;

use crate::channel::{Channel, Request};
use crate::error::{Error, Refusal};
use crate::fault;
use crate::learned::{is_learned, runs};
use crate::observe::{all_routes, shown};
use crate::reply::Answer;
use crate::request::{self, Mode, PROTOCOL};
use crate::routes::{
    NextHop, NodeRoute, RouteKey, SUMMARY_METRIC, admits_anycast, is_anycast, is_summary,
};
use crate::view::RouteView;
use crate::worker::{Pool, Worker};

/// Wishes in one job. Pods wait for the same threads, and the monitor has to
/// read an event for each.
const PART: usize = 1024;
/// Wishes that are a brief job.
const FEW: usize = 4;

/// What is to become of one route of the node's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteWish {
    /// Created, or replaced where it has the same key.
    Set(NodeRoute),
    /// Taken away.
    Remove(RouteKey),
}

impl RouteWish {
    fn destination(&self) -> IpNet {
        match self {
            Self::Set(NodeRoute::Blackhole { prefix })
            | Self::Remove(RouteKey::Blackhole(prefix)) => prefix.trunc(),
            Self::Set(NodeRoute::Anycast { address, .. })
            | Self::Remove(RouteKey::Anycast(address)) => IpNet::from(*address),
        }
    }

    /// The next hops of a route that is to be there.
    fn hops(&self) -> &[Arc<NextHop>] {
        match self {
            Self::Set(NodeRoute::Anycast { next_hops, .. }) => next_hops,
            _ => &[],
        }
    }

    /// The anycast address of which has to be known what is there: to replace
    /// nothing else, and in IPv4 to remove nothing else.
    fn looked_up(&self) -> Option<IpAddr> {
        match self {
            Self::Set(NodeRoute::Anycast { address, next_hops }) if !next_hops.is_empty() => {
                Some(*address)
            }
            Self::Set(NodeRoute::Anycast { address, .. })
            | Self::Remove(RouteKey::Anycast(address))
                if address.is_ipv4() =>
            {
                Some(*address)
            }
            _ => None,
        }
    }
}

type Verdict = Result<(), Error>;

/// See [`crate::Dataplane::lay`]. An error of the whole means that the kernel
/// could not be spoken to, and that some may be done.
pub(crate) async fn lay_all(
    pool: &Pool,
    mut wishes: Vec<RouteWish>,
) -> Result<Vec<Verdict>, Error> {
    let mut verdicts = Vec::with_capacity(wishes.len());
    while !wishes.is_empty() {
        let rest = wishes.split_off(wishes.len().min(PART));
        let few = wishes.len() <= FEW;
        let lay = move |worker: &mut Worker| lay_part(worker, &wishes);
        verdicts.extend(if few { pool.run_brief(lay).await? } else { pool.run(lay).await? });
        wishes = rest;
    }
    pool.count(&verdicts);
    Ok(verdicts)
}

fn lay_part(worker: &mut Worker, wishes: &[RouteWish]) -> Result<Vec<Verdict>, Error> {
    let sets = wishes.iter().any(|wish| matches!(wish, RouteWish::Set(_)));
    if sets {
        fault::point("set-route.before")?;
    }
    let mut verdicts = Vec::with_capacity(wishes.len());
    for run in runs(wishes, RouteWish::destination) {
        verdicts.extend(lay_distinct(worker, run)?);
    }
    if sets {
        fault::point("set-route.after")?;
    }
    Ok(verdicts)
}

/// What is asked of the kernel for a wish.
enum Asked {
    /// This; whatever it replaces is ours.
    This(Request),
    /// An anycast route over these ways, where nothing is yet.
    Created(Vec<(IpAddr, u32)>),
    /// Nothing: it is so already.
    Nothing,
}

/// A wish of whose creation the kernel said that something is there already.
type Refused<'a> = (&'a RouteWish, Vec<(IpAddr, u32)>, &'a mut Verdict);

fn lay_distinct(worker: &mut Worker, wishes: &[RouteWish]) -> Result<Vec<Verdict>, Error> {
    let seen = Seen::look(worker, wishes)?;
    let host = worker.host()?;
    let mut tables = Tables::default();
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(wishes.len());
    let (mut requests, mut places) = (Vec::new(), Vec::new());
    for (place, wish) in wishes.iter().enumerate() {
        let asked = ask(host, wish, &seen, &mut tables);
        let (created, request) = match asked {
            Ok(Asked::This(request)) => (None, request),
            Ok(Asked::Created(ways)) => {
                let request = request::set_multipath(wish.destination(), &ways, Mode::Create);
                (Some(ways), request)
            }
            Ok(Asked::Nothing) => {
                verdicts.push(Ok(()));
                continue;
            }
            Err(error) => {
                verdicts.push(Err(error));
                continue;
            }
        };
        verdicts.push(Ok(()));
        requests.push(request);
        places.push((place, created));
    }
    let answers = host.batch(&requests)?;
    let mut open: Vec<Option<&mut Verdict>> = verdicts.iter_mut().map(Some).collect();
    let mut refused: Vec<Refused<'_>> = Vec::new();
    for ((place, created), answer) in places.into_iter().zip(answers) {
        let Some(wish) = wishes.get(place) else { continue };
        let Some(verdict) = open.get_mut(place).and_then(Option::take) else { continue };
        match (answer.verdict, created) {
            (Some(Err(refusal)), Some(ways)) if refusal.is(Errno::EXIST) => {
                refused.push((wish, ways, verdict));
            }
            (Some(Err(refusal)), _) => *verdict = judge(wish, refusal),
            _ => {}
        }
    }
    if !refused.is_empty() {
        replace(host, refused)?;
    }
    Ok(verdicts)
}

/// What to ask for a wish, by what was seen.
fn ask(
    host: &mut Channel,
    wish: &RouteWish,
    seen: &Seen,
    tables: &mut Tables,
) -> Result<Asked, Error> {
    let destination = wish.destination();
    let request = match wish {
        RouteWish::Set(NodeRoute::Blackhole { .. }) => {
            request::set_unreachable(destination, SUMMARY_METRIC)
        }
        RouteWish::Remove(RouteKey::Blackhole(_)) => {
            request::remove_route(destination, RouteType::Unreachable, SUMMARY_METRIC)
        }
        RouteWish::Set(NodeRoute::Anycast { address, next_hops }) if !next_hops.is_empty() => {
            return set_anycast(host, *address, next_hops, seen, tables);
        }
        RouteWish::Set(NodeRoute::Anycast { address, .. })
        | RouteWish::Remove(RouteKey::Anycast(address)) => {
            if address.is_ipv6() {
                request::remove_route(destination, RouteType::Unicast, request::IPV6_METRIC)
            } else {
                let Some((via, index)) = anycast_hop(host, *address, seen, tables)? else {
                    return Ok(Asked::Nothing);
                };
                request::remove_route_through(destination, via, index)
            }
        }
    };
    Ok(Asked::This(request))
}

/// Replaces an anycast route of ours and nothing else. What the lookup does
/// not show (unreachable routes, and what rules or the node's own addresses
/// hide) refuses the creation, and only then the whole table is read.
fn set_anycast(
    host: &mut Channel,
    address: IpAddr,
    hops: &[Arc<NextHop>],
    seen: &Seen,
    tables: &mut Tables,
) -> Result<Asked, Error> {
    let ways = seen.resolve(address, hops)?;
    let destination = IpNet::from(address);
    let exact = |route: &RouteView| route.destination == destination && route.in_main_table();
    let mut entry = seen.entry(address)?.filter(exact);
    if entry.as_ref().is_some_and(is_learned) {
        // It yields to an anycast route, but may hide another's.
        let there = tables.all(host, destination)?.iter();
        let others = there.filter(|route| !route.selective && !is_learned(route));
        entry = others.min_by_key(|route| route.metric).cloned();
    }
    match entry {
        Some(route) if is_anycast(&route) => {
            Ok(Asked::This(request::set_multipath(destination, &ways, Mode::Ensure)))
        }
        Some(route) if !is_summary(&route) => Err(Error::AddressTaken { address }),
        _ => Ok(Asked::Created(ways)),
    }
}

/// The first next hop of an anycast route, if it is there. IPv4 has no words
/// for "the route without a metric": without a next hop to tell it by, a
/// learned route would be removed where there is no anycast one.
fn anycast_hop(
    host: &mut Channel,
    address: IpAddr,
    seen: &Seen,
    tables: &mut Tables,
) -> Result<Option<(IpAddr, u32)>, Error> {
    let destination = IpNet::from(address);
    let wanted = |route: &RouteView| route.destination == destination && is_anycast(route);
    let mut found = seen.entry(address)?.filter(wanted);
    if found.is_none() {
        found = tables.ours(host, destination)?.iter().find(|route| wanted(route)).cloned();
    }
    let hop = found.and_then(|route| route.hops.into_iter().next());
    Ok(hop.and_then(|hop| Some((hop.via?, hop.index))))
}

/// Something was there that no lookup showed: replaced where it is ours.
fn replace(host: &mut Channel, refused: Vec<Refused<'_>>) -> Result<(), Error> {
    // Read now: what was there before the refusal is not what refused.
    let mut tables = Tables::default();
    let (mut requests, mut asked) = (Vec::new(), Vec::new());
    for (wish, ways, verdict) in refused {
        let destination = wish.destination();
        let address = destination.addr();
        if !tables.all(host, destination)?.iter().all(admits_anycast) {
            *verdict = Err(Error::AddressTaken { address });
            continue;
        }
        requests.push(request::set_multipath(destination, &ways, Mode::Ensure));
        asked.push((wish, verdict));
    }
    for ((wish, verdict), answer) in asked.into_iter().zip(host.batch(&requests)?) {
        if let Some(Err(refusal)) = answer.verdict {
            *verdict = judge(wish, refusal);
        }
    }
    Ok(())
}

/// What the kernel's refusal means. What is not there needs no removal.
fn judge(wish: &RouteWish, refusal: Refusal) -> Verdict {
    let destination = wish.destination();
    let what = match wish {
        RouteWish::Set(NodeRoute::Blackhole { .. }) => {
            format!("set unreachable route {destination}")
        }
        RouteWish::Set(NodeRoute::Anycast { address, next_hops }) if !next_hops.is_empty() => {
            format!("set anycast route {address} over {} next hops", next_hops.len())
        }
        _ if refusal.is(Errno::SRCH) => return Ok(()),
        _ => format!("remove route {destination}"),
    };
    Err(Error::Kernel { what, refusal })
}

/// What one round of lookups said of all that is asked for.
struct Seen {
    /// Index, and whether it is retired, by name.
    links: HashMap<String, Result<Option<(u32, bool)>, Refusal>>,
    entries: HashMap<IpAddr, Answer>,
}

impl Seen {
    fn look(worker: &mut Worker, wishes: &[RouteWish]) -> Result<Self, Error> {
        let names: BTreeSet<&str> =
            wishes.iter().flat_map(RouteWish::hops).map(|hop| hop.dev.as_str()).collect();
        let addresses: Vec<IpAddr> = wishes.iter().filter_map(RouteWish::looked_up).collect();
        let lookups: Vec<Request> =
            addresses.iter().map(|address| request::lookup(*address, true)).collect();
        let host = worker.host()?;
        let found: Vec<_> = names.into_iter().map(|name| (name, host.index_of(name))).collect();
        let entries = addresses.into_iter().zip(host.batch(&lookups)?).collect();
        let link = |(name, found): (&str, Result<Option<u32>, Refusal>)| {
            // One that a former process left with its group is nobody's next hop: no entry knows it.
            let link = found.map(|index| index.map(|index| (index, worker.is_condemned(name))));
            (name.to_owned(), link)
        };
        Ok(Self { links: found.into_iter().map(link).collect(), entries })
    }

    /// The entry that decides about an address.
    fn entry(&self, address: IpAddr) -> Result<Option<RouteView>, Error> {
        self.entries.get(&address).map_or(Ok(None), |answer| shown(address, answer))
    }

    /// The hops that can be led to, sorted: one pod that is gone, or is about
    /// to be, must not keep the others from being served.
    fn resolve(&self, address: IpAddr, hops: &[Arc<NextHop>]) -> Result<Vec<(IpAddr, u32)>, Error> {
        let hops: BTreeSet<&Arc<NextHop>> = hops.iter().collect();
        let mut ways = Vec::with_capacity(hops.len());
        for hop in &hops {
            let link = match self.links.get(&hop.dev) {
                Some(Err(refusal)) => {
                    let what = format!("look up interface {}", hop.dev);
                    return Err(Error::Kernel { what, refusal: refusal.clone() });
                }
                Some(Ok(link)) => *link,
                None => None,
            };
            match link {
                Some((index, false)) => ways.push((hop.via, index)),
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
            Some(hop) if ways.is_empty() => Err(Error::NoSuchLink { name: hop.dev.clone() }),
            _ => Ok(ways),
        }
    }
}

/// The main tables by destination, each read when it is first needed.
#[derive(Default)]
struct Tables {
    all: HashMap<u8, Table>,
    ours: HashMap<u8, Table>,
}

type Table = HashMap<IpNet, Vec<RouteView>>;

impl Tables {
    /// Everybody's routes to exactly that destination.
    fn all(&mut self, host: &mut Channel, to: IpNet) -> Result<&[RouteView], Error> {
        routes_to(&mut self.all, host, to, None)
    }

    /// Those that carry flock's protocol number.
    fn ours(&mut self, host: &mut Channel, to: IpNet) -> Result<&[RouteView], Error> {
        routes_to(&mut self.ours, host, to, Some(PROTOCOL))
    }
}

fn routes_to<'t>(
    tables: &'t mut HashMap<u8, Table>,
    host: &mut Channel,
    to: IpNet,
    protocol: Option<u8>,
) -> Result<&'t [RouteView], Error> {
    let family = request::family_of(to.addr());
    let table = match tables.entry(u8::from(family)) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unread) => {
            let mut table = Table::new();
            for route in all_routes(host, family, protocol)? {
                table.entry(route.destination).or_default().push(route);
            }
            unread.insert(table)
        }
    };
    Ok(table.get(&to).map_or(&[], Vec::as_slice))
}
