//! Puts the plugin and its network configuration where the runtime looks for them.
//!
//! Files are replaced whole (written aside, synced, renamed), and only when they differ, so that a
//! runtime never executes half a plugin. The conflist is written last, when the agent can serve:
//! its presence is what makes kubelet call the node ready. On shutdown it stays, because the pods
//! stay, and an ADD while the agent is away gets "try again later" from the plugin.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::{Value, json};

/// The plugin's file name, and its `type` in the conflist.
pub const PLUGIN: &str = "flock";
/// Sorts before what other networks install.
pub const CONFLIST: &str = "01-flock.conflist";

/// Our plugin says this of itself, in every version: it is part of its help.
const MARK: &[u8] = b"The CNI plugin of flock";

/// Where things go: `BIN_DIR:CONF_DIR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The runtime's plugin directory.
    pub bin_dir: PathBuf,
    /// The runtime's network configuration directory.
    pub conf_dir: PathBuf,
}

impl FromStr for Places {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((bin, conf)) if !bin.is_empty() && !conf.is_empty() && !conf.contains(':') => {
                Ok(Self { bin_dir: bin.into(), conf_dir: conf.into() })
            }
            _ => Err("expected BIN_DIR:CONF_DIR, such as /opt/cni/bin:/etc/cni/net.d".into()),
        }
    }
}

/// What could not be installed.
#[derive(Debug, thiserror::Error)]
#[error("cannot install {what}: {source}{remedy}")]
pub struct InstallError {
    what: String,
    source: io::Error,
    remedy: &'static str,
}

fn failed(what: &Path, source: io::Error) -> InstallError {
    let remedy = match source.kind() {
        // Root without the right to overrule others, as in a container.
        io::ErrorKind::PermissionDenied => {
            "; let the directory belong to root, or give the agent the capability DAC_OVERRIDE"
        }
        _ => "",
    };
    InstallError { what: what.display().to_string(), source, remedy }
}

/// Copies the plugin, and a `loopback` where there is none but perhaps an older one of ours
/// (containerd will not start a pod without one). Returns what was written.
pub fn plugins(places: &Places) -> Result<Vec<PathBuf>, InstallError> {
    let source = beside_the_agent(PLUGIN)?;
    let plugin = fs::read(&source).map_err(|error| InstallError {
        what: source.display().to_string(),
        source: error,
        remedy: "; the plugin is expected beside flock-agent",
    })?;
    put(places, &plugin)
}

fn put(places: &Places, plugin: &[u8]) -> Result<Vec<PathBuf>, InstallError> {
    let mut written = Vec::new();
    let target = places.bin_dir.join(PLUGIN);
    if replace(&target, plugin, 0o755)? {
        written.push(target);
    }
    let loopback = places.bin_dir.join("loopback");
    if (!loopback.exists() || is_ours(&loopback)) && replace(&loopback, plugin, 0o755)? {
        written.push(loopback);
    }
    Ok(written)
}

/// Whether a plugin is ours. What cannot be read is somebody else's.
fn is_ours(path: &Path) -> bool {
    let found = |content: Vec<u8>| content.windows(MARK.len()).any(|part| part == MARK);
    path.is_file() && fs::read(path).is_ok_and(found)
}

/// Whether the installed plugin is the one beside the agent; `None` where there is none beside it.
pub fn is_current(places: &Places) -> Option<bool> {
    let ours = fs::read(beside_the_agent(PLUGIN).ok()?).ok()?;
    Some(fs::read(places.bin_dir.join(PLUGIN)).is_ok_and(|installed| installed == ours))
}

/// Writes the network configuration. Returns it when it was written.
pub fn conflist(
    places: &Places,
    socket: &Path,
    spool: &Path,
) -> Result<Option<PathBuf>, InstallError> {
    let portmap = places.bin_dir.join("portmap").exists();
    let mut text = serde_json::to_vec_pretty(&conflist_json(socket, spool, portmap))
        .map_err(|error| failed(Path::new(CONFLIST), error.into()))?;
    text.push(b'\n');
    let target = places.conf_dir.join(CONFLIST);
    Ok(replace(&target, &text, 0o644)?.then_some(target))
}

