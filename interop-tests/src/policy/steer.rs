//! What the agents of a rig are told, by files: policies, namespaces, labels; and when they have taken it up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::oracle::Protocol;
use super::people::{self, Home, file, policy};
use super::rig::Rig;
use super::round::{Due, Outcome, Shot, fire_within};
use crate::manifests::Writing;
use crate::node::Node;
use crate::wait::{PATIENCE, until};

/// Two ports at which the gates are open in turn.
const GATES: [u16; 2] = [9000, 9010];

/// How long a look at the gates takes: less than TCP waits before it knocks again.
const GLANCE: Duration = Duration::from_millis(100);

impl Rig {
    /// Replaces all policies, and awaits that both agents have taken them up.
    pub fn set_policies(&mut self, policies: &[Value]) -> Result<()> {
        self.write_policies(policies)?;
        self.pass_gates()
    }

    /// Writes the files of all policies, and removes those of others.
    pub fn write_policies(&mut self, policies: &[Value]) -> Result<()> {
        let stale = |old: &&Value| !policies.iter().any(|new| file(new) == file(old));
        for node in &self.nodes {
            for policy in policies {
                write(node, "networkpolicies", policy)?;
            }
            for old in self.world.policies.iter().filter(stale) {
                std::fs::remove_file(node.file("standalone/networkpolicies").join(file(old)))?;
            }
        }
        self.world.policies = policies.to_vec();
        Ok(())
    }

    /// Replaces all namespaces.
    pub fn set_namespaces(&mut self, namespaces: &[Value]) -> Result<()> {
        let stale = |old: &&Value| !namespaces.iter().any(|new| file(new) == file(old));
        for node in &self.nodes {
            for old in self.world.namespaces.iter().filter(stale) {
                std::fs::remove_file(node.file("standalone/namespaces").join(file(old)))?;
            }
        }
        self.world.namespaces = namespaces.to_vec();
        self.write_namespaces()?;
        self.pass_gates()
    }

    pub(super) fn write_namespaces(&self) -> Result<()> {
        let all = self
            .nodes
            .iter()
            .flat_map(|node| self.world.namespaces.iter().map(move |one| (node, one)));
        all.into_iter().try_for_each(|(node, one)| write(node, "namespaces", one))
    }

    /// Gives a pod other labels.
    pub fn relabel(&mut self, name: &str, labels: &[(&str, &str)]) -> Result<()> {
        let number = self.pods.iter().position(|(_, person)| person.name() == name);
        let number = number.with_context(|| format!("no pod {name}"))?;
        let (_, person) = self.pods.get_mut(number).context("no such pod")?;
        people::put(&mut person.manifest, "/metadata", "labels", people::map(labels));
        let (home, manifest) = (person.home, person.manifest.clone());
        let placed = self.world.pods.get_mut(number).context("no such pod")?;
        people::put(placed, "/metadata", "labels", people::map(labels));
        let placed = placed.clone();
        self.node(home).write_pod(&manifest, Writing::Renamed)?;
        self.node(home.other()).write_pod(&placed, Writing::Renamed)?;
        self.pass_gates()
    }

    /// Describes a pod that is not the rig's to both nodes and to the oracle.
    pub fn describe(&mut self, manifest: Value) -> Result<()> {
        for node in &self.nodes {
            node.write_pod(&manifest, Writing::Renamed)?;
        }
        self.world.pods.push(manifest);
        Ok(())
    }

    /// Awaits that both agents did what was written until now. The policy of the gates opens one port and
    /// closes the other; it is written last. Twice, because an agent may read it while it is amid reading:
    /// whoever shows the second one began to read after the first was there.
    pub fn pass_gates(&self) -> Result<()> {
        for _ in 0..2 {
            let port = self.turn_gates()?;
            until("both agents to have read the policies", PATIENCE, || self.gates_are_open(port))?;
        }
        Ok(())
    }

    /// The same, unless the agent of a node dies over it: then it was not to be, and false.
    pub fn pass_gates_unless_it_dies(&mut self, home: Home) -> Result<bool> {
        let port = self.turn_gates()?;
        until("an agent to have read the policies, or to die over it", PATIENCE, || {
            let lives = self.node_mut(home).agent()?.ensure_alive().is_ok();
            if lives { self.gates_are_open(port).map(|()| true) } else { Ok(false) }
        })
    }

    /// Writes the other policy of the gates; returns the port that it opens.
    fn turn_gates(&self) -> Result<u16> {
        let turn = self.gate.fetch_add(1, Ordering::Relaxed);
        let port = GATES.get(usize::from(turn % 2 == 1)).copied().unwrap_or_default();
        let spec = format!("{{ podSelector: {{}}, ingress: [{{ ports: [{{ port: {port} }}] }}] }}");
        let gate = policy("gates/gate", &spec)?;
        self.nodes.iter().try_for_each(|node| write(node, "networkpolicies", &gate))?;
        Ok(port)
    }

    /// Removes the policy of the gates, for who wants to see nodes without any.
    pub fn remove_gates(&self) -> Result<()> {
        let file = "standalone/networkpolicies/gates.gate.yaml";
        self.nodes.iter().try_for_each(|node| Ok(std::fs::remove_file(node.file(file))?))
    }

    fn gates_are_open(&self, port: u16) -> Result<()> {
        let from = self.spot("outside-10")?;
        let shots = ["gates/gate-a", "gates/gate-b"].map(|gate| {
            let to = self.spot(gate)?;
            let ([source, _], [target, _]) = (from.addresses, to.addresses);
            let station = self.station(from)?;
            let protocol = Protocol::Tcp;
            Ok(Shot { station, source, target, protocol, port, due: Due::Answer })
        });
        let shots = shots.into_iter().collect::<Result<Vec<_>>>()?;
        let outcomes = fire_within(&shots, GLANCE)?;
        let open = outcomes.iter().all(|outcome| matches!(outcome, Outcome::Answered(_)));
        anyhow::ensure!(open, "port {port} of the gates: {outcomes:?}");
        Ok(())
    }
}

fn write(node: &Node, directory: &str, object: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(object)?;
    node.write(&format!("{directory}/{}", file(object)), &text, Writing::Renamed)
}
