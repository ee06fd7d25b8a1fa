//! FRR: zebra and bgpd, each a program of its own, `vtysh` on their sockets.
//!
//! zebra owns the kernel's routes, so that bgpd can end and come back while the
//! routes stay.

use std::fmt::Write;
use std::fs::{self, Permissions};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::driver::{Driver, Site};
use super::part::Program;
use super::table::{communities, items, number, parsed, text};
use super::{Family, Path, Peer, Route};
use crate::binaries::{run, tool};

pub(super) struct Frr;

impl Driver for Frr {
    fn configure(&self, site: &Site) -> Result<()> {
        let sockets = site.file("frr");
        fs::create_dir_all(&sockets)?;
        // The daemons leave root behind before they make their sockets.
        fs::set_permissions(&sockets, Permissions::from_mode(0o777))?;
        site.write("zebra.conf", "log stdout\n", 0o644)?;
        site.write("bgpd.conf", &configuration(site)?, 0o644)
    }

    fn programs(&self, site: &Site, _again: bool) -> Vec<Program> {
        ["zebra", "bgpd"]
            .map(|name| {
                let arguments = [
                    &format!("/usr/lib/frr/{name}"),
                    "--vty_socket",
                    &site.path("frr"),
                    "--socket",
                    &site.path("frr/zserv.api"),
                    "--pid_file",
                    &site.path(&format!("frr/{name}.pid")),
                    "--vty_port",
                    "0",
                    "--config_file",
                    &site.path(&format!("{name}.conf")),
                ];
                let arguments = arguments.map(str::to_owned).to_vec();
                Program { name, arguments, environment: Vec::new(), private: &[] }
            })
            .to_vec()
    }

    fn started(&self, site: &Site, program: &str) -> Result<()> {
        // A bgpd that finds no zebra tries again after ten seconds, and until then
        // knows no interface: IPv4 routes over an IPv6 session have no next hop.
        let socket = site.file("frr/zserv.api");
        ensure!(program != "zebra" || socket.exists(), "there is no {}", socket.display());
        Ok(())
    }

    fn ready(&self, site: &Site) -> Result<()> {
        // It answers before it has read its configuration; so ask for that.
        let shown = vtysh(site, &["show bgp summary json"])?;
        ensure!(shown.contains(&site.config.router_id.to_string()), "not configured: {shown}");
        for peer in &site.config.peers {
            // While a peer is Idle it answers every connection with an FSM error.
            let state = self.state(site, peer.address)?;
            ensure!(state != "Idle", "{} is {state}", peer.address);
        }
        Ok(())
    }

    fn state(&self, site: &Site, peer: IpAddr) -> Result<String> {
        let shown = vtysh(site, &[&format!("show bgp neighbors {peer} json")])?;
        let shown = parsed("vtysh", &shown)?;
        let state = shown.get(peer.to_string()).and_then(|peer| text(peer, "bgpState"));
        Ok(state.with_context(|| shown.to_string())?.to_owned())
    }

    fn paths(&self, site: &Site, prefix: &str) -> Result<Vec<Path>> {
        let family = words(Family::of(prefix));
        let shown = vtysh(site, &[&format!("show bgp {family} unicast {prefix} json")])?;
        let shown = parsed("vtysh", &shown)?;
        let paths = items(&shown, "paths").iter();
        // Its own routes come from 0.0.0.0 or `::`.
        Ok(paths.filter(|path| !own(path)).map(path).collect())
    }

    fn announce(&self, site: &Site, routes: &[Route]) -> Result<()> {
        let mut lines = Vec::new();
        for route in routes {
            originate(&mut lines, site.config.asn, route);
        }
        configure(site, &lines)
    }

    fn withdraw(&self, site: &Site, route: &Route) -> Result<()> {
        let family = words(Family::of(&route.prefix));
        configure(
            site,
            &[
                format!("router bgp {}", site.config.asn),
                format!("address-family {family} unicast"),
                format!("no network {}", route.prefix),
            ],
        )
    }

    fn refresh(&self, site: &Site, peer: IpAddr) -> Result<()> {
        vtysh(site, &[&format!("clear bgp {peer} soft in")]).map(drop)
    }

    fn clear(&self, site: &Site, peer: IpAddr) -> Result<()> {
        vtysh(site, &[&format!("clear bgp {peer}")]).map(drop)
    }

    fn shutdown(&self, site: &Site, peer: IpAddr, text: &str) -> Result<()> {
        configure(
            site,
            &[
                format!("router bgp {}", site.config.asn),
                format!("neighbor {peer} shutdown message {text}"),
            ],
        )
    }

    fn set_password(&self, site: &Site, peer: IpAddr) -> Result<()> {
        let found = site.config.peers.iter().find(|one| one.address == peer);
        let line = match found.and_then(|one| one.password.as_ref()) {
            Some(password) => format!("neighbor {peer} password {password}"),
            None => format!("no neighbor {peer} password"),
        };
        configure(site, &[format!("router bgp {}", site.config.asn), line])
    }
}

fn vtysh(site: &Site, commands: &[&str]) -> Result<String> {
    let mut vtysh = Command::new(tool("vtysh")?);
    vtysh.arg("--vty_socket").arg(site.file("frr"));
    commands.iter().for_each(|command| {
        vtysh.args(["-c", command]);
    });
    run(&mut vtysh)
}

fn configure(site: &Site, lines: &[String]) -> Result<()> {
    let mut all = vec!["configure terminal"];
    all.extend(lines.iter().map(String::as_str));
    let said = vtysh(site, &all)?;
    ensure!(!said.contains('%'), "vtysh: {said}");
    Ok(())
}

