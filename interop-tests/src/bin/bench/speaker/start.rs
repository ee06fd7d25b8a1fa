//! The start of a speaker: targets and rows.

use anyhow::Result;
use rack::bench::bgp::router::Kind;
use rack::bench::bgp::start::{Bench, ROUTES, Times};
use rack::bench::report::{Report, Row};

use crate::options::Run;

use super::Pick;

/// BIRD does not dial in its first second at least, so it takes few turns.
const BIRDS_TURNS: usize = 5;

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let turns = run.rounds(10, 30);
    let bench = Bench::new()?;
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for turn in 0..turns {
        bench.round(Kind::Flock, &mut ours)?;
        if turn < BIRDS_TURNS {
            bench.round(Kind::Bird, &mut theirs)?;
        }
    }
    let all = format!("process start to all {ROUTES} routes told");
    let rows: [(&str, Pick<Times>, Option<f64>); 4] = [
        ("process start to Established", |times| &times.established, None),
        ("Established to first UPDATE", |times| &times.first, Some(5.0)),
        ("last UPDATE to End-of-RIB", |times| &times.end_of_rib, Some(2.0)),
        (&all, |times| &times.all, Some(100.0)),
    ];
    for (name, pick, limit) in rows {
        let name = format!("speaker: {name}");
        let row = Row::beside(&name, pick(&ours), "BIRD, delay 1 s", pick(&theirs));
        report.add(match limit {
            Some(limit) => row.figure_at_most(limit),
            None => row,
        });
    }
    Ok(())
}
