//! What keeps a peer from being told: sessions that are down, passwords, families, next hops, a router
//! that does not read.

use std::fs;

use anyhow::ensure;
use rack::fabric::{Fabric, Transport};
use rack::router::{Brand, Family};
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

use super::scene::{NETWORK4, NETWORK6, TORS, await_said, explain, pair, peer_config, start};

/// The reason of a peer that was not told.
fn reason(said: &super::scene::Said, peer: &str) -> String {
    super::scene::timeless(said.peer(peer)["reason"].as_str().unwrap_or_default())
}

#[test]
fn sessions_that_are_down_and_why() {
    let mut fabric = pair().nodes(1).build().unwrap();
    start(&mut fabric);
    // A peer that this version does not follow.
    let peers = fabric.node_config_mut(1).unwrap().pointer_mut("/spec/bgp/peers").unwrap();
    peers
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "wire", "interface": "uplink0", "asn": 65000 }));
    fabric.configure(1).unwrap();
    let said = await_said(&fabric, &[NETWORK4], "the new peer", |said| {
        said.json["peers"].as_array().is_some_and(|peers| peers.len() == 3)
    });
    let why = reason(&said, "wire");
    assert!(why.starts_with("it is not followed: unnumbered peering"), "{why}");
    assert!(
        said.verdict().contains("told to 2 of 3 peers, tor-a and tor-b; not to wire (it is not")
    );

    // Shut down with words; and gone without any.
    let address = fabric.session_addresses(1, TORS[0]).unwrap()[0];
    fabric.tor(TORS[0]).unwrap().router.shutdown(address, "fixing a fan").unwrap();
    fabric.tor_mut(TORS[1]).unwrap().router.kill().unwrap();
    let said = await_said(&fabric, &[NETWORK4], "both are down", |said| {
        reason(said, TORS[0]).contains("fixing a fan")
            && reason(said, TORS[1]).contains("cannot connect: Connection refused")
    });
    let why = reason(&said, TORS[0]);
    assert!(why.starts_with("no session since T, now "), "{why}");
    assert!(why.contains("received Cease: Administrative Shutdown (6/2): fixing a fan"), "{why}");
    let why = reason(&said, TORS[1]);
    assert!(why.starts_with("no session since T, now ") && why.contains("the connection closed"));
    let verdict = said.verdict();
    let begins = "10.244.1.0/24 is originated here (spec.cidr4[0]), but no peer was told: tor-a (no \
                  session: received Cease: Administrative Shutdown (6/2): fixing a fan";
    assert!(verdict.starts_with(begins), "{verdict}");
    assert_eq!((&said.json["announced"], said.code), (&json!(false), 0));
    assert_eq!(said.peer(TORS[1])["told"], false);
    let one = explain(&fabric, 1, &[NETWORK4, "--peer", TORS[1]]).unwrap();
    assert!(one.verdict().starts_with("tor-b was not told of 10.244.1.0/24: no session: "));
}

#[test]
fn passwords_families_and_next_hops() {
    // The first ToR wants a password; the second speaks IPv6 alone; the third has no RFC 8950.
    let builder = pair().tor("tor-c", Brand::Bird).nodes(1).transport(Transport::Ipv6Only);
    let builder = builder.adjust(|name, config| {
        for peer in config.peers.iter_mut().filter(|peer| peer.asn != config.asn) {
            match name {
                "tor-a" => peer.password = Some("horse".to_owned()),
                "tor-b" => peer.families = vec![Family::Ipv6],
                _ => peer.extended_next_hop = false,
            }
        }
    });
    let mut fabric = builder.build().unwrap();
    let file = fabric.node(1).unwrap().file("password");
    peer_config(&mut fabric, TORS[0])["password"] = json!({ "file": file });
    peer_config(&mut fabric, "tor-c")["families"] = json!(["ipv4-unicast", "ipv6-unicast"]);
    fabric.configure(1).unwrap();
    fabric.start().unwrap();
    let said = await_said(&fabric, &[NETWORK4], "two sessions", |said| {
        [TORS[1], "tor-c"].iter().all(|tor| said.peer(tor)["state"] == "Established")
    });
    let why = reason(&said, TORS[0]);
    assert!(why.starts_with("no session yet, now Idle: password") && why.contains("No such file"));
    assert_eq!(reason(&said, TORS[1]), "the peer does not speak this family");
    let why = reason(&said, "tor-c");
    assert!(
        why.starts_with("no IPv4 next hop is known for this peer, and it has not agreed"),
        "{why}"
    );
    assert!(said.verdict().contains("but no peer was told: tor-a (no session: password"));
    // The other family is told to those that have a session.
    let said = await_said(&fabric, &[NETWORK6], "told", |said| {
        [TORS[1], "tor-c"].iter().all(|tor| said.peer(tor)["told"] == true)
    });
    assert!(said.verdict().contains("and told to 2 of 3 peers, tor-b and tor-c; not to tor-a ("));
    // A family that the NodeConfig does not give to a peer.
    peer_config(&mut fabric, "tor-c")["families"] = json!(["ipv6-unicast"]);
    peer_config(&mut fabric, "tor-c")["import"] = json!({ "accept": ["::/0"] });
    fabric.configure(1).unwrap();
    await_said(&fabric, &[NETWORK4], "not wished for", |said| {
        said.peer("tor-c")["state"] == "Established"
            && reason(said, "tor-c")
                .starts_with("the NodeConfig does not give it this address family")
    });
    // With its password the first one is told, too.
    fs::write(&file, "horse").unwrap();
    let said = await_said(&fabric, &[NETWORK4], "told", |said| said.peer(TORS[0])["told"] == true);
    assert_eq!(said.peer(TORS[0])["reason"], Value::Null);
}

