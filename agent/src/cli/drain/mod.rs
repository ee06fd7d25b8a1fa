//! `flock-agent drain`: takes this node out of service, gently.

mod status;

pub use status::{DrainArgs, DrainSession, DrainState, DrainStatus, Wait};
