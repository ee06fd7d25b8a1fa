//! What the agent is to the API server beside a reader of it (`source`): the definition of its own
//! resource, and what it writes back.

pub mod crd;
pub mod status;
