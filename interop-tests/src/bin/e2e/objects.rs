//! The objects of scenarios: workloads as JSON, which is YAML too.

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
}

impl<'a> Workload<'a> {
    /// Pods with nothing special.
    pub(crate) fn new(name: &'a str, replicas: u32) -> Self {
        Self { name, replicas, annotations: &[], node: None, linger: 0 }
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
                "template": {
                    "metadata": {
                        "labels": { "app": self.name },
                        "annotations": self.annotations.iter()
                            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
                            .collect::<Map<_, _>>(),
                    },
                    "spec": self.pod_spec(),
                },
            },
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
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "args": ["serve", "--linger", self.linger.to_string()],
                "ports": [{ "containerPort": PORT }],
                "livenessProbe": probe("/healthz"),
                "readinessProbe": readiness,
            }],
        });
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
