//! What the benchmarks share: figures, the table of ratios, and the machine
//! that they were measured on.
//!
//! A benchmark decides what to measure and against whom. Here it only becomes
//! medians, one aligned table and one JSON file, the same for all of them.

pub mod agent;
pub mod bgp;
pub mod machine;
pub mod policy;
pub mod report;
pub mod runtime;
pub mod samples;