/// A plain 1.1.0 would break containerd 1.6, podman 4.3 and older chained plugins: they read
/// `cniVersion`; newer ones choose from `cniVersions`.
fn conflist_json(socket: &Path, spool: &Path, portmap: bool) -> Value {
    let mut plugins = vec![json!({ "type": PLUGIN, "socket": socket, "spool": spool })];
    if portmap {
        plugins.push(json!({ "type": "portmap", "capabilities": { "portMappings": true } }));
    }
    json!({
        "cniVersion": "1.0.0",
        "cniVersions": ["0.4.0", "1.0.0", "1.1.0"],
        "name": "flock",
        "plugins": plugins,
    })
}

fn beside_the_agent(name: &str) -> Result<PathBuf, InstallError> {
    let agent = std::env::current_exe().map_err(|error| failed(Path::new(name), error))?;
    Ok(agent.with_file_name(name))
}

/// Whole or not at all; true when the file changed.
fn replace(target: &Path, content: &[u8], mode: u32) -> Result<bool, InstallError> {
    let same_mode =
        |meta: &fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o7777 == mode;
    if target.metadata().is_ok_and(|meta| same_mode(&meta))
        && fs::read(target).is_ok_and(|there| there == content)
    {
        return Ok(false);
    }
    write_whole(target, content, mode).map_err(|error| failed(target, error))?;
    Ok(true)
}

fn write_whole(target: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    // A dot in front: runtimes that list the directory pass over it.
    let aside = folder.join(format!(".{name}.{}", std::process::id()));
    let outcome = (|| {
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(mode).open(&aside)?;
        file.write_all(content)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&aside, target)?;
        File::open(folder)?.sync_all()
    })();
    if outcome.is_err() {
        let _ = fs::remove_file(&aside);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conflist_names_the_versions_that_old_runtimes_need() {
        let json = conflist_json(Path::new("/s"), Path::new("/p"), true);
        assert_eq!(json["cniVersion"], "1.0.0");
        assert_eq!(json["cniVersions"], json!(["0.4.0", "1.0.0", "1.1.0"]));
        assert_eq!(json["plugins"][0], json!({"type": "flock", "socket": "/s", "spool": "/p"}));
        assert_eq!(json["plugins"][1]["type"], "portmap");
        assert_eq!(
            conflist_json(Path::new("/s"), Path::new("/p"), false)["plugins"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn a_file_is_replaced_only_when_it_differs_and_leaves_nothing_aside() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("deep/flock");
        assert!(replace(&target, b"one", 0o755).unwrap());
        assert!(!replace(&target, b"one", 0o755).unwrap());
        assert!(replace(&target, b"two", 0o755).unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"two");
        assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_loopback_of_ours_is_upgraded_and_somebody_elses_never() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places { bin_dir: dir.path().join("bin"), conf_dir: dir.path().join("conf") };
        let loopback = places.bin_dir.join("loopback");
        let versions = [1, 2].map(|n| [b"\x7fELF", MARK, &[n]].concat());
        for plugin in &versions {
            assert_eq!(put(&places, plugin).unwrap().len(), 2);
            assert_eq!(fs::read(&loopback).unwrap(), *plugin);
            assert!(put(&places, plugin).unwrap().is_empty(), "nothing to do");
        }
        fs::write(&loopback, "the reference one").unwrap();
        assert!(put(&places, &versions[1]).unwrap().is_empty());
        assert_eq!(fs::read(&loopback).unwrap(), b"the reference one");
    }

    #[test]
    fn a_directory_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("flock");
        fs::create_dir(&target).unwrap();
        let error = replace(&target, b"x", 0o755).unwrap_err().to_string();
        assert!(error.contains("flock"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn places_are_two_directories() {
        assert!("/a:/b".parse::<Places>().is_ok());
        for bad in ["", "/a", "/a:", ":/b", "/a:/b:/c"] {
            assert!(bad.parse::<Places>().is_err(), "{bad}");
        }
    }
}
