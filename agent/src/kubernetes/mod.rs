//! What the agent is to the API server beside a reader of it (`source`): the definition of its own
//! resource, and what it writes back.
//!
//! | room | what it decides |
//! |---|---|
//! | `crd` | the resource NodeConfig, made from the types that are read and written |
//! | `status` | what the agent makes of the NodeConfig: pure |
//! | `report` | when what is written: status, Events, the Node's condition |

pub mod crd;
pub mod report;
pub mod status;
