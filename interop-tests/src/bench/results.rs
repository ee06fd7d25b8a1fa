//! A run as a file: `results.json`, which whoever believes no table may read.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chart::Chart;
use super::report::Row;

/// Everything of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// When it ended, in UTC.
    pub taken: String,
    /// What was measured: the commit, as git describes it.
    pub commit: String,
    /// Whether it was the short form.
    pub quick: bool,
    /// How long it took, in seconds.
    pub seconds: u64,
    /// What it was measured on.
    pub machine: Value,
    /// Who was measured.
    pub versions: Value,
    /// The figures.
    pub results: Vec<Row>,
    /// What is drawn of them.
    pub charts: Vec<Chart>,
    /// What they do not say.
    pub notes: Vec<String>,
}

impl Results {
    /// Reads a run.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("{}: `make bench` writes it", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no run", path.display()))
    }

    /// Writes a run, and its charts beside it.
    pub fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| path.display().to_string())?;
        self.draw(path.parent().context("a file without a directory")?)
    }

    /// Draws the charts.
    pub fn draw(&self, dir: &Path) -> Result<()> {
        for chart in &self.charts {
            let path = dir.join(format!("{}.svg", chart.name));
            fs::write(&path, chart.svg()).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// How many targets there are, and how many of them are met.
    pub fn targets(&self) -> (usize, usize) {
        let judged: Vec<_> = self.results.iter().filter_map(|row| row.met).collect();
        (judged.len(), judged.iter().filter(|met| **met).count())
    }
}
