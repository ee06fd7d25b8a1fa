//! What becomes of what the API server tells: scripted, on a clock that jumps.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::super::scripted::Answer::{Follows, Refuses, Says, TellsAndHangs};
use super::super::scripted::{Server, event, listed, page, status};
use super::*;
use crate::source::PodKey;

const POLICIES: &str = "/apis/networking.k8s.io/v1/networkpolicies";
const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/pods";

fn policy(name: &str, version: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "resourceVersion": version, "managedFields": [{}]},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    })
}

fn bad_policy(name: &str, version: &str) -> Value {
    let mut policy = policy(name, version);
    policy["spec"]["policyTypes"] = json!(["Sideways"]);
    policy
}

fn namespace(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version, "labels": {"team": "a"}}})
}

fn pod(name: &str, address: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "resourceVersion": "3", "labels": {"app": "web"},
            "annotations": {"flock.fritzlab.net/anycast": "192.0.2.1", "other": "x"},
        },
        "spec": {"nodeName": "b", "containers": [{"ports": [{"name": "http", "containerPort": 80}]}]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
    })
}

/// An API server that has this, and says nothing more.
fn server(policies: Vec<Value>, namespaces: Vec<Value>) -> Server {
    let server = Server::default();
    server.then(POLICIES, vec![listed("5", policies), TellsAndHangs(vec![])]);
    server.then(NAMESPACES, vec![listed("5", namespaces), TellsAndHangs(vec![])]);
    server
}

struct Following {
    cluster: watch::Receiver<Arc<Cluster>>,
    state: tempfile::TempDir,
}

impl Following {
    fn of(server: &Server) -> Self {
        Self::again(server, tempfile::tempdir().unwrap())
    }

    /// An agent that is started where another one was.
    fn again(server: &Server, state: tempfile::TempDir) -> Self {
        let cluster = start(&server.client(), &Arc::default(), Cache::new(state.path()));
        Self { cluster, state }
    }

    /// The first picture of which this is true.
    async fn until(&mut self, is_so: impl FnMut(&Arc<Cluster>) -> bool) -> Arc<Cluster> {
        // An hour, which passes at once.
        let hour = std::time::Duration::from_secs(3600);
        let found = tokio::time::timeout(hour, self.cluster.wait_for(is_so)).await;
        found.expect("it never came to that").unwrap().clone()
    }
}

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.policies.in_order().keys().map(ToString::to_string).collect()
}

fn peers(cluster: &Cluster) -> Vec<String> {
    let mut names: Vec<_> = cluster.peers.iter().map(|(key, _)| key.name.to_string()).collect();
    names.sort();
    names
}

