//! kill -9 and a new process: targets and rows.

use anyhow::Result;
use rack::bench::agent::loss;
use rack::bench::agent::start::Stand;
use rack::bench::bgp::router::Kind;
use rack::bench::bgp::start::{Bench, ROUTES, Times};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;

/// BIRD does not dial in its first second at least, so it takes few turns.
const BIRDS_TURNS: usize = 5;
/// Pods that are talked to meanwhile.
const PODS: usize = 10;

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let turns = run.rounds(10, 30);
    eprintln!("start: {turns} turns");
    let bench = Bench::new()?;
    let mut stand = Stand::new(&run.dir, 1)?;
    stand.attach(usize::from(ROUTES))?;
    let (mut ours, mut theirs, mut again) =
        (Times::default(), Times::default(), Samples::default());
    for turn in 0..turns {
        stand.round(&mut ours, &mut again)?;
        if turn < BIRDS_TURNS {
            bench.round(Kind::Bird, &mut theirs)?;
        }
    }
    stand.dismiss()?;
    let bird = "BIRD, delay 1 s";
    let rows = [
        ("start: kill -9 to Established", &again, &theirs.established, Some(1000.0)),
        ("start: process to Established", &ours.established, &theirs.established, None),
        ("start: Established to first UPDATE", &ours.first, &theirs.first, Some(5.0)),
        ("start: last UPDATE to End-of-RIB", &ours.end_of_rib, &theirs.end_of_rib, Some(2.0)),
        ("start: process to all routes", &ours.all, &theirs.all, Some(100.0)),
    ];
    for (name, ours, theirs, limit) in rows {
        let row = Row::beside(&format!("{name}, {ROUTES} pods"), ours, bird, theirs);
        report.add(match limit {
            Some(limit) => row.figure_at_most(limit),
            None => row,
        });
    }
    lost(run, report)
}

/// What the kill costs those who talk to pods: nothing.
fn lost(run: &Run, report: &mut Report) -> Result<()> {
    let kills = run.rounds(3, 10);
    eprintln!("start: {kills} kills under a storm of pings");
    let (sent, lost) = loss::over_kills(kills, PODS)?;
    let name = format!("packets lost of {sent}, {kills} times kill -9, {PODS} pods");
    let row = Row::own("packets lost by kill -9", &Samples::one(lost as f64)).unit("packets");
    report.note(name);
    report.add(row.figure_at_most(0.0));
    Ok(())
}
