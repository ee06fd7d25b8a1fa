//! NetworkPolicy: which packets the pods of this node may be sent and may send
//! (docs/decisions/0027).
//!
//! | room | what it decides |
//! |---|---|
//! | `labels` | labels and selectors, as small as can be: there may be ten thousand |
//! | `model` | a policy as it is acted on |

pub mod labels;
pub mod model;

pub use labels::{Labels, Selector};
pub use model::{NamedPort, Peer, Policy, PolicyKey, PortMatch, PortWish, Protocol, Rule};
