//! A node's agent in a container, with exactly what the DaemonSet gives it: capabilities, the node's
//! directories, a root that is read-only, the runtime's own seccomp profile, no new privileges.
//!
//! podman is the runtime, and the node's directories are those of the rack: `/run/flock` and the like
//! are a node's own. Only NodeConfig and pods come from a directory, as there is no API server.
//! Whatever else is called, the plugin or the command line, finds the agent as it does without.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::binaries::{self, run, tool};
use crate::image::libraries;
use crate::names;
use crate::node::Node;
use crate::router::{await_podman_left, podman};
use crate::shipped::{Container, Mount, NAMESPACE};

/// Where NodeConfig and pods are inside.
pub const STANDALONE: &str = "/standalone";

/// An agent's container; removed when dropped.
#[derive(Debug)]
pub struct Housed {
    home: TempDir,
    name: String,
}

impl Housed {
    /// Starts a node's agent in a container.
    pub fn start(node: &mut Node, container: &Container) -> Result<Self> {
        tool("runc")?;
        let name = names::unique("agent");
        // Short: podman takes no long paths.
        let home = tempfile::Builder::new().prefix("agent-").tempdir()?;
        let root = home.path().join("root");
        fs::create_dir(&root)?;
        let mut command = podman(home.path())?;
        command.args(["run", "--rm", "--name", &name, "--log-driver", "none"]);
        command.arg("--network").arg(format!("ns:{}", node.netns().path().display()));
        command.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]);
        restrict(&mut command, container)?;
        for Mount { host, inside, follows } in &container.mounts {
            let how = if *follows { "rslave" } else { "rprivate" };
            let host = on_the_rack(node, host)?;
            command.arg("--volume").arg(format!("{}:{inside}:{how}", host.display()));
        }
        for program in [binaries::flock_agent()?, binaries::flock()?] {
            let file = program.file_name().and_then(|name| name.to_str()).context("no name")?;
            command.arg("--volume").arg(format!("{}:/bin/{file}:ro", program.display()));
            for library in libraries(&program)? {
                command.arg("--volume").arg(format!("{0}:{0}:ro", library.display()));
            }
        }
        let standalone = node.file("standalone");
        command.arg("--volume").arg(format!("{}:{STANDALONE}:ro", standalone.display()));
        for (key, value) in &container.environment {
            let value = match value.as_str() {
                "{spec.nodeName}" => node.name(),
                "{metadata.namespace}" => NAMESPACE,
                value => value,
            };
            command.arg("--env").arg(format!("{key}={value}"));
        }
        command
            .arg("--env")
            .arg(format!("FLOCK_STANDALONE={STANDALONE}"))
            .args(["--env", "PATH=/bin"]);
        command.arg("--rootfs").arg(root).args(["/bin/flock-agent", "run"]);
        let housed = Self { home, name };
        node.start_by(&mut command)?;
        Ok(housed)
    }

    /// Runs a command inside, as `kubectl exec` does.
    pub fn exec(&self, arguments: &[&str]) -> Result<String> {
        run(podman(self.home.path())?.args(["exec", &self.name]).args(arguments))
    }

    /// `kill -9`, and awaits its end.
    pub fn kill(self, node: &mut Node) -> Result<()> {
        run(podman(self.home.path())?.args(["kill", "--signal", "KILL", &self.name]))?;
        node.await_death()
    }
}

impl Drop for Housed {
    fn drop(&mut self) {
        let removed = podman(self.home.path()).and_then(|mut podman| {
            run(podman.args(["rm", "--force", "--ignore", "--time", "0", &self.name]))?;
            await_podman_left(self.home.path())
        });
        if let Err(error) = removed {
            eprintln!("removing the container {}: {error:#}", self.name);
        }
    }
}

/// What the manifest's `securityContext` says, in podman's words. A word that is not known here is
/// an error, so that nothing is believed to be obeyed that is not.
fn restrict(command: &mut Command, container: &Container) -> Result<()> {
    command.args(["--cap-drop", "ALL"]);
    for capability in &container.capabilities {
        command.args(["--cap-add", capability]);
    }
    let security = container.manifest.get("securityContext").and_then(Value::as_object);
    for (key, value) in security.context("no securityContext")? {
        match (key.as_str(), value) {
            ("capabilities", _) | ("privileged", Value::Bool(false)) => {}
            ("allowPrivilegeEscalation", Value::Bool(false)) => {
                command.args(["--security-opt", "no-new-privileges"]);
            }
            ("readOnlyRootFilesystem", Value::Bool(true)) => {
                command.args(["--read-only", "--read-only-tmpfs=false"]);
            }
            ("runAsUser", user) if user == 0 => drop(command.args(["--user", "0:0"])),
            ("runAsGroup", group) if group == 0 => {}
            // podman's own profile is that of container runtimes, and is there by default.
            ("seccompProfile", profile) if profile["type"] == "RuntimeDefault" => {}
            // Without SELinux it says nothing.
            ("seLinuxOptions", _) => {}
            (key, value) => bail!("securityContext.{key}: {value} is not known here"),
        }
    }
    Ok(())
}

/// Where a node of the rack has what a node of a cluster has there.
fn on_the_rack(node: &Node, host: &str) -> Result<PathBuf> {
    Ok(match host {
        "/run/flock" => node.file("run"),
        "/var/lib/flock" => node.state_dir().to_path_buf(),
        "/opt/cni/bin" => node.file("bin"),
        "/etc/cni/net.d" => node.file("conf"),
        "/run/netns" | "/proc/sys/net" => PathBuf::from(host),
        other => bail!("the DaemonSet mounts {other}, which a node of the rack does not have"),
    })
}
