//! What `deploy/` ships, read as a cluster reads it: manifests, and of the DaemonSet what its one
//! container is given. Decides nothing; tests compare, and [`crate::container`] obeys.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::binaries::{build_dir, run, tool};
use crate::docs::root;

/// Where flock lives in a cluster.
pub const NAMESPACE: &str = "flock-system";

/// A file below `deploy/`.
pub fn path(relative: &str) -> PathBuf {
    root().join("deploy").join(relative)
}

/// The documents of YAML text, without empty ones.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(all.into_iter().filter(|one| !one.is_null()).collect())
}

/// The documents of a file below `deploy/`.
pub fn read(relative: &str) -> Result<Vec<Value>> {
    let file = path(relative);
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    documents(&text).with_context(|| file.display().to_string())
}

/// What `kubectl kustomize` makes of a directory.
pub fn kustomized(directory: &Path) -> Result<Vec<Value>> {
    let mut command = Command::new(tool("kubectl")?);
    documents(&run(command.arg("kustomize").arg(directory))?)
}

/// What the Helm chart makes of its values, with these over them: by helm itself where it is installed,
/// else by a small program that renders as helm does, compiled with Debian's libraries.
pub fn rendered(values: &Value) -> Result<Vec<Value>> {
    let chart = path("helm/flock");
    let mut command = match tool("helm") {
        Ok(helm) => {
            let mut command = Command::new(helm);
            command.args(["template", "flock"]).arg(chart).args(["--namespace", NAMESPACE]);
            let given = tempfile::NamedTempFile::new()?;
            fs::write(given.path(), values.to_string())?;
            command.arg("--values").arg(given.path());
            return documents(&run(&mut command)?);
        }
        Err(_) => Command::new(tool("go")?),
    };
    command.env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode").env("CGO_ENABLED", "0");
    command.env("GOCACHE", build_dir()?.join("go-cache"));
    command.arg("run").arg(root().join("interop-tests/helm/render.go"));
    documents(&run(command.arg(chart).arg(NAMESPACE).arg(values.to_string()))?)
}

/// Kind, namespace and name of an object.
pub fn identity(object: &Value) -> String {
    let word = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or("-");
    format!("{} {}/{}", word("/kind"), word("/metadata/namespace"), word("/metadata/name"))
}

/// A directory of the node that the container has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The node's path.
    pub host: String,
    /// Where it is inside.
    pub inside: String,
    /// Whether what is mounted there later is seen inside.
    pub follows: bool,
}

/// The DaemonSet's container.
#[derive(Debug, Clone)]
pub struct Container {
    /// As it stands in the manifest.
    pub manifest: Value,
    /// Its capabilities, when all others were dropped.
    pub capabilities: Vec<String>,
    /// The node's directories.
    pub mounts: Vec<Mount>,
    /// The environment; what Kubernetes fills in is `{field}`.
    pub environment: Vec<(String, String)>,
}

impl Container {
    /// Reads it.
    pub fn of_the_daemonset() -> Result<Self> {
        let all = read("kustomize/base/daemonset.yaml")?;
        let daemonset = all.first().context("no DaemonSet")?;
        let pod = daemonset.pointer("/spec/template/spec").context("no pod")?;
        let containers = list(pod, "/containers");
        ensure!(containers.len() == 1 && pod.get("initContainers").is_none(), "not one container");
        let manifest = containers.into_iter().next().context("no container")?;
        ensure!(
            texts(&manifest, "/securityContext/capabilities/drop") == ["ALL"],
            "not all capabilities are dropped"
        );
        let capabilities = texts(&manifest, "/securityContext/capabilities/add");
        let volumes = list(pod, "/volumes");
        let mounts = list(&manifest, "/volumeMounts");
        let mounts = mounts.iter().map(|mount| mounted(mount, &volumes)).collect::<Result<_>>()?;
        let environment = list(&manifest, "/env").iter().map(variable).collect::<Result<_>>()?;
        Ok(Self { capabilities, mounts, environment, manifest })
    }
}

fn mounted(mount: &Value, volumes: &[Value]) -> Result<Mount> {
    let named = |volume: &&Value| volume.get("name") == mount.get("name");
    let volume = volumes.iter().find(named).with_context(|| format!("no volume: {mount}"))?;
    Ok(Mount {
        host: text(volume, "/hostPath/path")?,
        inside: text(mount, "/mountPath")?,
        follows: mount.get("mountPropagation").is_some_and(|word| word == "HostToContainer"),
    })
}

fn variable(entry: &Value) -> Result<(String, String)> {
    let value = match text(entry, "/value") {
        Ok(value) => value,
        Err(_) => format!("{{{}}}", text(entry, "/valueFrom/fieldRef/fieldPath")?),
    };
    Ok((text(entry, "/name")?, value))
}

/// The text at a place of a value.
pub fn text(value: &Value, at: &str) -> Result<String> {
    let found = value.pointer(at).and_then(Value::as_str);
    found.map(str::to_owned).with_context(|| format!("no {at} in {value}"))
}

/// The list at a place of a value; none is an empty one.
pub fn list(value: &Value, at: &str) -> Vec<Value> {
    value.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The texts of a list.
pub fn texts(value: &Value, at: &str) -> Vec<String> {
    list(value, at).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
