//! A node whose peers are plain sockets: kill -9 and a new process, until it is
//! there again with everything that it had told before.
//!
//! The process is made as everywhere on the rack, by `ip netns exec`, which is
//! part of what is measured.

use std::net::TcpListener;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::node::Place;
use crate::bench::bgp::Family;
use crate::bench::bgp::session::{Session, listen};
use crate::bench::bgp::start::{FAR, ROUTES, SPEAKER, Times, watch};
use crate::bench::samples::Samples;
use crate::link::End;
use crate::netns::Netns;
use crate::node::Builder;

/// Hosts on a link.
const NODE: u8 = 1;
const PEER: u8 = 2;
/// On the rack of the changes there is another.
const NUMBER: u8 = 1;

/// The node and its peers.
#[derive(Debug)]
pub struct Stand {
    // The agent first: it must not dial again.
    pub(super) place: Place,
    listeners: Vec<TcpListener>,
    sessions: Vec<Session>,
    _far: Netns,
}

impl Stand {
    /// A node that runs, with a session with each of so many peers and no pods.
    pub fn new(dir: &Path, peers: u8) -> Result<Self> {
        let far = Netns::new("far")?;
        let links: Vec<_> = (1..=peers)
            .map(|link| {
                let [near, far] = [NODE, PEER].map(|host| Family::V4.with_length(link, host));
                (format!("node{link}"), near, far)
            })
            .collect();
        let ends: Vec<_> =
            links.iter().map(|(_, near, far)| ([near.as_str()], [far.as_str()])).collect();
        let mut builder = Builder::default().state_in(dir);
        for ((ifname, ..), (near, addresses)) in links.iter().zip(&ends) {
            builder = builder.uplink(End { netns: &far, ifname, addresses }, near);
        }
        let node = builder.build()?;
        let listeners = (1..=peers)
            .map(|link| listen(&far, Family::V4.address(link, PEER).parse()?))
            .collect::<Result<_>>()?;
        let place = Place::new(node, NUMBER, speaks(peers))?;
        let mut stand = Self { place, listeners, sessions: Vec::new(), _far: far };
        let started = Instant::now();
        stand.place.start(&[])?;
        stand.meet(started, 1, &mut Times::default())?;
        Ok(stand)
    }

    /// Attaches so many more pods.
    pub fn attach(&mut self, pods: usize) -> Result<()> {
        self.place.attach(vec![Vec::new(); pods], true).map(drop)
    }

    /// Awaits everybody's session and so many routes on it.
    fn meet(&mut self, started: Instant, routes: u64, times: &mut Times) -> Result<()> {
        for listener in &self.listeners {
            let session = watch(listener, started, routes, times);
            self.sessions.push(self.place.explain(session)?);
        }
        Ok(())
    }

    /// Kills the agent and starts another. `again` is from the kill to the session.
    pub fn round(&mut self, times: &mut Times, again: &mut Samples) -> Result<()> {
        let killed = Instant::now();
        self.place.node_mut().kill()?;
        self.sessions.clear();
        let started = Instant::now();
        self.place.node_mut().start()?;
        // The pods, and the network that they are of.
        self.meet(started, u64::from(ROUTES) + 1, times)?;
        let session = self.sessions.first().context("there are no peers")?;
        again.push((session.established - killed).as_secs_f64() * 1000.0);
        self.place.node_mut().await_ready()
    }

    /// Takes everything down; far faster than dropping it.
    pub fn dismiss(self) -> Result<()> {
        self.place.dismiss()
    }
}

fn speaks(peers: u8) -> Value {
    let peer = |link: u8| {
        json!({
            "name": format!("far{link}"),
            "address": Family::V4.address(link, PEER),
            "asn": FAR,
            "families": ["ipv4-unicast"],
        })
    };
    json!({
        "asn": SPEAKER,
        "listenPort": 0,
        "announcePods": true,
        "peers": (1..=peers).map(peer).collect::<Vec<_>>(),
    })
}
