//! A node that goes away: its routes are marked while it waits, withdrawn, and its sessions end with
//! words; an agent that dies on the way goes on where it was; undone, everything is as before.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::ensure;
use rack::binaries::{self, flock_agent};
use rack::capture::Kind;
use rack::fabric::{Fabric, PodOnNode};
use rack::facts;
use rack::link::Side;
use rack::monitor::RouteMonitor;
use rack::node::Node;
use rack::process::Daemon;
use rack::router::{Brand, Path};
use rack::sniffer::Sniffer;
use rack::story::Telling;
use rack::wait::{PATIENCE, until};
use serde_json::json;

const TORS: [&str; 2] = ["tor-a", "tor-b"];
/// RFC 8326.
const GRACEFUL_SHUTDOWN: &str = "65535:0";
/// As the ToRs are told it.
const FAREWELL: &str = "flock: node-1 is drained";

/// BIRD, FRR and nodes that run.
fn fabric(nodes: usize) -> Fabric {
    let builder = Fabric::builder().tor(TORS[0], Brand::Bird).tor(TORS[1], Brand::Frr);
    let mut fabric = builder.nodes(nodes).build().unwrap();
    fabric.node_config_mut(1).unwrap()["spec"]["bgp"]["announcePods"] = json!(true);
    fabric.configure(1).unwrap();
    fabric
}

fn start(fabric: &mut Fabric) {
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
}

/// A drain that is watched until this is dropped.
fn begin_drain(node: &Node, wait: &str) -> Daemon {
    let mut command = node.netns().command(flock_agent().unwrap()).unwrap();
    command.args(["drain", "--wait", wait]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    Daemon::start("flock-agent drain", &mut command, &node.file("drain.log")).unwrap()
}

/// What the first node says of its drain in `bgp show`.
fn await_said(fabric: &Fabric, what: &str) {
    until(&format!("{what:?} in bgp show"), PATIENCE, || {
        let shown = fabric.node(1)?.cli(&["bgp", "show"])?;
        ensure!(shown.contains(what), "{shown}");
        Ok(())
    })
    .unwrap();
}

/// What the first node announces with these pods.
fn prefixes(pods: &[PodOnNode]) -> Vec<String> {
    let networks = ["2001:db8:0:1::/64", "10.244.1.0/24"].map(str::to_owned);
    let hosts = pods.iter().flat_map(PodOnNode::addresses).map(host);
    networks.into_iter().chain(hosts).collect()
}

fn host(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv6() { 128 } else { 32 })
}

/// Awaits of every path of these prefixes at both ToRs, also of those that they tell each other,
/// what pleases.
fn await_paths(
    fabric: &Fabric,
    prefixes: &[String],
    what: &str,
    pleases: impl Fn(&[Path]) -> bool,
) {
    for tor in fabric.tors() {
        for prefix in prefixes {
            until(&format!("{prefix} to be {what} at {}", tor.name()), PATIENCE, || {
                let paths = tor.router.paths(prefix)?;
                ensure!(pleases(&paths), "{paths:?}");
                Ok(())
            })
            .telling(|| tor.router.log_tail())
            .unwrap();
        }
    }
}

fn await_marked(fabric: &Fabric, prefixes: &[String]) {
    let marked = |path: &Path| path.communities.iter().any(|one| one == GRACEFUL_SHUTDOWN);
    await_paths(fabric, prefixes, "marked", |paths| {
        !paths.is_empty() && paths.iter().all(|path| marked(path) && !path.stale)
    });
}

fn await_plain(fabric: &Fabric, prefixes: &[String]) {
    await_paths(fabric, prefixes, "there", |paths| {
        !paths.is_empty() && paths.iter().all(|path| path.communities.is_empty() && !path.stale)
    });
}

fn await_withdrawn(fabric: &Fabric, prefixes: &[String]) {
    await_paths(fabric, prefixes, "withdrawn", <[Path]>::is_empty);
}

/// The cable of the first node to the first ToR, overheard.
struct Ear {
    sniffer: Sniffer,
    near: IpAddr,
    far: IpAddr,
}

impl Ear {
    fn on(fabric: &Fabric) -> Self {
        let link = fabric.link(1, TORS[0]).unwrap();
        let (near, far) = (link.plug(Side::Near), link.plug(Side::Far));
        let sniffer = Sniffer::start(near.netns(), near.ifname()).unwrap();
        Self { sniffer, near: near.address(true).unwrap(), far: far.address(true).unwrap() }
    }

    /// How often the node has opened a session, or tried to.
    fn opens(&self) -> usize {
        let said = self.sniffer.said_by(self.near).unwrap();
        said.iter().filter(|message| message.kind() == Kind::Open).count()
    }

    /// Awaits that the ToR has tried some more to reach the node, which says nothing.
    fn ensure_mute(&self) {
        let dialled = || -> anyhow::Result<usize> {
            let streams = self.sniffer.streams()?;
            Ok(streams.iter().filter(|stream| stream.from.ip() == self.far).count())
        };
        let (opens, before) = (self.opens(), dialled().unwrap());
        until("the ToR to dial in vain", PATIENCE, || {
            let more = dialled()? - before;
            ensure!(more >= 2, "{more} times");
            Ok(())
        })
        .unwrap();
        assert_eq!(self.opens(), opens, "{}", self.sniffer.story());
    }
}

