//! A node with the real agent, a few pods that are attached, and as many pods and
//! policies beside as are wanted. What is to change lies ready as a file that only
//! has to be renamed into place.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use super::files::{self, CLIENT, SERVER, STRANGER};
use super::packets::Talk;
use super::stream::{Fate, Stream};
use crate::bench::bgp::usage;
use crate::manifests::Writing;
use crate::netns::Netns;
use crate::node::{Builder, NODE_V4, Node, POD_CIDR4};
use crate::plugin::execute;
use crate::pod::{self, Pod};
use crate::wait::{PATIENCE, until};

/// Pods and policies that an agent knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pods, those of this node among them.
    pub pods: u16,
    /// Policies.
    pub policies: usize,
}

/// Pods of this node, by how many there are in all; the plugin attaches them.
const FEW_LOCAL: u16 = 9;
const LOCAL: u16 = 20;
/// The pod that lives outside.
const REMOTE: &str = "remote";
/// Its number among the described ones, which is nobody else's.
const REMOTE_NUMBER: u16 = u16::MAX;
/// Probes leave no connections behind that the next ones would have to share a table with.
const SYSCTLS: &[(&str, &str)] = &[
    ("net/netfilter/nf_conntrack_udp_timeout", "2"),
    ("net/netfilter/nf_conntrack_tcp_timeout_close", "1"),
];
/// An agent that used no more of a processor than this has nothing to do.
const QUIET: Duration = Duration::from_millis(3);
const LOOK: Duration = Duration::from_millis(300);
/// A packet that is not there after this was dropped.
const LOST: Duration = Duration::from_millis(30);

/// A pod that is attached, and its IPv4 address.
#[derive(Debug)]
struct Attached {
    pod: Pod,
    address: IpAddr,
}

/// The node.
#[derive(Debug)]
pub struct Place {
    // The agent goes before its pods.
    node: Node,
    program: PathBuf,
    input: Vec<u8>,
    client: Attached,
    server: Attached,
    stranger: Attached,
    idle: Vec<Attached>,
    /// The one that comes and goes.
    caller: Pod,
}

impl Place {
    /// A node without policies, and its first pods. Its state is on the disk that
    /// holds `dir`.
    pub fn new(dir: &Path) -> Result<Self> {
        let mut node = Builder::default().state_in(dir).sysctls(SYSCTLS).build()?;
        for part in ["aside", "standalone/networkpolicies", "standalone/namespaces"] {
            fs::create_dir_all(node.file(part))?;
        }
        write(&node, "namespaces/teams.yaml", &files::bundles(files::namespaces()).concat())?;
        for name in [CLIENT, SERVER, STRANGER] {
            write_pod(&node, name, name, &[])?;
        }
        write_pod(&node, "caller", SERVER, &[])?;
        let remote = files::addresses(REMOTE_NUMBER);
        write_pod(&node, REMOTE, STRANGER, &remote)?;
        let outside = node.outside()?;
        for address in remote {
            outside.ip(&format!("address add {address} dev lo"))?;
        }
        outside.ip(&format!("route add {POD_CIDR4} via {NODE_V4}"))?;
        node.start()?;
        node.await_ready()?;
        let network = node.flock_network();
        let (program, input) = (network.program()?, network.single("1.0.0").to_string());
        let input = input.into_bytes();
        let [client, server, stranger] =
            [CLIENT, SERVER, STRANGER].map(|name| attach(&node, &program, &input, name));
        let (client, server, stranger) = (client?, server?, stranger?);
        let caller = Pod::new("caller")?;
        Ok(Self { node, program, input, client, server, stranger, idle: Vec::new(), caller })
    }

