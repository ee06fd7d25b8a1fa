//! What the scenarios play on: the cluster, made when the first of them asks, and what every one of
//! them does with it.

use std::env;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rack::binaries::{run, tool};
use rack::cluster::door::Door;
use rack::cluster::kubectl::Kubectl;
use rack::cluster::{Cluster, SLOW, Wish as ClusterWish, workload};
use rack::wait::until;
use serde_json::Value;

use crate::flock;
use crate::objects::Workload;
use crate::wish::Wish;

/// The stage.
#[derive(Debug)]
pub(crate) struct Stage {
    cluster: Option<Cluster>,
    foreign: Option<Kubectl>,
    /// Whether flock's manifests were applied.
    pub(crate) installed: bool,
    pub(crate) outage: Duration,
}

/// A pod as Kubernetes tells of it.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
}

impl Stage {
    /// An empty stage, or that of somebody else.
    pub(crate) fn new(wish: &Wish) -> Result<Self> {
        let foreign = env::var_os("FLOCK_E2E_KUBECONFIG").filter(|path| !path.is_empty());
        let foreign = foreign.map(PathBuf::from);
        let foreign = foreign.map(|path| Kubectl::of_someone_else(&path)).transpose()?;
        Ok(Self { cluster: None, foreign, installed: false, outage: wish.outage })
    }

    /// Whether the cluster is somebody else's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// The cluster, if it was made.
    pub(crate) fn standing(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// The cluster; made now, when it was not yet: two nodes, no network plugin, the images loaded.
    pub(crate) fn cluster(&mut self) -> Result<&mut Cluster> {
        ensure!(self.foreign.is_none(), "this cluster is somebody else's");
        if self.cluster.is_none() {
            println!("     building a cluster: a control plane, two nodes, a ToR");
            let mut cluster = Cluster::start(ClusterWish::default())?;
            load_workload(&mut cluster)?;
            let image = flock_image(cluster.dir())?;
            cluster.load_image(&image)?;
            self.cluster = Some(cluster);
        }
        self.cluster.as_mut().context("no cluster")
    }

    /// The cluster with flock in it, as every scenario begins: its NodeConfigs, its sessions up.
    pub(crate) fn flock(&mut self) -> Result<&mut Cluster> {
        self.cluster()?;
        let cluster = self.cluster.as_mut().context("no cluster")?;
        if !self.installed {
            flock::apply(cluster.kubectl())?;
            self.installed = true;
        }
        flock::settle(cluster)?;
        Ok(cluster)
    }

    /// The operator's hand.
    pub(crate) fn kubectl(&self) -> Result<&Kubectl> {
        let own = self.cluster.as_ref().map(Cluster::kubectl);
        own.or(self.foreign.as_ref()).context("no cluster stands yet")
    }
}

/// Loads the program of the pods.
pub(crate) fn load_workload(cluster: &mut Cluster) -> Result<()> {
    let archive = workload::archive(&cluster.dir().join("workload"))?;
    cluster.load_image(&archive)
}

/// The archive of flock's image: `FLOCK_E2E_IMAGE`, or what `make image` left with buildah.
fn flock_image(dir: &Path) -> Result<PathBuf> {
    if let Some(archive) = env::var_os("FLOCK_E2E_IMAGE") {
        return Ok(PathBuf::from(archive));
    }
    let archive = dir.join("flock.tar");
    let mut push = Command::new(tool("buildah")?);
    // A name without a host is completed in the archive as containerd completes it in the manifests.
    push.args(["push", "--quiet", "flock:dev"])
        .arg(format!("docker-archive:{}:flock:dev", archive.display()));
    run(&mut push).context("the image flock:dev; `make image` builds it")?;
    Ok(archive)
}

/// Applies a workload and awaits that all its pods are Ready; returns them.
pub(crate) fn deploy(kubectl: &Kubectl, wanted: &Workload<'_>) -> Result<Vec<Pod>> {
    kubectl.apply(&wanted.deployment().to_string())?;
    await_pods(kubectl, wanted.name, wanted.replicas)
}

/// Awaits that so many pods of an app are Ready and no others are there; returns them.
pub(crate) fn await_pods(kubectl: &Kubectl, app: &str, replicas: u32) -> Result<Vec<Pod>> {
    until(&format!("{replicas} Ready pods of {app}"), SLOW, || {
        let pods = pods(kubectl, app)?;
        let ready = pods.iter().filter(|pod| pod.ready && !pod.terminating).count();
        let all = u32::try_from(pods.len())?;
        ensure!(u32::try_from(ready)? == replicas && all == replicas, "{ready} Ready of {all}");
        Ok(pods)
    })
}

/// Removes a workload and awaits that its pods are gone.
pub(crate) fn remove(kubectl: &Kubectl, app: &str) -> Result<()> {
    kubectl.run(&["delete", "deployment", app, "--ignore-not-found", "--wait=false"])?;
    await_pods(kubectl, app, 0).map(drop)
}

/// The pods of an app.
pub(crate) fn pods(kubectl: &Kubectl, app: &str) -> Result<Vec<Pod>> {
    let list = kubectl.json(&["get", "pods", "-l", &format!("app={app}")])?;
    items(&list).iter().map(Pod::read).collect()
}

/// The entries of a list.
pub(crate) fn items(list: &Value) -> &[Value] {
    list.get("items").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What is at a pointer, as text; nothing when it is not there.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The condition of a type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object.pointer("/status/conditions").and_then(Value::as_array);
    all.into_iter().flatten().find(|one| text(one, "/type") == kind)
}

impl Pod {
    /// Reads what the API server tells.
    pub(crate) fn read(object: &Value) -> Result<Self> {
        let addresses = object.pointer("/status/podIPs").and_then(Value::as_array);
        let addresses = addresses.into_iter().flatten().map(|one| text(one, "/ip").parse());
        let ready = condition(object, "Ready");
        Ok(Self {
            name: text(object, "/metadata/name").to_owned(),
            uid: text(object, "/metadata/uid").to_owned(),
            node: text(object, "/spec/nodeName").to_owned(),
            addresses: addresses.collect::<std::result::Result<_, _>>()?,
            ready: ready.is_some_and(|one| text(one, "/status") == "True"),
            terminating: object.pointer("/metadata/deletionTimestamp").is_some(),
        })
    }