#[test]
fn a_node_is_drained_step_by_step_and_comes_back() {
    let mut fabric = fabric(1);
    let ear = Ear::on(&fabric);
    start(&mut fabric);
    let pods: Vec<_> =
        (0..3).map(|pod| fabric.add_pod(1, &format!("pod-{pod}"), &[]).unwrap()).collect();
    let all = prefixes(&pods);
    await_plain(&fabric, &all);
    until("the ways out", PATIENCE, || ensure_ways_out(&fabric)).unwrap();
    let learned = RouteMonitor::start(fabric.node(1).unwrap().netns()).unwrap();
    let opens = ear.opens();

    // Undone while it waits: nothing but two UPDATEs.
    let watch = begin_drain(fabric.node(1).unwrap(), "10m");
    await_marked(&fabric, &all);
    await_said(&fabric, "draining");
    let said = fabric.node(1).unwrap().cli(&["drain", "--undo"]).unwrap();
    assert!(said.contains("as before"), "{said}");
    await_plain(&fabric, &all);
    assert_eq!(ear.opens(), opens, "no session began anew\n{}", ear.sniffer.story());
    drop(watch);

    // Killed while it waits: it goes on to wait, and what comes meanwhile is marked as well.
    let watch = begin_drain(fabric.node(1).unwrap(), "10m");
    await_marked(&fabric, &all);
    fabric.node_mut(1).unwrap().kill().unwrap();
    start(&mut fabric);
    await_said(&fabric, "draining");
    let late = fabric.add_pod(1, "late", &[]).unwrap();
    let all = [all, late.addresses().into_iter().map(host).collect()].concat();
    await_marked(&fabric, &all);
    until("the ways out", PATIENCE, || ensure_ways_out(&fabric)).unwrap();
    drop(watch);

    // Hurried to its end.
    let said = fabric.node(1).unwrap().cli(&["drain", "--wait", "1s"]).unwrap();
    assert!(said.ends_with("drained: 0 of 2 sessions up\n"), "{said}");
    await_withdrawn(&fabric, &all);
    for tor in fabric.tors() {
        tor.router.await_log(FAREWELL).unwrap();
    }
    ear.ensure_mute();
    ensure_ways_out(&fabric).unwrap();
    fabric.node_mut(1).unwrap().kill().unwrap();
    fabric.start().unwrap();
    await_said(&fabric, "drained since");
    ear.ensure_mute();
    await_withdrawn(&fabric, &all);
    ensure_ways_out(&fabric).unwrap();
    // Said again, it is so already.
    fabric.node(1).unwrap().cli(&["drain", "--wait", "1s"]).unwrap();

    let said = fabric.node(1).unwrap().cli(&["drain", "--undo"]).unwrap();
    assert!(said.contains("sessions come up again"), "{said}");
    fabric.await_sessions().unwrap();
    await_plain(&fabric, &all);
    // The node itself was never cut off.
    let gone = learned.gone().unwrap();
    assert!(!gone.iter().any(|to| to == "default"), "{gone:?}");
}

/// The node's kernel has both ToRs as ways out, in both families.
fn ensure_ways_out(fabric: &Fabric) -> anyhow::Result<()> {
    let routes = facts::routes(fabric.node(1)?.netns())?;
    let defaults = routes.iter().filter(|route| route.destination == "default");
    let ways: Vec<_> = defaults.map(|route| route.devices.len()).collect();
    ensure!(ways == [2, 2], "{routes:?}");
    Ok(())
}

#[test]
fn an_agent_that_is_away_when_the_wait_ends_withdraws_when_it_is_back() {
    let mut fabric = fabric(1);
    start(&mut fabric);
    let pods = [fabric.add_pod(1, "pod", &[]).unwrap()];
    let all = prefixes(&pods);
    await_plain(&fabric, &all);
    let _watch = begin_drain(fabric.node(1).unwrap(), "2s");
    let file = fabric.node(1).unwrap().state_dir().join("drain.json");
    let noted = until("the drain to be noted", PATIENCE, || Ok(fs::metadata(&file)?.modified()?));
    fabric.node_mut(1).unwrap().kill().unwrap();
    until("the wait to be over", PATIENCE, || {
        let since = SystemTime::now().duration_since(*noted.as_ref().unwrap())?;
        ensure!(since > Duration::from_secs(3), "{since:?}");
        Ok(())
    })
    .unwrap();
    // The ToRs keep what it had told, for an agent that restarts. Nobody is to keep it for a node
    // that is drained.
    fabric.start().unwrap();
    await_withdrawn(&fabric, &all);
    await_said(&fabric, "drained since");
    for tor in fabric.tors() {
        tor.router.await_log(FAREWELL).unwrap();
    }
    fabric.node(1).unwrap().cli(&["drain", "--undo"]).unwrap();
    fabric.await_sessions().unwrap();
    await_plain(&fabric, &all);
}

