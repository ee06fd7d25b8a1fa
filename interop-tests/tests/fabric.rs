//! The fabric itself, with flock's speaker alone in the place of the agents: where
//! these fail, the machine, a router or the rack is at fault and not the agent.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::ensure;
use rack::fabric::{BEYOND_V4, BEYOND_V6, Builder, Fabric, Sessions, Tor, Transport};
use rack::facts;
use rack::link::Side;
use rack::probe::await_ping;
use rack::router::{Brand, Housing};
use rack::speaker::Speaker;
use rack::storm::Storm;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

/// What several nodes announce.
const SHARED: [&str; 2] = ["2001:db8:cafe::1/128", "192.0.2.1/32"];

fn pair() -> Builder {
    Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Frr)
}

fn ip(text: &str) -> IpAddr {
    text.split('/').next().unwrap().parse().unwrap()
}

/// Whether one of a node's sessions is with a ToR.
fn of(peer: &Value, tor: &Tor) -> bool {
    peer["name"].as_str().is_some_and(|name| name.starts_with(tor.name()))
}

/// Gives a node's kernel the defaults over all its ToRs.
fn default_routes(fabric: &Fabric, node: usize) {
    let mut ways = [String::new(), String::new()];
    for tor in fabric.tors() {
        let link = fabric.link(node, tor.name()).unwrap();
        let (far, device) = (link.plug(Side::Far), link.plug(Side::Near).ifname());
        let six = far.address(true).unwrap();
        let four = far.address(false).map_or(format!("inet6 {six}"), |four| four.to_string());
        ways[0] += &format!(" nexthop via {six} dev {device}");
        ways[1] += &format!(" nexthop via {four} dev {device}");
    }
    let netns = fabric.node(node).unwrap().netns();
    netns.ip(&format!("-6 route replace default{}", ways[0])).unwrap();
    netns.ip(&format!("-4 route replace default{}", ways[1])).unwrap();
}

/// A node of the fabric with a speaker in the place of its agent: the sessions of
/// its NodeConfig, these prefixes, and by hand what an agent does to the kernel.
fn speak(fabric: &mut Fabric, node: usize, prefixes: &[&str]) -> Speaker {
    start(fabric, node, prefixes, false)
}

/// The same, after a restart or not.
fn start(fabric: &mut Fabric, node: usize, prefixes: &[&str], restarting: bool) -> Speaker {
    let config = fabric.node_config_mut(node).unwrap().clone();
    let bgp = &config["spec"]["bgp"];
    let mut peers = bgp["peers"].as_array().unwrap().clone();
    for tor in fabric.tors() {
        let link = fabric.link(node, tor.name()).unwrap();
        let near = link.plug(Side::Near);
        for peer in peers.iter_mut().filter(|peer| of(peer, tor)) {
            peer["connectRetry"] = json!(0.5);
            // A NodeConfig's has a unit, the speaker's has none.
            let hold_time = peer["holdTime"].as_str().map(|time| time.trim_end_matches('s'));
            peer["holdTime"] = json!(hold_time.map_or(30, |time| time.parse().unwrap()));
            peer["nextHop"] = json!({ "ipv6": near.address(true), "ipv4": near.address(false) });
        }
    }
    default_routes(fabric, node);
    let netns = fabric.node(node).unwrap().netns();
    for prefix in prefixes {
        netns.ip(&format!("address replace {prefix} dev lo")).unwrap();
    }
    let routes: Vec<_> = prefixes.iter().map(|prefix| json!({ "prefix": prefix })).collect();
    let config = json!({
        "asn": bgp["asn"],
        "routerId": format!("10.0.0.{node}"),
        "listen": ["[::]:179", "0.0.0.0:179"],
        "connected": ["2001:db8::/32", "172.16.0.0/12"],
        "peers": peers,
        "restarting": restarting,
        "originate": routes,
    });
    Speaker::start(netns, &config).unwrap()
}

