//! A NetworkPolicy as it is acted on: validated, and without what the API leaves to be guessed.

use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::labels::Selector;

/// A policy's name; a copy costs nothing, because the picture of all policies is copied with each change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PolicyKey {
    /// Its namespace; `default` where a manifest leaves it out.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Namespace and name.
    pub key: PolicyKey,
    /// Which pods of its namespace it isolates.
    pub pods: Selector,
    /// What they may be sent; `None`: it does not speak of that (policyTypes).
    pub ingress: Option<Vec<Rule>>,
    /// What they may send; `None`: likewise.
    pub egress: Option<Vec<Rule>>,
}

/// What is allowed: any of these peers, on any of these ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// `None`: anybody (no `from`, no `to`, or an empty one).
    pub peers: Option<Vec<Peer>>,
    /// `None`: everything, whatever the protocol (no `ports`, or an empty list).
    pub ports: Option<Vec<PortWish>>,
}

/// Who may.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Pods, never those in their node's own namespace (hostNetwork).
    Pods {
        /// Of which namespaces; `None`: of the policy's own.
        namespaces: Option<Selector>,
        /// Which of them.
        pods: Selector,
    },
    /// Addresses.
    Block {
        /// These,
        cidr: IpNet,
        /// but not those.
        except: Vec<IpNet>,
    },
    /// Nobody: a peer that says something newer than this agent. The API wants it closed.
    Nobody,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pods { namespaces, pods } => {
                match pods.requirements.is_empty() {
                    true => f.write_str("all pods")?,
                    false => write!(f, "pods {pods}")?,
                }
                match namespaces {
                    None => f.write_str(" of its namespace"),
                    Some(all) if all.requirements.is_empty() => f.write_str(" of all namespaces"),
                    Some(namespaces) => write!(f, " of namespaces {namespaces}"),
                }
            }
            Self::Block { cidr, except } => {
                write!(f, "{cidr}")?;
                for (n, network) in except.iter().enumerate() {
                    let word = if n == 0 { " except " } else { ", " };
                    write!(f, "{word}{network}")?;
                }
                Ok(())
            }
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

/// One entry of `ports`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortWish {
    /// TCP where nothing is said.
    pub protocol: Protocol,
    /// Which of its ports.
    pub ports: PortMatch,
}

impl fmt::Display for PortWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.protocol)?;
        match &self.ports {
            PortMatch::All => Ok(()),
            PortMatch::Numbers(first, last) if first == last => write!(f, " {first}"),
            PortMatch::Numbers(first, last) => write!(f, " {first}-{last}"),
            PortMatch::Named(name) => write!(f, " {name}"),
        }
    }
}

/// Which ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PortMatch {
    /// All.
    All,
    /// From, to; one port where both are the same. `endPort` is the second.
    Numbers(u16, u16),
    /// What the destination pod calls so, of this protocol.
    Named(Arc<str>),
}

/// The protocols that policies speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// 6.
    Tcp,
    /// 17.
    Udp,
    /// 132.
    Sctp,
}

impl Protocol {
    /// Its IP number.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// A port of a container that has a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedPort {
    /// The name.
    pub name: Arc<str>,
    /// TCP where nothing is said.
    pub protocol: Protocol,
    /// `containerPort`.
    pub port: u16,
}
