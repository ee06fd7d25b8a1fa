//! How fast the agent is: a pod's event until the router beyond has heard of it,
//! beside BIRD whose configuration is written anew, in one run, by one tool
//! (`rack::bench::agent`).
//!
//! Four questions: how long one change takes until it is in the kernel of the
//! router; what becomes of five thousand that came while the agent was stopped;
//! how soon after kill -9 everything is told again; how much memory it takes. The
//! contestants take turns, so that a slow moment of the machine falls on all of
//! them, and the floors are measured with the same watch.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a benchmark prints its help")]

mod change;
mod start;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use rack::bench::agent::memory;
use rack::bench::bgp::router::Kind;
use rack::bench::machine;
use rack::bench::report::{Report, Row, Target};
use rack::bench::samples::Samples;
use rack::{binaries, signals};

/// Pods on a node, and the most that one may take.
const POPULATIONS: &[usize] = &[0, 110, 1000];
const FULL_NODE: usize = 110;
const MEGABYTES: f64 = 15.0;

/// What is measured, and how much of it.
struct Options {
    quick: bool,
    strict: bool,
    only: Option<String>,
    turns: Option<usize>,
    out: PathBuf,
}

impl Options {
    /// Where the agents have their state: a real disk.
    fn dir(&self) -> Result<PathBuf> {
        Ok(self.out.parent().context("--out wants a file in a directory")?.to_path_buf())
    }
}

const HELP: &str = "bench-agent [--quick] [--strict] [--only PART] [--turns N] [--out FILE]
  --quick   fewer rounds
  --strict  exit code 2 when a target is missed
  --only    change, start or memory
  --turns   so many turns of single changes
  --out     where the JSON goes";

fn main() -> ExitCode {
    match bench() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("bench-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// None when the user only wanted to know the options.
fn options() -> Result<Option<Options>> {
    let build = binaries::build_dir()?;
    let target = build.parent().context("a build directory without a parent")?;
    let out = target.join("bench/agent.json");
    let mut options = Options { quick: false, strict: false, only: None, turns: None, out };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--strict" => options.strict = true,
            "--only" => options.only = Some(value()?),
            "--turns" => options.turns = Some(value()?.parse().context("--turns")?),
            "--out" => options.out = value()?.into(),
            "--help" | "-h" => {
                println!("{HELP}");
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
    let dir = options.dir()?;
    fs::create_dir_all(&dir)?;
    let versions = [Kind::Flock, Kind::Bird].map(|kind| (kind.name(), kind.version()));
    let mut report = Report::new("agent", machine::facts(&dir, &versions));
    let parts: [(&str, Part); 3] =
        [("change", change::measure), ("start", start::measure), ("memory", measure_memory)];
    for (name, measure) in parts {
        if options.only.as_ref().is_none_or(|only| only == name) {
            measure(&options, &mut report)?;
        }
    }
    report.print();
    report.write(&options.out)?;
    println!("\n{} holds it as JSON", options.out.display());
    Ok(report.all_met() || !options.strict)
}

type Part = fn(&Options, &mut Report) -> Result<()>;

fn measure_memory(options: &Options, report: &mut Report) -> Result<()> {
    eprintln!("memory: {POPULATIONS:?} pods");
    for (pods, megabytes) in memory::resident(&options.dir()?, POPULATIONS)? {
        let row = Row::own(&format!("resident, two peers, {pods} pods"), &one(megabytes));
        let row = row.unit("MB");
        report.add(if pods == FULL_NODE { limited(row, megabytes, "MB", MEGABYTES) } else { row });
    }
    Ok(())
}

/// A single figure.
fn one(figure: f64) -> Samples {
    let mut samples = Samples::default();
    samples.push(figure);
    samples
}

/// What is true of a figure of ours that has a limit in itself.
fn limited(row: Row, figure: f64, unit: &str, limit: f64) -> Row {
    row.judged(figure).target(Target::at_most(&format!("{limit} {unit}"), limit))
}
