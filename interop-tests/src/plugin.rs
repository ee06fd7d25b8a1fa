//! One CNI call, made exactly as a container runtime makes it: the plugin is
//! executed with its environment and its configuration on standard input, and
//! what it prints is a result or a CNI error.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::netns::Netns;
use crate::network::PluginUnderTest;
use crate::pod::Pod;

/// The environment of a call.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// `CNI_COMMAND`.
    pub command: String,
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_NETNS`; empty is allowed for DEL.
    pub netns: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_ARGS`.
    pub args: String,
    /// `CNI_PATH`; where empty, the directory of the plugin.
    pub path: String,
}

/// A CNI error, as printed by a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CniError {
    /// The code: 11 is "try again later", 50 and above belong to STATUS.
    pub code: u64,
    /// What is wrong.
    pub msg: String,
    /// More of it.
    pub details: String,
}

impl fmt::Display for CniError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CNI error {}: {} {}", self.code, self.msg, self.details)
    }
}

impl std::error::Error for CniError {}

/// What a plugin answered: a result (null where it prints none) or its error.
pub type Answer = std::result::Result<Value, CniError>;

/// Executes a plugin from the calling thread, in that thread's namespace.
pub fn execute(program: &Path, call: &Call, config: &[u8]) -> Result<Answer> {
    let path = if call.path.is_empty() { directory(program) } else { PathBuf::from(&call.path) };
    let mut child = Command::new(program)
        .env("CNI_COMMAND", &call.command)
        .env("CNI_CONTAINERID", &call.container_id)
        .env("CNI_NETNS", &call.netns)
        .env("CNI_IFNAME", &call.ifname)
        .env("CNI_ARGS", &call.args)
        .env("CNI_PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("executing {}", program.display()))?;
    let mut stdin = child.stdin.take().context("a plugin without standard input")?;
    let _may_exit_before_it_reads = stdin.write_all(config);
    drop(stdin);
    let output = child.wait_with_output()?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let said = || {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("{} {}: {stdout}\n{stderr}", program.display(), call.command)
    };
    let printed = match stdout.trim() {
        "" => Value::Null,
        text => serde_json::from_str(text).with_context(said)?,
    };
    if output.status.success() {
        return Ok(Ok(printed));
    }
    let word = |key| printed.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    match printed.get("code").and_then(Value::as_u64) {
        Some(code) => Ok(Err(CniError { code, msg: word("msg"), details: word("details") })),
        None => bail!("failed without a CNI error ({}): {}", output.status, said()),
    }
}

fn directory(program: &Path) -> PathBuf {
    program.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A plugin with its configuration, executed in a node's namespace.
#[derive(Debug)]
pub struct Plugin {
    node: Netns,
    program: PathBuf,
    config: Value,
}

impl Plugin {
    /// The plugin of a network, for calls on a node.
    pub fn new(node: &Netns, network: &PluginUnderTest) -> Result<Self> {
        Ok(Self {
            node: Netns::of_someone_else(&node.path())?,
            program: network.program()?,
            config: network.single("1.0.0"),
        })
    }

    /// The network configuration, to be changed before a call.
    pub fn config_mut(&mut self) -> &mut Value {
        &mut self.config
    }

    /// Asks for results in this version of the specification.
    pub fn speaking(mut self, cni_version: &str) -> Self {
        if let Some(config) = self.config.as_object_mut() {
            config.insert("cniVersion".to_owned(), cni_version.into());
        }
        self
    }

    /// The program itself.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The configuration as it goes to standard input.
    pub fn input(&self) -> Vec<u8> {
        self.config.to_string().into_bytes()
    }

    /// Makes any call, with any input.
    pub fn call(&self, call: &Call, input: &[u8]) -> Result<Answer> {
        self.node.within(|| execute(&self.program, call, input))
    }

    /// ADD; an error answer is an error here.
    pub fn add(&self, pod: &Pod) -> Result<Value> {
        self.try_add(pod)?.map_err(|error| anyhow!(error).context(format!("ADD {}", pod.name)))
    }

    /// ADD, whatever its answer.
    pub fn try_add(&self, pod: &Pod) -> Result<Answer> {
        self.call(&pod.call("ADD"), &self.input())
    }

    /// DEL.
    pub fn del(&self, pod: &Pod) -> Result<()> {
        let answer = self.call(&pod.call("DEL"), &self.input())?;
        answer.map(drop).map_err(|error| anyhow!(error).context(format!("DEL {}", pod.name)))
    }

    /// CHECK against an earlier result.
    pub fn check(&self, pod: &Pod, previous: &Value) -> Result<Answer> {
        let mut config = self.config.clone();
        if let Some(config) = config.as_object_mut() {
            config.insert("prevResult".to_owned(), previous.clone());
        }
        self.call(&pod.call("CHECK"), config.to_string().as_bytes())
    }

    /// GC with the attachments that are to stay.
    pub fn gc(&self, valid: &[&Pod]) -> Result<Answer> {
        let attachment = |pod: &&Pod| json!({ "containerID": pod.container_id, "ifname": "eth0" });
        let valid: Vec<_> = valid.iter().map(attachment).collect();
        let mut config = self.config.clone();
        if let Some(config) = config.as_object_mut() {
            config.insert("cniVersion".to_owned(), "1.1.0".into());
            config.insert("cni.dev/valid-attachments".to_owned(), valid.into());
        }
        let call = Call { command: "GC".to_owned(), ..Call::default() };
        self.call(&call, config.to_string().as_bytes())
    }

    /// STATUS.
    pub fn status(&self) -> Result<Answer> {
        let mut config = self.config.clone();
        if let Some(config) = config.as_object_mut() {
            config.insert("cniVersion".to_owned(), "1.1.0".into());
        }
        let call = Call { command: "STATUS".to_owned(), ..Call::default() };
        self.call(&call, config.to_string().as_bytes())
    }
}
