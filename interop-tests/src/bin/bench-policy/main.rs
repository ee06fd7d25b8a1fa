//! What NetworkPolicies cost, at several sizes in one run, by one tool
//! (`rack::bench::policy`).
//!
//! Five questions: what a packet and what a connection costs between two pods of a
//! node; how soon after a policy, or a label of a pod elsewhere, has changed packets
//! obey; what an ADD takes; what is left of the throughput; how much memory the pods
//! of a large cluster take. A node that grows stands beside one that stays small, one
//! without policies, and a plain router whose one rule `nft -f` changes. They take
//! turns, so that a slow moment of the machine falls on all of them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a benchmark prints its help")]

mod sizes;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use rack::bench::bgp::router::Kind;
use rack::bench::machine;
use rack::bench::policy::place::Size;
use rack::bench::policy::{memory, throughput};
use rack::bench::report::{Report, Row, Target};
use rack::bench::samples::Samples;
use rack::{binaries, signals};

/// What throughput is measured with.
const BUSY: Size = Size { pods: 1000, policies: 500 };
/// What memory is measured with, and how much more the second may take.
const FEW: Size = Size { pods: 10, policies: 100 };
const MANY: Size = Size { pods: 10_000, policies: 100 };
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

const HELP: &str = "bench-policy [--quick] [--strict] [--only PART] [--turns N] [--out FILE]
  --quick   fewer sizes and rounds
  --strict  exit code 2 when a target is missed
  --only    sizes, throughput or memory
  --turns   so many turns at each size
  --out     where the JSON goes; --json is the same";

fn main() -> ExitCode {
    match bench() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("bench-policy: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// None when the user only wanted to know the options.
fn options() -> Result<Option<Options>> {
    let build = binaries::build_dir()?;
    let target = build.parent().context("a build directory without a parent")?;
    let out = target.join("bench/policy.json");
    let mut options = Options { quick: false, strict: false, only: None, turns: None, out };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--strict" => options.strict = true,
            "--only" => options.only = Some(value()?),
            "--turns" => options.turns = Some(value()?.parse().context("--turns")?),
            "--out" | "--json" => options.out = std::path::absolute(value()?)?,
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
    let versions = [(Kind::Flock.name(), Kind::Flock.version()), ("nft", version_of("nft"))];
    let mut report = Report::new("policy", machine::facts(&dir, &versions));
    let parts: [(&str, Part); 3] =
        [("sizes", sizes::measure), ("throughput", measure_throughput), ("memory", measure_memory)];
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

fn measure_throughput(options: &Options, report: &mut Report) -> Result<()> {
    let (turns, seconds) = if options.quick { (3, 1) } else { (9, 3) };
    let turns = options.turns.unwrap_or(turns);
    eprintln!("throughput: {turns} turns with {} policies and without", BUSY.policies);
    let measured = throughput::measure(&options.dir()?, BUSY, turns, seconds)?;
    let name = format!("throughput, {} pods, {} policies", BUSY.pods, BUSY.policies);
    let row = Row::rates(&name, &measured.with, "no policies", &measured.without);
    report.add(row.unit("Gbit/s").target(Target::at_least("0.95", 0.95)));
    Ok(())
}

fn measure_memory(options: &Options, report: &mut Report) -> Result<()> {
    eprintln!("memory: {} and {} pods", FEW.pods, MANY.pods);
    let resident = memory::resident(&options.dir()?, FEW, MANY)?;
    let (few, unpoliced) = (format!("{} pods", FEW.pods), "no policies".to_owned());
    let rows = [
        ("", resident.many, &few, resident.few),
        ("", resident.many, &unpoliced, resident.unpoliced),
        (", restarted", resident.restarted, &few, resident.few),
    ];
    for (how, megabytes, peer, theirs) in rows {
        let name = format!("resident, {} pods{how}", MANY.pods);
        let row = Row::times(&name, &one(megabytes), peer, &one(theirs)).unit("MB");
        let target = Target::at_most(&format!("{MEGABYTES} MB more"), MEGABYTES);
        report.add(row.judged(megabytes - theirs).target(target));
    }
    Ok(())
}

/// A single figure.
fn one(figure: f64) -> Samples {
    let mut samples = Samples::default();
    samples.push(figure);
    samples
}

fn version_of(name: &str) -> String {
    let said = binaries::tool(name)
        .and_then(|tool| binaries::run(std::process::Command::new(tool).arg("--version")));
    said.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}
