//! Two nodes with pods and a network beyond them, steered by files, without a router: the ways between
//! them are set by hand, so that a rig stands within a second.
//!
//! Both agents have the same files, but that a node's own pods are described without their addresses,
//! which its agent gave them, and those of the other node with `status.podIPs`.

use std::net::IpAddr;
use std::sync::atomic::AtomicU32;
use std::thread;

use anyhow::{Context, Result, anyhow};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use super::oracle::{Who, World};
use super::people::{self, ADDRESSES, ANYCAST, Home, OUTSIDE, Person, placed};
use super::station::{PORTS, Station};
use crate::link::End as CableEnd;
use crate::manifests::{self, Writing};
use crate::netns::Netns;
use crate::node::{Builder, Node};
use crate::pod::{Pod, addresses};

/// The prefixes of the pods of both nodes, by family.
pub const PODS: [[&str; 2]; 2] =
    [["10.244.1.0/24", "10.244.2.0/24"], ["2001:db8:a:1::/64", "2001:db8:a:2::/64"]];

/// The cables: the address of the node at the end of each, and that of the network, by family.
const NODES: [[&str; 2]; 2] =
    [["198.18.1.2", "198.18.2.2"], ["2001:db8:1:1::2", "2001:db8:1:2::2"]];
const HUB: [[&str; 2]; 2] = [["198.18.1.1", "198.18.2.1"], ["2001:db8:1:1::1", "2001:db8:1:2::1"]];

/// Somebody with an address of each family whom packets come from or go to.
#[derive(Debug, Clone)]
pub struct Spot {
    /// As tests call it: `NAMESPACE/POD`, with `+extra` or `+anycast` for its other addresses; `node-a`,
    /// `node-b`; `outside-10`, `outside-77`.
    pub name: String,
    /// Who it is.
    pub who: Who,
    /// Its addresses, by family: IPv4, IPv6.
    pub addresses: [IpAddr; 2],
    /// On which node it is, if it is on one.
    pub home: Option<Home>,
    /// Which of the rig's stations it is at.
    pub station: usize,
}

/// The rig.
#[derive(Debug)]
pub struct Rig {
    // The order matters: stations end before their namespaces go.
    stations: Vec<Station>,
    spots: Vec<Spot>,
    pub(super) world: World,
    pub(super) pods: Vec<(Pod, Person)>,
    pub(super) nodes: [Node; 2],
    hub: Netns,
    pub(super) gate: AtomicU32,
}

impl Rig {
    /// Everything up and everybody attached, without any policy but the gates'.
    pub fn start() -> Result<Self> {
        more_files()?;
        let hub = Netns::new("hub")?;
        hub.loopback_up()?;
        hub.sysctls(&[("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1")])?;
        for address in OUTSIDE.as_flattened() {
            hub.ip(&format!("address add {address} dev lo"))?;
        }
        let nodes = [node(&hub, Home::A)?, node(&hub, Home::B)?];
        let mut rig = Self {
            stations: Vec::new(),
            spots: Vec::new(),
            world: World { namespaces: people::namespaces(), ..World::default() },
            pods: Vec::new(),
            nodes,
            hub,
            gate: AtomicU32::new(0),
        };
        rig.set_ways()?;
        rig.populate()?;
        rig.listen()?;
        // Everybody learns their neighbours before many packets at once wait for that.
        rig.send(&[], &[])?;
        rig.set_policies(&[])?;
        Ok(rig)
    }

    /// A node.
    pub fn node(&self, home: Home) -> &Node {
        home.of(&self.nodes)
    }

    /// A node whose agent is to be killed or started.
    pub fn node_mut(&mut self, home: Home) -> &mut Node {
        let [a, b] = &mut self.nodes;
        match home {
            Home::A => a,
            Home::B => b,
        }
    }

    /// What lies beyond both.
    pub fn hub(&self) -> &Netns {
        &self.hub
    }

    /// What both agents are told, and the oracle.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Everybody.
    pub fn spots(&self) -> &[Spot] {
        &self.spots
    }

    /// Somebody by name.
    pub fn spot(&self, name: &str) -> Result<&Spot> {
        let found = self.spots.iter().find(|spot| spot.name == name);
        found.with_context(|| {
            let all: Vec<_> = self.spots.iter().map(|spot| spot.name.as_str()).collect();
            format!("nobody is called {name}, but {}", all.join(", "))
        })
    }

