//! podman with its CNI backend, in a node's namespace, with storage of its own.
//!
//! No image is needed: the container's root is an overlay of the machine's own
//! (`--rootfs /:O`). `runc` and `cgroupfs` work on any cgroup layout; the limits
//! are given because raising them needs a capability that may be missing.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::binaries::{run, tool};
use crate::names;
use crate::netns::Netns;
use crate::network;
use crate::node::Node;

/// podman on a node.
#[derive(Debug)]
pub struct Podman<'a> {
    node: &'a Node,
    home: PathBuf,
    network: String,
}

/// A running container, removed when dropped.
#[derive(Debug)]
pub struct Container<'a> {
    podman: &'a Podman<'a>,
    name: String,
    gone: bool,
}

impl<'a> Podman<'a> {
    /// Sets podman up with a conflist and the plugins of a directory.
    pub fn new(node: &'a Node, plugin_dir: &Path, conflist: &Value) -> Result<Self> {
        tool("runc")?;
        let network = conflist.get("name").and_then(Value::as_str).context("a nameless network")?;
        let home = node.file("podman");
        let conf_dir = home.join("net.d");
        network::install(conflist, &conf_dir)?;
        fs::write(
            home.join("containers.conf"),
            format!(
                "[network]\nnetwork_backend = \"cni\"\ncni_plugin_dirs = [{plugin_dir:?}]\n\
                 network_config_dir = {conf_dir:?}\ndefault_network = {network:?}\n\
                 [engine]\nevents_logger = \"none\"\n"
            ),
        )?;
        Ok(Self { node, home, network: network.to_owned() })
    }

    /// Runs podman to its end.
    fn podman(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(tool("podman")?);
        command.env("CONTAINERS_CONF", self.home.join("containers.conf"));
        for (option, part) in [("--root", "root"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
            command.arg(option).arg(self.home.join(part));
        }
        command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs"]).args(arguments);
        self.node.netns().within(|| run(&mut command))
    }

    /// Starts a container that sleeps.
    pub fn start(&'a self) -> Result<Container<'a>> {
        let name = names::unique("container");
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
        let head = ["run", "--detach", "--name", &name, "--network", &self.network];
        let tail = ["--rootfs", "/:O", "sleep", "infinity"];
        // Made first: a start that fails halfway is removed as well.
        let container = Container { podman: self, name: name.clone(), gone: false };
        self.podman(&[&head[..], &limits, &tail].concat())?;
        Ok(container)
    }
}

impl Container<'_> {
    /// Runs a program inside.
    pub fn exec(&self, arguments: &[&str]) -> Result<String> {
        self.podman.podman(&[&["exec", &self.name], arguments].concat())
    }

    /// The container's network namespace, made by podman.
    pub fn netns(&self) -> Result<Netns> {
        let path = self.inspect("{{.NetworkSettings.SandboxKey}}")?;
        Netns::of_someone_else(Path::new(path.trim()))
    }

    /// The addresses that podman shows for it: IPv4 and IPv6.
    pub fn addresses(&self) -> Result<Vec<IpAddr>> {
        let network = &self.podman.network;
        let field = |name: &str| {
            self.inspect(&format!("{{{{(index .NetworkSettings.Networks \"{network}\").{name}}}}}"))
        };
        let texts = [field("IPAddress")?, field("GlobalIPv6Address")?];
        texts.iter().map(|text| text.trim().parse().with_context(|| text.clone())).collect()
    }

    /// Its full id, which is what CNI is told.
    pub fn id(&self) -> Result<String> {
        Ok(self.inspect("{{.Id}}")?.trim().to_owned())
    }

    /// Stops and removes it.
    pub fn remove(mut self) -> Result<()> {
        self.gone = true;
        self.rm()
    }

    fn inspect(&self, format: &str) -> Result<String> {
        self.podman.podman(&["inspect", "--format", format, &self.name])
    }

    fn rm(&self) -> Result<()> {
        self.podman.podman(&["rm", "--force", "--time", "0", &self.name]).map(drop)
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        if !self.gone
            && let Err(error) = self.rm()
        {
            eprintln!("removing the container {}: {error:#}", self.name);
        }
    }
}
