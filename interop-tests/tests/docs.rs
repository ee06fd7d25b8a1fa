//! What the documents say of the sources is true: every file that `docs/rfc.md` names is there, and
//! every test that it names is in the file beside it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_claim_about_a_standard_has_its_code_and_its_test() {
    let text = fs::read_to_string(root().join("docs/rfc.md")).unwrap();
    let mut wrong = Vec::new();
    let mut tests = 0;
    for row in text.lines().filter(|line| line.starts_with('|') && line.contains('`')) {
        let columns: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [.., places, shown] = columns.as_slice() else { panic!("{row}") };
        for place in quoted(places).filter(|word| word.contains('/')) {
            if !root().join(place).exists() {
                wrong.push(format!("there is no {place}: {row}"));
            }
        }
        let mut source = String::new();
        for word in quoted(shown) {
            if word.contains('/') {
                source = fs::read_to_string(root().join(word)).unwrap_or_default();
                if source.is_empty() {
                    wrong.push(format!("there is no {word}: {row}"));
                }
            } else {
                tests += 1;
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                if !source.split(|c| !is_part(c)).any(|part| part == word) {
                    wrong.push(format!("no test {word} where it should be: {row}"));
                }
            }
        }
    }
    assert!(tests > 60, "only {tests} tests are named");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
