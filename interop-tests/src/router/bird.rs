//! BIRD 2: one configuration file, `birdc` on its socket. A change is a new file
//! and `configure`, which BIRD applies without touching the sessions.

use std::fmt::Write;
use std::net::IpAddr;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::driver::{Driver, Site};
use super::part::Program;
use super::table::as_path;
use super::{Family, Path, Peer, Route};
use crate::binaries::{run, tool};

pub(super) struct Bird;

impl Driver for Bird {
    fn configure(&self, site: &Site) -> Result<()> {
        site.write("bird.conf", &configuration(site)?, 0o644)
    }

    fn programs(&self, site: &Site, again: bool) -> Vec<Program> {
        let mut arguments = vec!["/usr/sbin/bird".to_owned(), "-f".to_owned()];
        for (option, file) in [("-c", "bird.conf"), ("-s", "bird.ctl"), ("-P", "bird.pid")] {
            arguments.extend([option.to_owned(), site.path(file)]);
        }
        if again {
            // Graceful restart recovery: what the kernel has is kept meanwhile.
            arguments.push("-R".to_owned());
        }
        vec![Program { name: "bird", arguments, environment: Vec::new(), private: &[] }]
    }

    fn ready(&self, site: &Site) -> Result<()> {
        birdc(site, "show status").map(drop)
    }

    fn state(&self, site: &Site, peer: IpAddr) -> Result<String> {
        let shown = birdc(site, &format!("show protocols all {}", protocol(site, peer)?))?;
        let state = shown.lines().find_map(|line| line.trim().strip_prefix("BGP state:"));
        Ok(state.with_context(|| shown.clone())?.trim().to_owned())
    }

    fn paths(&self, site: &Site, prefix: &str) -> Result<Vec<Path>> {
        let shown = birdc(site, &format!("show route {prefix} all where source = RTS_BGP"));
        match shown {
            // It calls that an error.
            Err(error) if error.to_string().contains("Network not found") => Ok(Vec::new()),
            shown => Ok(paths(&shown?)),
        }
    }

    fn announce(&self, site: &Site, _routes: &[Route]) -> Result<()> {
        self.reconfigure(site)
    }

    fn withdraw(&self, site: &Site, _route: &Route) -> Result<()> {
        self.reconfigure(site)
    }

    fn refresh(&self, site: &Site, peer: IpAddr) -> Result<()> {
        birdc(site, &format!("reload in {}", protocol(site, peer)?)).map(drop)
    }

    fn clear(&self, site: &Site, peer: IpAddr) -> Result<()> {
        birdc(site, &format!("restart {}", protocol(site, peer)?)).map(drop)
    }

    fn shutdown(&self, site: &Site, peer: IpAddr, text: &str) -> Result<()> {
        birdc(site, &format!("disable {} \"{text}\"", protocol(site, peer)?)).map(drop)
    }

    fn set_password(&self, site: &Site, _peer: IpAddr) -> Result<()> {
        self.reconfigure(site)
    }
}

impl Bird {
    fn reconfigure(&self, site: &Site) -> Result<()> {
        self.configure(site)?;
        let said = birdc(site, "configure")?;
        ensure!(said.contains("Reconfigur"), "birdc configure: {said}");
        Ok(())
    }
}

fn birdc(site: &Site, command: &str) -> Result<String> {
    let mut birdc = Command::new(tool("birdc")?);
    run(birdc.arg("-s").arg(site.file("bird.ctl")).args(command.split(' ')))
}

fn protocol(site: &Site, peer: IpAddr) -> Result<String> {
    let at = site.config.peers.iter().position(|one| one.address == peer);
    Ok(format!("peer{}", at.with_context(|| format!("{peer} is no peer"))?))
}

fn configuration(site: &Site) -> Result<String> {
    let config = &site.config;
    let mut text = String::from("log stderr all;\n");
    writeln!(text, "router id {};\nprotocol device {{ }}", config.router_id)?;
    let merge = config.max_paths.map(|most| format!("merge paths on limit {most}; "));
    let merge = merge.unwrap_or_default();
    for family in Family::BOTH {
        let name = channel(family);
        writeln!(
            text,
            "protocol kernel kernel_{name} {{ graceful restart on; {merge}\
             {name} {{ import none; export where source = RTS_BGP; }}; }}"
        )?;
        writeln!(text, "protocol static static_{name} {{ {name};")?;
        let routes = config.routes.iter().filter(|route| Family::of(&route.prefix) == family);
        for route in routes.clone() {
            statics(&mut text, route)?;
        }
        writeln!(text, "}}\nfilter export_{name} {{")?;
        for route in routes {
            // On a static route it would be dropped: BIRD clears what was not set
            // on the way out to an external peer.
            if let Some(med) = route.med {
                writeln!(text, " if net = {} then bgp_med = {med};", route.prefix)?;
            }
        }
        let all = if config.transit { "accept" } else { "reject" };
        writeln!(text, " if source = RTS_STATIC then accept; {all};\n}}")?;
    }
    for (number, peer) in config.peers.iter().enumerate() {
        writeln!(text, "protocol bgp peer{number} {{ local {} as {};", peer.local, config.asn)?;
        if config.verbose {
            writeln!(text, " debug {{ states, events }};")?;
        }
        if peer.asn == config.asn {
            // Everybody is on a link here. Without the word an internal peer's next
            // hops are looked up in the table, which has no connected networks.
            writeln!(text, " direct;")?;
        }
        session(&mut text, peer)?;
    }
    Ok(text)
}

