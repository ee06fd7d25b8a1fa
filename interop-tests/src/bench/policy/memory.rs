//! What of the agent is resident when it knows of very many pods.

use std::path::Path;

use anyhow::Result;

use super::place::{Place, Size};
use crate::bench::bgp::usage;

/// Megabytes.
#[derive(Debug, Clone, Copy)]
pub struct Resident {
    /// With few pods.
    pub few: f64,
    /// With many and no policies: what reading so many files takes, and not policies.
    pub unpoliced: f64,
    /// The same process, when policies are there as well.
    pub many: f64,
    /// A new process that finds many.
    pub restarted: f64,
}

/// Measures all four.
pub fn resident(dir: &Path, few: Size, many: Size) -> Result<Resident> {
    let mut place = Place::new(dir)?;
    place.populate(few)?;
    let few = megabytes(&mut place)?;
    place.decree(0)?;
    place.populate(Size { policies: 0, ..many })?;
    let unpoliced = megabytes(&mut place)?;
    place.decree(many.policies)?;
    let grown = megabytes(&mut place)?;
    place.node_mut().restart_with(&[])?;
    place.await_quiet()?;
    Ok(Resident { few, unpoliced, many: grown, restarted: megabytes(&mut place)? })
}

fn megabytes(place: &mut Place) -> Result<f64> {
    let pid = place.node_mut().agent()?.pid();
    Ok(usage::of(pid)?.resident as f64 / f64::from(1 << 20))
}
