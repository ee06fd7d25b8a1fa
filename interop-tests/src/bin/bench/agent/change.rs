//! What happens to a pod, to the kernel of the router beyond: turns, targets and
//! rows.

use std::time::Duration;

use anyhow::Result;
use rack::bench::agent::change::{Calls, Rack, Times, Wanted};
use rack::bench::bgp::change::{self, Entrant, Who};
use rack::bench::chart::{self, Chart};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;

/// Prefixes that are originated all the time.
const FEW: usize = 10;
const MANY: usize = 10_000;
const SIZES: [usize; 2] = [FEW, MANY];
/// Changes while the agent is stopped.
const STOPPED: usize = 5_000;
/// Changes in a turn; calls and `birdc configure` have fewer, they take longer.
const BLOCK: u8 = 10;
const CALLS: usize = 3;
const SLOW_BLOCK: u8 = 2;
/// What the design that we follow waits before it has BIRD told.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// It takes half a second, and always the same: so few turns.
const DEBOUNCED_TURNS: usize = 3;
/// A withdrawal may be this much slower before it counts as slower.
const NOISE: f64 = 1.1;

/// Where they are among the others.
const FLOOR: usize = 0;
const BIRDS: [usize; 2] = [1, 2];
/// Where they are among the agents, by how much they originate.
const AGENTS: [usize; 2] = [0, 1];
const WATCHED: [usize; 2] = [2, 3];
/// The one with many takes both.
const CALLED: [usize; 2] = [4, 1];

/// What was measured at one number of prefixes.
#[derive(Default)]
struct Size {
    readiness: Times,
    inside: Times,
    calls: Calls,
    bird: change::Times,
}

#[derive(Default)]
struct Measured {
    floor: change::Times,
    renamed: Times,
    sizes: [Size; 2],
    stopped: Times,
}

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let (turns, stops) = (run.rounds(10, 40), run.extent(2, 5));
    eprintln!("change: setting up five agents");
    let other = |who, originated| Entrant { who, originated };
    let others = [other(Who::Floor, FEW), other(Who::Bird, FEW), other(Who::Bird, MANY)];
    let [few, many] = SIZES.map(|originated| Wanted {
        originated,
        flips: true,
        calls: originated == MANY,
        watched: false,
    });
    let watched = |wanted| Wanted { calls: false, watched: true, ..wanted };
    let called = Wanted { flips: false, calls: true, ..few };
    let agents = [few, many, watched(few), watched(many), called];
    let mut rack = Rack::new(&others, &agents, &run.dir)?;
    eprintln!("change: {turns} turns");
    let mut measured = Measured::default();
    for turn in 0..=turns {
        if turn == 1 {
            // The first turn only warmed everybody up.
            measured = Measured::default();
        }
        take_turn(&mut rack, turn, &mut measured)?;
    }
    eprintln!("change: {STOPPED} while the agent is stopped, {stops} times");
    for _ in 0..stops {
        // Only the one with many has so many to change; BIRD has them beside its few.
        let ([_, many], [bird, _]) = (AGENTS, BIRDS);
        let [size, _] = &mut measured.sizes;
        rack.stopped(many, STOPPED, &mut measured.stopped)?;
        rack.others.many_stopped(bird, STOPPED, &mut size.bird)?;
        rack.others.many(FLOOR, STOPPED, &mut measured.floor)?;
    }
    rack.dismiss()?;
    rows(&measured, report);
    Ok(())
}

fn take_turn(rack: &mut Rack, turn: usize, measured: &mut Measured) -> Result<()> {
    rack.others.singles(FLOOR, BLOCK, &mut measured.floor)?;
    rack.renamed(BLOCK, &mut measured.renamed)?;
    let mut order: Vec<_> = measured.sizes.iter_mut().enumerate().collect();
    if turn % 2 == 1 {
        order.reverse();
    }
    let pick = |of: [usize; 2], at: usize| of.into_iter().nth(at).unwrap_or_default();
    for (at, size) in order {
        rack.flips(pick(AGENTS, at), BLOCK, &mut size.readiness)?;
        rack.flips(pick(WATCHED, at), BLOCK, &mut size.inside)?;
        rack.calls(pick(CALLED, at), CALLS, &mut size.calls)?;
        rack.others.singles(pick(BIRDS, at), SLOW_BLOCK, &mut size.bird)?;
        if (1..=DEBOUNCED_TURNS).contains(&turn) {
            rack.others.debounced(pick(BIRDS, at), DEBOUNCE, &mut size.bird)?;
        }
    }
    Ok(())
}

