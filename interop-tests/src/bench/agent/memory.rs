//! What of the agent is resident, with more and more pods.

use std::path::Path;

use anyhow::Result;

use super::start::Stand;
use crate::bench::bgp::usage;

/// A node has so many peers.
const PEERS: u8 = 2;

/// Megabytes at each of these numbers of pods, which must grow.
pub fn resident(dir: &Path, populations: &[usize]) -> Result<Vec<(usize, f64)>> {
    let mut stand = Stand::new(dir, PEERS)?;
    let mut figures = Vec::new();
    let mut pods = 0;
    for population in populations {
        stand.attach(population - pods)?;
        pods = *population;
        let pid = stand.place.node_mut().agent()?.pid();
        figures.push((pods, usage::of(pid)?.resident as f64 / f64::from(1 << 20)));
    }
    stand.dismiss()?;
    Ok(figures)
}
