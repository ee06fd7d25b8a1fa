//! What NetworkPolicies cost, at several sizes, by one tool
//! (`rack::bench::policy`).
//!
//! Five questions: what a packet and what a connection costs between two pods of a
//! node; how soon after a policy, or a label of a pod elsewhere, has changed packets
//! obey; what an ADD takes; what is left of the throughput; how much memory the pods
//! of a large cluster take. A node that grows stands beside one that stays small, one
//! without policies, and a plain router whose one rule `nft -f` changes. They take
//! turns, so that a slow moment of the machine falls on all of them.
mod sizes;

use anyhow::Result;
use rack::bench::policy::place::Size;
use rack::bench::policy::{memory, throughput};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;

/// What throughput is measured with.
const BUSY: Size = Size { pods: 1000, policies: 500 };
/// What memory is measured with, and how much more the second may take.
const FEW: Size = Size { pods: 10, policies: 100 };
const MANY: Size = Size { pods: 10_000, policies: 100 };
const MEGABYTES: f64 = 15.0;

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    sizes::measure(run, report)?;
    measure_throughput(run, report)?;
    measure_memory(run, report)
}

fn measure_throughput(run: &Run, report: &mut Report) -> Result<()> {
    let (turns, seconds) = (run.rounds(3, 9), run.extent(1, 2));
    eprintln!("throughput: {turns} turns with {} policies and without", BUSY.policies);
    let measured = throughput::measure(&run.dir, BUSY, turns, seconds)?;
    let name = format!("throughput, {} pods, {} policies", BUSY.pods, BUSY.policies);
    let row = Row::beside(&name, &measured.with, "no policies", &measured.without);
    report.add(row.rate("Gbit/s").at_least(0.95));
    let row = Row::beside(&name, &measured.with, "connection tracking alone", &measured.tracked);
    report.add(row.rate("Gbit/s"));
    Ok(())
}

fn measure_memory(run: &Run, report: &mut Report) -> Result<()> {
    eprintln!("memory: {} and {} pods", FEW.pods, MANY.pods);
    let resident = memory::resident(&run.dir, FEW, MANY)?;
    let (few, unpoliced) = (format!("{} pods", FEW.pods), "no policies".to_owned());
    let rows = [
        ("", resident.many, &unpoliced, resident.unpoliced),
        ("", resident.many, &few, resident.few),
        (", restarted", resident.restarted, &few, resident.few),
    ];
    for (how, megabytes, peer, theirs) in rows {
        let name = format!("resident, {} pods{how}", MANY.pods);
        let row = Row::beside(&name, &Samples::one(megabytes), peer, &Samples::one(theirs));
        report.add(row.unit("MB").more_at_most(MEGABYTES));
    }
    Ok(())
}
