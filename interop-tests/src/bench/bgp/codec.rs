//! The codec's own benchmark, where it was built: one JSON object a line, taken
//! into the table as it is.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::report::Row;
use crate::bench::samples::Samples;
use crate::binaries::{build_dir, run};

/// The program, if it was built.
pub fn program() -> Result<Option<PathBuf>> {
    let path = match std::env::var_os("FLOCK_CODEC_BENCH") {
        Some(path) => PathBuf::from(path),
        None => build_dir()?.join("examples/codec-bench"),
    };
    Ok(path.is_file().then_some(path))
}

/// Runs it; a row beside the floor and one beside the other codec for each line.
pub fn rows(program: PathBuf) -> Result<Vec<Row>> {
    let said = run(&mut Command::new(program))?;
    let mut rows = Vec::new();
    for line in said.lines().filter(|line| line.starts_with('{')) {
        let figures: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let name = figures.get("name").and_then(Value::as_str).context("a line without a name")?;
        let figure = |key: &str| {
            let mut samples = Samples::default();
            samples.push(figures.get(key)?.as_f64()?);
            Some(samples)
        };
        let ours = figure("flock").or_else(|| figure("ns_per_prefix"));
        let ours = ours.context("a line without a figure")?;
        for peer in ["floor", "netgauze"] {
            if let Some(theirs) = figure(peer) {
                rows.push(
                    Row::times(&format!("codec: {name}, a prefix"), &ours, peer, &theirs)
                        .unit("ns"),
                );
            }
        }
    }
    Ok(rows)
}
