//! A real Kubernetes on this machine: a control plane, nodes with their own kubelet and containerd, and
//! a ToR that is a real router, each in namespaces of its own.
//!
//! ```text
//!   control (etcd, API server, controllers, scheduler)
//!      |
//!     ToR (BIRD; its kernel forwards)
//!      |        |
//!   node-1    node-2   (kubelet, containerd, pods)
//! ```
//!
//! The cluster decides nothing about flock: it comes up without a network plugin, or with the reference
//! plugin ptp, which proves the rig itself. Dropping it ends everything by process id, and removes
//! namespaces, cgroups, mounts and files.
//!
//! | module | what it holds |
//! |---|---|
//! | [`assets`] | where Kubernetes' programs are |
//! | [`plan`] | addresses, prefixes, names |
//! | [`keys`] | certificates, tokens, kubeconfigs |
//! | [`control`] | the control plane |
//! | [`machine`], [`cgroup`] | a computer to be booted, and what its pods are counted in |
//! | [`worker`] | a node |
//! | [`kubectl`] | the operator's hand |
//! | [`door`] | into a pod's network namespace |
//! | [`workload`] | the program in the pods, and its image |

pub mod assets;
pub mod cgroup;
pub mod control;
pub mod door;
pub mod keys;
pub mod kubectl;
pub mod machine;
pub mod plan;
pub mod worker;
pub mod workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use self::assets::Assets;
use self::control::Control;
use self::kubectl::Kubectl;
use self::plan::{CONTROL, SERVICES, TOR_ASN};
use self::worker::Worker;
use crate::link::{End, connect};
use crate::netns::Netns;
use crate::router::{Brand, Config, Housing, Peer, Router};
use crate::story::Telling;
use crate::wait::until;
use crate::{names, pause};

/// How long to await what takes a cluster its time: seconds, and more on a busy machine.
pub const SLOW: Duration = Duration::from_secs(180);

/// What is switched on in every part of Kubernetes.
const GATES: &str = "IPv6DualStack=true";

/// Which network plugin the nodes are born with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// None: somebody will come and bring one.
    None,
    /// The reference plugin ptp, with the ToR told where each node's pods are.
    Ptp,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// How many nodes.
    pub nodes: u8,
    /// Which network plugin they are born with.
    pub network: Network,
    /// Whether the controller manager gives every node its `podCIDRs`.
    pub node_cidrs: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self { nodes: 2, network: Network::None, node_cidrs: false }
    }
}

/// A cluster.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order: nodes before what they are connected to, and the files last.
    workers: Vec<Worker>,
    control: Control,
    tor: Router,
    netns: Arc<Netns>,
    dir: TempDir,
}

impl Cluster {
    /// Builds a cluster and awaits that its API server serves and every node has joined. Nodes are
    /// Ready only once they have a network plugin: see [`Cluster::await_ready`].
    pub fn start(wish: Wish) -> Result<Self> {
        let assets = Assets::find()?;
        let prefix = format!("{}-", names::unique("cluster"));
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir()?;
        let numbers: Vec<u8> = (1..=wish.nodes).collect();
        let netns = Arc::new(tor_netns()?);
        let control = Netns::new("control")?;
        control.loopback_up()?;
        plug_control(&netns, &control)?;
        let names: Vec<_> = numbers.iter().map(|number| plan::node_name(*number)).collect();
        let (files, pause) = (dir.path().join("control"), dir.path().join("pause"));
        let control = Control::start(control, &assets, &files, &names, wish.node_cidrs)?;
        let images = [pause::archive(&pause)?];
        let tor = Router::start(
            Brand::Bird,
            Arc::clone(&netns),
            tor_config(&numbers)?,
            Housing::Process,
        )?;
        let mut cluster = Self { workers: Vec::new(), control, tor, netns, dir };
        for number in numbers {
            let keys = cluster.control.keys();
            let worker =
                Worker::start(number, &cluster.netns, &assets, keys, cluster.dir.path(), &images)?;
            if wish.network == Network::Ptp {
                worker.install_ptp()?;
                cluster.route_pods(number)?;
            }
            cluster.workers.push(worker);
        }
        cluster.await_joined().telling(|| cluster.logs())?;
        Ok(cluster)
    }

    /// kubectl as the administrator.
    pub fn kubectl(&self) -> &Kubectl {
        self.control.kubectl()
    }

    /// The ToR.
    pub fn tor(&self) -> &Router {
        &self.tor
    }

    /// The ToR, to be told something.
    pub fn tor_mut(&mut self) -> &mut Router {
        &mut self.tor
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Worker] {
        &self.workers
    }

    /// A node; they are counted from 1.
    pub fn node(&self, number: u8) -> Result<&Worker> {
        let found = self.workers.iter().find(|worker| worker.number() == number);
        found.with_context(|| format!("no node {number} in this cluster"))
    }

    /// The node of a name.
    pub fn node_named(&self, name: &str) -> Result<&Worker> {
        let found = self.workers.iter().find(|worker| worker.name() == name);
        found.with_context(|| format!("no node {name:?} in this cluster"))
    }

    /// A node, to do something to it.
    pub fn node_mut(&mut self, number: u8) -> Result<&mut Worker> {
        let found = self.workers.iter_mut().find(|worker| worker.number() == number);
        found.with_context(|| format!("no node {number} in this cluster"))
    }

    /// The control plane.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The control plane, to do something to it.
    pub fn control_mut(&mut self) -> &mut Control {
        &mut self.control
    }

