//! Changes without end: whether what is resident grows.

use std::time::Duration;

use anyhow::Result;
use rack::bench::agent::soak::{Soak, soak};
use rack::bench::chart::{Chart, Kind};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;

const ORIGINATED: usize = 1_000;
const CHANGES: u32 = 1_000;
const CALLS: u32 = 10;
/// How often it is looked at, in the picture.
const POINTS: u32 = 12;
const MEGABYTE: f64 = (1 << 20) as f64;
/// Megabytes that are no growth: the allocator's own breathing.
const NOTHING: f64 = 1.0;

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let seconds = run.soak.unwrap_or(run.extent(60, 300));
    let duration = Duration::from_secs(seconds);
    let wishes = Soak {
        originated: ORIGINATED,
        changes_a_second: CHANGES,
        calls_a_second: CALLS,
        duration,
        every: Duration::from_secs(1),
    };
    let mut said = Duration::ZERO;
    let soaked = soak(&run.dir, &wishes, |sample| {
        if sample.at >= said {
            said = sample.at + duration / POINTS;
            eprintln!("soak: {:4} s, {:.1} MB", sample.at.as_secs(), megabytes(sample.resident));
        }
    })?;
    let rate = soaked.changes as f64 / duration.as_secs_f64();
    let name = format!("soak: growth in {seconds} s of {rate:.0} changes a second");
    #[allow(clippy::cast_precision_loss, reason = "megabytes")]
    let growth = soaked.growth(duration / 5) as f64 / MEGABYTE;
    report.add(Row::own(&name, &Samples::one(growth)).unit("MB").figure_at_most(NOTHING));
    let last = soaked.samples.last().map_or(f64::NAN, |sample| megabytes(sample.resident));
    report.add(Row::own("soak: resident at its end", &Samples::one(last)).unit("MB"));
    let step = soaked.samples.len().div_ceil(POINTS as usize).max(1);
    let points = soaked.samples.iter().step_by(step);
    let points = points.map(|it| (format!("{} s", it.at.as_secs()), Some(megabytes(it.resident))));
    let title = format!("Resident memory under {rate:.0} changes a second");
    report.draw(Chart::new("soak", &title, "MB", Kind::Lines).with("flock", points.collect()));
    Ok(())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / MEGABYTE
}