    /// Where somebody is.
    pub fn station(&self, spot: &Spot) -> Result<&Station> {
        self.stations.get(spot.station).context("a spot without a station")
    }

    /// A pod.
    pub fn pod(&self, name: &str) -> Result<&Pod> {
        let found = self.pods.iter().find(|(_, person)| person.name() == name);
        found.map(|(pod, _)| pod).with_context(|| format!("no pod {name}"))
    }

    /// The ways of the network beyond: to the pods, and to the addresses that move.
    fn set_ways(&self) -> Result<()> {
        for (family, [pods, hops]) in [[PODS[0], NODES[0]], [PODS[1], NODES[1]]].iter().enumerate()
        {
            let flag = if family == 0 { "-4" } else { "-6" };
            for (prefix, hop) in pods.iter().zip(hops) {
                self.hub.ip(&format!("{flag} route add {prefix} via {hop}"))?;
            }
        }
        // All of them are at the first node; a shared one is also at the second, for the second.
        for (address, hop) in [(ANYCAST[0], NODES[0][0]), (ANYCAST[1], NODES[1][0])]
            .into_iter()
            .chain(ADDRESSES[0].map(|address| (address, NODES[0][0])))
            .chain(ADDRESSES[1].map(|address| (address, NODES[1][0])))
        {
            self.hub.ip(&format!("route add {address} via {hop}"))?;
        }
        Ok(())
    }

    /// Attaches everybody, and tells each node of the pods of the other.
    fn populate(&mut self) -> Result<()> {
        let people = people::people();
        for person in &people {
            let node = self.node(person.home);
            let mut manifest = person.manifest.clone();
            people::put(&mut manifest, "/spec", "nodeName", node.name().into());
            node.write_pod(&manifest, Writing::Renamed)?;
        }
        self.write_namespaces()?;
        for node in &mut self.nodes {
            node.start()?;
        }
        for node in &mut self.nodes {
            node.await_ready()?;
        }
        let attached = thread::scope(|scope| {
            let attach = |person: &Person| -> Result<(Pod, Vec<IpAddr>)> {
                let pod = self.new_pod(&person.name())?;
                let result = self.node(person.home).plugin()?.add(&pod)?;
                Ok((pod, first_of_each(&addresses(&result)?)))
            };
            let threads: Vec<_> =
                people.iter().map(|person| scope.spawn(move || attach(person))).collect();
            let joined = threads.into_iter().map(|one| match one.join() {
                Ok(done) => done,
                Err(_) => Err(anyhow!("attaching a pod panicked")),
            });
            joined.collect::<Result<Vec<_>>>()
        })?;
        for (person, (pod, addresses)) in people.into_iter().zip(attached) {
            let placed = placed(&person.manifest, self.node(person.home).name(), &addresses);
            self.node(person.home.other()).write_pod(&placed, Writing::Renamed)?;
            self.world.pods.push(placed);
            self.pods.push((pod, person));
        }
        Ok(())
    }

    /// A pod that is not attached yet; `name` is `NAMESPACE/NAME`.
    pub fn new_pod(&self, name: &str) -> Result<Pod> {
        let (namespace, name) = name.split_once('/').context("a pod is NAMESPACE/NAME")?;
        let mut pod = Pod::new(name)?;
        pod.namespace = namespace.to_owned();
        pod.netns.loopback_up()?;
        Ok(pod)
    }

