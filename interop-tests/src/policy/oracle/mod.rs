//! Whether a connection may be, by the definition of `networking.k8s.io/v1` NetworkPolicy and nothing else.
//!
//! Objects are the values that a manifest is. The oracle is slow and simple on purpose: it walks through
//! every policy for every question, so that it can be read beside the API's documentation. What it leaves
//! to others: whether objects are valid. It reads what the API server would have accepted.
//!
//! Where the API says nothing, it follows what flock promises: whose packet it is is said by where it comes
//! from, who a peer is by its address; an address that several pods name is what all of them are, unless
//! one has it as `status.podIPs`.

mod ports;
mod selectors;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;

use serde_json::Value;

pub use ports::Protocol;

use crate::manifests::PREFIX;

/// Everything that is known of a cluster.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// NetworkPolicies.
    pub policies: Vec<Value>,
    /// Namespaces; one that is not here has no label but its name.
    pub namespaces: Vec<Value>,
    /// Pods, with `spec.nodeName` and `status.podIPs`.
    pub pods: Vec<Value>,
}

/// Who sends or receives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// A pod, as `NAMESPACE/NAME`.
    Pod(String),
    /// A node itself.
    Node(String),
    /// Somebody else.
    Outside,
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Who really is there.
    pub who: Who,
    /// Which of its addresses is used.
    pub address: IpAddr,
}

/// What may be, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it may.
    pub allowed: bool,
    /// By what.
    pub reason: String,
}

impl Verdict {
    fn yes(reason: impl Into<String>) -> Self {
        Self { allowed: true, reason: reason.into() }
    }

    fn no(reason: impl Into<String>) -> Self {
        Self { allowed: false, reason: reason.into() }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.allowed { "allowed" } else { "denied" };
        write!(f, "{word}: {}", self.reason)
    }
}

/// The two directions; each is judged for itself, and both have to agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    /// The name of the rules and of the policy type, and where a rule's peers are.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Ingress => ("ingress", "Ingress", "from"),
            Self::Egress => ("egress", "Egress", "to"),
        }
    }
}

/// What is asked: the far end as the rules of one direction see it, and the destination's port.
#[derive(Debug)]
struct Asked<'a> {
    peer: IpAddr,
    destination: Vec<&'a Value>,
    protocol: Protocol,
    port: u16,
}

/// Whether a connection (or an echo request) from one end to the other may be; the port is that of the
/// destination, and none of ICMP.
pub fn allowed(world: &World, from: &End, to: &End, protocol: Protocol, port: u16) -> Verdict {
    if let (Who::Pod(one), Who::Pod(other)) = (&from.who, &to.who)
        && one == other
    {
        return Verdict::yes("a pod reaches itself");
    }
    for (pod, node) in [(&from.who, &to.who), (&to.who, &from.who)] {
        if let (Who::Pod(pod), Who::Node(node)) = (pod, node)
            && world.pod(pod).is_some_and(|pod| text(pod, "/spec/nodeName") == node)
        {
            return Verdict::yes("a pod and its own node");
        }
    }
    let egress = direction(world, Direction::Egress, from, to, protocol, port);
    if !egress.allowed {
        return egress;
    }
    let ingress = direction(world, Direction::Ingress, to, from, protocol, port);
    if !ingress.allowed {
        return ingress;
    }
    Verdict::yes(format!("{}; {}", egress.reason, ingress.reason))
}

/// What one direction says: `subject` is the pod whose policies are asked, `far` the other end.
fn direction(
    world: &World,
    direction: Direction,
    subject: &End,
    far: &End,
    protocol: Protocol,
    port: u16,
) -> Verdict {
    let (rules_at, kind, _) = direction.names();
    let Who::Pod(name) = &subject.who else {
        return Verdict::yes(format!("{kind}: not a pod"));
    };
    let Some(pod) = world.pod(name).filter(|pod| !on_host_network(pod)) else {
        return Verdict::yes(format!("{kind}: {name} is no pod that policies know"));
    };
    // A named port is the destination's: the selected pod's own, or that of the peer.
    let destination = match direction {
        Direction::Ingress => vec![pod],
        Direction::Egress => world.owners(far.address),
    };
    let asked = Asked { peer: far.address, destination, protocol, port };
    let selecting = |policy: &&Value| isolates(policy, kind) && selects(policy, pod);
    let selecting: Vec<_> = world.policies.iter().filter(selecting).collect();
    if selecting.is_empty() {
        return Verdict::yes(format!("{kind}: no policy selects {name}"));
    }
    for policy in &selecting {
        for (number, rule) in list(policy, &format!("/spec/{rules_at}")).iter().enumerate() {
            if rule_allows(world, direction, policy, rule, &asked) {
                let policy = named(policy);
                return Verdict::yes(format!("{kind}: rule {number} of {policy} allows it"));
            }
        }
    }
    let names: Vec<_> = selecting.iter().map(|policy| named(policy)).collect();
    Verdict::no(format!("{kind}: no rule of {} allows it to {name}", names.join(", ")))
}

