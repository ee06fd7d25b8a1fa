//! The recorded run: the one that docs/benchmarks.md shows, and that later runs are held against.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rack::bench::document;
use rack::bench::regression::regressions;
use rack::bench::results::Results;
use rack::bench::table::short;

use crate::options::Files;

impl Files {
    fn recorded(&self) -> PathBuf {
        self.docs.join("benchmarks/recorded.json")
    }
}

/// Whether the last run is no worse than the recorded one.
pub(crate) fn check(files: &Files) -> Result<bool> {
    let (recorded, now) = (Results::read(&files.recorded())?, Results::read(&files.run)?);
    let found = regressions(&recorded.results, &now.results);
    for worse in &found {
        println!("WORSE  {}: {}, was {}", worse.name, short(worse.now), short(worse.before));
    }
    let recorded = format!("the run of {} ({})", recorded.taken, recorded.commit);
    println!("{} lines, {} worse than in {recorded}", now.results.len(), found.len());
    Ok(found.is_empty())
}

/// Makes the last run the recorded one.
pub(crate) fn record(files: &Files) -> Result<()> {
    let run = Results::read(&files.run)?;
    let path = files.docs.join("benchmarks.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let text = document::filled(&text, &run)?;
    fs::create_dir_all(files.docs.join("benchmarks"))?;
    run.write(&files.recorded())?;
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    println!("recorded: {} and its tables in {}", files.recorded().display(), path.display());
    Ok(())
}
