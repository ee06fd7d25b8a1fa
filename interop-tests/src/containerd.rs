//! containerd with its CRI, in a node's namespace, with directories and a socket
//! of its own: the runtime under a real kubelet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::binaries::{run, tool};
use crate::cri::{self, SandboxConfig};
use crate::node::Node;
use crate::process::Daemon;
use crate::wait::{PATIENCE, until};
use crate::{names, network, pause};

/// A running containerd; dropping it removes its sandboxes first.
#[derive(Debug)]
pub struct Containerd {
    daemon: Daemon,
    client: cri::Client,
    home: PathBuf,
    cgroup: String,
}

impl Containerd {
    /// Starts containerd on a node, with a conflist and the plugins of a
    /// directory (which must have a `loopback`), and awaits that it is ready.
    pub fn start(node: &Node, plugin_dir: &Path, conflist: &Value) -> Result<Self> {
        let home = node.file("containerd");
        let conf_dir = home.join("net.d");
        network::install(conflist, &conf_dir)?;
        let config = home.join("config.toml");
        fs::write(&config, configuration(&home, plugin_dir, &conf_dir))?;
        let socket = home.join("sock");
        let mut command = Command::new(tool("containerd")?);
        command.arg("--config").arg(&config);
        let log = home.join("log");
        let daemon = node.netns().within(|| Daemon::start("containerd", &mut command, &log))?;
        let client = cri::Client::new(&socket);
        let cgroup = names::unique("pods");
        let mut started = Self { daemon, client, home, cgroup };
        started.await_ready(&socket)?;
        Ok(started)
    }

    fn await_ready(&mut self, socket: &Path) -> Result<()> {
        let image = pause::archive(&self.home.join("pause"))?;
        let ctr = tool("ctr")?;
        let (daemon, client) = (&mut self.daemon, &self.client);
        let mut import = Command::new(ctr);
        import.arg("--address").arg(socket).args(["--namespace", "k8s.io", "images", "import"]);
        import.arg(image);
        let ready = until("containerd to take an image", PATIENCE, || run(&mut import).map(drop))
            .and_then(|()| until("containerd to be ready", PATIENCE, || client.ready()));
        daemon.ensure_alive()?;
        ready.with_context(|| daemon.log_tail())
    }

    /// The runtime's CRI.
    pub fn cri(&self) -> &cri::Client {
        &self.client
    }

    /// A sandbox for a pod of this name, to be completed.
    pub fn sandbox(&self, name: &str) -> SandboxConfig {
        SandboxConfig {
            name: name.to_owned(),
            uid: names::unique("uid"),
            namespace: "default".to_owned(),
            cgroup_parent: format!("/{}", self.cgroup),
            log_directory: self.home.join("pod-logs"),
            ..SandboxConfig::default()
        }
    }

    fn tidy(&self) -> Result<()> {
        for id in self.client.list_pod_sandbox()? {
            self.client.stop_pod_sandbox(&id)?;
            self.client.remove_pod_sandbox(&id)?;
        }
        Ok(())
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if let Err(error) = self.tidy() {
            eprintln!("removing the sandboxes of containerd: {error:#}");
            kill_shims(&self.home);
        }
        remove_cgroups(&self.cgroup);
    }
}

/// A shim outlives its containerd; ours has our directory in its command line.
fn kill_shims(home: &Path) {
    let home = home.to_string_lossy();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        if line.contains("containerd-shim")
            && line.contains(&*home)
            && let Some(pid) = pid.and_then(Pid::from_raw)
        {
            let _gone_already = kill_process(pid, Signal::KILL);
        }
    }
}

/// The empty parent cgroups that runc leaves, in every hierarchy.
fn remove_cgroups(name: &str) {
    let root = Path::new("/sys/fs/cgroup");
    let _never_made = fs::remove_dir(root.join(name));
    for hierarchy in fs::read_dir(root).into_iter().flatten().flatten() {
        let _never_made = fs::remove_dir(hierarchy.path().join(name));
    }
}

fn configuration(home: &Path, plugin_dir: &Path, conf_dir: &Path) -> String {
    let image = pause::IMAGE;
    let part = |name: &str| home.join(name);
    format!(
        r#"version = 2
root = {root:?}
state = {state:?}
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
address = {socket:?}
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
# Lowering the score needs a capability that may be missing.
restrict_oom_score_adj = true
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {plugin_dir:?}
conf_dir = {conf_dir:?}
"#,
        root = part("root"),
        state = part("state"),
        socket = part("sock"),
    )
}
