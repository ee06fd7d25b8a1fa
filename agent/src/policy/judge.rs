//! What the API says of one connection: its definition, applied to one pair of ends, rule by rule, with
//! the reasons. Decides nothing that is in force: it is what people are told who ask why, and what
//! the engine is tested against, so it shares none of its tables.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::labels::Labels;
use super::model::{NamedPort, Peer, Policy, PolicyKey, PortMatch, PortWish, Rule};
use super::parse::namespace_labels;
use crate::source::PodKey;

/// One end of a connection.
#[derive(Debug, Clone)]
pub struct End {
    /// Who it is; `None`: nobody that selectors know, also a pod in its node's own namespace.
    pub pod: Option<PodEnd>,
    /// The address that it has in this connection. Of several, blocks match if one is in them.
    pub addresses: Vec<IpAddr>,
}

/// A pod as an end.
#[derive(Debug, Clone)]
pub struct PodEnd {
    /// Its name.
    pub key: PodKey,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Its named ports.
    pub ports: Arc<[NamedPort]>,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The IP number of its protocol.
    pub protocol: u8,
    /// Its destination port, where the protocol has ports.
    pub port: Option<u16>,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it may pass.
    pub allowed: bool,
    /// Both ends are the same pod, which may always speak to itself.
    pub itself: bool,
    /// What the sender's policies say.
    pub egress: Side,
    /// What the receiver's policies say.
    pub ingress: Side,
}

/// What the policies of one end say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Side {
    /// Whether it may pass, as far as this end is concerned.
    pub allowed: bool,
    /// The policies that isolate it; none: everything is allowed.
    pub isolated_by: Vec<PolicyKey>,
    /// What allows it.
    pub allowed_by: Vec<Reason>,
}

/// A rule that allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Whose rule.
    pub policy: PolicyKey,
    /// Which one, counted from 0 as in `spec.ingress[0]`.
    pub rule: usize,
    /// What of it matches.
    pub words: String,
}

/// What is known of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// All policies.
    pub policies: &'a BTreeMap<PolicyKey, Arc<Policy>>,
    /// The labels of namespaces.
    pub namespaces: &'a BTreeMap<String, Arc<Labels>>,
}

/// Whether a packet that begins a connection may pass.
pub fn judge(known: Known<'_>, from: &End, to: &End, packet: Packet) -> Verdict {
    let named: &[NamedPort] = to.pod.as_ref().map_or(&[], |pod| &pod.ports);
    let ports = |rule: &Rule| matching_port(rule, packet, named);
    let egress = side(known, from, to, |policy| policy.egress.as_deref(), "to", ports);
    let ingress = side(known, to, from, |policy| policy.ingress.as_deref(), "from", ports);
    let key = |end: &End| end.pod.as_ref().map(|pod| pod.key.clone());
    let itself = key(from).is_some() && key(from) == key(to);
    let allowed = itself || egress.allowed && ingress.allowed;
    Verdict { allowed, itself, egress, ingress }
}

fn side(
    known: Known<'_>,
    subject: &End,
    other: &End,
    rules: impl Fn(&Policy) -> Option<&[Rule]>,
    word: &str,
    ports: impl Fn(&Rule) -> Option<String>,
) -> Side {
    let mut side = Side::default();
    if let Some(pod) = &subject.pod {
        for (key, policy) in known.policies {
            if key.namespace != pod.key.namespace || !policy.pods.matches(&pod.labels) {
                continue;
            }
            let Some(rules) = rules(policy) else { continue };
            side.isolated_by.push(key.clone());
            for (n, rule) in rules.iter().enumerate() {
                let peer = matching_peer(known, key, rule, other);
                let (Some(peer), Some(port)) = (peer, ports(rule)) else { continue };
                let words = format!("{word} {peer}, {port}");
                side.allowed_by.push(Reason { policy: key.clone(), rule: n, words });
            }
        }
    }
    side.allowed = side.isolated_by.is_empty() || !side.allowed_by.is_empty();
    side
}

fn matching_peer(known: Known<'_>, policy: &PolicyKey, rule: &Rule, other: &End) -> Option<String> {
    let Some(peers) = &rule.peers else { return Some("anybody".into()) };
    let found = peers.iter().find(|peer| match peer {
        Peer::Pods { namespaces, pods } => other.pod.as_ref().is_some_and(|pod| {
            let namespace = &pod.key.namespace;
            let unknown = || Arc::new(namespace_labels(namespace, BTreeMap::new()));
            let labels = || known.namespaces.get(&**namespace).cloned().unwrap_or_else(unknown);
            pods.matches(&pod.labels)
                && match namespaces {
                    None => *namespace == policy.namespace,
                    Some(selector) => selector.matches(&labels()),
                }
        }),
        Peer::Block { cidr, except } => other.addresses.iter().any(|address| {
            cidr.contains(address) && !except.iter().any(|network| network.contains(address))
        }),
        Peer::Nobody => false,
    });
    found.map(Peer::to_string)
}