fn channel(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

fn statics(text: &mut String, route: &Route) -> Result<()> {
    write!(text, " route {} blackhole {{", route.prefix)?;
    for community in &route.communities {
        write!(text, " bgp_community.add(({}));", community.replace(':', ","))?;
    }
    for community in &route.large_communities {
        write!(text, " bgp_large_community.add(({}));", community.replace(':', ","))?;
    }
    writeln!(text, " }};")?;
    Ok(())
}

fn session(text: &mut String, peer: &Peer) -> Result<()> {
    let Peer { address, asn, hold_time, .. } = peer;
    writeln!(text, " neighbor {address} as {asn}; hold time {hold_time};")?;
    // Quick to try again, and quick to forgive an error.
    writeln!(text, " connect delay time 1; connect retry time 1; error wait time 1, 2;")?;
    if let Some(password) = &peer.password {
        writeln!(text, " password \"{password}\";")?;
    }
    if peer.ttl_security {
        writeln!(text, " ttl security on;")?;
    }
    if peer.passive {
        writeln!(text, " passive on;")?;
    }
    if !peer.four_byte_asns {
        writeln!(text, " enable as4 off;")?;
    }
    if let Some(role) = peer.role {
        writeln!(text, " local role {};", role.name())?;
    }
    if peer.extended_messages {
        writeln!(text, " enable extended messages on;")?;
    }
    match peer.graceful_restart {
        Some(time) => writeln!(text, " graceful restart on; graceful restart time {time};")?,
        None => writeln!(text, " graceful restart off; long lived graceful restart off;")?,
    }
    for family in &peer.families {
        let name = channel(*family);
        write!(text, " {name} {{ import all; export filter export_{name}; next hop self;")?;
        if peer.extended_next_hop && *family == Family::Ipv4 {
            write!(text, " extended next hop on;")?;
        }
        if let Some(limit) = peer.max_prefixes {
            write!(text, " import limit {limit} action disable;")?;
        }
        writeln!(text, " }};")?;
    }
    writeln!(text, "}}")?;
    Ok(())
}

/// Each path starts with a line that is not indented by a tab.
fn paths(shown: &str) -> Vec<Path> {
    let mut paths: Vec<Path> = Vec::new();
    for line in shown.lines() {
        if !line.starts_with('\t') {
            if line.contains(" [peer") {
                paths.push(Path::default());
            }
            continue;
        }
        let (Some(path), Some((key, value))) = (paths.last_mut(), line.trim().split_once(": "))
        else {
            continue;
        };
        match key {
            "BGP.next_hop" => {
                path.next_hops = value.split(' ').filter_map(|word| word.parse().ok()).collect();
            }
            "BGP.as_path" => path.as_path = as_path(value),
            "BGP.med" => path.med = value.parse().ok(),
            "BGP.local_pref" => path.local_pref = value.parse().ok(),
            "BGP.community" => path.communities = tuples(value),
            "BGP.large_community" => path.large_communities = tuples(value),
            _ => {}
        }
    }
    paths
}

/// `(1,2) (3,4)` or `(1, 2, 3)`, sorted.
fn tuples(value: &str) -> Vec<String> {
    let groups = value.split(')').map(|group| group.trim().trim_start_matches('('));
    let mut all: Vec<_> = groups
        .filter(|group| !group.is_empty())
        .map(|group| group.replace(", ", ":").replace(',', ":"))
        .collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_birdc_shows_becomes_paths() {
        let shown = "BIRD 2.0.12 ready.\nTable master4:\n\
            10.4.0.0/24          unicast [peer0 05:51:39.041] * (100) [AS4200000004i]\n\
            \tvia 10.0.0.4 on eth0\n\tType: BGP univ\n\tBGP.origin: IGP\n\
            \tBGP.as_path: 4200000004 65001\n\tBGP.next_hop: 2001:db8::4 fe80::1\n\
            \tBGP.med: 50\n\tBGP.local_pref: 100\n\tBGP.community: (65004,200) (65004,100)\n\
            \tBGP.large_community: (65004, 1, 2)\n";
        let expected = Path {
            next_hops: vec!["2001:db8::4".parse().unwrap(), "fe80::1".parse().unwrap()],
            as_path: vec![4_200_000_004, 65_001],
            communities: vec!["65004:100".to_owned(), "65004:200".to_owned()],
            large_communities: vec!["65004:1:2".to_owned()],
            med: Some(50),
            local_pref: Some(100),
            stale: false,
        };
        assert_eq!(paths(shown), [expected]);
        assert_eq!(paths("BIRD 2.0.12 ready.\n"), []);
    }
}
