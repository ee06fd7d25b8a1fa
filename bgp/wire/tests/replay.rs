//! The corpus of the fuzz targets, replayed: what once was found stays found.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    unreachable_pub,
    reason = "a test fails by panicking, and the targets are a library elsewhere"
)]

#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;

#[test]
fn the_corpus_of_every_target_is_replayed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, _) in targets::TARGETS {
        let files: Vec<_> = std::fs::read_dir(root.join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(files.len() >= 2, "{name} has {} files", files.len());
        for file in files {
            targets::run(name, &std::fs::read(file).unwrap());
        }
    }
}

/// A target that nobody builds is one that nobody runs.
#[test]
fn every_target_is_a_binary() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for (name, _) in targets::TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        let main = std::fs::read_to_string(root.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(main.contains(&format!("run(\"{name}\", data)")), "{name}");
    }
    let count = std::fs::read_dir(root.join("fuzz_targets")).unwrap().count();
    assert_eq!(count, targets::TARGETS.len());
}
