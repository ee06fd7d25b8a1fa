//! The agent in the container that the DaemonSet describes: with the capabilities, directories and
//! restrictions that the manifest itself has, it does everything; with one capability less it says
//! which one is missing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::net::IpAddr;

use anyhow::ensure;
use rack::container::{Housed, STANDALONE};
use rack::fabric::{Builder, Fabric};
use rack::pod::Pod;
use rack::router::Brand;
use rack::shipped::Container;
use rack::wait::{PATIENCE, until};
use rack::{binaries, probe};
use serde_json::json;

const TOR: &str = "tor-a";
const PASSWORD: &str = "correct-horse";
const ANYCAST: &str = "2001:db8:53::53";

/// A node whose ToR dials, signs (TCP-MD5) and sends with TTL 255 (GTSM), and never hears of one that
/// does otherwise: the session proves all three.
fn guarded() -> Fabric {
    let builder: Builder = Fabric::builder().tor(TOR, Brand::Bird).nodes(1).adjust(|_, config| {
        for peer in &mut config.peers {
            peer.password = Some(PASSWORD.to_owned());
            peer.ttl_security = true;
        }
    });
    let mut fabric = builder.build().unwrap();
    let passwords = fabric.node(1).unwrap().file("standalone/passwords");
    fs::create_dir_all(&passwords).unwrap();
    fs::write(passwords.join(TOR), PASSWORD).unwrap();
    let bgp = &mut fabric.node_config_mut(1).unwrap()["spec"]["bgp"];
    bgp["listenPort"] = json!(179);
    for peer in bgp["peers"].as_array_mut().unwrap() {
        peer["password"] = json!({ "file": format!("{STANDALONE}/passwords/{TOR}") });
        peer["ttlSecurity"] = json!(true);
        peer["passive"] = json!(true);
    }
    fabric.configure(1).unwrap();
    fabric
}

fn start(fabric: &mut Fabric, container: &Container) -> Housed {
    let node = fabric.node_mut(1).unwrap();
    let housed = Housed::start(node, container).unwrap();
    node.await_ready().unwrap();
    housed
}

fn await_session(fabric: &Fabric) {
    fabric.await_session(1, TOR).unwrap_or_else(|error| {
        panic!("{error:#}\n{}", fabric.node(1).unwrap().log().unwrap());
    });
}

#[test]
fn with_what_the_daemonset_gives_the_agent_does_everything() {
    let container = Container::of_the_daemonset().unwrap();
    let mut fabric = guarded();
    let housed = start(&mut fabric, &container);
    await_session(&fabric);
    let node = fabric.node(1).unwrap();

    // Sysctls of the node, through the mount; those of this machine are not the node's.
    for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        assert_eq!(node.netns().exec("sysctl", &["-n", name]).unwrap().trim(), "1", "{name}");
    }
    let rules = node.netns().exec("nft", &["list", "ruleset"]).unwrap();
    assert!(rules.contains("table inet flock"), "{rules}");
    // What was installed.
    let (installed, own) = (node.file("bin/flock"), binaries::flock().unwrap());
    assert!(fs::read(installed).unwrap() == fs::read(own).unwrap(), "not our plugin");
    let conflist = fs::read_to_string(node.file("conf/01-flock.conflist")).unwrap();
    let conflist: serde_json::Value = serde_json::from_str(&conflist).unwrap();
    assert_eq!(conflist["plugins"][0]["socket"], "/run/flock/flock.sock");
    assert_eq!(conflist["plugins"][0]["spool"], "/var/lib/flock/spool");

    // A namespace that comes later, with IPv6 off: a sysctl is written inside it.
    let pod = Pod::new("born").unwrap();
    let off = ["all", "default"].map(|scope| format!("net/ipv6/conf/{scope}/disable_ipv6"));
    pod.netns.sysctls(&[(&off[0], "1"), (&off[1], "1")]).unwrap();
    let plugin = node.plugin().unwrap();
    let result = plugin.add(&pod).unwrap();
    plugin.check(&pod, &result).unwrap().unwrap();
    let addresses = rack::pod::addresses(&result).unwrap();
    let tor = &fabric.tor(TOR).unwrap().router;
    for address in &addresses {
        probe::ping(tor.netns(), *address).unwrap();
    }
    let anycast = fabric.add_pod(1, "anycast", &[("anycast", ANYCAST)]).unwrap();
    tor.await_path(&format!("{ANYCAST}/128"), |_| true).unwrap();
    probe::ping(tor.netns(), ANYCAST.parse::<IpAddr>().unwrap()).unwrap();

    // As `kubectl exec ds/flock --` would; the doctor looks into pods' namespaces.
    let shown = housed.exec(&["flock-agent", "bgp", "show"]).unwrap();
    assert!(shown.contains("Established"), "{shown}");
    let checked = housed.exec(&["flock-agent", "check"]);
    assert!(checked.is_ok(), "{:#}", checked.unwrap_err());

    // Killed; a DEL is left in the spool, and the next agent carries it out.
    housed.kill(fabric.node_mut(1).unwrap()).unwrap();
    plugin.del(&pod).unwrap();
    let node = fabric.node(1).unwrap();
    assert_eq!(fs::read_dir(node.spool()).unwrap().count(), 1, "nothing was spooled");
    let _housed = start(&mut fabric, &container);
    await_session(&fabric);
    let node = fabric.node(1).unwrap();
    until("the spool to be carried out", PATIENCE, || {
        let left = node.allocations()?;
        ensure!(left.len() == 1, "{left:?}");
        Ok(())
    })
    .unwrap();
    fabric.remove_pod(anycast).unwrap();
    // SIGTERM goes to the agent, and it ends well.
    fabric.node_mut(1).unwrap().terminate().unwrap();
}

