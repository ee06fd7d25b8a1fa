//! A full table into a node's kernel and out of it again: the agent that imports it,
//! beside BIRD with its kernel protocol, each fed the same bytes.
//!
//! The last prefix that is told is a sentinel, and so is the last that is withdrawn.
//! Whether the kernel has it is seen by connecting a UDP socket, which takes no lock
//! and costs neither of them anything; only then the table is counted.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::json;

use super::node::Place;
use crate::bench::bgp::Family;
use crate::bench::bgp::configs::{Peer, Role, Wishes};
use crate::bench::bgp::message::{announce, plain_attributes, prefix, withdraw_of};
use crate::bench::bgp::router::{Kind, Router};
use crate::bench::bgp::session::{Identity, Session, listen};
use crate::bench::bgp::start::SPEAKER;
use crate::bench::bgp::table::{Table, Wish};
use crate::bench::bgp::usage::{self, Usage};
use crate::link::{End, connect};
use crate::netns::Netns;
use crate::node::Builder;
use crate::wait::go_on;

/// Who sends the table.
const FEEDER: u32 = 65_010;
const LINK: u8 = 1;
const NODE_HOST: u8 = 1;
const FEEDER_HOST: u8 = 2;
/// Nobody has to keep anything alive for as long as a round takes.
const HOLD: u16 = 240;
/// Between two looks for the sentinel.
const GLANCE: Duration = Duration::from_micros(500);
/// Routes of a link itself that may come while others are counted (IPv6: it has an address of its own
/// when it is up for a while).
const SLACK: usize = 8;
/// The pods' networks of this node are nobody's concern here.
const NUMBER: u8 = 1;

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The agent.
    Flock,
    /// BIRD with a kernel protocol.
    Bird,
}

impl Who {
    /// What a table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flock => "flock",
            Self::Bird => "BIRD",
        }
    }
}

/// What a round gave.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// From the first byte until all routes are in the kernel, in seconds.
    pub installed: f64,
    /// From the first byte of their withdrawal until none is, in seconds.
    pub removed: f64,
    /// Processor time a route while they come, in seconds.
    pub processor: f64,
    /// Resident bytes a route when all are there.
    pub resident: f64,
    /// The same at the worst moment until then.
    pub peak: f64,
}

/// A table, and what withdraws it, ready to be sent.
#[derive(Debug)]
pub struct Load {
    family: Family,
    routes: usize,
    announced: Vec<u8>,
    withdrawn: Vec<u8>,
}

impl Load {
    /// So many routes with so many different sets of attributes.
    pub fn new(family: Family, routes: usize, sets: usize) -> Result<Self> {
        let next_hop = family.address(LINK, FEEDER_HOST).parse()?;
        let wish = Wish { family, routes, sets, asn: FEEDER, next_hop };
        let table = Table::new(&wish)?;
        let (address, length) = sentinel(family);
        let nlri = prefix(address, length);
        let mut withdrawn = table.withdrawal(family)?;
        let mut announced = table.bytes;
        announced.extend(announce(&plain_attributes(&[FEEDER])?, next_hop, &nlri)?);
        withdrawn.extend(withdraw_of(family, &nlri)?);
        Ok(Self { family, routes: routes + 1, announced, withdrawn })
    }
}

/// One round: a new process, the table into its kernel and out again. `limit` bounds each way.
pub fn round(who: Who, load: &Load, dir: &Path, limit: Duration) -> Result<Round> {
    let far = Netns::new("far")?;
    far.loopback_up()?;
    let mut node = match who {
        Who::Flock => Node::flock(&far, load.family, dir)?,
        Who::Bird => Node::bird(&far, load.family)?,
    };
    let listener = listen(&far, load.family.address(LINK, FEEDER_HOST).parse()?)?;
    node.start(load.family)?;
    let outcome = through(&mut node, &listener, load, limit);
    node.explain(outcome).with_context(|| format!("a table into the kernel by {}", who.name()))
}

