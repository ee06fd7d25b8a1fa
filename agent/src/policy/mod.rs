//! NetworkPolicy: which packets the pods of this node may be sent and may send
//! (docs/decisions/0027).
//!
//! | room | what it decides |
//! |---|---|
//! | `labels` | labels and selectors, as small as can be: there may be ten thousand |
//! | `model` | a policy as it is acted on |
//! | `gate` | how the rest of the agent lets pods in and out, and asks |
//! | `task` | when the kernel is changed, and what is said when it refuses |

mod gate;
pub mod labels;
pub mod model;
mod task;

pub use labels::{Labels, Selector};
pub use model::{NamedPort, Peer, Policy, PolicyKey, PortMatch, PortWish, Protocol, Rule};
pub use gate::{Attached, Gate, Standing};
pub use task::{Parts, View, start};
