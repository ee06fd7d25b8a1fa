//! Clusters at random: few names, few labels, few addresses, so that everything meets everything.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::policy::engine::{Engine, Local};
use crate::policy::judge::{End, PodEnd};
use crate::policy::labels::{Labels, Requirement, Selector};
use crate::policy::model::{
    NamedPort, Peer, Policy, PolicyKey, PortMatch, PortWish, Protocol, Rule,
};
use crate::policy::parse::namespace_labels;
use crate::source::{Cluster, PeerPod, PodKey, Shards};

const NAMESPACES: [&str; 3] = ["red", "green", "blue"];
const PODS: u8 = 9;
const SHARED: [&str; 4] = ["10.0.0.200", "10.0.0.201", "fd00::c8", "192.0.2.7"];
pub(super) const OUTSIDE: [&str; 6] =
    ["10.0.0.250", "10.9.9.9", "0.0.0.0", "255.255.255.255", "fd00::fa", "2001:db8::9"];

/// Both pictures of a pod: the cluster's, and, if it is attached here, the node's.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    pub(super) key: PodKey,
    pub(super) labels: Arc<Labels>,
    pub(super) ports: Arc<[NamedPort]>,
    pub(super) own: Vec<IpAddr>,
    pub(super) claimed: Vec<IpAddr>,
    /// Host links; the second one carries what it claims.
    pub(super) links: Vec<Arc<str>>,
    /// What the API server has of it: nothing, or perhaps other labels than the node.
    pub(super) seen: bool,
    stale: Option<Arc<Labels>>,
}

impl Pod {
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.own.iter().chain(&self.claimed).copied().collect()
    }

    pub(super) fn end(&self, address: IpAddr) -> End {
        let pod = PodEnd {
            key: self.key.clone(),
            labels: self.labels.clone(),
            ports: self.ports.clone(),
        };
        End { pod: Some(pod), addresses: vec![address] }
    }

    fn locals(&self) -> Vec<(Arc<str>, Local)> {
        let local = |addresses: Vec<IpAddr>| Local {
            key: self.key.clone(),
            labels: self.labels.clone(),
            ports: self.ports.clone(),
            addresses: addresses.into(),
            shared: self.claimed.clone().into(),
            known: true,
        };
        let places = [self.addresses(), self.claimed.clone()];
        self.links.iter().cloned().zip(places.map(local)).collect()
    }

    fn peer(&self) -> Option<Arc<PeerPod>> {
        let labels = match &self.stale {
            Some(stale) if !self.links.is_empty() => stale.clone(),
            _ => self.labels.clone(),
        };
        (self.seen || self.links.is_empty()).then(|| {
            Arc::new(PeerPod {
                labels,
                ports: self.ports.clone(),
                addresses: self.own.clone().into(),
                claimed: self.claimed.clone().into(),
            })
        })
    }
}