fn words(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

fn configuration(site: &Site) -> Result<String> {
    let config = &site.config;
    let mut text = String::from("log stdout\n");
    if config.verbose {
        text.push_str("debug bgp neighbor-events\n");
    }
    text.push_str("bgp as-path access-list own seq 5 permit ^$\n");
    writeln!(text, "router bgp {}\n bgp router-id {}", config.asn, config.router_id)?;
    text.push_str(" bgp log-neighbor-changes\n no bgp ebgp-requires-policy\n");
    text.push_str(" no bgp network import-check\n no bgp default ipv4-unicast\n");
    if config.max_paths.is_some() {
        // Equally long is equal enough, whichever AS numbers are in the paths.
        text.push_str(" bgp bestpath as-path multipath-relax\n");
    }
    match config.peers.iter().find_map(|peer| peer.graceful_restart) {
        Some(time) => {
            writeln!(text, " bgp graceful-restart restart-time {time}")?;
            text.push_str(" bgp graceful-restart preserve-fw-state\n bgp graceful-restart\n");
        }
        None => text.push_str(" bgp graceful-restart-disable\n"),
    }
    for peer in &config.peers {
        session(&mut text, peer)?;
    }
    for family in Family::BOTH {
        writeln!(text, " address-family {} unicast", words(family))?;
        // Said in any case: left alone it takes as many as it was built for.
        let most = config.max_paths.unwrap_or(1);
        writeln!(text, "  maximum-paths {most}\n  maximum-paths ibgp {most}")?;
        for peer in config.peers.iter().filter(|peer| peer.families.contains(&family)) {
            let address = peer.address;
            writeln!(text, "  neighbor {address} activate\n  neighbor {address} next-hop-self")?;
            if !config.transit {
                writeln!(text, "  neighbor {address} filter-list own out")?;
            }
            if let Some(limit) = peer.max_prefixes {
                writeln!(text, "  neighbor {address} maximum-prefix {limit}")?;
            }
        }
        text.push_str(" exit-address-family\n");
    }
    text.push_str("exit\n");
    let mut lines = Vec::new();
    for route in &config.routes {
        originate(&mut lines, config.asn, route);
    }
    for line in lines {
        writeln!(text, "{line}")?;
    }
    Ok(text)
}

fn session(text: &mut String, peer: &Peer) -> Result<()> {
    let address = peer.address;
    writeln!(text, " neighbor {address} remote-as {}", peer.asn)?;
    writeln!(text, " neighbor {address} update-source {}", peer.local)?;
    let keepalive = (peer.hold_time / 3).max(1);
    writeln!(text, " neighbor {address} timers {keepalive} {}", peer.hold_time)?;
    writeln!(text, " neighbor {address} timers connect 1")?;
    writeln!(text, " neighbor {address} advertisement-interval 0")?;
    if let Some(password) = &peer.password {
        writeln!(text, " neighbor {address} password {password}")?;
    }
    if peer.ttl_security {
        writeln!(text, " neighbor {address} ttl-security hops 1")?;
    }
    if peer.passive {
        writeln!(text, " neighbor {address} passive")?;
    }
    if let Some(role) = peer.role {
        writeln!(text, " neighbor {address} local-role {}", role.name())?;
    }
    if peer.extended_next_hop {
        writeln!(text, " neighbor {address} capability extended-nexthop")?;
    }
    Ok(())
}

/// A network statement, with a route map of its own for what it carries.
fn originate(lines: &mut Vec<String>, asn: u32, route: &Route) {
    let map: String =
        route.prefix.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    lines.push(format!("no route-map net-{map} permit 10"));
    lines.push(format!("route-map net-{map} permit 10"));
    if !route.communities.is_empty() {
        lines.push(format!("set community {}", route.communities.join(" ")));
    }
    if !route.large_communities.is_empty() {
        lines.push(format!("set large-community {}", route.large_communities.join(" ")));
    }
    if let Some(med) = route.med {
        lines.push(format!("set metric {med}"));
    }
    lines.push("exit".to_owned());
    lines.push(format!("router bgp {asn}"));
    lines.push(format!("address-family {} unicast", words(Family::of(&route.prefix))));
    lines.push(format!("network {} route-map net-{map}", route.prefix));
    lines.extend(["exit-address-family".to_owned(), "exit".to_owned()]);
}

fn own(path: &Value) -> bool {
    let from = path.get("peer").and_then(|peer| text(peer, "peerId"));
    matches!(from, Some("0.0.0.0" | "::") | None)
}

fn path(value: &Value) -> Path {
    let list = |key: &str| value.get(key).map_or(&[][..], |inner| items(inner, "list"));
    let mut next_hops: Vec<IpAddr> =
        items(value, "nexthops").iter().filter_map(|hop| text(hop, "ip")?.parse().ok()).collect();
    next_hops.sort_by_key(|hop| matches!(hop, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    let segments = value.get("aspath").map_or(&[][..], |inner| items(inner, "segments"));
    let as_path = segments
        .iter()
        .flat_map(|segment| items(segment, "list"))
        .filter_map(|asn| asn.as_u64()?.try_into().ok())
        .collect();
    Path {
        next_hops,
        as_path,
        communities: communities(list("community")),
        large_communities: communities(list("largeCommunity")),
        med: number(value, "metric"),
        local_pref: number(value, "locPrf"),
        stale: value.get("stale").and_then(Value::as_bool).unwrap_or(false),
    }
}
