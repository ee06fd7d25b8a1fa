//! One change to the kernel of the router beyond: turns, targets and rows.

use anyhow::{Context, Result};
use rack::bench::bgp::change::{Entrant, Rack, Times, Who};
use rack::bench::bgp::router::Kind;
use rack::bench::report::{Report, Row, Target};
use rack::bench::samples::Samples;

use crate::{Options, Pick, compare, limited};

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
pub(crate) fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let entrant = |who, originated| Entrant { who, originated };
    let others = [
        entrant(Who::Floor, FEW),
        entrant(Who::Relay, FEW),
        entrant(Who::Bird, FEW),
        entrant(Who::Bird, MANY),
    ];
    if Kind::Flock.program().is_ok() {
        let ours = [entrant(Who::Flock, FEW), entrant(Who::Flock, MANY)];
        match race(options, &[&others[..], &ours].concat()) {
            Ok(times) => return rows(&times, report),
            Err(error) => {
                rack::wait::go_on()?;
                report.note(format!("change, flock left out: {error:#}"));
            }
        }
    }
    rows(&race(options, &others)?, report)
}

type Measured = Vec<(Entrant, Times)>;

fn race(options: &Options, entrants: &[Entrant]) -> Result<Measured> {
    let (turns, turns_many) = if options.quick { (10, 3) } else { (40, 7) };
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
        measured.iter().find(|(entrant, _)| *entrant == wanted).map(|(_, times)| times)
    };
    let floor = find(Who::Floor, FEW).context("no floor")?;
    let relay = find(Who::Relay, FEW).context("no relay")?;
    for originated in [FEW, MANY] {
        let ours = find(Who::Flock, originated);
        let bird = find(Who::Bird, originated).context("no BIRD")?;
        single(originated, ours, [floor, relay, bird], report);
    }
    if let (Some(few), Some(many)) = (find(Who::Flock, FEW), find(Who::Flock, MANY)) {
        let theirs = (find(Who::Bird, FEW), find(Who::Bird, MANY));
        let theirs = (theirs.0.context("no BIRD")?, theirs.1.context("no BIRD")?);
        report.add(
            Row::growth(
                &format!("change: announce at {MANY} : at {FEW}"),
                many.announce.median() / few.announce.median(),
                "birdc configure",
                theirs.1.announce.median() / theirs.0.announce.median(),
            )
            .target(Target::at_most("1.5", 1.5)),
        );
        report.add(
            Row::growth(
                "change: withdraw : announce",
                few.withdraw.median() / few.announce.median(),
                "floor",
                floor.withdraw.median() / floor.announce.median(),
            )
            .target(Target::at_most(&format!("{NOISE}"), NOISE)),
        );
    }
    let bird = find(Who::Bird, FEW).context("no BIRD")?;
    let ours = find(Who::Flock, FEW);
    let picks: [(&str, Pick<Times>); 2] =
        [("announce", |times| &times.announce_many), ("withdraw", |times| &times.withdraw_many)];
    for (verb, pick) in picks {
        let name = format!("change: {verb} {AT_ONCE} at once, the last");
        let row = compare(&name, ours.map(pick), "floor", pick(floor));
        report.add(row.target(Target::at_most("2", 2.0)));
        report.add(compare(&name, ours.map(pick), "birdc configure", pick(bird)));
    }
    let starved = |times: &Times| times.announce_starved.clone();
    let name = format!("change: announce {AT_ONCE} at once, starved, the last");
    for (peer, theirs) in [("floor", floor), ("birdc configure", bird)] {
        let row = compare(&name, ours.map(starved).as_ref(), peer, &starved(theirs));
        report.add(match ours {
            Some(ours) => limited(row, ours.announce_starved.median(), "ms", 1000.0),
            None => row,
        });
    }
    Ok(())
}

fn single(
    originated: usize,
    ours: Option<&Times>,
    [floor, relay, bird]: [&Times; 3],
    report: &mut Report,
) {
    let picks: [(&str, Pick<Times>); 2] =
        [("announce", |times| &times.announce), ("withdraw", |times| &times.withdraw)];
    for (verb, pick) in picks {
        let name = format!("change: {verb} to the ToR's kernel, {originated} originated");
        let row = compare(&name, ours.map(pick), "floor", pick(floor));
        report.add(row.target(Target::at_most("2", 2.0)));
        report.add(compare(&name, ours.map(pick), "floor behind a pipe", pick(relay)));
        let row = compare(&name, ours.map(pick), "birdc configure", pick(bird));
        report.add(row.target(Target::at_most("1/10", 0.1)));
        if let Some(ours) = ours.map(pick) {
            let tail = |samples: &Samples| {
                let mut tail = Samples::default();
                tail.push(samples.quantile(0.99));
                tail
            };
            let row =
                compare(&format!("{name}, p99"), Some(&tail(ours)), "floor", &tail(pick(floor)));
            report.add(limited(row, ours.quantile(0.99), "ms", 5.0));
        }
    }
}
