//! Network configurations: flock's, and that of ptp with host-local, which is
//! what flock is measured against and what proves the rack itself.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use crate::binaries;

/// Which plugin attaches the pods.
#[derive(Debug, Clone)]
pub enum PluginUnderTest {
    /// flock, by way of an agent.
    Flock {
        /// The agent's CNI socket.
        socket: PathBuf,
        /// Where deletions wait for an agent that is down.
        spool: PathBuf,
    },
    /// The reference plugin ptp with host-local addresses; needs no agent.
    Ptp {
        /// Where host-local keeps its allocations.
        data_dir: PathBuf,
        /// One prefix per family that pods are to have.
        subnets: Vec<String>,
    },
}

impl PluginUnderTest {
    /// ptp with these prefixes.
    pub fn ptp(data_dir: &Path, subnets: &[&str]) -> Self {
        let subnets = subnets.iter().map(|subnet| (*subnet).to_owned()).collect();
        Self::Ptp { data_dir: data_dir.to_path_buf(), subnets }
    }

    /// The executable.
    pub fn program(&self) -> Result<PathBuf> {
        match self {
            Self::Flock { .. } => binaries::flock(),
            Self::Ptp { .. } => binaries::reference_plugin("ptp"),
        }
    }

    /// The plugin's own entry in a conflist.
    pub fn entry(&self) -> Value {
        match self {
            Self::Flock { socket, spool } => {
                json!({ "type": "flock", "socket": socket, "spool": spool })
            }
            Self::Ptp { data_dir, subnets } => {
                let ranges: Vec<_> =
                    subnets.iter().map(|subnet| json!([{ "subnet": subnet }])).collect();
                let routes: Vec<_> = subnets.iter().map(|subnet| default_route(subnet)).collect();
                json!({
                    "type": "ptp",
                    "ipam": {
                        "type": "host-local",
                        "dataDir": data_dir,
                        "ranges": ranges,
                        "routes": routes,
                    },
                })
            }
        }
    }

    /// A configuration for the plugin alone.
    pub fn single(&self, cni_version: &str) -> Value {
        let mut config = self.entry();
        if let Some(config) = config.as_object_mut() {
            config.insert("cniVersion".to_owned(), cni_version.into());
            config.insert("name".to_owned(), "rack".into());
        }
        config
    }

    /// A conflist that begins with this plugin.
    pub fn conflist(&self, name: &str, chained: &[Value]) -> Value {
        let plugins: Vec<_> = [self.entry()].into_iter().chain(chained.iter().cloned()).collect();
        json!({
            "cniVersion": "1.0.0",
            "cniVersions": ["0.4.0", "1.0.0", "1.1.0"],
            "name": name,
            "plugins": plugins,
        })
    }
}

fn default_route(subnet: &str) -> Value {
    json!({ "dst": if subnet.contains(':') { "::/0" } else { "0.0.0.0/0" } })
}

/// Writes a conflist where a runtime looks for it.
pub fn install(conflist: &Value, conf_dir: &Path) -> Result<()> {
    fs::create_dir_all(conf_dir)?;
    Ok(fs::write(conf_dir.join("10-rack.conflist"), serde_json::to_string_pretty(conflist)?)?)
}

/// The entry that maps host ports.
pub fn portmap() -> Value {
    json!({ "type": "portmap", "capabilities": { "portMappings": true } })
}

/// The entry that shapes traffic as the runtime asks.
pub fn bandwidth() -> Value {
    json!({ "type": "bandwidth", "capabilities": { "bandwidth": true } })
}

/// The entry that sets one sysctl in the pod.
pub fn tuning(sysctl: &str, value: &str) -> Value {
    json!({ "type": "tuning", "sysctl": { sysctl: value } })
}
