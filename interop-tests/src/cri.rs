//! The Container Runtime Interface, as kubelet speaks it, in its smallest form.
//!
//! `curl` carries the HTTP/2, gRPC adds five bytes to each message, and the few
//! messages needed are written field by field. The numbers are those of
//! `runtime.v1` in the CRI's `api.proto`.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::binaries::{run, tool};

/// A pod sandbox as kubelet would ask for it.
#[derive(Debug, Clone, Default)]
pub struct SandboxConfig {
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// Whether it stays in the node's network namespace, so that no plugin is called.
    pub host_network: bool,
    /// Container port and host port, TCP.
    pub host_ports: Vec<(u16, u16)>,
    /// Annotations; containerd reads the bandwidth from them.
    pub annotations: BTreeMap<String, String>,
    /// The parent cgroup.
    pub cgroup_parent: String,
    /// Where logs would go.
    pub log_directory: PathBuf,
}

/// What the runtime says about a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxStatus {
    /// Its addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
    /// Its network namespace.
    pub netns: PathBuf,
}

/// A sandbox in the runtime's list.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// Its id.
    pub id: String,
    /// The name of its pod.
    pub pod_name: String,
    /// The uid of its pod.
    pub pod_uid: String,
    /// The namespace of its pod.
    pub pod_namespace: String,
    /// Whether it runs; one that ended is listed until it is removed.
    pub ready: bool,
}

/// A client of a runtime's socket.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// A client for a socket.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_path_buf() }
    }

    /// Whether the runtime and its network are ready, by its own word.
    pub fn ready(&self) -> Result<()> {
        // StatusResponse.status = 1, RuntimeStatus.conditions = 1, then type = 1,
        // status = 2, reason = 3, message = 4.
        let answer = self.call("Status", &[])?;
        let status = fields(&answer)?.message(1).context("no status")?.to_vec();
        for condition in fields(&status)?.messages(1) {
            let condition = fields(condition)?;
            let on = condition.numbers.get(&2) == Some(&1);
            ensure!(on, "{}: {}", condition.text(1), condition.text(4));
        }
        Ok(())
    }

    /// RunPodSandbox: returns the sandbox's id.
    pub fn run_pod_sandbox(&self, config: &SandboxConfig) -> Result<String> {
        let mut metadata = Message::default();
        metadata.text(1, &config.name).text(2, &config.uid).text(3, &config.namespace);
        let mut linux = Message::default();
        linux.text(1, &config.cgroup_parent);
        if config.host_network {
            // security_context = 2, its namespace_options = 1, of these network = 1 with NODE = 2.
            let mut namespaces = Message::default();
            namespaces.number(1, 2);
            let mut security = Message::default();
            security.bytes(1, &namespaces.0);
            linux.bytes(2, &security.0);
        }
        let mut pod = Message::default();
        pod.bytes(1, &metadata.0);
        // A pod of the node's own network has its host name, too.
        if !config.host_network {
            pod.text(2, &config.name);
        }
        pod.text(3, &config.log_directory.to_string_lossy());
        for (container_port, host_port) in &config.host_ports {
            let mut mapping = Message::default();
            mapping.number(2, u64::from(*container_port)).number(3, u64::from(*host_port));
            pod.bytes(5, &mapping.0);
        }
        for (key, value) in &config.annotations {
            let mut entry = Message::default();
            entry.text(1, key).text(2, value);
            pod.bytes(7, &entry.0);
        }
        pod.bytes(8, &linux.0);
        let mut request = Message::default();
        request.bytes(1, &pod.0);
        let answer = self.call("RunPodSandbox", &request.0)?;
        Ok(fields(&answer)?.text(1))
    }

    /// StopPodSandbox.
    pub fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        self.call("StopPodSandbox", &Message::default().text(1, id).0).map(drop)
    }

    /// RemovePodSandbox.
    pub fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        self.call("RemovePodSandbox", &Message::default().text(1, id).0).map(drop)
    }

    /// ListPodSandbox: the ids.
    pub fn list_pod_sandbox(&self) -> Result<Vec<String>> {
        Ok(self.sandboxes()?.into_iter().map(|sandbox| sandbox.id).collect())
    }

    /// ListPodSandbox, with whose they are.
    pub fn sandboxes(&self) -> Result<Vec<Sandbox>> {
        let answer = self.call("ListPodSandbox", &[])?;
        let answer = fields(&answer)?;
        let sandbox = |item| {
            // PodSandbox: id = 1, metadata = 2 (name = 1, uid = 2, namespace = 3), state = 3 with 0
            // for ready, which is left out as every zero is.
            let item = fields(item)?;
            let metadata = fields(item.message(2).context("a sandbox of nobody")?)?;
            Ok(Sandbox {
                id: item.text(1),
                pod_name: metadata.text(1),
                pod_uid: metadata.text(2),
                pod_namespace: metadata.text(3),
                ready: item.numbers.get(&3).is_none_or(|state| *state == 0),
            })
        };
        answer.messages(1).map(sandbox).collect()
    }

    /// PodSandboxStatus, with what containerd adds when asked to be verbose.
    pub fn pod_sandbox_status(&self, id: &str) -> Result<SandboxStatus> {
        let answer =
            self.call("PodSandboxStatus", &Message::default().text(1, id).number(2, 1).0)?;
        let answer = fields(&answer)?;
        let status = fields(answer.message(1).context("no status")?)?;
        let network = fields(status.message(5).context("no network")?)?;
        let mut addresses = vec![network.text(1).parse().context("the primary address")?];
        for more in network.messages(2) {
            addresses.push(fields(more)?.text(1).parse().context("an additional address")?);
        }
        let info = fields(answer.message(2).context("no verbose information")?)?.text(2);
        let info: Value = serde_json::from_str(&info)?;
        let namespaces = info.pointer("/runtimeSpec/linux/namespaces").and_then(Value::as_array);
        let netns = namespaces
            .into_iter()
            .flatten()
            .find(|namespace| namespace.get("type").is_some_and(|kind| kind == "network"))
            .and_then(|namespace| namespace.get("path")?.as_str())
            .context("a sandbox without a network namespace")?;
        Ok(SandboxStatus { addresses, netns: PathBuf::from(netns) })
    }

    fn call(&self, method: &str, message: &[u8]) -> Result<Vec<u8>> {
        let dir = tempfile::tempdir()?;
        let file = |name: &str| dir.path().join(name);
        let mut framed = vec![0];
        framed.extend(u32::try_from(message.len())?.to_be_bytes());
        framed.extend(message);
        fs::write(file("request"), framed)?;
        fs::write(file("answer"), [])?;
        let mut curl = Command::new(tool("curl")?);
        curl.args(["--silent", "--show-error", "--max-time", "120", "--http2-prior-knowledge"])
            .args(["--header", "content-type: application/grpc", "--header", "te: trailers"])
            .arg("--unix-socket")
            .arg(&self.socket)
            .arg("--data-binary")
            .arg(format!("@{}", file("request").display()))
            .arg("--dump-header")
            .arg(file("headers"))
            .arg("--output")
            .arg(file("answer"))
            .arg(format!("http://localhost/runtime.v1.RuntimeService/{method}"));
        run(&mut curl)?;
        let headers = fs::read_to_string(file("headers"))?;
        if !headers.lines().any(|line| line.trim() == "grpc-status: 0") {
            let told = headers.lines().find(|line| line.starts_with("grpc-message"));
            bail!("{method}: {}", told.unwrap_or(&headers));
        }
        let answer = fs::read(file("answer"))?;
        Ok(answer.get(5..).unwrap_or_default().to_vec())
    }
}

