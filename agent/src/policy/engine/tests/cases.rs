//! The promises, one by one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use flock_dataplane::policy::{Change, Class, Direction, Element, Ports, Profile};

use crate::policy::engine::{Engine, Local};
use crate::policy::labels::Labels;
use crate::policy::parse::from_manifest;
use crate::source::{Cluster, PeerPod, PodKey, Shards};

fn labels(app: &str) -> Arc<Labels> {
    Arc::new(Labels::new(&BTreeMap::from([("app".to_owned(), app.to_owned())])))
}

fn key(name: &str) -> PodKey {
    PodKey { namespace: "default".into(), name: name.into() }
}

pub(super) fn local(name: &str, app: &str, addresses: &[&str]) -> Local {
    let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
    Local {
        key: key(name),
        labels: labels(app),
        ports: Arc::default(),
        addresses,
        shared: Arc::default(),
        known: true,
    }
}

/// A cluster with an engine that was told of it.
#[derive(Default)]
pub(super) struct Node {
    cluster: Cluster,
    pub(super) engine: Engine,
}

impl Node {
    pub(super) fn policies(&mut self, text: &str) -> Change {
        let policies = from_manifest(text).unwrap().into_iter();
        let policies = policies.map(|policy| (policy.key.clone(), Arc::new(policy))).collect();
        self.cluster.policies = policies;
        self.told()
    }

    pub(super) fn no_policies(&mut self) -> Change {
        self.cluster.policies = Shards::default();
        self.told()
    }

    pub(super) fn peer(&mut self, name: &str, app: Option<&str>, addresses: &[&str]) -> Change {
        let peer = app.map(|app| {
            Arc::new(PeerPod {
                labels: labels(app),
                ports: Arc::default(),
                addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
                claimed: Box::default(),
            })
        });
        self.cluster.peers.set(&key(name), peer);
        self.told()
    }

    fn told(&mut self) -> Change {
        self.engine.set_cluster(&Arc::new(self.cluster.clone()));
        self.engine.take_change()
    }

    pub(super) fn attach(&mut self, link: &str, local: Option<Local>) -> Change {
        self.engine.set_local(&link.into(), local);
        self.engine.take_change()
    }

    fn subjects(&self) -> Vec<(String, Direction, u32)> {
        let subjects = self.engine.elements().into_iter().filter_map(|element| match element {
            Element::Subject { direction, ifname, profile } => {
                Some((ifname.to_string(), direction, profile.0))
            }
            _ => None,
        });
        subjects.collect()
    }

    fn count(&self, which: impl Fn(&Element) -> bool) -> usize {
        self.engine.elements().iter().filter(|element| which(element)).count()
    }
}

const FROM_FRONT: &str = "
metadata: {name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{podSelector: {matchLabels: {app: front}}}], ports: [{port: 80}]}]
";

#[test]
fn pods_come_and_go_by_an_element_each() {
    let mut node = Node::default();
    node.policies(FROM_FRONT);
    node.attach("eth1", Some(local("web-1", "web", &["10.0.0.1"])));
    let first = node.peer("front-1", Some("front"), &["10.0.1.1", "fd00::1"]);
    assert_eq!((first.removed.len(), first.added.len()), (0, 3), "two addresses, one permission");
    let address: IpAddr = "10.0.1.2".parse().unwrap();
    let second = node.peer("front-2", Some("front"), &["10.0.1.2"]);
    let [Element::Member { address: known, class }] = second.added[..] else {
        panic!("{second:?}")
    };
    assert_eq!(known, address);
    let allowed = Element::Allowed { profile: Profile(2), class, ports: Ports::One(6, 80) };
    assert!(first.added.contains(&allowed));
    assert!(node.peer("other", Some("other"), &["10.0.1.3"]).is_empty(), "no peer of anything");
    // The last of its class takes the permission with it; one that comes instead keeps it.
    let member = Element::Member { address, class };
    assert_eq!(node.peer("front-2", None, &[]), Change { removed: vec![member], added: vec![] });
    node.cluster.peers.set(&key("front-1"), None);
    let change = node.peer("front-3", Some("front"), &["10.0.1.9"]);
    let address = "10.0.1.9".parse().unwrap();
    assert_eq!(change.added, [Element::Member { address, class }]);
    assert_eq!(change.removed.len(), 2);
    assert_eq!(node.peer("front-3", None, &[]).removed.len(), 2);
}

