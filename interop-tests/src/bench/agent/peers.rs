//! A node with many peers: what of it is resident, how long until all of them have
//! been told everything after a start, and one change until the last has heard of
//! it. BIRD as a node with the same peers and prefixes stands beside it.
//!
//! Every peer is a plain socket ([`Crowd`]) that the node dials.

use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::node::Place;
use crate::bench::bgp::Family;
use crate::bench::bgp::change::addresses;
use crate::bench::bgp::configs::{self, Peer, Role, Wishes};
use crate::bench::bgp::crowd::Crowd;
use crate::bench::bgp::kernel::Change;
use crate::bench::bgp::router::{Kind, Router};
use crate::bench::bgp::start::{FAR, SPEAKER};
use crate::bench::bgp::usage::{self, Usage};
use crate::bench::samples::Samples;
use crate::netns::Netns;
use crate::node::Builder;

/// Addresses of each pod that is Ready all the time; an annotation takes 64.
const PER_POD: usize = 50;
/// Pods whose readiness flips, one address each. Each flips once in a run: an
/// address may only be announced so often.
const POOL: u8 = 40;
const NUMBER: u8 = 1;
/// The network of the pods, IPv4, which is told beside what they ask for.
const SUMMARY: u64 = 1;
/// Between changes, so that each finds everybody asleep.
const PAUSE: Duration = Duration::from_millis(5);
const SETTLED: Duration = Duration::from_secs(12);
const MEGABYTE: f64 = (1 << 20) as f64;

/// What changes took.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// Milliseconds until the last peer was told of one more route.
    pub announce: Samples,
    /// Until the last was told of one fewer.
    pub withdraw: Samples,
    /// Milliseconds on a processor for one change, announcements and withdrawals alike.
    pub processor: Samples,
}

/// A node with the agent and so many peers.
#[derive(Debug)]
pub struct Node {
    // The agent first: it must not dial again.
    place: Place,
    crowd: Crowd,
    originated: usize,
    pool: usize,
    used: u8,
}

impl Node {
    /// A node that runs, all of whose peers have been told so many prefixes while it
    /// came to have them.
    pub fn new(dir: &Path, peers: usize, originated: usize) -> Result<Self> {
        let mut crowd = Crowd::new(peers)?;
        let node = Builder::default().state_in(dir).build()?;
        crowd.plug(node.netns())?;
        crowd.listen()?;
        let mut place = Place::new(node, NUMBER, speaks(&crowd.peers()))?;
        place.start(&[])?;
        if peers > 0 {
            place.explain(crowd.meet(SUMMARY))?;
        }
        let all = addresses(NUMBER, 0, originated);
        place.attach(all.chunks(PER_POD).map(<[_]>::to_vec).collect(), true)?;
        if peers > 0 && originated > 0 {
            place.explain(crowd.hear(Change::Installed, u64::try_from(originated)?))?;
        }
        Ok(Self { place, crowd, originated, pool: 0, used: POOL })
    }

    /// Megabytes that are resident at rest: ten seconds after something happened the agent gives back
    /// what is free.
    pub fn resident(&mut self) -> Result<f64> {
        thread::sleep(SETTLED);
        Ok(self.usage()?.resident as f64 / MEGABYTE)
    }

    /// What the agent has used so far.
    pub fn usage(&mut self) -> Result<Usage> {
        usage::of(self.pid()?)
    }

    /// The agent's process.
    pub fn pid(&mut self) -> Result<u32> {
        Ok(self.place.node_mut().agent()?.pid())
    }

    /// Kills the agent and starts another: milliseconds from the start of the process
    /// until every peer had everything and End-of-RIB.
    pub fn restart(&mut self) -> Result<f64> {
        self.place.node_mut().kill()?;
        self.crowd.hang_up();
        let started = Instant::now();
        self.place.node_mut().start()?;
        let end = self.crowd.meet(u64::try_from(self.originated)? + SUMMARY);
        let end = self.place.explain(end)?;
        self.place.node_mut().await_ready()?;
        Ok(milliseconds(started, end))
    }

    /// Pods that become Ready, and are not any more: from the rename of a manifest
    /// until the last peer was told.
    pub fn changes(&mut self, count: u8, times: &mut Times) -> Result<()> {
        for _ in 0..count {
            let member = self.next()?;
            for change in [Change::Installed, Change::Removed] {
                let ready = self.place.flip(member, change == Change::Installed)?;
                let crowd = &mut self.crowd;
                let pid = self.place.node_mut().agent()?.pid();
                let timed = measured(|| usage::of(pid), || ready.go(), || crowd.hear(change, 1));
                times.push(change, self.place.explain(timed)?);
            }
        }
        Ok(())
    }

