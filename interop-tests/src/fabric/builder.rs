//! How a fabric is put together: namespaces, kernel settings, cables, nodes, and
//! at last the routers, which want to find their interfaces there.

use std::sync::Arc;

use anyhow::Result;

use super::plan::{Plan, node_name};
use super::{BEYOND_V4, BEYOND_V6, Fabric, Host, Sessions, Tor, Transport};
use crate::link::{End, connect};
use crate::netns::Netns;
use crate::node;
use crate::router::{Brand, Config, Housing, Router};

/// For everybody's kernel. An address that waits for duplicate detection cannot be
/// used for a second, and a reverse path filter drops what comes back another way;
/// what a machine has of both by default differs. Nobody takes an address from a
/// router: FRR advertises its networks where IPv4 has IPv6 next hops, and a node
/// that had one more address might dial from it.
const SETTINGS: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
];

/// For ToRs: they forward, and spread flows over equal paths by their ports.
const TOR_SETTINGS: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    ("net/ipv4/fib_multipath_hash_policy", "1"),
    ("net/ipv6/fib_multipath_hash_policy", "1"),
];

/// A change to what a ToR is told.
type Adjustment = Box<dyn Fn(&str, &mut Config)>;

/// A fabric in the making.
pub struct Builder {
    plan: Plan,
    housing: Housing,
    adjustments: Vec<Adjustment>,
}

impl Default for Builder {
    fn default() -> Self {
        Self { plan: Plan::default(), housing: Housing::Process, adjustments: Vec::new() }
    }
}

impl Builder {
    /// Adds a ToR. Its name is also that of the interface by which other ToRs
    /// reach it.
    pub fn tor(mut self, name: &str, brand: Brand) -> Self {
        self.plan.tors.push((name.to_owned(), brand));
        self
    }

    /// So many nodes, `node-1` and so on; none unless asked for.
    pub fn nodes(mut self, count: usize) -> Self {
        self.plan.nodes = count;
        self
    }

    /// Which addresses the cables have; both families unless said otherwise.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.plan.transport = transport;
        self
    }

    /// Over what the sessions run; IPv6 unless said otherwise.
    pub fn sessions(mut self, sessions: Sessions) -> Self {
        self.plan.sessions = sessions;
        self
    }

    /// Gives node N the AS number 65000 + N, instead of 65001 to all.
    pub fn own_asns(mut self) -> Self {
        self.plan.own_asns = true;
        self
    }

    /// The hold time in seconds that ToRs and nodes propose. Without it the ToRs
    /// say 90 and the nodes what the agent says by itself.
    pub fn hold_time(mut self, seconds: u16) -> Self {
        self.plan.hold_time = Some(seconds);
        self
    }

    /// What the routers live in; plain processes unless said otherwise.
    pub fn housing(mut self, housing: Housing) -> Self {
        self.housing = housing;
        self
    }

    /// Changes what each ToR, by name, is told: passwords, limits, policies.
    pub fn adjust(mut self, adjustment: impl Fn(&str, &mut Config) + 'static) -> Self {
        self.adjustments.push(Box::new(adjustment));
        self
    }

    /// Makes everything and starts the routers. The agents do not run yet.
    pub fn build(self) -> Result<Fabric> {
        let plan = &self.plan;
        plan.check()?;
        let mut sites = Vec::new();
        for number in 1..=plan.tors.len() {
            sites.push(site(plan, number)?);
        }
        for (near, one) in (1..).zip(&sites) {
            for (far, other) in (1..).zip(&sites).skip(near) {
                cable_tors(plan, (near, one), (far, other))?;
            }
        }
        let mut hosts = Vec::new();
        for number in 1..=plan.nodes {
            hosts.push(host(plan, number, &sites)?);
        }
        let mut tors = Vec::new();
        for (number, netns) in (1..).zip(sites) {
            let (name, brand) = plan.tor(number)?.clone();
            let mut config = plan.router(number)?;
            self.adjustments.iter().for_each(|adjustment| adjustment(&name, &mut config));
            let router = Router::start(brand, Arc::clone(&netns), config, self.housing)?;
            let (v6, v4) = plan.own(number)?;
            tors.push(Tor { router, name, netns, v6, v4 });
        }
        Ok(Fabric { hosts, tors, plan: self.plan })
    }
}

/// The namespace of a ToR.
fn site(plan: &Plan, number: usize) -> Result<Arc<Netns>> {
    let (name, _) = plan.tor(number)?;
    let netns = Netns::new(name)?;
    netns.sysctls(SETTINGS)?;
    netns.sysctls(TOR_SETTINGS)?;
    netns.loopback_up()?;
    let (v6, v4) = plan.own(number)?;
    let beyond = [format!("{BEYOND_V6}/128"), format!("{BEYOND_V4}/32")];
    for address in [format!("{v6}/128"), format!("{v4}/32")].iter().chain(&beyond) {
        netns.ip(&format!("address add {address} dev lo"))?;
    }
    Ok(Arc::new(netns))
}

fn cable_tors(plan: &Plan, near: (usize, &Netns), far: (usize, &Netns)) -> Result<()> {
    let (near_addresses, far_addresses) = plan.peer_cable(near.0, far.0)?;
    let (near_texts, far_texts) = (near_addresses.texts(), far_addresses.texts());
    // Each end is called by what it leads to.
    connect(
        End { netns: near.1, ifname: &plan.tor(far.0)?.0, addresses: &borrowed(&near_texts) },
        End { netns: far.1, ifname: &plan.tor(near.0)?.0, addresses: &borrowed(&far_texts) },
    )
}

/// A node with a cable to every ToR.
fn host(plan: &Plan, number: usize, sites: &[Arc<Netns>]) -> Result<Host> {
    let name = node_name(number);
    let mut ends = Vec::new();
    for (tor, netns) in (1..).zip(sites) {
        let (near, far) = plan.cable(number, tor)?;
        ends.push((netns, near.texts(), far.texts()));
    }
    let borrowed: Vec<_> =
        ends.iter().map(|(netns, near, far)| (netns, borrowed(near), borrowed(far))).collect();
    let mut builder = node::Builder::default().named(&name).sysctls(SETTINGS);
    for (netns, near, far) in &borrowed {
        builder = builder.uplink(End { netns, ifname: &name, addresses: far }, near);
    }
    let node = builder.build()?;
    let config = plan.node_config(number)?;
    node.configure(&config)?;
    Ok(Host { node, config })
}

pub(super) fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}