/// The next hops of a prefix in a ToR's kernel, sorted.
fn kernel(fabric: &Fabric, tor: &str, prefix: &str) -> anyhow::Result<Vec<IpAddr>> {
    // A kernel shows the prefix of one host without its length.
    let shown = prefix.trim_end_matches("/128").trim_end_matches("/32");
    let mut hops = fabric.tor(tor)?.router.kernel_next_hops(shown)?.unwrap_or_default();
    hops.sort();
    Ok(hops)
}

fn await_kernel(fabric: &Fabric, tor: &str, prefix: &str, wanted: &[IpAddr]) {
    until(&format!("{prefix} in the kernel of {tor}"), PATIENCE, || {
        let hops = kernel(fabric, tor, prefix)?;
        ensure!(hops == wanted, "it has {hops:?}, not {wanted:?}");
        Ok(())
    })
    .unwrap();
}

/// The address of a node on its cable to a ToR that is a next hop for a family.
fn next_hop(fabric: &Fabric, node: usize, tor: &str, ipv6: bool) -> IpAddr {
    let link = fabric.link(node, tor).unwrap();
    let near = link.plug(Side::Near);
    near.address(ipv6).or(near.address(true)).unwrap()
}

#[test]
fn every_cable_has_networks_of_its_own() {
    let fabric = pair().nodes(2).build().unwrap();
    for node in [1, 2] {
        for tor in ["tor-a", "tor-b"] {
            let link = fabric.link(node, tor).unwrap();
            for side in Side::BOTH {
                let (plug, other) = (link.plug(side), link.plug(side.other()));
                for ipv6 in [true, false] {
                    await_ping(plug.netns(), other.address(ipv6).unwrap()).unwrap();
                }
                assert_eq!(facts::global_addresses(plug.netns(), plug.ifname()).unwrap().len(), 2);
            }
        }
    }
    assert_eq!(
        fabric.link(2, "tor-b").unwrap().plug(Side::Near).address(true),
        Some(ip("2001:db8:f2:2::2"))
    );
    fabric.link(3, "tor-a").unwrap_err();
    fabric.link(1, "tor-c").unwrap_err();
}

#[test]
fn the_tors_know_each_other_and_keep_the_defaults_out_of_their_kernels() {
    for transport in [Transport::DualStack, Transport::Ipv6Only] {
        let fabric = pair().transport(transport).build().unwrap();
        fabric.await_tor_sessions().unwrap();
        for (from, to) in [("tor-a", "tor-b"), ("tor-b", "tor-a")] {
            let others = fabric.tor(to).unwrap().addresses();
            let storm = fabric.storm(from, &others, 500).unwrap();
            storm.await_answers(50).unwrap();
            storm.stop().unwrap().ensure_perfect().unwrap();
            let router = &fabric.tor(from).unwrap().router;
            for default in ["::/0", "0.0.0.0/0"] {
                router.await_path(default, |path| path.as_path.is_empty()).unwrap();
            }
            let routes = facts::routes(fabric.tor(from).unwrap().netns()).unwrap();
            let harmful: Vec<_> = routes
                .iter()
                .filter(|route| route.destination == "default" || route.kind == "blackhole")
                .collect();
            assert!(harmful.is_empty(), "{from}: {harmful:?}");
        }
    }
}

fn all_sessions(builder: Builder, extended: bool) {
    let mut fabric = builder
        .tor("bird", Brand::Bird)
        .tor("frr", Brand::Frr)
        .tor("gobgp", Brand::Gobgp)
        .tor("openbgpd", Brand::Openbgpd)
        .nodes(1)
        .build()
        .unwrap();
    let prefixes = ["2001:db8:0:1::/64", "10.244.1.0/24"];
    let speaker = speak(&mut fabric, 1, &[]);
    fabric.await_sessions().unwrap();
    drop(speaker);
    let mut speaker = speak(&mut fabric, 1, &prefixes);
    // It does not know RFC 8950, so there is nothing of IPv4 without IPv4.
    let speaks = |tor: &Tor, prefix: &str| {
        prefix.contains(':') || !extended || tor.router.brand() != Brand::Openbgpd
    };
    for tor in fabric.tors() {
        for prefix in prefixes.iter().filter(|prefix| speaks(tor, prefix)) {
            // From the node itself, beside what the other ToRs pass on.
            let hop = next_hop(&fabric, 1, tor.name(), prefix.contains(':'));
            tor.router.await_path(prefix, |path| path.next_hops.first() == Some(&hop)).unwrap();
        }
        // The defaults are to be had with a next hop on the cable.
        let link = fabric.link(1, tor.name()).unwrap();
        let far = link.plug(Side::Far);
        for default in ["::/0", "0.0.0.0/0"].iter().filter(|prefix| speaks(tor, prefix)) {
            let wanted = [far.address(default.contains(':')), far.address(true)];
            until(&format!("{default} of {}", tor.name()), PATIENCE, || {
                let routes = speaker.learned(default)?;
                let route = routes.iter().find(|route| {
                    route["peer"].as_str().is_some_and(|peer| peer.starts_with(tor.name()))
                });
                let hop = route.map(|route| route["nextHops"].to_string()).unwrap_or_default();
                let fits = wanted.iter().flatten().any(|wanted| hop.contains(&wanted.to_string()));
                ensure!(fits, "{routes:?}");
                Ok(())
            })
            .unwrap();
        }
    }
}

