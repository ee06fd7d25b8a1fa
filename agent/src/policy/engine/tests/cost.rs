//! What it costs, for people: `cargo test --release -p flock-agent --lib policy::engine -- --ignored --nocapture`.
//! Nothing is asserted about time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::policy::engine::{Engine, Local};
use crate::policy::labels::Labels;
use crate::policy::model::{NamedPort, Policy, PolicyKey, Protocol};
use crate::policy::parse::from_manifest;
use crate::source::{Cluster, PeerPod, PodKey};

const PODS: u32 = 10_000;
const POLICIES: u32 = 500;
const NAMESPACES: u32 = 50;

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn labels(n: u32) -> Arc<Labels> {
    let labels = [
        ("app", format!("app-{}", n % 400)),
        ("pod-template-hash", format!("7d9f{:06}", n % 400)),
        ("tier", format!("tier-{}", n % 3)),
        ("statefulset.kubernetes.io/pod-name", format!("app-{}-{n}", n % 400)),
    ];
    Arc::new(Labels::new(&labels.map(|(key, value)| (key.to_owned(), value)).into()))
}

fn key(n: u32) -> PodKey {
    PodKey {
        namespace: format!("team-{}", n % NAMESPACES),
        name: format!("app-{}-7d9f-{n}", n % 400),
    }
}

fn address(n: u32) -> [IpAddr; 2] {
    let four = IpAddr::from((0x0a00_0000 + n).to_be_bytes());
    [four, format!("fd00::{n:x}").parse().unwrap()]
}

fn peer(n: u32, ports: &Arc<[NamedPort]>) -> Arc<PeerPod> {
    let (labels, ports, claimed) = (labels(n), ports.clone(), Box::default());
    Arc::new(PeerPod { labels, ports, addresses: address(n).into(), claimed })
}

fn policy(n: u32) -> Arc<Policy> {
    let (namespace, app) = (n % NAMESPACES, n % 400);
    let text = format!(
        "
metadata: {{name: p-{n}, namespace: team-{namespace}}}
spec:
  podSelector: {{matchLabels: {{app: app-{app}}}}}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        - podSelector: {{matchLabels: {{app: app-{}}}}}
        - namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: team-{}}}}}
      ports: [{{port: 80}}, {{port: http}}]
    - from: [{{namespaceSelector: {{}}, podSelector: {{matchLabels: {{tier: tier-{}}}}}}}]
      ports: [{{port: 9000, endPort: {}}}]
  egress:
    - to: [{{ipBlock: {{cidr: 0.0.0.0/0, except: [10.0.0.0/8, 192.168.{}.0/24]}}}}]
    - to: [{{podSelector: {{matchLabels: {{app: app-{}}}}}}}]
      ports: [{{port: http}}]
",
        (app + 50) % 400,
        (n + 1) % NAMESPACES,
        n % 3,
        9010 + n % 10,
        n % 20,
        (app + 100) % 400,
    );
    Arc::new(from_manifest(&text).unwrap().remove(0))
}

fn worst_and_median(mut all: Vec<Duration>) -> (Duration, Duration) {
    all.sort_unstable();
    (all[all.len() - 1], all[all.len() / 2])
}

#[test]
#[ignore = "for people who want to know what it costs"]
fn ten_thousand_pods_and_five_hundred_policies() {
    let begin = resident();
    let http = NamedPort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 };
    let ports: Arc<[NamedPort]> = [http].into();
    let mut cluster = Cluster::default();
    for n in 0..PODS {
        cluster.peers.set(&key(n), Some(peer(n, &ports)));
    }
    println!("cluster of pods: {} KiB", (resident() - begin) / 1024);
    let policies: BTreeMap<PolicyKey, Arc<Policy>> =
        (0..POLICIES).map(policy).map(|policy| (policy.key.clone(), policy)).collect();
    cluster.policies = Arc::new(policies);
    println!("with policies: {} KiB", (resident() - begin) / 1024);

    let mut engine = Engine::default();
    let start = Instant::now();
    engine.set_cluster(&Arc::new(cluster.clone()));
    println!("from nothing: {:?}", start.elapsed());
    for n in 0..110 {
        // Each of another app, and policies select them all.
        let n = n * 3;
        let local = Local {
            key: key(n),
            labels: labels(n),
            ports: ports.clone(),
            addresses: address(n).into(),
            shared: Box::default(),
            known: true,
        };
        let start = Instant::now();
        engine.set_local(&format!("eth{n}").into(), Some(local));
        if n % 9 == 0 {
            println!(
                "a pod of this node: {:?}, {} profiles",
                start.elapsed(),
                engine.profiles.iter().count()
            );
        }
    }
    let start = Instant::now();
    let all = engine.elements();
    println!(
        "{} elements: {:?}, {} classes, {} kinds of peers, {} profiles",
        all.len(),
        start.elapsed(),
        engine.classes.iter().count(),
        engine.policies.peers.len(),
        engine.profiles.iter().count()
    );
    drop(all);
    engine.forget_changes();
    println!("all: {} KiB", (resident() - begin) / 1024);

    let (mut come, mut go) = (Vec::new(), Vec::new());
    for n in PODS..PODS + 1000 {
        for (wanted, times) in [(Some(peer(n, &ports)), &mut come), (None, &mut go)] {
            cluster.peers.set(&key(n), wanted);
            let now = Arc::new(cluster.clone());
            let start = Instant::now();
            engine.set_cluster(&now);
            engine.take_change();
            times.push(start.elapsed());
        }
    }
    println!(
        "a pod comes, goes (worst, median): {:?} {:?}",
        worst_and_median(come),
        worst_and_median(go)
    );

    let (mut come, mut go, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for n in POLICIES..POLICIES + 40 {
        for (add, times) in [(true, &mut come), (false, &mut go)] {
            let new = policy(n);
            let policies = Arc::make_mut(&mut cluster.policies);
            match add {
                true => drop(policies.insert(new.key.clone(), new)),
                false => drop(policies.remove(&new.key)),
            }
            let now = Arc::new(cluster.clone());
            let start = Instant::now();
            engine.set_cluster(&now);
            let change = engine.take_change();
            times.push(start.elapsed());
            sizes.push(change.added.len() + change.removed.len());
        }
    }
    sizes.sort_unstable();
    println!(
        "a policy comes, goes (worst, median): {:?} {:?}",
        worst_and_median(come),
        worst_and_median(go)
    );
    println!("elements that a policy changes: {} to {}", sizes[0], sizes[sizes.len() - 1]);
    println!("at the end: {} KiB", (resident() - begin) / 1024);
}
