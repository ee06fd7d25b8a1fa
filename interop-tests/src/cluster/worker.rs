//! A node: a machine with a containerd and a kubelet of its own, cabled to the ToR.
//!
//! It comes up as an operator's node does: the runtime, kubelet, no network plugin. Whether one is
//! brought along (ptp, to prove the rig) or comes by a DaemonSet is the caller's wish.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::GATES;
use super::assets::Assets;
use super::cgroup::Cgroup;
use super::keys::{Keys, User};
use super::machine::{Machine, Resident};
use super::plan::{self, Wire};
use crate::binaries::reference_plugin;
use crate::cri;
use crate::facts;
use crate::link::{End, connect};
use crate::netns::Netns;
use crate::network::PluginUnderTest;
use crate::pause;
use crate::wait::{PATIENCE, until};

/// The interface of the cable to the ToR, on the node.
pub const UPLINK: &str = "eth0";

const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// The reference plugins that ptp needs.
const REFERENCE: [&str; 4] = ["ptp", "host-local", "loopback", "portmap"];

/// A node of the cluster.
#[derive(Debug)]
pub struct Worker {
    // The order matters: who runs on the machine goes first, then the machine, its namespace and
    // the cgroups, which are empty by then.
    kubelet: Option<Resident>,
    containerd: Option<Resident>,
    machine: Option<Machine>,
    netns: Option<Netns>,
    cgroup: Cgroup,
    number: u8,
    name: String,
    assets: Assets,
    dir: PathBuf,
    images: Vec<PathBuf>,
}

impl Worker {
    /// Makes a node's disk, boots it and starts its daemons. `tor` is where its cable goes.
    pub fn start(
        number: u8,
        tor: &Netns,
        assets: &Assets,
        keys: &Keys,
        dir: &Path,
        images: &[PathBuf],
    ) -> Result<Self> {
        let name = plan::node_name(number);
        let mut worker = Self {
            kubelet: None,
            containerd: None,
            machine: None,
            netns: None,
            cgroup: Cgroup::new(&name)?,
            number,
            assets: assets.clone(),
            dir: dir.join(&name),
            images: images.to_vec(),
            name,
        };
        worker.furnish(keys)?;
        worker.boot(tor)?;
        worker.start_daemons()?;
        Ok(worker)
    }

    /// Its name in Kubernetes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, from 1.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Its network with the ToR.
    pub fn wire(&self) -> Wire {
        plan::node_wire(self.number)
    }

    /// Its network namespace.
    pub fn netns(&self) -> Result<&Netns> {
        self.netns.as_ref().with_context(|| format!("{} is off", self.name))
    }

    /// The machine that it is.
    pub fn machine(&self) -> Result<&Machine> {
        self.machine.as_ref().with_context(|| format!("{} is off", self.name))
    }

    /// Its container runtime.
    pub fn cri(&self) -> Result<cri::Client> {
        Ok(cri::Client::new(&self.machine()?.file(CONTAINERD_SOCKET)))
    }