    /// Makes the agent know so many pods and policies, and awaits that they are in force.
    pub fn populate(&mut self, size: Size) -> Result<()> {
        let local = if size.pods > 10 * FEW_LOCAL { LOCAL } else { FEW_LOCAL };
        for number in self.idle.len() + 3..usize::from(local) {
            let name = format!("idle-{number}");
            write_pod(&self.node, &name, STRANGER, &[])?;
            self.idle.push(attach(&self.node, &self.program, &self.input, &name)?);
        }
        let known = u16::try_from(self.idle.len() + 3 + 1)?;
        let described = size.pods.checked_sub(known).context("fewer pods than are attached")?;
        self.spread("pods/many", &files::bundles(files::described(described)))?;
        self.decree(size.policies)
    }

    /// So many policies from now on.
    pub fn decree(&mut self, policies: usize) -> Result<()> {
        let others = files::others(policies.saturating_sub(2));
        self.spread("networkpolicies/many", &files::bundles(others))?;
        let two = [("gate", files::gate(true)), ("leash", files::leash())];
        for (name, policy) in two {
            let file = format!("networkpolicies/{name}.yaml");
            if policies > 0 {
                write(&self.node, &file, &policy.to_string())?;
            } else {
                remove(&self.node.file("standalone").join(file))?;
            }
        }
        self.await_quiet()?;
        let log = self.node.log()?;
        let refused = log.lines().find(|line| line.contains("refused"));
        ensure!(refused.is_none(), "the agent says: {refused:?}");
        self.await_force(policies > 0)
    }

    /// Files of these texts, and no others of this name.
    fn spread(&self, name: &str, texts: &[String]) -> Result<()> {
        for (number, text) in texts.iter().enumerate() {
            write(&self.node, &format!("{name}-{number}.yaml"), text)?;
        }
        for number in texts.len().. {
            let file = self.node.file("standalone").join(format!("{name}-{number}.yaml"));
            if !file.exists() {
                break;
            }
            remove(&file)?;
        }
        Ok(())
    }

    /// Awaits that the agent has nothing left to do.
    pub fn await_quiet(&mut self) -> Result<()> {
        let pid = self.node.agent()?.pid();
        until("the agent to have nothing to do", 4 * PATIENCE, || {
            let before = usage::of(pid)?.processor;
            thread::sleep(LOOK);
            let used = usage::of(pid)?.processor - before;
            ensure!(used < QUIET, "{used:?} of a processor within {LOOK:?}");
            Ok(())
        })
    }

    /// Awaits that the client reaches the server, and that the stranger does not or does.
    fn await_force(&mut self, isolated: bool) -> Result<()> {
        let outcome = until("the policies to be in force", PATIENCE, || {
            ensure!(self.reaches(&self.client)?, "the client does not reach the server");
            let strange = self.reaches(&self.stranger)?;
            ensure!(strange != isolated, "the stranger reaches the server: {strange}");
            let table = self.node.netns().exec("nft", &["list", "tables"])?;
            ensure!(table.contains("flock-policy") == isolated, "tables:\n{table}");
            Ok(())
        });
        let agent = self.node.agent()?;
        outcome.with_context(|| agent.log_tail())
    }

    fn reaches(&self, from: &Attached) -> Result<bool> {
        let target = self.server.address;
        let server = self.server.pod.netns.within(|| Ok(UdpSocket::bind((target, 0))?))?;
        server.set_read_timeout(Some(LOST))?;
        let to = server.local_addr()?;
        from.pod.netns.within(|| Ok(UdpSocket::bind((from.address, 0))?.send_to(b"?", to)?))?;
        Ok(server.recv(&mut [0; 8]).is_ok())
    }

    /// The client and the server, who talk.
    pub fn talk(&self) -> Result<Talk> {
        Talk::new(&self.client.pod.netns, &self.server.pod.netns, self.server.address)
    }

    /// Where the server is, to measure its throughput.
    pub fn ends(&self) -> (&Netns, &Netns, IpAddr) {
        (&self.client.pod.netns, &self.server.pod.netns, self.server.address)
    }

