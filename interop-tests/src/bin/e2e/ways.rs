//! Anycast addresses at the ToR: pods that have them by annotation, the ways that its kernel has to them,
//! and what became of these ways meanwhile.

use std::net::IpAddr;

use anyhow::{Result, ensure};
use rack::cluster::{Cluster, SLOW};
use rack::monitor::RouteMonitor;
use rack::wait::until;

use crate::objects::Workload;
use crate::stage::{Pod, deploy};

/// The annotation of pods.
const ANNOTATION: &str = "flock.fritzlab.net/anycast";

/// An address of each family, IPv6 first, as the ToR's kernel writes them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anycast(pub(crate) [&'static str; 2]);

impl Anycast {
    /// The addresses.
    pub(crate) fn addresses(&self) -> Result<Vec<IpAddr>> {
        let all = self.0.into_iter().map(str::parse::<IpAddr>);
        Ok(all.collect::<std::result::Result<_, _>>()?)
    }

    /// One pod on each node that has them, which go on serving for so many seconds when they are asked
    /// to end; returns them once the ToR leads to all.
    pub(crate) fn deploy(&self, cluster: &Cluster, app: &str, linger: u32) -> Result<Vec<Pod>> {
        let value = self.0.join(",");
        let annotations = [(ANNOTATION, value.as_str())];
        let replicas = u32::try_from(cluster.nodes().len())?;
        let wanted = Workload::new(app, replicas).annotated(&annotations).lingering(linger);
        let pods = deploy(cluster.kubectl(), &wanted)?;
        self.await_ways(cluster, &pods)?;
        Ok(pods)
    }

    /// Awaits that the ToR's kernel leads to exactly the nodes of these pods.
    pub(crate) fn await_ways(&self, cluster: &Cluster, pods: &[Pod]) -> Result<()> {
        for address in self.addresses()? {
            let hop = |pod: &Pod| Ok(cluster.node_named(&pod.node)?.wire().far(address.is_ipv6()));
            let mut wanted = pods.iter().map(hop).collect::<Result<Vec<IpAddr>>>()?;
            wanted.sort();
            wanted.dedup();
            until(&format!("{address} over {wanted:?}"), SLOW, || {
                // The kernel shows the route of a single address without its length.
                let there = cluster.tor().kernel_next_hops(&address.to_string())?;
                let mut there = there.unwrap_or_default();
                there.sort();
                ensure!(there == wanted, "it is over {there:?}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Awaits that every node of the cluster announces them anew, after its agent was restarted.
    pub(crate) fn await_fresh(&self, cluster: &Cluster) -> Result<()> {
        for address in self.addresses()? {
            let prefix = prefix(address);
            until(&format!("{prefix} of every node, and not stale"), SLOW, || {
                let paths = cluster.tor().paths(&prefix)?;
                let fresh = paths.len() >= cluster.nodes().len();
                ensure!(fresh && !paths.iter().any(|path| path.stale), "the ToR has {paths:?}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Awaits that the ToR has no way to them.
    pub(crate) fn await_none(&self, cluster: &Cluster) -> Result<()> {
        let all = self.addresses()?;
        all.iter().try_for_each(|address| cluster.tor().await_no_path(&prefix(*address)))
    }

    /// What a kernel was told of the ways to them, a line each. A route with a way less is no route that went,
    /// so this sees what [`RouteMonitor::gone`] does not: one node that withdrew.
    pub(crate) fn changes(&self, monitor: &RouteMonitor) -> Result<Vec<String>> {
        let told = monitor.told()?.into_iter();
        let ours = |line: &String| {
            line.split_whitespace()
                .any(|word| self.0.contains(&word.split('/').next().unwrap_or(word)))
        };
        Ok(told.filter(ours).collect())
    }
}

fn prefix(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv6() { 128 } else { 32 })
}
