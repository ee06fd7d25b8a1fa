//! What the agent is to the API server beside a reader of it (`source::kubernetes`): how it is
//! reached, the definition of its own resource, and what is written back.
//!
//! | room | what it decides |
//! |---|---|
//! | `client` | how the API server is reached, and how long an answer may take |
//! | `crd` | the resource NodeConfig, made from the types that are read and written |
//! | `status` | what the agent makes of the NodeConfig: pure |
//! | `report` | when what is written: status, Events, the Node's condition |

pub mod client;
pub mod crd;
pub mod report;
pub mod status;
