//! How long a CNI call takes: flock beside ptp with host-local, in one run, by
//! one tool.
//!
//! Each contestant has a node namespace of its own, and its plugin is executed
//! as kubelet's runtime does it: a new process, the environment, the
//! configuration on standard input, the answer read to its end. Executing
//! `/bin/true` in the very same way is the floor, and is taken off where a
//! target says "net". The contestants take turns in small blocks, so that a slow
//! moment of the machine falls on all of them; what more pods cost is told by
//! nodes that grow beside nodes that stay small.
//!
//! flock answers DEL before the link is gone, and ADD before the kernel has told
//! everybody of the new one. That is its design, so the time until the links are
//! really gone, or noticed, is measured and shown as well, without a target; and
//! nobody's turn begins before the last one's links are gone, no CHECK before they
//! are noticed.
mod contestant;

use anyhow::Result;
use rack::bench::chart::{Chart, Kind};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;
use contestant::Contestant;

/// How much is measured.
struct Extent {
    /// Existing pods.
    populations: &'static [usize],
    /// Turns that each contestant has at each population.
    turns: usize,
    /// Calls in a turn.
    block: usize,
    /// Calls in a parallel turn.
    parallel_block: usize,
    /// Calls of the dual-stack peer, which waits seconds in each.
    slow_calls: usize,
}

const FULL: Extent = Extent {
    populations: &[10, 100, 1000, 2000],
    turns: 10,
    block: 10,
    parallel_block: 120,
    slow_calls: 8,
};

const QUICK: Extent =
    Extent { populations: &[10, 1000], turns: 4, block: 8, parallel_block: 60, slow_calls: 2 };

/// Calls at the same time in the parallel rows.
const AT_ONCE: usize = 8;
const PARALLEL_TURNS: usize = 5;
/// How much more a call may take among many pods: a thousand, and however many there are.
const GROWTH: f64 = 1.3;
const GROWTH_MOST: f64 = 1.5;

const V4: &[&str] = &["10.200.0.0/16"];
const DUAL: &[&str] = &["10.201.0.0/16", "fd00:201::/64"];
const PTP: &str = "ptp IPv4";

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let extent = run.extent(&QUICK, &FULL);
    eprintln!("cni: setting up the nodes");
    let few = extent.populations.first().copied().unwrap_or(0);
    let flock = |arena| Contestant::flock(&run.dir, arena);
    let ptp = |arena| Contestant::ptp(PTP, &run.dir, V4, arena);
    let mut growing = [flock(extent.parallel_block)?, ptp(extent.parallel_block)?];
    // They stay small, and are measured again beside the ones that grow.
    let mut small = [flock(extent.block)?, ptp(extent.block)?];
    for contestant in &mut small {
        contestant.populate(few)?;
    }
    let dual = Contestant::ptp("ptp dual-stack", &run.dir, DUAL, extent.slow_calls)?;
    let mut sizes = Vec::new();
    for population in extent.populations.iter().copied() {
        eprintln!("cni: {population} pods");
        for contestant in &mut growing {
            contestant.populate(population)?;
        }
        let [our_node, their_node] = &growing;
        if population == few {
            execution(our_node, their_node, extent, report)?;
            let (floor, [ours, theirs]) = sequential([our_node, their_node], extent)?;
            compare(population, &floor, &ours, &theirs, report);
            slow_peer(&dual, &ours, extent, report)?;
            parallel([our_node, their_node], extent, report)?;
            sizes.push((population, ours, theirs));
        } else {
            let [our_small, their_small] = &small;
            let contestants = [our_node, their_node, our_small, their_small];
            let (floor, [ours, theirs, ours_few, _]) = sequential(contestants, extent)?;
            compare(population, &floor, &ours, &theirs, report);
            growth((few, &ours_few), (population, &ours), report);
            sizes.push((population, ours, theirs));
        }
    }
    draw(&sizes, report);
    growing.into_iter().chain(small).chain([dual]).try_for_each(Contestant::dismiss)
}

/// The rows of one population.
fn compare(population: usize, floor: &Samples, ours: &Turns, theirs: &Turns, report: &mut Report) {
    let at = |what: &str| format!("{what}, {population} pods");
    let rows = [
        ("ADD", &ours.add, &theirs.add, Some(1.0 / 3.0)),
        ("DEL", &ours.del, &theirs.del, Some(0.1)),
        ("CHECK", &ours.check, &theirs.check, None),
    ];
    for (what, ours, theirs, target) in rows {
        let row = Row::beside(&at(what), ours, PTP, theirs).net_of(floor);
        report.add(match target {
            Some(target) => row.at_most(target),
            None => row,
        });
    }
    let until = [
        ("ADD until links noticed, each", &ours.noticed, &theirs.noticed),
        ("DEL until links gone, each", &ours.gone, &theirs.gone),
    ];
    for (what, ours, theirs) in until {
        report.add(Row::beside(&at(what), ours, PTP, theirs));
    }
}

