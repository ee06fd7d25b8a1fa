//! What ADD answers: interfaces, addresses, routes and DNS.
//!
//! Decides how a result is written in each version of the spec, how one that
//! other plugins wrote is read, how ours is put after an earlier plugin's, and
//! what CHECK expects to find of ours in the final one. Held inside as 1.1.0 has
//! it. Leaves to the agent what the values are.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::cidr::IpCidr;
use crate::error::{CniError, DECODE_FAILURE, INVALID_CONFIG};
use crate::fields::{Fields, Mismatch};
use crate::version::CniVersion;

/// A CNI result in the shape of 1.1.0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CniResult {
    /// Host and container side, in the order that `IpConfig::interface` counts.
    pub interfaces: Vec<Interface>,
    /// The addresses.
    pub ips: Vec<IpConfig>,
    /// The routes inside the container.
    pub routes: Vec<Route>,
    /// Name resolution, usually passed through from the config.
    pub dns: Dns,
}

/// An interface that was made, on the host or in the container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name where it lives.
    pub name: String,
    /// Its hardware address, `aa:bb:cc:dd:ee:ff`.
    pub mac: String,
    /// Its MTU; only 1.1.0 prints it.
    pub mtu: Option<u32>,
    /// The namespace's path; None is the host.
    pub sandbox: Option<String>,
}

/// An address on one of the interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpConfig {
    /// The address and its prefix length.
    pub address: IpCidr,
    /// The gateway, where there is one.
    pub gateway: Option<IpAddr>,
    /// An index into `CniResult::interfaces`.
    pub interface: Option<u32>,
}

/// A route inside the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The destination.
    pub dst: IpCidr,
    /// The next hop; None is on-link.
    pub gw: Option<IpAddr>,
}

/// Name resolution. The same shape in configs and results of every version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// Addresses of resolvers.
    pub nameservers: Vec<String>,
    /// The local domain.
    pub domain: Option<String>,
    /// Domains to search in.
    pub search: Vec<String>,
    /// Options for the resolver.
    pub options: Vec<String>,
}

impl CniResult {
    /// Reads a result of any version from 0.3.0 on: they differ in keys that are
    /// either derived (an address's family) or optional (an interface's MTU).
    pub fn from_value(value: &Value) -> Result<Self, CniError> {
        Self::read(value)
            .map_err(|reason| CniError::new(DECODE_FAILURE, format!("CNI result: {reason}")))
    }

    /// The same for a config's `prevResult`, where the config is to blame.
    pub fn from_prev_result(value: &Value) -> Result<Self, CniError> {
        Self::read(value)
            .map_err(|reason| CniError::new(INVALID_CONFIG, format!("prevResult: {reason}")))
    }

    pub(crate) fn read(value: &Value) -> Result<Self, Mismatch> {
        let fields = Fields::of(value)?;
        Ok(Self {
            interfaces: fields.list("interfaces", Interface::read)?,
            ips: fields.list("ips", IpConfig::read)?,
            routes: fields.list("routes", Route::read)?,
            dns: Dns::read(fields)?,
        })
    }

    /// The result as JSON in the version that the config asks for.
    #[must_use]
    pub fn to_value(&self, version: CniVersion) -> Value {
        let mtus = version.has_interface_mtu();
        let mut object = Map::new();
        object.insert("cniVersion".into(), version.as_str().into());
        insert_list(&mut object, "interfaces", &self.interfaces, |i| i.to_value(mtus));
        insert_list(&mut object, "ips", &self.ips, |ip| ip.to_value(version.marks_family()));
        insert_list(&mut object, "routes", &self.routes, Route::to_value);
        object.insert("dns".into(), self.dns.to_value());
        Value::Object(object)
    }

    /// The same as text.
    #[must_use]
    pub fn to_json(&self, version: CniVersion) -> String {
        self.to_value(version).to_string()
    }

    /// This result put after that of an earlier plugin of the chain, whose
    /// unknown keys stay. Our DNS counts only where the earlier one has none.
    pub fn append_to(&self, earlier: &Value, version: CniVersion) -> Result<Value, CniError> {
        let known = Self::from_prev_result(earlier)?;
        let mut shifted = self.clone();
        for index in shifted.ips.iter_mut().filter_map(|ip| ip.interface.as_mut()) {
            let before = u32::try_from(known.interfaces.len()).unwrap_or(u32::MAX);
            *index = index.saturating_add(before);
        }
        let Value::Object(ours) = shifted.to_value(version) else {
            return Ok(Value::Null);
        };
        let mut merged = earlier.as_object().cloned().unwrap_or_default();
        for (key, value) in ours {
            match (merged.get_mut(&key), value) {
                (Some(Value::Array(there)), Value::Array(more)) => there.extend(more),
                (Some(_), Value::Object(_)) if known.dns != Dns::default() => {}
                (_, value) => drop(merged.insert(key, value)),
            }
        }
        Ok(Value::Object(merged))
    }

