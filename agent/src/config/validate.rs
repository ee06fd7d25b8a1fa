//! From text to a [`NodeConfig`]. Decides whether a document can be used, and everything outside
//! `spec.bgp`; leaves the speaker's part to `bgp`, `peer` and `session`.
//!
//! Two passes: the shape first (one problem, with its path, because what follows a wrong shape
//! cannot be trusted), then the meaning (all problems at once).

use std::time::Duration;

use ipnet::{Ipv4Net, Ipv6Net};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::duration::{self, Bounds};
use super::model::{FamilyDefaults, NodeConfig, Readiness};
use super::problem::{At, ConfigError, Problem};
use super::{bgp, bounds, schema};
use crate::annotations::IP_ALGO;
use crate::ipam::{self, BadNetwork};

const API_VERSION: &str = "flock.fritzlab.net/v1alpha1";
const KIND: &str = "NodeConfig";
const READINESS_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads one NodeConfig from YAML (and so from JSON).
pub fn parse(yaml: &str) -> Result<NodeConfig, ConfigError> {
    let object: Value =
        serde_saphyr::from_str_with_options(yaml, crate::yaml::options()).map_err(|error| {
            let message = format!("not readable as YAML: {error}; correct the document there");
            Problem { path: String::new(), value: None, message }
        })?;
    parse_object(&object)
}

/// Reads one NodeConfig from an object, as the API server gives it.
pub fn parse_object(object: &Value) -> Result<NodeConfig, ConfigError> {
    if !object.is_object() {
        let message = "not a NodeConfig; write an object with apiVersion, kind, metadata and spec";
        return Err(
            Problem { path: String::new(), value: None, message: message.to_owned() }.into()
        );
    }
    let config: schema::NodeConfig =
        serde_path_to_error::deserialize(object).map_err(|error| shape_problem(object, &error))?;
    validate(&config)
}

/// The problem of a wrong shape, with what stands there, unless that may be a password: people
/// write it where a reference belongs, or misspell the key.
fn shape_problem(object: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let message = error.inner().to_string();
    let tells_of_a_key =
        ["missing field", "unknown field"].iter().any(|words| message.starts_with(words));
    let shown = |path: &Path| match path.to_string().as_str() {
        "." => String::new(),
        path => path.to_owned(),
    };
    match secrecy(error.path()) {
        Secrecy::Within(depth) if !(depth > 1 && tells_of_a_key) => {
            let path = shown(error.path());
            let end = path.find(PASSWORD).map_or(path.len(), |at| at + PASSWORD.len());
            Problem {
                path: path.get(..end).unwrap_or_default().to_owned(),
                value: None,
                message: "not a reference to a password; write file: with an absolute path, or \
                          secretRef: with name and key, and never the password itself"
                    .to_owned(),
            }
        }
        Secrecy::None if !tells_of_a_key => {
            Problem { path: shown(error.path()), value: stands_at(object, error.path()), message }
        }
        _ => Problem { path: shown(error.path()), value: None, message },
    }
}

const PASSWORD: &str = "password";

/// Whether a place of the document may show a password.
enum Secrecy {
    /// It is a peer's password, or so many keys inside of it.
    Within(usize),
    /// It is around one: a peer, the list of peers, and so on.
    Around,
    None,
}

fn secrecy(path: &Path) -> Secrecy {
    let around = ["spec", "bgp", "peers", "", PASSWORD];
    let mut segments = path.iter();
    for expected in around {
        match segments.next() {
            None => return Secrecy::Around,
            Some(Segment::Map { key }) if key == expected => {}
            Some(Segment::Seq { .. }) if expected.is_empty() => {}
            // A list in the place of an object: its parts may be anything.
            Some(Segment::Seq { .. }) => return Secrecy::Around,
            Some(_) => return Secrecy::None,
        }
    }
    Secrecy::Within(segments.count())
}

