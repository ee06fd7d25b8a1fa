//! Which address a pod gets. Decides: which networks can be a pool, which address of a pool is
//! next, who holds what, and when a released address may be used again. Leaves to others: which
//! pools a pod may use (`annotations`), writing it down (`store`), and the kernel (`dataplane`).
//!
//! Everything here is pure: the time is a parameter (a [`Duration`](std::time::Duration) since
//! any fixed moment, monotonic), so is the randomness, and so is the question whether the kernel
//! already routes an address. One task owns the [`Ipam`]; there is no lock.

mod algo;
mod error;
mod identity;
mod ledger;
mod network;
mod pool4;
mod pool6;
mod pools;

pub use algo::{BadIpAlgo, IpAlgo, IpAlgoField};
pub use error::{Conflict, IpamError};
pub use identity::{PodIdentity, app_name};
pub use network::{BadNetwork, address, network4, network6, pool_v4, pool_v6};
pub use pools::{FamilyPlan, Granted, Ipam, Note, PoolCounters};
