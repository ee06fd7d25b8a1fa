//! How a node is put together: its namespace, its uplinks, its directories.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::{NODE_V4, NODE_V6, Node, OUTSIDE_V4, OUTSIDE_V6, POD_CIDR4, POD_CIDR6};
use crate::link::{End, connect};
use crate::netns::Netns;
use crate::{manifests, names};

/// A node in the making.
#[derive(Debug, Default)]
pub struct Builder<'a> {
    uplinks: Vec<(End<'a>, Vec<&'a str>)>,
    state_in: Option<&'a Path>,
    name: Option<&'a str>,
    sysctls: &'a [(&'a str, &'a str)],
}

impl<'a> Builder<'a> {
    /// Plugs an uplink into `far`; the node's end gets these addresses.
    pub fn uplink(mut self, far: End<'a>, near_addresses: &[&'a str]) -> Self {
        self.uplinks.push((far, near_addresses.to_vec()));
        self
    }

    /// Calls the node this, instead of something unique.
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Keeps the agent's state below this directory, for a benchmark that wants
    /// a real disk under it.
    pub fn state_in(mut self, dir: &'a Path) -> Self {
        self.state_in = Some(dir);
        self
    }

    /// Settings of the node's kernel that are there before the first cable is: an
    /// interface takes its own from the defaults when it is born.
    pub fn sysctls(mut self, settings: &'a [(&'a str, &'a str)]) -> Self {
        self.sysctls = settings;
        self
    }

    /// Makes the node; its agent does not run yet.
    pub fn build(self) -> Result<Node> {
        let unique = names::unique("node");
        let name = self.name.map_or_else(|| unique.clone(), str::to_owned);
        let netns = Netns::new("node")?;
        netns.sysctls(self.sysctls)?;
        netns.loopback_up()?;
        let mut cables = Vec::new();
        let mut outside = None;
        for (number, (far, addresses)) in self.uplinks.iter().enumerate() {
            let ifname = format!("uplink{number}");
            connect(End { netns: &netns, ifname: &ifname, addresses }, *far)?;
            cables.push(ifname);
        }
        if cables.is_empty() {
            outside = Some(default_uplink(&netns)?);
            cables.push("uplink0".to_owned());
        }
        let dir = tempfile::Builder::new().prefix(&format!("{unique}-")).tempdir()?;
        let state = match self.state_in {
            Some(parent) => tempfile::Builder::new().prefix("state-").tempdir_in(parent)?,
            None => tempfile::Builder::new().prefix("state-").tempdir_in(dir.path())?,
        };
        for part in ["run", "standalone/pods", "bin", "conf"] {
            fs::create_dir_all(dir.path().join(part))?;
        }
        let node = Node { name, netns, outside, cables, agent: None, state, dir };
        node.configure(&manifests::node_config(&node.name, &[POD_CIDR6], &[POD_CIDR4]))?;
        Ok(node)
    }
}

fn default_uplink(netns: &Netns) -> Result<Netns> {
    let outside = Netns::new("outside")?;
    outside.loopback_up()?;
    let near = [format!("{NODE_V4}/24"), format!("{NODE_V6}/64")];
    let far = [format!("{OUTSIDE_V4}/24"), format!("{OUTSIDE_V6}/64")];
    connect(
        End { netns, ifname: "uplink0", addresses: &near.each_ref().map(String::as_str) },
        End { netns: &outside, ifname: "node", addresses: &far.each_ref().map(String::as_str) },
    )?;
    netns.ip(&format!("route add default via {OUTSIDE_V4}"))?;
    netns.ip(&format!("-6 route add default via {OUTSIDE_V6}"))?;
    Ok(outside)
}
