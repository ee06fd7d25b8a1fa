//! The plugin called by hand on a node, as its runtime calls it: with the binary that flock installed
//! there, and the network configuration that it wrote.

use std::io::Write;
use std::process::Stdio;

use anyhow::{Context, Result};
use rack::binaries::checked;
use rack::cluster::worker::Worker;
use serde_json::{Value, json};

/// Where the plugin is on a node.
const PLUGIN: &str = "/opt/cni/bin/flock";

/// A call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) command: &'a str,
    pub(crate) container: &'a str,
    /// The name of a network namespace of the node.
    pub(crate) netns: &'a str,
    /// The namespace and name of the pod.
    pub(crate) pod: (&'a str, &'a str),
}

/// Makes a call; what it printed, be it a result or an error. `more` is added to the configuration.
pub(crate) fn call(worker: &Worker, call: &Call<'_>, more: &Value) -> Result<Value> {
    let mut config = json!({
        "cniVersion": "1.1.0",
        "name": "flock",
        "type": "flock",
        "socket": "/run/flock/flock.sock",
        "spool": "/var/lib/flock/spool",
    });
    if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
        config.extend(more.clone());
    }
    let (namespace, name) = call.pod;
    let environment = [
        ("CNI_COMMAND", call.command.to_owned()),
        ("CNI_CONTAINERID", call.container.to_owned()),
        ("CNI_NETNS", format!("/run/netns/{}", call.netns)),
        ("CNI_IFNAME", "eth0".to_owned()),
        ("CNI_ARGS", format!("K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}")),
        ("CNI_PATH", "/opt/cni/bin".to_owned()),
    ];
    let mut command = worker.machine()?.command(&[PLUGIN])?;
    let mut child = command
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("a plugin without standard input")?;
    let _may_exit_before_it_reads = stdin.write_all(config.to_string().as_bytes());
    drop(stdin);
    let output = child.wait_with_output()?;
    // A refusal is an answer too, and is printed in the same place.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match serde_json::from_str(&said) {
        Ok(answer) => Ok(answer),
        Err(_) => checked(call.command, output).map(|_| Value::Null),
    }
}

/// A container id as a runtime would choose it, from a word.
pub(crate) fn container_id(word: &str) -> String {
    rack::names::container_id(&rack::names::unique(word))
}