#[test]
fn four_brands_in_containers_speak_with_a_node_and_each_other() {
    all_sessions(Fabric::builder().housing(Housing::Container), false);
}

#[test]
fn four_brands_over_ipv4() {
    all_sessions(Fabric::builder().sessions(Sessions::OverIpv4), false);
}

#[test]
fn four_brands_without_ipv4_on_the_cables() {
    all_sessions(Fabric::builder().transport(Transport::Ipv6Only), true);
}

#[test]
fn nodes_that_announce_one_prefix_share_its_traffic() {
    let builders = [pair().own_asns(), pair().transport(Transport::Ipv6Only)];
    for mut fabric in builders.map(|builder| builder.nodes(2).build().unwrap()) {
        let mut speakers = [1, 2].map(|node| speak(&mut fabric, node, &SHARED));
        fabric.await_sessions().unwrap();
        for tor in ["tor-a", "tor-b"] {
            for prefix in SHARED {
                let both = [1, 2].map(|node| next_hop(&fabric, node, tor, prefix.contains(':')));
                await_kernel(&fabric, tor, prefix, &both);
                let to = ip(prefix);
                let devices = (1024..1088).map(|port| chosen(fabric.tor(tor).unwrap(), to, port));
                assert_eq!(devices.collect::<BTreeSet<_>>().len(), 2, "{tor}: all to one of them");
            }
            let storm = fabric.storm(tor, &SHARED.map(ip), 500).unwrap();
            storm.await_answers(50).unwrap();
            storm.stop().unwrap().ensure_perfect().unwrap();
        }
        for prefix in SHARED {
            speakers[0].withdraw(prefix).unwrap();
            for tor in ["tor-a", "tor-b"] {
                let left = next_hop(&fabric, 2, tor, prefix.contains(':'));
                await_kernel(&fabric, tor, prefix, &[left]);
            }
        }
    }
}

/// By which interface a ToR's kernel would send a TCP segment with this port.
fn chosen(tor: &Tor, to: IpAddr, port: u16) -> String {
    let shown = tor.netns().ip(&format!("-j route get {to} ipproto tcp sport {port} dport 80"));
    let shown: Value = serde_json::from_str(&shown.unwrap()).unwrap();
    shown[0]["dev"].as_str().unwrap().to_owned()
}