fn matching_port(rule: &Rule, packet: Packet, named: &[NamedPort]) -> Option<String> {
    let Some(wishes) = &rule.ports else { return Some("any port".into()) };
    let matches = |wish: &&PortWish| {
        if wish.protocol.number() != packet.protocol {
            return false;
        }
        match (&wish.ports, packet.port) {
            (PortMatch::All, _) => true,
            (PortMatch::Numbers(first, last), Some(port)) => (first..=last).contains(&&port),
            (PortMatch::Named(name), Some(port)) => named.iter().any(|known| {
                known.protocol == wish.protocol && known.name == *name && known.port == port
            }),
            (_, None) => false,
        }
    };
    wishes.iter().find(matches).map(PortWish::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parse::from_manifest;

    fn pod(name: &str, labels: &[(&str, &str)], address: &str) -> End {
        let (namespace, name) = name.split_once('/').unwrap();
        let key = PodKey { namespace: namespace.into(), name: name.into() };
        let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let http =
            NamedPort { name: "http".into(), protocol: super::super::Protocol::Tcp, port: 8080 };
        let pod = PodEnd { key, labels: Arc::new(Labels::new(&labels)), ports: [http].into() };
        End { pod: Some(pod), addresses: vec![address.parse().unwrap()] }
    }

    #[test]
    fn reasons_are_told() {
        let text = "
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
    - from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.9.0.0/16]}}]
      ports: [{port: 9000, endPort: 9100}]
    - from:
        - podSelector: {matchLabels: {app: front}}
        - namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [ops, dev]}]}
          podSelector: {matchExpressions: [{key: old, operator: DoesNotExist}]}
      ports: [{port: http}, {protocol: UDP}]
---
metadata: {name: nothing, namespace: shop}
spec: {podSelector: {}, policyTypes: [Egress]}
";
        let policies = from_manifest(text).unwrap().into_iter();
        let policies = policies.map(|policy| (policy.key.clone(), Arc::new(policy))).collect();
        let namespaces = BTreeMap::new();
        let known = Known { policies: &policies, namespaces: &namespaces };
        let web = pod("shop/web-1", &[("app", "web")], "10.0.0.1");
        let tcp = |port| Packet { protocol: 6, port: Some(port) };
        let says = |from: &End, packet: Packet| {
            let side = judge(known, from, &web, packet).ingress;
            let words =
                side.allowed_by.iter().map(|r| format!("{}[{}] {}", r.policy, r.rule, r.words));
            assert_eq!(side.allowed, !side.allowed_by.is_empty());
            words.collect::<Vec<_>>().join("; ")
        };
        let ops = pod("ops/a", &[], "10.9.0.1");
        let here = "shop/web[1] from pods !old of namespaces kubernetes.io/metadata.name in (ops,dev), TCP http";
        assert_eq!(says(&ops, tcp(8080)), here);
        assert_eq!(says(&ops, tcp(80)), "");
        assert_eq!(says(&ops, tcp(9000)), "");
        assert_eq!(says(&pod("ops/b", &[("old", "")], "10.9.0.1"), tcp(8080)), "");
        let udp = Packet { protocol: 17, port: Some(5) };
        let front = pod("shop/f", &[("app", "front")], "10.1.0.1");
        assert_eq!(says(&front, udp), "shop/web[1] from pods app=front of its namespace, UDP");
        let block = "shop/web[0] from 10.0.0.0/8 except 10.9.0.0/16, TCP 9000-9100";
        assert_eq!(says(&front, tcp(9100)), block);
        let outside = End { pod: None, addresses: vec!["10.200.0.1".parse().unwrap()] };
        assert_eq!(says(&outside, tcp(9050)), block);
        assert_eq!(says(&outside, Packet { protocol: 1, port: None }), "");

        let verdict = judge(known, &front, &web, udp);
        assert!(verdict.ingress.allowed && !verdict.egress.allowed && !verdict.allowed);
        assert_eq!(verdict.egress.isolated_by.len(), 1);
        let verdict = judge(known, &web, &web, tcp(1));
        assert!(verdict.itself && verdict.allowed && !verdict.egress.allowed);
        let verdict = judge(known, &outside, &ops, tcp(1));
        assert!(verdict.allowed && verdict.ingress.isolated_by.is_empty());
    }
}