#[test]
fn what_went_and_came_again_is_not_told() {
    let mut node = Node::default();
    node.policies(FROM_FRONT);
    node.attach("eth1", Some(local("web-1", "web", &["10.0.0.1"])));
    node.peer("front-1", Some("front"), &["10.0.1.1"]);
    let before = node.cluster.clone();
    node.cluster.peers.set(&key("front-1"), None);
    node.engine.set_cluster(&Arc::new(node.cluster.clone()));
    node.engine.set_cluster(&Arc::new(before));
    let change = node.engine.take_change();
    // The class was forgotten in between and may have another number; nothing is there twice.
    assert!(change.removed.len() == change.added.len() && change.added.len() <= 2, "{change:?}");
    // The same labels in another allocation, and labels that no policy speaks of, are no change.
    node.engine.set_local(&"eth1".into(), None);
    node.engine.set_local(&"eth1".into(), Some(local("web-1", "web", &["10.0.0.1"])));
    let change = node.engine.take_change();
    assert!(change.added.iter().all(|element| !change.removed.contains(element)), "{change:?}");
}

#[test]
fn an_unrelated_policy_renumbers_nobody() {
    let mut node = Node::default();
    node.policies(FROM_FRONT);
    for n in 1..50 {
        node.peer(&format!("front-{n}"), Some("front"), &[&format!("10.0.1.{n}")]);
        node.peer(&format!("db-{n}"), Some("db"), &[&format!("10.0.2.{n}")]);
    }
    for n in 1..5 {
        let web = local(&format!("web-{n}"), "web", &[&format!("10.0.0.{n}")]);
        node.attach(&format!("eth{n}"), Some(web));
    }
    // Its peers are nobody, and it selects nobody.
    let unrelated = "
metadata: {name: unrelated}
spec:
  podSelector: {matchLabels: {app: x}}
  ingress: [{from: [{podSelector: {matchLabels: {app: y}}}]}]
";
    let both = format!("{FROM_FRONT}---{unrelated}");
    assert!(node.policies(&both).is_empty());
    assert!(node.policies(FROM_FRONT).is_empty());
    // Everybody is its peer: those that had a class keep it, those that had none get one.
    let everybody = "
metadata: {name: everybody}
spec:
  podSelector: {matchLabels: {app: x}}
  ingress: [{from: [{podSelector: {}}]}]
";
    let change = node.policies(&format!("{FROM_FRONT}---{everybody}"));
    assert!(change.removed.is_empty(), "{change:?}");
    assert_eq!(change.added.len(), 49 + 4, "db and web");
    let change = node.policies(FROM_FRONT);
    assert_eq!((change.removed.len(), change.added.len()), (49 + 4, 0));
    // A rule more is a permission more, and the profile keeps its number.
    let more = FROM_FRONT.replace("[{port: 80}]", "[{port: 80}, {port: 81}]");
    let change = node.policies(&more);
    assert_eq!((change.removed.len(), change.added.len()), (0, 1), "{change:?}");
}

#[test]
fn what_isolates() {
    let mut node = Node::default();
    node.attach("eth1", Some(local("web-1", "web", &["10.0.0.1"])));
    node.attach("eth2", Some(local("web-2", "web", &["10.0.0.2"])));
    node.attach("eth3", Some(local("db-1", "db", &["10.0.0.3"])));
    assert!(node.engine.elements().is_empty() && !node.engine.is_active());
    let (ingress, egress) = (Direction::Ingress, Direction::Egress);

    node.policies("metadata: {name: closed}\nspec: {podSelector: {matchLabels: {app: db}}}");
    assert_eq!(node.subjects(), [("eth3".to_owned(), ingress, Profile::CLOSED.0)]);
    let isolation = node.engine.isolation("eth3", ingress);
    assert_eq!(isolation.profile, Some(Profile::CLOSED));
    assert_eq!(isolation.policies.len(), 1);
    assert_eq!(node.engine.isolation("eth3", egress).policies, []);

    node.policies(FROM_FRONT);
    let one = |link: &str| (link.to_owned(), ingress, 2);
    assert_eq!(node.subjects(), [one("eth1"), one("eth2")], "pods with the same rules share them");

    let open = "
metadata: {name: open}
spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}]}
";
    node.policies(&format!("{FROM_FRONT}---{open}"));
    let closed = |link: &str| (link.to_owned(), egress, 1);
    assert_eq!(node.subjects(), [closed("eth1"), closed("eth2"), closed("eth3")]);
    let isolation = node.engine.isolation("eth1", ingress);
    assert_eq!((isolation.profile, isolation.policies.len()), (None, 2));
    assert_eq!(node.engine.isolation("nothing", ingress).policies, []);
}

#[test]
fn a_long_list_of_peers_is_one_class() {
    let mut node = Node::default();
    let blocks: Vec<String> =
        (0..200).map(|n| format!("{{ipBlock: {{cidr: 10.{n}.0.0/24}}}}")).collect();
    node.policies(&format!(
        "metadata: {{name: p}}\nspec: {{podSelector: {{}}, ingress: [{{from: [{}], ports: [{{port: 80}}, {{port: 90, endPort: 99}}]}}]}}",
        blocks.join(",")
    ));
    node.attach("eth1", Some(local("web-1", "web", &["192.0.2.1"])));
    assert_eq!(
        node.count(|element| matches!(element, Element::Block { class: Class(1), .. })),
        200
    );
    assert_eq!(node.count(|element| matches!(element, Element::Allowed { .. })), 2);
    assert_eq!(node.count(|element| matches!(element, Element::Range { .. })), 1);
}

