//! What must hold for any message: what was written reads back equal, no limit is passed, no input
//! is too much, and two other implementations agree.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod generate;
mod netgauze;
mod round_trip;
mod total;
mod zettabgp;

use proptest::test_runner::Config;

/// So many cases, or PROPTEST_CASES. Nothing is written beside the sources; a failure prints the
/// smallest case.
fn config(cases: u32) -> Config {
    let asked = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases };
    Config { cases, failure_persistence: None, ..asked }
}