fn stands_at(object: &Value, path: &Path) -> Option<String> {
    let mut here = object;
    for segment in path.iter() {
        here = match segment {
            Segment::Map { key } => here.get(key)?,
            Segment::Seq { index } => here.get(index)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    match here {
        Value::String(text) => Some(text.clone()),
        // What is inside of it is not looked at here.
        Value::Object(_) => None,
        other => Some(other.to_string()),
    }
}

/// Checks the meaning and fills in the defaults.
pub fn validate(config: &schema::NodeConfig) -> Result<NodeConfig, ConfigError> {
    let mut problems = Vec::new();
    let mut root = At::new("", &mut problems);
    if config.api_version != API_VERSION {
        root.key("apiVersion").wrong(&config.api_version, format!("write {API_VERSION}"));
    }
    if config.kind != KIND {
        root.key("kind").wrong(&config.kind, format!("write {KIND}"));
    }
    if config.metadata.name.is_empty() {
        root.key("metadata").key("name").amiss("it is empty; write the name of the node");
    }
    let mut warnings = Vec::new();
    let annotations = config.metadata.annotations.as_ref();
    let ip_algo = annotations.and_then(|all| all.get(IP_ALGO)).and_then(|text| {
        text.parse()
            .map_err(|error| {
                let place = format!("metadata.annotations[{IP_ALGO}]");
                warnings.push(format!("{place}: {text:?}: {error}; it is not followed"));
            })
            .ok()
    });
    let spec = &config.spec;
    let mut at = root.key("spec");
    let cidr6 = pools(spec.cidr6.as_deref(), ipam::pool_v6, at.key("cidr6"));
    let cidr4 = pools(spec.cidr4.as_deref(), ipam::pool_v4, at.key("cidr4"));
    let mtu =
        spec.mtu.and_then(|mtu| at.key("mtu").number(mtu, bounds::LEAST_MTU, bounds::MOST_MTU));
    let bgp = spec.bgp.as_ref().and_then(|bgp| bgp::read(bgp, at.key("bgp")));
    let readiness = spec
        .readiness
        .as_ref()
        .and_then(|wish| readiness(wish, spec.bgp.as_ref(), at.key("readiness"), &mut warnings));
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let defaults = spec.defaults.clone().unwrap_or_default();
    Ok(NodeConfig {
        name: config.metadata.name.clone(),
        generation: config.metadata.generation,
        ip_algo,
        cidr6,
        cidr4,
        defaults: FamilyDefaults {
            ipv6: defaults.ipv6.unwrap_or(true),
            ipv4: defaults.ipv4.unwrap_or(true),
        },
        mtu,
        readiness,
        log_drops: spec.network_policy.as_ref().and_then(|wish| wish.log_drops).unwrap_or(false),
        bgp,
        warnings,
    })
}

impl NodeConfig {
    /// The pools of a node that names none: those Kubernetes gave it. Has no effect on a
    /// configuration with a pool of its own, of either family.
    pub fn use_pod_cidrs(&mut self, pod_cidrs: &[String]) -> Result<(), ConfigError> {
        if !self.cidr6.is_empty() || !self.cidr4.is_empty() {
            return Ok(());
        }
        let mut problems = Vec::new();
        let mut root = At::new("", &mut problems);
        let mut node = root.key("spec");
        let mut at = node.key("podCIDRs");
        let (mut cidr6, mut cidr4) = (Vec::new(), Vec::new());
        for (i, text) in pod_cidrs.iter().enumerate() {
            if text.contains(':') {
                cidr6.extend(at.index(i).take(text, ipam::pool_v6(text)));
            } else {
                cidr4.extend(at.index(i).take(text, ipam::pool_v4(text)));
            }
        }
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        (self.cidr6, self.cidr4) = (cidr6, cidr4);
        Ok(())
    }
}

/// A list of pools, none of which overlaps another.
fn pools<N: Pool>(
    list: Option<&[String]>,
    read: impl Fn(&str) -> Result<N, BadNetwork>,
    mut at: At<'_>,
) -> Vec<N> {
    let mut found: Vec<N> = Vec::new();
    for (i, text) in at.at_most(bounds::NETWORKS, list).iter().enumerate() {
        let mut at = at.index(i);
        let Some(net) = at.take(text, read(text.trim())) else {
            continue;
        };
        match found.iter().find(|other| other.overlaps(&net)) {
            Some(other) if *other == net => at.wrong(text, "it is listed twice; list it once"),
            Some(other) => {
                at.wrong(text, format!("it overlaps {}; keep one of the two", other.to_string()));
            }
            None => found.push(net),
        }
    }
    found
}

trait Pool: Copy + PartialEq + ToString {
    fn overlaps(&self, other: &Self) -> bool;
}

impl Pool for Ipv6Net {
    fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }
}

impl Pool for Ipv4Net {
    fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }
}

/// Zero sessions is nothing to wait for.
fn readiness(
    wish: &schema::Readiness,
    bgp: Option<&schema::Bgp>,
    mut at: At<'_>,
    warnings: &mut Vec<String>,
) -> Option<Readiness> {
    let peers = bgp.and_then(|bgp| bgp.peers.as_ref()).map_or(0, Vec::len);
    let bounds = Bounds {
        least: Duration::from_secs(1),
        most: Duration::from_secs(3600),
        whole_seconds: false,
    };
    let timeout = match &wish.timeout {
        Some(span) => duration::read(span, bounds, at.key("timeout")),
        None => Some(READINESS_TIMEOUT),
    };
    let sessions = wish.sessions.unwrap_or(1);
    let count = at.key("sessions").number(sessions, 0, u32::MAX)?;
    // Not refused: the timeout makes the node ready all the same, only later than it could be.
    if usize::try_from(count).is_ok_and(|count| count > peers) {
        warnings.push(format!(
            "spec.readiness.sessions: {count}: there are {peers} peers in spec.bgp.peers, so the \
             node becomes ready only when the timeout is over"
        ));
    }
    timeout.filter(|_| count > 0).map(|timeout| Readiness { sessions: count, timeout })
}
