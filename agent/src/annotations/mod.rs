//! What a pod asks for by annotation, and what it gets. Decides: how each annotation is read
//! ([`parse`]) and what follows from it together with the node's configuration ([`resolve`]).
//! Leaves taking an address to `ipam` and reading the pod to the sources.
//!
//! A bad annotation is an error that names it and its value, so that the application team sees
//! in the pod's events what to change. `ip-algo` alone only warns: it is about how an address
//! looks, and no pod should stay down for that.

mod parse;
mod plan;

pub use crate::ipam::{IpAlgo, IpAlgoField};
pub(crate) use parse::ready;
pub use parse::{PREFIX, PodWishes, parse};
pub use plan::{AddressPlan, Primary, resolve};

/// The name of the `ip-algo` annotation, on pods and on the NodeConfig itself.
pub const IP_ALGO: &str = "flock.fritzlab.net/ip-algo";

/// An annotation that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// One annotation, by itself or on this node.
    #[error("annotation {annotation}: {value:?}: {problem}")]
    Bad {
        /// Its whole name.
        annotation: String,
        /// The value, or the part of it that is meant.
        value: String,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// No family is left for the pod.
    #[error("the pod would have no address: {0}")]
    NoFamily(String),
}

impl AnnotationError {
    fn bad(name: &str, value: impl ToString, problem: impl ToString) -> Self {
        Self::Bad {
            annotation: format!("{PREFIX}{name}"),
            value: value.to_string(),
            problem: problem.to_string(),
        }
    }
}
