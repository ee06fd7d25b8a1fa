//! What the agent is to the API server beside a reader of it (`source::kubernetes`): how it is
//! reached, the definition of its own resource, and what is written back.

pub mod client;
pub mod crd;
pub mod status;
