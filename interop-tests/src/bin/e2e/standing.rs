//! `--keep`: the cluster stands until Ctrl-C, and this is how to use it.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use rack::wait::interrupted;

use crate::stage::Stage;

/// Tells how to use the cluster and keeps it.
pub(crate) fn stand(stage: &mut Stage) -> Result<()> {
    let cluster = stage.cluster()?;
    println!("\nThe cluster stands until Ctrl-C. In another terminal, as root:\n");
    println!("  kubectl   {} get pods -A -o wide", cluster.kubectl().by_hand());
    println!("  tor       ip netns exec {} bash", cluster.tor().netns().name());
    for node in cluster.nodes() {
        println!("  {:<9} {}", node.name(), node.machine()?.way_in());
    }
    println!("\n  Logs and files are below {}", cluster.dir().display());
    while !interrupted() {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
