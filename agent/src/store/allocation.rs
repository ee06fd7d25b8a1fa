//! One entry of the state file. Decides its keys and how it is written; leaves reading to
//! `decode`, because files of the Go agent are read more loosely than ours are written.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::error::StoreError;

/// The interface of an entry that does not name one: the Go agent knew no other.
pub(super) const DEFAULT_IFNAME: &str = "eth0";

/// What tells attachments apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// As the runtime names the container (its sandbox).
    pub container_id: String,
    /// In the container.
    pub ifname: String,
}

/// How far an attachment has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Addresses are taken, the pod may or may not be wired.
    Pending,
    /// The runtime was, or is about to be, told.
    Committed,
}

/// One attachment. The first ten keys are the Go agent's, the rest ours and optional.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Allocation {
    /// As the runtime names the container.
    pub container_id: String,
    /// In the container.
    pub ifname: String,
    /// Of the pod.
    pub namespace: String,
    /// Of the pod.
    pub pod_name: String,
    /// The pod's UID.
    pub owner_uid: String,
    /// The primary IPv6 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip6: Option<Ipv6Addr>,
    /// The primary IPv4 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip4: Option<Ipv4Addr>,
    /// Shared addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub anycast: Vec<IpAddr>,
    /// All addresses of the annotation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// How far it has come.
    pub state: State,
    /// When the addresses were taken.
    pub allocated_at: Timestamp,
    /// The path of the network namespace, as the runtime gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The namespace itself (a path may come to mean another one): its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns_dev: Option<u64>,
    /// And its inode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns_ino: Option<u64>,
    /// The host's side of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_ifname: Option<String>,
    /// Of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Of the host's side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_mac: Option<String>,
    /// Of the pod's side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_mac: Option<String>,
    /// The name of the network configuration: GC is told of one network at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The boot that the namespace belongs to: its inode means nothing after another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Keys that we do not know, kept for those who do.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Allocation {
    /// A pending entry without any address yet.
    pub fn new(key: &Key, allocated_at: Timestamp) -> Self {
        Self {
            container_id: key.container_id.clone(),
            ifname: key.ifname.clone(),
            namespace: String::new(),
            pod_name: String::new(),
            owner_uid: String::new(),
            ip6: None,
            ip4: None,
            anycast: Vec::new(),
            addresses: Vec::new(),
            state: State::Pending,
            allocated_at,
            netns: None,
            netns_dev: None,
            netns_ino: None,
            host_ifname: None,
            mtu: None,
            host_mac: None,
            pod_mac: None,
            network: None,
            boot_id: None,
            extra: Map::new(),
        }
    }

    /// What tells this attachment from others.
    pub fn key(&self) -> Key {
        Key { container_id: self.container_id.clone(), ifname: self.ifname.clone() }
    }

    /// The entry as it stands in the file: one line, without its end.
    pub(super) fn line(&self) -> Result<Box<[u8]>, StoreError> {
        serde_json::to_vec(self)
            .map(Vec::into_boxed_slice)
            .map_err(|error| StoreError::Entry { key: self.key(), problem: error.to_string() })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.container_id, self.ifname)
    }
}
