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

mod node;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use self::node::{Node, of_node};
use super::Family;
use super::configs::{Peer, Role, Wishes};
use super::kernel::{Change, News};
use super::router::{Kind, Router};
use crate::bench::samples::Samples;
use crate::link::{End, connect};
use crate::netns::Netns;
use crate::wait::go_on;

pub use self::node::{NODE_HOST, TOR, TOR_HOST, addresses, asn, is_of};

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
    /// Many more while the speaker is stopped, from the moment when it may go on.
    pub announce_stopped: Samples,
    /// One more route, said only after a debounce.
    pub announce_debounced: Samples,
    /// One route fewer, likewise.
    pub withdraw_debounced: Samples,
}

/// The rack.
#[derive(Debug)]
pub struct Rack {
    nodes: Vec<Node>,
    news: News,
    tor: Router,
    _netns: Netns,
}

/// When a change is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Now,
    After(Duration),
    Stopped,
}

impl Rack {
    /// Builds it and awaits that every node's prefixes are in the kernel.
    pub fn new(entrants: &[Entrant]) -> Result<Self> {
        let netns = Netns::new("tor")?;
        netns.loopback_up()?;
        Self::with_guests(netns, entrants, &[])
    }

    /// The same in a namespace that has cables to nodes of other numbers already;
    /// the router awaits them, too, and what they do is the caller's.
    pub fn with_guests(netns: Netns, entrants: &[Entrant], guests: &[u8]) -> Result<Self> {
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
        let peers = places.iter().map(|(number, ..)| number).chain(guests).map(|number| Peer {
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
        if node.is_plain() {
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

    /// Many more while the speaker is stopped; the clock starts when it may go on.
    pub fn many_stopped(&mut self, entrant: usize, count: usize, times: &mut Times) -> Result<()> {
        let addresses = addresses(0, 100, count);
        times.announce_stopped.push(self.perform(
            entrant,
            Change::Installed,
            &addresses,
            Moment::Stopped,
        )?);
        self.time(entrant, Change::Removed, &addresses).map(drop)
    }

    /// A change that is said only after a while, in case that more come.
    pub fn debounced(&mut self, entrant: usize, wait: Duration, times: &mut Times) -> Result<()> {
        let (address, moment) = ([Ipv4Addr::new(10, 0, 250, 0)], Moment::After(wait));
        let announced = self.perform(entrant, Change::Installed, &address, moment)?;
        times.announce_debounced.push(announced);
        let withdrawn = self.perform(entrant, Change::Removed, &address, moment)?;
        times.withdraw_debounced.push(withdrawn);
        Ok(())
    }

    /// Forgets what the router's kernel told of while nobody read it.
    pub fn catch_up(&mut self) -> Result<()> {
        self.news.catch_up()
    }

    /// Awaits changes in the router's kernel that a guest is the cause of.
    pub fn until(
        &mut self,
        change: Change,
        count: usize,
        ours: impl Fn(Ipv4Addr) -> bool,
    ) -> Result<Instant> {
        let end = self.news.until(change, count, LIMIT, ours);
        self.tor.explain(end)
    }

    /// Milliseconds until the kernel reports the last of these.
    fn time(&mut self, entrant: usize, change: Change, addresses: &[Ipv4Addr]) -> Result<f64> {
        self.perform(entrant, change, addresses, Moment::Now)
    }

    fn perform(
        &mut self,
        entrant: usize,
        change: Change,
        addresses: &[Ipv4Addr],
        moment: Moment,
    ) -> Result<f64> {
        go_on()?;
        let node = self.nodes.get_mut(entrant).context("no such entrant")?;
        let number = node.number;
        let mine: Vec<_> = addresses.iter().map(|address| of_node(number, *address)).collect();
        let prepared = node.prepare(change, &mine)?;
        thread::sleep(PAUSE);
        let mut start = Instant::now();
        if let Moment::After(wait) = moment {
            thread::sleep(wait);
        }
        if moment == Moment::Stopped {
            node.signal(Signal::STOP)?;
        }
        let birdc = node.perform(&prepared);
        if moment == Moment::Stopped {
            start = Instant::now();
            node.signal(Signal::CONT)?;
        }
        let birdc = birdc?;
        let end = self.news.until(change, mine.len(), LIMIT, is_of(number));
        let end = self.tor.explain(node.explain(end))?;
        if let Some(mut birdc) = birdc {
            ensure!(birdc.wait()?.success(), "birdc configure failed");
        }
        Ok((end - start).as_secs_f64() * 1000.0)
    }
}
