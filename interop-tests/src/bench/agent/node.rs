//! A node of the rack with the real agent: its pods are attached by the real
//! plugin, and what is to happen to them lies ready as a file that only has to be
//! renamed into place.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bench::bgp::Family;
use crate::bench::bgp::change::{NODE_HOST, TOR, TOR_HOST, asn};
use crate::link::End;
use crate::manifests::{self, Writing};
use crate::netns::Netns;
use crate::node::{Builder, Node};
use crate::plugin::execute;
use crate::pod::Pod;
use crate::wait::go_on;

/// How many calls fill a node at the same time.
const FILLERS: usize = 4;

/// A pod and the addresses that it serves while it is Ready.
#[derive(Debug)]
pub struct Member {
    pod: Pod,
    anycast: Vec<Ipv4Addr>,
}

/// A node with the agent.
#[derive(Debug)]
pub struct Place {
    /// Its number on the rack.
    pub number: u8,
    node: Node,
    program: PathBuf,
    input: Vec<u8>,
    members: Vec<Member>,
}

/// A manifest that only has to be renamed into place.
#[derive(Debug)]
pub struct Ready {
    aside: PathBuf,
    place: PathBuf,
}

impl Ready {
    /// Renames it.
    pub fn go(&self) -> Result<()> {
        Ok(fs::rename(&self.aside, &self.place)?)
    }
}

impl Place {
    /// A node with a cable to the router's namespace; its agent does not run yet.
    /// Its state is on the disk that holds `dir`.
    pub fn plug(tor: &Netns, number: u8, announce_pods: bool, dir: &Path) -> Result<Self> {
        let [far, near] = [TOR_HOST, NODE_HOST].map(|host| Family::V4.with_length(number, host));
        let end = End { netns: tor, ifname: &format!("node{number}"), addresses: &[&far] };
        let node = Builder::default().state_in(dir).uplink(end, &[&near]).build()?;
        let config = json!({
            "asn": asn(number),
            "listenPort": 0,
            "announcePods": announce_pods,
            "peers": [{
                "name": "tor",
                "address": Family::V4.address(number, TOR_HOST),
                "asn": TOR,
                "families": ["ipv4-unicast"],
                "connectRetry": "1s",
            }],
        });
        Self::new(node, number, config)
    }

    /// A node as it is, told to speak like this.
    pub fn new(node: Node, number: u8, bgp: Value) -> Result<Self> {
        let cidr6 = format!("fd00:{}::/64", pods_octet(number));
        let cidr4 = format!("10.{}.0.0/16", pods_octet(number));
        let mut config = manifests::node_config(node.name(), &[&cidr6], &[&cidr4]);
        *config.pointer_mut("/spec/bgp").context("a NodeConfig without BGP")? = bgp;
        node.configure(&config)?;
        fs::create_dir_all(node.file("aside"))?;
        let network = node.flock_network();
        let (program, input) = (network.program()?, network.single("1.0.0"));
        let input = input.to_string().into_bytes();
        Ok(Self { number, node, program, input, members: Vec::new() })
    }

    /// Starts the agent and awaits that it can attach pods.
    pub fn start(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        self.node.start_with(environment)?;
        self.node.await_ready()
    }

    /// The node itself.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The node itself, to do something to its agent.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// Sends the agent a signal.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        self.node.agent()?.signal(signal)
    }

    /// Attaches pods: one for each list of addresses. All of them Ready, or none.
    /// Returns where the first of them is.
    pub fn attach(&mut self, anycast: Vec<Vec<Ipv4Addr>>, ready: bool) -> Result<usize> {
        let first = self.invite(anycast)?;
        for (at, member) in self.members.iter().enumerate().skip(first) {
            if !member.anycast.is_empty() {
                let text = manifest(at, member, ready)?;
                self.node.write(&file(at), &text, Writing::Renamed)?;
            }
        }
        self.share("ADD", first)?;
        Ok(first)
    }

    /// Makes namespaces for pods that are not attached yet, as `attach` counts them.
    pub fn invite(&mut self, anycast: Vec<Vec<Ipv4Addr>>) -> Result<usize> {
        let first = self.members.len();
        let namespaces = Netns::many("pod", anycast.len())?;
        for ((at, netns), anycast) in (first..).zip(namespaces).zip(anycast) {
            let pod = Pod::in_netns(&name(at), netns);
            self.members.push(Member { pod, anycast });
        }
        Ok(first)
    }

    /// One call for a pod from the calling thread, which must be inside
    /// ([`Netns::enter`]): when it began, and when it was answered.
    pub fn call(&self, command: &str, member: usize) -> Result<(Instant, Instant)> {
        let pod = &self.members.get(member).context("no such pod")?.pod;
        let call = pod.call(command);
        let start = Instant::now();
        let answer = execute(&self.program, &call, &self.input)?;
        let end = Instant::now();
        answer.map_err(|error| anyhow!(error).context(format!("{command} of {}", pod.name)))?;
        Ok((start, end))
    }

    /// A change of a pod's readiness.
    pub fn flip(&self, member: usize, ready: bool) -> Result<Ready> {
        let known = self.members.get(member).context("no such pod")?;
        let aside = self.node.file("aside").join(name(member));
        fs::write(&aside, manifest(member, known, ready)?)?;
        let place = self.node.file("standalone").join(file(member));
        Ok(Ready { aside, place })
    }

    /// Whether an address is that of a pod of this node.
    pub fn is_pod(&self, address: Ipv4Addr) -> bool {
        address.octets().starts_with(&[10, pods_octet(self.number)])
    }

    /// Takes everything down; far faster than dropping it.
    pub fn dismiss(self) -> Result<()> {
        drop(self.node);
        Netns::delete_all(self.members.into_iter().map(|member| member.pod.netns).collect())
    }

    /// Adds the end of the agent's log to an error.
    pub fn explain<T>(&mut self, outcome: Result<T>) -> Result<T> {
        match self.node.agent() {
            Ok(agent) => outcome.with_context(|| agent.log_tail()),
            Err(_) => outcome,
        }
    }

    /// Calls for all pods from `first` on, shared among threads.
    fn share(&self, command: &str, first: usize) -> Result<()> {
        let next = AtomicUsize::new(first);
        let work = || {
            self.node.netns().enter()?;
            loop {
                go_on()?;
                let member = next.fetch_add(1, Ordering::Relaxed);
                if member >= self.members.len() {
                    return Ok(());
                }
                self.call(command, member)?;
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..FILLERS).map(|_| scope.spawn(work)).collect();
            let mut outcome = Ok(());
            for worker in workers {
                outcome = outcome.and(worker.join().unwrap_or_else(|_| Err(anyhow!("panicked"))));
            }
            outcome
        })
    }
}

/// The second octet of the pods' own addresses, which nobody else has.
fn pods_octet(number: u8) -> u8 {
    200 + number
}

fn name(member: usize) -> String {
    format!("pod-{member}")
}

fn file(member: usize) -> String {
    format!("pods/{}.yaml", name(member))
}

fn manifest(at: usize, member: &Member, ready: bool) -> Result<String> {
    let anycast: Vec<_> = member.anycast.iter().map(Ipv4Addr::to_string).collect();
    let (anycast, ready) = (anycast.join(","), ready.to_string());
    let annotations = [("anycast", anycast.as_str()), ("ready", ready.as_str())];
    let manifest = manifests::pod(&member.pod.namespace, &name(at), &annotations);
    Ok(serde_json::to_string_pretty(&manifest)?)
}
