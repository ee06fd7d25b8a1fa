//! What the API server told, put together as one picture. Pure but for its log lines: what is told
//! goes in, a `World` comes out. Nothing is taken from the picture because a watch began anew: a list
//! replaces what was known as a whole.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::Value;

use super::objects::{self, Node, Pod};
use super::watch::Told;
use crate::config::{self, NodeConfig, Password};
use crate::source::shared::Pool;
use crate::source::{Away, NodeState, Object, PodKey, Pods, SecretSeen, Secrets, Standing, World};

/// What the API server is asked for, passwords aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Our NodeConfig.
    Config,
    /// Our Node.
    Node,
    /// The pods on it.
    Pods,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Config, Self::Node, Self::Pods];
}

/// All that was told.
pub(super) struct Picture {
    name: String,
    server: String,
    node: NodeState,
    /// The NodeConfig as it was last told.
    config: Option<Value>,
    /// The last one that was good: what a restart begins with.
    good: Option<Value>,
    object: Option<Object>,
    /// `None`: the Node was not seen yet.
    pod_cidrs: Option<Vec<String>>,
    pods: Pods,
    pool: Pool,
    secrets: Secrets,
    /// Since when, and why, nothing is told of a kind; none of the kinds was told at the start.
    silent: BTreeMap<Kind, Away>,
}

/// What a restart begins with.
#[derive(PartialEq)]
pub(super) struct Past {
    pub(super) good: Option<Value>,
    pub(super) deleted: bool,
    pub(super) pod_cidrs: Option<Vec<String>>,
    pub(super) pods: Pods,
}

impl Picture {
    /// Nothing is told yet; `past` is what was known before.
    pub(super) fn new(node: &str, namespace: &str, server: &str, past: Option<Past>) -> Self {
        let reason = format!("{server} has not answered yet");
        let waiting = Away { since: Timestamp::now(), reason: reason.clone() };
        let mut picture = Self {
            name: node.to_owned(),
            server: server.to_owned(),
            node: NodeState::Unknown { reason },
            config: None,
            good: None,
            object: None,
            pod_cidrs: None,
            pods: Pods::complete(),
            pool: Pool::default(),
            secrets: Secrets::of(namespace),
            silent: Kind::ALL.map(|kind| (kind, waiting.clone())).into(),
        };
        if let Some(past) = past {
            picture.pod_cidrs = past.pod_cidrs;
            picture.pods = past.pods;
            picture.config = past.good;
            if picture.config.is_some() {
                picture.evaluate();
            }
            if past.deleted {
                picture.config = None;
                picture.evaluate();
            }
        }
        picture
    }

    pub(super) fn world(&self) -> World {
        World {
            node: self.node.clone(),
            pods: self.pods.clone(),
            problems: Default::default(),
            secrets: self.secrets.clone(),
            object: self.object.clone(),
            away: self.silent.values().min_by_key(|away| away.since).cloned(),
        }
    }

    /// What to begin with after a restart.
    pub(super) fn past(&self) -> Past {
        let deleted = matches!(self.node, NodeState::Known { standing: Standing::Deleted, .. });
        Past {
            good: self.good.clone(),
            deleted,
            pod_cidrs: self.pod_cidrs.clone(),
            pods: self.pods.clone(),
        }
    }

    pub(super) fn hear_config(&mut self, told: Told<DynamicObject>) {
        let Some(now) = self.one(Kind::Config, told) else { return };
        self.object = now.as_ref().map(objects::identity);
        self.config = now.as_ref().map(objects::slim);
        self.evaluate();
    }

    pub(super) fn hear_node(&mut self, told: Told<Node>) {
        // A Node that is not registered yet has no networks either; one that was deleted keeps its
        // own for as long as we run.
        let Some(Some(node)) = self.one(Kind::Node, told) else { return };
        let now = objects::pod_cidrs(&node);
        // One that was made anew has none for a moment. They are never taken away otherwise.
        if now.is_empty() && self.pod_cidrs.as_ref().is_some_and(|known| !known.is_empty()) {
            return;
        }
        self.pod_cidrs = Some(now);
        if self.config.is_some() {
            self.evaluate();
        }
    }

    pub(super) fn hear_pods(&mut self, told: Told<Pod>) {
        match told {
            Told::All(all) => {
                self.answers(Kind::Pods);
                let mut gone: BTreeSet<PodKey> =
                    self.pods.iter().map(|pod| pod.key.clone()).collect();
                for pod in all.into_iter().filter_map(objects::facts) {
                    gone.remove(&pod.key);
                    self.pods.set(&pod.key.clone(), Some(self.pool.facts(pod)));
                }
                for key in gone {
                    self.pods.set(&key, None);
                }
            }
            Told::Changed(pod) => {
                let Some(key) = objects::key(&pod) else { return };
                self.pods.set(&key, objects::facts(pod).map(|pod| self.pool.facts(pod)));
            }
            Told::Gone(pod) => {
                if let Some(key) = objects::key(&pod) {
                    self.pods.set(&key, None);
                }
            }
            Told::Silent(why) => self.falls_silent(Kind::Pods, why),
            Told::Answers => self.answers(Kind::Pods),
            // Not listed in pages.
            Told::Part { .. } => {}
        }
    }