#[test]
fn with_a_capability_less_the_agent_says_which() {
    let whole = Container::of_the_daemonset().unwrap();
    assert_eq!(whole.capabilities, ["NET_ADMIN", "NET_BIND_SERVICE", "SYS_ADMIN"]);
    let without = |name: &str| {
        let mut less = whole.clone();
        less.capabilities.retain(|capability| capability != name);
        less
    };
    for name in ["NET_ADMIN", "SYS_ADMIN"] {
        let mut fabric = guarded();
        let node = fabric.node_mut(1).unwrap();
        let _housed = Housed::start(node, &without(name)).unwrap();
        node.await_death().unwrap();
        let said = node.log().unwrap();
        assert!(said.contains(&format!("the agent has no CAP_{name}, with which it")), "{said}");
        assert!(said.contains("securityContext.capabilities.add"), "{said}");
        assert!(!said.contains("\"starting\""), "something was begun: {said}");
    }
    // Without this one it only dials, and a ToR that dials finds nobody.
    let mut fabric = guarded();
    let _housed = start(&mut fabric, &without("NET_BIND_SERVICE"));
    let node = fabric.node(1).unwrap();
    until("the doctor to tell", PATIENCE, || {
        let found = node.findings("BGP listener")?;
        let remedy = found.first().and_then(|finding| finding["remedy"].as_str());
        ensure!(remedy.is_some_and(|words| words.contains("NET_BIND_SERVICE")), "{found:?}");
        Ok(())
    })
    .unwrap();
    let said = node.log().unwrap();
    assert!(said.contains("without the capability NET_BIND_SERVICE"), "{said}");
    let peers = node.cli_json(&["bgp", "show", "peers"]).unwrap();
    assert!(peers["peers"].as_array().unwrap().iter().all(|peer| peer["state"] != "Established"));
}

/// As Kubespray leaves the runtime's directory: somebody else's.
#[test]
fn a_directory_of_another_user_is_named_with_its_remedy() {
    let container = Container::of_the_daemonset().unwrap();
    let mut fabric = guarded();
    let node = fabric.node_mut(1).unwrap();
    std::os::unix::fs::chown(node.file("bin"), Some(1000), None).unwrap();
    let _housed = Housed::start(node, &container).unwrap();
    node.await_death().unwrap();
    let said = node.log().unwrap();
    for words in ["cannot install /host/opt/cni/bin/flock", "capability DAC_OVERRIDE"] {
        assert!(said.contains(words), "{said}");
    }
    let mut more = container;
    more.capabilities.push("DAC_OVERRIDE".to_owned());
    let _housed = start(&mut fabric, &more);
}

#[test]
fn without_the_nodes_sysctls_the_agent_says_how_to_give_them() {
    let mut container = Container::of_the_daemonset().unwrap();
    container.mounts.retain(|mount| mount.inside != "/host/proc/sys/net");
    let mut fabric = guarded();
    let node = fabric.node_mut(1).unwrap();
    let _housed = Housed::start(node, &container).unwrap();
    node.await_death().unwrap();
    let said = node.log().unwrap();
    for words in ["net.ipv6.conf.all.forwarding", "mounted at /host/proc/sys/net"] {
        assert!(said.contains(words), "{said}");
    }
}
