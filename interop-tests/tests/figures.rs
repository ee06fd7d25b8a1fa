//! docs/benchmarks.md says what the recorded run says, and nothing that a hand wrote.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by ending there")]

use std::fs;
use std::path::Path;

use rack::bench::document::filled;
use rack::bench::results::Results;

#[test]
fn every_table_and_chart_is_of_the_recorded_run() {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"));
    let text = fs::read_to_string(docs.join("benchmarks.md")).unwrap();
    let run = Results::read(&docs.join("benchmarks/recorded.json")).unwrap();
    let cure = "`make bench` and `make bench-record` write it";
    assert!(filled(&text, &run).unwrap() == text, "docs/benchmarks.md: {cure}");
    for chart in &run.charts {
        let path = format!("benchmarks/{}.svg", chart.name);
        let drawn = fs::read_to_string(docs.join(&path)).unwrap();
        assert!(drawn == chart.svg(), "docs/{path}: {cure}");
        assert!(text.contains(&path), "docs/benchmarks.md does not show {path}");
    }
}
