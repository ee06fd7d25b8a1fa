//! The table, and the same as JSON.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::machine;
use super::samples::Samples;

/// What a ratio must be.
#[derive(Debug, Clone)]
pub struct Target {
    label: String,
    limit: f64,
    at_most: bool,
}

impl Target {
    /// At most this.
    pub fn at_most(label: &str, limit: f64) -> Self {
        Self { label: format!("<= {label}"), limit, at_most: true }
    }

    /// At least this.
    pub fn at_least(label: &str, limit: f64) -> Self {
        Self { label: format!(">= {label}"), limit, at_most: false }
    }

    fn met(&self, ratio: f64) -> bool {
        if self.at_most { ratio <= self.limit } else { ratio >= self.limit }
    }
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    name: String,
    unit: &'static str,
    flock: Option<f64>,
    spread: Option<(f64, f64)>,
    peer: Option<(String, f64)>,
    peer_spread: Option<(f64, f64)>,
    ratio: Option<f64>,
    /// What the target is about, where it is not the ratio.
    judged: Option<f64>,
    target: Option<Target>,
}

impl Row {
    /// A figure that is not flock's own.
    pub fn floor(name: &str, what: &str, samples: &Samples) -> Self {
        Self {
            name: name.to_owned(),
            unit: "ms",
            flock: None,
            spread: None,
            peer: Some((what.to_owned(), samples.median())),
            peer_spread: Some(spread(samples)),
            ratio: None,
            judged: None,
            target: None,
        }
    }

    /// Times: the ratio is flock's to the peer's, less is better.
    pub fn times(name: &str, ours: &Samples, peer: &str, theirs: &Samples) -> Self {
        Self {
            flock: Some(ours.median()),
            spread: Some(spread(ours)),
            ratio: Some(ours.median() / theirs.median()),
            ..Self::floor(name, peer, theirs)
        }
    }

    /// Rates: the ratio is flock's to the peer's, more is better.
    pub fn rates(name: &str, ours: &Samples, peer: &str, theirs: &Samples) -> Self {
        Self { unit: "/s", ..Self::times(name, ours, peer, theirs) }
    }

    /// What more pods cost each of the two; the target is for flock's own.
    pub fn growth(name: &str, ours: f64, peer: &str, theirs: f64) -> Self {
        Self {
            name: name.to_owned(),
            unit: "x",
            flock: Some(ours),
            spread: None,
            peer: Some((peer.to_owned(), theirs)),
            peer_spread: None,
            ratio: Some(ours / theirs),
            judged: Some(ours),
            target: None,
        }
    }

    /// A figure of flock's with no peer beside it; the target is for the figure.
    pub fn own(name: &str, ours: &Samples) -> Self {
        Self {
            name: name.to_owned(),
            unit: "ms",
            flock: Some(ours.median()),
            spread: Some(spread(ours)),
            peer: None,
            peer_spread: None,
            ratio: None,
            judged: Some(ours.median()),
            target: None,
        }
    }

    /// What the figures are in, where it is not milliseconds.
    pub fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Makes the target one for this figure and not for the ratio.
    pub fn judged(self, figure: f64) -> Self {
        Self { judged: Some(figure), ..self }
    }

    /// Takes the floor off both sides before they are compared.
    pub fn net_of(mut self, floor: &Samples) -> Self {
        let floor = floor.median();
        self.name.push_str(" (ratio net)");
        let both = self.flock.zip(self.peer.as_ref());
        self.ratio = both.map(|(flock, (_, peer))| (flock - floor) / (peer - floor));
        self
    }

    /// Makes the target one for what flock takes beyond the floor.
    pub fn judged_beyond(mut self, floor: &Samples) -> Self {
        self.judged = self.flock.map(|flock| flock - floor.median());
        self
    }

    /// What the ratio must be.
    pub fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    fn met(&self) -> Option<bool> {
        Some(self.target.as_ref()?.met(self.judged.or(self.ratio)?))
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "unit": self.unit,
            "flock": self.flock,
            "peerName": self.peer.as_ref().map(|(name, _)| name),
            "peer": self.peer.as_ref().map(|(_, value)| value),
            "ratio": self.ratio,
            "target": self.target.as_ref().map(|target| &target.label),
            "met": self.met(),
            "flockP10P90": self.spread,
            "peerP10P90": self.peer_spread,
        })
    }

    fn cells(&self) -> [String; 9] {
        let range = |spread: Option<(f64, f64)>| {
            // A single measurement has no spread.
            let spread = spread.filter(|(low, high)| low < high);
            spread.map(|(low, high)| format!("{}..{}", short(low), short(high))).unwrap_or_default()
        };
        [
            self.name.clone(),
            self.flock.map(|at| format!("{} {}", short(at), self.unit)).unwrap_or_default(),
            range(self.spread),
            self.peer.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
            self.peer
                .as_ref()
                .map(|(_, at)| format!("{} {}", short(*at), self.unit))
                .unwrap_or_default(),
            range(self.peer_spread),
            self.ratio.map(short).unwrap_or_default(),
            self.target.as_ref().map(|target| target.label.clone()).unwrap_or_default(),
            self.met().map(|met| if met { "yes" } else { "NO" }.to_owned()).unwrap_or_default(),
        ]
    }
}

/// All lines and what they were measured on.
#[derive(Debug)]
pub struct Report {
    benchmark: &'static str,
    machine: Value,
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Report {
    /// An empty report.
    pub fn new(benchmark: &'static str, machine: Value) -> Self {
        Self { benchmark, machine, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a line.
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds something that the figures do not say, such as what was left out.
    pub fn note(&mut self, note: String) {
        eprintln!("note: {note}");
        self.notes.push(note);
    }

    /// Whether every target was met.
    pub fn all_met(&self) -> bool {
        self.rows.iter().all(|row| row.met() != Some(false))
    }

    /// Prints one aligned table.
    pub fn print(&self) {
        let head = ["", "flock", "p10..p90", "peer", "its", "p10..p90", "ratio", "target", "met"];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..head.len()).map(width).collect();
        println!();
        for line in &lines {
            let mut text = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // Names to the left, figures to the right.
                let left = matches!(column, 0 | 3 | 7 | 8);
                let cell =
                    if left { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
                text.push_str(&cell);
            }
            println!("{}", text.trim_end());
        }
        for note in &self.notes {
            println!("note: {note}");
        }
    }

    /// Writes the JSON.
    pub fn write(&self, path: &Path) -> Result<()> {
        let results: Vec<_> = self.rows.iter().map(Row::json).collect();
        let report = json!({
            "benchmark": self.benchmark,
            "machine": self.machine,
            "loadAfter": machine::load(),
            "results": results,
            "notes": self.notes,
        });
        Ok(fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?)
    }
}

fn spread(samples: &Samples) -> (f64, f64) {
    (samples.quantile(0.1), samples.quantile(0.9))
}

/// The digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.1}"),
        small if small >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