    /// A directory that goes with the cluster.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Imports the archive of an image on every node.
    pub fn load_image(&mut self, archive: &Path) -> Result<()> {
        // Kept, because a node may have to import it again.
        let number = fs::read_dir(self.dir.path())?.count();
        let kept: PathBuf = self.dir.path().join(format!("image-{number}.tar"));
        fs::copy(archive, &kept).with_context(|| format!("copying {}", archive.display()))?;
        self.workers.iter_mut().try_for_each(|worker| worker.load_image(&kept))
    }

    /// Takes the power of a node away and boots it again.
    pub fn reboot(&mut self, number: u8) -> Result<()> {
        let netns = Arc::clone(&self.netns);
        self.node_mut(number)?.reboot(&netns)?;
        if self.tor.kernel_next_hops(&plan::pods(number, false))?.is_none() && self.is_ptp(number) {
            self.route_pods(number)?;
        }
        Ok(())
    }

    /// Awaits that all nodes are Ready.
    pub fn await_ready(&self) -> Result<()> {
        until("all nodes to be Ready", SLOW, || {
            for (name, ready) in self.readiness()? {
                ensure!(ready == "True", "{name} is {ready}");
            }
            Ok(())
        })
        .telling(|| self.logs())
    }

    /// What each node's condition Ready says.
    pub fn readiness(&self) -> Result<Vec<(String, String)>> {
        let nodes = self.kubectl().json(&["get", "nodes"])?;
        let nodes = nodes.get("items").and_then(Value::as_array).context("nodes without items")?;
        let ready = |node: &Value| {
            let name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
            let all = node.pointer("/status/conditions").and_then(Value::as_array);
            let mut all = all.into_iter().flatten();
            let ready = all.find(|one| one.get("type").is_some_and(|kind| kind == "Ready"));
            let ready = ready.and_then(|one| one.get("status")?.as_str()).unwrap_or("Unknown");
            (name.to_owned(), ready.to_owned())
        };
        Ok(nodes.iter().map(ready).collect())
    }

    /// The ends of all logs.
    pub fn logs(&self) -> String {
        let nodes = self.workers.iter().map(Worker::logs);
        let all = nodes.chain([self.control.logs(), self.tor.log_tail()]);
        all.collect::<Vec<_>>().join("\n")
    }

    fn await_joined(&mut self) -> Result<()> {
        let Self { workers, control, .. } = self;
        until("all nodes to join", SLOW, || {
            workers.iter_mut().try_for_each(Worker::ensure_alive)?;
            let there = control.kubectl().run(&["get", "nodes", "-o", "name"])?;
            ensure!(there.lines().count() == workers.len(), "there are {there:?}");
            Ok(())
        })
    }

    fn is_ptp(&self, number: u8) -> bool {
        let conflist = |worker: &Worker| worker.disk("/etc/cni/net.d/10-rack.conflist").exists();
        self.node(number).is_ok_and(conflist)
    }

    /// Tells the ToR's kernel where a node's pods are, as BGP would.
    fn route_pods(&self, number: u8) -> Result<()> {
        for ipv6 in [false, true] {
            let family = if ipv6 { "-6" } else { "-4" };
            let (pods, node) = (plan::pods(number, ipv6), plan::node_wire(number).far(ipv6));
            self.netns.ip(&format!("{family} route replace {pods} via {node}"))?;
        }
        Ok(())
    }
}

fn tor_netns() -> Result<Netns> {
    let netns = Netns::new("tor")?;
    netns.loopback_up()?;
    netns.sysctls(&[
        ("net/ipv4/ip_forward", "1"),
        ("net/ipv6/conf/all/forwarding", "1"),
        // By address and port, so that connections of one client are spread.
        ("net/ipv4/fib_multipath_hash_policy", "1"),
        ("net/ipv6/fib_multipath_hash_policy", "1"),
    ])?;
    Ok(netns)
}

/// The cable between the control plane and the ToR, and the way to its service address.
fn plug_control(tor: &Netns, control: &Netns) -> Result<()> {
    let (near, far) = (CONTROL.bound(false), CONTROL.bound(true));
    connect(
        End { netns: tor, ifname: "to-control", addresses: &near.each_ref().map(String::as_str) },
        End { netns: control, ifname: "eth0", addresses: &far.each_ref().map(String::as_str) },
    )?;
    for (ipv6, service) in [false, true].into_iter().zip(SERVICES) {
        let family = if ipv6 { "-6" } else { "-4" };
        control.ip(&format!("{family} route add default via {}", CONTROL.near(ipv6)))?;
        tor.ip(&format!("{family} route add {service} via {}", CONTROL.far(ipv6)))?;
    }
    for address in plan::API_SERVICE {
        control.ip(&format!("address add {address} dev lo"))?;
    }
    Ok(())
}

/// The ToR awaits a session of each node over each family.
fn tor_config(nodes: &[u8]) -> Result<Config> {
    let (v4, v6) = ("10.100.0.1".parse()?, "2001:db8:100::1".parse()?);
    let mut config = Config::new(TOR_ASN, v4, v6);
    config.max_paths = Some(8);
    for number in nodes {
        let wire = plan::node_wire(*number);
        for ipv6 in [true, false] {
            let asn = plan::node_asn(*number);
            let mut peer = Peer::new(wire.far(ipv6), wire.near(ipv6), asn);
            peer.graceful_restart = Some(120);
            peer.passive = true;
            config.peers.push(peer);
        }
    }
    Ok(config)
}