/// Awaits that a ToR's kernel sends what is for an address by one interface.
fn await_device(fabric: &Fabric, tor: &str, to: IpAddr, device: &str) {
    let tor = fabric.tor(tor).unwrap();
    until(&format!("{} to send by {device}", tor.name()), PATIENCE, || {
        let shown = tor.netns().ip(&format!("route get {to}"))?;
        ensure!(shown.contains(&format!(" dev {device} ")), "{shown}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_node_that_lost_one_cable_is_reached_over_the_other() {
    let mut fabric = pair().nodes(1).build().unwrap();
    let _speaker = speak(&mut fabric, 1, &SHARED);
    fabric.await_sessions().unwrap();
    for (tor, other) in [("tor-a", "tor-b"), ("tor-b", "tor-a")] {
        let by = |device| SHARED.iter().for_each(|to| await_device(&fabric, tor, ip(to), device));
        by("node-1");
        let inward = fabric.storm(tor, &SHARED.map(ip), 500).unwrap();
        // And out: whichever way still leads beyond.
        let node = fabric.node(1).unwrap().netns();
        let beyond = [BEYOND_V6, BEYOND_V4].map(ip);
        let outward = Storm::start_from(node, &SHARED.map(ip), &beyond, 500).unwrap();
        let both = [inward, outward];
        both.iter().for_each(|storm| storm.await_answers(20).unwrap());
        let link = fabric.link(1, tor).unwrap();
        link.cut(Side::Near).unwrap();
        by(other);
        both.iter().for_each(|storm| storm.await_answers(20).unwrap());
        link.mend().unwrap();
        fabric.await_session(1, tor).unwrap();
        by("node-1");
        both.iter().for_each(|storm| storm.await_answers(20).unwrap());
        for storm in both {
            let outcome = storm.stop().unwrap();
            assert_eq!((outcome.duplicates(), outcome.strange), (0, 0), "{outcome}");
        }
        // The speaker leaves the kernel alone, and so its way back is not put back.
        node.ip("-6 route flush default").unwrap();
        default_routes(&fabric, 1);
    }
}

#[test]
fn a_silent_cable_ends_its_session_at_the_hold_time() {
    let mut fabric = pair().nodes(1).hold_time(3).build().unwrap();
    let _speaker = speak(&mut fabric, 1, &SHARED);
    fabric.await_sessions().unwrap();
    let link = fabric.link(1, "tor-b").unwrap();
    link.silence().unwrap();
    let address = fabric.session_addresses(1, "tor-b").unwrap()[0];
    let router = &fabric.tor("tor-b").unwrap().router;
    router.await_state(address, |state| state != "Established").unwrap();
    // A node that does not even answer is none that restarts: nothing is kept.
    await_device(&fabric, "tor-b", ip(SHARED[0]), "tor-a");
    link.pass().unwrap();
    fabric.await_session(1, "tor-b").unwrap();
    await_device(&fabric, "tor-b", ip(SHARED[0]), "node-1");
}

#[test]
fn tors_that_are_parted_lose_each_other() {
    let fabric = pair().build().unwrap();
    fabric.await_tor_sessions().unwrap();
    let others = fabric.tor("tor-b").unwrap().addresses();
    let link = fabric.peer_link("tor-a", "tor-b").unwrap();
    others.iter().for_each(|other| await_device(&fabric, "tor-a", *other, "tor-b"));
    link.unplug(Side::Near).unwrap();
    for other in others {
        await_kernel(&fabric, "tor-a", &other.to_string(), &[]);
    }
    link.mend().unwrap();
    others.iter().for_each(|other| await_device(&fabric, "tor-a", *other, "tor-b"));
}

#[test]
fn tors_keep_the_routes_of_a_node_whose_speaker_was_killed() {
    let mut fabric = pair().nodes(1).build().unwrap();
    let speaker = speak(&mut fabric, 1, &SHARED);
    fabric.await_sessions().unwrap();
    let tors = ["tor-a", "tor-b"];
    for tor in tors {
        SHARED.iter().for_each(|to| await_device(&fabric, tor, ip(to), "node-1"));
    }
    let storms = tors.map(|tor| fabric.storm(tor, &SHARED.map(ip), 500).unwrap());
    storms.iter().for_each(|storm| storm.await_answers(20).unwrap());
    speaker.kill().unwrap();
    let address = fabric.session_addresses(1, "tor-a").unwrap()[0];
    let router = &fabric.tor("tor-a").unwrap().router;
    router.await_state(address, |state| state != "Established").unwrap();
    storms.iter().for_each(|storm| storm.await_answers(100).unwrap());
    let _again = start(&mut fabric, 1, &SHARED, true);
    fabric.await_sessions().unwrap();
    storms.iter().for_each(|storm| storm.await_answers(20).unwrap());
    for storm in storms {
        storm.stop().unwrap().ensure_perfect().unwrap();
    }
}
