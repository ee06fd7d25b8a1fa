//! One change on a node, until the route is in the kernel of the router beyond.
//!
//! The router at the top of the rack is BIRD with a kernel protocol, and the
//! watch is the kernel's own report in its namespace. On the nodes are:
//! a plain program with a session and an UPDATE ready to be written (the
//! floor), the same behind a pipe (what being told costs, before anything is
//! done about it), our speaker told by a line on its standard input, and BIRD
//! whose configuration is written anew and read by `birdc configure`. All of
//! them have their session with the same router at the same time, and take
//! turns.

use std::io::{PipeWriter, Read, Write, pipe};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Family;
use super::configs::{self, Peer, Role, Wishes, flock_routes};
use super::kernel::{Change, News};
use super::message::{HEADER, LONGEST, announce, plain_attributes, prefix, withdraw};
use super::router::{Kind, Router};
use super::session::{Identity, Session};
use crate::bench::samples::Samples;
use crate::link::{End, connect};
use crate::netns::Netns;
use crate::wait::go_on;

const TOR: u32 = 65_000;
const TOR_HOST: u8 = 1;
const NODE_HOST: u8 = 2;
const LIMIT: Duration = Duration::from_secs(30);
/// Between changes, so that each finds everybody asleep.
const PAUSE: Duration = Duration::from_millis(1);

/// Who originates on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A plain program with the bytes ready.
    Floor,
    /// One that reads the bytes from a pipe.
    Relay,
    /// Our speaker.
    Flock,
    /// BIRD, by `birdc configure`.
    Bird,
}

/// A node that is to take part, and how many prefixes it originates all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entrant {
    /// Who it is.
    pub who: Who,
    /// Prefixes originated throughout.
    pub originated: usize,
}

/// What the changes of one entrant took, in milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// One more route.
    pub announce: Samples,
    /// One route fewer.
    pub withdraw: Samples,
    /// Many more at once, until the last.
    pub announce_many: Samples,
    /// Many fewer at once, until the last.
    pub withdraw_many: Samples,
    /// Many more at once while others want every processor.
    pub announce_starved: Samples,
}

/// The rack.
#[derive(Debug)]
pub struct Rack {
    nodes: Vec<Node>,
    news: News,
    tor: Router,
    _netns: Netns,
}

#[derive(Debug)]
struct Node {
    number: u8,
    speaker: Speaker,
    base: Vec<Ipv4Addr>,
    _netns: Netns,
}

#[derive(Debug)]
enum Speaker {
    Plain(Session),
    Relay(PipeWriter),
    Flock(Router),
    Bird(Router, Wishes),
}

/// A change that only has to be said.
enum Prepared {
    Bytes(Vec<u8>),
    Line(String),
    Config(String),
}

impl Rack {
    /// Builds it and awaits that every node's prefixes are in the kernel.
    pub fn new(entrants: &[Entrant]) -> Result<Self> {
        let netns = Netns::new("tor")?;
        netns.loopback_up()?;
        let mut places = Vec::new();
        for (number, entrant) in (1_u8..).zip(entrants) {
            let node = Netns::new("node")?;
            node.loopback_up()?;
            let [tor, near] =
                [TOR_HOST, NODE_HOST].map(|host| Family::V4.with_length(number, host));
            connect(
                End { netns: &netns, ifname: &format!("node{number}"), addresses: &[&tor] },
                End { netns: &node, ifname: "uplink", addresses: &[&near] },
            )?;
            places.push((number, entrant, node));
        }
        let news = News::of(&netns)?;
        let peers = places.iter().map(|(number, ..)| Peer {
            name: format!("node{number}"),
            address: Family::V4.address(*number, NODE_HOST),
            local: Family::V4.address(*number, TOR_HOST),
            asn: asn(*number),
            passive: true,
        });
        let wishes = Wishes {
            family: Family::V4,
            asn: TOR,
            id: "192.0.2.200".to_owned(),
            peers: peers.collect(),
            role: Role::TopOfRack,
        };
        let tor = Router::start(Kind::Bird, &netns, &wishes)?;
        let mut rack = Self { nodes: Vec::new(), news, tor, _netns: netns };
        for (number, entrant, netns) in places {
            let node = Node::start(number, entrant, netns)?;
            rack.settle(node)?;
        }
        Ok(rack)
    }

