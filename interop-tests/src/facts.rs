//! What the kernel says about a namespace, through `ip -j`: an eye that is not
//! flock's own.

use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::netns::Netns;

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its largest packet.
    pub mtu: u64,
    /// Its MAC address.
    pub mac: String,
    /// Whether it is administratively up.
    pub up: bool,
    /// What is bound to it, with prefix lengths.
    pub addresses: Vec<(IpAddr, u64)>,
}

/// A route of any table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `default`, an address or a prefix, as `ip` prints it.
    pub destination: String,
    /// `unicast`, `blackhole`, `unreachable`, `local`, ...
    pub kind: String,
    /// Next hops; empty for on-link routes.
    pub gateways: Vec<String>,
    /// Interfaces; several when it is multipath.
    pub devices: Vec<String>,
}

/// The interfaces of a namespace.
pub fn interfaces(netns: &Netns) -> Result<Vec<Interface>> {
    let list = parsed(&netns.ip("-j address show")?)?;
    let interface = |entry: &Value| Interface {
        name: text(entry, "ifname"),
        mtu: entry.get("mtu").and_then(Value::as_u64).unwrap_or(0),
        mac: text(entry, "address"),
        up: items(entry, "flags").iter().any(|flag| flag == "UP"),
        addresses: items(entry, "addr_info").iter().filter_map(address).collect(),
    };
    Ok(list.iter().map(interface).collect())
}

/// One interface by name.
pub fn interface(netns: &Netns, name: &str) -> Result<Interface> {
    let all = interfaces(netns)?;
    all.into_iter()
        .find(|interface| interface.name == name)
        .with_context(|| format!("no interface {name} in {}", netns.name()))
}

/// The global addresses of an interface, without link-local ones.
pub fn global_addresses(netns: &Netns, ifname: &str) -> Result<Vec<(IpAddr, u64)>> {
    let mut addresses = interface(netns, ifname)?.addresses;
    addresses.retain(|(address, _)| match address {
        IpAddr::V4(v4) => !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    });
    Ok(addresses)
}

/// The routes of both families, all tables.
pub fn routes(netns: &Netns) -> Result<Vec<Route>> {
    let mut routes = Vec::new();
    for family in ["-4", "-6"] {
        let list = parsed(&netns.ip(&format!("-j {family} route show table all"))?)?;
        routes.extend(list.iter().map(route));
    }
    Ok(routes)
}

/// Whatever a pod left in the node's namespace: interfaces other than loopback
/// and the node's own cables, routes over them, and packet filter rules that
/// name an interface of flock.
pub fn leftovers(netns: &Netns, cables: &[String]) -> Result<Vec<String>> {
    let foreign = |name: &str| name != "lo" && !cables.iter().any(|cable| cable == name);
    let mut left = Vec::new();
    for interface in interfaces(netns)?.iter().filter(|interface| foreign(&interface.name)) {
        left.push(format!("interface {}", interface.name));
    }
    for route in routes(netns)? {
        if route.devices.iter().any(|device| foreign(device)) {
            left.push(format!("route {} over {}", route.destination, route.devices.join(", ")));
        }
    }
    for line in netns.exec("nft", &["list", "ruleset"])?.lines() {
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
        if words.any(is_pod_interface) {
            left.push(format!("filter rule {}", line.trim()));
        }
    }
    Ok(left)
}

/// Whether flock named this interface: `flock` and hexadecimal digits.
pub fn is_pod_interface(name: &str) -> bool {
    name.strip_prefix("flock")
        .is_some_and(|rest| rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn route(entry: &Value) -> Route {
    let hops = items(entry, "nexthops");
    let gather = |key: &str| {
        let own = entry.get(key).into_iter();
        let all = own.chain(hops.iter().filter_map(|hop| hop.get(key)));
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let kind = text(entry, "type");
    Route {
        destination: text(entry, "dst"),
        kind: if kind.is_empty() { "unicast".to_owned() } else { kind },
        gateways: gather("gateway"),
        devices: gather("dev"),
    }
}

fn address(entry: &Value) -> Option<(IpAddr, u64)> {
    let address = entry.get("local")?.as_str()?.parse().ok()?;
    Some((address, entry.get("prefixlen")?.as_u64()?))
}

/// `ip -j` prints nothing at all, or empty objects, where there is nothing.
fn parsed(output: &str) -> Result<Vec<Value>> {
    if output.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut list: Vec<Value> = serde_json::from_str(output).context("reading the output of ip")?;
    list.retain(|entry| entry.as_object().is_some_and(|object| !object.is_empty()));
    Ok(list)
}

fn text(entry: &Value, key: &str) -> String {
    entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn items<'a>(entry: &'a Value, key: &str) -> &'a [Value] {
    entry.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