    /// The node, to do something to its agent.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// Milliseconds from the rename of a policy until probes of the client do not
    /// pass, and from that of another until they do: how often, deny first.
    pub fn policy_rounds(&self, rounds: usize) -> Result<[Vec<f64>; 2]> {
        let Attached { pod, address } = &self.client;
        let server = &self.server;
        let stream = Stream::start(&pod.netns, *address, &server.pod.netns, server.address)?;
        let file = |open| ("networkpolicies/gate.yaml".to_owned(), files::gate(open));
        self.rounds(stream, rounds, [(file(false), Fate::Drop), (file(true), Fate::Pass)])
    }

    /// Milliseconds from the rename of a manifest that labels a pod elsewhere until
    /// its probes pass, and likewise until they do not any more.
    pub fn peer_rounds(&self, rounds: usize) -> Result<[Vec<f64>; 2]> {
        let addresses = files::addresses(REMOTE_NUMBER);
        let [source, _] = addresses;
        let server = &self.server;
        let outside = self.node.outside()?;
        let stream = Stream::start(outside, source, &server.pod.netns, server.address)?;
        let file = |app| (pod_file(REMOTE), files::pod("default", REMOTE, app, &addresses));
        self.rounds(stream, rounds, [(file(CLIENT), Fate::Pass), (file(STRANGER), Fate::Drop)])
    }

    fn rounds(
        &self,
        mut stream: Stream,
        rounds: usize,
        changes: [((String, Value), Fate); 2],
    ) -> Result<[Vec<f64>; 2]> {
        let before = match &changes {
            [(_, Fate::Pass), _] => Fate::Drop,
            [(_, Fate::Drop), _] => Fate::Pass,
        };
        stream.await_fate(before)?;
        let aside = self.node.file("aside/change");
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (((file, value), fate), times) in changes.iter().zip(&mut times) {
                fs::write(&aside, value.to_string())?;
                let place = self.node.file("standalone").join(file);
                times.push(stream.after(*fate, || {
                    let began = Instant::now();
                    fs::rename(&aside, &place)?;
                    Ok(began)
                })?);
            }
        }
        Ok(times)
    }

    /// Milliseconds of ADD of a pod that policies select, so many times; what it made
    /// is deleted again, and not counted.
    pub fn adds(&self, count: usize) -> Result<Vec<f64>> {
        self.node.netns().within(|| {
            let mut times = Vec::new();
            for _ in 0..count {
                let began = Instant::now();
                call(&self.program, &self.input, &self.caller, "ADD")?;
                times.push(began.elapsed().as_secs_f64() * 1000.0);
                call(&self.program, &self.input, &self.caller, "DEL")?;
                // The link goes after the answer.
                until("the link of the caller to be gone", PATIENCE, || {
                    let left = self.caller.netns.ip("-o link show")?;
                    ensure!(!left.contains("eth0"), "{left}");
                    Ok(())
                })?;
            }
            Ok(times)
        })
    }
}

fn attach(node: &Node, program: &Path, input: &[u8], name: &str) -> Result<Attached> {
    let pod = Pod::new(name)?;
    let result = node.netns().within(|| call(program, input, &pod, "ADD"))?;
    let address = pod::addresses(&result)?.into_iter().find(IpAddr::is_ipv4);
    Ok(Attached { pod, address: address.context("a pod without IPv4")? })
}

/// One call from the calling thread, which must be inside.
fn call(program: &Path, input: &[u8], pod: &Pod, command: &str) -> Result<Value> {
    let answer = execute(program, &pod.call(command), input)?;
    answer.map_err(|error| anyhow!(error).context(format!("{command} of {}", pod.name)))
}

fn write_pod(node: &Node, name: &str, app: &str, addresses: &[IpAddr]) -> Result<()> {
    let manifest = files::pod("default", name, app, addresses);
    write(node, &pod_file(name), &manifest.to_string())
}

fn pod_file(name: &str) -> String {
    format!("pods/{name}.yaml")
}

fn write(node: &Node, file: &str, text: &str) -> Result<()> {
    node.write(file, text, Writing::Renamed)
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