pub(super) struct World {
    rng: SmallRng,
    pub(super) pods: BTreeMap<u8, Pod>,
    pub(super) cluster: Cluster,
    told: BTreeMap<Arc<str>, Local>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        let (pods, told) = (BTreeMap::new(), BTreeMap::new());
        Self { rng, pods, cluster: Cluster::default(), told }
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.rng.random_range(0..end)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from.choose(&mut self.rng).unwrap().clone()
    }

    pub(super) fn fill(&mut self) {
        for number in 1..=PODS {
            self.change_pod(number);
        }
        for _ in 0..self.below(8) {
            self.change_policy();
        }
        for _ in 0..self.below(3) {
            self.change_namespace();
        }
    }

    /// Something happens.
    pub(super) fn happen(&mut self) {
        match self.below(10) {
            0..=4 => {
                let number = u8::try_from(self.below(usize::from(PODS))).unwrap() + 1;
                if self.chance(25) {
                    self.pods.remove(&number);
                } else {
                    self.change_pod(number);
                }
            }
            5 => self.change_namespace(),
            6 if self.chance(15) => self.cluster.policies = Shards::default(),
            _ => self.change_policy(),
        }
    }

    /// Tells an engine, by differences where it has them.
    pub(super) fn tell(&mut self, engine: &mut Engine) {
        let wanted: BTreeMap<Arc<str>, Local> = self.pods.values().flat_map(Pod::locals).collect();
        let told = std::mem::take(&mut self.told);
        let cluster_first = self.chance(50);
        self.cluster.peers = self.peers();
        if cluster_first {
            engine.set_cluster(&Arc::new(self.cluster.clone()));
        }
        let links: BTreeSet<_> = told.keys().chain(wanted.keys()).cloned().collect();
        for link in links {
            engine.set_local(&link, wanted.get(&link).cloned());
        }
        engine.set_cluster(&Arc::new(self.cluster.clone()));
        self.told = wanted;
    }

    /// An engine that knows nothing but how it is now.
    pub(super) fn fresh(&self) -> Engine {
        let mut engine = Engine::default();
        engine.set_cluster(&Arc::new(self.cluster.clone()));
        for (link, local) in &self.told {
            engine.set_local(link, Some(local.clone()));
        }
        engine
    }

    fn peers(&self) -> Shards<PodKey, Arc<PeerPod>> {
        let mut peers = self.cluster.peers.clone();
        let gone: Vec<PodKey> = peers.iter().map(|(key, _)| key.clone()).collect();
        let now: BTreeMap<PodKey, Arc<PeerPod>> =
            self.pods.values().filter_map(|pod| Some((pod.key.clone(), pod.peer()?))).collect();
        for key in gone.iter().filter(|key| !now.contains_key(key)) {
            peers.set(key, None);
        }
        now.into_iter().for_each(|(key, pod)| peers.set(&key, Some(pod)));
        peers
    }

    /// Whose word counts for an address.
    pub(super) fn holders(&self, address: IpAddr) -> Vec<&Pod> {
        let known = |pod: &Pod| pod.seen || pod.links.is_empty();
        let owns = |pod: &Pod| known(pod) && pod.own.contains(&address);
        let given = |pod: &Pod| !pod.links.is_empty() && pod.own.contains(&address);
        let owned = self.pods.values().any(|pod| owns(pod) || given(pod));
        let holds = |pod: &&Pod| {
            let claims = pod.claimed.contains(&address);
            let here = !pod.links.is_empty() && (claims || pod.own.contains(&address));
            owns(pod) || here || !owned && known(pod) && claims
        };
        self.pods.values().filter(holds).collect()
    }

    fn labels(&mut self) -> Arc<Labels> {
        let mut labels = BTreeMap::new();
        for key in ["a", "b", "c"] {
            if self.chance(60) {
                labels.insert(key.to_owned(), self.pick(&["x", "y", ""]).to_owned());
            }
        }
        Arc::new(Labels::new(&labels))
    }

    fn change_pod(&mut self, number: u8) {
        let before = self.pods.get(&number).cloned();
        // Its name stays while it is there; what else is known of it may change.
        let key = before.as_ref().map(|pod| pod.key.clone()).unwrap_or_else(|| PodKey {
            namespace: self.pick(&NAMESPACES).into(),
            name: format!("pod-{number}").into(),
        });
        let own: [IpAddr; 2] = [
            format!("10.0.0.{number}").parse().unwrap(),
            format!("fd00::{number:x}").parse().unwrap(),
        ];
        let own = if self.chance(70) { own.to_vec() } else { vec![self.pick(&own)] };
        let mut claimed = Vec::new();
        if self.chance(40) {
            let address = match self.chance(20) {
                // Another pod's own.
                true => format!("10.0.0.{}", self.below(usize::from(PODS)) + 1),
                false => self.pick(&SHARED).to_owned(),
            };
            claimed.push(address.parse().unwrap());
        }
        let mut ports = Vec::new();
        for name in ["http", "web"] {
            if self.chance(40) {
                let (protocol, port) = (self.protocol(), self.pick(&[80, 81, 8080]));
                ports.push(NamedPort { name: name.into(), protocol, port });
            }
        }
        let links = match self.below(4) {
            0 | 1 => vec![],
            2 => vec![format!("eth{number}").into()],
            _ => vec![format!("eth{number}").into(), format!("eth{number}.2").into()],
        };
        let stale = if self.chance(20) { Some(self.labels()) } else { None };
        let (labels, seen) = (self.labels(), self.chance(80));
        let ports = ports.into();
        self.pods.insert(number, Pod { key, labels, ports, own, claimed, links, seen, stale });
    }

    fn change_namespace(&mut self) {
        let name = self.pick(&NAMESPACES);
        let namespaces = Arc::make_mut(&mut self.cluster.namespaces);
        if self.rng.random_range(0..4) == 0 {
            namespaces.remove(name);
        } else {
            let team = ["x", "y"].choose(&mut self.rng).unwrap();
            let labels = BTreeMap::from([("t".to_owned(), (*team).to_owned())]);
            namespaces.insert(name.to_owned(), Arc::new(namespace_labels(name, labels)));
        }
    }

    fn change_policy(&mut self) {
        let namespace = self.pick(&NAMESPACES).into();
        let key = PolicyKey { namespace, name: format!("policy-{}", self.below(3)).into() };
        let gone = self.chance(30);
        let policy = Policy {
            key: key.clone(),
            pods: self.selector(&["a", "b", "c"]),
            ingress: self.rules(),
            egress: self.rules(),
        };
        self.cluster.policies.set(&key, (!gone).then(|| Arc::new(policy)));
    }

    fn selector(&mut self, keys: &[&str]) -> Selector {
        let mut requirements = Vec::new();
        for _ in 0..self.below(3) {
            let key: Box<str> = self.pick(keys).into();
            let values = match self.chance(30) {
                true => vec!["x".into(), "y".into()],
                false => vec![self.pick(&["x", "y", "z"]).into()],
            };
            requirements.push(match self.below(4) {
                0 => Requirement::NotIn(key, values),
                1 => Requirement::Exists(key),
                2 => Requirement::DoesNotExist(key),
                _ => Requirement::In(key, values),
            });
        }
        Selector { requirements }
    }

    fn rules(&mut self) -> Option<Vec<Rule>> {
        if self.chance(35) {
            return None;
        }
        let rule = |world: &mut Self| {
            let peers = match world.chance(20) {
                true => None,
                false => Some((0..=world.below(3)).map(|_| world.peer()).collect()),
            };
            let ports = match world.chance(30) {
                true => None,
                false => Some((0..=world.below(3)).map(|_| world.wish()).collect()),
            };
            Rule { peers, ports }
        };
        Some((0..self.below(4)).map(|_| rule(self)).collect())
    }

    fn peer(&mut self) -> Peer {
        match self.below(10) {
            0 => Peer::Nobody,
            1..=3 => {
                let blocks: [(&str, &[&str]); 8] = [
                    ("0.0.0.0/0", &["10.0.0.0/30", "255.255.255.255/32"]),
                    ("10.0.0.0/24", &[]),
                    ("10.0.0.0/29", &["10.0.0.1/32"]),
                    ("10.0.0.4/30", &[]),
                    ("10.0.0.192/26", &["10.0.0.200/32"]),
                    ("::/0", &["fd00::/16"]),
                    ("fd00::/64", &["fd00::2/127"]),
                    ("::/0", &[]),
                ];
                let (cidr, except) = self.pick(&blocks);
                let except = except.iter().map(|text| text.parse().unwrap()).collect();
                Peer::Block { cidr: cidr.parse().unwrap(), except }
            }
            _ => {
                let namespaces = match self.below(3) {
                    0 => None,
                    1 => Some(self.selector(&["t"])),
                    _ => {
                        let name = self.pick(&NAMESPACES).into();
                        let label = "kubernetes.io/metadata.name".into();
                        let requirements = vec![Requirement::In(label, vec![name])];
                        Some(Selector { requirements })
                    }
                };
                Peer::Pods { namespaces, pods: self.selector(&["a", "b", "c"]) }
            }
        }
    }

    fn protocol(&mut self) -> Protocol {
        self.pick(&[Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::Sctp])
    }

    fn wish(&mut self) -> PortWish {
        let ports = match self.below(6) {
            0 => PortMatch::All,
            1 => PortMatch::Named(self.pick(&["http", "web"]).into()),
            2 => {
                let (first, last) =
                    self.pick(&[(80, 90), (79, 8080), (1, 65535), (81, 82), (8080, 9000)]);
                PortMatch::Numbers(first, last)
            }
            _ => {
                let port = self.pick(&[80, 81, 8080]);
                PortMatch::Numbers(port, port)
            }
        };
        PortWish { protocol: self.protocol(), ports }
    }
}
