//! GoBGP: a TOML file for the peers, `gobgp` on its socket for the routes, which
//! it cannot be given in a file.

use std::fmt::Write;
use std::net::IpAddr;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::driver::{Driver, Site};
use super::part::Program;
use super::table::{items, number, parsed, text};
use super::{Family, Path, Peer, Route};
use crate::binaries::{run, tool};

pub(super) struct Gobgp;

impl Driver for Gobgp {
    fn configure(&self, site: &Site) -> Result<()> {
        site.write("gobgpd.toml", &configuration(site)?, 0o644)
    }

    fn programs(&self, site: &Site, again: bool) -> Vec<Program> {
        let mut arguments = vec!["/usr/bin/gobgpd".to_owned()];
        arguments.extend(["-f".to_owned(), site.path("gobgpd.toml")]);
        arguments.extend(["--api-hosts".to_owned(), format!("unix://{}", site.path("api.sock"))]);
        let level = if site.config.verbose { "debug" } else { "warn" };
        arguments.extend(["-l".to_owned(), level.to_owned()]);
        if again {
            arguments.push("--graceful-restart".to_owned());
        }
        vec![Program { name: "gobgpd", arguments, environment: Vec::new(), private: &[] }]
    }

    fn ready(&self, site: &Site) -> Result<()> {
        for peer in &site.config.peers {
            self.state(site, peer.address)?;
        }
        gobgp(site, "global").map(drop)
    }

    fn populate(&self, site: &Site) -> Result<()> {
        self.announce(site, &site.config.routes)
    }

    fn state(&self, site: &Site, peer: IpAddr) -> Result<String> {
        let shown = parsed("gobgp", &gobgp(site, &format!("neighbor {peer} -j"))?)?;
        let state = shown.get("state").and_then(|state| number(state, "session_state"));
        let names = ["Unknown", "Idle", "Connect", "Active", "OpenSent", "OpenConfirm"];
        match state {
            Some(6) => Ok("Established".to_owned()),
            Some(other) => {
                Ok(names.get(usize::try_from(other)?).copied().unwrap_or("Unknown").to_owned())
            }
            None => bail!("gobgp told no state: {shown}"),
        }
    }

    fn paths(&self, site: &Site, prefix: &str) -> Result<Vec<Path>> {
        let family = words(Family::of(prefix));
        // Asked for one prefix that it does not have it fails, and asked for one
        // address it shows what contains it.
        let shown = gobgp(site, &format!("global rib -a {family} -j"))?;
        let shown = parsed("gobgp", &shown)?;
        let paths = items(&shown, prefix).iter();
        Ok(paths.filter(|path| path.get("neighbor-ip").is_some_and(is_peer)).map(path).collect())
    }

    fn announce(&self, site: &Site, routes: &[Route]) -> Result<()> {
        // Without a next hop the address of each session is taken, of either family;
        // an IPv4 address is none for IPv6 routes.
        let crossed = |peer: &Peer| peer.local.is_ipv4() && peer.families.contains(&Family::Ipv6);
        let named = site.config.peers.iter().any(crossed);
        for route in routes {
            let family = Family::of(&route.prefix);
            let mut command = format!("global rib add -a {} {}", words(family), route.prefix);
            if named && family == Family::Ipv6 {
                write!(command, " nexthop {}", site.config.ipv6)?;
            }
            if !route.communities.is_empty() {
                write!(command, " community {}", route.communities.join(","))?;
            }
            if !route.large_communities.is_empty() {
                write!(command, " large-community {}", route.large_communities.join(","))?;
            }
            if let Some(med) = route.med {
                write!(command, " med {med}")?;
            }
            gobgp(site, &command)?;
        }
        Ok(())
    }

    fn withdraw(&self, site: &Site, route: &Route) -> Result<()> {
        let family = words(Family::of(&route.prefix));
        gobgp(site, &format!("global rib del -a {family} {}", route.prefix)).map(drop)
    }

    fn refresh(&self, site: &Site, peer: IpAddr) -> Result<()> {
        gobgp(site, &format!("neighbor {peer} softresetin")).map(drop)
    }

    fn clear(&self, site: &Site, peer: IpAddr) -> Result<()> {
        gobgp(site, &format!("neighbor {peer} reset")).map(drop)
    }

