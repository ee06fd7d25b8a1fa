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
//! flock answers DEL before the link is gone. That is its design, so the time
//! until the links are really gone is measured and shown as well, without a
//! target; and nobody's turn begins before the last one's links are gone.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod contestant;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use rack::bench::machine;
use rack::bench::report::{Report, Row, Target};
use rack::bench::samples::Samples;
use rack::{binaries, signals};

use crate::contestant::Contestant;

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
    populations: &[10, 100, 1000],
    turns: 10,
    block: 10,
    parallel_block: 120,
    slow_calls: 8,
};

const QUICK: Extent =
    Extent { populations: &[10, 100], turns: 3, block: 5, parallel_block: 40, slow_calls: 2 };

/// Calls at the same time in the parallel rows.
const AT_ONCE: usize = 8;
const PARALLEL_TURNS: usize = 3;

const V4: &[&str] = &["10.200.0.0/16"];
const DUAL: &[&str] = &["10.201.0.0/16", "fd00:201::/64"];

struct Options {
    quick: bool,
    strict: bool,
    out: PathBuf,
}

fn main() -> ExitCode {
    match bench() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("bench-cni: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// None when the user only wanted to know the options.
fn options() -> Result<Option<Options>> {
    let build = binaries::build_dir()?;
    let target = build.parent().context("a build directory without a parent")?;
    let mut options =
        Options { quick: false, strict: false, out: target.join("bench/results.json") };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--strict" => options.strict = true,
            "--out" => options.out = arguments.next().context("--out wants a file")?.into(),
            "--help" | "-h" => {
                println!("bench-cni [--quick] [--strict] [--out FILE]");
                println!("  --quick   fewer pods and calls");
                println!("  --strict  exit code 2 when a target is missed");
                println!("  --out     where the JSON goes, {} by default", options.out.display());
                return Ok(None);
            }
            other => bail!("unknown argument {other}; see --help"),
        }
    }
    Ok(Some(options))
}

fn bench() -> Result<bool> {
    let Some(options) = options()? else {
        return Ok(true);
    };
    signals::listen()?;
    let dir = options.out.parent().context("--out wants a file in a directory")?;
    fs::create_dir_all(dir)?;
    let extent = if options.quick { &QUICK } else { &FULL };

    eprintln!("setting up the nodes");
    let few = extent.populations.first().copied().unwrap_or(0);
    let flock = |arena| Contestant::flock(dir, arena);
    let ptp = |arena| Contestant::ptp("ptp IPv4", dir, V4, arena);
    let mut growing = [flock(extent.parallel_block)?, ptp(extent.parallel_block)?];
    // They stay small, and are measured again beside the ones that grow.
    let mut small = [flock(extent.block)?, ptp(extent.block)?];
    for contestant in &mut small {
        contestant.populate(few)?;
    }
    let dual = Contestant::ptp("ptp dual-stack", dir, DUAL, extent.slow_calls)?;

    let machine = machine::facts(dir, &[("ptp", version_of_ptp())]);
    let mut report = Report::new("cni", machine);
    for population in extent.populations.iter().copied() {
        eprintln!("{population} pods");
        for contestant in &mut growing {
            contestant.populate(population)?;
        }
        let [our_node, their_node] = &growing;
        if population == few {
            execution(our_node, their_node, extent, &mut report)?;
            let (floor, [ours, theirs]) = sequential([our_node, their_node], extent)?;
            compare(population, &floor, &ours, &theirs, &mut report);
            slow_peer(&dual, &ours, extent, &mut report)?;
            parallel([our_node, their_node], extent, &mut report)?;
        } else {
            let [our_small, their_small] = &small;
            let contestants = [our_node, their_node, our_small, their_small];
            let (floor, [ours, theirs, ours_few, theirs_few]) = sequential(contestants, extent)?;
            compare(population, &floor, &ours, &theirs, &mut report);
            report.add(
                Row::growth(
                    &format!("ADD at {population} pods : ADD at {few}"),
                    ours.add.median() / ours_few.add.median(),
                    "ptp IPv4",
                    theirs.add.median() / theirs_few.add.median(),
                )
                .target(Target::at_most("1.3", 1.3)),
            );
        }
    }

    report.print();
    report.write(&options.out)?;
    println!("\n{}", options.out.display());
    for contestant in growing.into_iter().chain(small).chain([dual]) {
        contestant.dismiss()?;
    }
    Ok(!options.strict || report.all_met())
}

/// The rows of one population.
fn compare(population: usize, floor: &Samples, ours: &Turns, theirs: &Turns, report: &mut Report) {
    let at = |what: &str| format!("{what}, {population} pods");
    report.add(
        Row::times(&at("ADD"), &ours.add, "ptp IPv4", &theirs.add)
            .net_of(floor)
            .target(Target::at_most("1/3", 1.0 / 3.0)),
    );
    report.add(
        Row::times(&at("DEL"), &ours.del, "ptp IPv4", &theirs.del)
            .net_of(floor)
            .target(Target::at_most("1/10", 0.1)),
    );
    let gone = at("DEL until links gone, each");
    report.add(Row::times(&gone, &ours.gone, "ptp IPv4", &theirs.gone));
}

/// What it costs to execute a plugin at all.
fn execution(
    flock: &Contestant,
    ptp: &Contestant,
    extent: &Extent,
    report: &mut Report,
) -> Result<()> {
    let [mut floor, mut ours, mut theirs]: [Samples; 3] = Default::default();
    for _ in 0..extent.turns {
        floor.extend(flock.floor(extent.block)?);
        ours.extend(flock.version(extent.block)?);
        theirs.extend(ptp.version(extent.block)?);
    }
    report.add(Row::floor("executing nothing", "/bin/true", &floor));
    report.add(
        Row::times("VERSION", &ours, "ptp", &theirs)
            .judged_beyond(&floor)
            .target(Target::at_most("1 ms over true", 1.0)),
    );
    Ok(())
}

/// What one contestant's turns gave, in milliseconds.
#[derive(Default)]
struct Turns {
    add: Samples,
    del: Samples,
    gone: Samples,
}

impl Turns {
    fn take(&mut self, contestant: &Contestant, block: usize) -> Result<()> {
        self.add.extend(contestant.each("ADD", block)?);
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
        report.add(Row::times(&format!("{what}, to dual-stack"), ours, &dual.name, theirs));
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
            Row::rates(&format!("{what}, {AT_ONCE} at once"), &ours, "ptp IPv4", &theirs)
                .target(Target::at_least("5", 5.0)),
        );
    }
    Ok(())
}

/// The reference plugins say who they are when called with nothing.
fn version_of_ptp() -> String {
    let Ok(ptp) = binaries::reference_plugin("ptp") else {
        return String::new();
    };
    let said = Command::new(ptp).env_remove("CNI_COMMAND").output();
    said.map(|output| String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", "))
        .unwrap_or_default()
}
