//! ExaBGP: one configuration file with an API process that copies what it is
//! told into a file, and what comes through a pipe to ExaBGP.
//!
//! It keeps no table. What it learned is read from the events, from the last
//! time that the session came up.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::IpAddr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::driver::{Driver, Site};
use super::part::Program;
use super::table::{community, items, number, text};
use super::{Family, Path, Peer, Route};
use crate::binaries::{run, tool};

pub(super) struct Exabgp;

const EVENTS: &str = "events";
const PIPE: &str = "commands";

impl Driver for Exabgp {
    fn configure(&self, site: &Site) -> Result<()> {
        let pipe = site.file(PIPE);
        if !pipe.exists() {
            run(Command::new(tool("mkfifo")?).arg(&pipe))?;
        }
        // The pipe is opened for writing as well, so that it never ends.
        let (pipe, events) = (site.path(PIPE), site.path(EVENTS));
        site.write("api.sh", &format!("cat <> {pipe} &\nexec cat >> {events}\n"), 0o755)?;
        site.write("exabgp.conf", &configuration(site)?, 0o644)
    }

    fn programs(&self, site: &Site, _again: bool) -> Vec<Program> {
        let arguments = vec!["/usr/sbin/exabgp".to_owned(), site.path("exabgp.conf")];
        let environment = vec![
            ("exabgp.daemon.user", "root"),
            ("exabgp.log.destination", "stdout"),
            ("exabgp.log.level", "INFO"),
            // Not what the defaults are: whatever it hears is told.
            ("exabgp.log.message", "true"),
            ("exabgp.api.ack", "false"),
            ("exabgp.api.cli", "false"),
        ];
        vec![Program { name: "exabgp", arguments, environment, private: &[] }]
    }

    fn records(&self) -> &'static [&'static str] {
        &[EVENTS]
    }

    fn ready(&self, site: &Site) -> Result<()> {
        // The API process is started once the configuration has been read.
        ensure!(site.file(EVENTS).exists(), "its API process has not started");
        Ok(())
    }

    fn state(&self, site: &Site, peer: IpAddr) -> Result<String> {
        let events = events(site)?;
        let last = events.iter().rev().find_map(|event| state_of(event, peer));
        Ok(match last {
            Some("up") => "Established",
            Some("connected") => "OpenSent",
            _ => "Idle",
        }
        .to_owned())
    }

    fn paths(&self, site: &Site, prefix: &str) -> Result<Vec<Path>> {
        let mut found = Vec::new();
        for event in events(site)? {
            if matches!(text(&event, "type"), Some("state")) {
                found.clear();
            }
            apply(&event, prefix, &mut found);
        }
        Ok(found)
    }

    fn announce(&self, site: &Site, routes: &[Route]) -> Result<()> {
        let each = site.config.peers.iter();
        let lines: Result<Vec<_>> = each
            .flat_map(|peer| routes.iter().map(move |route| (peer, route)))
            .map(|(peer, route)| {
                let words = words(site, peer, route)?;
                Ok(format!("neighbor {} announce route {words}", peer.address))
            })
            .collect();
        command(site, &lines?)
    }

    fn withdraw(&self, site: &Site, route: &Route) -> Result<()> {
        let lines: Result<Vec<_>> = site
            .config
            .peers
            .iter()
            .map(|peer| {
                let words = words(site, peer, route)?;
                Ok(format!("neighbor {} withdraw route {words}", peer.address))
            })
            .collect();
        command(site, &lines?)
    }

    fn refresh(&self, site: &Site, peer: IpAddr) -> Result<()> {
        let peer = site.config.peers.iter().find(|one| one.address == peer);
        let peer = peer.context("no such peer")?;
        let families = peer.families.iter().map(|family| channel(*family));
        let lines: Vec<_> = families
            .map(|name| format!("neighbor {} announce route-refresh {name} unicast", peer.address))
            .collect();
        command(site, &lines)
    }

    fn clear(&self, site: &Site, peer: IpAddr) -> Result<()> {
        command(site, &[format!("neighbor {peer} teardown 4")])
    }

    fn shutdown(&self, site: &Site, peer: IpAddr, _text: &str) -> Result<()> {
        // It has no words for a text.
        command(site, &[format!("neighbor {peer} teardown 2")])
    }
}

fn command(site: &Site, lines: &[String]) -> Result<()> {
    let mut pipe = OpenOptions::new().write(true).read(true).open(site.file(PIPE))?;
    for line in lines {
        writeln!(pipe, "{line}")?;
    }
    Ok(())
}

