//! What the command line asks for.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use rack::binaries;

use crate::PARTS;

const HELP: &str = "bench [--quick] [--only PART,...] [--turns N] [--soak SECONDS] [--strict] [--full] [--out FILE]
bench --check | --record
  --quick   fewer rounds and sizes: minutes
  --only    these parts: see --list
  --turns   so many rounds, where a part has rounds of single events
  --soak    so many seconds of a thousand changes a second: 3600 is an hour
  --strict  exit code 2 when a target is missed
  --full    GoBGP takes part with many routes, too: that takes minutes more
  --out     where the JSON goes, and the charts beside it
  --check   compares the last run with the recorded one; exit code 2 when it is worse
  --record  makes the last run the recorded one, and writes it into docs/benchmarks.md";

/// What is to be done.
pub(crate) enum Order {
    /// Measure.
    Run(Run),
    /// Compare the last run with the recorded one.
    Check(Files),
    /// Make the last run the recorded one.
    Record(Files),
    /// Nothing: all that was wanted is said.
    Told,
}

/// What is measured, and how much of it.
pub(crate) struct Run {
    pub(crate) quick: bool,
    pub(crate) strict: bool,
    pub(crate) full: bool,
    pub(crate) turns: Option<usize>,
    /// Seconds that the soak takes, where it is not what the extent says.
    pub(crate) soak: Option<u64>,
    /// Where agents have their state: a real disk.
    pub(crate) dir: PathBuf,
    pub(crate) out: PathBuf,
    only: Vec<String>,
}

impl Run {
    /// Whether a part takes part.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }

    /// One of two extents.
    pub(crate) fn extent<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// How many rounds.
    pub(crate) fn rounds(&self, quick: usize, full: usize) -> usize {
        self.turns.unwrap_or(self.extent(quick, full))
    }
}

/// The last run, and where the recorded one and the document are.
pub(crate) struct Files {
    pub(crate) run: PathBuf,
    pub(crate) docs: PathBuf,
}

/// Reads the command line.
#[allow(clippy::print_stdout, reason = "help is what was asked for")]
pub(crate) fn parse() -> Result<Order> {
    let build = binaries::build_dir()?;
    // Whatever is built for, and in which profile.
    let target = build.ancestors().find(|dir| dir.ends_with("target")).unwrap_or(&build);
    let out = target.join("bench/results.json");
    let (mut check, mut record) = (false, false);
    let mut run = Run {
        quick: false,
        strict: false,
        full: false,
        turns: None,
        soak: None,
        dir: PathBuf::new(),
        out,
        only: Vec::new(),
    };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--quick" => run.quick = true,
            "--strict" => run.strict = true,
            "--full" => run.full = true,
            "--check" => check = true,
            "--record" => record = true,
            "--only" => run.only.extend(value()?.split(',').map(|part| part.trim().to_owned())),
            "--turns" => run.turns = Some(value()?.parse().context("--turns wants a number")?),
            "--soak" => run.soak = Some(value()?.parse().context("--soak wants seconds")?),
            "--out" => run.out = std::path::absolute(value()?)?,
            "--list" => {
                PARTS.iter().for_each(|(name, about, _)| println!("{name:<15} {about}"));
                return Ok(Order::Told);
            }
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(Order::Told);
            }
            other => anyhow::bail!("unknown argument {other}; see --help"),
        }
    }
    for only in &run.only {
        let known = PARTS.iter().any(|(name, ..)| name == only);
        ensure!(known, "--only {only}: there is no such part; --list has them");
    }
    run.dir = run.out.parent().context("--out wants a file in a directory")?.to_path_buf();
    let docs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"));
    let files = Files { run: run.out.clone(), docs };
    Ok(match (check, record) {
        (true, _) => Order::Check(files),
        (_, true) => Order::Record(files),
        _ => Order::Run(run),
    })
}
