//! The start of a speaker: targets and rows.

use anyhow::Result;
use rack::bench::bgp::router::Kind;
use rack::bench::bgp::start::{Bench, ROUTES, Times};
use rack::bench::report::Report;

use crate::{Options, Pick, compare, limited};

/// BIRD does not dial in its first second at least, so it takes few turns.
const BIRDS_TURNS: usize = 5;

/// Measures and reports.
pub(crate) fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let turns = if options.quick { 10 } else { 30 };
    eprintln!("start: {turns} turns");
    let bench = Bench::new()?;
    let mut ours = Kind::Flock.program().is_ok().then(Times::default);
    let mut theirs = Times::default();
    for turn in 0..turns {
        if let Some(times) = &mut ours
            && let Err(error) = bench.round(Kind::Flock, times)
        {
            rack::wait::go_on()?;
            report.note(format!("flock: {error:#}"));
            ours = None;
        }
        if turn < BIRDS_TURNS {
            bench.round(Kind::Bird, &mut theirs)?;
        }
    }
    let bird = "BIRD, delay 1 s";
    let rows: [(&str, Pick<Times>, Option<f64>); 4] = [
        ("start: process to Established", |times| &times.established, None),
        ("start: Established to first UPDATE", |times| &times.first, Some(5.0)),
        ("start: last UPDATE to End-of-RIB", |times| &times.end_of_rib, Some(2.0)),
        ("start: process to all", |times| &times.all, Some(100.0)),
    ];
    for (name, pick, limit) in rows {
        let name =
            if name.ends_with("all") { format!("{name} {ROUTES} routes") } else { name.to_owned() };
        let ours = ours.as_ref().map(pick);
        let row = compare(&name, ours, bird, pick(&theirs));
        report.add(match (limit, ours) {
            (Some(limit), Some(ours)) => limited(row, ours.median(), "ms", limit),
            _ => row,
        });
    }
    Ok(())
}
