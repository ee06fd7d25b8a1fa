//! One change to the kernel of the router beyond: turns, targets and rows.

use anyhow::{Context, Result};
use rack::bench::bgp::change::{Entrant, Rack, Times, Who};
use rack::bench::report::{Report, Row};

use crate::options::Run;

use super::Pick;

/// Prefixes that are originated all the time.
const FEW: usize = 10;
const MANY: usize = 10_000;
/// Changes at once.
const AT_ONCE: usize = 5_000;
/// Changes in a turn; `birdc configure` has fewer, it takes longer.
const BLOCK: u8 = 10;
const SLOW_BLOCK: u8 = 2;
/// A withdrawal may be this much slower before it counts as slower.
const NOISE: f64 = 1.1;

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let entrant = |who, originated| Entrant { who, originated };
    let entrants = [
        entrant(Who::Floor, FEW),
        entrant(Who::Relay, FEW),
        entrant(Who::Bird, FEW),
        entrant(Who::Bird, MANY),
        entrant(Who::Flock, FEW),
        entrant(Who::Flock, MANY),
    ];
    rows(&race(run, &entrants)?, report)
}

type Measured = Vec<(Entrant, Times)>;

fn race(run: &Run, entrants: &[Entrant]) -> Result<Measured> {
    let (turns, turns_many) = run.extent((10, 3), (40, 7));
    eprintln!("change: {} nodes, {turns} turns", entrants.len());
    let mut rack = Rack::new(entrants)?;
    let mut measured: Measured = Vec::new();
    for turn in 0..=turns + turns_many {
        if turn <= 1 {
            // The first turn only warms everybody up.
            measured = entrants.iter().map(|entrant| (*entrant, Times::default())).collect();
        }
        let mut order: Vec<_> = measured.iter_mut().enumerate().collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for (index, (entrant, times)) in order {
            if turn > turns {
                rack.many(index, AT_ONCE, times)?;
                rack.many_starved(index, AT_ONCE, times)?;
            } else {
                let block = if entrant.who == Who::Bird { SLOW_BLOCK } else { BLOCK };
                rack.singles(index, block, times)?;
            }
        }
    }
    Ok(measured)
}

fn rows(measured: &Measured, report: &mut Report) -> Result<()> {
    let find = |who, originated| {
        let wanted = Entrant { who, originated };
        let found = measured.iter().find(|(entrant, _)| *entrant == wanted);
        found.map(|(_, times)| times).context("somebody did not take part")
    };
    let (floor, relay) = (find(Who::Floor, FEW)?, find(Who::Relay, FEW)?);
    let (few, many) = (find(Who::Flock, FEW)?, find(Who::Flock, MANY)?);
    let bird = find(Who::Bird, FEW)?;
    single(FEW, few, [floor, relay, bird], report);
    single(MANY, many, [floor, relay, find(Who::Bird, MANY)?], report);
    let name = format!("speaker: announce, {MANY} originated");
    let row =
        Row::beside(&name, &many.announce, &format!("flock, {FEW} originated"), &few.announce);
    report.add(row.at_most(1.5));
    let row = Row::beside("speaker: withdraw", &few.withdraw, "its announce", &few.announce);
    report.add(row.at_most(NOISE));
    let picks: [(&str, Pick<Times>); 2] =
        [("announce", |times| &times.announce_many), ("withdraw", |times| &times.withdraw_many)];
    for (verb, pick) in picks {
        let name = format!("speaker: {verb} {AT_ONCE} at once, the last");
        report.add(Row::beside(&name, pick(few), "floor", pick(floor)).at_most(2.0));
        report.add(Row::beside(&name, pick(few), "birdc configure", pick(bird)));
    }
    let name = format!("speaker: announce {AT_ONCE} at once, starved, the last");
    for (peer, theirs) in [("floor", floor), ("birdc configure", bird)] {
        let row = Row::beside(&name, &few.announce_starved, peer, &theirs.announce_starved);
        report.add(row.figure_at_most(1000.0));
    }
    Ok(())
}

fn single(originated: usize, ours: &Times, [floor, relay, bird]: [&Times; 3], report: &mut Report) {
    let picks: [(&str, Pick<Times>); 2] =
        [("announce", |times| &times.announce), ("withdraw", |times| &times.withdraw)];
    for (verb, pick) in picks {
        let name = format!("speaker: {verb} to the ToR's kernel, {originated} originated");
        let ours = pick(ours);
        report.add(Row::beside(&name, ours, "floor", pick(floor)).at_most(2.0));
        report.add(Row::beside(&name, ours, "floor behind a pipe", pick(relay)));
        report.add(Row::beside(&name, ours, "birdc configure", pick(bird)).at_most(0.1));
        let tails = (ours.tail(), pick(floor).tail());
        report.add(
            Row::beside(&format!("{name}, p99"), &tails.0, "floor", &tails.1).figure_at_most(5.0),
        );
    }
}
