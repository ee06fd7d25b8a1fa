//! A node of the rack: a namespace with an uplink, directories of its own, and
//! the real agent in standalone mode.
//!
//! By default the uplink ends in a namespace of its own, `outside`, which stands
//! for whatever is beyond. A ToR is plugged in with [`Builder::uplink`] instead,
//! as often as there are ToRs.

mod builder;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binaries::{self, checked};
use crate::facts;
use crate::manifests::{self, Writing};
use crate::netns::Netns;
use crate::network::PluginUnderTest;
use crate::plugin::Plugin;
use crate::process::Daemon;
use crate::raw::Client;
use crate::wait::{PATIENCE, until};

pub use builder::Builder;

/// The node's address on its default uplink, and the one outside, by family.
pub const NODE_V4: &str = "198.51.100.2";
/// See [`NODE_V4`].
pub const OUTSIDE_V4: &str = "198.51.100.1";
/// See [`NODE_V4`].
pub const NODE_V6: &str = "2001:db8:ffff::2";
/// See [`NODE_V4`].
pub const OUTSIDE_V6: &str = "2001:db8:ffff::1";
/// The prefixes that the node gives to pods unless a test says otherwise.
pub const POD_CIDR6: &str = "2001:db8:a::/64";
/// See [`POD_CIDR6`].
pub const POD_CIDR4: &str = "10.244.1.0/24";

/// Reference plugins that are put beside flock.
const BESIDE: [&str; 6] = ["loopback", "portmap", "bandwidth", "tuning", "ptp", "host-local"];

/// A node. Dropping it stops the agent and removes everything.
#[derive(Debug)]
pub struct Node {
    // The order matters: the agent goes before its namespace and its files.
    agent: Option<Daemon>,
    name: String,
    netns: Netns,
    outside: Option<Netns>,
    cables: Vec<String>,
    state: TempDir,
    dir: TempDir,
}

impl Node {
    /// A node with the default uplink, without its agent.
    pub fn new() -> Result<Self> {
        Builder::default().build()
    }

    /// A node with the default uplink and its agent ready.
    pub fn running() -> Result<Self> {
        let mut node = Self::new()?;
        node.start()?;
        node.await_ready()?;
        Ok(node)
    }

    /// The name of the node, and of its NodeConfig.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the host side of the pods is.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// What is at the other end of the default uplink.
    pub fn outside(&self) -> Result<&Netns> {
        self.outside.as_ref().context("this node was given uplinks of its own")
    }