    fn shutdown(&self, site: &Site, peer: IpAddr, text: &str) -> Result<()> {
        let peer = peer.to_string();
        let command = ["neighbor", &peer, "shutdown", "--reason", text];
        run(client(site)?.args(command)).map(drop)
    }
}

fn client(site: &Site) -> Result<Command> {
    let mut command = Command::new(tool("gobgp")?);
    command.args(["--target", &format!("unix://{}", site.path("api.sock"))]);
    Ok(command)
}

fn gobgp(site: &Site, command: &str) -> Result<String> {
    run(client(site)?.args(command.split(' ')))
}

fn words(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

fn configuration(site: &Site) -> Result<String> {
    let config = &site.config;
    let mut text = String::new();
    writeln!(text, "[global.config]\nas = {}\nrouter-id = \"{}\"", config.asn, config.router_id)?;
    for peer in &config.peers {
        session(&mut text, peer)?;
    }
    Ok(text)
}

fn session(text: &mut String, peer: &Peer) -> Result<()> {
    writeln!(text, "[[neighbors]]\n[neighbors.config]")?;
    writeln!(text, "neighbor-address = \"{}\"\npeer-as = {}", peer.address, peer.asn)?;
    if let Some(password) = &peer.password {
        writeln!(text, "auth-password = \"{password}\"")?;
    }
    writeln!(text, "[neighbors.transport.config]\nlocal-address = \"{}\"", peer.local)?;
    writeln!(text, "passive-mode = {}", peer.passive)?;
    let (hold, keepalive) = (peer.hold_time, (peer.hold_time / 3).max(1));
    writeln!(text, "[neighbors.timers.config]\nconnect-retry = 1\nhold-time = {hold}")?;
    writeln!(text, "keepalive-interval = {keepalive}\nidle-hold-time-after-reset = 1")?;
    if peer.ttl_security {
        writeln!(text, "[neighbors.ttl-security.config]\nenabled = true\nttl-min = 255")?;
    }
    if let Some(time) = peer.graceful_restart {
        writeln!(text, "[neighbors.graceful-restart.config]\nenabled = true")?;
        writeln!(text, "restart-time = {time}\nnotification-enabled = false")?;
    }
    for family in &peer.families {
        writeln!(text, "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]")?;
        writeln!(text, "afi-safi-name = \"{}\"", family.name())?;
        if peer.graceful_restart.is_some() {
            writeln!(text, "[neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true")?;
        }
        if let Some(limit) = peer.max_prefixes {
            writeln!(text, "[neighbors.afi-safis.prefix-limit.config]\nmax-prefixes = {limit}")?;
        }
    }
    Ok(())
}

fn is_peer(address: &Value) -> bool {
    address.as_str().is_some_and(|text| text.parse::<IpAddr>().is_ok())
}

/// Attributes by their type code.
fn path(value: &Value) -> Path {
    let mut path = Path {
        stale: value.get("stale").and_then(Value::as_bool).unwrap_or(false),
        ..Path::default()
    };
    for attribute in items(value, "attrs") {
        match number(attribute, "type") {
            Some(2) => {
                path.as_path = items(attribute, "as_paths")
                    .iter()
                    .flat_map(|segment| items(segment, "asns"))
                    .filter_map(|asn| asn.as_u64()?.try_into().ok())
                    .collect();
            }
            Some(3 | 14) => {
                path.next_hops = text(attribute, "nexthop")
                    .and_then(|hop| hop.parse().ok())
                    .into_iter()
                    .collect();
            }
            Some(4) => path.med = number(attribute, "metric"),
            Some(5) => path.local_pref = number(attribute, "value"),
            Some(8) => {
                let numbers = items(attribute, "communities").iter().filter_map(Value::as_u64);
                path.communities =
                    numbers.map(|number| format!("{}:{}", number >> 16, number & 0xffff)).collect();
                path.communities.sort();
            }
            Some(32) => {
                path.large_communities =
                    items(attribute, "value").iter().filter_map(|one| large(one).ok()).collect();
                path.large_communities.sort();
            }
            _ => {}
        }
    }
    path
}

fn large(value: &Value) -> Result<String> {
    let part = |key: &str| number(value, key).with_context(|| format!("{value} has no {key}"));
    Ok(format!("{}:{}:{}", part("ASN")?, part("LocalData1")?, part("LocalData2")?))
}