    fn settle(&mut self, mut node: Node) -> Result<()> {
        let prepared = node.prepare(Change::Installed, &[])?;
        if let Speaker::Plain(_) | Speaker::Relay(_) = node.speaker {
            node.perform(&prepared)?;
        }
        let (count, number) = (node.base.len(), node.number);
        let there = self.news.until(Change::Installed, count, LIMIT, is_of(number));
        let there = node.explain(there);
        self.tor.explain(there).with_context(|| format!("the prefixes of node {number}"))?;
        self.nodes.push(node);
        Ok(())
    }

    /// A turn of one entrant: single changes, one after the other.
    pub fn singles(&mut self, entrant: usize, count: u8, times: &mut Times) -> Result<()> {
        for number in 0..count {
            let address = [Ipv4Addr::new(10, 0, 250, number)];
            times.announce.push(self.time(entrant, Change::Installed, &address)?);
            times.withdraw.push(self.time(entrant, Change::Removed, &address)?);
        }
        Ok(())
    }

    /// A turn of one entrant: many changes at once.
    pub fn many(&mut self, entrant: usize, count: usize, times: &mut Times) -> Result<()> {
        let addresses = addresses(0, 100, count);
        times.announce_many.push(self.time(entrant, Change::Installed, &addresses)?);
        times.withdraw_many.push(self.time(entrant, Change::Removed, &addresses)?);
        Ok(())
    }

    /// The same while two threads for every processor do nothing else than run.
    pub fn many_starved(&mut self, entrant: usize, count: usize, times: &mut Times) -> Result<()> {
        let addresses = addresses(0, 100, count);
        let stop = AtomicBool::new(false);
        let hogs = 2 * thread::available_parallelism().map_or(1, usize::from);
        let elapsed = thread::scope(|scope| {
            for _ in 0..hogs {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let elapsed = self.time(entrant, Change::Installed, &addresses);
            stop.store(true, Ordering::Relaxed);
            elapsed
        });
        times.announce_starved.push(elapsed?);
        self.time(entrant, Change::Removed, &addresses).map(drop)
    }

    /// Milliseconds until the kernel reports the last of these.
    fn time(&mut self, entrant: usize, change: Change, addresses: &[Ipv4Addr]) -> Result<f64> {
        go_on()?;
        let node = self.nodes.get_mut(entrant).context("no such entrant")?;
        let number = node.number;
        let mine: Vec<_> = addresses.iter().map(|address| of_node(number, *address)).collect();
        let prepared = node.prepare(change, &mine)?;
        thread::sleep(PAUSE);
        let start = Instant::now();
        let birdc = node.perform(&prepared)?;
        let end = self.news.until(change, mine.len(), LIMIT, is_of(number));
        let end = self.tor.explain(node.explain(end))?;
        if let Some(mut birdc) = birdc {
            ensure!(birdc.wait()?.success(), "birdc configure failed");
        }
        Ok((end - start).as_secs_f64() * 1000.0)
    }
}

impl Node {
    fn start(number: u8, entrant: &Entrant, netns: Netns) -> Result<Self> {
        let base = addresses(number, 0, entrant.originated);
        let wishes = Wishes {
            family: Family::V4,
            asn: asn(number),
            id: format!("192.0.2.{number}"),
            peers: vec![Peer {
                name: "tor".to_owned(),
                address: Family::V4.address(number, TOR_HOST),
                local: Family::V4.address(number, NODE_HOST),
                asn: TOR,
                passive: false,
            }],
            role: Role::Node(base.iter().map(text).collect()),
        };
        let speaker = match entrant.who {
            Who::Floor | Who::Relay => {
                let id = wishes.id.parse()?;
                let identity = Identity { asn: asn(number), id, family: Family::V4, hold: 0 };
                let tor = Family::V4.address(number, TOR_HOST).parse()?;
                let session = Session::dial(&netns, tor, &identity)?;
                if entrant.who == Who::Floor { Speaker::Plain(session) } else { relay(session)? }
            }
            Who::Flock => Speaker::Flock(Router::start(Kind::Flock, &netns, &wishes)?),
            Who::Bird => Speaker::Bird(Router::start(Kind::Bird, &netns, &wishes)?, wishes),
        };
        Ok(Self { number, speaker, base, _netns: netns })
    }

