//! The benchmark suite, but for the order in which things are measured (`bin/bench`).
//!
//! | module | what it holds |
//! |---|---|
//! | [`samples`], [`report`] | measurements become lines: flock, a peer, their ratio, a target |
//! | [`table`], [`chart`], [`document`] | lines become a table, pictures, the tables of docs/benchmarks.md |
//! | [`results`], [`regression`] | a run as a file, and whether it is worse than the recorded one |
//! | [`machine`] | what was measured on |
//! | [`instructions`], [`size`] | what valgrind counts; bytes on disk |
//! | [`bgp`], [`agent`], [`policy`], [`runtime`] | the stopwatches |

pub mod agent;
pub mod bgp;
pub mod chart;
pub mod document;
pub mod instructions;
pub mod machine;
pub mod policy;
pub mod regression;
pub mod report;
pub mod results;
pub mod runtime;
pub mod samples;
pub mod size;
pub mod table;
