//! The whole agent: what happens to a pod, until the router beyond has heard of it.
//!
//! The rooms of [`super::bgp`] are used again: the router at the top of the rack,
//! the kernel's own news in its namespace, the floor and BIRD by `birdc
//! configure` beside us in the same run. New is the node with the real agent,
//! its pods attached by the real plugin.
//!
//! | module | what it holds |
//! |---|---|
//! | [`node`] | a node with the agent, its pods, and manifests ready to be renamed into place |
//! | [`journal`] | the moment when the agent's source had a new picture, from its log |
//! | [`renamed`] | the floor behind a rename: what being told by a file costs at all |
//! | [`change`] | a readiness that flips, an ADD, a DEL, until the router's kernel follows |
//! | [`busy`] | the same while a thousand others change every second |
//! | [`soak`] | changes without end, and what of the agent is resident meanwhile |
//! | [`start`] | kill -9 and a new process, until everything is told |
//! | [`loss`] | packets lost while the agent is killed and started |
//! | [`memory`] | what is resident with few and many pods |
//! | [`rest`] | what a node costs while nothing happens |
//! | [`install`] | a full table into the node's kernel, and out of it |
//! | [`peers`] | few and many peers: what is resident, a start, a change until the last has heard of it |

pub mod busy;
pub mod change;
pub mod install;
pub mod journal;
pub mod loss;
pub mod memory;
pub mod node;
pub mod peers;
pub mod renamed;
pub mod rest;
pub mod soak;
pub mod start;