    /// Everything that can be done before the clock starts. Without addresses it
    /// is about what is originated throughout.
    fn prepare(&self, change: Change, addresses: &[Ipv4Addr]) -> Result<Prepared> {
        let addresses = if addresses.is_empty() { &self.base } else { addresses };
        let routes: Vec<_> = addresses.iter().map(text).collect();
        Ok(match (&self.speaker, change) {
            (Speaker::Plain(_) | Speaker::Relay(_), _) => {
                Prepared::Bytes(self.updates(change, addresses)?)
            }
            (Speaker::Flock(_), Change::Installed) => {
                Prepared::Line(json!({ "originate": flock_routes(&routes) }).to_string() + "\n")
            }
            (Speaker::Flock(_), Change::Removed) => {
                Prepared::Line(json!({ "withdraw": routes }).to_string() + "\n")
            }
            (Speaker::Bird(_, wishes), _) => {
                let mut all: Vec<_> = self.base.iter().map(text).collect();
                if change == Change::Installed {
                    all.extend(routes);
                }
                let role = Role::Node(all);
                Prepared::Config(configs::bird(&Wishes { role, ..wishes.clone() }))
            }
        })
    }

    fn updates(&self, change: Change, addresses: &[Ipv4Addr]) -> Result<Vec<u8>> {
        let attributes = plain_attributes(&[asn(self.number)])?;
        let next_hop: IpAddr = Family::V4.address(self.number, NODE_HOST).parse()?;
        let room = LONGEST - HEADER - announce(&attributes, next_hop, &[])?.len();
        let nlri: Vec<_> = addresses.iter().map(|to| prefix(IpAddr::V4(*to), 32)).collect();
        let mut bytes = Vec::new();
        for together in nlri.chunks(room / 5) {
            let nlri = together.concat();
            bytes.extend(match change {
                Change::Installed => announce(&attributes, next_hop, &nlri)?,
                Change::Removed => withdraw(&nlri)?,
            });
        }
        Ok(bytes)
    }

    fn perform(&mut self, prepared: &Prepared) -> Result<Option<Child>> {
        match (&mut self.speaker, prepared) {
            (Speaker::Plain(session), Prepared::Bytes(bytes)) => session.write(bytes)?,
            (Speaker::Relay(pipe), Prepared::Bytes(bytes)) => pipe.write_all(bytes)?,
            (Speaker::Flock(router), Prepared::Line(line)) => router.say(line)?,
            (Speaker::Bird(router, _), Prepared::Config(text)) => {
                return router.configure(text).map(Some);
            }
            _ => {}
        }
        Ok(None)
    }

    fn explain<T>(&mut self, outcome: Result<T>) -> Result<T> {
        match &mut self.speaker {
            Speaker::Plain(_) | Speaker::Relay(_) => outcome,
            Speaker::Flock(router) | Speaker::Bird(router, _) => router.explain(outcome),
        }
    }
}

/// A thread that writes what it reads, until the pipe is closed.
fn relay(mut session: Session) -> Result<Speaker> {
    let (mut from, to) = pipe()?;
    thread::spawn(move || -> Result<()> {
        let mut buffer = [0; 64 * 1024];
        loop {
            match from.read(&mut buffer)? {
                0 => return Ok(()),
                read => session.write(buffer.get(..read).unwrap_or_default())?,
            }
        }
    });
    Ok(Speaker::Relay(to))
}

fn asn(number: u8) -> u32 {
    65_100 + u32::from(number)
}

/// Host addresses in 10.(100 + node).(third and on).*.
fn addresses(number: u8, third: u8, count: usize) -> Vec<Ipv4Addr> {
    let first = u32::from(Ipv4Addr::new(10, 100 + number, third, 0));
    (first..).take(count).map(Ipv4Addr::from).collect()
}

/// The same address, but this node's.
fn of_node(number: u8, address: Ipv4Addr) -> Ipv4Addr {
    let [first, _, third, fourth] = address.octets();
    Ipv4Addr::new(first, 100 + number, third, fourth)
}

fn is_of(number: u8) -> impl Fn(Ipv4Addr) -> bool {
    move |address| address.octets().starts_with(&[10, 100 + number])
}

fn text(address: &Ipv4Addr) -> String {
    format!("{address}/32")
}
