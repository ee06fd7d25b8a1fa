//! A whole topology: ToRs that are real routers, nodes that run the real agent,
//! a cable from every node to every ToR, and pods made by the real plugin.
//!
//! ```text
//!      tor-a ───────── tor-b        AS 65000, iBGP with next hop self; both
//!       │  ╲          ╱  │          originate the defaults and pass nodes' routes on
//!       │    ╲      ╱    │
//!     node-1   ╲  ╱   node-2 ...    AS 65001, a session with every ToR
//!       │  ╲___╱╲___╱    │
//!      pods             pods
//! ```
//!
//! A node whose cable to one ToR fails is still reached by way of another, and
//! a prefix that several nodes announce is one route with several next hops in the
//! kernel of a ToR. GoBGP and OpenBGPD keep no kernel routes
//! ([`Brand::has_kernel_routes`](crate::router::Brand::has_kernel_routes)): with
//! them there are sessions and tables, but nothing is forwarded.
//!
//! The ToRs end the world: [`BEYOND_V6`] and [`BEYOND_V4`] are on each of them and
//! stand for everything that the default routes lead to, so that whoever pings
//! them learns whether *some* way out works. Each ToR also has addresses of its
//! own, which all ToRs know: traffic that starts there ([`Fabric::storm`]) is
//! answered whichever cable fails, because its source is on no cable. The defaults
//! that they originate are in no ToR's kernel.
//!
//! The numbering is told in `plan`; [`Fabric::link`] has the addresses of a cable,
//! and makes it fail.
//!
//! ```no_run
//! # use rack::fabric::Fabric;
//! # use rack::link::Side;
//! # use rack::router::Brand;
//! # fn main() -> anyhow::Result<()> {
//! let builder = Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Frr);
//! let mut fabric = builder.nodes(3).build()?;
//! fabric.start()?;
//! fabric.await_sessions()?;
//! let web = fabric.add_pod(1, "web", &[])?;
//! let storm = fabric.storm("tor-a", &web.addresses(), 1000)?;
//! fabric.link(1, "tor-a")?.cut(Side::Near)?;
//! storm.await_answers(100)?; // by way of tor-b
//! println!("{}", storm.stop()?);
//! fabric.remove_pod(web)?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod places;
mod plan;
mod pods;
mod ways;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;

use self::builder::borrowed;
use self::plan::{Plan, node_name};
use crate::link::{End, Link};
use crate::netns::Netns;
use crate::node::Node;
use crate::router::Router;
use crate::storm::Storm;
use crate::story::Telling;
use crate::wait::{PATIENCE, until};

pub use self::builder::Builder;
pub use self::plan::TOR_ASN;
pub use self::pods::PodOnNode;

/// What lies beyond every ToR: an address that each of them answers.
pub const BEYOND_V6: &str = "2001:db8:ffff::1";
/// See [`BEYOND_V6`].
pub const BEYOND_V4: &str = "203.0.113.1";

/// Which addresses the cables have. Pods have both families in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// IPv6 and IPv4.
    #[default]
    DualStack,
    /// IPv6 alone: IPv4 routes have IPv6 next hops (RFC 8950).
    Ipv6Only,
}

/// Over what the sessions run. A router that cannot do what is asked for has a
/// session per family instead; without IPv4 on the cables only the one over IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sessions {
    /// One with each ToR over IPv6, for both families.
    #[default]
    OverIpv6,
    /// One with each ToR over IPv4, for both families.
    OverIpv4,
    /// Two with each ToR, each for the family that it runs over.
    PerFamily,
}

/// A fabric. Dropping it takes everything down.
#[derive(Debug)]
pub struct Fabric {
    // Nodes go before the ToRs that they talk to.
    hosts: Vec<Host>,
    tors: Vec<Tor>,
    plan: Plan,
}

/// A node and what it is told.
#[derive(Debug)]
struct Host {
    node: Node,
    config: Value,
}

/// A ToR.
#[derive(Debug)]
pub struct Tor {
    /// The router that runs in it.
    pub router: Router,
    name: String,
    netns: Arc<Netns>,
    v6: Ipv6Addr,
    v4: Ipv4Addr,
}

impl Tor {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Its own addresses, which all ToRs know.
    pub fn addresses(&self) -> [IpAddr; 2] {
        [self.v6.into(), self.v4.into()]
    }

    fn forwards(&self) -> bool {
        self.router.brand().has_kernel_routes()
    }

    fn await_ways(&self, addresses: &[IpAddr]) -> Result<()> {
        for address in addresses {
            until(&format!("{address} in the kernel of {}", self.name), PATIENCE, || {
                let hops = self.router.kernel_next_hops(&address.to_string())?;
                hops.map(drop).context("there is none")
            })
            .telling(|| self.router.log_tail())?;
        }
        Ok(())
    }
}

impl Fabric {
    /// A fabric in the making.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The ToRs, in the order in which they were added.
    pub fn tors(&self) -> &[Tor] {
        &self.tors
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.hosts.len()
    }

    /// A ToR by name.
    pub fn tor(&self, name: &str) -> Result<&Tor> {
        let tor = self.tors.iter().find(|tor| tor.name == name);
        tor.with_context(|| format!("there is no ToR {name}"))
    }