    /// A station in every namespace, and everybody's spots.
    fn listen(&mut self) -> Result<()> {
        let parse = |address: &&str| Ok::<IpAddr, anyhow::Error>(address.parse()?);
        for home in Home::BOTH {
            let name = if home == Home::A { "node-a" } else { "node-b" };
            let node = self.node(home);
            let (netns, who) = (Netns::of_someone_else(&node.netns().path())?, node.name());
            let spot = Spot {
                name: name.to_owned(),
                who: Who::Node(who.to_owned()),
                addresses: [parse(home.of(&NODES[0]))?, parse(home.of(&NODES[1]))?],
                home: Some(home),
                station: 0,
            };
            self.add_station(name, &netns, vec![spot])?;
        }
        let outside = |number: usize, name: &str| -> Result<Spot> {
            let of = |family: &[&str; 2]| family.get(number).copied().unwrap_or_default().parse();
            Ok(Spot {
                name: name.to_owned(),
                who: Who::Outside,
                addresses: [of(&OUTSIDE[0])?, of(&OUTSIDE[1])?],
                home: None,
                station: 0,
            })
        };
        let both = vec![outside(0, "outside-10")?, outside(1, "outside-77")?];
        let hub = Netns::of_someone_else(&self.hub.path())?;
        self.add_station("outside", &hub, both)?;
        for (number, placed) in self.world.pods.clone().iter().enumerate() {
            let (pod, person) = self.pods.get(number).context("a pod that is nobody")?;
            let netns = Netns::of_someone_else(&pod.netns.path())?;
            let spots = spots_of(person, placed)?;
            self.add_station(&person.name(), &netns, spots)?;
        }
        Ok(())
    }

    fn add_station(&mut self, name: &str, netns: &Netns, mut spots: Vec<Spot>) -> Result<()> {
        let all: Vec<_> = spots.iter().flat_map(|spot| spot.addresses).collect();
        let station = Station::start(name, netns, &all, &PORTS)?;
        spots.iter_mut().for_each(|spot| spot.station = self.stations.len());
        self.stations.push(station);
        self.spots.extend(spots);
        Ok(())
    }
}

/// A node at its cable, with ways to everywhere; its agent does not run yet.
fn node(hub: &Netns, home: Home) -> Result<Node> {
    let ifname = if home == Home::A { "node-a" } else { "node-b" };
    let with_length = |both: &[[&str; 2]; 2]| {
        let [v4, v6] = both;
        [format!("{}/24", home.of(v4)), format!("{}/64", home.of(v6))]
    };
    let (near, far) = (with_length(&NODES), with_length(&HUB));
    let far = far.each_ref().map(String::as_str);
    let end = CableEnd { netns: hub, ifname, addresses: &far };
    let node = Builder::default().uplink(end, &near.each_ref().map(String::as_str)).build()?;
    let [cidr4, cidr6] = PODS.each_ref().map(|family| *home.of(family));
    node.configure(&manifests::node_config(node.name(), &[cidr6], &[cidr4]))?;
    for hop in HUB.each_ref().map(|family| *home.of(family)) {
        node.netns().ip(&format!("route add default via {hop}"))?;
    }
    Ok(node)
}

/// A pod as it is reached: at its own addresses, and at those of its annotations.
fn spots_of(person: &Person, placed: &Value) -> Result<Vec<Spot>> {
    let own = placed.pointer("/status/podIPs").and_then(Value::as_array);
    let own = own.into_iter().flatten().filter_map(|one| one.get("ip")?.as_str()?.parse().ok());
    let own: Vec<IpAddr> = own.collect();
    let spot = |suffix: &str, addresses: [IpAddr; 2]| Spot {
        name: format!("{}{suffix}", person.name()),
        who: Who::Pod(person.name()),
        addresses,
        home: Some(person.home),
        station: 0,
    };
    let of = |ipv6: bool| own.iter().copied().find(|address| address.is_ipv6() == ipv6);
    let both = of(false).zip(of(true)).with_context(|| format!("{} has {own:?}", person.name()))?;
    let mut spots = vec![spot("", both.into())];
    let annotations = placed.pointer("/metadata/annotations").map(Value::to_string);
    let annotations = annotations.unwrap_or_default();
    if annotations.contains("anycast") {
        spots.push(spot("+anycast", [ANYCAST[0].parse()?, ANYCAST[1].parse()?]));
    }
    if annotations.contains("addresses") {
        let [[_, v4], [_, v6]] = ADDRESSES;
        spots.push(spot("+extra", [v4.parse()?, v6.parse()?]));
    }
    Ok(spots)
}

/// The first address of each family, as kubelet takes them.
fn first_of_each(all: &[IpAddr]) -> Vec<IpAddr> {
    let first = |ipv6: bool| all.iter().copied().find(|address| address.is_ipv6() == ipv6);
    [first(false), first(true)].into_iter().flatten().collect()
}

/// A probe is a socket, and there are many.
fn more_files() -> Result<()> {
    let now = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum })?)
}