    /// What of this result, which the agent recorded, is missing in the final
    /// result of the chain. Hardware addresses and routes are not compared: the
    /// spec allows later plugins to change them (`tuning` does).
    #[must_use]
    pub fn missing_from(&self, last: &Self) -> Vec<String> {
        let interfaces = self.interfaces.iter().filter(|ours| {
            let same = |theirs: &&Interface| {
                theirs.name == ours.name && theirs.sandbox.is_some() == ours.sandbox.is_some()
            };
            last.interfaces.iter().find(same).is_none()
        });
        let ips = self.ips.iter().filter(|ours| {
            !last.ips.iter().any(|theirs| theirs.address.address() == ours.address.address())
        });
        interfaces
            .map(|interface| format!("prevResult has no interface {:?}", interface.name))
            .chain(ips.map(|ip| format!("prevResult has no address {}", ip.address)))
            .collect()
    }
}

/// On the socket a result says 1.0.0 (the version that the Go plugin's library
/// can convert from) and carries the MTU all the same, as a key that it ignores.
impl Serialize for CniResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut value = self.to_value(CniVersion::NEWEST);
        if let Some(version) = value.get_mut("cniVersion") {
            *version = CniVersion::V1_0_0.as_str().into();
        }
        value.serialize(to)
    }
}

impl<'de> Deserialize<'de> for CniResult {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(&Value::deserialize(from)?).map_err(de::Error::custom)
    }
}

impl Interface {
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let fields = Fields::of(value)?;
        Ok(Self {
            name: fields.text("name")?,
            mac: fields.text("mac")?,
            mtu: fields.nonzero("mtu")?,
            sandbox: fields.optional_text("sandbox")?,
        })
    }

    fn to_value(&self, with_mtu: bool) -> Value {
        let mut object = Map::new();
        object.insert("name".into(), self.name.as_str().into());
        object.insert("mac".into(), self.mac.as_str().into());
        if let Some(mtu) = self.mtu.filter(|_| with_mtu) {
            object.insert("mtu".into(), mtu.into());
        }
        if let Some(sandbox) = &self.sandbox {
            object.insert("sandbox".into(), sandbox.as_str().into());
        }
        Value::Object(object)
    }
}

impl IpConfig {
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let fields = Fields::of(value)?;
        Ok(Self {
            address: fields.cidr("address")?,
            gateway: fields.address("gateway")?,
            interface: fields.index("interface")?,
        })
    }

    fn to_value(&self, with_family: bool) -> Value {
        let mut object = Map::new();
        if with_family {
            let family = if self.address.address().is_ipv4() { "4" } else { "6" };
            object.insert("version".into(), family.into());
        }
        object.insert("address".into(), self.address.to_string().into());
        if let Some(gateway) = self.gateway {
            object.insert("gateway".into(), gateway.to_string().into());
        }
        if let Some(index) = self.interface {
            object.insert("interface".into(), index.into());
        }
        Value::Object(object)
    }
}

impl Route {
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let fields = Fields::of(value)?;
        Ok(Self { dst: fields.cidr("dst")?, gw: fields.address("gw")? })
    }

    fn to_value(&self) -> Value {
        let mut object = Map::new();
        object.insert("dst".into(), self.dst.to_string().into());
        if let Some(gw) = self.gw {
            object.insert("gw".into(), gw.to_string().into());
        }
        Value::Object(object)
    }
}

impl Dns {
    /// The field `dns` of a result or a config; absent, it is empty.
    pub(crate) fn read(around: Fields<'_>) -> Result<Self, Mismatch> {
        let Some(value) = around.get("dns") else {
            return Ok(Self::default());
        };
        let fields = Fields::of(value).map_err(|reason| format!("dns: {reason}"))?;
        Ok(Self {
            nameservers: fields.texts("nameservers")?,
            domain: fields.optional_text("domain")?,
            search: fields.texts("search")?,
            options: fields.texts("options")?,
        })
    }

    fn to_value(&self) -> Value {
        let text = |text: &String| Value::from(text.as_str());
        let mut object = Map::new();
        insert_list(&mut object, "nameservers", &self.nameservers, text);
        if let Some(domain) = &self.domain {
            object.insert("domain".into(), domain.as_str().into());
        }
        insert_list(&mut object, "search", &self.search, text);
        insert_list(&mut object, "options", &self.options, text);
        Value::Object(object)
    }
}

/// An empty list is left out, as Go's `omitempty` does.
fn insert_list<T>(
    object: &mut Map<String, Value>,
    key: &str,
    items: &[T],
    to_value: impl Fn(&T) -> Value,
) {
    if !items.is_empty() {
        object.insert(key.into(), items.iter().map(to_value).collect());
    }
}