fn through(node: &mut Node, listener: &TcpListener, load: &Load, limit: Duration) -> Result<Round> {
    let id = "192.0.2.10".parse()?;
    let identity = Identity { asn: FEEDER, id, family: load.family, hold: HOLD };
    let mut session = Session::accept(listener, &identity, limit)?;
    let watch = Watch::new(node.netns(), load.family)?;
    let empty = watch.count(node.netns())?;
    let before = node.usage()?;
    let installed = timed(&mut session, &load.announced, || watch.until(true, limit))?;
    let after = node.usage()?;
    watch.settle(node.netns(), empty + load.routes, limit)?;
    let removed = timed(&mut session, &load.withdrawn, || watch.until(false, limit))?;
    watch.settle(node.netns(), empty, limit)?;
    let routes = load.routes as f64;
    Ok(Round {
        installed,
        removed,
        processor: after.processor.saturating_sub(before.processor).as_secs_f64() / routes,
        resident: (after.resident as f64 - before.resident as f64) / routes,
        peak: (after.peak as f64 - before.resident as f64) / routes,
    })
}

/// Seconds from the first byte until what was awaited.
fn timed(
    session: &mut Session,
    bytes: &[u8],
    awaited: impl FnOnce() -> Result<Instant>,
) -> Result<f64> {
    let hang_up = session.hang_up()?;
    thread::scope(|scope| {
        let start = Instant::now();
        let feeding = scope.spawn(move || session.write(bytes));
        let end = awaited();
        if end.is_err() {
            // Else the feeder would wait for room for ever.
            hang_up();
        }
        let fed = feeding.join().map_err(|_| anyhow!("the feeder panicked"))?;
        let end = end?;
        fed?;
        Ok((end - start).as_secs_f64())
    })
}

/// Prefixes that come last; those of a table are before them.
fn sentinel(family: Family) -> (IpAddr, u8) {
    match family {
        Family::V4 => (IpAddr::from([223, 255, 255, 1]), 32),
        Family::V6 => (IpAddr::from([0x2c0f, 0xffff, 0, 0, 0, 0, 0, 1]), 128),
    }
}

/// Looks whether a kernel has the sentinel.
struct Watch {
    socket: UdpSocket,
    sentinel: SocketAddr,
    routes: &'static str,
}

impl Watch {
    fn new(netns: &Netns, family: Family) -> Result<Self> {
        let (any, routes) = match family {
            Family::V4 => ("0.0.0.0:0", "/proc/thread-self/net/route"),
            Family::V6 => ("[::]:0", "/proc/thread-self/net/rt6_stats"),
        };
        let socket = netns.within(|| Ok(UdpSocket::bind(any)?))?;
        Ok(Self { socket, sentinel: (sentinel(family).0, 9).into(), routes })
    }

    fn sees(&self) -> Result<bool> {
        match self.socket.connect(self.sentinel) {
            Ok(()) => Ok(true),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error).context("looking for the sentinel"),
        }
    }

    fn until(&self, there: bool, limit: Duration) -> Result<Instant> {
        let deadline = Instant::now() + limit;
        while self.sees()? != there {
            go_on()?;
            ensure!(Instant::now() < deadline, "it took longer than {limit:?}");
            thread::sleep(GLANCE);
        }
        Ok(Instant::now())
    }

    /// What the kernel has: for IPv4 by lines of a file that it writes, for IPv6 by its own figure.
    /// (Each part of the list of IPv6 is found by a walk from its beginning, with the table locked:
    /// minutes for 500,000.)
    fn count(&self, netns: &Netns) -> Result<usize> {
        netns.within(|| {
            if self.sentinel.is_ipv6() {
                return entries(&std::fs::read_to_string(self.routes)?);
            }
            let mut file = File::open(self.routes)?;
            let mut buffer = vec![0; 1 << 20];
            let mut lines = 0;
            loop {
                let read = file.read(&mut buffer)?;
                if read == 0 {
                    return Ok(lines);
                }
                let part = buffer.get(..read).unwrap_or_default();
                lines += part.iter().filter(|byte| **byte == b'\n').count();
            }
        })
    }

    /// The sentinel may have overtaken a few; of many that would be a mistake of ours.
    fn settle(&self, netns: &Netns, wanted: usize, limit: Duration) -> Result<()> {
        let first = self.count(netns)?;
        ensure!(
            first.abs_diff(wanted) < 10_000,
            "{first} routes behind the sentinel, not {wanted}"
        );
        let deadline = Instant::now() + limit;
        let mut found = first;
        while found.abs_diff(wanted) > SLACK {
            go_on()?;
            if Instant::now() > deadline {
                bail!("{found} routes are in the kernel, not {wanted}");
            }
            thread::sleep(Duration::from_millis(100));
            found = self.count(netns)?;
        }
        Ok(())
    }
}

