//! Reads the state file. Decides what is tolerated (the Go agent's ways of writing addresses and
//! absent values, keys of others) and what is a refusal: everything else, with the place named.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::allocation::{Allocation, DEFAULT_IFNAME, Key, State};

/// The one version there is.
pub(super) const VERSION: u64 = 1;

/// What a state file says.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) allocations: Vec<Allocation>,
    /// Keys beside `version`, `node` and `allocations`, kept.
    pub(super) extra: Map<String, Value>,
}

/// Reads a whole file for this node; the error is what is wrong with it.
pub(super) fn decode(bytes: &[u8], node: &str) -> Result<Decoded, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("it is empty, which no agent writes".to_owned());
    }
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("not readable as JSON: {error}"))?;
    let Value::Object(mut file) = value else {
        return Err("not a JSON object".to_owned());
    };
    match file.remove("version") {
        Some(version) if version.as_u64() == Some(VERSION) => {}
        Some(version) => {
            return Err(format!("version {version} is not known here, only version {VERSION} is"));
        }
        None => return Err("it has no version".to_owned()),
    }
    match file.remove("node") {
        Some(Value::String(theirs)) if theirs == node || theirs.is_empty() => {}
        None | Some(Value::Null) => {}
        // A node may be renamed; its pods are the same, and entries of another's are cleared away
        // like those of pods that died.
        Some(Value::String(theirs)) => {
            tracing::warn!(
                theirs,
                ours = node,
                "the state file is of a node of another name; taken over"
            );
        }
        Some(other) => return Err(format!("node: {other} is not a name")),
    }
    let entries = match file.remove("allocations") {
        Some(Value::Array(entries)) => entries,
        // Go writes a nil slice so.
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return Err("allocations: not a list".to_owned()),
    };
    let mut allocations = Vec::with_capacity(entries.len());
    let mut seen: BTreeMap<Key, usize> = BTreeMap::new();
    for (i, entry) in entries.into_iter().enumerate() {
        let Value::Object(entry) = entry else {
            return Err(format!("allocations[{i}]: not an object"));
        };
        let allocation = Fields(entry).allocation().map_err(|e| format!("allocations[{i}].{e}"))?;
        if let Some(first) = seen.insert(allocation.key(), i) {
            let key = allocation.key();
            return Err(format!(
                "allocations[{i}]: {key} is there twice, first in allocations[{first}]"
            ));
        }
        allocations.push(allocation);
    }
    Ok(Decoded { allocations, extra: file })
}

/// The keys of one entry; what is read is taken out, so that the rest are the unknown ones.
struct Fields(Map<String, Value>);

impl Fields {
    fn allocation(mut self) -> Result<Allocation, String> {
        let container_id = self.text("container_id")?.ok_or("container_id: missing or empty")?;
        Ok(Allocation {
            container_id,
            ifname: self.text("ifname")?.unwrap_or_else(|| DEFAULT_IFNAME.to_owned()),
            namespace: self.text("namespace")?.unwrap_or_default(),
            pod_name: self.text("pod_name")?.unwrap_or_default(),
            owner_uid: self.text("owner_uid")?.unwrap_or_default(),
            ip6: self.read("ip6", "an IPv6 address", ipv6)?,
            ip4: self.read("ip4", "an IPv4 address", ipv4)?,
            anycast: self.addresses("anycast")?,
            addresses: self.addresses("addresses")?,
            state: self.read("state", "pending or committed", state)?.ok_or("state: missing")?,
            allocated_at: self
                .read("allocated_at", "a time of RFC 3339", |text| text.parse::<Timestamp>().ok())?
                .ok_or("allocated_at: missing")?,
            netns: self.text("netns")?,
            netns_dev: self.number("netns_dev")?,
            netns_ino: self.number("netns_ino")?,
            host_ifname: self.text("host_ifname")?,
            mtu: self.number("mtu")?,
            host_mac: self.text("host_mac")?,
            pod_mac: self.text("pod_mac")?,
            network: self.text("network")?,
            boot_id: self.text("boot_id")?,
            extra: self.0,
        })
    }

    /// A text; empty and null are absent.
    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.0.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(other) => Err(format!("{key}: {other} is not a text")),
        }
    }

    fn read<T>(
        &mut self,
        key: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        read(&text).map(Some).ok_or_else(|| format!("{key}: {text:?} is not {what}"))
    }

    fn number<T: TryFrom<u64>>(&mut self, key: &str) -> Result<Option<T>, String> {
        match self.0.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().and_then(|number| T::try_from(number).ok()) {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{key}: {value} is not a number of that size")),
            },
        }
    }

    fn addresses(&mut self, key: &str) -> Result<Vec<IpAddr>, String> {
        let list = match self.0.remove(key) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(format!("{key}: {other} is not a list")),
        };
        list.iter()
            .enumerate()
            .map(|(i, value)| {
                let addr = value.as_str().and_then(address);
                addr.ok_or_else(|| format!("{key}[{i}]: {value} is not an IP address"))
            })
            .collect()
    }
}

/// With or without a prefix length, which says nothing here.
fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| text.parse::<IpNet>().ok().map(|net| net.addr()))
}

fn ipv6(text: &str) -> Option<Ipv6Addr> {
    match address(text)? {
        IpAddr::V6(addr) => Some(addr),
        IpAddr::V4(_) => None,
    }
}

fn ipv4(text: &str) -> Option<Ipv4Addr> {
    match address(text)? {
        IpAddr::V4(addr) => Some(addr),
        IpAddr::V6(_) => None,
    }
}

fn state(text: &str) -> Option<State> {
    match text {
        "pending" => Some(State::Pending),
        "committed" => Some(State::Committed),
        _ => None,
    }
}
