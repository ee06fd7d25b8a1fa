//! How fast the speaker is: flock beside BIRD, FRR, OpenBGPD and GoBGP, in one
//! run, by one tool (`rack::bench::bgp`).
//!
//! Four questions: what many routes through a speaker cost; how long one change
//! takes until it is in the kernel of the router beyond; how soon after its
//! start a speaker has told everything; what the codec costs a prefix. The
//! contestants take turns, so that a slow moment of the machine falls on all of
//! them, and the floors are measured with the same watch. A contestant that
//! fails is left out and named under the table.
#![allow(clippy::print_stdout, reason = "a benchmark prints its help")]

mod change;
mod start;
mod transit;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use rack::bench::bgp::router::Kind;
use rack::bench::bgp::{Family, codec};
use rack::bench::machine;
use rack::bench::report::{Report, Row, Target};
use rack::bench::samples::Samples;
use rack::{binaries, signals};

/// What is measured, and how much of it.
struct Options {
    quick: bool,
    full: bool,
    strict: bool,
    family: Family,
    routes: Option<usize>,
    sets: Option<usize>,
    only: Option<String>,
    against: Option<String>,
    out: PathBuf,
}

const HELP: &str = "bench-bgp [--quick] [--full] [--strict] [--ipv6] [--routes N] [--sets N] \
[--only PART] [--against NAMES] [--out FILE]
  --quick   fewer rounds
  --full    GoBGP takes part with a million routes, too: that takes minutes
  --strict  exit code 2 when a target is missed
  --ipv6    the routes in transit are IPv6
  --routes  so many routes in transit, and only so many
  --sets    with so many different sets of attributes
  --only    transit, change, start or codec
  --against peers in transit, of bird,frr,openbgpd,gobgp; \"\" for none
  --out     where the JSON goes";

fn main() -> ExitCode {
    match bench() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("bench-bgp: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// None when the user only wanted to know the options.
fn options() -> Result<Option<Options>> {
    let build = binaries::build_dir()?;
    let target = build.parent().context("a build directory without a parent")?;
    let mut options = Options {
        quick: false,
        full: false,
        strict: false,
        family: Family::V4,
        routes: None,
        sets: None,
        only: None,
        against: None,
        out: target.join("bench/bgp.json"),
    };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--full" => options.full = true,
            "--strict" => options.strict = true,
            "--ipv6" => options.family = Family::V6,
            "--routes" => options.routes = Some(value()?.parse().context("--routes")?),
            "--sets" => options.sets = Some(value()?.parse().context("--sets")?),
            "--only" => options.only = Some(value()?),
            "--against" => options.against = Some(value()?),
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
    let dir = options.out.parent().context("--out wants a file in a directory")?;
    fs::create_dir_all(dir)?;
    let versions = Kind::ALL.map(|kind| (kind.name(), kind.version()));
    let mut report = Report::new("bgp", machine::facts(dir, &versions));
    for kind in Kind::ALL {
        if let Err(missing) = kind.program() {
            report.note(format!("{missing:#}"));
        }
    }
    let parts: [(&str, Part); 4] = [
        ("start", start::measure),
        ("change", change::measure),
        ("transit", transit::measure),
        ("codec", measure_codec),
    ];
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

fn measure_codec(_: &Options, report: &mut Report) -> Result<()> {
    match codec::program()? {
        Some(program) => codec::rows(program)?.into_iter().for_each(|row| report.add(row)),
        None => report.note("the codec's benchmark is not built (example codec-bench)".to_owned()),
    }
    Ok(())
}

/// Which of somebody's samples.
type Pick<T> = fn(&T) -> &Samples;

/// Times beside a peer's; where ours are missing, the peer's alone.
fn compare(name: &str, ours: Option<&Samples>, peer: &str, theirs: &Samples) -> Row {
    match ours {
        Some(ours) => Row::times(name, ours, peer, theirs),
        None => Row::floor(name, peer, theirs),
    }
}

/// What is true of a figure of ours that has a limit in itself.
fn limited(row: Row, figure: f64, unit: &str, limit: f64) -> Row {
    row.judged(figure).target(Target::at_most(&format!("{limit} {unit}"), limit))
}
