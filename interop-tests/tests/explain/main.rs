//! `flock-agent bgp explain` is right: situations that are made for real, with the agent, kernels and
//! routers, and what is said of each. The words of every situation are also in a table beside the code
//! (`agent/src/explain/tests`); here it is shown that the facts behind them are found.
//!
//! | module | what is explained |
//! |---|---|
//! | `scene` | what the others share |
//! | `origin` | networks, pods and annotations; readiness, withdrawal, addresses of nobody |
//! | `peers` | sessions that are down, families, passwords, a router that does not read |
//! | `node` | drains, bad and missing NodeConfigs, pacing, what the kernel refuses |
//! | `learned` | which path won, what was refused, what is kept, what two claim |
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

#[path = "../peering/impostor.rs"]
#[allow(dead_code, reason = "shared, and not all of it is wanted here")]
mod impostor;
mod learned;
mod node;
mod origin;
mod peers;
mod scene;
