//! After everything: on each node flock's record, the kernel and Kubernetes tell of the same pods.

use anyhow::Result;

use crate::leaks;
use crate::objects::Workload;
use crate::stage::{Stage, deploy, remove};

const APP: &str = "leaks";

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    let cluster = stage.flock()?;
    leaks::ensure_none(cluster)?;
    println!("     nothing is there beside the pods");
    deploy(cluster.kubectl(), &Workload::new(APP, 6))?;
    leaks::ensure_none(cluster)?;
    remove(cluster.kubectl(), APP)?;
    leaks::ensure_none(cluster)?;
    println!("     nor after six more came and went");
    Ok(())
}