    /// Its address of a family.
    pub(crate) fn address(&self, ipv6: bool) -> Result<IpAddr> {
        let found = self.addresses.iter().find(|address| address.is_ipv6() == ipv6);
        let family = if ipv6 { "IPv6" } else { "IPv4" };
        found.copied().with_context(|| format!("{} has no {family} address", self.name))
    }

    /// The URL of its server, over a family.
    pub(crate) fn url(&self, ipv6: bool, path: &str) -> Result<String> {
        let address = std::net::SocketAddr::new(self.address(ipv6)?, workload::PORT);
        Ok(format!("http://{address}{path}"))
    }

    /// Runs a program in its container.
    pub(crate) fn exec(&self, kubectl: &Kubectl, words: &[&str]) -> Result<String> {
        let all = ["exec", &self.name, "--"].into_iter().chain(words.iter().copied());
        kubectl.run(&all.collect::<Vec<_>>())
    }

    /// The door into its network namespace.
    pub(crate) fn door(&self, cluster: &Cluster) -> Result<Door> {
        let worker = cluster.node_named(&self.node)?;
        Door::open(worker, &self.sandbox(cluster)?)
    }

    /// The id of its sandbox.
    pub(crate) fn sandbox(&self, cluster: &Cluster) -> Result<String> {
        let all = cluster.node_named(&self.node)?.cri()?.sandboxes()?;
        let own = all.into_iter().find(|one| one.pod_uid == self.uid && one.ready);
        Ok(own.with_context(|| format!("{} has no sandbox that is ready", self.name))?.id)
    }
}
