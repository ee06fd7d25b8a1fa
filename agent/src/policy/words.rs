//! Policies in words, for people: who may, and on which ports. Pure.

use super::labels::{Requirement, Selector};
use super::model::{Peer, PortMatch, PortWish, Rule};

/// So many peers or ports are named; more are counted.
const NAMED: usize = 8;

/// Who may by a rule.
pub fn peers(rule: &Rule) -> String {
    match &rule.peers {
        None => "anybody".to_owned(),
        Some(peers) => listed(peers.iter().map(peer), " or "),
    }
}

/// Which ports a rule allows.
pub fn ports(rule: &Rule) -> String {
    match &rule.ports {
        None => "everything".to_owned(),
        Some(ports) => listed(ports.iter().map(port), ", "),
    }
}

/// One peer.
pub fn peer(peer: &Peer) -> String {
    match peer {
        Peer::Pods { namespaces: None, pods } => format!("{} of this namespace", pods_with(pods)),
        Peer::Pods { namespaces: Some(namespaces), pods } if namespaces.requirements.is_empty() => {
            format!("{} of every namespace", pods_with(pods))
        }
        Peer::Pods { namespaces: Some(namespaces), pods } => {
            format!("{} of namespaces with {}", pods_with(pods), selector(namespaces))
        }
        Peer::Block { cidr, except } if except.is_empty() => cidr.to_string(),
        Peer::Block { cidr, except } => {
            format!("{cidr} without {}", listed(except.iter().map(ToString::to_string), ", "))
        }
        Peer::Nobody => "a peer that this version does not know, which is nobody".to_owned(),
    }
}

/// One entry of `ports`.
pub fn port(wish: &PortWish) -> String {
    let protocol = wish.protocol;
    match &wish.ports {
        PortMatch::All => format!("all of {protocol}"),
        PortMatch::Numbers(first, last) if first == last => format!("{protocol} {first}"),
        PortMatch::Numbers(first, last) => format!("{protocol} {first}-{last}"),
        PortMatch::Named(name) => format!("{protocol} {name}"),
    }
}

fn pods_with(selected: &Selector) -> String {
    match selected.requirements.is_empty() {
        true => "all pods".to_owned(),
        false => format!("pods with {}", selector(selected)),
    }
}

fn selector(selector: &Selector) -> String {
    selector.requirements.iter().map(requirement).collect::<Vec<_>>().join(" and ")
}

fn requirement(requirement: &Requirement) -> String {
    match requirement {
        Requirement::In(key, values) => match values.as_slice() {
            [value] => format!("{key}={value}"),
            values => format!("{key} in ({})", values.join(", ")),
        },
        Requirement::NotIn(key, values) => match values.as_slice() {
            [value] => format!("{key}!={value}"),
            values => format!("{key} not in ({})", values.join(", ")),
        },
        Requirement::Exists(key) => format!("label {key}"),
        Requirement::DoesNotExist(key) => format!("no label {key}"),
    }
}

fn listed(items: impl ExactSizeIterator<Item = String>, between: &str) -> String {
    let more = items.len().saturating_sub(NAMED);
    let mut text = items.take(NAMED).collect::<Vec<_>>().join(between);
    if text.is_empty() {
        return "nothing".to_owned();
    }
    if more > 0 {
        text.push_str(&format!("{between}{more} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::Protocol;

    #[test]
    fn rules_in_words() {
        let with = |requirements: Vec<Requirement>| Selector { requirements };
        let is = |key: &str, value: &str| Requirement::In(key.into(), vec![value.into()]);
        let tcp = |ports| PortWish { protocol: Protocol::Tcp, ports };
        let rule = Rule {
            peers: Some(vec![
                Peer::Pods { namespaces: None, pods: with(vec![is("app", "web")]) },
                Peer::Pods {
                    namespaces: Some(with(vec![Requirement::NotIn(
                        "env".into(),
                        vec!["dev".into(), "test".into()],
                    )])),
                    pods: Selector::default(),
                },
                Peer::Pods {
                    namespaces: Some(Selector::default()),
                    pods: with(vec![Requirement::DoesNotExist("x".into())]),
                },
                Peer::Block {
                    cidr: "10.0.0.0/8".parse().unwrap(),
                    except: vec!["10.1.0.0/16".parse().unwrap()],
                },
            ]),
            ports: Some(vec![
                tcp(PortMatch::Numbers(80, 80)),
                tcp(PortMatch::Numbers(1, 9)),
                tcp(PortMatch::All),
                tcp(PortMatch::Named("http".into())),
            ]),
        };
        assert_eq!(
            peers(&rule),
            "pods with app=web of this namespace or all pods of namespaces with env not in (dev, \
             test) or pods with no label x of every namespace or 10.0.0.0/8 without 10.1.0.0/16"
        );
        assert_eq!(ports(&rule), "TCP 80, TCP 1-9, all of TCP, TCP http");
        let open = Rule { peers: None, ports: None };
        assert_eq!((peers(&open), ports(&open)), ("anybody".into(), "everything".into()));
        let many = vec![tcp(PortMatch::All); 10];
        let many = Rule { peers: Some(vec![]), ports: Some(many) };
        assert_eq!(peers(&many), "nothing");
        assert!(ports(&many).ends_with("all of TCP, 2 more"));
    }
}