fn channel(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

fn words(site: &Site, peer: &Peer, route: &Route) -> Result<String> {
    let mut hop = site.config.next_hop(&route.prefix);
    if peer.extended_next_hop {
        hop = site.config.ipv6.into();
    }
    let mut words = format!("{} next-hop {hop}", route.prefix);
    if let Some(med) = route.med {
        write!(words, " med {med}")?;
    }
    for (name, list) in
        [("community", &route.communities), ("large-community", &route.large_communities)]
    {
        if !list.is_empty() {
            write!(words, " {name} [{}]", list.join(" "))?;
        }
    }
    Ok(words)
}

fn configuration(site: &Site) -> Result<String> {
    let config = &site.config;
    let mut text = String::new();
    writeln!(text, "process api {{ run /bin/sh {}; encoder json; }}", site.path("api.sh"))?;
    for peer in &config.peers {
        writeln!(text, "neighbor {} {{", peer.address)?;
        writeln!(text, " router-id {}; local-address {};", config.router_id, peer.local)?;
        writeln!(text, " local-as {}; peer-as {};", config.asn, peer.asn)?;
        writeln!(text, " hold-time {}; host-name exabgp; domain-name lab;", peer.hold_time)?;
        // Without it, what was sent is forgotten and cannot be sent again.
        writeln!(text, " adj-rib-out true;")?;
        session(&mut text, peer)?;
        writeln!(text, " api {{ processes [api]; neighbor-changes;")?;
        writeln!(text, "  receive {{ parsed; update; open; notification; refresh; }} }}")?;
        writeln!(text, " static {{")?;
        for route in &config.routes {
            writeln!(text, "  route {};", words(site, peer, route)?)?;
        }
        writeln!(text, " }}\n}}")?;
    }
    Ok(text)
}

fn session(text: &mut String, peer: &Peer) -> Result<()> {
    if let Some(password) = &peer.password {
        writeln!(text, " md5-password {password};")?;
    }
    if peer.ttl_security {
        writeln!(text, " outgoing-ttl 255; incoming-ttl 255;")?;
    }
    writeln!(text, " passive {}; listen 179;", peer.passive)?;
    write!(text, " family {{")?;
    for family in &peer.families {
        write!(text, " {} unicast;", channel(*family))?;
    }
    let asn4 = if peer.four_byte_asns { "enable" } else { "disable" };
    write!(text, " }}\n capability {{ asn4 {asn4}; route-refresh enable;")?;
    write!(text, " multi-session disable; operational disable;")?;
    if let Some(time) = peer.graceful_restart {
        write!(text, " graceful-restart {time};")?;
    }
    let extended = if peer.extended_next_hop { "enable" } else { "disable" };
    let long = if peer.extended_messages { "enable" } else { "disable" };
    writeln!(text, " nexthop {extended}; extended-message {long}; }}")?;
    if peer.extended_next_hop {
        writeln!(text, " nexthop {{ ipv4 unicast ipv6; }}")?;
    }
    Ok(())
}

fn events(site: &Site) -> Result<Vec<Value>> {
    let text = fs::read_to_string(site.file(EVENTS))?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn state_of(event: &Value, peer: IpAddr) -> Option<&str> {
    let about = event.get("neighbor")?;
    let address = text(about.get("address")?, "peer")?;
    if address.parse::<IpAddr>().ok()? != peer || text(event, "type")? != "state" {
        return None;
    }
    text(about, "state")
}

/// Changes what is known of a prefix as an UPDATE says.
fn apply(event: &Value, prefix: &str, found: &mut Vec<Path>) {
    let Some(update) = event.get("neighbor").and_then(|about| about.get("message")?.get("update"))
    else {
        return;
    };
    let family = format!("{} unicast", channel(Family::of(prefix)));
    let names = |list: &Value| {
        let list = list.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().any(|one| text(one, "nlri") == Some(prefix))
    };
    if update.get("withdraw").and_then(|all| all.get(&family)).is_some_and(names) {
        found.clear();
    }
    let Some(announced) =
        update.get("announce").and_then(|all| all.get(&family)).and_then(Value::as_object)
    else {
        return;
    };
    let hops = announced.iter().filter(|(_, list)| names(list));
    let hops: Vec<IpAddr> = hops.filter_map(|(hop, _)| hop.parse().ok()).collect();
    if !hops.is_empty() {
        let attributes = update.get("attribute").cloned().unwrap_or_default();
        *found = vec![path(&attributes, hops)];
    }
}

fn path(attributes: &Value, mut next_hops: Vec<IpAddr>) -> Path {
    next_hops.sort_by_key(|hop| matches!(hop, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    let list = |key: &str| {
        let each = items(attributes, key).iter().filter_map(Value::as_array);
        let mut all: Vec<_> = each.map(|numbers| community(numbers)).collect();
        all.sort();
        all
    };
    Path {
        next_hops,
        as_path: items(attributes, "as-path")
            .iter()
            .filter_map(|asn| asn.as_u64()?.try_into().ok())
            .collect(),
        communities: list("community"),
        large_communities: list("large-community"),
        med: number(attributes, "med"),
        local_pref: number(attributes, "local-preference"),
        stale: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(update: &Value) -> Value {
        json!({ "type": "update", "neighbor": { "message": { "update": update } } })
    }

    #[test]
    fn events_become_a_table() {
        let announce = update(&json!({
            "attribute": { "as-path": [65001], "community": [[65001, 100]], "med": 7 },
            "announce": { "ipv6 unicast": {
                "fe80::1": [{ "nlri": "fd01::/48" }],
                "2001:db8::1": [{ "nlri": "fd01::/48" }],
            } },
        }));
        let withdraw =
            update(&json!({ "withdraw": { "ipv6 unicast": [{ "nlri": "fd01::/48" }] } }));
        let mut found = Vec::new();
        apply(&announce, "fd02::/48", &mut found);
        assert_eq!(found, [], "another prefix");
        apply(&announce, "fd01::/48", &mut found);
        let hops: Vec<_> = found[0].next_hops.iter().map(ToString::to_string).collect();
        assert_eq!(hops, ["2001:db8::1", "fe80::1"]);
        assert_eq!((found[0].communities.join(" ").as_str(), found[0].med), ("65001:100", Some(7)));
        apply(&withdraw, "fd01::/48", &mut found);
        assert_eq!(found, []);
    }
}
