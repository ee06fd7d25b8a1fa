//! NetworkPolicy when things go wrong: a pod is never open that should be shut, an agent dies amid a
//! change or is away, the kernel refuses, somebody deletes rules by hand or has rules of their own beside
//! ours, a file is not what it should be.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

mod deaths;
mod files;
mod hands;
mod never_open;
mod refused;
mod watch;

use std::process::Output;

use rack::binaries;
use rack::node::Node;
use rack::policy::judge::{Case, USUAL};
use rack::policy::oracle::World;
use rack::policy::people::{Home, policy};
use rack::policy::rig::Rig;
use serde_json::Value;

/// Nobody may speak to the pods of `back`, nor those of `ops` to anybody.
const SHUT: &[(&str, &str)] = &[
    ("back/deny", "{ podSelector: {} }"),
    ("ops/deny", "{ podSelector: {}, policyTypes: [Egress] }"),
    ("front/web", "{ podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }] }"),
];

/// Some more may than by [`SHUT`], and some less.
const AJAR: &[(&str, &str)] = &[
    ("back/deny", "{ podSelector: {}, ingress: [{ ports: [{ port: http }] }] }"),
    (
        "ops/deny",
        "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 203.0.113.0/24, \
         except: [203.0.113.77/32] } }, { ipBlock: { cidr: '2001:db8:f00d::/64' } }] }] }",
    ),
    (
        "front/more",
        "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: data } } }], \
         ports: [{ port: 80, endPort: 9005 }] }] }",
    ),
];

fn policies(set: &[(&str, &str)]) -> Vec<Value> {
    set.iter().map(|(name, spec)| policy(name, spec).unwrap()).collect()
}

/// A rig with policies in force.
fn rig(set: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::start().unwrap();
    rig.set_policies(&policies(set)).unwrap();
    agree(&rig, "at first");
    rig
}

/// Everything is as the oracle says, or will be.
fn agree(rig: &Rig, what: &str) {
    rig.agree(what, &rig.everybody(&USUAL)).unwrap_or_else(|error| panic!("{error:#}"));
}

/// Everything that does not concern the second node is as it was in another world.
fn agree_on_a(rig: &Rig, what: &str, world: &World) {
    let cases = of_a(rig);
    rig.agree_with(what, world, &cases).unwrap_or_else(|error| panic!("{error:#}"));
}

/// Between pods of the first node, and between them and who is on no node.
fn of_a(rig: &Rig) -> Vec<Case<'_>> {
    let mut cases = rig.everybody(&USUAL);
    cases.retain(|case| ![case.from.home, case.to.home].contains(&Some(Home::B)));
    cases
}

/// Runs nft on a node.
fn nft(node: &Node, words: &str) -> anyhow::Result<String> {
    node.netns().exec("nft", &words.split(' ').collect::<Vec<_>>())
}

/// What `flock-agent check` says, whether it found something or not.
fn check(node: &Node) -> String {
    let mut command = node.netns().command(binaries::flock_agent().unwrap()).unwrap();
    command.args(["check", "-o", "json"]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    let Output { stdout, .. } = command.output().unwrap();
    String::from_utf8(stdout).unwrap()
}

/// Each point of the sources where an agent may die amid policies is one that it dies at here.
#[test]
fn every_point_is_tested() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files: Vec<_> = ["agent/src", "dataplane/src"].map(|dir| root.join(dir)).into();
    let mut found = std::collections::BTreeSet::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let named = text.split("fault::point(\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(named.filter(|name| name.starts_with("policy.")).map(str::to_owned));
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), deaths::POINTS);
}
