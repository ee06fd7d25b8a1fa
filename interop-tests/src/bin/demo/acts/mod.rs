//! The play, act by act. Each act shows what the real commands say, and ends in an
//! error with words when something is not as it was said to be.

mod anycast;
mod opening;
mod pods;
mod trouble;

use std::time::Instant;

use anyhow::Result;

use crate::stage::Stage;

/// Plays all of it, and takes everything down.
pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    stage.title("flock", "two ToRs, three nodes, IPv6 and IPv4; no Kubernetes, no overlay, no NAT");
    let mut company = opening::build(stage)?;
    opening::start(stage, &mut company)?;
    opening::speak(stage, &company)?;
    opening::ask_tors(stage, &company)?;
    pods::attach(stage, &mut company)?;
    pods::talk(stage, &company)?;
    anycast::share(stage, &company)?;
    anycast::follow_readiness(stage, &company)?;
    trouble::kill(stage, &mut company)?;
    trouble::drain(stage, &company)?;
    pods::detach(stage, &mut company)?;
    let start = Instant::now();
    drop(company);
    stage.tick(&format!(
        "agents, routers, namespaces and files are gone ({:.1} s)",
        start.elapsed().as_secs_f64()
    ));
    Ok(())
}