    /// A Secret that the NodeConfig names, as it is now, or why that is not known. What was known
    /// stays while the API server is silent.
    pub(super) fn hear_secret(&mut self, name: &str, seen: SecretSeen) {
        let known = self.secrets.seen().get(name);
        let untold = matches!(seen, SecretSeen::Untold(_));
        if !untold || known.is_none_or(|known| matches!(known, SecretSeen::Untold(_))) {
            self.secrets.set(name, Some(seen));
        }
    }

    /// The Secrets that are wanted, with their keys; all others are forgotten.
    pub(super) fn wanted_secrets(&mut self) -> BTreeMap<String, BTreeSet<String>> {
        let config = self.node.config();
        let peers = config.and_then(|config| config.bgp.as_ref()).into_iter();
        let passwords = peers.flat_map(|bgp| &bgp.peers).filter_map(|peer| peer.password.as_ref());
        let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for password in passwords {
            if let Password::Secret { name, key } = password {
                wanted.entry(name.clone()).or_default().insert(key.clone());
            }
        }
        let seen = self.secrets.seen().keys();
        let unwanted: Vec<String> =
            seen.filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in unwanted {
            self.secrets.set(&name, None);
        }
        wanted
    }

    /// An object of which there is at most one. Outer `None`: nothing is said about it.
    #[expect(clippy::option_option, reason = "nothing said, and said that there is none")]
    fn one<K>(&mut self, kind: Kind, told: Told<K>) -> Option<Option<K>> {
        match told {
            Told::All(all) => {
                self.answers(kind);
                Some(all.into_iter().next())
            }
            Told::Changed(object) => Some(Some(object)),
            Told::Gone(_) => Some(None),
            Told::Silent(why) => {
                self.falls_silent(kind, why);
                None
            }
            Told::Answers => {
                self.answers(kind);
                None
            }
            // Not listed in pages.
            Told::Part { .. } => None,
        }
    }

    /// What the NodeConfig means, together with the Node's networks.
    fn evaluate(&mut self) {
        let place = format!("NodeConfig {}", self.name);
        let found = match &self.config {
            None => Ok(None),
            Some(object) => self.read(object).map(Some),
        };
        if let Ok(Some(config)) = &found {
            let without = config.cidr6.is_empty() && config.cidr4.is_empty();
            if without && self.pod_cidrs.is_none() {
                // Good, but nothing can be served with it before the Node says its networks; what is
                // in force until then stays.
                if let NodeState::Unknown { reason } = &mut self.node {
                    *reason = format!("{place} has no network, and the Node is not known yet");
                }
                return;
            }
            self.good.clone_from(&self.config);
        }
        let (name, server) = (&self.name, &self.server);
        self.node.take(found, &place, || {
            format!("{server} has no NodeConfig named {name}; create it (docs/nodeconfig.md)")
        });
    }

    fn read(&self, object: &Value) -> Result<NodeConfig, String> {
        let mut config = config::parse_object(object).map_err(|error| error.to_string())?;
        if config.cidr6.is_empty() && config.cidr4.is_empty() {
            let networks = self.pod_cidrs.as_deref().unwrap_or_default();
            config.use_pod_cidrs(networks).map_err(|error| format!("of the Node: {error}"))?;
        }
        Ok(config)
    }

    fn falls_silent(&mut self, kind: Kind, reason: String) {
        let reason = format!("{kind}: {reason}", kind = kind.shown());
        if self.silent.is_empty() {
            tracing::warn!(
                server = self.server,
                reason,
                "the API server does not answer; everything goes on from what is known"
            );
        } else {
            tracing::debug!(server = self.server, reason, "the API server still does not answer");
        }
        let began = Away { since: Timestamp::now(), reason: String::new() };
        self.silent.entry(kind).or_insert(began).reason = reason;
    }

    fn answers(&mut self, kind: Kind) {
        if let Some(away) = self.silent.remove(&kind)
            && self.silent.is_empty()
        {
            let lasted = Timestamp::now().duration_since(away.since).as_secs();
            tracing::info!(server = self.server, seconds = lasted, "the API server answers");
        }
    }
}

impl Kind {
    fn shown(self) -> &'static str {
        match self {
            Self::Config => "NodeConfigs",
            Self::Node => "Nodes",
            Self::Pods => "Pods",
        }
    }
}
