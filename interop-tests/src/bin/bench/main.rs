//! How fast flock is, how small it stays, and how far ahead of its peers: one suite, one run, one table.
//!
//! Each part sets up flock and its peers beside each other, on this machine and in this run, and has them
//! take turns, so that a slow moment falls on all of them. What a figure means is decided by the part that
//! measured it; here they are asked one after the other and become a table, `results.json` and charts.
//! A part that fails is named under the table, and the others go on.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod agent;
mod cni;
mod footprint;
mod instructions;
mod options;
mod policy;
mod record;
mod runtime;
mod speaker;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use rack::bench::report::Report;
use rack::bench::results::Results;
use rack::bench::{machine, table};
use rack::{signals, wait};

use crate::options::{Order, Run};

type Part = fn(&Run, &mut Report) -> Result<()>;

/// The parts, by the words that `--only` takes, and what each of them is about.
const PARTS: &[(&str, &str, Part)] = &[
    ("cni", "ADD, DEL and CHECK beside ptp, one at a time and many", cni::measure),
    ("containerd", "pods at once through containerd, beside ptp", runtime::measure),
    (
        "event",
        "a pod's event until the ToR's kernel knows, beside birdc configure",
        agent::change::measure,
    ),
    ("busy", "one event while a thousand others happen each second", agent::busy::measure),
    ("start", "kill -9 until everything is told again, beside BIRD", agent::start::measure),
    ("peers", "1 to 256 peers, 10,000 prefixes, beside BIRD", agent::peers::measure),
    ("install", "a table into the node's kernel, beside BIRD", agent::install::measure),
    (
        "transit",
        "many routes in and out, beside BIRD, FRR, OpenBGPD, GoBGP",
        speaker::transit::measure,
    ),
    (
        "speaker",
        "the speaker alone: a start, one change to the ToR's kernel, the codec",
        speaker::measure,
    ),
    ("policy", "network policies: packets, events, throughput, memory", policy::measure),
    ("footprint", "resident memory, processor at rest, binaries, image", footprint::measure),
    ("soak", "a thousand changes a second: does memory grow?", agent::soak::measure),
    ("instructions", "instructions of fixed amounts of work, by valgrind", instructions::measure),
];

fn main() -> ExitCode {
    let outcome = match options::parse() {
        Ok(Order::Run(run)) => bench(&run),
        Ok(Order::Check(files)) => record::check(&files),
        Ok(Order::Record(files)) => record::record(&files).map(|()| true),
        Ok(Order::Told) => Ok(true),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(run: &Run) -> Result<bool> {
    signals::listen()?;
    fs::create_dir_all(&run.dir).with_context(|| run.dir.display().to_string())?;
    let (begun, machine) = (Instant::now(), machine::facts(&run.dir));
    let mut report = Report::default();
    for (name, _, measure) in PARTS.iter().filter(|(name, ..)| run.wants(name)) {
        let part = Instant::now();
        eprintln!("== {name}");
        report.begin(name);
        if let Err(error) = measure(run, &mut report) {
            // Ctrl-C ends everything; all else only this part.
            wait::go_on()?;
            report.note(format!("NOT MEASURED: {error:#}"));
        }
        eprintln!("== {name}: {} s", part.elapsed().as_secs());
    }
    let results = Results {
        taken: machine::now(),
        commit: machine::commit(),
        quick: run.quick,
        seconds: begun.elapsed().as_secs(),
        machine,
        versions: machine::versions(),
        results: report.rows,
        charts: report.charts,
        notes: report.notes,
    };
    results.write(&run.out)?;
    println!("\n{}", table::text(&results.results));
    results.notes.iter().for_each(|note| println!("note: {note}"));
    let (targets, met) = results.targets();
    println!("{met} of {targets} targets met; {} and charts beside it", run.out.display());
    Ok(!run.strict || met == targets)
}
