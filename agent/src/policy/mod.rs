//! NetworkPolicy: which packets the pods of this node may be sent and may send
//! (docs/decisions/0027).
//!
//! | room | what it decides |
//! |---|---|
//! | `labels` | labels and selectors, as small as can be: there may be ten thousand |
//! | `model` | a policy as it is acted on |
//! | `parse` | what of the API's shape is good, and what is meant where nothing is said |

pub mod labels;
pub mod model;
pub mod parse;

pub use labels::{Labels, Selector};
pub use model::{NamedPort, Peer, Policy, PolicyKey, PortMatch, PortWish, Protocol, Rule};
