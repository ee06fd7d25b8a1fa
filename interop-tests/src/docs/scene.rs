//! Where documents are played: the rack of `make demo` with two ToRs, three nodes and their pods, each
//! of them a [`Place`], so that commands work as they are written.
//!
//! A document says in a comment at its head what it begins with: `<!-- rack: bare -->` nodes on which
//! nothing of flock was ever set up, `<!-- rack: standing -->` nodes whose agents run and peer, each
//! with the pods `web-N` and `dns-N`, of which the latter serve one anycast address of each family.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use tempfile::TempDir;

use crate::fabric::Fabric;
use crate::manifests;
use crate::place::{Place, Said};
use crate::process;
use crate::router::Brand;

/// The ToRs, as in the demo.
const TORS: [(&str, Brand); 2] = [("tor-a", Brand::Bird), ("tor-b", Brand::Frr)];
const NODES: [usize; 3] = [1, 2, 3];
/// What the `dns` pods serve together.
const ANYCAST: [&str; 2] = ["2001:db8:53::53", "192.0.2.53"];
/// For one command. A drain with its default wait is among them.
const LIMIT: Duration = Duration::from_secs(90);

/// What a document begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Nodes and ToRs, and nothing of flock.
    Bare,
    /// Agents that run, sessions, pods.
    Standing,
}

impl Beginning {
    /// What a document asks for, if it asks for a rack.
    pub fn of(document: &str) -> Option<Self> {
        let asked =
            |what: &str| document.lines().any(|line| line == format!("<!-- rack: {what} -->"));
        match (asked("bare"), asked("standing")) {
            (true, _) => Some(Self::Bare),
            (_, true) => Some(Self::Standing),
            _ => None,
        }
    }
}

/// A rack with its places.
#[derive(Debug)]
pub struct Scene {
    // Whoever lives in the fabric goes first.
    places: Vec<Place>,
    fabric: Fabric,
    outputs: TempDir,
    count: Cell<usize>,
    running: RefCell<Vec<(String, PathBuf)>>,
}

impl Scene {
    /// Builds the rack.
    pub fn build(beginning: Beginning) -> Result<Self> {
        let builder =
            TORS.iter().fold(Fabric::builder(), |all, (name, brand)| all.tor(name, *brand));
        let fabric = builder.nodes(NODES.len()).build()?;
        fabric.await_tor_sessions()?;
        for number in NODES {
            let node = fabric.node(number)?;
            fs::remove_file(node.file("standalone/nodeconfig.yaml"))?;
            fs::remove_dir(node.file("standalone/pods"))?;
        }
        let places = fabric.places(&[])?;
        let scene = Self {
            places,
            fabric,
            outputs: tempfile::tempdir()?,
            count: Cell::new(0),
            running: RefCell::new(Vec::new()),
        };
        if beginning == Beginning::Standing {
            scene.stand()?;
        }
        Ok(scene)
    }

    /// Runs a script at a place: a node, a ToR, or a pod by the name of its namespace. What a script
    /// leaves running is shown by [`Scene::story`].
    pub fn run(&self, place: &str, script: &str, stays: bool) -> Result<Said> {
        let number = self.count.replace(self.count.get() + 1);
        let output = self.outputs.path().join(number.to_string());
        if stays {
            self.running.borrow_mut().push((format!("{place}$ {script}"), output.clone()));
        }
        if let Some(place) = self.places.iter().find(|one| one.name() == place) {
            return place.run(script, &output, LIMIT);
        }
        for host in &self.places {
            let there = host.script(&format!("test -e /run/netns/{place}"))?.status()?;
            if there.success() {
                let quoted = script.replace('\'', "'\\''");
                let inside = format!("exec ip netns exec {place} bash -c '{quoted}'");
                return host.run(&inside, &output, LIMIT);
            }
        }
        bail!("there is no {place} in this rack: take a ToR, a node, or a namespace on a node")
    }

    /// What those said that were left running, for a failure.
    pub fn story(&self) -> String {
        let running = self.running.borrow();
        let tails: Vec<_> = running.iter().map(|(what, log)| process::tail(what, log)).collect();
        tails.join("\n")
    }

    /// Starts the agents, and attaches the pods as a runtime does.
    fn stand(&self) -> Result<()> {
        for node in NODES {
            let host = self.fabric.node(node)?;
            let (cidr6, cidr4) = (format!("2001:db8:0:{node}::/64"), format!("10.244.{node}.0/24"));
            let config = manifests::written(host.name(), &cidr6, &cidr4, &self.fabric.peers(node)?);
            fs::write(host.file("standalone/nodeconfig.yaml"), config)?;
            fs::create_dir(host.file("standalone/pods"))?;
            fs::write(host.file(&format!("standalone/pods/default.dns-{node}.yaml")), dns(node))?;
            let agent = "flock-agent run --standalone /etc/flock --http 127.0.0.1:9179 \
                         --install-cni /opt/cni/bin:/etc/cni/net.d &";
            self.done(host.name(), agent, true)?;
        }
        self.fabric.await_sessions()?;
        for node in NODES {
            for pod in ["web", "dns"] {
                self.done(&format!("node-{node}"), &attach(&format!("{pod}-{node}")), false)?;
            }
        }
        ANYCAST.iter().try_for_each(|address| self.fabric.await_ways(address, &NODES))
    }

    fn done(&self, place: &str, script: &str, stays: bool) -> Result<()> {
        let said = self.run(place, script, stays)?;
        ensure!(said.status.success(), "{place}$ {script}\n{}\n{}", said.text, self.story());
        Ok(())
    }
}

fn dns(node: usize) -> String {
    format!(
        "metadata:\n  name: dns-{node}\n  annotations:\n    \
         flock.fritzlab.net/anycast: {}\n",
        ANYCAST.join(",")
    )
}

/// A pod as a runtime makes it, once the agent says by its conflist that it can serve.
fn attach(pod: &str) -> String {
    format!(
        "until [ -e /etc/cni/net.d/01-flock.conflist ]; do sleep 0.02; done\n\
         ip netns add {pod}\n\
         echo '{{\"cniVersion\":\"1.0.0\",\"name\":\"flock\",\"type\":\"flock\"}}' |\n\
         CNI_COMMAND=ADD CNI_CONTAINERID={pod} CNI_NETNS=/run/netns/{pod} CNI_IFNAME=eth0 \
         CNI_ARGS='K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod}' CNI_PATH=/opt/cni/bin \
         /opt/cni/bin/flock"
    )
}
