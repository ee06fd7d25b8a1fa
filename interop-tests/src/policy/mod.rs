//! NetworkPolicy, looked at from outside: what the API's definition says of a packet, and what becomes of
//! a real one.
//!
//! Nothing here knows how the agent does it. [`oracle`] reads policies, namespaces and pods as plain values
//! and says whether a connection may be; [`rig`] is two nodes with pods, a network beyond them and files
//! that steer both agents (`steer`); [`station`] answers and sends in one of its namespaces; [`round`] sends many
//! probes at once; [`judge`] awaits that packets and oracle agree, and tells where they do not.
//! [`random`] invents policies.

pub mod judge;
pub mod oracle;
mod packets;
pub mod people;
pub mod random;
pub mod rig;
pub mod round;
pub mod station;
mod steer;
