//! What a node costs while nothing happens: processor time and how often it wakes
//! up, the agent with its pods beside BIRD as a node. Both have two sessions with
//! the same kind of router (BIRD) and the same hold time, so both have as many
//! KEEPALIVEs to say and to hear.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::node::Place;
use crate::bench::bgp::Family;
use crate::bench::bgp::configs::{Peer, Role, Wishes};
use crate::bench::bgp::kernel::{Change, News};
use crate::bench::bgp::router::{Kind, Router};
use crate::bench::bgp::start::{FAR, SPEAKER};
use crate::bench::bgp::usage;
use crate::link::{End, connect};
use crate::netns::Netns;
use crate::node::Builder;

const PEERS: [u8; 2] = [1, 2];
const NODE: u8 = 1;
const ROUTER: u8 = 2;
const NUMBER: u8 = 1;
/// Longer than whatever a start leaves to be done.
const SETTLED: Duration = Duration::from_secs(7);
const LIMIT: Duration = Duration::from_secs(60);

/// What was used while nothing happened.
#[derive(Debug, Clone, Copy)]
pub struct Rest {
    /// Processor time a second, in milliseconds.
    pub processor: f64,
    /// Times that a thread was woken, a second.
    pub wakes: f64,
}

/// The routers at the far ends.
#[derive(Debug)]
struct Far {
    netns: Netns,
    routers: Vec<Router>,
}

impl Far {
    fn new() -> Result<Self> {
        let netns = Netns::new("far")?;
        netns.loopback_up()?;
        Ok(Self { netns, routers: Vec::new() })
    }

    /// They listen, and put what they are told into their kernel.
    fn start(&mut self) -> Result<()> {
        let peer = |link: u8| Peer {
            name: format!("node{link}"),
            address: Family::V4.address(link, NODE),
            local: Family::V4.address(link, ROUTER),
            asn: SPEAKER,
            passive: true,
        };
        let wishes = Wishes {
            family: Family::V4,
            asn: FAR,
            id: "192.0.2.9".to_owned(),
            peers: PEERS.map(peer).to_vec(),
            role: Role::TopOfRack,
        };
        self.routers.push(Router::start(Kind::Bird, &self.netns, &wishes)?);
        Ok(())
    }
}

/// An agent with two peers and so many pods, for so long.
pub fn flock(dir: &Path, pods: usize, during: Duration) -> Result<Rest> {
    let mut far = Far::new()?;
    let cables = PEERS.map(|link| {
        let [near, there] = [NODE, ROUTER].map(|host| Family::V4.with_length(link, host));
        (format!("node{link}"), near, there)
    });
    let ends = cables.each_ref().map(|(_, near, there)| ([near.as_str()], [there.as_str()]));
    let mut builder = Builder::default().state_in(dir);
    for ((ifname, ..), (near, addresses)) in cables.iter().zip(&ends) {
        builder = builder.uplink(End { netns: &far.netns, ifname, addresses }, near);
    }
    let peer = |link: u8| {
        json!({
            "name": format!("far{link}"),
            "address": Family::V4.address(link, ROUTER),
            "asn": FAR,
            "families": ["ipv4-unicast"],
            "holdTime": "240s",
            "connectRetry": "1s",
        })
    };
    let speaks = json!({
        "asn": SPEAKER,
        "listenPort": 0,
        "announcePods": true,
        "peers": PEERS.map(peer),
    });
    let mut place = Place::new(builder.build()?, NUMBER, speaks)?;
    let mut news = News::of(&far.netns)?;
    far.start()?;
    place.start(&[])?;
    place.attach(vec![Vec::new(); pods], true)?;
    // The pods, and the network that they are of.
    let told = news.until(Change::Installed, pods + 1, LIMIT, |_| true);
    place.explain(told)?;
    let pid = place.node_mut().agent()?.pid();
    let rest = watch(pid, during)?;
    place.dismiss()?;
    Ok(rest)
}

/// BIRD with as many peers and prefixes.
pub fn bird(prefixes: u8, during: Duration) -> Result<Rest> {
    let mut far = Far::new()?;
    let netns = Netns::new("node")?;
    netns.loopback_up()?;
    for link in PEERS {
        let [near, there] = [NODE, ROUTER].map(|host| Family::V4.with_length(link, host));
        connect(
            End { netns: &netns, ifname: &format!("up{link}"), addresses: &[&near] },
            End { netns: &far.netns, ifname: &format!("node{link}"), addresses: &[&there] },
        )?;
    }
    let peer = |link: u8| Peer {
        name: format!("far{link}"),
        address: Family::V4.address(link, ROUTER),
        local: Family::V4.address(link, NODE),
        asn: FAR,
        passive: false,
    };
    let wishes = Wishes {
        family: Family::V4,
        asn: SPEAKER,
        id: "192.0.2.1".to_owned(),
        peers: PEERS.map(peer).to_vec(),
        role: Role::Node((0..prefixes).map(|last| format!("10.99.0.{last}/32")).collect()),
    };
    let mut news = News::of(&far.netns)?;
    far.start()?;
    let mut router = Router::start(Kind::Bird, &netns, &wishes)?;
    let told = news.until(Change::Installed, usize::from(prefixes), LIMIT, |_| true);
    router.explain(told)?;
    watch(router.pid(), during)
}

/// Waits until a process has settled, and then for so long.
fn watch(pid: u32, during: Duration) -> Result<Rest> {
    thread::sleep(SETTLED);
    let before = (usage::of(pid)?.processor, switches(pid)?);
    thread::sleep(during);
    let after = (usage::of(pid)?.processor, switches(pid)?);
    let seconds = during.as_secs_f64();
    Ok(Rest {
        processor: after.0.saturating_sub(before.0).as_secs_f64() * 1000.0 / seconds,
        wakes: after.1.saturating_sub(before.1) as f64 / seconds,
    })
}

/// How often its threads went to sleep of their own will, which is as often as they were woken.
fn switches(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end meanwhile.
        let Ok(text) = fs::read_to_string(thread?.path().join("status")) else { continue };
        let field = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += field.and_then(|count| count.trim().parse::<u64>().ok()).context("no switches")?;
    }
    Ok(sum)
}