    /// Writes a file of its disk, also while it is off; only below the directories that survive.
    pub fn write(&self, inside: &str, text: &str) -> Result<()> {
        let file = self.disk(inside);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&file, text).with_context(|| format!("writing {inside} of {}", self.name))
    }

    /// Where a file of its disk is kept.
    pub fn disk(&self, inside: &str) -> PathBuf {
        self.dir.join("disk/own").join(inside.trim_start_matches('/'))
    }

    /// Puts the reference plugin ptp on it, with its own prefixes for pods: what proves the rig, and
    /// what flock is measured beside.
    pub fn install_ptp(&self) -> Result<()> {
        let bin = self.disk("/opt/cni/bin");
        fs::create_dir_all(&bin)?;
        for name in REFERENCE {
            fs::copy(reference_plugin(name)?, bin.join(name))?;
        }
        let prefixes = [false, true].map(|ipv6| plan::pods(self.number, ipv6));
        let prefixes: Vec<_> = prefixes.iter().map(String::as_str).collect();
        let ptp = PluginUnderTest::ptp(Path::new("/var/lib/cni/networks"), &prefixes);
        let conflist = serde_json::to_string_pretty(&ptp.conflist("rack", &[]))?;
        self.write("/etc/cni/net.d/10-rack.conflist", &conflist)
    }

    /// Imports the archive of an image, now and after every boot that lost it.
    pub fn load_image(&mut self, archive: &Path) -> Result<()> {
        self.import(archive)?;
        self.images.push(archive.to_path_buf());
        Ok(())
    }

    /// Takes its power away and boots it again: everything that ran is gone, its network namespace too,
    /// and only the disk is as it was.
    pub fn reboot(&mut self, tor: &Netns) -> Result<()> {
        self.power_off()?;
        self.power_on(tor)
    }

    /// Takes its power away.
    pub fn power_off(&mut self) -> Result<()> {
        self.kubelet = None;
        self.containerd = None;
        self.machine = None;
        self.netns = None;
        self.cgroup.remove()
    }

    /// Boots it again from its disk.
    pub fn power_on(&mut self, tor: &Netns) -> Result<()> {
        self.cgroup.make()?;
        // The other end goes with ours, but a little later.
        let gone = self.tor_ifname();
        until(&format!("the cable {gone} to be gone"), PATIENCE, || {
            let there = facts::interfaces(tor)?.iter().any(|one| one.name == gone);
            anyhow::ensure!(!there, "it is there");
            Ok(())
        })?;
        self.boot(tor)?;
        self.start_daemons()
    }

    /// Ends kubelet at once and starts it again.
    pub fn restart_kubelet(&mut self) -> Result<()> {
        if let Some(kubelet) = self.kubelet.take() {
            kubelet.kill()?;
        }
        self.start_kubelet()
    }

    /// Fails when one of its daemons has ended.
    pub fn ensure_alive(&mut self) -> Result<()> {
        self.kubelet.iter_mut().chain(&mut self.containerd).try_for_each(Resident::ensure_alive)
    }

    /// The ends of its logs.
    pub fn logs(&self) -> String {
        let all = self.kubelet.iter().chain(&self.containerd);
        all.map(Resident::log_tail).collect::<Vec<_>>().join("\n")
    }

    fn tor_ifname(&self) -> String {
        format!("to-{}", self.name)
    }

    fn boot(&mut self, tor: &Netns) -> Result<()> {
        let netns = Netns::new(&self.name)?;
        netns.loopback_up()?;
        let (wire, ifname) = (self.wire(), self.tor_ifname());
        let (near, far) = (wire.bound(false), wire.bound(true));
        connect(
            End { netns: tor, ifname: &ifname, addresses: &near.each_ref().map(String::as_str) },
            End { netns: &netns, ifname: UPLINK, addresses: &far.each_ref().map(String::as_str) },
        )?;
        for ipv6 in [false, true] {
            let family = if ipv6 { "-6" } else { "-4" };
            netns.ip(&format!("{family} route add default via {}", wire.near(ipv6)))?;
        }
        let disk = self.dir.join("disk");
        let machine = Machine::boot(&self.name, &netns, &disk, self.assets.dir())?;
        (self.netns, self.machine) = (Some(netns), Some(machine));
        Ok(())
    }

    fn start_daemons(&mut self) -> Result<()> {
        let words = ["containerd", "--config", "/etc/containerd/config.toml"];
        let log = self.dir.join("containerd.log");
        self.containerd = Some(self.machine()?.start("containerd", &words, &log)?);
        for image in self.images.clone() {
            self.import(&image)?;
        }
        self.start_kubelet()
    }

    fn start_kubelet(&mut self) -> Result<()> {
        let wire = self.wire();
        let (name, ips) = (&self.name, [false, true].map(|ipv6| wire.far(ipv6).to_string()));
        let root = self.cgroup.path();
        let flags = [
            "--config=/etc/kubernetes/kubelet.json".to_owned(),
            "--kubeconfig=/etc/kubernetes/kubeconfig".to_owned(),
            "--container-runtime=remote".to_owned(),
            format!("--container-runtime-endpoint=unix://{CONTAINERD_SOCKET}"),
            format!("--hostname-override={name}"),
            format!("--node-ip={}", ips.join(",")),
            format!("--cgroup-root={root}"),
        ];
        let words = ["kubelet"].into_iter().chain(flags.iter().map(String::as_str));
        let log = self.dir.join("kubelet.log");
        self.kubelet = Some(self.machine()?.start("kubelet", &words.collect::<Vec<_>>(), &log)?);
        Ok(())
    }

    fn import(&mut self, archive: &Path) -> Result<()> {
        // The machine has a /tmp of its own; its disk is where both of us can see it.
        let inside = "/var/lib/cni/image.tar";
        fs::create_dir_all(self.disk("/var/lib/cni"))?;
        fs::copy(archive, self.disk(inside))
            .with_context(|| format!("copying {}", archive.display()))?;
        let machine = self.machine.as_ref().context("no machine")?;
        let words = ["ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"];
        let words: Vec<_> = words.into_iter().chain(["images", "import", inside]).collect();
        let containerd = &mut self.containerd;
        let imported = until("containerd to take an image", PATIENCE, || {
            containerd.iter_mut().try_for_each(Resident::ensure_alive)?;
            machine.run(&words)
        });
        fs::remove_file(self.disk(inside))?;
        imported.map(drop).with_context(|| self.logs())
    }

    /// Everything that has to be on the disk before it is booted for the first time.
    fn furnish(&self, keys: &Keys) -> Result<()> {
        fs::create_dir_all(self.dir.join("disk"))?;
        let addresses = [false, true].map(|ipv6| self.wire().far(ipv6));
        let subject = format!("/O=system:nodes/CN=system:node:{}", self.name);
        keys.certificate(&self.name, &subject, &[&self.name], &addresses)?;
        let config = kubelet_configuration().to_string();
        self.write("/etc/kubernetes/kubelet.json", &config)?;
        self.write("/etc/kubernetes/resolv.conf", "")?;
        self.write("/etc/containerd/config.toml", &containerd_configuration())?;
        let copies = [
            (keys.kubeconfig(&User::node(&self.name))?, "kubeconfig"),
            (keys.file("ca.crt"), "ca.crt"),
            (keys.file(&format!("{}.crt", self.name)), "kubelet.crt"),
            (keys.file(&format!("{}.key", self.name)), "kubelet.key"),
        ];
        for (from, name) in copies {
            fs::copy(from, self.disk(&format!("/etc/kubernetes/{name}")))?;
        }
        Ok(())
    }
}

fn kubelet_configuration() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "::",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": "/etc/kubernetes/ca.crt" },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": "/etc/kubernetes/kubelet.crt",
        "tlsPrivateKeyFile": "/etc/kubernetes/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "enforceNodeAllocatable": ["none"],
        "failSwapOn": false,
        // A full disk of the machine is no concern of a test, nor is its memory.
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "featureGates": GATES.split(',').filter_map(|gate| gate.split_once('=')).map(|(gate, on)| (gate.to_owned(), Value::from(on == "true"))).collect::<serde_json::Map<_, _>>(),
        "resolvConf": "/etc/kubernetes/resolv.conf",
        "makeIPTablesUtilChains": false,
        "oomScoreAdj": 0,
        "maxPods": 250,
        "nodeStatusUpdateFrequency": "5s",
        // Two hundred pods at once are not to wait for kubelet's own thrift.
        "kubeAPIQPS": 50,
        "kubeAPIBurst": 100,
    })
}

fn containerd_configuration() -> String {
    let image = pause::IMAGE;
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
# Lowering the score needs a capability that may be missing.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
"#
    )
}
