//! One node with 1, 8, 64, 256 peers, beside BIRD with as many: turns, targets and rows.

use anyhow::Result;
use rack::bench::agent::peers::{BirdNode, Node, Times};
use rack::bench::chart::{Chart, Kind};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;

const PEERS: &[usize] = &[1, 8, 64, 256];
const PEERS_QUICK: &[usize] = &[1, 256];
const ORIGINATED: usize = 10_000;
/// The most that may be resident with all of them.
const MEGABYTES: f64 = 24.0;
const MOST_PEERS: usize = 256;

/// Who takes turns.
#[derive(Default)]
struct Figures {
    resident: Samples,
    restart: Samples,
    times: Times,
}

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let mut told: [Vec<(String, Option<f64>)>; 2] = Default::default();
    for peers in run.extent(PEERS_QUICK, PEERS).iter().copied() {
        eprintln!("peers: {peers}, {ORIGINATED} originated");
        let [ours, theirs] = race(run, peers)?;
        rows(peers, &ours, &theirs, report);
        for (all, figures) in told.iter_mut().zip([&ours, &theirs]) {
            all.push((format!("{peers} peers"), figures.restart.figure()));
        }
    }
    let [ours, theirs] = told;
    let title = "Process start until every peer has 10,000 prefixes and End-of-RIB";
    let chart = Chart::new("peers", title, "ms", Kind::LogBars);
    report.draw(chart.with("flock", ours).with("BIRD", theirs));
    Ok(())
}

fn race(run: &Run, peers: usize) -> Result<[Figures; 2]> {
    let (rounds, changes) = (run.extent(2, 3), run.extent(5, 10));
    let (mut ours, mut theirs) = (Figures::default(), Figures::default());
    let mut flock = Node::new(&run.dir, peers, ORIGINATED)?;
    let mut bird = BirdNode::new(peers, ORIGINATED)?;
    for _ in 0..rounds {
        flock.changes(changes, &mut ours.times)?;
        bird.changes(changes.min(3), &mut theirs.times)?;
        ours.resident.push(flock.resident()?);
        theirs.resident.push(bird.resident()?);
        ours.restart.push(flock.restart()?);
        theirs.restart.push(bird.restart()?);
    }
    flock.dismiss()?;
    Ok([ours, theirs])
}

fn rows(peers: usize, ours: &Figures, theirs: &Figures, report: &mut Report) {
    let at = |what: &str| format!("{what}, {peers} peers, {ORIGINATED} originated");
    let beside = |name: &str, pick: fn(&Figures) -> &Samples| {
        Row::beside(&at(name), pick(ours), "BIRD", pick(theirs))
    };
    let row = beside("resident", |figures| &figures.resident).unit("MB");
    report.add(if peers == MOST_PEERS { row.figure_at_most(MEGABYTES) } else { row });
    report.add(beside("start until all are told", |figures| &figures.restart));
    report.add(beside("announce until the last is told", |figures| &figures.times.announce));
    report.add(beside("withdraw until the last is told", |figures| &figures.times.withdraw));
    report.add(beside("processor for a change", |figures| &figures.times.processor));
}
