//! The status of a NodeConfig.

mod shape;

pub use shape::{Peer, Status};