async fn asked(server: &Server, path: &str, times: usize) -> Vec<String> {
    while server.asked(path).len() < times {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    server.asked(path)
}

#[tokio::test(start_paused = true)]
async fn without_a_policy_nobody_asks_for_the_pods_of_others() {
    let server = server(vec![], vec![namespace("shop", "1")]);
    let mut following = Following::of(&server);
    assert!(!following.cluster.borrow().complete, "nothing is told yet");
    let cluster = following.until(|cluster| cluster.complete).await;
    assert!(cluster.policies.is_empty() && cluster.peers.is_empty());
    let labels: Vec<_> = cluster.namespaces["shop"].iter().collect();
    assert_eq!(labels, [("kubernetes.io/metadata.name", "shop"), ("team", "a")]);
    assert_eq!(asked(&server, NAMESPACES, 2).await, ["list 0", "watch 5"]);
    assert!(server.asked(PODS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn policies_namespaces_and_pods_are_one_picture() {
    let server = server(vec![policy("closed", "1")], vec![namespace("shop", "1")]);
    let host = json!({"metadata": {"name": "host", "namespace": "shop"}, "spec": {"hostNetwork": true},
                      "status": {"podIP": "192.0.2.9"}});
    let (events, told) = mpsc::unbounded_channel();
    server.then(
        PODS,
        vec![
            page("7", vec![pod("a", "10.0.0.1"), host], "next"),
            page("7", vec![pod("b", "10.0.0.2")], ""),
            Follows(told),
        ],
    );
    let mut following = Following::of(&server);
    let cluster = following.until(|cluster| cluster.complete).await;
    assert_eq!(
        (names(&cluster), peers(&cluster)),
        (vec!["shop/closed".to_owned()], vec!["a".into(), "b".into()])
    );
    let key = |name: &str| PodKey { namespace: "shop".into(), name: name.into() };
    let (a, b) = (cluster.peers.get(&key("a")).unwrap(), cluster.peers.get(&key("b")).unwrap());
    assert!(Arc::ptr_eq(&a.labels, &b.labels) && Arc::ptr_eq(&a.ports, &b.ports), "shared");
    assert_eq!((a.labels.get("app"), a.ports[0].port), (Some("web"), 80));
    assert_eq!(a.addresses[..], ["10.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(a.claimed[..], ["192.0.2.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(
        asked(&server, PODS, 3).await,
        ["list page 500", "list page 500 of next", "watch 7"]
    );
    // The same again is no news; another is.
    events.send(event("MODIFIED", pod("a", "10.0.0.1"))).unwrap();
    events.send(event("ADDED", pod("c", "10.0.0.3"))).unwrap();
    let cluster = following.until(|cluster| cluster.peers.len() == 3).await;
    assert!(Arc::ptr_eq(cluster.peers.get(&key("a")).unwrap(), a));
    events.send(event("DELETED", pod("b", "10.0.0.2"))).unwrap();
    let mut over = pod("c", "10.0.0.3");
    over["status"]["phase"] = json!("Succeeded");
    events.send(event("MODIFIED", over)).unwrap();
    following.until(|cluster| peers(cluster) == ["a"]).await;
    // A watch that failed is a new list, which replaces all at its end and nothing before.
    server.then(
        PODS,
        vec![
            page("9", vec![pod("c", "10.0.0.3")], "x"),
            Says(410, status(410, "too old")),
            page("9", vec![pod("b", "10.0.0.2")], "y"),
            page("9", vec![pod("d", "10.0.0.4")], ""),
            TellsAndHangs(vec![]),
        ],
    );
    events.send(event("ERROR", status(500, "etcd is gone"))).unwrap();
    let cluster = following.until(|cluster| peers(cluster) != ["a"]).await;
    assert_eq!(peers(&cluster), ["b", "d"]);
    assert!(cluster.complete);
}

#[tokio::test(start_paused = true)]
async fn the_first_policy_asks_for_pods_and_the_last_one_ends_that() {
    let server = Server::default();
    let (policies, told) = mpsc::unbounded_channel();
    server.then(POLICIES, vec![listed("5", vec![]), Follows(told)]);
    server.then(NAMESPACES, vec![listed("5", vec![]), TellsAndHangs(vec![])]);
    let mut following = Following::of(&server);
    following.until(|cluster| cluster.complete).await;
    policies.send(event("ADDED", policy("closed", "6"))).unwrap();
    let cluster = following.until(|cluster| !cluster.policies.is_empty()).await;
    assert!(!cluster.complete, "in force, and who is who is not known yet");
    asked(&server, PODS, 1).await;
    let (pods, told) = mpsc::unbounded_channel();
    // The script had no answer to the list: after half a minute it is asked for again.
    server.then(PODS, vec![page("7", vec![pod("a", "10.0.0.1")], ""), Follows(told)]);
    let cluster = following.until(|cluster| cluster.complete).await;
    assert_eq!(peers(&cluster), ["a"]);
    policies.send(event("DELETED", policy("closed", "8"))).unwrap();
    let cluster = following.until(|cluster| cluster.policies.is_empty()).await;
    assert!(cluster.complete && cluster.peers.is_empty());
    pods.closed().await;
    server.then(PODS, vec![page("9", vec![pod("b", "10.0.0.2")], ""), TellsAndHangs(vec![])]);
    policies.send(event("ADDED", policy("again", "10"))).unwrap();
    let cluster = following.until(|cluster| cluster.complete && !cluster.policies.is_empty()).await;
    assert_eq!(
        (names(&cluster), peers(&cluster)),
        (vec!["shop/again".to_owned()], vec!["b".into()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_read_leaves_the_last_good_one() {
    let server = Server::default();
    let (policies, told) = mpsc::unbounded_channel();
    let never = bad_policy("never", "1");
    server.then(POLICIES, vec![listed("5", vec![policy("a", "1"), never]), Follows(told)]);
    server.then(NAMESPACES, vec![listed("5", vec![]), TellsAndHangs(vec![])]);
    server.then(PODS, vec![page("7", vec![], ""), TellsAndHangs(vec![])]);
    let mut following = Following::of(&server);
    let cluster = following.until(|cluster| cluster.complete).await;
    assert_eq!(names(&cluster), ["shop/a", "shop/never"], "one that was never good is closed");
    let known = cluster.policies.in_order();
    let never = known.values().find(|policy| *policy.key.name == *"never").unwrap();
    assert_eq!((&never.ingress, &never.egress), (&Some(vec![]), &Some(vec![])));
    assert!(cluster.problems["NetworkPolicy shop/never"].contains("Sideways"), "{cluster:?}");
    let good = cluster.policies.clone();
    policies.send(event("MODIFIED", bad_policy("a", "6"))).unwrap();
    let cluster = following.until(|cluster| cluster.problems.len() == 2).await;
    assert_eq!(cluster.policies, good);
    policies.send(event("DELETED", bad_policy("never", "7"))).unwrap();
    policies.send(event("MODIFIED", policy("a", "8"))).unwrap();
    let cluster = following.until(|cluster| cluster.problems.is_empty()).await;
    assert_eq!(names(&cluster), ["shop/a"]);
    policies.send(event("MODIFIED", bad_policy("a", "9"))).unwrap();
    policies.send(event("ADDED", bad_policy("never", "9"))).unwrap();
    following.until(|cluster| cluster.problems.len() == 2).await;
    server.then(POLICIES, vec![listed("20", vec![policy("b", "10")]), TellsAndHangs(vec![])]);
    policies.send(event("ERROR", status(410, "too old"))).unwrap();
    let cluster = following.until(|cluster| cluster.problems.is_empty()).await;
    assert_eq!(names(&cluster), ["shop/b"], "a list without it takes it away, good or not");
}

#[tokio::test(start_paused = true)]
async fn an_old_role_without_policies_breaks_nothing() {
    let forbidden = "networkpolicies.networking.k8s.io is forbidden: User \"flock\" cannot list";
    let server = Server::default();
    server.then(POLICIES, (0..3).map(|_| Says(403, status(403, forbidden))).collect());
    server.then(NAMESPACES, vec![listed("5", vec![namespace("shop", "1")]), TellsAndHangs(vec![])]);
    let mut following = Following::of(&server);
    let cluster = following
        .until(|cluster| !cluster.problems.is_empty() && !cluster.namespaces.is_empty())
        .await;
    assert!(!cluster.complete && cluster.policies.is_empty());
    let why = &cluster.problems["networkpolicies.networking.k8s.io"];
    assert!(why.starts_with(forbidden), "{why}");
    assert!(server.asked(PODS).is_empty());
    // The role is mended while it runs.
    asked(&server, POLICIES, 3).await;
    server.then(POLICIES, vec![listed("6", vec![]), TellsAndHangs(vec![])]);
    let cluster = following.until(|cluster| cluster.complete).await;
    assert!(cluster.problems.is_empty(), "{cluster:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_while_nobody_answers_begins_with_what_was_known() {
    let up = server(vec![policy("closed", "1")], vec![namespace("shop", "1")]);
    up.then(PODS, vec![page("7", vec![pod("a", "10.0.0.1")], ""), TellsAndHangs(vec![])]);
    let mut before = Following::of(&up);
    let known = before.until(|cluster| cluster.complete).await;
    let file = before.state.path().join("policies.json");
    while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains("closed")) {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let away = Server::default();
    for path in [POLICIES, NAMESPACES, PODS] {
        away.then(path, (0..100).map(|_| Refuses).collect());
    }
    let mut after = Following::again(&away, before.state);
    let began = after.cluster.borrow().clone();
    assert_eq!((&began.policies, &began.namespaces), (&known.policies, &known.namespaces));
    assert!(!began.complete && began.peers.is_empty());
    asked(&away, POLICIES, 2).await;
    assert_eq!(*after.cluster.borrow_and_update(), began, "a silence takes nothing away");
    std::fs::write(after.state.path().join("policies.json"), "{").unwrap();
    let none = Following::again(&Server::default(), after.state);
    assert_eq!(**none.cluster.borrow(), Cluster::default(), "half a file is none");
}

/// Ten thousand pods in pages, as a large cluster has them: 500 Deployments, and a tenth of the pods with
/// labels that no other has.
fn page_of_pods(page: usize) -> Vec<objects::PeerObject> {
    let one = |n: usize| {
        let app = n % 500;
        let own = if n.is_multiple_of(10) { format!("pod-{n}") } else { "none".to_owned() };
        json!({
            "metadata": {
                "name": format!("{:-<54}-{n:05}", format!("deployment-{app:03}-of-a-large-shop-5d8f7c9b6d")),
                "namespace": format!("namespace-{:03}", app % 100), "resourceVersion": "123456789",
                "labels": {
                    "app.kubernetes.io/name": format!("deployment-{app}"),
                    "app.kubernetes.io/instance": format!("deployment-{app}-production"),
                    "app.kubernetes.io/version": "1.27.3", "app.kubernetes.io/managed-by": "Helm",
                    "app.kubernetes.io/part-of": "a-large-shop", "pod-template-hash": "5d8f7c9b6d",
                    "tier": "backend", "statefulset.kubernetes.io/pod-name": own,
                },
            },
            "spec": {"containers": [{"ports": [
                {"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090},
            ]}]},
            "status": {"phase": "Running", "podIPs": [
                {"ip": format!("10.{}.{}.{}", n >> 16, (n >> 8) & 255, n & 255)},
                {"ip": format!("2001:db8::{n:x}")},
            ]},
        })
    };
    let range = page * 500..(page + 1) * 500;
    range.map(|n| serde_json::from_value(one(n)).unwrap()).collect()
}

/// Pages in memory, as the kernel counts them.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A hundred policies with selectors of these pods, blocks and named ports.
fn hundred_policies() -> String {
    let one = |n: usize| {
        format!(
            "metadata: {{name: p-{n}, namespace: team-{}}}
spec:
  podSelector: {{}}
  ingress:
    - from: [{{podSelector: {{matchLabels: {{tier: backend}}}}}}, {{namespaceSelector: {{}}}}]
      ports: [{{port: http}}, {{port: {}}}]
  egress:
    - to: [{{ipBlock: {{cidr: 0.0.0.0/0, except: [10.{n}.0.0/16]}}}}]
    - to: [{{podSelector: {{matchLabels: {{tier: backend}}}}}}]
      ports: [{{port: metrics}}]
",
            n % 20,
            8000 + n
        )
    };
    (0..100).map(one).collect::<Vec<_>>().join("---\n")
}

/// The budget of decision 27 for the whole: what is told of the cluster, and what follows from it.
#[test]
fn ten_thousand_pods_and_the_engine_are_fifteen_megabytes() {
    let policies = crate::policy::parse::from_manifest(&hundred_policies()).unwrap().into_iter();
    let policies = policies.map(|policy| (policy.key.clone(), Arc::new(policy))).collect();
    let mut picture = Picture::default();
    picture.hear_pods(Told::Part { first: true, some: page_of_pods(0) });
    let before = resident();
    for page in 1..21 {
        picture.hear_pods(Told::Part { first: false, some: page_of_pods(page) });
    }
    picture.hear_pods(Told::All(vec![]));
    let cluster = Arc::new(Cluster { policies, ..picture.cluster() });
    let mut engine = crate::policy::Engine::default();
    engine.set_cluster(&cluster);
    let change = engine.take_change();
    assert!(change.added.len() > 20_000, "every address is of interest: {}", change.added.len());
    let grown = resident().saturating_sub(before);
    println!("10,000 pods, 100 policies and the engine: {} kB", grown / 1024);
    assert!(grown < 15_000_000, "{grown}");
}

#[test]
fn ten_thousand_pods_are_a_few_megabytes() {
    let mut picture = Picture::default();
    picture.hear_pods(Told::Part { first: true, some: page_of_pods(0) });
    let before = resident();
    for page in 1..21 {
        picture.hear_pods(Told::Part { first: false, some: page_of_pods(page) });
    }
    picture.hear_pods(Told::All(vec![]));
    let cluster = picture.cluster();
    assert_eq!(cluster.peers.len(), 10_500);
    let grown = resident().saturating_sub(before);
    println!("10,000 pods: {} kB, each {} bytes", grown / 1024, grown / 10_000);
    // Some five, with what the allocator keeps of the pages; without sharing more than twice as much.
    assert!(grown < 8_000_000, "{grown}");
    // All of them again: not a second time in memory.
    let before = resident();
    for page in 0..21 {
        picture.hear_pods(Told::Part { first: page == 0, some: page_of_pods(page) });
    }
    picture.hear_pods(Told::All(vec![]));
    assert!(cluster.peers.differing(&picture.cluster().peers).is_empty());
    let grown = resident().saturating_sub(before);
    println!("a list of the same: {} kB more", grown / 1024);
}
