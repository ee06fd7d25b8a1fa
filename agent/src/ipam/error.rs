//! Why there is no address. Decides the words; each names the pool or the address, who is in the
//! way, and what to do.

use std::net::IpAddr;

use ipnet::IpNet;

use super::pools::PoolCounters;

/// An address that somebody else holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("address {addr} is held by {held_by}; choose another one or remove that pod first")]
pub struct Conflict {
    /// The address.
    pub addr: IpAddr,
    /// The holder's key.
    pub held_by: String,
}

/// Why nothing was allocated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IpamError {
    /// Every pool that the pod may use is full.
    #[error("{}; {REMEDY}", .0.iter().map(describe).collect::<Vec<_>>().join("; "))]
    Exhausted(Vec<PoolCounters>),
    /// The plan has no pool.
    #[error(
        "no pool to allocate from; add a network to spec.cidr6 or spec.cidr4 of the NodeConfig"
    )]
    NoPool,
}

const REMEDY: &str =
    "delete pods, widen the pod's cidr annotation, or add a network to the NodeConfig";

fn describe(pool: &PoolCounters) -> String {
    let PoolCounters { net, size, held, cooling, elsewhere } = pool;
    let pods = if *held == 1 { "pod" } else { "pods" };
    let routed = match elsewhere {
        0 => String::new(),
        n => format!(", {n} already routed elsewhere"),
    };
    match net {
        // Every one of them was looked at.
        _ if u128::from(*held) >= *size => {
            format!(
                "pool {net}: all {size} usable addresses are held ({held} {pods}), {cooling} cooling{routed}"
            )
        }
        IpNet::V4(_) => {
            format!(
                "pool {net}: none of {size} usable addresses is free ({held} {pods}), {cooling} cooling{routed}"
            )
        }
        IpNet::V6(_) => {
            format!(
                "pool {net}: no free address found in 16 tries ({held} {pods} of {size} usable addresses), {cooling} cooling{routed}"
            )
        }
    }
}