fn rows(measured: &Measured, report: &mut Report) {
    let Measured { floor, renamed, sizes, stopped } = measured;
    for (originated, size) in SIZES.into_iter().zip(sizes) {
        inside(originated, size, floor, report);
        readiness(originated, size, renamed, report);
        called(originated, size, report);
    }
    let [few, many] = sizes;
    let at_few = format!("flock, {FEW} originated");
    let grown = [
        ("inside: announce", &many.inside.announce, &few.inside.announce),
        ("inside: withdraw", &many.inside.withdraw, &few.inside.withdraw),
        ("readiness: announce", &many.readiness.announce, &few.readiness.announce),
        ("readiness: withdraw", &many.readiness.withdraw, &few.readiness.withdraw),
    ];
    for (what, many, few) in grown {
        let row = Row::beside(&format!("{what}, {MANY} originated"), many, &at_few, few);
        report.add(row.at_most(1.5));
    }
    for (what, times) in [("inside", &few.inside), ("readiness", &few.readiness)] {
        let name = format!("{what}: withdraw, {FEW} originated");
        let row = Row::beside(&name, &times.withdraw, "its announce", &times.announce);
        report.add(row.at_most(NOISE));
    }
    let peers = [
        ("announce", &stopped.announce, "birdc configure", &few.bird.announce_stopped),
        ("announce", &stopped.announce, "floor, not stopped", &floor.announce_many),
        ("withdraw", &stopped.withdraw, "floor, not stopped", &floor.withdraw_many),
    ];
    for (verb, ours, peer, theirs) in peers {
        let name = format!("stopped: {verb} {STOPPED}, the last");
        report.add(Row::beside(&name, ours, peer, theirs).figure_at_most(1000.0));
    }
    draw(measured, report);
}

fn draw(measured: &Measured, report: &mut Report) {
    let title = "A pod is Ready, until the ToR's kernel knows";
    let points = |pick: fn(&Size) -> &Samples| {
        let sizes = SIZES.into_iter().zip(&measured.sizes);
        sizes.map(|(at, size)| (format!("{at} originated"), pick(size).figure())).collect()
    };
    report.draw(
        Chart::new("event", title, "ms", chart::Kind::LogBars)
            .with("flock, inside", points(|size| &size.inside.announce))
            .with("flock, from the rename", points(|size| &size.readiness.announce))
            .with("birdc configure", points(|size| &size.bird.announce))
            .with("with 500 ms debounce", points(|size| &size.bird.announce_debounced)),
    );
}

/// From the moment when the agent's source knew of it.
fn inside(originated: usize, size: &Size, floor: &change::Times, report: &mut Report) {
    let Size { inside, bird, .. } = size;
    let verbs = [
        ("announce", &inside.announce, &floor.announce, &bird.announce, &bird.announce_debounced),
        ("withdraw", &inside.withdraw, &floor.withdraw, &bird.withdraw, &bird.withdraw_debounced),
    ];
    for (verb, ours, floor, bird, debounced) in verbs {
        let name = format!("inside: {verb}, {originated} originated");
        report.add(Row::beside(&name, ours, "floor", floor).at_most(2.0));
        report.add(Row::beside(&name, ours, "birdc configure", bird).at_most(0.1));
        report.add(Row::beside(&name, ours, "after 500 ms debounce", debounced));
        let row = Row::beside(&format!("{name}, p99"), &ours.tail(), "floor", &floor.tail());
        report.add(row.figure_at_most(5.0));
    }
}

/// From the rename of the manifest.
fn readiness(originated: usize, size: &Size, renamed: &Times, report: &mut Report) {
    let Size { readiness, bird, .. } = size;
    let verbs = [
        ("announce", &readiness.announce, &renamed.announce, &bird.announce),
        ("withdraw", &readiness.withdraw, &renamed.withdraw, &bird.withdraw),
    ];
    for (verb, ours, renamed, bird) in verbs {
        let name = format!("readiness: {verb}, {originated} originated");
        report.add(Row::beside(&name, ours, "floor behind a rename", renamed).at_most(2.0));
        report.add(Row::beside(&name, ours, "birdc configure", bird).at_most(0.1));
    }
}

/// From the start of the plugin, beside its own answer.
fn called(originated: usize, size: &Size, report: &mut Report) {
    let calls = &size.calls;
    let verbs =
        [("ADD", &calls.add, &calls.add_answered), ("DEL", &calls.del, &calls.del_answered)];
    for (verb, ours, answered) in verbs {
        let name = format!("{verb} until the ToR's kernel knows, {originated} originated");
        report.add(Row::beside(&name, ours, "its answer", answered));
    }
}
