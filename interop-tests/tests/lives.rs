//! What an agent claims of the life before it (RFC 4724), heard on the wire; what ToRs make of a node
//! that is gone and of an agent that is; and starts that are killed at any moment.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, ensure};
use rack::capture::{Kind, Message};
use rack::fabric::{Builder, Fabric, PodOnNode};
use rack::facts;
use rack::link::Side;
use rack::pod::Pod;
use rack::router::Brand;
use rack::sniffer::{Sniffer, Stream};
use rack::story::Telling;
use rack::wait::{PATIENCE, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const TORS: [&str; 2] = ["tor-a", "tor-b"];
const NETWORKS: [&str; 2] = ["2001:db8:0:1::/64", "10.244.1.0/24"];
/// The capability of RFC 4724.
const GRACEFUL_RESTART: u8 = 64;

/// BIRD, FRR and one node that announces each pod.
fn fabric(more: impl Fn(Builder) -> Builder) -> Fabric {
    let builder = Fabric::builder().tor(TORS[0], Brand::Bird).tor(TORS[1], Brand::Frr).nodes(1);
    let mut fabric = more(builder).build().unwrap();
    let spec = &mut fabric.node_config_mut(1).unwrap()["spec"];
    spec["bgp"]["announcePods"] = json!(true);
    spec["readiness"] = json!({ "sessions": 2, "timeout": "600s" });
    fabric.configure(1).unwrap();
    fabric
}

/// Starts the agent and awaits that both ToRs were told everything.
fn start(fabric: &mut Fabric) {
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
}

fn marker(fabric: &Fabric) -> PathBuf {
    fabric.node(1).unwrap().state_dir().join("speaker.json")
}

/// What an OPEN says of restarts.
#[derive(Debug, PartialEq, Eq)]
struct Claim {
    restarted: bool,
    notification: bool,
    /// One for each family.
    forwarding: Vec<bool>,
}

impl Claim {
    fn of(open: &Message) -> Self {
        let all = open.capabilities();
        let (_, value) = all.iter().find(|(code, _)| *code == GRACEFUL_RESTART).unwrap();
        let families = value[2..].chunks(4).map(|family| family[3] & 0x80 != 0);
        Self {
            restarted: value[0] & 0x80 != 0,
            notification: value[0] & 0x40 != 0,
            forwarding: families.collect(),
        }
    }

    /// R and F as given, for both families, and never N.
    fn new(restarted: bool, forwarding: bool) -> Self {
        Self { restarted, notification: false, forwarding: vec![forwarding; 2] }
    }
}

/// Both cables of the node, overheard.
struct Ears {
    sniffers: [Sniffer; 2],
    addresses: [IpAddr; 2],
    /// How many streams of each were judged before.
    judged: [usize; 2],
}

impl Ears {
    fn on(fabric: &Fabric) -> Self {
        let sniffers = TORS.map(|tor| {
            let link = fabric.link(1, tor).unwrap();
            let near = link.plug(Side::Near);
            Sniffer::start(near.netns(), near.ifname()).unwrap()
        });
        let addresses = TORS.map(|tor| fabric.session_addresses(1, tor).unwrap()[0]);
        Self { sniffers, addresses, judged: [0; 2] }
    }

    /// Awaits a session with each ToR that was told everything since the last call, and judges it:
    /// every OPEN of ours claims this, and End-of-RIB of a family comes after all of it.
    fn judge(&mut self, claim: &Claim, announced: &[String]) {
        for at in [0, 1] {
            let (sniffer, address) = (&self.sniffers[at], self.addresses[at]);
            let streams = until(&format!("End-of-RIB to {}", TORS[at]), PATIENCE, || {
                let streams = sniffer.streams()?;
                let told = |stream: &Stream| stream.from.ip() == address && ends(stream).len() == 2;
                ensure!(streams[self.judged[at]..].iter().any(told), "not yet");
                Ok(streams)
            })
            .telling(|| sniffer.story())
            .unwrap();
            let new = &streams[self.judged[at]..];
            self.judged[at] = streams.len();
            for stream in new.iter().filter(|stream| stream.from.ip() == address) {
                let mut opens = stream.messages.iter().filter(|said| said.kind() == Kind::Open);
                assert!(opens.all(|open| Claim::of(open) == *claim), "not {claim:?}: {stream:?}");
                if ends(stream).len() == 2 {
                    announced.iter().for_each(|prefix| ensure_told_in_time(stream, prefix));
                }
            }
        }
    }
}

/// Where in a stream the ends of the RIB are.
fn ends(stream: &Stream) -> Vec<usize> {
    let ends = stream.messages.iter().enumerate().filter(|(_, message)| message.is_end_of_rib());
    ends.map(|(at, _)| at).collect()
}

/// A prefix was told before End-of-RIB of its family.
fn ensure_told_in_time(stream: &Stream, prefix: &str) {
    let (address, bits) = prefix.split_once('/').unwrap();
    let bits: u8 = bits.parse().unwrap();
    let octets = match address.parse().unwrap() {
        IpAddr::V6(address) => address.octets().to_vec(),
        IpAddr::V4(address) => address.octets().to_vec(),
    };
    let written = [&[bits], &octets[..usize::from(bits).div_ceil(8)]].concat();
    let told = stream.messages.iter().position(|message| {
        message.kind() == Kind::Update && !message.is_end_of_rib() && message.contains(&written)
    });
    // That of IPv6 names its family; that of IPv4 is an empty UPDATE or does so, too.
    let six = prefix.contains(':');
    let names_six = |at: &usize| stream.messages[*at].body().ends_with(&[0, 2, 1]);
    let end = ends(stream).into_iter().find(|at| names_six(at) == six).unwrap();
    assert!(told.is_some_and(|told| told < end), "{prefix}: told {told:?}, end {end}: {stream:?}");
}

fn prefixes(pods: &[PodOnNode]) -> Vec<String> {
    let hosts = pods.iter().flat_map(PodOnNode::addresses);
    let hosts = hosts.map(|one| format!("{one}/{}", if one.is_ipv6() { 128 } else { 32 }));
    NETWORKS.iter().map(|network| (*network).to_owned()).chain(hosts).collect()
}

#[test]
fn only_a_restart_in_the_same_boot_claims_to_be_one() {
    let mut fabric = fabric(|builder| builder);
    let mut ears = Ears::on(&fabric);
    start(&mut fabric);
    ears.judge(&Claim::new(false, false), &prefixes(&[]));
    let pods: Vec<_> =
        (0..10).map(|pod| fabric.add_pod(1, &format!("pod-{pod}"), &[]).unwrap()).collect();
    let announced = prefixes(&pods);

    fabric.node_mut(1).unwrap().kill().unwrap();
    start(&mut fabric);
    ears.judge(&Claim::new(true, true), &announced);

    // A session that ends in the middle of a life: nobody restarted, and forwarding is kept.
    for tor in TORS {
        let address = fabric.session_addresses(1, tor).unwrap()[0];
        fabric.tor(tor).unwrap().router.clear(address).unwrap();
    }
    ears.judge(&Claim::new(false, true), &announced);

    // A reboot: whatever the disk says, the kernel's routes are gone.
    fabric.node_mut(1).unwrap().terminate().unwrap();
    let mut kept: Value = serde_json::from_slice(&fs::read(marker(&fabric)).unwrap()).unwrap();
    assert!(kept["bootId"].as_str().unwrap().len() > 30, "{kept}");
    kept["bootId"] = json!("00000000-0000-4000-8000-000000000000");
    fs::write(marker(&fabric), kept.to_string()).unwrap();
    start(&mut fabric);
    ears.judge(&Claim::new(false, false), &announced);

    // And from there on as ever; also where the marker is not to be read.
    fabric.node_mut(1).unwrap().terminate().unwrap();
    start(&mut fabric);
    ears.judge(&Claim::new(true, true), &announced);
    fabric.node_mut(1).unwrap().kill().unwrap();
    fs::write(marker(&fabric), "{").unwrap();
    start(&mut fabric);
    ears.judge(&Claim::new(false, false), &announced);
    await_exactly(&fabric, &pods.iter().flat_map(PodOnNode::addresses).collect());
}

/// Awaits that the ToRs' kernels have the node's networks and exactly these addresses by way of it.
fn await_exactly(fabric: &Fabric, addresses: &BTreeSet<IpAddr>) {
    let hosts = addresses.iter().map(ToString::to_string);
    let wanted: BTreeSet<_> = hosts.chain(NETWORKS.map(str::to_owned)).collect();
    for tor in fabric.tors() {
        until(&format!("all routes in the kernel of {}", tor.name()), PATIENCE, || {
            let there = through_node(fabric, tor.name())?;
            let odd: Vec<_> = there.symmetric_difference(&wanted).collect();
            ensure!(odd.is_empty(), "missing or too many: {odd:?}");
            Ok(())
        })
        .telling(|| tor.router.log_tail())
        .unwrap();
    }
}

/// What a ToR's kernel sends to the node of what the node announces.
fn through_node(fabric: &Fabric, tor: &str) -> anyhow::Result<BTreeSet<String>> {
    let routes = facts::routes(fabric.tor(tor)?.netns())?;
    let direct = routes.into_iter().filter(|route| route.devices == ["node-1"]);
    let announced = |to: &String| to.starts_with("2001:db8:0:1:") || to.starts_with("10.244.1.");
    Ok(direct.map(|route| route.destination).filter(announced).collect())
}

#[test]
fn a_silent_node_is_dropped_at_its_hold_time_and_a_dead_agent_is_waited_for() {
    let mut fabric = fabric(|builder| builder.hold_time(3));
    start(&mut fabric);
    let pod = fabric.add_pod(1, "pod", &[]).unwrap();
    let addresses: BTreeSet<_> = pod.addresses().into_iter().collect();
    await_exactly(&fabric, &addresses);
    for tor in TORS {
        fabric.link(1, tor).unwrap().silence().unwrap();
    }
    for tor in TORS {
        until(&format!("{tor} to drop the node"), PATIENCE, || {
            let left = through_node(&fabric, tor)?;
            ensure!(left.is_empty(), "it has {left:?}");
            Ok(())
        })
        .unwrap();
    }
    for tor in TORS {
        fabric.link(1, tor).unwrap().pass().unwrap();
    }
    fabric.await_sessions().unwrap();
    await_exactly(&fabric, &addresses);

    fabric.node_mut(1).unwrap().kill().unwrap();
    for tor in TORS {
        let address = fabric.session_addresses(1, tor).unwrap()[0];
        let router = &fabric.tor(tor).unwrap().router;
        router.await_state(address, |state| state != "Established").unwrap();
    }
    // Twice the hold time and more, with an answer to every ping of it.
    let storm = fabric.storm(TORS[0], &pod.addresses(), 100).unwrap();
    storm.await_answers(400).unwrap();
    storm.stop().unwrap().ensure_perfect().unwrap();
    await_exactly(&fabric, &addresses);
    let router = &fabric.tor(TORS[1]).unwrap().router;
    let stale = router.paths(NETWORKS[0]).unwrap().into_iter().any(|path| path.stale);
    assert!(stale, "FRR says what is stale\n{}", router.log_tail());
    start(&mut fabric);
    await_exactly(&fabric, &addresses);
}

/// Numbers that look random and are the same in every run (xorshift).
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A pod, what was answered of it, and whether it is to be there.
struct Wish {
    pod: Pod,
    addresses: Option<BTreeSet<IpAddr>>,
    wanted: bool,
}

impl Wish {
    /// Tries to make it so, as a runtime would, which tries again until it succeeds.
    fn pursue(&mut self, fabric: &Fabric) -> anyhow::Result<()> {
        let plugin = fabric.node(1)?.plugin()?;
        if !self.wanted {
            plugin.del(&self.pod)?;
            self.addresses = None;
            return Ok(());
        }
        if let Ok(result) = plugin.try_add(&self.pod)? {
            let got: BTreeSet<_> = rack::pod::addresses(&result)?.into_iter().collect();
            // What was answered once stays true.
            let before = self.addresses.get_or_insert_with(|| got.clone());
            ensure!(*before == got, "{before:?} became {got:?}");
        }
        Ok(())
    }
}

/// A runtime that tries again and again, the newest first.
fn keep_trying(fabric: &Fabric, wishes: &mut [Wish], over: &AtomicBool) -> anyhow::Result<()> {
    while !over.load(Ordering::Relaxed) {
        let open = |wish: &&mut Wish| wish.wanted || wish.addresses.is_some();
        for wish in wishes.iter_mut().rev().filter(open).take(4) {
            if !over.load(Ordering::Relaxed) {
                wish.pursue(fabric)?;
            }
        }
    }
    Ok(())
}

#[test]
fn starts_that_are_killed_at_any_moment_end_in_the_exact_state() {
    let mut fabric = fabric(|builder| builder);
    // Right after the marker was written, before any session.
    let node = fabric.node_mut(1).unwrap();
    node.start().unwrap();
    let file = marker(&fabric);
    until("the marker", PATIENCE, || fs::metadata(&file).context("not there yet")).unwrap();
    fabric.node_mut(1).unwrap().kill().unwrap();

    let mut dice = Dice(0x5eed_f10c);
    let mut wishes: Vec<Wish> = Vec::new();
    for life in 0..20 {
        wishes.push(Wish {
            pod: Pod::new(&format!("pod-{life}")).unwrap(),
            addresses: None,
            wanted: true,
        });
        if life % 4 == 3 {
            let at = usize::try_from(dice.throw(20)).unwrap() % wishes.len();
            wishes[at].wanted = false;
        }
        let node = fabric.node_mut(1).unwrap();
        node.start().unwrap();
        let pid = Pid::from_raw(node.agent().unwrap().pid().try_into().unwrap()).unwrap();
        // From before the socket is there to well after sessions are up.
        let moment = Duration::from_millis(5 + dice.throw(20) * dice.throw(20));
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (fabric, wishes, over) = (&fabric, &mut wishes, &over);
            let runtime = scope.spawn(move || keep_trying(fabric, wishes, over));
            // The moment is what is tested.
            thread::sleep(moment);
            kill_process(pid, Signal::KILL).unwrap();
            over.store(true, Ordering::Relaxed);
            runtime.join().unwrap().unwrap();
        });
        fabric.node_mut(1).unwrap().await_death().unwrap();
    }
    start(&mut fabric);
    for wish in &mut wishes {
        wish.pursue(&fabric).unwrap();
    }
    let living: Vec<_> = wishes.iter().filter(|wish| wish.wanted).collect();
    let addresses: BTreeSet<_> =
        living.iter().flat_map(|wish| wish.addresses.clone().unwrap()).collect();
    assert_eq!(addresses.len(), living.len() * 2, "no two pods share one");
    await_exactly(&fabric, &addresses);
    let node = fabric.node(1).unwrap();
    let recorded = node.allocations().unwrap();
    let ids: BTreeSet<_> = living.iter().map(|wish| wish.pod.container_id.clone()).collect();
    assert_eq!(recorded.into_keys().collect::<BTreeSet<_>>(), ids);
    let storm = fabric.storm(TORS[0], &addresses.into_iter().collect::<Vec<_>>(), 500).unwrap();
    storm.await_answers(3).unwrap();
    storm.stop().unwrap().ensure_perfect().unwrap();
    for wish in &mut wishes {
        wish.wanted = false;
        wish.pursue(&fabric).unwrap();
    }
    fabric.node(1).unwrap().await_no_leftovers().unwrap();
    await_exactly(&fabric, &BTreeSet::new());
}