    /// A ToR by name, to do something to it.
    pub fn tor_mut(&mut self, name: &str) -> Result<&mut Tor> {
        let tor = self.tors.iter_mut().find(|tor| tor.name == name);
        tor.with_context(|| format!("there is no ToR {name}"))
    }

    /// A node by number, from 1.
    pub fn node(&self, number: usize) -> Result<&Node> {
        self.host(number).map(|host| &host.node)
    }

    /// A node by number, to do something to it.
    pub fn node_mut(&mut self, number: usize) -> Result<&mut Node> {
        self.host_mut(number).map(|host| &mut host.node)
    }

    /// A node's NodeConfig, to be changed; [`Fabric::configure`] writes it.
    pub fn node_config_mut(&mut self, number: usize) -> Result<&mut Value> {
        self.host_mut(number).map(|host| &mut host.config)
    }

    /// Writes a node's NodeConfig as it is now; a running agent sees it at once.
    pub fn configure(&self, number: usize) -> Result<()> {
        let host = self.host(number)?;
        host.node.configure(&host.config)
    }

    fn host(&self, number: usize) -> Result<&Host> {
        let host = number.checked_sub(1).and_then(|at| self.hosts.get(at));
        host.with_context(|| format!("there is no {}", node_name(number)))
    }

    fn host_mut(&mut self, number: usize) -> Result<&mut Host> {
        let host = number.checked_sub(1).and_then(|at| self.hosts.get_mut(at));
        host.with_context(|| format!("there is no {}", node_name(number)))
    }

    /// Starts the agents of all nodes and awaits that they can attach pods.
    pub fn start(&mut self) -> Result<()> {
        self.hosts.iter_mut().try_for_each(|host| host.node.start())?;
        self.hosts.iter_mut().try_for_each(|host| host.node.await_ready())
    }

    /// The cable of a node, near, and a ToR, far.
    pub fn link(&self, node: usize, tor: &str) -> Result<Link> {
        let number = self.plan.number(tor)?;
        let (near, far) = self.plan.cable(node, number)?;
        let (near, far) = (near.texts(), far.texts());
        // As the node's builder calls them, in the order of the ToRs.
        let uplink = format!("uplink{}", number - 1);
        let (host, tor) = (self.node(node)?, self.tor(tor)?);
        Link::between(
            End { netns: host.netns(), ifname: &uplink, addresses: &borrowed(&near) },
            End { netns: &tor.netns, ifname: &node_name(node), addresses: &borrowed(&far) },
        )
    }

    /// The cable of two ToRs, near and far in this order.
    pub fn peer_link(&self, near: &str, far: &str) -> Result<Link> {
        let ends = self.plan.peer_cable(self.plan.number(near)?, self.plan.number(far)?)?;
        let (near_texts, far_texts) = (ends.0.texts(), ends.1.texts());
        let (near, far) = (self.tor(near)?, self.tor(far)?);
        Link::between(
            End { netns: &near.netns, ifname: &far.name, addresses: &borrowed(&near_texts) },
            End { netns: &far.netns, ifname: &near.name, addresses: &borrowed(&far_texts) },
        )
    }

    /// The addresses by which a ToR knows a node: one for each session.
    pub fn session_addresses(&self, node: usize, tor: &str) -> Result<Vec<IpAddr>> {
        let sessions = self.plan.sessions(node, self.plan.number(tor)?)?;
        Ok(sessions.into_iter().map(|session| session.near).collect())
    }

    /// Awaits that a ToR says Established of every session with a node.
    pub fn await_session(&self, node: usize, tor: &str) -> Result<()> {
        let router = &self.tor(tor)?.router;
        let addresses = self.session_addresses(node, tor)?;
        addresses.into_iter().try_for_each(|address| router.await_established(address))
    }

    /// Awaits that every ToR says Established of every session.
    pub fn await_sessions(&self) -> Result<()> {
        self.await_tor_sessions()?;
        for tor in &self.tors {
            (1..=self.hosts.len()).try_for_each(|node| self.await_session(node, &tor.name))?;
        }
        Ok(())
    }

    /// Awaits that the ToRs say Established of their sessions with each other, and
    /// that those with kernel routes have each other's own addresses there: a node
    /// may answer one of them by way of another.
    pub fn await_tor_sessions(&self) -> Result<()> {
        for (number, tor) in (1..).zip(&self.tors) {
            for (other_number, other) in (1..).zip(&self.tors).filter(|(n, _)| *n != number) {
                for session in self.plan.peer_sessions(other_number, number)? {
                    tor.router.await_established(session.near)?;
                }
                if tor.forwards() && other.forwards() {
                    tor.await_ways(&other.addresses())?;
                }
            }
        }
        Ok(())
    }

    /// A storm from a ToR's own addresses.
    pub fn storm(&self, tor: &str, targets: &[IpAddr], rate: u32) -> Result<Storm> {
        let tor = self.tor(tor)?;
        Storm::start_from(&tor.netns, &tor.addresses(), targets, rate)
    }
}
