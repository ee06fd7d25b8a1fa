//! NetworkPolicy: which packets the pods of this node may be sent and may send
//! (docs/decisions/0027).
//!
//! | room | what it decides |
//! |---|---|
//! | `labels` | labels and selectors, as small as can be: there may be ten thousand |
//! | `model` | a policy as it is acted on |
//! | `parse` | what of the API's shape is good, and what is meant where nothing is said |
//! | `blocks`, `ports` | what lists of blocks and of ports come to, and how they are cut where they overlap |
//! | `engine` | the elements of the table in the kernel, and what changes in it |
//! | `judge` | the API's own definition, for people who ask why |
//! | `gate` | how the rest of the agent lets pods in and out, and asks |
//! | `task` | what is taken together; `task/kernel` when the kernel is changed, and what is said when it refuses |
//! | `view`, `explain` | what people are told |

mod blocks;
pub mod engine;
mod explain;
mod gate;
pub mod judge;
pub mod labels;
pub mod model;
pub mod parse;
mod ports;
mod task;
mod view;

pub use engine::{Engine, Isolation, Local};
pub use explain::explain;
pub use gate::{Attached, Gate, Standing};
pub use labels::{Labels, Selector};
pub use model::{NamedPort, Peer, Policy, PolicyKey, PortMatch, PortWish, Protocol, Rule};
pub use task::{Parts, View, start};
pub use view::{dropped, report};