    /// A pod that has not flipped yet.
    fn next(&mut self) -> Result<usize> {
        if self.used >= POOL {
            ensure!(self.pool == 0, "no more than {POOL} changes in a run");
            let one = |last| vec![Ipv4Addr::new(10, 100 + NUMBER, 250, last)];
            self.pool = self.place.attach((0..POOL).map(one).collect(), false)?;
            self.used = 0;
        }
        self.used += 1;
        Ok(self.pool + usize::from(self.used) - 1)
    }

    /// Takes everything down; far faster than dropping it.
    pub fn dismiss(self) -> Result<()> {
        self.place.dismiss()
    }
}

/// BIRD in the agent's place.
#[derive(Debug)]
pub struct BirdNode {
    router: Option<Router>,
    wishes: Wishes,
    crowd: Crowd,
    used: u8,
    netns: Netns,
}

impl BirdNode {
    /// All of its peers have been told so many prefixes.
    pub fn new(peers: usize, originated: usize) -> Result<Self> {
        let mut crowd = Crowd::new(peers)?;
        let netns = Netns::new("node")?;
        netns.loopback_up()?;
        crowd.plug(&netns)?;
        crowd.listen()?;
        let wishes = Wishes {
            family: Family::V4,
            asn: SPEAKER,
            id: "192.0.2.1".to_owned(),
            peers: crowd.peers(),
            role: Role::Node(addresses(NUMBER, 0, originated).iter().map(prefix).collect()),
        };
        let mut node = Self { router: None, wishes, crowd, used: 0, netns };
        node.restart()?;
        Ok(node)
    }

    /// As of [`Node`].
    pub fn resident(&mut self) -> Result<f64> {
        Ok(self.router()?.usage()?.resident as f64 / MEGABYTE)
    }

    /// As of [`Node`].
    pub fn restart(&mut self) -> Result<f64> {
        self.router = None;
        self.crowd.hang_up();
        let mut router = Router::start(Kind::Bird, &self.netns, &self.wishes)?;
        let Role::Node(originated) = &self.wishes.role else { return Ok(f64::NAN) };
        let routes = u64::try_from(originated.len())?;
        let started = router.started;
        if !self.wishes.peers.is_empty() {
            let end = router.explain(self.crowd.meet(routes))?;
            self.router = Some(router);
            return Ok(milliseconds(started, end));
        }
        self.router = Some(router);
        Ok(f64::NAN)
    }

    /// One prefix more and one fewer, by `birdc configure`.
    pub fn changes(&mut self, count: u8, times: &mut Times) -> Result<()> {
        for _ in 0..count {
            self.used = self.used.wrapping_add(1);
            let one = prefix(&Ipv4Addr::new(10, 100 + NUMBER, 250, self.used));
            let mut more = self.wishes.clone();
            if let Role::Node(originated) = &mut more.role {
                originated.push(one);
            }
            for (change, wishes) in [(Change::Installed, &more), (Change::Removed, &self.wishes)] {
                let text = configs::bird(wishes);
                let (crowd, router) = (&mut self.crowd, self.router.as_ref());
                let router = router.context("it was not started")?;
                let mut told = None;
                let timed = measured(
                    || router.usage(),
                    || {
                        told = Some(router.configure(&text)?);
                        Ok(())
                    },
                    || crowd.hear(change, 1),
                )?;
                told.context("nobody was told")?.wait()?;
                times.push(change, timed);
            }
        }
        Ok(())
    }

    fn router(&self) -> Result<&Router> {
        self.router.as_ref().context("it was not started")
    }
}

impl Times {
    fn push(&mut self, change: Change, (elapsed, processor): (f64, f64)) {
        match change {
            Change::Installed => self.announce.push(elapsed),
            Change::Removed => self.withdraw.push(elapsed),
        }
        self.processor.push(processor);
    }
}

/// Milliseconds from the change until it was heard, and on a processor.
fn measured(
    usage: impl Fn() -> Result<Usage>,
    change: impl FnOnce() -> Result<()>,
    heard: impl FnOnce() -> Result<Instant>,
) -> Result<(f64, f64)> {
    thread::sleep(PAUSE);
    let before = usage()?.processor;
    let start = Instant::now();
    change()?;
    let end = heard()?;
    // What it does after the last peer was told belongs to the change.
    thread::sleep(PAUSE);
    let spent = usage()?.processor.saturating_sub(before);
    Ok((milliseconds(start, end), spent.as_secs_f64() * 1000.0))
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1000.0
}

fn prefix(address: &Ipv4Addr) -> String {
    format!("{address}/32")
}

fn speaks(peers: &[Peer]) -> Value {
    let peer = |peer: &Peer| {
        json!({
            "name": peer.name,
            "address": peer.address,
            "asn": FAR,
            "families": ["ipv4-unicast"],
            "connectRetry": "1s",
        })
    };
    json!({
        "asn": SPEAKER,
        "listenPort": 0,
        "announcePods": false,
        "peers": peers.iter().map(peer).collect::<Vec<_>>(),
    })
}
