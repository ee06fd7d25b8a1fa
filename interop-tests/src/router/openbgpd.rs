//! OpenBGPD, the portable one: one configuration file of mode 0600, `bgpctl` on
//! its socket. A change is a new file and `reload`.

use std::fmt::Write;
use std::net::IpAddr;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::driver::{Driver, Site};
use super::part::Program;
use super::table::{as_path, communities, items, number, parsed, text};
use super::{Family, Path, Peer, Route};
use crate::binaries::{run, tool};

pub(super) struct Openbgpd;

impl Driver for Openbgpd {
    fn configure(&self, site: &Site) -> Result<()> {
        site.write("bgpd.conf", &configuration(site)?, 0o600)
    }

    fn programs(&self, site: &Site, _again: bool) -> Vec<Program> {
        let mut arguments = vec!["/usr/sbin/bgpd".to_owned(), "-d".to_owned()];
        if site.config.verbose {
            arguments.push("-v".to_owned());
        }
        arguments.extend(["-f".to_owned(), site.path("bgpd.conf")]);
        // It locks its children into this directory.
        let private = &["/run/openbgpd"];
        vec![Program { name: "openbgpd", arguments, environment: Vec::new(), private }]
    }

    fn ready(&self, site: &Site) -> Result<()> {
        for peer in &site.config.peers {
            self.state(site, peer.address)?;
        }
        bgpctl(site, &["show", "summary"]).map(drop)
    }

    fn state(&self, site: &Site, peer: IpAddr) -> Result<String> {
        let shown = bgpctl(site, &["-j", "show", "neighbor", &peer.to_string()])?;
        let shown = parsed("bgpctl", &shown)?;
        let state = items(&shown, "neighbors").first().and_then(|peer| text(peer, "state"));
        Ok(state.with_context(|| shown.to_string())?.to_owned())
    }

    fn paths(&self, site: &Site, prefix: &str) -> Result<Vec<Path>> {
        let shown = bgpctl(site, &["-j", "show", "rib", "detail", prefix])?;
        let shown = parsed("bgpctl", &shown)?;
        // It shows what contains the prefix as well, and its own routes.
        let learned = items(&shown, "rib").iter().filter(|path| {
            text(path, "prefix") == Some(prefix)
                && matches!(text(path, "source"), Some("external" | "internal"))
                && path.get("announced").and_then(Value::as_bool) != Some(true)
        });
        Ok(learned.map(path).collect())
    }

    fn announce(&self, site: &Site, _routes: &[Route]) -> Result<()> {
        self.reload(site)
    }

    fn withdraw(&self, site: &Site, _route: &Route) -> Result<()> {
        self.reload(site)
    }

    fn refresh(&self, site: &Site, peer: IpAddr) -> Result<()> {
        bgpctl(site, &["neighbor", &peer.to_string(), "refresh"]).map(drop)
    }

    fn clear(&self, site: &Site, peer: IpAddr) -> Result<()> {
        bgpctl(site, &["neighbor", &peer.to_string(), "clear"]).map(drop)
    }

    fn shutdown(&self, site: &Site, peer: IpAddr, text: &str) -> Result<()> {
        bgpctl(site, &["neighbor", &peer.to_string(), "down", text]).map(drop)
    }
}

impl Openbgpd {
    fn reload(&self, site: &Site) -> Result<()> {
        self.configure(site)?;
        bgpctl(site, &["reload"]).map(drop)
    }
}

fn bgpctl(site: &Site, arguments: &[&str]) -> Result<String> {
    run(Command::new(tool("bgpctl")?).arg("-s").arg(site.file("bgpd.sock")).args(arguments))
}

fn configuration(site: &Site) -> Result<String> {
    let config = &site.config;
    let mut text = String::new();
    writeln!(text, "AS {}\nrouter-id {}", config.asn, config.router_id)?;
    writeln!(text, "socket \"{}\"\nfib-update yes", site.path("bgpd.sock"))?;
    writeln!(text, "connect-retry 1")?;
    // Said, because the default listeners take no MD5 keys on Linux.
    for peer in &config.peers {
        writeln!(text, "listen on {}", peer.local)?;
    }
    if config.verbose {
        writeln!(text, "log updates")?;
    }
    for route in &config.routes {
        originate(&mut text, route)?;
    }
    for peer in &config.peers {
        session(&mut text, peer)?;
    }
    // Whoever passes routes on passes all of them on; RFC 8212 wants it said.
    writeln!(text, "allow from any\nallow to any")?;
    Ok(text)
}

fn originate(text: &mut String, route: &Route) -> Result<()> {
    let mut set = String::new();
    for community in &route.communities {
        write!(set, " community {community}")?;
    }
    for community in &route.large_communities {
        write!(set, " large-community {community}")?;
    }
    if let Some(med) = route.med {
        write!(set, " metric {med}")?;
    }
    write!(text, "network {}", route.prefix)?;
    if !set.is_empty() {
        write!(text, " set {{{set} }}")?;
    }
    writeln!(text)?;
    Ok(())
}

fn session(text: &mut String, peer: &Peer) -> Result<()> {
    writeln!(text, "neighbor {} {{\n remote-as {}", peer.address, peer.asn)?;
    // No local-address: on Linux it keeps MD5 keys from the listener.
    writeln!(text, " holdtime {}", peer.hold_time)?;
    writeln!(text, " announce enhanced refresh yes")?;
    for family in Family::BOTH {
        let name = if family == Family::Ipv4 { "IPv4" } else { "IPv6" };
        let what = if peer.families.contains(&family) { "unicast" } else { "none" };
        writeln!(text, " announce {name} {what}")?;
    }
    if !peer.four_byte_asns {
        writeln!(text, " announce as-4byte no")?;
    }
    if let Some(role) = peer.role {
        writeln!(text, " announce policy {}", role.name())?;
    }
    if let Some(password) = &peer.password {
        writeln!(text, " tcp md5sig password {password}")?;
    }
    if peer.ttl_security {
        writeln!(text, " ttl-security yes")?;
    }
    if peer.passive {
        writeln!(text, " passive")?;
    }
    let restart = if peer.graceful_restart.is_some() { "yes" } else { "no" };
    writeln!(text, " announce restart {restart}")?;
    if let Some(limit) = peer.max_prefixes {
        writeln!(text, " max-prefix {limit}")?;
    }
    writeln!(text, "}}")?;
    Ok(())
}

fn path(value: &Value) -> Path {
    let hop = text(value, "exit_nexthop").and_then(|hop| hop.parse().ok());
    Path {
        next_hops: hop.into_iter().collect(),
        as_path: text(value, "aspath").map(as_path).unwrap_or_default(),
        communities: communities(items(value, "communities")),
        large_communities: communities(items(value, "large_communities")),
        med: number(value, "metric"),
        local_pref: number(value, "localpref"),
        stale: value.get("stale").and_then(Value::as_bool).unwrap_or(false),
    }
}