/// The routes of `/proc/net/rt6_stats`: the fourth of its figures, hexadecimal all of them.
fn entries(stats: &str) -> Result<usize> {
    let entries = stats.split_ascii_whitespace().nth(3).context("no figure of routes")?;
    Ok(usize::from_str_radix(entries, 16)?)
}

/// Who has the kernel.
enum Node {
    Flock(Box<Place>),
    Bird(Netns, Option<Router>),
}

impl Node {
    fn flock(far: &Netns, family: Family, dir: &Path) -> Result<Self> {
        let [near, there] = [NODE_HOST, FEEDER_HOST].map(|host| family.with_length(LINK, host));
        let end = End { netns: far, ifname: "node", addresses: &[&there] };
        let node = Builder::default().state_in(dir).uplink(end, &[&near]).build()?;
        let families = match family {
            Family::V4 => "ipv4-unicast",
            Family::V6 => "ipv6-unicast",
        };
        let speaks = json!({
            "asn": SPEAKER,
            "routerId": "192.0.2.1",
            "listenPort": 0,
            "peers": [{
                "name": "feeder",
                "address": family.address(LINK, FEEDER_HOST),
                "asn": FEEDER,
                "families": [families],
                "connectRetry": "1s",
                "holdTime": "240s",
                "import": {
                    "accept": ["0.0.0.0/0 le 32", "::/0 le 128"],
                    "maxPrefixes": 4_000_000,
                },
            }],
        });
        Ok(Self::Flock(Box::new(Place::new(node, NUMBER, speaks)?)))
    }

    fn bird(far: &Netns, family: Family) -> Result<Self> {
        let netns = Netns::new("node")?;
        netns.loopback_up()?;
        let [near, there] = [NODE_HOST, FEEDER_HOST].map(|host| family.with_length(LINK, host));
        connect(
            End { netns: &netns, ifname: "uplink", addresses: &[&near] },
            End { netns: far, ifname: "node", addresses: &[&there] },
        )?;
        Ok(Self::Bird(netns, None))
    }

    fn start(&mut self, family: Family) -> Result<()> {
        match self {
            Self::Flock(place) => place.start(&[]),
            Self::Bird(netns, router) => {
                let wishes = Wishes {
                    family,
                    asn: SPEAKER,
                    id: "192.0.2.1".to_owned(),
                    peers: vec![Peer {
                        name: "feeder".to_owned(),
                        address: family.address(LINK, FEEDER_HOST),
                        local: family.address(LINK, NODE_HOST),
                        asn: FEEDER,
                        passive: false,
                    }],
                    role: Role::TopOfRack,
                };
                *router = Some(Router::start(Kind::Bird, netns, &wishes)?);
                Ok(())
            }
        }
    }

    fn netns(&self) -> &Netns {
        match self {
            Self::Flock(place) => place.node().netns(),
            Self::Bird(netns, _) => netns,
        }
    }

    fn usage(&mut self) -> Result<Usage> {
        match self {
            Self::Flock(place) => usage::of(place.node_mut().agent()?.pid()),
            Self::Bird(_, router) => router.as_ref().context("it was not started")?.usage(),
        }
    }

    fn explain<T>(&mut self, outcome: Result<T>) -> Result<T> {
        match self {
            Self::Flock(place) => place.explain(outcome),
            Self::Bird(_, Some(router)) => router.explain(outcome),
            Self::Bird(_, None) => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figure_of_routes_is_the_fourth_and_hexadecimal() {
        assert_eq!(entries("0009 0006 0013 f4240 0000 0000 0000\n").unwrap(), 1_000_000);
        assert!(entries("0009 0006").is_err() && entries("1 2 3 none").is_err());
    }
}
