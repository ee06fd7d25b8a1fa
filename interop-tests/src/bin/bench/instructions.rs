//! Instructions of fixed amounts of work: what `--check` holds against the recorded run without noise.

use anyhow::Result;
use rack::bench::instructions::{of_plugin, of_speaker};
use rack::bench::regression::INSTRUCTIONS;
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;

const FEW: u32 = 10;
const MANY: u32 = 10_000;
const CHANGES: u32 = 1_000;
const ROUTES: u32 = 10_000;

/// Measures and reports.
pub(crate) fn measure(_: &Run, report: &mut Report) -> Result<()> {
    let counted = |count: f64| Samples::one(count.round());
    let few = counted(of_speaker("change", FEW, CHANGES, 2 * CHANGES)?);
    let many = counted(of_speaker("change", MANY, CHANGES, 2 * CHANGES)?);
    let name = |originated: u32| format!("instructions: one change told, {originated} originated");
    report.add(Row::own(&name(FEW), &few).unit(INSTRUCTIONS));
    let beside = format!("flock, {FEW} originated");
    let row = Row::beside(&name(MANY), &many, &beside, &few).unit(INSTRUCTIONS);
    report.add(row.at_most(1.5));
    let route = counted(of_speaker("transit", ROUTES, 1, ROUTES)?);
    report.add(Row::own("instructions: a route in and out", &route).unit(INSTRUCTIONS));
    let plugin = counted(of_plugin()?);
    report.add(Row::own("instructions: plugin, VERSION", &plugin).unit(INSTRUCTIONS));
    Ok(())
}
