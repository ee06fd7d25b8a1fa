//! The objects of scenarios: workloads and NodeConfigs as JSON, which is YAML too.

use rack::cluster::plan::{self, TOR_ASN};
use rack::cluster::workload::{IMAGE, PORT};
use serde_json::{Map, Value, json};

/// A Deployment of the workload.
#[derive(Debug, Clone)]
pub(crate) struct Workload<'a> {
    /// Its name, and the label `app`.
    pub(crate) name: &'a str,
    /// How many pods.
    pub(crate) replicas: u32,
    /// Annotations of the pods.
    pub(crate) annotations: &'a [(&'a str, &'a str)],
    /// On this node alone; otherwise spread, one node as often as another.
    pub(crate) node: Option<&'a str>,
    /// How long a pod goes on serving when it is asked to end.
    pub(crate) linger: u32,
    /// Whether kubelet asks for their health and readiness all the time.
    pub(crate) probed: bool,
}

impl<'a> Workload<'a> {
    /// Pods with nothing special.
    pub(crate) fn new(name: &'a str, replicas: u32) -> Self {
        Self { name, replicas, annotations: &[], node: None, linger: 0, probed: true }
    }

    /// With these annotations on the pods.
    pub(crate) fn annotated(mut self, annotations: &'a [(&'a str, &'a str)]) -> Self {
        self.annotations = annotations;
        self
    }

    /// On one node.
    pub(crate) fn on(mut self, node: &'a str) -> Self {
        self.node = Some(node);
        self
    }

    /// Serving on for so many seconds.
    pub(crate) fn lingering(mut self, seconds: u32) -> Self {
        self.linger = seconds;
        self
    }

    /// Without probes, for very many of them.
    pub(crate) fn unprobed(mut self) -> Self {
        self.probed = false;
        self
    }

    /// The Deployment.
    pub(crate) fn deployment(&self) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": self.name, "namespace": "default" },
            "spec": {
                "replicas": self.replicas,
                "selector": { "matchLabels": { "app": self.name } },
                // One more while one is replaced, and never one less.
                "strategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
                "template": self.template(),
            },
        })
    }

    /// What each of its pods is.
    pub(crate) fn template(&self) -> Value {
        json!({
            "metadata": {
                "labels": { "app": self.name },
                "annotations": self.annotations.iter()
                    .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
                    .collect::<Map<_, _>>(),
            },
            "spec": self.pod_spec(),
        })
    }

    fn pod_spec(&self) -> Value {
        let probe = |path: &str| {
            json!({
                "httpGet": { "path": path, "port": PORT },
                "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 3,
            })
        };
        let mut readiness = probe("/readyz");
        if let Some(readiness) = readiness.as_object_mut() {
            readiness.insert("failureThreshold".to_owned(), 1.into());
        }
        let mut spec = json!({
            "terminationGracePeriodSeconds": self.linger + 5,
            // A pod of a node that is gone is somebody's question, not the clock's.
            "tolerations": [{ "operator": "Exists", "effect": "NoExecute" }],
            "containers": [{
                "name": "workload",
                "image": image(),
                "imagePullPolicy": "IfNotPresent",
                "args": ["serve", "--linger", self.linger.to_string()],
                "ports": [{ "containerPort": PORT }],
            }],
        });
        let container = spec.pointer_mut("/containers/0").and_then(Value::as_object_mut);
        if let (true, Some(container)) = (self.probed, container) {
            container.insert("livenessProbe".to_owned(), probe("/healthz"));
            container.insert("readinessProbe".to_owned(), readiness);
        }
        let placing = match self.node {
            Some(node) => ("nodeSelector", json!({ "kubernetes.io/hostname": node })),
            None => (
                "topologySpreadConstraints",
                json!([{
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": { "matchLabels": { "app": self.name } },
                }]),
            ),
        };
        if let Some(spec) = spec.as_object_mut() {
            spec.insert(placing.0.to_owned(), placing.1);
        }
        spec
    }
}

/// The image of the workload; a cluster of somebody else may have it under another name.
fn image() -> String {
    std::env::var("FLOCK_E2E_WORKLOAD").unwrap_or_else(|_| IMAGE.to_owned())
}

/// The name of the session that every node has with the ToR.
pub(crate) const TOR: &str = "tor";

/// The name of the session over IPv4 that a scenario adds.
pub(crate) const TOR_V4: &str = "tor-v4";

/// A Secret with the password of a session.
pub(crate) fn secret(name: &str, password: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "namespace": crate::flock::NAMESPACE },
        "stringData": { "password": password },
    })
}

/// A node's NodeConfig.
#[derive(Debug, Clone)]
pub(crate) struct NodeConfig {
    pub(crate) node: u8,
    /// On everything that it announces.
    pub(crate) communities: Vec<String>,
    /// Also a session over IPv4.
    pub(crate) over_ipv4: bool,
    /// The Secret with the password of that session.
    pub(crate) secret: Option<&'static str>,
    /// Whether it names the networks of its pods; otherwise they are the Node's `podCIDRs`.
    pub(crate) networks: bool,
    /// A keepalive of the first session, to be longer than its hold time.
    pub(crate) keepalive: Option<&'static str>,
}

impl NodeConfig {
    /// As every scenario begins with it: one session, over IPv6, with both families.
    pub(crate) fn new(node: u8) -> Self {
        let communities = vec![format!("{}:100", plan::node_asn(node))];
        Self { node, communities, over_ipv4: false, secret: None, networks: true, keepalive: None }
    }

    /// The object.
    pub(crate) fn object(&self) -> Value {
        let wire = plan::node_wire(self.node);
        let mut tor = json!({
            "name": TOR, "address": wire.near(true), "asn": TOR_ASN,
            "families": ["ipv6-unicast", "ipv4-unicast"],
        });
        if let (Some(keepalive), Some(tor)) = (self.keepalive, tor.as_object_mut()) {
            tor.insert("keepalive".to_owned(), keepalive.into());
        }
        let mut peers = vec![tor];
        if self.over_ipv4 {
            let mut peer = json!({
                "name": TOR_V4, "address": wire.near(false), "asn": TOR_ASN, "connectRetry": "1s",
            });
            if let (Some(secret), Some(peer)) = (self.secret, peer.as_object_mut()) {
                let reference = json!({ "secretRef": { "name": secret, "key": "password" } });
                peer.insert("password".to_owned(), reference);
            }
            peers.push(peer);
        }
        let bgp = json!({
            "asn": plan::node_asn(self.node), "communities": self.communities, "peers": peers,
        });
        let [cidr6, cidr4] = [true, false].map(|ipv6| plan::pods(self.node, ipv6));
        let spec = match self.networks {
            true => json!({ "cidr6": [cidr6], "cidr4": [cidr4], "bgp": bgp }),
            false => json!({ "bgp": bgp }),
        };
        json!({
            "apiVersion": "flock.fritzlab.net/v1alpha1",
            "kind": "NodeConfig",
            "metadata": { "name": plan::node_name(self.node) },
            "spec": spec,
        })
    }
}
