//! A node full of pods at once through containerd, beside ptp and beside the runtime alone.

use anyhow::Result;
use rack::bench::report::{Report, Row};
use rack::bench::runtime::{self, Extent, Rounds};
use rack::bench::samples::Samples;

use crate::options::Run;

/// Which of somebody's samples.
type Pick = fn(&Rounds) -> &Samples;

const QUICK: Extent = Extent { pods: 20, at_once: 10, rounds: 1 };
const FULL: Extent = Extent { pods: 110, at_once: 16, rounds: 3 };

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let extent = run.extent(QUICK, FULL);
    eprintln!("containerd: {} pods, {} at a time", extent.pods, extent.at_once);
    let measured = runtime::measure(&run.dir, extent)?;
    let picks: [(&str, Pick); 2] =
        [("started", |rounds| &rounds.started), ("removed", |rounds| &rounds.removed)];
    for (what, pick) in picks {
        let name = format!("{} pods at once through containerd, {what}", extent.pods);
        let ours = pick(&measured.flock);
        report.add(Row::beside(&name, ours, "ptp IPv4", pick(&measured.ptp)).at_most(1.0));
        report.add(Row::beside(&name, ours, "no network", pick(&measured.floor)));
    }
    Ok(())
}
