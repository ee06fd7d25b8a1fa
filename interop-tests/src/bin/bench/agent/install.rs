//! A table into the node's kernel and out again, beside BIRD: turns, targets and rows.

use std::time::Duration;

use anyhow::Result;
use rack::bench::agent::install::{Load, Round, Who, round};
use rack::bench::bgp::Family;
use rack::bench::chart::{Chart, Kind};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;

const LIMIT: Duration = Duration::from_secs(120);
/// Routes, sets of attributes, rounds.
const LOADS: &[(Family, usize, usize, usize)] = &[
    (Family::V4, 100_000, 10_000, 3),
    (Family::V6, 100_000, 10_000, 3),
    (Family::V4, 500_000, 50_000, 2),
    (Family::V6, 500_000, 50_000, 2),
    (Family::V4, 1_000_000, 100_000, 2),
    (Family::V6, 1_000_000, 100_000, 2),
];
const LOADS_QUICK: &[(Family, usize, usize, usize)] =
    &[(Family::V4, 100_000, 10_000, 2), (Family::V6, 100_000, 10_000, 2)];

/// What somebody's rounds gave.
#[derive(Default)]
struct Rounds {
    /// Thousand routes a second.
    installed: Samples,
    removed: Samples,
    /// Microseconds a route.
    processor: Samples,
    /// Bytes a route.
    resident: Samples,
}

impl Rounds {
    fn push(&mut self, routes: usize, round: &Round) {
        let rate = |seconds: f64| routes as f64 / seconds / 1000.0;
        self.installed.push(rate(round.installed));
        self.removed.push(rate(round.removed));
        self.processor.push(round.processor * 1e6);
        self.resident.push(round.resident);
    }
}

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let mut drawn: [Vec<(String, Option<f64>)>; 2] = Default::default();
    for (family, routes, sets, rounds) in run.extent(LOADS_QUICK, LOADS).iter().copied() {
        let load = Load::new(family, routes, sets)?;
        let name = format!("{} {}k routes into the kernel", family.name(), routes / 1000);
        eprintln!("install: {name}");
        let (mut ours, mut theirs) = (Rounds::default(), Rounds::default());
        for _ in 0..rounds {
            ours.push(routes, &round(Who::Flock, &load, &run.dir, LIMIT)?);
            theirs.push(routes, &round(Who::Bird, &load, &run.dir, LIMIT)?);
        }
        rows(&name, &ours, &theirs, report);
        for (all, rounds) in drawn.iter_mut().zip([&ours, &theirs]) {
            all.push((format!("{} {}k", family.name(), routes / 1000), rounds.installed.figure()));
        }
    }
    let [ours, theirs] = drawn;
    let chart =
        Chart::new("install", "Learned routes into the kernel, a second", "k/s", Kind::Bars);
    report.draw(chart.with("flock", ours).with("BIRD", theirs));
    Ok(())
}

fn rows(name: &str, ours: &Rounds, theirs: &Rounds, report: &mut Report) {
    let beside = |what: &str, pick: fn(&Rounds) -> &Samples| {
        Row::beside(&format!("{name}: {what}"), pick(ours), "BIRD", pick(theirs))
    };
    report.add(beside("rate", |rounds| &rounds.installed).rate("k/s").at_least(1.0));
    report.add(beside("withdrawn, rate", |rounds| &rounds.removed).rate("k/s").at_least(1.0));
    report.add(beside("processor a route", |rounds| &rounds.processor).unit("µs"));
    report.add(beside("memory a route", |rounds| &rounds.resident).unit("B"));
}