fn rule_allows(
    world: &World,
    direction: Direction,
    policy: &Value,
    rule: &Value,
    asked: &Asked<'_>,
) -> bool {
    let peers = list(rule, &format!("/{}", direction.names().2));
    let by_peer = peers.is_empty() || peers.iter().any(|peer| is_peer(world, policy, peer, asked));
    let ports = list(rule, "/ports");
    // A rule without ports is about everything, also what has none.
    let by_port = ports.is_empty() || ports.iter().any(|one| ports::allows(one, asked));
    by_peer && by_port
}

/// Whether the far end is one of those that a peer of a rule speaks of.
fn is_peer(world: &World, policy: &Value, peer: &Value, asked: &Asked<'_>) -> bool {
    if let Some(block) = present(peer, "/ipBlock") {
        let inside = |cidr: &str| selectors::contains(cidr, asked.peer);
        let except = list(block, "/except").iter().filter_map(Value::as_str);
        return inside(text(block, "/cidr")) && !except.into_iter().any(inside);
    }
    let owners = world.owners(asked.peer);
    let (of_pods, of_namespaces) =
        (present(peer, "/podSelector"), present(peer, "/namespaceSelector"));
    !owners.is_empty()
        && owners.iter().all(|pod| {
            let in_namespace = match of_namespaces {
                Some(selector) => selectors::matches(selector, &world.namespace_labels(pod)),
                None => namespace(pod) == namespace(policy),
            };
            let is_pod = of_pods
                .is_none_or(|selector| selectors::matches(selector, &selectors::labels(pod)));
            in_namespace && is_pod
        })
}

/// Whether a policy is about a direction at all. Without `policyTypes` it is about ingress, and about
/// egress if it has a rule for that.
fn isolates(policy: &Value, kind: &str) -> bool {
    match list(policy, "/spec/policyTypes") {
        [] => kind == "Ingress" || !list(policy, "/spec/egress").is_empty(),
        types => types.iter().any(|one| one == kind),
    }
}

fn selects(policy: &Value, pod: &Value) -> bool {
    let everything = Value::Null;
    let selector = present(policy, "/spec/podSelector").unwrap_or(&everything);
    namespace(policy) == namespace(pod) && selectors::matches(selector, &selectors::labels(pod))
}

impl World {
    /// A pod by `NAMESPACE/NAME`.
    pub fn pod(&self, name: &str) -> Option<&Value> {
        self.pods.iter().find(|pod| named(pod) == name)
    }

    /// The pods that an address stands for.
    fn owners(&self, address: IpAddr) -> Vec<&Value> {
        let known = || self.pods.iter().filter(|pod| !on_host_network(pod));
        let own: Vec<_> = known().filter(|pod| own_addresses(pod).contains(&address)).collect();
        if !own.is_empty() {
            return own;
        }
        known().filter(|pod| claimed_addresses(pod).contains(&address)).collect()
    }

    /// The labels of a pod's namespace, its name among them.
    fn namespace_labels(&self, pod: &Value) -> selectors::Labels {
        let name = namespace(pod);
        let found = self.namespaces.iter().find(|one| text(one, "/metadata/name") == name);
        let mut labels = found.map(selectors::labels).unwrap_or_default();
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        labels
    }
}

fn own_addresses(pod: &Value) -> Vec<IpAddr> {
    let all = list(pod, "/status/podIPs").iter().map(|one| text(one, "/ip"));
    all.filter_map(|ip| ip.parse().ok()).collect()
}

/// What its annotations say that it has beside.
fn claimed_addresses(pod: &Value) -> Vec<IpAddr> {
    let annotation = |key: &str| {
        let annotations = pod.pointer("/metadata/annotations");
        annotations?.get(format!("{PREFIX}{key}"))?.as_str()
    };
    let written = ["addresses", "anycast"].map(annotation).into_iter().flatten();
    written.flat_map(|list| list.split(',')).filter_map(|one| one.trim().parse().ok()).collect()
}

fn on_host_network(pod: &Value) -> bool {
    pod.pointer("/spec/hostNetwork") == Some(&Value::Bool(true))
}

/// `NAMESPACE/NAME` of an object.
pub(crate) fn named(object: &Value) -> String {
    format!("{}/{}", namespace(object), text(object, "/metadata/name"))
}

pub(crate) fn namespace(object: &Value) -> &str {
    let written = object.pointer("/metadata/namespace").and_then(Value::as_str);
    written.unwrap_or("default")
}

/// What is at a pointer, as text; nothing when it is not there.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a pointer; none and empty are the same.
fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What is at a pointer and is not null.
fn present<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    object.pointer(pointer).filter(|value| !value.is_null())
}