/// A protocol buffer in the making.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u8, value: u64) -> &mut Self {
        self.0.push(field << 3);
        self.varint(value);
        self
    }

    fn text(&mut self, field: u8, value: &str) -> &mut Self {
        self.bytes(field, value.as_bytes())
    }

    fn bytes(&mut self, field: u8, value: &[u8]) -> &mut Self {
        self.0.push(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn varint(&mut self, mut value: u64) {
        loop {
            let low = u8::try_from(value & 0x7f).unwrap_or(0);
            value >>= 7;
            if value == 0 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 0x80);
        }
    }
}

/// The fields of a protocol buffer, one level deep.
#[derive(Debug, Default)]
struct Fields<'a> {
    numbers: BTreeMap<u64, u64>,
    blocks: Vec<(u64, &'a [u8])>,
}

impl<'a> Fields<'a> {
    fn messages(&self, field: u64) -> impl Iterator<Item = &'a [u8]> {
        self.blocks.iter().filter(move |(number, _)| *number == field).map(|(_, block)| *block)
    }

    fn message(&self, field: u64) -> Option<&'a [u8]> {
        self.messages(field).next()
    }

    fn text(&self, field: u64) -> String {
        String::from_utf8_lossy(self.message(field).unwrap_or_default()).into_owned()
    }
}

fn fields(mut rest: &[u8]) -> Result<Fields<'_>> {
    let mut fields = Fields::default();
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        match key & 7 {
            0 => {
                let value = take_varint(&mut rest)?;
                fields.numbers.insert(key >> 3, value);
            }
            2 => {
                let length = usize::try_from(take_varint(&mut rest)?)?;
                let (block, more) = rest.split_at_checked(length).context("a short message")?;
                fields.blocks.push((key >> 3, block));
                rest = more;
            }
            other => bail!("wire type {other} in a CRI message"),
        }
    }
    Ok(fields)
}

fn take_varint(rest: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, more) = rest.split_first().context("a short number")?;
        *rest = more;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    bail!("a number without an end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut message = Message::default();
        message.text(1, "pod").number(2, 300).bytes(5, &[0; 200]).number(3, u64::MAX);
        let fields = fields(&message.0).unwrap();
        assert_eq!(fields.text(1), "pod");
        assert_eq!(fields.numbers, BTreeMap::from([(2, 300), (3, u64::MAX)]));
        assert_eq!(fields.message(5).unwrap().len(), 200);
    }

    #[test]
    fn a_cut_message_is_an_error() {
        let mut message = Message::default();
        message.text(1, "pod").number(2, 300);
        let cut = message.0.split_last().unwrap().1;
        assert!(fields(cut).is_err());
    }
}