    /// A path below the node's own directory.
    pub fn file(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    /// The agent's state directory.
    pub fn state_dir(&self) -> &Path {
        self.state.path()
    }

    /// Where the plugin leaves deletions while the agent is down.
    pub fn spool(&self) -> PathBuf {
        self.state.path().join("spool")
    }

    /// The CNI socket.
    pub fn socket(&self) -> PathBuf {
        self.file("run/flock.sock")
    }

    /// The admin socket.
    pub fn admin_socket(&self) -> PathBuf {
        self.file("run/admin.sock")
    }

    /// Writes the NodeConfig.
    pub fn configure(&self, node_config: &Value) -> Result<()> {
        let text = serde_json::to_string_pretty(node_config)?;
        self.write("nodeconfig.yaml", &text, Writing::Renamed)
    }

    /// Writes a pod manifest, named as the pod.
    pub fn write_pod(&self, manifest: &Value, writing: Writing) -> Result<()> {
        let text = serde_json::to_string_pretty(manifest)?;
        self.write(&pod_file(manifest)?, &text, writing)
    }

    /// Removes a pod manifest again.
    pub fn remove_pod(&self, manifest: &Value) -> Result<()> {
        Ok(fs::remove_file(self.file("standalone").join(pod_file(manifest)?))?)
    }

    /// Writes any file of the standalone directory.
    pub fn write(&self, relative: &str, text: &str, writing: Writing) -> Result<()> {
        manifests::write(&self.file("standalone").join(relative), text, writing)
    }

    /// Puts flock and the reference plugins into the node's bin directory, as a
    /// runtime wants them. `loopback` is the reference one.
    pub fn install_plugins(&self) -> Result<PathBuf> {
        let bin = self.file("bin");
        for name in BESIDE {
            std::os::unix::fs::symlink(binaries::reference_plugin(name)?, bin.join(name))?;
        }
        if let Ok(flock) = binaries::flock() {
            std::os::unix::fs::symlink(flock, bin.join("flock"))?;
        }
        Ok(bin)
    }

    /// Starts the agent.
    pub fn start(&mut self) -> Result<()> {
        self.start_with(&[])
    }

    /// Starts the agent with more environment, such as `FLOCK_FAULT`.
    pub fn start_with(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        let mut command = self.netns.command(binaries::flock_agent()?)?;
        command
            .arg("run")
            .args(["--node-name", &self.name])
            .args(["--standalone".as_ref(), self.file("standalone").as_os_str()])
            .args(["--state-dir".as_ref(), self.state_dir().as_os_str()])
            .args(["--socket".as_ref(), self.socket().as_os_str()])
            .args(["--admin-socket".as_ref(), self.admin_socket().as_os_str()])
            .args(["--spool".as_ref(), self.spool().as_os_str()])
            .envs(environment.iter().copied());
        self.start_by(&mut command)
    }

    /// Starts the agent by a command of somebody who houses it otherwise.
    pub(crate) fn start_by(&mut self, command: &mut Command) -> Result<()> {
        ensure!(self.agent.is_none(), "the agent of {} runs already", self.name);
        let what = format!("the agent of {}", self.name);
        self.agent = Some(Daemon::start(&what, command, &self.file("agent.log"))?);
        Ok(())
    }

    /// Awaits that the socket is there and STATUS succeeds.
    pub fn await_ready(&mut self) -> Result<()> {
        let client = self.client();
        let agent = self.agent.as_mut().context("the agent was not started")?;
        let ready = until("the agent to be ready", PATIENCE, || {
            if agent.ensure_alive().is_err() {
                return Ok(());
            }
            client.request(&json!({ "op": "STATUS" })).and_then(|answer| answer.success()).map(drop)
        });
        agent.ensure_alive()?;
        ready.with_context(|| agent.log_tail())
    }

    /// The running agent.
    pub fn agent(&mut self) -> Result<&mut Daemon> {
        self.agent.as_mut().context("the agent does not run")
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<()> {
        self.agent.take().context("the agent does not run")?.kill()
    }

    /// SIGTERM, and awaits a clean exit.
    pub fn terminate(&mut self) -> Result<()> {
        self.agent.take().context("the agent does not run")?.terminate()
    }

    /// Awaits that the agent dies by itself, for instance at a fail point.
    pub fn await_death(&mut self) -> Result<()> {
        let mut agent = self.agent.take().context("the agent does not run")?;
        agent.await_exit().map(drop)
    }

    /// Kills the agent if it runs, starts it again and awaits it.
    pub fn restart_with(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        if let Some(agent) = self.agent.take() {
            agent.kill()?;
        }
        self.start_with(environment)?;
        self.await_ready()
    }

    /// A client for the CNI socket.
    pub fn client(&self) -> Client {
        Client::new(&self.socket())
    }

    /// flock's network configuration for this node.
    pub fn flock_network(&self) -> PluginUnderTest {
        PluginUnderTest::Flock { socket: self.socket(), spool: self.spool() }
    }

    /// The plugin as this node's runtime would execute it.
    pub fn plugin(&self) -> Result<Plugin> {
        Plugin::new(&self.netns, &self.flock_network())
    }

    /// Runs a command of `flock-agent` against the running agent.
    pub fn cli(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.netns.command(binaries::flock_agent()?)?;
        command.args(arguments).env("FLOCK_ADMIN_SOCKET", self.admin_socket());
        let output = command.output()?;
        checked(&format!("flock-agent {}", arguments.join(" ")), output)
    }

    /// The same, for commands with `-o json`.
    pub fn cli_json(&self, arguments: &[&str]) -> Result<Value> {
        let said = self.cli(&[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&said).with_context(|| format!("not JSON: {said}"))
    }

    /// What `flock-agent check` finds of one kind, and in which words.
    pub fn findings(&self, check: &str) -> Result<Vec<Value>> {
        // It exits with 1 when something failed; the report is printed all the same.
        let mut command = self.netns.command(binaries::flock_agent()?)?;
        command.args(["check", "-o", "json"]).env("FLOCK_ADMIN_SOCKET", self.admin_socket());
        let output = command.output()?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("not JSON: {output:?}"))?;
        let all = report.get("findings").and_then(Value::as_array).cloned().unwrap_or_default();
        let of_kind = |finding: &Value| finding.get("check").is_some_and(|name| name == check);
        Ok(all.into_iter().filter(of_kind).collect())
    }

    /// How many sessions its agent has seen the end of, by peer. Of two connections that
    /// are opened at once one is closed, and routers do not always agree which: while
    /// sessions come up this may be more than nothing, and then it stays as it is.
    pub fn ended_sessions(&self) -> Result<BTreeMap<String, u64>> {
        let shown = self.cli_json(&["bgp", "show", "peers"])?;
        let peers = shown.get("peers").and_then(Value::as_array).context("no peers")?;
        let ended = |peer: &Value| {
            let name = peer.get("name")?.as_str()?.to_owned();
            Some((name, peer.get("flaps")?.as_u64()?))
        };
        peers.iter().map(|peer| ended(peer).with_context(|| format!("no count: {peer}"))).collect()
    }

    /// Everything that its agents said so far.
    pub fn log(&self) -> Result<String> {
        let text = fs::read(self.file("agent.log"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The allocations in the state file, keyed by container id; none when there
    /// is no file yet.
    pub fn allocations(&self) -> Result<BTreeMap<String, Value>> {
        let Ok(text) = fs::read_to_string(self.state_dir().join("allocations.json")) else {
            return Ok(BTreeMap::new());
        };
        let state: Value = serde_json::from_str(&text)?;
        let list = state.get("allocations").and_then(Value::as_array).cloned().unwrap_or_default();
        let keyed = |entry: Value| {
            let id = entry.get("container_id").and_then(Value::as_str).unwrap_or_default();
            (id.to_owned(), entry)
        };
        Ok(list.into_iter().map(keyed).collect())
    }

    /// Everything that pods left behind: in the kernel, in the store, in the spool.
    pub fn leftovers(&self) -> Result<Vec<String>> {
        let mut left = facts::leftovers(&self.netns, &self.cables)?;
        left.extend(self.allocations()?.into_keys().map(|id| format!("allocation of {id}")));
        for entry in fs::read_dir(self.spool()).into_iter().flatten() {
            left.push(format!("spooled {}", entry?.path().display()));
        }
        Ok(left)
    }

    /// Awaits that nothing is left: links go shortly after DEL has answered.
    pub fn await_no_leftovers(&self) -> Result<()> {
        until("nothing to be left", PATIENCE, || {
            let left = self.leftovers()?;
            ensure!(left.is_empty(), "left on {}: {}", self.name, left.join("; "));
            Ok(())
        })
    }
}

fn pod_file(manifest: &Value) -> Result<String> {
    let part = |key| manifest.pointer(key).and_then(Value::as_str);
    let name = part("/metadata/name").context("a pod manifest without a name")?;
    Ok(format!("pods/{}.{name}.yaml", part("/metadata/namespace").unwrap_or("default")))
}
