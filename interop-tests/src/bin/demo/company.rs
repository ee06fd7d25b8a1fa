//! The company: two ToRs, three nodes, their pods; what everybody is told, and what
//! the ToRs' kernels make of it.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rack::fabric::{Fabric, PodOnNode, Tor};
use rack::facts;
use rack::manifests::{self, PREFIX, Writing};
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

/// The ToRs.
pub(crate) const TORS: [(&str, Brand); 2] = [("tor-a", Brand::Bird), ("tor-b", Brand::Frr)];
/// The nodes, by number.
pub(crate) const NODES: [usize; 3] = [1, 2, 3];
/// The AS number of every node.
pub(crate) const NODE_ASN: u32 = 65_001;
/// What the three `dns` pods serve together.
pub(crate) const ANYCAST: [&str; 2] = ["2001:db8:53::53", "192.0.2.53"];
/// Where an agent's metrics and page are.
const HTTP: &str = "127.0.0.1:9179";

/// Everything that was built. Dropping it takes everything down.
#[derive(Debug)]
pub(crate) struct Company {
    pub(crate) pods: Vec<PodOnNode>,
    pub(crate) fabric: Fabric,
}

impl Company {
    /// Builds the rack and starts the routers; the agents do not run yet.
    pub(crate) fn build() -> Result<Self> {
        let builder =
            TORS.iter().fold(Fabric::builder(), |builder, (name, brand)| builder.tor(name, *brand));
        let fabric = builder.nodes(NODES.len()).build()?;
        Ok(Self { pods: Vec::new(), fabric })
    }

    /// Starts the agents, and awaits that they can attach pods. Whoever looks around in the rack finds
    /// metrics and the page on each node's loopback.
    pub(crate) fn start(&mut self) -> Result<()> {
        for number in NODES {
            self.fabric.node_mut(number)?.start_with(&[("FLOCK_HTTP", HTTP)])?;
        }
        NODES.iter().try_for_each(|number| self.fabric.node_mut(*number)?.await_ready())
    }

    /// The prefixes that a node gives to its pods.
    pub(crate) fn prefixes(node: usize) -> [String; 2] {
        [format!("2001:db8:0:{node}::/64"), format!("10.244.{node}.0/24")]
    }

    /// A NodeConfig without `spec.bgp`.
    pub(crate) fn node_config(node: usize) -> String {
        let [cidr6, cidr4] = Self::prefixes(node);
        manifests::written(&format!("node-{node}"), &cidr6, &cidr4, &[])
    }

    /// The same with what makes the node speak below it.
    pub(crate) fn peering_config(&self, node: usize) -> Result<String> {
        let [cidr6, cidr4] = Self::prefixes(node);
        let peers = self.fabric.peers(node)?;
        Ok(manifests::written(&format!("node-{node}"), &cidr6, &cidr4, &peers))
    }

    /// Writes the NodeConfig of a node; a running agent sees it at once.
    pub(crate) fn write(&self, node: usize, config: &str) -> Result<()> {
        self.fabric.node(node)?.write("nodeconfig.yaml", config, Writing::Renamed)
    }

    /// Makes every node speak, and awaits all sessions.
    pub(crate) fn speak(&self) -> Result<()> {
        for node in NODES {
            self.write(node, &self.peering_config(node)?)?;
        }
        self.fabric.await_sessions()
    }

    /// Attaches a pod by the real plugin, and looks whether the kernel agrees.
    pub(crate) fn attach(&mut self, node: usize, name: &str) -> Result<&PodOnNode> {
        let served = ANYCAST.join(",");
        let annotations: &[_] =
            if name.starts_with("dns") { &[("anycast", served.as_str())] } else { &[] };
        let pod = self.fabric.add_pod(node, name, annotations)?;
        let bound = facts::global_addresses(&pod.pod.netns, "eth0")?;
        ensure!(pod.addresses().len() == 2, "{name} got {:?}, not both families", pod.addresses());
        for address in pod.addresses() {
            let there = bound.iter().any(|(other, _)| *other == address);
            ensure!(there, "{address} is in the answer, but not on the pod's eth0: {bound:?}");
        }
        self.pods.push(pod);
        self.pods.last().context("a pod that was just attached")
    }

    /// A pod by name.
    pub(crate) fn pod(&self, name: &str) -> Result<&PodOnNode> {
        let pod = self.pods.iter().find(|one| one.pod.name == name);
        pod.with_context(|| format!("there is no pod {name}"))
    }

    /// Says that a pod is Ready, or that it is not: its manifest is written aside and
    /// renamed into place. Returns when that was.
    pub(crate) fn set_ready(&self, name: &str, ready: bool) -> Result<Instant> {
        let node = self.fabric.node(self.pod(name)?.node)?;
        let file = node.file(&format!("standalone/pods/default.{name}.yaml"));
        let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        let annotations = manifest.pointer_mut("/metadata/annotations");
        let annotations = annotations.and_then(Value::as_object_mut);
        let annotations = annotations.with_context(|| format!("{name} has no annotations"))?;
        annotations.insert(format!("{PREFIX}ready"), ready.to_string().into());
        let aside = node.file(&format!("{name}.new"));
        fs::write(&aside, manifest.to_string())?;
        let now = Instant::now();
        fs::rename(aside, file)?;
        Ok(now)
    }

    /// Awaits that each ToR's kernel sends what is for `destination` to these nodes,
    /// or has no route for it.
    pub(crate) fn await_ways(&self, destination: &str, nodes: &[usize]) -> Result<()> {
        let wanted: Vec<_> = nodes.iter().map(|node| format!("node-{node}")).collect();
        for tor in self.fabric.tors() {
            until(&format!("{destination} in the kernel of {}", tor.name()), PATIENCE, || {
                let ways = ways(tor, destination)?;
                ensure!(ways == wanted, "it leads to {ways:?}, not {wanted:?}");
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The nodes to which a ToR's kernel sends what is for `destination`, sorted.
fn ways(tor: &Tor, destination: &str) -> Result<Vec<String>> {
    let routes = facts::routes(tor.netns())?;
    let of_it = routes.into_iter().filter(|route| route.destination == destination);
    let mut devices: Vec<_> = of_it.flat_map(|route| route.devices).collect();
    devices.sort();
    Ok(devices)
}
