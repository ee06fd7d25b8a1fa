//! Which node leads where: what ToRs know of a prefix, asked by the numbers of the
//! nodes. A ToR knows a node by the node's end of their cable.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};

use super::Fabric;
use super::plan::node_name;
use crate::link::Side;
use crate::router::{Family, Path};
use crate::story::Telling;
use crate::wait::{PATIENCE, until};

impl Fabric {
    /// The next hop that leads a ToR to a node: the node's address on their cable, of
    /// the prefix's family where the cable has one and of IPv6 where it has not.
    pub fn next_hop(&self, node: usize, tor: &str, family: Family) -> Result<IpAddr> {
        let link = self.link(node, tor)?;
        let near = link.plug(Side::Near);
        let address = near.address(family == Family::Ipv6).or(near.address(true));
        address.with_context(|| format!("no address towards {tor} at {}", node_name(node)))
    }

    /// What a ToR learned of a prefix from the node itself, if anything.
    pub fn path_of(&self, node: usize, tor: &str, prefix: &str) -> Result<Option<Path>> {
        let hop = self.next_hop(node, tor, Family::of(prefix))?;
        let paths = self.tor(tor)?.router.paths(prefix)?;
        Ok(paths.into_iter().find(|path| path.next_hops.first() == Some(&hop)))
    }

    /// Awaits that every ToR learned a prefix from exactly these nodes.
    pub fn await_tellers(&self, prefix: &str, nodes: &[usize]) -> Result<()> {
        for tor in &self.tors {
            until(&format!("{prefix} at {}", tor.name), PATIENCE, || {
                for node in 1..=self.hosts.len() {
                    let (told, wanted) =
                        (self.path_of(node, &tor.name, prefix)?, nodes.contains(&node));
                    let name = node_name(node);
                    ensure!(told.is_some() == wanted, "of {name} it has {told:?}");
                }
                Ok(())
            })
            .telling(|| tor.router.log_tail())?;
        }
        Ok(())
    }

    /// The nodes to which the kernel of a ToR sends what is for a prefix, in order;
    /// none without such a route. Another next hop than a node's is an error.
    pub fn ways(&self, tor: &str, prefix: &str) -> Result<Vec<usize>> {
        // A kernel shows the prefix of one host without its length.
        let shown = prefix.trim_end_matches("/128").trim_end_matches("/32");
        let hops = self.tor(tor)?.router.kernel_next_hops(shown)?.unwrap_or_default();
        let mut nodes = Vec::new();
        for hop in hops {
            let leads = |node: &usize| {
                self.next_hop(*node, tor, Family::of(prefix)).is_ok_and(|address| address == hop)
            };
            let node = (1..=self.hosts.len()).find(leads);
            nodes.push(node.with_context(|| format!("{prefix} via {hop}, which is no node's"))?);
        }
        nodes.sort_unstable();
        Ok(nodes)
    }

    /// Awaits that the kernels of all ToRs that have routes there send what is for a
    /// prefix to exactly these nodes.
    pub fn await_ways(&self, prefix: &str, nodes: &[usize]) -> Result<()> {
        for tor in self.tors.iter().filter(|tor| tor.forwards()) {
            until(&format!("{prefix} in the kernel of {}", tor.name), PATIENCE, || {
                let ways = self.ways(&tor.name, prefix)?;
                ensure!(ways == nodes, "it leads to the nodes {ways:?}, not {nodes:?}");
                Ok(())
            })
            .telling(|| tor.router.log_tail())?;
        }
        Ok(())
    }
}