#[test]
fn pairs_that_are_a_pods_own() {
    let own = |node: &Node| node.count(|element| matches!(element, Element::Own { .. }));
    let mut node = Node::default();
    let two = local("web-1", "web", &["10.0.0.1", "10.0.0.2", "fd00::1"]);
    node.attach("eth1", Some(two));
    assert_eq!(own(&node), 0, "nothing is held against it");
    node.policies(FROM_FRONT);
    assert_eq!(own(&node), 5);
    // Another pod has one of them too: a packet to it may be for that one.
    node.attach("eth2", Some(local("web-2", "web", &["10.0.0.2"])));
    assert_eq!(own(&node), 2);
    node.attach("eth2", None);
    assert_eq!(own(&node), 5);
    // The API server's picture of the same pod is not another pod.
    node.peer("web-1", Some("web"), &["10.0.0.1", "fd00::1"]);
    assert_eq!(own(&node), 5);
    node.peer("web-7", Some("web"), &["10.0.0.1"]);
    assert_eq!(own(&node), 2);
    node.peer("web-7", None, &[]);
    let many: Vec<String> = (1..=33).map(|n| format!("10.0.0.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    node.attach("eth1", Some(local("web-1", "web", &many)));
    assert_eq!(own(&node), 33, "beyond 32 only each with itself");
    node.attach("eth1", Some(local("web-1", "web", &many[..32])));
    assert_eq!(own(&node), 32 * 32);
}

#[test]
fn a_pod_of_which_nothing_is_known_is_closed_and_nobodys_peer() {
    let mut node = Node::default();
    node.policies(FROM_FRONT);
    let unknown = Local { known: false, ..local("web-1", "front", &["10.0.0.1"]) };
    node.attach("eth1", Some(unknown.clone()));
    let closed = ("eth1".to_owned(), Direction::Ingress, Profile::CLOSED.0);
    assert_eq!(node.subjects(), [closed], "of what its namespace's policies speak");
    assert_eq!(node.count(|element| matches!(element, Element::Member { .. })), 0);
    let elsewhere = PodKey { namespace: "other".into(), ..unknown.key.clone() };
    node.attach("eth1", Some(Local { key: elsewhere, ..unknown }));
    assert_eq!(node.subjects(), []);
    node.attach("eth1", Some(local("web-1", "front", &["10.0.0.1"])));
    assert_eq!(node.subjects(), []);
    assert_eq!(node.count(|element| matches!(element, Element::Member { .. })), 1);
}

/// `0.0.0.0/0` without another address in each rule: every piece is in nearly every block.
#[test]
fn blocks_that_overlap_without_end_are_left_out_of_one_namespace() {
    let rule = |n: usize| {
        let address = format!("10.{}.{}.1/32", n / 250, n % 250);
        let block = format!("{{cidr: 0.0.0.0/0, except: [{address}]}}");
        format!("{{to: [{{ipBlock: {block}}}], ports: [{{port: {}}}]}}", n + 1)
    };
    let greedy = |rules: usize| {
        let rules: Vec<String> = (0..rules).map(rule).collect();
        let head = "metadata: {name: p, namespace: greedy}\nspec: {podSelector: {}, egress: [";
        format!("{head}{}]}}\n", rules.join(","))
    };
    let modest = "
---
metadata: {name: modest, namespace: default}
spec: {podSelector: {}, egress: [{to: [{ipBlock: {cidr: 192.0.2.0/24}}]}]}
";
    let mut node = Node::default();
    node.policies(&format!("{}{modest}", greedy(100)));
    assert!(node.engine.crowded().is_empty());
    node.policies(&format!("{}{modest}", greedy(2000)));
    assert_eq!(node.engine.crowded(), ["greedy"]);
    node.attach("eth1", Some(local("web-1", "web", &["10.0.0.1"])));
    let theirs = PodKey { namespace: "greedy".into(), name: "a".into() };
    node.attach("eth2", Some(Local { key: theirs, ..local("a", "a", &["10.0.0.2"]) }));
    assert_eq!(node.count(|element| matches!(element, Element::Block { .. })), 1);
    let allowed = |element: &Element| matches!(element, Element::Allowed { .. });
    assert_eq!(node.count(allowed), 1, "the other namespace's");
    assert_eq!(node.subjects().len(), 4, "both are isolated, both ways");
    node.policies(modest.trim_start_matches("\n---"));
    assert!(node.engine.crowded().is_empty());
}