/// What a call costs among many pods, beside the same call among few at the same time.
fn growth(few: (usize, &Turns), many: (usize, &Turns), report: &mut Report) {
    let limit = if many.0 <= 1000 { GROWTH } else { GROWTH_MOST };
    let calls = [
        ("ADD", &many.1.add, &few.1.add),
        ("DEL", &many.1.del, &few.1.del),
        ("CHECK", &many.1.check, &few.1.check),
    ];
    for (what, ours, before) in calls {
        let name = format!("growth: {what} at {} pods", many.0);
        let row = Row::beside(&name, ours, &format!("flock at {} pods", few.0), before);
        report.add(row.at_most(limit));
    }
}

fn draw(sizes: &[(usize, Turns, Turns)], report: &mut Report) {
    let points = |pick: fn(&(usize, Turns, Turns)) -> &Samples| {
        let one = |size| (format!("{} pods", size_of(size)), pick(size).figure());
        sizes.iter().map(one).collect::<Vec<_>>()
    };
    let chart = Chart::new("cni", "CNI calls, one at a time, with exec", "ms", Kind::Lines);
    report.draw(
        chart
            .with("flock ADD, dual-stack", points(|(_, ours, _)| &ours.add))
            .with("ptp ADD, IPv4 only", points(|(.., theirs)| &theirs.add))
            .with("ptp DEL", points(|(.., theirs)| &theirs.del))
            .with("flock DEL", points(|(_, ours, _)| &ours.del)),
    );
}

fn size_of(size: &(usize, Turns, Turns)) -> usize {
    size.0
}

/// What it costs to execute a plugin at all.
fn execution(
    flock: &Contestant,
    ptp: &Contestant,
    extent: &Extent,
    report: &mut Report,
) -> Result<()> {
    let [mut floor, mut ours, mut theirs]: [Samples; 3] = Default::default();
    for _ in 0..=extent.turns {
        floor.extend(flock.floor(extent.block)?);
        ours.extend(flock.version(extent.block)?);
        theirs.extend(ptp.version(extent.block)?);
    }
    report
        .add(Row::beside("plugin started, VERSION", &ours, "/bin/true", &floor).more_at_most(1.0));
    report.add(Row::beside("plugin started, VERSION", &ours, "ptp", &theirs));
    Ok(())
}

/// What one contestant's turns gave, in milliseconds.
#[derive(Default)]
struct Turns {
    add: Samples,
    noticed: Samples,
    check: Samples,
    del: Samples,
    gone: Samples,
}

impl Turns {
    fn take(&mut self, contestant: &Contestant, block: usize) -> Result<()> {
        let (add, noticed) = contestant.each_until_noticed(block)?;
        self.add.extend(add);
        self.noticed.push(noticed);
        self.check.extend(contestant.each("CHECK", block)?);
        let (del, gone) = contestant.each_until_gone("DEL", block)?;
        self.del.extend(del);
        self.gone.push(gone);
        Ok(())
    }
}

/// Everybody's turns, in an order that turns around each time.
fn sequential<const N: usize>(
    contestants: [&Contestant; N],
    extent: &Extent,
) -> Result<(Samples, [Turns; N])> {
    let mut floor = Samples::default();
    let mut all: [Turns; N] = std::array::from_fn(|_| Turns::default());
    for turn in 0..=extent.turns {
        let mut order: Vec<_> = contestants.into_iter().zip(&mut all).collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for (contestant, turns) in order {
            turns.take(contestant, extent.block)?;
            floor.extend(contestant.floor(extent.block)?);
        }
        if turn == 0 {
            // The first turn only warms everybody up.
            floor = Samples::default();
            all = std::array::from_fn(|_| Turns::default());
        }
    }
    Ok((floor, all))
}

fn slow_peer(dual: &Contestant, ours: &Turns, extent: &Extent, report: &mut Report) -> Result<()> {
    eprintln!("the dual-stack peer, which waits for duplicate address detection");
    let mut theirs = Turns::default();
    theirs.take(dual, extent.slow_calls)?;
    for (what, ours, theirs) in [("ADD", &ours.add, &theirs.add), ("DEL", &ours.del, &theirs.del)] {
        report.add(Row::beside(&format!("{what}, to dual-stack"), ours, &dual.name, theirs));
    }
    Ok(())
}

fn parallel(contestants: [&Contestant; 2], extent: &Extent, report: &mut Report) -> Result<()> {
    eprintln!("{AT_ONCE} at once");
    let mut rates: [[Samples; 2]; 2] = Default::default();
    for _ in 0..PARALLEL_TURNS {
        for (contestant, [add, del]) in contestants.into_iter().zip(&mut rates) {
            add.push(contestant.at_once("ADD", extent.parallel_block, AT_ONCE)?);
            del.push(contestant.at_once("DEL", extent.parallel_block, AT_ONCE)?);
            contestant.await_gone()?;
        }
    }
    let [[our_add, our_del], [their_add, their_del]] = rates;
    for (what, ours, theirs) in [("ADD", our_add, their_add), ("DEL", our_del, their_del)] {
        report.add(
            Row::beside(&format!("{what}, {AT_ONCE} at once"), &ours, PTP, &theirs)
                .rate("/s")
                .at_least(5.0),
        );
    }
    Ok(())
}