/// Communities that make an UPDATE of nearly the longest kind.
fn many(turn: u32) -> Value {
    let of = |n: u32| format!("65001:{}", 1000 + (turn * 900 + n) % 60_000);
    (0..900).map(of).collect()
}

/// Two ToRs, of which the first, and the node, have little room for what is on its way.
fn with_little_room() -> Fabric {
    let builder = Fabric::builder().tor(TORS[0], Brand::Bird).tor(TORS[1], Brand::Bird);
    let mut fabric = builder.nodes(1).hold_time(240).build().unwrap();
    let few = "4096 8192 8192";
    fabric.node(1).unwrap().netns().sysctls(&[("net/ipv4/tcp_wmem", few)]).unwrap();
    let tor = fabric.tor_mut(TORS[0]).unwrap();
    tor.netns().sysctls(&[("net/ipv4/tcp_rmem", few)]).unwrap();
    // What it listens on was made before.
    tor.router.kill().unwrap();
    tor.router.start_again().unwrap();
    start(&mut fabric);
    fabric
}

/// A router that is stopped takes nothing: what is told waits here, and is explained so.
#[test]
fn a_router_that_does_not_read() {
    let mut fabric = with_little_room();
    fabric.tor(TORS[0]).unwrap().router.freeze().unwrap();
    let mut turn = 0;
    let waits = "the peer has not taken yet what was sent to it before";
    until("its buffers to be full", PATIENCE, || {
        turn += 1;
        fabric.node_config_mut(1)?["spec"]["bgp"]["communities"] = many(turn);
        fabric.configure(1)?;
        // Both have their turn at once: what the one that reads has, the other was offered.
        let said = await_said(&fabric, &[NETWORK4], "told the other", |said| {
            let told = &said.peer(TORS[1])["attributes"]["communities"];
            told.as_array().is_some_and(|told| told.contains(&many(turn)[0]))
        });
        ensure!(said.peer(TORS[0])["pending"] == true, "{:#}", said.peer(TORS[0]));
        Ok(())
    })
    .unwrap();
    let said = explain(&fabric, 1, &[NETWORK4]).unwrap();
    let known = format!("what is new about it is queued: {waits}");
    assert_eq!((said.peer(TORS[0])["told"].clone(), reason(&said, TORS[0])), (json!(true), known));
    // What is new altogether is told to the other alone.
    let pod = fabric.add_pod(1, "dns", &[("anycast", "192.0.2.53")]).unwrap();
    let said = await_said(&fabric, &["192.0.2.53"], "told to one", |said| {
        said.peer(TORS[1])["told"] == true && said.peer(TORS[0])["pending"] == true
    });
    assert_eq!(reason(&said, TORS[0]), format!("queued: {waits}"));
    assert!(said.verdict().contains("told to 1 of 2 peers, tor-b; not to tor-a (queued: the peer"));
    fabric.tor(TORS[0]).unwrap().router.thaw().unwrap();
    await_said(&fabric, &["192.0.2.53"], "told to both", |said| {
        TORS.iter().all(|tor| said.peer(tor)["told"] == true && said.peer(tor)["pending"] == false)
    });
    fabric.remove_pod(pod).unwrap();
}
