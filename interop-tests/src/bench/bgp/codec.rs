//! The codec's own benchmark, where it was built: one JSON object a line, taken
//! into the table as it is.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::report::Row;
use crate::bench::samples::Samples;
use crate::binaries::{build_dir, run};

/// A row beside the floor and one beside the other codec for each line of what it says.
pub fn rows() -> Result<Vec<Row>> {
    let program = build_dir()?.join("examples/codec-bench");
    let said = run(&mut Command::new(program))?;
    let mut rows = Vec::new();
    for line in said.lines().filter(|line| line.starts_with('{')) {
        let figures: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let name = figures.get("name").and_then(Value::as_str).context("a line without a name")?;
        let figure = |key: &str| Some(Samples::one(figures.get(key)?.as_f64()?));
        let ours = figure("flock").context("a line without a figure")?;
        for peer in ["floor", "netgauze"] {
            if let Some(theirs) = figure(peer) {
                rows.push(Row::beside(&format!("codec: {name}"), &ours, peer, &theirs).unit("ns"));
            }
        }
    }
    Ok(rows)
}
