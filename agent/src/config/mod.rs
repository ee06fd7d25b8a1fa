//! The NodeConfig: what an operator writes, and what the agent believes. Decides whether a
//! configuration can be used as a whole, and its defaults; leaves to others to apply it.
//!
//! [`schema`] is the shape on the wire (group `flock.fritzlab.net`, version `v1alpha1`), kept as
//! lenient as the words allow so that [`validate`] can name every problem at once, each with its
//! path. What comes out, [`NodeConfig`], has only values that make sense; nothing past this
//! module sees a schema type.

mod bgp;
mod bounds;
mod community;
mod duration;
mod model;
mod peer;
mod prefix_rule;
mod problem;
pub mod schema;
mod session;
pub mod validate;

pub use community::{Communities, Community, LargeCommunity};
pub use model::{
    Bfd, Bgp, Endpoint, Export, Families, FamilyDefaults, Import, NextHop, NodeConfig, Password,
    Peer, PeerAsn, Readiness, Role, Ttl,
};
pub use prefix_rule::PrefixRule;
pub use problem::{ConfigError, Problem};
pub use validate::{parse, parse_object, validate};

/// RFC 1123, as Kubernetes asks of the names of most objects; so one cannot say more in a field
/// selector than it should.
pub fn is_object_name(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=253).contains(&name.len())
        && name.chars().all(|c| edge(c) || c == '-' || c == '.')
        && name.starts_with(edge)
        && name.ends_with(edge)
}