#[test]
fn one_of_three_that_serve_an_address_is_drained_and_no_packet_is_lost() {
    let mut fabric = fabric(3);
    start(&mut fabric);
    // Many, so that each node has its share of them.
    let shared = (1..=8).flat_map(|n| [format!("2001:db8:cafe::{n}"), format!("192.0.2.{n}")]);
    let shared: Vec<IpAddr> = shared.map(|address| address.parse().unwrap()).collect();
    let anycast: Vec<_> = shared.iter().map(ToString::to_string).collect();
    let annotation = [("anycast", &*anycast.join(","))];
    let _pods = [1, 2, 3].map(|node| fabric.add_pod(node, "server", &annotation).unwrap());
    await_hops(&fabric, &shared, 3);
    let storms = TORS.map(|tor| fabric.storm(tor, &shared, 1000).unwrap());
    let await_answers = || storms.iter().for_each(|storm| storm.await_answers(30).unwrap());
    await_answers();
    let said = fabric.node(1).unwrap().cli(&["drain", "--wait", "1s"]).unwrap();
    assert!(said.contains("drained"), "{said}");
    await_hops(&fabric, &shared, 2);
    await_answers();
    fabric.node(1).unwrap().cli(&["drain", "--undo"]).unwrap();
    await_hops(&fabric, &shared, 3);
    await_answers();
    for storm in storms {
        storm.stop().unwrap().ensure_perfect().unwrap();
    }
}

/// Awaits that the ToRs' kernels have so many ways to each of these.
fn await_hops(fabric: &Fabric, addresses: &[IpAddr], count: usize) {
    for tor in fabric.tors() {
        until(&format!("{count} ways at {}", tor.name()), PATIENCE, || {
            let routes = facts::routes(tor.netns())?;
            for address in addresses.iter().map(ToString::to_string) {
                let route = routes.iter().find(|route| route.destination == address);
                let ways = route.map_or(0, |route| route.devices.len());
                ensure!(ways == count, "{address} has {ways}");
            }
            Ok(())
        })
        .telling(|| tor.router.log_tail())
        .unwrap();
    }
}

/// A small file system in the place of a node's state directory, unmounted with the test.
struct Disk(std::path::PathBuf);

impl Disk {
    fn under(node: &Node) -> Self {
        let at = node.state_dir().to_owned();
        mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs", at.to_str().unwrap()]);
        Self(at)
    }

    fn fill(&self) {
        let _full = fs::write(self.0.join("filler"), vec![0; 1 << 20]);
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str]) {
    binaries::run(Command::new("mount").args(arguments)).unwrap();
}

#[test]
fn a_full_disk_refuses_a_drain_and_holds_up_one_that_is_begun() {
    let mut fabric = fabric(1);
    let disk = Disk::under(fabric.node(1).unwrap());
    start(&mut fabric);
    let all = prefixes(&[]);
    await_plain(&fabric, &all);
    disk.fill();
    let refused = fabric.node(1).unwrap().cli(&["drain", "--wait", "1s"]).unwrap_err();
    let refused = format!("{refused:#}");
    assert!(refused.contains("drain.json") && refused.contains("free space"), "{refused}");
    assert!(!fabric.node(1).unwrap().cli(&["bgp", "show"]).unwrap().contains("Drain:"));
    await_plain(&fabric, &all);
    disk.empty();

    // Full in the middle of it: withdrawn, but not called drained before that is on disk.
    let _watch = begin_drain(fabric.node(1).unwrap(), "3s");
    await_said(&fabric, "draining");
    disk.fill();
    await_withdrawn(&fabric, &all);
    let complaints = || {
        let log = fs::read_to_string(fabric.node(1).unwrap().file("agent.log")).unwrap();
        log.lines().filter(|line| line.contains("cannot note that the node is drained")).count()
    };
    until("two complaints", PATIENCE, || {
        ensure!(complaints() >= 2, "{}", complaints());
        Ok(())
    })
    .unwrap();
    assert!(complaints() < 50, "it tries again without a pause: {}", complaints());
    await_said(&fabric, "draining");
    disk.empty();
    await_said(&fabric, "drained since");
    fabric.node(1).unwrap().cli(&["drain", "--undo"]).unwrap();
    await_plain(&fabric, &all);
}

#[test]
fn a_broken_note_of_a_drain_refuses_the_start() {
    let mut node = Node::new().unwrap();
    let file = node.state_dir().join("drain.json");
    for broken in ["", "{", r#"{"version":1,"state":"gone"}"#, r#"{"version":7}"#] {
        fs::write(&file, broken).unwrap();
        node.start().unwrap();
        let agent = node.agent().unwrap();
        let status = agent.await_exit().unwrap();
        let said = agent.log_tail();
        assert!(!status.success(), "{broken:?} was taken: {said}");
        let remedy = "if the node is in service, remove the file";
        assert!(said.contains("drain.json") && said.contains(remedy), "{broken:?}: {said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), broken, "it was not overwritten");
        node.await_death().unwrap();
    }
    fs::remove_file(&file).unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
}
