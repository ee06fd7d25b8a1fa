//! What the documents say to the agent, it understands: every command line parses, every manifest is
//! accepted, and the references have every field, default, flag and annotation that there is, and no
//! other. What commands say when they run is checked in `interop-tests/tests/docs_run.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../../../interop-tests/src/docs/markdown.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the one reader of documents; not all of it is needed here"
)]
mod markdown;

#[path = "../apiserver/mod.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod apiserver;

mod commands;
mod manifests;
mod references;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The documents for those who run flock.
fn documents() -> Vec<(String, String)> {
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let names = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    let all = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"];
    all.map(str::to_owned)
        .into_iter()
        .chain(pages)
        .map(|path| (path.clone(), read(&path)))
        .collect()
}

fn nothing_wrong(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The rows of tables whose first column is code: that, and the other columns.
fn rows<'a>(text: &'a str, heading: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let part =
        text.split(&format!("\n{heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let part = part.split("\n#").next().unwrap();
    let cells =
        |line: &'a str| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
    let rows = part.lines().filter(|line| line.starts_with("| `")).map(cells);
    rows.map(|cells| (cells[0].trim_matches('`'), cells[1..].to_vec())).collect()
}
